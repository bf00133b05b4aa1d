//! The full flavour: a machine with a network of its own, on whose disk the real kubeadm runs,
//! phase by phase, and whose static pods are processes: etcd inside, an API server and a
//! controller manager a control plane. Joins are real: discovery by token, etcd's learners.
//!
//! What a kubelet does is done here (`super::kubelet`), and port-forwards to it are answered on
//! 10250. What happens to a machine that is off is for its cluster to notice, as in life.
//!
//! **Invariants**
//! - Everything of a machine ends with its [`Body`]; its disk stays until it is deleted.
//! - Nothing is run twice on a disk: a machine that boots again goes on with its manifests.
//!
//! `network` joins machines, `pods` runs them.

pub(super) mod network;
mod pods;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::events::VmAt;
use super::bootstrap::{Bootstrap, INIT, JOIN, Role};
use super::dark::Dark;
use super::guest::map;
use super::objects::Kubelet;
use super::plane::{client_of, is_ready, kubeconfig};
use super::quarters::Quarters;
use super::{kubeadm, kubelet, portforward};
use crate::clock::{Clock as _, System};
use crate::yaml;
use network::{Networks, Wired};
use pods::Seen;

/// How long a machine's own API server may take until it is ready.
const PATIENCE: Duration = Duration::from_mins(3);

/// How a worker finds its cluster: real discovery, and no look at a machine that is not there.
const PREFLIGHT: &[&str] = &["join", "phase", "preflight", "--ignore-preflight-errors=all"];

/// Where a kubelet listens.
const KUBELET: u16 = 10250;

/// What runs on a machine. Dropping it ends all of that.
pub(super) struct Body {
    host: Arc<Wired>,
    pods: Seen,
    tasks: JoinSet<()>,
    /// All tasks of all machines.
    all: TaskTracker,
    crash: CancellationToken,
}

/// A machine that runs, for those who look at it from outside.
#[derive(Clone)]
pub(super) struct Outside {
    host: Weak<Wired>,
    crash: CancellationToken,
}

impl Body {
    fn new(host: Arc<Wired>, root: &Path, all: TaskTracker) -> Self {
        let (pods, tasks) = (Seen::on(root), JoinSet::new());
        Self { host, pods, tasks, all, crash: CancellationToken::new() }
    }

    pub(super) fn outside(&self) -> Outside {
        Outside { host: Arc::downgrade(&self.host), crash: self.crash.clone() }
    }

    /// Runs something until the machine is off, or crashes.
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let crash = self.crash.clone();
        self.tasks.spawn(self.all.track_future(async move {
            tokio::select! { () = task => {}, () = crash.cancelled() => {} }
        }));
    }

    /// Ends everything, and waits until it has ended.
    pub(super) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.crash.cancel();
    }
}

impl Outside {
    /// Ends everything that runs on it, while the cloud goes on to think that it runs.
    pub(super) fn crash(&self) {
        self.crash.cancel();
    }

    /// A connection to one of its ports, as from the machine itself.
    pub(super) async fn dial(&self, port: u16) -> io::Result<TcpStream> {
        let off = || io::Error::new(io::ErrorKind::NotConnected, "this machine is off");
        self.host.upgrade().ok_or_else(off)?.dial_itself(port).await
    }
}

/// One machine that boots.
struct Boot<'a> {
    quarters: &'a Quarters,
    told: &'a Bootstrap,
    kubelet: Kubelet,
    root: PathBuf,
    body: Body,
    /// Where its API server is for those outside.
    front: SocketAddr,
}

/// Boots a machine, for the first time or again.
pub(super) async fn boot(
    quarters: &Quarters,
    networks: &Networks,
    at: &VmAt,
    told: &Bootstrap,
    kubelet: &Kubelet,
) -> Result<Body, Dark> {
    let root = quarters.path_of(at);
    let again = root.exists();
    let (body, front) = plug(quarters, networks, at, told, kubelet)?;
    let mut boot = Boot { quarters, told, kubelet: kubelet.clone(), root, body, front };
    if again {
        boot.run_pods();
        boot.until_shown().await?;
        return boot.serve().await;
    }
    boot.unpack()?;
    match told.role {
        Role::Init { .. } => boot.init().await?,
        Role::ControlPlane => boot.join_control_plane().await?,
        Role::Worker => boot.phase(PREFLIGHT).await?,
    }
    boot.until_shown().await?;
    match told.role {
        Role::Init { .. } => boot.phase(&["init", "phase", "mark-control-plane"]).await?,
        Role::ControlPlane => {
            boot.phase(&["join", "phase", "control-plane-join", "mark-control-plane"]).await?;
        }
        Role::Worker => {}
    }
    boot.serve().await
}

