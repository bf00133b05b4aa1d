//! What a control-plane node made by kubeadm says of itself: its static pods' manifests.
//!
//! The layout is that of kubeadm 1.36: `etcd.yaml` and `kube-apiserver.yaml` below
//! `/etc/kubernetes/manifests`, every flag in the container's `command`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Error;
use crate::disk::read_file;
use crate::yaml;

/// Where kubeadm puts the manifests of static pods.
pub const MANIFESTS: &str = "/etc/kubernetes/manifests";

/// Where kubeadm puts keys and certificates.
pub const PKI: &str = "/etc/kubernetes/pki";

/// The largest manifest that is read; a static pod's has a few KiB.
const LARGEST: u64 = 1 << 20;

/// The etcd member of this node, as its manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EtcdNode {
    /// `--name`: the node's name.
    pub name: String,
    /// `--data-dir`.
    pub data_dir: PathBuf,
    /// The container's image.
    pub image: String,
    /// The etcd version that the image's tag names, such as `3.6.8`.
    pub version: Option<String>,
    /// `--advertise-client-urls`.
    pub client_urls: Vec<String>,
    /// `--listen-client-urls`.
    pub listen_urls: Vec<String>,
    /// `--initial-advertise-peer-urls`.
    pub peer_urls: Vec<String>,
    /// `--initial-cluster`: names and peer URLs, as they were when the member was made.
    pub initial_cluster: Vec<(String, String)>,
    /// `--trusted-ca-file`.
    pub ca: Option<PathBuf>,
    /// `--cert-file`.
    pub cert: Option<PathBuf>,
    /// `--listen-metrics-urls`, where `/health` is served.
    pub metrics_urls: Vec<String>,
}

impl EtcdNode {
    /// The client certificates that kubeadm makes for health checks, which may read everything.
    #[must_use]
    pub fn client_certificate(&self) -> (PathBuf, PathBuf) {
        let beside = self.ca.as_deref().and_then(Path::parent);
        let folder = beside.map_or_else(|| Path::new(PKI).join("etcd"), Path::to_owned);
        (folder.join("healthcheck-client.crt"), folder.join("healthcheck-client.key"))
    }

    /// Where this member alone is asked: its loopback address if it listens there, on the port
    /// that it listens on; else the address that it tells its clients; else etcd's default.
    #[must_use]
    pub fn local_endpoint(&self) -> String {
        let local = self.listen_urls.iter().find_map(|url| on_loopback(url));
        local.or_else(|| self.client_urls.first().cloned()).unwrap_or_else(|| {
            let scheme = if self.ca.is_some() { "https" } else { "http" };
            format!("{scheme}://127.0.0.1:2379")
        })
    }
}

/// The address on this machine of a member that listens on `url`, if that is one.
fn on_loopback(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let local = match host {
        // kubeadm's certificates name both loopback addresses.
        "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        "localhost" | "[::1]" => host,
        host if host.starts_with("127.") => host,
        _ => return None,
    };
    Some(format!("{scheme}://{local}:{port}"))
}

/// What the API server's manifest says about files that a backup should hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiServer {
    /// `--encryption-provider-config`: without it restored Secrets cannot be read.
    pub encryption_config: Option<PathBuf>,
    /// `--client-ca-file`: it lies where kubeadm puts all keys.
    pub client_ca: Option<PathBuf>,
    /// Files named by `--audit-policy-file`, `--admission-control-config-file` and
    /// `--authentication-config`, `--authorization-config`.
    pub configs: Vec<PathBuf>,
    /// `--secure-port`, where that is said.
    pub secure_port: Option<String>,
}

/// The folders of a control plane's keys, as its manifests name files in them: the API server's,
/// and etcd's where that lies elsewhere; else kubeadm's.
#[must_use]
pub fn key_folders(etcd: Option<&EtcdNode>, server: Option<&ApiServer>) -> Vec<PathBuf> {
    let folder = |file: &PathBuf| file.parent().map(Path::to_owned);
    let servers = server.and_then(|server| server.client_ca.as_ref()).and_then(folder);
    let etcds = etcd.and_then(|etcd| etcd.ca.as_ref().or(etcd.cert.as_ref())).and_then(folder);
    // kubeadm has etcd's below the others, in a folder of that name.
    let etcds = etcds.map(|folder| match folder.parent() {
        Some(above) if folder.ends_with("etcd") && servers.is_none() => above.to_owned(),
        _ => folder,
    });
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in [servers, etcds].into_iter().flatten() {
        if !all.iter().any(|known| folder.starts_with(known)) {
            all.push(folder);
        }
    }
    if all.is_empty() { vec![PKI.into()] } else { all }
}

