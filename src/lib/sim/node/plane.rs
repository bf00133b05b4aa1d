//! A cluster's control plane: one API server, shared by all its control-plane machines.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::events::VmAt;
use super::bootstrap::{Bootstrap, Role};
use super::dark::Dark;
use super::etcd::{free_port, last_words};
use super::kubeadm;
use super::objects::COMPONENTS;
use super::process::Process;
use super::quarters::Quarters;
use crate::clock::{Clock as _, System};
use crate::yaml;

/// How long an API server may take to be ready.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often a start is tried: another program may have taken the port in between.
const STARTS: usize = 3;

/// A cluster whose first control plane has come up.
pub(super) struct Plane {
    authority: Vec<u8>,
    /// The disk of the first control plane.
    root: PathBuf,
    args: Vec<String>,
    /// Where its API server is.
    pub(super) at: SocketAddr,
    /// Of an administrator.
    pub(super) client: Client,
    /// What kubeadm was told.
    pub(super) version: String,
    /// Its control-plane machines, and those of them that are on.
    all: BTreeSet<VmAt>,
    on: BTreeSet<VmAt>,
}

/// What a turn at a cluster is about: nothing before its first control plane.
pub(super) type Turn = tokio::sync::OwnedMutexGuard<Option<Plane>>;

impl Plane {
    /// Makes what the first control plane is told to be, yet without a server.
    async fn make(
        quarters: &Quarters,
        at: &VmAt,
        told: &Bootstrap,
        address: &str,
    ) -> Result<Self, Dark> {
        let Role::Init { cluster, init } = &told.role else {
            return Err(Dark::NoCluster(told.endpoint.clone()));
        };
        let root = quarters.disk(at)?;
        let program = quarters.tools.kubeadm.as_path();
        kubeadm::init(program, &root, &told.files, cluster, init, address).await?;
        let authority = told.authority().unwrap_or_default().to_vec();
        let manifest = format!("/etc/kubernetes/manifests/{}.yaml", COMPONENTS[0]);
        let manifest = kubeadm::read(&root, &manifest, "the API server's manifest")?;
        let args = arguments(&root, &manifest, &authority)?;
        let at = address_of_ours()?;
        Ok(Self {
            client: client(&root, at).await?,
            version: cluster["kubernetesVersion"].as_str().unwrap_or_default().to_owned(),
            authority,
            root,
            args,
            at,
            all: BTreeSet::new(),
            on: BTreeSet::new(),
        })
    }

    /// Starts its server unless it runs, and waits until it is ready.
    async fn run(&mut self, quarters: &Quarters, endpoint: &str) -> Result<(), Dark> {
        let log = self.root.join("kube-apiserver.log");
        let silent = |why: &str| Dark::Silent(why.to_owned());
        for _ in 0..STARTS {
            if !quarters.runs(endpoint) {
                let mut args = self.args.clone();
                args.push(format!("--secure-port={}", self.at.port()));
                let started = Process::start(&quarters.tools.api_server, &args, &log);
                let process = started.map_err(|e| silent(&e.to_string()))?;
                quarters.keep(endpoint, process);
            }
            if self.ready(quarters, endpoint).await {
                return Ok(());
            }
            quarters.end(endpoint);
            self.at = address_of_ours()?;
            self.client = client(&self.root, self.at).await?;
        }
        Err(silent(&last_words(&log)))
    }

    async fn ready(&self, quarters: &Quarters, endpoint: &str) -> bool {
        let clock = System::new();
        while clock.elapsed() < PATIENCE && quarters.runs(endpoint) {
            if is_ready(&self.client).await {
                return true;
            }
            clock.sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// What kubeadm uploads: Cluster API takes it for the sign that the cluster is there.
    async fn upload(&self, cluster: &Value) -> Result<(), Dark> {
        let text = yaml::to_string(cluster, "kubeadm's configuration");
        let text = text.map_err(|_| Dark::Strange("kubeadm's configuration"))?;
        let map = json!({
            "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
            "data": {"ClusterConfiguration": text},
        });
        let map: ConfigMap =
            serde_json::from_value(map).map_err(|_| Dark::Strange("kubeadm's configuration"))?;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "kube-system");
        match api.create(&PostParams::default(), &map).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            made => made.map(drop).map_err(Dark::api("kubeadm's configuration")),
        }
    }

    /// Whether the cluster has this token, as a joining machine would find out.
    pub(super) async fn knows(&self, token: &str) -> bool {
        let Some((id, secret)) = token.split_once('.') else { return false };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), "kube-system");
        let Ok(Some(found)) = api.get_opt(&format!("bootstrap-token-{id}")).await else {
            return false;
        };
        let said = found.data.as_ref().and_then(|data| data.get("token-secret"));
        said.is_some_and(|said| said.0 == secret.as_bytes())
    }

    /// Whether a machine's keys are those of this cluster.
    pub(super) fn is_of(&self, told: &Bootstrap) -> bool {
        told.authority().is_none_or(|authority| authority == self.authority)
    }
}