/// Gives a machine its network, and ways in and out.
fn plug(
    quarters: &Quarters,
    networks: &Networks,
    at: &VmAt,
    told: &Bootstrap,
    kubelet: &Kubelet,
) -> Result<(Body, SocketAddr), Dark> {
    let lacks = |what| move || Dark::Lacks(what);
    let range = quarters.range(at).ok_or_else(lacks("a network"))?;
    let address: IpAddr = kubelet.address.parse().map_err(|_| Dark::Lacks("an address"))?;
    let wired = networks.plug(&at.cloudspace_id, range, kubelet.name(), address);
    let host = Arc::new(wired.map_err(Dark::Network)?);
    let mut body = Body::new(Arc::clone(&host), &quarters.path_of(at), quarters.tasks.clone());
    // The way out: the cluster's endpoint is an address of the cloud, not of this network.
    let endpoint: SocketAddr =
        told.endpoint.parse().map_err(|_| Dark::Lacks("an endpoint that is an address"))?;
    let out = host.listen(endpoint).map_err(Dark::Network)?;
    body.spawn(splice(out, move || TcpStream::connect(endpoint).boxed()));
    // The way in: load balancers are outside.
    let inward = doorway().map_err(Dark::Network)?;
    let front = inward.local_addr().map_err(Dark::Network)?;
    let (inside, port) = (Arc::clone(&host), told.port);
    let dial = move || {
        let host = Arc::clone(&inside);
        async move { host.dial(port).await }.boxed()
    };
    body.spawn(splice(inward, dial));
    if kubelet.control_plane {
        map(quarters, at, &kubelet.address, port, front);
    }
    quarters.came_up(at, body.outside());
    Ok((body, front))
}

