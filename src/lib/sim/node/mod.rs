//! What a booted machine becomes: a node of the cluster that its user data describe.
//!
//! Two flavours. **Quick**: the first control-plane machine of a cluster is unpacked and run
//! through the real kubeadm, and a real API server starts from the manifest that kubeadm wrote, on
//! an etcd outside that all clusters share ([`Nodes::etcd`]). The other control planes of the
//! cluster share that API server; there is no controller manager, and what a cluster would notice
//! of a machine that is off is written here. Health checks of control planes need etcd inside,
//! which this is not. **Full**: each machine has a network of its own and runs what kubeadm makes
//! of it: etcd, an API server and a controller manager a control plane. It takes the right to
//! make network name spaces. In both, what a kubelet would write of itself is written here, and
//! there is no scheduler.
//!
//! **May enter:** what a guest does because of its user data. Nothing of Cluster API beyond the
//! two paths at which it leaves kubeadm's configuration.
//!
//! **Invariants**
//! - User data that lack what kubeadm needs leave the machine dark; the log says why.
//! - A machine's port is where it answers, or where nobody does: never where it was.
//! - Nothing outlives us: each server, and each name space, hangs on a pipe of ours.
//!
//! `bootstrap` reads user data, `kubeadm` runs it, `guest` is one machine's life, `quick` and
//! `full` how it boots, `plane` the API server of a quick cluster, `objects` what is written into
//! a cluster, `kubelet` who writes it, `portforward` a kubelet's way to a machine's ports, in the
//! frames of `spdy`, `quarters` what guests share.

mod bootstrap;
mod dark;
mod etcd;
mod full;
mod guest;
mod kubeadm;
mod kubelet;
mod objects;
mod plane;
mod portforward;
mod quarters;
mod quick;
mod spdy;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::events::{VmAt, VmEvent, VmEvents};
use super::{Error, Sim, process};
pub use etcd::Etcd;
use full::network::Networks;
pub use portforward::Kubelet;
use quarters::{Quarters, Tools};

/// What the etcd outside is called among the servers.
const ETCD: &str = "etcd";

/// How often it is looked whether it runs.
const LOOK: Duration = Duration::from_secs(1);

/// The guests of a cloud. Dropping it ends them all.
#[must_use = "guests end when this is dropped"]
pub struct Nodes {
    quarters: Arc<Quarters>,
    etcd: Option<Etcd>,
    stop: CancellationToken,
    lives: Option<JoinHandle<()>>,
}

impl Nodes {
    /// From now on machines of this cloud become nodes, in the quick flavour. `tools` is a folder
    /// with `kubeadm`, `kube-apiserver` and `etcd`; what it lacks is looked for on PATH and in
    /// `.tools/bin`.
    ///
    /// # Errors
    /// [`Error::Nodes`]: a program is missing, or etcd does not run.
    pub async fn quick(sim: &Sim, tools: Option<&Path>) -> Result<Self, Error> {
        let tools = Tools::find(tools, false)?;
        let quarters = Quarters::new(Arc::clone(&sim.cloud), tools, None)?;
        let folder = quarters.folder().join("etcd");
        let (etcd, process) = Etcd::start(&quarters.tools.etcd, &folder)
            .await
            .map_err(|why| Error::Nodes(format!("etcd does not run: {why}")))?;
        quarters.keep(ETCD, process);
        let nodes = Self::host(sim, quarters, Some(etcd));
        let (quarters, stop) = (Arc::clone(&nodes.quarters), nodes.stop.clone());
        nodes.quarters.tasks.spawn(async move {
            stop.run_until_cancelled(watch_over_etcd(&quarters, &folder)).await;
        });
        Ok(nodes)
    }

    /// The same in the full flavour, which takes `kube-controller-manager` too, and the right to
    /// make network name spaces: root's, or that of somebody in a user name space of their own.
    ///
    /// # Errors
    /// [`Error::Nodes`]: a program is missing, or no name space can be made.
    pub fn full(sim: &Sim, tools: Option<&Path>) -> Result<Self, Error> {
        let tools = Tools::find(tools, true)?;
        let networks = Networks::new().map_err(Error::Nodes)?;
        let quarters = Quarters::new(Arc::clone(&sim.cloud), tools, Some(networks))?;
        Ok(Self::host(sim, quarters, None))
    }

