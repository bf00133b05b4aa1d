//! Versions of etcd, as binaries, image tags and the database itself write them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version of etcd. Compared by line (major and minor): patch releases of one line read each
/// other's data.
#[derive(Debug, Clone, Copy)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number; 0 where none was given.
    pub patch: u32,
}

impl Version {
    /// A line of releases.
    #[must_use]
    pub const fn line(major: u32, minor: u32) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// Major and minor.
    #[must_use]
    pub const fn minor(&self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.minor() == other.minor()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.minor().cmp(&other.minor())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text that is no version of etcd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version of etcd, such as 3.6 or 3.5.24-0")]
pub struct NoVersion(String);

impl FromStr for Version {
    type Err = NoVersion;

    /// `3.6`, `v3.6.8`, `3.5.24-0` (a tag of kubeadm's), `3.8.0-alpha.0`.
    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let fail = || NoVersion(text.chars().take(40).collect());
        let plain = text.trim().trim_start_matches('v');
        let plain = plain.split(['-', '+']).next().unwrap_or_default();
        let numbers: Result<Vec<u32>, _> = plain.split('.').map(str::parse).collect();
        match numbers.map_err(|_| fail())?[..] {
            [major, minor] => Ok(Self::line(major, minor)),
            [major, minor, patch] => Ok(Self { major, minor, patch }),
            _ => Err(fail()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        for (text, shown) in [
            ("3.6", "3.6.0"),
            ("v3.5.21", "3.5.21"),
            ("3.5.24-0", "3.5.24"),
            ("3.8.0-alpha.0", "3.8.0"),
            (" 3.4.23+deb\n", "3.4.23"),
        ] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), shown);
        }
        for text in ["", "3", "latest", "3.6.1.2", "3.x", "-1.2", "3..1"] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_the_line_counts() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert_eq!(version("3.6.1"), version("3.6.16"));
        assert!(version("3.5.99") < version("3.6.0") && version("3.10") > version("3.9"));
    }
}
