//! Where this node's static pods are described: the usual folder, or one that somebody has named.

use std::path::{Path, PathBuf};

use super::Error;
use super::kubeadm::{self, ApiServer, EtcdNode, MANIFESTS};

/// The folder of static pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifests(Option<PathBuf>);

impl Manifests {
    /// The folder that was named; none: kubeadm's.
    #[must_use]
    pub const fn new(named: Option<PathBuf>) -> Self {
        Self(named)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(MANIFESTS))
    }

    /// The etcd member that is described here; none where nobody said that there is one.
    ///
    /// # Errors
    /// The file cannot be read, or the folder was named and has none.
    pub fn etcd(&self) -> Result<Option<EtcdNode>, Error> {
        match (&self.0, self.any_etcd()?) {
            (Some(folder), None) => Err(Error::declined(
                format!("there is no etcd.yaml in {}", folder.display()),
                "name the folder that this node's manifests are in with --manifests DIR, or leave \
                 that out on a machine that has none",
            )),
            (_, found) => Ok(found),
        }
    }

    /// The same where a folder that was named may have none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn any_etcd(&self) -> Result<Option<EtcdNode>, Error> {
        kubeadm::etcd(&self.folder().join("etcd.yaml"))
    }

    /// The API server that is described here, if one is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn api_server(&self) -> Result<Option<ApiServer>, Error> {
        kubeadm::api_server(&self.folder().join("kube-apiserver.yaml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Class, Fault as _};

    #[test]
    fn a_folder_that_was_named_must_describe_a_member() {
        let folder = tempfile::tempdir().unwrap();
        let named = Manifests::new(Some(folder.path().to_owned()));
        let error = named.etcd().unwrap_err();
        assert!(error.to_string().contains("there is no etcd.yaml in /"), "{error}");
        assert_eq!(error.class(), Class::Refused);
        let text = "spec: {containers: [{name: etcd, command: [etcd, --name=a, --data-dir=/d]}]}";
        std::fs::write(folder.path().join("etcd.yaml"), text).unwrap();
        assert_eq!(named.etcd().unwrap().unwrap().name, "a");
        assert_eq!(Manifests::default().folder(), Path::new("/etc/kubernetes/manifests"));
    }
}
