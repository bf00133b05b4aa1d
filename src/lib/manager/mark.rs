//! What our things in the cloud are called, and how they are known to be ours.
//!
//! There are no tags: a mark stands in the description where there is one, and in the name
//! elsewhere (vco-api.md 0.3). What carries no mark of this cluster is never changed nor deleted.

use std::fmt;
use std::str::FromStr;

/// The random id of a cluster: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusterId(String);

/// That a text is no id of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not 16 hexadecimal digits")]
pub struct BadClusterId(String);

impl FromStr for ClusterId {
    type Err = BadClusterId;

    fn from_str(text: &str) -> Result<Self, BadClusterId> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 16 && text.bytes().all(digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadClusterId(text.chars().take(40).collect()))
        }
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ClusterId {
    /// A new one.
    ///
    /// # Errors
    /// The machine gives no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        getrandom::u64().map(|number| Self(format!("{number:016x}")))
    }

    /// The mark of a thing that has a description.
    #[must_use]
    pub fn mark(&self, kind: &str, name: &str) -> String {
        format!("capvco/{self}/{kind}/{name}")
    }

    /// Whether a description is that mark, alone or followed by `;` and more.
    #[must_use]
    pub fn is_mark(&self, description: Option<&str>, kind: &str, name: &str) -> bool {
        description.is_some_and(|text| first(text) == self.mark(kind, name))
    }

    /// Whether a description is any mark of this cluster.
    #[must_use]
    pub fn marked(&self, description: Option<&str>) -> bool {
        description.is_some_and(|text| first(text).starts_with(&format!("capvco/{self}/")))
    }

    /// The name of a thing that has no description.
    #[must_use]
    pub fn name(&self, what: &str) -> String {
        format!("capvco-{self}-{what}")
    }

    /// The id of the cluster that gave this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        name.strip_prefix("capvco-")?.split_once('-')?.0.parse().ok()
    }

    /// Whether a name is one that this cluster gives.
    #[must_use]
    pub fn named(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| name.starts_with(&format!("capvco-{self}-")))
    }
}

/// A mark may be followed by what test runs add to it.
fn first(description: &str) -> &str {
    description.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ClusterId {
        "0123456789abcdef".parse().unwrap()
    }

    #[test]
    fn only_this_clusters_marks_are_ours() {
        let mark = id().mark("vm", "a-1");
        assert_eq!(mark, "capvco/0123456789abcdef/vm/a-1");
        assert!(id().is_mark(Some(&mark), "vm", "a-1") && id().marked(Some(&mark)));
        assert!(id().is_mark(Some("capvco/0123456789abcdef/vm/a-1;run=7"), "vm", "a-1"));
        for other in [
            None,
            Some(""),
            Some("a-1"),
            Some("capvco/0123456789abcdef/vm/a-11"),
            Some("capvco/0123456789abcdee/vm/a-1"),
            Some("capvco/0123456789abcdef/disk/a-1"),
        ] {
            assert!(!id().is_mark(other, "vm", "a-1"), "{other:?}");
        }
        assert!(!id().marked(Some("capvco/0123456789abcdee/vm/a-1")));
        assert!(id().named(Some("capvco-0123456789abcdef-api")));
        assert!(!id().named(Some("capvco-0123456789abcdefa-api")) && !id().named(None));
        assert_eq!(ClusterId::of_name(&id().name("a-1")), Some(id()));
        assert_eq!(ClusterId::of_name("capvco-web-1"), None);
    }

    #[test]
    fn an_id_is_what_we_make() {
        let made = ClusterId::random().unwrap();
        assert_eq!(made.to_string().parse(), Ok(made));
        for bad in ["", "x", "0123456789ABCDEF", "0123456789abcdef0", "../../0123456789"] {
            assert!(bad.parse::<ClusterId>().is_err(), "{bad}");
        }
    }
}
