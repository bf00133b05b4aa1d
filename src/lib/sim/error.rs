//! What can go wrong with the cloud itself, as opposed to what it answers.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::fault::{Class, Fault as Classed};

/// Why the cloud, or its image server, does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken or not ours.
    #[error("cannot listen on {addr}")]
    Listen {
        /// What was asked for.
        addr: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file of ours cannot be written or read.
    #[error("cannot {what} {}", path.display())]
    File {
        /// Such as `write the traffic file`.
        what: &'static str,
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The client for imports cannot be made.
    #[error("cannot make the client that imports images")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Classed for Error {
    fn class(&self) -> Class {
        match self {
            Self::Listen { .. } | Self::File { .. } => Class::Usage,
            Self::Client(_) => Class::Bug,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Listen { .. } => vec!["port 0 lets the system choose a free one".into()],
            _ => Vec::new(),
        }
    }
}