/// A control-plane machine comes up: the first makes the cluster, each makes its server run.
pub(super) async fn up(
    quarters: &Quarters,
    turn: &mut Turn,
    at: &VmAt,
    told: &Bootstrap,
    address: &str,
) -> Result<(), Dark> {
    if let Role::Init { cluster, .. } = &told.role
        && turn.as_ref().is_none_or(|plane| !plane.is_of(told))
    {
        quarters.end(&told.endpoint);
        let mut plane = Plane::make(quarters, at, told, address).await?;
        plane.run(quarters, &told.endpoint).await?;
        plane.upload(cluster).await?;
        **turn = Some(plane);
    }
    let Some(plane) = turn.as_mut().filter(|plane| plane.is_of(told)) else {
        return Err(Dark::NoCluster(told.endpoint.clone()));
    };
    plane.run(quarters, &told.endpoint).await?;
    plane.all.insert(at.clone());
    plane.on.insert(at.clone());
    Ok(())
}

/// A machine is off. With the last control plane the server goes.
pub(super) fn off(quarters: &Quarters, turn: &mut Turn, at: &VmAt, endpoint: &str) {
    let Some(plane) = turn.as_mut() else { return };
    if plane.on.remove(at) && plane.on.is_empty() {
        quarters.end(endpoint);
    }
}

/// A machine is gone for good. With the last control plane the cluster is.
pub(super) fn gone(quarters: &Quarters, turn: &mut Turn, at: &VmAt, endpoint: &str) {
    off(quarters, turn, at, endpoint);
    let Some(plane) = turn.as_mut() else { return };
    if plane.all.remove(at) && plane.all.is_empty() {
        **turn = None;
    }
}

/// What kubeadm would have a kubelet run, with its files below `root`.
fn arguments(root: &Path, manifest: &Value, authority: &[u8]) -> Result<Vec<String>, Dark> {
    let strange = || Dark::Strange("the API server's manifest");
    let command = manifest["spec"]["containers"][0]["command"].as_array().ok_or_else(strange)?;
    let mut args = Vec::new();
    for arg in command.iter().skip(1) {
        let arg = arg.as_str().ok_or_else(strange)?;
        args.push(match arg.split_once('=') {
            Some(("--secure-port" | "--bind-address" | "--etcd-prefix", _)) => continue,
            Some((flag, value)) if value.starts_with("/etc/kubernetes") => {
                format!("{flag}={}{value}", root.display())
            }
            _ => arg.to_owned(),
        });
    }
    args.push("--bind-address=127.0.0.1".to_owned());
    // Others share the etcd.
    args.push(format!("--etcd-prefix=/{}", hex::encode(Sha256::digest(authority))));
    Ok(args)
}

fn address_of_ours() -> Result<SocketAddr, Dark> {
    let port = free_port().map_err(|e| Dark::Silent(e.to_string()))?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// A client with the rights that kubeadm gives to whoever sits at the first control plane.
async fn client(root: &Path, at: SocketAddr) -> Result<Client, Dark> {
    client_of(&kubeconfig(root, "super-admin.conf")?, at).await
}

/// A kubeconfig that kubeadm has written.
pub(super) fn kubeconfig(root: &Path, name: &str) -> Result<String, Dark> {
    let path = root.join("etc/kubernetes").join(name);
    std::fs::read_to_string(&path).map_err(|source| Dark::Disk { path, source })
}

/// A client with the rights of a kubeconfig, for an API server that is elsewhere than that says.
pub(super) async fn client_of(kubeconfig: &str, at: SocketAddr) -> Result<Client, Dark> {
    let strange = || Dark::Strange("a kubeconfig");
    let mut access = Kubeconfig::from_yaml(kubeconfig).map_err(|_| strange())?;
    for cluster in access.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        cluster.server = Some(format!("https://{at}"));
        cluster.tls_server_name = Some("kubernetes".to_owned());
    }
    let config = Config::from_custom_kubeconfig(access, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|_| strange())?;
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(2));
    config.read_timeout = Some(Duration::from_secs(10));
    Client::try_from(config).map_err(Dark::api("a client"))
}

/// Whether an API server says that it is ready.
pub(super) async fn is_ready(client: &Client) -> bool {
    let Ok(asked) = Request::get("/readyz").body(Vec::new()) else { return false };
    client.request_text(asked).await.is_ok_and(|said| said == "ok")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_finds_its_files_and_keeps_apart_from_others() {
        let manifest = json!({"spec": {"containers": [{"command": [
            "kube-apiserver", "--secure-port=6443", "--client-ca-file=/etc/kubernetes/pki/ca.crt",
            "--allow-privileged=true", "--advertise-address=10.0.0.2",
        ]}]}});
        let args = |authority: &[u8]| arguments(Path::new("/disk"), &manifest, authority).unwrap();
        let all = args(b"one");
        assert_eq!(all[0], "--client-ca-file=/disk/etc/kubernetes/pki/ca.crt");
        assert_eq!(all[1..3], ["--allow-privileged=true", "--advertise-address=10.0.0.2"]);
        assert!(all[4].starts_with("--etcd-prefix=/") && all[4] != args(b"two")[4]);
        assert!(arguments(Path::new("/"), &json!({}), b"").is_err());
    }
}