    fn host(sim: &Sim, quarters: Quarters, etcd: Option<Etcd>) -> Self {
        let (quarters, stop) = (Arc::new(quarters), sim.cloud.stop.child_token());
        let lives = host(Arc::clone(&quarters), sim.vm_events());
        let stopped = stop.clone();
        let lives = tokio::spawn(async move {
            tokio::select! { () = lives => {}, () = stopped.cancelled() => {} }
        });
        Self { quarters, etcd, stop, lives: Some(lives) }
    }

    /// Ends all guests, and waits until nothing of them is left, their disks included. Dropping
    /// does not wait, and a server that still writes may keep its machine's disk from going.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(lives) = self.lives.take() {
            // It ends early only if it is aborted, which nobody does.
            let _ = lives.await;
        }
        self.quarters.close();
        self.quarters.tasks.close();
        self.quarters.tasks.wait().await;
    }

    /// The etcd that clusters have to use in the quick flavour: `etcd.external` of their kubeadm
    /// configuration. In the full one each has its own.
    #[must_use]
    pub fn etcd(&self) -> Option<&Etcd> {
        self.etcd.as_ref()
    }

    /// Makes a machine's guest crash, in the full flavour: everything in it ends, and the cloud
    /// goes on to think that it runs. False if it never came up.
    #[must_use]
    pub fn crash(&self, at: &VmAt) -> bool {
        self.quarters.outside(at).inspect(full::Outside::crash).is_some()
    }

    /// An address from which connections are carried to a port of a machine, in the full flavour,
    /// as if they came from the machine itself; for as long as we are there.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`]: the machine never came up. Others: no port is free.
    pub fn way_in(&self, at: &VmAt, port: u16) -> io::Result<SocketAddr> {
        let never = || io::Error::new(io::ErrorKind::NotConnected, "this machine never came up");
        let outside = self.quarters.outside(at).ok_or_else(never)?;
        let listener = full::doorway()?;
        let at = listener.local_addr()?;
        let dial = move || {
            let outside = outside.clone();
            async move { outside.dial(port).await }.boxed()
        };
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! { () = full::splice(listener, dial) => {}, () = stop.cancelled() => {} }
        });
        Ok(at)
    }

    /// The disk of a machine that has booted, as a folder of this computer, with the logs of its
    /// servers, and `console.log`, which says why it stays dark if it does.
    #[must_use]
    pub fn disk(&self, at: &VmAt) -> PathBuf {
        self.quarters.path_of(at)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop.cancel();
        self.quarters.close();
    }
}

/// Says it when the etcd outside ends by itself, as of a disk that is full.
async fn watch_over_etcd(quarters: &Quarters, folder: &Path) {
    while quarters.runs(ETCD) {
        quarters.cloud.clock.sleep(LOOK).await;
    }
    let why = etcd::last_words(&folder.join("log"));
    tracing::error!(why, "etcd has ended: the clusters are gone, start the cloud anew");
}

/// Gives each machine its own life, in which one thing happens after another.
async fn host(quarters: Arc<Quarters>, mut events: VmEvents) {
    let mut lives: BTreeMap<VmAt, UnboundedSender<VmEvent>> = BTreeMap::new();
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(event) = events.next().await {
        let at = whose(&event);
        let ends = matches!(event, VmEvent::Deleted(_));
        let life = lives.entry(at.clone()).or_insert_with(|| {
            let (to, from) = unbounded_channel();
            tasks.spawn(guest::live(Arc::clone(&quarters), at.clone(), from));
            to
        });
        // Who has ended has nothing more to hear.
        let _ = life.send(event);
        if ends {
            lives.remove(&at);
        }
        while tasks.try_join_next().is_some() {}
    }
}

fn whose(event: &VmEvent) -> VmAt {
    match event {
        VmEvent::Started(machine) => VmAt {
            location: machine.location.clone(),
            cloudspace_id: machine.cloudspace_id.clone(),
            vm_id: machine.vm.vm_id,
        },
        VmEvent::Stopped(at)
        | VmEvent::Paused(at)
        | VmEvent::Resumed(at)
        | VmEvent::Deleted(at) => at.clone(),
    }
}
