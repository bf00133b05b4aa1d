//! What a machine's user data say of the cluster that it is to be part of; pure.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::dark::Dark;
use crate::yaml;

/// Where Cluster API's bootstrap provider puts kubeadm's configuration.
pub(super) const INIT: &str = "/run/kubeadm/kubeadm.yaml";
pub(super) const JOIN: &str = "/run/kubeadm/kubeadm-join-config.yaml";
/// What kubeadm reads lies in these; other files concern a guest that is not there.
const FOLDERS: [&str; 2] = ["/etc/kubernetes/", "/run/kubeadm/"];
/// What a control plane cannot make by itself.
const KEYS: [&str; 4] = [
    "/etc/kubernetes/pki/ca.crt",
    "/etc/kubernetes/pki/ca.key",
    "/etc/kubernetes/pki/sa.key",
    "/etc/kubernetes/pki/front-proxy-ca.key",
];

/// A file that cloud-init would write. It may hold keys.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

/// What the machine becomes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Role {
    /// The first control plane; with kubeadm's documents.
    Init { cluster: Value, init: Value },
    /// A further one.
    ControlPlane,
    /// None of these.
    Worker,
}

/// How the machine presents itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Registration {
    pub(super) name: String,
    pub(super) taints: Vec<Value>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) provider_id: Option<String>,
}

/// Everything that user data say of it.
#[derive(Clone, PartialEq)]
pub(super) struct Bootstrap {
    pub(super) files: Vec<File>,
    pub(super) role: Role,
    /// Where the cluster is found, `host:port`, which tells clusters apart.
    pub(super) endpoint: String,
    /// The port of its API server.
    pub(super) port: u16,
    /// The token that it shows to its cluster; empty for the first control plane.
    pub(super) token: String,
    pub(super) registration: Registration,
}

/// What kubeadm's documents say.
struct Said {
    role: Role,
    endpoint: String,
    port: u16,
    token: String,
    node: Value,
}

impl Bootstrap {
    /// Reads user data; `hostname` is the name of a machine to which they give none.
    pub(super) fn read(userdata: &Map<String, Value>, hostname: &str) -> Result<Self, Dark> {
        let written = userdata.get("write_files").and_then(Value::as_array);
        let ours = |file: &&Value| FOLDERS.iter().any(|one| text(file, "path").starts_with(one));
        let files = written.into_iter().flatten().filter(ours).map(File::read);
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let Said { role, endpoint, port, token, node } = said(&files)?;
        if role != Role::Worker {
            for key in KEYS {
                let there = files.iter().any(|file| file.path == key && !file.content.is_empty());
                there.then_some(()).ok_or(Dark::Lacks(key))?;
            }
        }
        let registration = Registration::read(&node, role != Role::Worker, hostname);
        Ok(Self { files, role, endpoint, port, token, registration })
    }

    /// Whether kubeadm is told of an etcd that is not the machines' own.
    pub(super) fn has_etcd_outside(&self) -> bool {
        match &self.role {
            Role::Init { cluster, .. } => !cluster["etcd"]["external"].is_null(),
            // Who joins has a client's certificate for it among its files.
            _ => self.files.iter().any(|file| file.path.ends_with("/apiserver-etcd-client.key")),
        }
    }

    /// The certificate of its cluster's authority, where it has it.
    pub(super) fn authority(&self) -> Option<&[u8]> {
        let file = self.files.iter().find(|file| file.path == KEYS[0]);
        file.map(|file| file.content.as_slice())
    }
}

fn said(files: &[File]) -> Result<Said, Dark> {
    let documents = |path: &'static str| -> Result<Option<Vec<Value>>, Dark> {
        let Some(file) = files.iter().find(|file| file.path == path) else { return Ok(None) };
        let said = std::str::from_utf8(&file.content).map_err(|_| Dark::Unreadable(path))?;
        yaml::from_multiple(said, path).map(Some).map_err(|_| Dark::Unreadable(path))
    };
    let of_kind = |all: &[Value], kind: &str| all.iter().find(|one| one["kind"] == kind).cloned();
    if let Some(all) = documents(INIT)? {
        let cluster = of_kind(&all, "ClusterConfiguration");
        let cluster = cluster.ok_or(Dark::Lacks("a ClusterConfiguration"))?;
        let init = of_kind(&all, "InitConfiguration").unwrap_or_else(
            || json!({"apiVersion": cluster["apiVersion"], "kind": "InitConfiguration"}),
        );
        let endpoint = text(&cluster, "controlPlaneEndpoint").to_owned();
        let node = init["nodeRegistration"].clone();
        filled(&endpoint, "a controlPlaneEndpoint")?;
        let (port, token) = (bind_port(&init), String::new());
        return Ok(Said { role: Role::Init { cluster, init }, endpoint, port, token, node });
    }
    let all = documents(JOIN)?.ok_or(Dark::Lacks("a configuration of kubeadm"))?;
    let join = of_kind(&all, "JoinConfiguration").ok_or(Dark::Lacks("a JoinConfiguration"))?;
    let discovery = &join["discovery"]["bootstrapToken"];
    let token = text(discovery, "token").to_owned();
    filled(&token, "a bootstrap token")?;
    let endpoint = text(discovery, "apiServerEndpoint").to_owned();
    filled(&endpoint, "an apiServerEndpoint")?;
    let role = if join["controlPlane"].is_null() { Role::Worker } else { Role::ControlPlane };
    let (port, node) = (bind_port(&join["controlPlane"]), join["nodeRegistration"].clone());
    Ok(Said { role, endpoint, port, token, node })
}