/// The etcd member that `path` describes; `None` if there is no such file.
pub fn etcd(path: &Path) -> Result<Option<EtcdNode>, Error> {
    text_of(path)?.map(|text| read_etcd(&text, path)).transpose()
}

/// The API server that `path` describes; `None` if there is no such file.
pub fn api_server(path: &Path) -> Result<Option<ApiServer>, Error> {
    text_of(path)?.map(|text| read_api_server(&text, path)).transpose()
}

fn text_of(path: &Path) -> Result<Option<String>, Error> {
    match read_file(path, LARGEST) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(std::io::Error::other);
            text.map(Some).map_err(|error| Error::file("read", path, error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path, error)),
    }
}

fn read_etcd(text: &str, path: &Path) -> Result<EtcdNode, Error> {
    let container = container(text, "etcd", path)?;
    let flags = Flags(container.words());
    let needed = |flag: &str| flags.value(flag).ok_or_else(|| lacks(path, flag));
    let image = container.image.clone().unwrap_or_default();
    Ok(EtcdNode {
        name: needed("name")?.to_owned(),
        data_dir: needed("data-dir")?.into(),
        version: version_of(&image),
        image,
        client_urls: flags.list("advertise-client-urls"),
        listen_urls: flags.list("listen-client-urls"),
        peer_urls: flags.list("initial-advertise-peer-urls"),
        initial_cluster: members(&flags.list("initial-cluster"), path)?,
        ca: flags.value("trusted-ca-file").map(PathBuf::from),
        cert: flags.value("cert-file").map(PathBuf::from),
        metrics_urls: flags.list("listen-metrics-urls"),
    })
}

fn read_api_server(text: &str, path: &Path) -> Result<ApiServer, Error> {
    let container = container(text, "kube-apiserver", path)?;
    let flags = Flags(container.words());
    let named = [
        "audit-policy-file",
        "admission-control-config-file",
        "authentication-config",
        "authorization-config",
    ];
    Ok(ApiServer {
        encryption_config: flags.value("encryption-provider-config").map(PathBuf::from),
        client_ca: flags.value("client-ca-file").map(PathBuf::from),
        configs: named.iter().filter_map(|flag| flags.value(flag)).map(PathBuf::from).collect(),
        secure_port: flags.value("secure-port").map(str::to_owned),
    })
}

/// `name=url` pairs, as `--initial-cluster` has them.
fn members(pairs: &[String], path: &Path) -> Result<Vec<(String, String)>, Error> {
    let pair = |text: &String| text.split_once('=').map(|(n, u)| (n.to_owned(), u.to_owned()));
    let read: Option<Vec<_>> = pairs.iter().map(pair).collect();
    read.ok_or_else(|| lacks(path, "initial-cluster"))
}

fn lacks(path: &Path, flag: &str) -> Error {
    Error::declined(
        format!("{} has no usable --{flag}", path.display()),
        "name the members by flags, or put a manifest there that kubeadm has written",
    )
}

/// The version in an image's tag: `registry.k8s.io/etcd:3.6.8-0` is `3.6.8`.
#[must_use]
pub fn version_of(image: &str) -> Option<String> {
    let without_digest = image.split('@').next()?;
    let (_, tag) = without_digest.rsplit_once(':')?;
    let digits = tag.trim_start_matches('v').split(['-', '+', '_']).next()?;
    let parts: Vec<&str> = digits.split('.').collect();
    let numbers = parts.iter().all(|part| part.parse::<u32>().is_ok());
    (numbers && matches!(parts.len(), 2 | 3)).then(|| digits.to_owned())
}

#[derive(Debug, Deserialize)]
struct Pod {
    spec: PodSpec,
}

#[derive(Debug, Deserialize)]
struct PodSpec {
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Debug, Clone, Deserialize)]
struct Container {
    #[serde(default)]
    name: String,
    image: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
}

impl Container {
    fn words(&self) -> Vec<String> {
        self.command.iter().chain(&self.args).cloned().collect()
    }
}