/// A listener on a free port outside.
pub(super) fn doorway() -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Joins each connection to one that is dialled for it.
pub(super) async fn splice(
    listener: TcpListener,
    dial: impl Fn() -> BoxFuture<'static, io::Result<TcpStream>>,
) {
    let mut carried = JoinSet::new();
    loop {
        tokio::select! {
            client = listener.accept() => {
                let Ok((mut client, _)) = client else {
                    // Out of file descriptors, usually: give connections time to end.
                    System::new().sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let dialled = dial();
                carried.spawn(async move {
                    // How it ends is for the two sides to see.
                    if let Ok(mut server) = dialled.await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
            Some(_) = carried.join_next() => {}
        }
    }
}

impl Boot<'_> {
    /// Writes what user data bring, and what kubeadm reads to find the machine's address.
    fn unpack(&self) -> Result<(), Dark> {
        kubeadm::unpack(&self.root, &self.told.files)?;
        let routes = self.body.host.routes().map_err(Dark::Network)?;
        kubeadm::write(&self.root, "/proc/net/route", 0o444, &routes)
    }

    async fn phase(&self, phase: &[&str]) -> Result<(), Dark> {
        let kubeadm = self.quarters.tools.kubeadm.display().to_string();
        let (nsenter, args) = self.body.host.inside(&kubeadm);
        let mut command = Command::new(nsenter);
        command.args(args);
        let config = if matches!(self.told.role, Role::Init { .. }) { INIT } else { JOIN };
        kubeadm::run(command, &self.root, phase, config).await
    }

    /// From now on what lies in the manifests runs.
    fn run_pods(&mut self) {
        let (host, tools) = (Arc::clone(&self.body.host), self.quarters.tools.clone());
        let seen = self.body.pods.clone();
        self.body.spawn(pods::run(host, tools, seen));
    }

    /// The first control plane.
    async fn init(&mut self) -> Result<(), Dark> {
        for phase in ["certs", "kubeconfig"] {
            self.phase(&["init", "phase", phase, "all"]).await?;
        }
        if self.kubelet.stacked {
            self.phase(&["init", "phase", "etcd", "local"]).await?;
        }
        self.phase(&["init", "phase", "control-plane", "all"]).await?;
        self.run_pods();
        let admin = kubeconfig(&self.root, "super-admin.conf")?;
        self.ready(&client_of(&admin, self.front).await?).await?;
        for what in ["kubeadm", "kubelet"] {
            self.phase(&["init", "phase", "upload-config", what]).await?;
        }
        self.phase(&["init", "phase", "bootstrap-token"]).await?;
        self.phase(&["init", "phase", "addon", "all"]).await?;
        self.quarters.administer(&self.told.endpoint, admin);
        Ok(())
    }

    /// A further control plane: its etcd becomes a member while its servers already run.
    async fn join_control_plane(&mut self) -> Result<(), Dark> {
        self.phase(&["join", "phase", "control-plane-prepare", "all"]).await?;
        self.run_pods();
        if self.kubelet.stacked {
            self.phase(&["join", "phase", "etcd-join"]).await?;
        }
        let admin = kubeconfig(&self.root, "admin.conf")?;
        self.ready(&client_of(&admin, self.front).await?).await
    }

    async fn ready(&self, client: &Client) -> Result<(), Dark> {
        let clock = System::new();
        while !is_ready(client).await {
            if clock.elapsed() > PATIENCE {
                let log = self.root.join("kube-apiserver.log");
                return Err(Dark::Silent(super::etcd::last_words(&log)));
            }
            clock.sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// A client with an administrator's rights: through its own API server where it has one.
    async fn client(&self) -> Result<Client, Dark> {
        if self.kubelet.control_plane {
            return client_of(&kubeconfig(&self.root, "admin.conf")?, self.front).await;
        }
        let none = || Dark::NoCluster(self.told.endpoint.clone());
        let admin = self.quarters.admin(&self.told.endpoint).ok_or_else(none)?;
        client_of(&admin, self.told.endpoint.parse().map_err(|_| none())?).await
    }

    async fn show(&mut self) -> Result<(), Dark> {
        let client = self.client().await?;
        if self.kubelet.version.is_empty() {
            self.kubelet.version = version(&client).await?;
        }
        kubelet::show(&client, &self.kubelet, &self.body.pods).await
    }

    /// What goes on for as long as the machine runs.
    async fn serve(mut self) -> Result<Body, Dark> {
        let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, KUBELET));
        let listener = self.body.host.listen(at).map_err(Dark::Network)?;
        let host = Arc::clone(&self.body.host);
        let dial = move |port| {
            let host = Arc::clone(&host);
            async move { host.dial_itself(port).await }.boxed()
        };
        let tls = portforward::certificate().map_err(|e| Dark::Network(io::Error::other(e)))?;
        self.body.spawn(portforward::serve(listener, dial, tls, self.body.crash.clone()));
        let (client, kubelet) = (self.client().await?, self.kubelet.clone());
        let pods = self.body.pods.clone();
        self.body.spawn(async move { kubelet::keep(client, kubelet, &pods).await });
        Ok(self.body)
    }

    /// A kubelet does not give up while its cluster is out of reach.
    async fn until_shown(&mut self) -> Result<(), Dark> {
        let clock = System::new();
        loop {
            match self.show().await {
                Err(error) if clock.elapsed() > PATIENCE => return Err(error),
                Err(_) => clock.sleep(Duration::from_secs(1)).await,
                Ok(()) => return Ok(()),
            }
        }
    }
}

/// The version of a cluster, by kubeadm's configuration.
async fn version(client: &Client) -> Result<String, Dark> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let map = api.get("kubeadm-config").await.map_err(Dark::api("to read kubeadm-config"))?;
    let text = map.data.and_then(|mut data| data.remove("ClusterConfiguration"));
    let strange = || Dark::Strange("kubeadm-config");
    let said = yaml::from_str(&text.ok_or_else(strange)?, "kubeadm-config");
    let said: serde_json::Value = said.map_err(|_| strange())?;
    said["kubernetesVersion"].as_str().map(str::to_owned).ok_or_else(strange)
}
