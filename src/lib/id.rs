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
text_id!(
    /// A server pool of a cloudspace: opaque text.
    ServerPoolId,
    "server pool"
);
text_id!(
    /// A host in a server pool: opaque text.
    HostId,
    "host"
);
text_id!(
    /// A load balancer of a cloudspace: opaque text.
    LoadBalancerId,
    "load balancer"
);
text_id!(
    /// A port forward of a cloudspace: opaque text; changing the forward may change it
    /// (vco-api.md 7.1, PU).
    PortForwardId,
    "port forward"
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
number_id!(
    /// A disk of a location.
    DiskId,
    "disk"
);

/// How Kubernetes names a machine of this cloud: `vco://<location>/<vm id>`. There is one form,
/// for ever: nodes and machines are matched by it as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProviderId {
    /// Where the machine is; a VM's number alone says nothing.
    pub location: Location,
    /// The machine.
    pub vm: VmId,
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vco://{}/{}", self.location, self.vm)
    }
}

impl FromStr for ProviderId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let why = "is not of the form vco://<location>/<vm id>";
        let bad = || BadId { kind: "provider id", text: text.chars().take(80).collect(), why };
        let (location, vm) =
            text.strip_prefix("vco://").and_then(|rest| rest.split_once('/')).ok_or_else(bad)?;
        let location = location.parse().map_err(|_| bad())?;
        let id = Self { location, vm: vm.parse().map_err(|_| bad())? };
        // Another spelling of the number would be another name to Kubernetes.
        if id.to_string() == text { Ok(id) } else { Err(bad()) }
    }
}

impl TryFrom<String> for ProviderId {
    type Error = BadId;

    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl From<ProviderId> for String {
    fn from(id: ProviderId) -> Self {
        id.to_string()
    }
}

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

    #[test]
    fn a_provider_id_has_one_form() {
        let id: ProviderId = "vco://be-mac-dc01-001/7".parse().unwrap();
        assert_eq!((id.location.as_str(), id.vm), ("be-mac-dc01-001", VmId(7)));
        assert_eq!(id.to_string(), "vco://be-mac-dc01-001/7");
        for bad in [
            "",
            "7",
            "vco:///7",
            "vco://be-1",
            "vco://be-1/",
            "vco://be-1/07",
            "vco://be-1/+7",
            "vco://be-1/7/8",
            "vco://be 1/7",
            "VCO://be-1/7",
            "aws://be-1/7",
        ] {
            assert!(bad.parse::<ProviderId>().is_err(), "{bad}");
        }
    }
}
