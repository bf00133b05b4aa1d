//! Which etcd is meant: by flags, or by what kubeadm has written on this node.

use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::Manifests;
use super::kubeadm::{ApiServer, EtcdNode};
use crate::etcd::Access;

/// What the flags say.
#[derive(Debug, Clone)]
pub struct Given {
    /// Members to choose from; none: this node's.
    pub endpoints: Vec<String>,
    /// The authorities of etcd's certificates.
    pub ca: Option<PathBuf>,
    /// The client certificate.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The folder of static pods.
    pub manifests: Manifests,
    /// How long a member may take to let us connect.
    pub dial_timeout: Duration,
}

/// What is known of the machine that this runs on.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Its etcd member, if it is a control-plane node with one.
    pub etcd: Option<EtcdNode>,
    /// Its API server, if it has one.
    pub api_server: Option<ApiServer>,
}

impl Given {
    /// Looks at this machine's manifests. No file is no error, unless the folder was named; a
    /// damaged one is.
    pub fn look(&self) -> Result<Node, Error> {
        let api_server = self.manifests.api_server()?;
        // The etcd of an API server may be elsewhere.
        let elsewhere = api_server.is_some() && !self.endpoints.is_empty();
        let etcd = if elsewhere { self.manifests.any_etcd() } else { self.manifests.etcd() };
        Ok(Node { etcd: etcd?, api_server })
    }

    /// How to reach etcd: what the flags say, and what `node` says where they are silent.
    #[must_use]
    pub fn access(&self, node: &Node) -> Access {
        let ours = node.etcd.as_ref();
        let endpoints = match (&self.endpoints[..], ours) {
            ([], Some(member)) => vec![member.local_endpoint()],
            // As etcdctl has it.
            ([], None) => vec!["127.0.0.1:2379".to_owned()],
            (given, _) => given.to_vec(),
        };
        // Plain HTTP asks for no certificates, and a node's own would then be an error.
        let secure = endpoints.iter().any(|endpoint| !endpoint.starts_with("http://"));
        let kubeadms = ours.filter(|member| secure && member.ca.is_some());
        let pair = match (&self.cert, &self.key) {
            (None, None) => kubeadms.map(EtcdNode::client_certificate),
            _ => None,
        };
        let (own_cert, own_key) = pair.unzip();
        Access {
            endpoints,
            ca: self.ca.clone().or_else(|| kubeadms.and_then(|member| member.ca.clone())),
            cert: self.cert.clone().or(own_cert),
            key: self.key.clone().or(own_key),
            dial_timeout: self.dial_timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(endpoints: &[&str], cert: Option<&str>) -> Given {
        Given {
            endpoints: endpoints.iter().map(|e| (*e).to_owned()).collect(),
            ca: None,
            cert: cert.map(PathBuf::from),
            key: cert.map(PathBuf::from),
            manifests: Manifests::default(),
            dial_timeout: Duration::from_secs(5),
        }
    }

    fn kubeadm_node() -> Node {
        let ca = Some("/etc/kubernetes/pki/etcd/ca.crt".into());
        Node { etcd: Some(EtcdNode { ca, ..EtcdNode::default() }), api_server: None }
    }

    #[test]
    fn flags_go_first_and_the_node_fills_in_the_rest() {
        let health = Some("/etc/kubernetes/pki/etcd/healthcheck-client.crt");
        for (endpoints, cert, node, endpoint, want) in [
            (None, None, Node::default(), "127.0.0.1:2379", None),
            (None, None, kubeadm_node(), "https://127.0.0.1:2379", health),
            (Some("https://a:1"), None, kubeadm_node(), "https://a:1", health),
            (Some("http://a:1"), None, kubeadm_node(), "http://a:1", None),
            (None, Some("/c"), kubeadm_node(), "https://127.0.0.1:2379", Some("/c")),
        ] {
            let access = given(endpoints.as_slice(), cert).access(&node);
            assert_eq!(access.endpoints, [endpoint]);
            assert_eq!(access.cert.as_deref(), want.map(std::path::Path::new), "{endpoints:?}");
        }
    }

    #[test]
    fn a_machine_without_manifests_is_no_error() {
        assert!(given(&[], None).look().unwrap().etcd.is_none());
    }
}
