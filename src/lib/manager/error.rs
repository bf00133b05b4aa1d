//! Why a pass over an object failed.

use std::time::Duration;

use crate::fault::{Class, Fault};
use crate::{template, vco};

/// Why a pass over an object failed, or the manager itself did.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud.
    #[error(transparent)]
    Cloud(#[from] vco::Error),
    /// The API server.
    #[error("{doing}")]
    Api {
        /// What was asked of it, with the object's name.
        doing: String,
        /// What it answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// The bootstrap data.
    #[error(transparent)]
    Bootstrap(#[from] template::cloud_init::Unusable),
    /// Something that somebody has to mend first; a condition says it too.
    #[error("{0}")]
    Blocked(String),
    /// The connection to the API server cannot be set up.
    #[error("{doing}")]
    Setup {
        /// What was tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another manager has taken the lease, or it could not be renewed in time.
    #[error("the lease {0} is lost: another manager may work now")]
    LeaseLost(String),
    /// A pass over an object panicked.
    #[error("a pass over {0} panicked")]
    Panicked(String),
}

impl Error {
    /// The API server failed while we were `doing` this.
    pub fn api(doing: impl Into<String>, source: kube::Error) -> Self {
        Self::Api { doing: doing.into(), source: Box::new(source) }
    }

    /// How long the other side asks to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Cloud(error) => error.retry_after(),
            _ => None,
        }
    }
}

/// The kind of failure behind an answer of the API server.
#[must_use]
pub fn class_of(error: &kube::Error) -> Class {
    let kube::Error::Api(status) = error else { return Class::Transient };
    match status.code {
        404 => Class::NotFound,
        409 => Class::Conflict,
        429 => Class::RateLimited,
        401 | 403 => Class::Auth,
        400 | 405 | 422 => Class::Invalid,
        _ => Class::Transient,
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Self::Cloud(error) => error.class(),
            Self::Api { source, .. } => class_of(source),
            Self::Bootstrap(error) => error.class(),
            Self::Blocked(_) => Class::Invalid,
            Self::Setup { .. } => Class::Usage,
            Self::LeaseLost(_) => Class::Transient,
            Self::Panicked(_) => Class::Bug,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Cloud(error) => error.hints(),
            Self::Setup { .. } => {
                vec!["name a file with --kubeconfig, or run in a cluster".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

/// What was read of the cloud; none if it is not there.
///
/// # Errors
/// Any other failure: nothing is known then.
pub fn found<T>(read: Result<T, crate::vco::Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.class() == Class::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
