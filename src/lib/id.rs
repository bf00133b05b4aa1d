//! Names and numbers of the cloud's things, as types that parse and print.
//!
//! Text ids are opaque: they are checked for being usable (not empty, no control characters,
//! no slash) and otherwise kept as they came. Number ids are unique only together with their
//! location (vco-api.md 0.3, inference), so nothing here pretends they are global.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} {why}")]
pub struct BadId {
    kind: &'static str,
    text: String,
    why: &'static str,
}

fn check(kind: &'static str, text: &str) -> Result<(), BadId> {
    let why = if text.is_empty() {
        "is empty"
    } else if text.len() > 255 {
        "is longer than 255 bytes"
    } else if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        "holds white space or a control character"
    } else if matches!(text, "." | "..") {
        "is a step in a path"
    } else if text.contains(['/', '?', '#', ',']) {
        "holds one of / ? # ,"
    } else {
        return Ok(());
    };
    Err(BadId { kind, text: text.chars().take(80).collect(), why })
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as the cloud writes it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                check($kind, text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;

            fn try_from(text: String) -> Result<Self, BadId> {
                check($kind, &text)?;
                Ok(Self(text))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                let why = "is no whole number";
                let bad = |_| BadId { kind: $kind, text: text.chars().take(80).collect(), why };
                text.parse().map(Self).map_err(bad)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

text_id!(
    /// A customer of a portal, such as `acme_1`.
    CustomerId,
    "customer"
);
text_id!(
    /// A location of a customer: one independent back-end, such as `be-mac-dc01-001`.
    Location,
    "location"
);
text_id!(
    /// A cloudspace: opaque text in which the location is encoded (vco-api.md 0.3, EX).
    CloudspaceId,
    "cloudspace"
);
text_id!(
    /// An objectspace: opaque text, perhaps with the location in it as in a cloudspace's.
    ObjectspaceId,
    "objectspace"
);
number_id!(
    /// An image of a location.
    ImageId,
    "image"
);
number_id!(
    /// A virtual machine of a location.
    VmId,
    "vm"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_print_and_refuse() {
        assert_eq!("be-mac-dc01-001".parse::<Location>().unwrap().to_string(), "be-mac-dc01-001");
        assert_eq!("42".parse::<ImageId>().unwrap(), ImageId(42));
        for bad in ["", ".", "..", "a b", "a/b", "a\u{7}", "a?b", "a,b", &"x".repeat(256)] {
            assert!(bad.parse::<Location>().is_err(), "{bad:?}");
        }
        let error = "x1".parse::<VmId>().unwrap_err();
        assert_eq!(error.to_string(), "vm \"x1\" is no whole number");
    }
}
