//! What can go wrong with the cloud itself, as opposed to what it answers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::de::DeserializeOwned;

use crate::fault::{Class, Fault as Classed};
use crate::yaml;

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
    /// A file of ours does not say what it should.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// An objectspace has no S3 server.
    #[error("cannot open the objectspace {id}: {why}")]
    Objectspace {
        /// Which one.
        id: String,
        /// Why not.
        why: String,
    },
    /// Machines cannot become nodes.
    #[error("machines cannot become nodes: {0}")]
    Nodes(String),
    /// A server of ours has nothing to show.
    #[error("cannot make a certificate")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The client for imports cannot be made.
    #[error("cannot make the client that imports images")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Reads a YAML file.
    pub(super) fn reading<T: DeserializeOwned>(path: &Path, what: &'static str) -> Result<T, Self> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|source| Self::File { what, path: path.to_owned(), source })?;
        Ok(yaml::from_str(&text, &path.display().to_string())?)
    }
}

impl Classed for Error {
    fn class(&self) -> Class {
        match self {
            Self::Listen { .. } | Self::File { .. } => Class::Usage,
            Self::Yaml(error) => error.class(),
            Self::Objectspace { .. } | Self::Nodes(_) => Class::Refused,
            Self::Certificate(_) | Self::Client(_) => Class::Bug,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Listen { .. } => vec!["port 0 lets the system choose a free one".into()],
            Self::Nodes(_) => vec![
                "`scripts/test-tools kube etcd` brings kubeadm, kube-apiserver, \
                 kube-controller-manager and etcd"
                    .into(),
            ],
            _ => Vec::new(),
        }
    }
}