/// The container called `name`, or the only one.
fn container(text: &str, name: &str, path: &Path) -> Result<Container, Error> {
    let place = path.display().to_string();
    let pod: Pod = yaml::from_str(text, &place).map_err(|source| Error::Declined {
        what: source.to_string(),
        hints: vec!["this file is to be the manifest of a static pod".into()],
    })?;
    let mut containers = pod.spec.containers;
    let at = containers.iter().position(|c| c.name == name);
    match (at, containers.len()) {
        (Some(at), _) => Ok(containers.swap_remove(at)),
        (None, 1) => Ok(containers.swap_remove(0)),
        (None, _) => Err(Error::declined(
            format!("{place} has no container called {name}"),
            "this file is to be the manifest of a static pod that kubeadm has written",
        )),
    }
}

/// A container's command line: `--flag=value` or `--flag value`; the last one counts.
struct Flags(Vec<String>);

impl Flags {
    fn value(&self, flag: &str) -> Option<&str> {
        let named = |word: &str| {
            let word = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
            word.strip_prefix(flag).map(str::len).map(|rest| word.len() - rest)
        };
        let found = self.0.iter().enumerate().rev().find_map(|(at, word)| {
            let length = named(word)?;
            let rest = &word.trim_start_matches('-')[length..];
            match rest.strip_prefix('=') {
                Some(value) => Some(value),
                None if rest.is_empty() => self.0.get(at + 1).map(String::as_str),
                None => None,
            }
        });
        found.filter(|value| !value.is_empty())
    }

    fn list(&self, flag: &str) -> Vec<String> {
        let words = self.value(flag).unwrap_or_default().split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETCD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: etcd
  namespace: kube-system
spec:
  containers:
  - command:
    - etcd
    - --advertise-client-urls=https://10.0.0.11:2379
    - --client-cert-auth=true
    - --data-dir=/var/lib/etcd
    - --initial-advertise-peer-urls=https://10.0.0.11:2380
    - --initial-cluster=cp-1=https://10.0.0.11:2380,cp-2=https://10.0.0.12:2380
    - --initial-cluster-state=existing
    - --listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379
    - --listen-metrics-urls=http://127.0.0.1:2381
    - --name=cp-1
    - --trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt
    image: registry.k8s.io/etcd:3.6.8-0
    name: etcd
";

    fn path() -> &'static Path {
        Path::new("etcd.yaml")
    }

    #[test]
    fn a_manifest_of_kubeadm_says_everything_about_its_member() {
        let node = read_etcd(ETCD, path()).unwrap();
        assert_eq!(node.name, "cp-1");
        assert_eq!(node.data_dir, Path::new("/var/lib/etcd"));
        assert_eq!(node.version.as_deref(), Some("3.6.8"));
        assert_eq!(node.peer_urls, ["https://10.0.0.11:2380"]);
        assert_eq!(node.initial_cluster[1].0, "cp-2");
        assert_eq!(node.initial_cluster[1].1, "https://10.0.0.12:2380");
        assert_eq!(node.local_endpoint(), "https://127.0.0.1:2379");
        let (cert, key) = node.client_certificate();
        assert_eq!(cert, Path::new("/etc/kubernetes/pki/etcd/healthcheck-client.crt"));
        assert_eq!(key, Path::new("/etc/kubernetes/pki/etcd/healthcheck-client.key"));
    }

    #[test]
    fn a_member_is_asked_where_it_listens() {
        let own = "https://10.0.0.11:2379";
        for (listen, advertised, want) in [
            ("https://127.0.0.1:2379,https://10.0.0.11:2379", own, "https://127.0.0.1:2379"),
            ("https://10.0.0.11:4001,https://127.0.0.1:4001", own, "https://127.0.0.1:4001"),
            ("https://0.0.0.0:4001", own, "https://127.0.0.1:4001"),
            ("https://[::]:2379", own, "https://[::1]:2379"),
            ("http://localhost:2379/", own, "http://localhost:2379"),
            (own, own, own),
            ("unix:///run/etcd.sock", own, own),
            ("", own, own),
            ("", "", "http://127.0.0.1:2379"),
        ] {
            let list = |text: &str| {
                let urls = text.split(',').filter(|url| !url.is_empty());
                urls.map(str::to_owned).collect::<Vec<_>>()
            };
            let (listen_urls, client_urls) = (list(listen), list(advertised));
            let node = EtcdNode { client_urls, listen_urls, ..EtcdNode::default() };
            assert_eq!(node.local_endpoint(), want, "{listen}");
        }
    }

