//! Why a machine that has booted does not become a node.

use std::io;
use std::path::PathBuf;

/// What keeps a machine dark. In life its console would tell; here the log does.
#[derive(Debug, thiserror::Error)]
pub(super) enum Dark {
    /// Its user data are not enough.
    #[error("its user data lack {0}")]
    Lacks(&'static str),
    /// Its user data are no YAML where they should be.
    #[error("{0} in its user data cannot be read")]
    Unreadable(&'static str),
    /// A file that cannot be unpacked, or is to be written outside its folder.
    #[error("its user data have {0} in a form that cannot be unpacked here")]
    Encoding(String),
    /// A file of its disk cannot be written.
    #[error("cannot write {}", path.display())]
    Disk {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It cannot be put on a network.
    #[error("it gets no network")]
    Network(#[source] io::Error),
    /// kubeadm said no.
    #[error("kubeadm {phase} ended with an error: {said}")]
    Kubeadm {
        /// Its command line.
        phase: String,
        /// The end of what it said.
        said: String,
    },
    /// What kubeadm wrote is not what is known of it.
    #[error("{0} is not as kubeadm writes it")]
    Strange(&'static str),
    /// A server of its control plane ends or never answers.
    #[error("its API server does not answer: {0}")]
    Silent(String),
    /// Its cluster is not there, or has no such token.
    #[error("no API server answers at {0}, or it does not know the machine's token")]
    NoCluster(String),
    /// The cluster's API server refuses something.
    #[error("the cluster's API server refuses {what}")]
    Api {
        /// Such as `the Node`.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Dark {
    pub(super) fn api(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// It and its causes in one line.
    pub(super) fn whole(&self) -> String {
        let mut said = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(one) = cause {
            said = format!("{said}: {one}");
            cause = one.source();
        }
        said
    }
}
