//! What can go wrong before a release is written.

use crate::fault::{Class, Fault};
use crate::yaml;

/// Why there is no release.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image would not be found, or not be replaced by clusterctl's overrides.
    #[error("image {text:?} {why}")]
    Image {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The version is none.
    #[error("version {text:?} {why}")]
    Version {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something cannot be written as YAML.
    #[error("cannot write the release")]
    Yaml(#[from] yaml::Error),
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Self::Image { .. } | Self::Version { .. } => Class::Usage,
            Self::Yaml(_) => Class::Bug,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Image { .. } => vec![
                "name registry, repository and tag, such as registry.example.com/capvco/capvco:v0.1.0"
                    .into(),
            ],
            Self::Version { .. } => vec!["write it as v0.1.0; metadata.yaml has to know its minor version".into()],
            Self::Yaml(_) => Vec::new(),
        }
    }
}