/// The port of the API server, 6443 unless somebody says otherwise.
fn bind_port(of: &Value) -> u16 {
    let said = of["localAPIEndpoint"]["bindPort"].as_u64().and_then(|port| port.try_into().ok());
    said.filter(|port| *port != 0).unwrap_or(6443)
}

fn filled(text: &str, what: &'static str) -> Result<(), Dark> {
    if text.is_empty() { Err(Dark::Lacks(what)) } else { Ok(()) }
}

impl File {
    fn read(of: &Value) -> Result<Self, Dark> {
        let (path, content) = (text(of, "path").to_owned(), text(of, "content"));
        let content = match text(of, "encoding") {
            "" | "text/plain" => content.as_bytes().to_vec(),
            "b64" | "base64" => BASE64_STANDARD
                .decode(content.split_whitespace().collect::<String>())
                .map_err(|_| Dark::Encoding(path.clone()))?,
            _ => return Err(Dark::Encoding(path)),
        };
        let mode = u32::from_str_radix(text(of, "permissions"), 8).unwrap_or(0o644);
        if path.split('/').any(|step| step == "..") {
            return Err(Dark::Encoding(path));
        }
        Ok(Self { path, mode, content })
    }
}

impl Registration {
    fn read(node: &Value, control_plane: bool, hostname: &str) -> Self {
        let named = text(node, "name");
        let own = node["taints"].as_array().cloned();
        let usual = || {
            let key = "node-role.kubernetes.io/control-plane";
            if control_plane { vec![json!({"key": key, "effect": "NoSchedule"})] } else { vec![] }
        };
        let labels = argument(node, "node-labels").unwrap_or_default();
        let labels = labels.split(',').filter_map(|one| one.split_once('='));
        Self {
            name: if named.is_empty() { hostname.to_owned() } else { named.to_owned() },
            taints: own.unwrap_or_else(usual),
            labels: labels.map(|(key, value)| (key.trim().to_owned(), value.to_owned())).collect(),
            provider_id: argument(node, "provider-id"),
        }
    }
}

/// An argument of the kubelet: a list of pairs since v1beta4 of kubeadm's configuration, a
/// mapping before.
fn argument(node: &Value, name: &str) -> Option<String> {
    let all = &node["kubeletExtraArgs"];
    let pairs = all.as_array().into_iter().flatten();
    let listed = pairs.filter(|pair| pair["name"] == name).map(|pair| &pair["value"]).next_back();
    listed.or_else(|| all.get(name)).and_then(Value::as_str).map(str::to_owned)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n\
        controlPlaneEndpoint: 127.1.2.3:6443\nkubernetesVersion: v1.36.3\n---\n\
        apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  \
        name: c-1\n  kubeletExtraArgs:\n  - {name: node-labels, value: 'a=b,c='}\n";
    const WORKER: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n\
        discovery: {bootstrapToken: {apiServerEndpoint: '127.1.2.3:6443', token: a.b}}\n\
        nodeRegistration:\n  taints: [{key: t, effect: NoSchedule}]\n  kubeletExtraArgs:\n    \
        provider-id: vco://x/1\n";

    fn read(files: &[(&str, &str)]) -> Result<Bootstrap, Dark> {
        let files: Vec<Value> = files
            .iter()
            .map(|(path, content)| json!({"path": path, "content": content, "permissions": "0600"}))
            .collect();
        let data = json!({"write_files": files, "runcmd": ["kubeadm init"]});
        Bootstrap::read(data.as_object().unwrap(), "host")
    }

    fn with_keys<'a>(path: &'a str, said: &'a str) -> Vec<(&'a str, &'a str)> {
        KEYS.iter().map(|key| (*key, "pem")).chain([(path, said)]).collect()
    }

    #[test]
    fn each_role_is_read_from_its_configuration() {
        let first = read(&with_keys(INIT, CLUSTER)).unwrap();
        assert!(matches!(&first.role, Role::Init { cluster, .. }
            if cluster["kubernetesVersion"] == "v1.36.3"));
        assert_eq!((first.endpoint.as_str(), first.files[0].mode), ("127.1.2.3:6443", 0o600));
        let shown = &first.registration;
        assert_eq!((shown.name.as_str(), shown.taints.len(), &*shown.labels["a"]), ("c-1", 1, "b"));

        let worker = read(&[(JOIN, WORKER)]).unwrap();
        assert_eq!((worker.role, worker.endpoint.as_str()), (Role::Worker, "127.1.2.3:6443"));
        assert_eq!(worker.registration.name, "host");
        assert_eq!(worker.registration.taints[0]["key"], "t");
        assert_eq!(worker.registration.provider_id.as_deref(), Some("vco://x/1"));

        let further = format!("{WORKER}controlPlane: {{}}\n");
        let further = read(&with_keys(JOIN, &further)).unwrap();
        assert_eq!(further.role, Role::ControlPlane);
    }

    #[test]
    fn what_kubeadm_needs_and_is_not_there_is_named() {
        let lacking = |files: &[(&str, &str)]| read(files).err().unwrap().to_string();
        assert!(lacking(&[]).contains("a configuration of kubeadm"));
        assert!(lacking(&[(INIT, CLUSTER)]).contains("pki/ca.crt"));
        assert!(lacking(&with_keys(INIT, "kind: InitConfiguration")).contains("ClusterConfig"));
        assert!(lacking(&[(JOIN, "kind: JoinConfiguration")]).contains("token"));
        assert!(lacking(&[(JOIN, "a: b: c")]).contains("cannot be read"));
    }

    #[test]
    fn no_file_leaves_its_folder() {
        let out = read(&[("/run/kubeadm/../../etc/passwd", ""), (JOIN, WORKER)]);
        assert!(out.err().unwrap().to_string().contains("passwd"));
    }
}
