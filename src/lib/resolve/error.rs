//! Why a run ended without a report.

use crate::fault::{Class, Fault};
use crate::vco;

/// Why nothing could be resolved at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked makes no sense.
    #[error("{what}")]
    Asked {
        /// What is wrong.
        what: String,
        /// What to write instead, if that is known.
        hint: Option<String>,
    },
    /// The cloud could not be asked at all.
    #[error("cannot ask the cloud")]
    Cloud(#[source] vco::Error),
    /// The customer has no location that could be asked.
    #[error("the customer {0} has no location that can host machines")]
    NoLocations(String),
    /// Ctrl-C, or a signal.
    #[error("interrupted before every location had answered")]
    Interrupted,
}

impl Error {
    pub(super) fn asked(what: impl Into<String>, hint: &str) -> Self {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Self::Asked { what: what.into(), hint }
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Self::Asked { .. } => Class::Usage,
            Self::Cloud(error) => error.class(),
            Self::NoLocations(_) => Class::NotFound,
            Self::Interrupted => Class::Interrupted,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Asked { hint, .. } => hint.iter().cloned().collect(),
            Self::Cloud(error) => error.hints(),
            Self::NoLocations(_) | Self::Interrupted => Vec::new(),
        }
    }
}