    #[test]
    fn what_is_no_such_manifest_is_refused_with_the_files_name() {
        for (text, want) in [
            ("", "etcd.yaml"),
            ("a: [", "etcd.yaml"),
            ("spec: {containers: []}", "no container called etcd"),
            ("spec: {containers: [{name: etcd, command: [etcd, --data-dir=/d]}]}", "--name"),
            ("spec: {containers: [{name: etcd, command: [etcd, --name=a]}]}", "--data-dir"),
            (
                "spec: {containers: [{command: [etcd, --name=a, --data-dir=/d, --initial-cluster=x]}]}",
                "--initial-cluster",
            ),
        ] {
            let error = read_etcd(text, path()).unwrap_err();
            assert!(error.to_string().contains(want), "{text:?}: {error}");
        }
    }

    #[test]
    fn flags_are_read_however_they_are_written() {
        let words = ["etcd", "--name", "a", "-data-dir=/x", "--name-x=no", "--empty="];
        let flags = Flags(words.map(str::to_owned).to_vec());
        for (flag, value) in [
            ("name", Some("a")),
            ("data-dir", Some("/x")),
            ("name-x", Some("no")),
            ("nam", None),
            ("empty", None),
            ("absent", None),
        ] {
            assert_eq!(flags.value(flag), value, "{flag}");
        }
    }

    #[test]
    fn an_images_tag_names_the_version() {
        for (image, version) in [
            ("registry.k8s.io/etcd:3.6.8-0", Some("3.6.8")),
            ("quay.io/coreos/etcd:v3.5.21", Some("3.5.21")),
            ("mirror.example:5000/etcd:3.7.1-0@sha256:00ff", Some("3.7.1")),
            ("mirror.example:5000/etcd", None),
            ("etcd@sha256:00ff", None),
            ("etcd:latest", None),
            ("etcd:3", None),
            ("", None),
        ] {
            assert_eq!(version_of(image).as_deref(), version, "{image}");
        }
    }

    #[test]
    fn the_api_server_names_the_files_that_a_restore_needs() {
        let text = "spec: {containers: [{name: kube-apiserver, command: [kube-apiserver, \
            --encryption-provider-config=/etc/kubernetes/enc.yaml, \
            --audit-policy-file=/etc/kubernetes/audit.yaml]}]}";
        let server = read_api_server(text, Path::new("kube-apiserver.yaml")).unwrap();
        assert_eq!(server.encryption_config.unwrap(), Path::new("/etc/kubernetes/enc.yaml"));
        assert_eq!(server.configs, [Path::new("/etc/kubernetes/audit.yaml")]);
        let bare = "spec: {containers: [{name: kube-apiserver, command: [kube-apiserver]}]}";
        assert_eq!(read_api_server(bare, path()).unwrap(), ApiServer::default());
    }

    #[test]
    fn keys_lie_where_the_manifests_name_files() {
        for (etcd_ca, client_ca, folders) in [
            ("/etc/kubernetes/pki/etcd/ca.crt", "/etc/kubernetes/pki/ca.crt", &[PKI][..]),
            ("/etc/kubernetes/pki/etcd/ca.crt", "", &[PKI]),
            ("", "/etc/kubernetes/pki/ca.crt", &[PKI]),
            ("", "", &[PKI]),
            ("/k/ssl/etcd/ca.crt", "/k/ssl/ca.crt", &["/k/ssl"]),
            (
                "/etc/ssl/etcd/ssl/ca.pem",
                "/etc/kubernetes/ssl/ca.crt",
                &["/etc/kubernetes/ssl", "/etc/ssl/etcd/ssl"],
            ),
        ] {
            let path = |text: &str| Some(PathBuf::from(text)).filter(|_| !text.is_empty());
            let etcd = EtcdNode { ca: path(etcd_ca), ..EtcdNode::default() };
            let server = ApiServer { client_ca: path(client_ca), ..ApiServer::default() };
            let want: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
            assert_eq!(key_folders(Some(&etcd), Some(&server)), want, "{etcd_ca} {client_ca}");
        }
        assert_eq!(key_folders(None, None), [Path::new(PKI)]);
    }

    #[test]
    fn a_file_that_is_not_there_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(etcd(&folder.path().join("etcd.yaml")).unwrap(), None);
        assert!(matches!(etcd(folder.path()), Err(Error::File { doing: "read", .. })));
    }

    #[test]
    fn a_manifest_without_an_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etcd.yaml");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let device = crate::fault::chain(&etcd(&path).unwrap_err());
        assert!(device.ends_with("etcd.yaml: it is no regular file"), "{device}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "#".repeat(2 << 20)).unwrap();
        let large = crate::fault::chain(&etcd(&path).unwrap_err());
        assert!(
            large.ends_with("it has more than 1048576 bytes, which no such file has"),
            "{large}"
        );
    }
}
