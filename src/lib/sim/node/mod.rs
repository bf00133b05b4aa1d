//! What a booted machine becomes: a node of the cluster that its user data describe.
//!
//! The quick flavour: the first control-plane machine of a cluster is unpacked and run through
//! the real kubeadm, and a real API server starts from the manifest that kubeadm wrote, on an
//! etcd outside that all clusters share ([`Nodes::etcd`]). The other control planes of the
//! cluster share that API server. There is no kubelet, scheduler or controller manager: what a
//! kubelet would write of itself is written here, and so is what a cluster would notice of a
//! machine that is off. Health checks of control planes need etcd inside, which this is not.
//!
//! **May enter:** what a guest does because of its user data. Nothing of Cluster API beyond the
//! two paths at which it leaves kubeadm's configuration.
//!
//! **Invariants**
//! - User data that lack what kubeadm needs leave the machine dark; the log says why.
//! - A machine's port is where it answers, or where nobody does: never where it was.
//! - Nothing outlives us: each server hangs on a pipe of ours (`process`).
//!
//! `bootstrap` reads user data, `kubeadm` runs it, `plane` is a cluster's API server, `objects`
//! what is written into it, `guest` one machine's life, `quarters` what guests share. `portforward`
//! is a kubelet's way to a machine's ports, in the frames of `spdy`.

mod bootstrap;
mod dark;
mod etcd;
mod guest;
mod kubeadm;
mod objects;
mod plane;
mod portforward;
mod quarters;
mod spdy;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::events::{VmAt, VmEvent, VmEvents};
use super::{Error, Sim, process};
pub use etcd::Etcd;
pub use portforward::Kubelet;
use quarters::{Quarters, Tools};

/// The guests of a cloud. Dropping it ends them all.
#[must_use = "guests end when this is dropped"]
pub struct Nodes {
    quarters: Arc<Quarters>,
    etcd: Etcd,
    stop: CancellationToken,
}

impl Nodes {
    /// From now on machines of this cloud become nodes, in the quick flavour. `tools` is a folder
    /// with `kubeadm`, `kube-apiserver` and `etcd`; what it lacks is looked for on PATH and in
    /// `.tools/bin`.
    ///
    /// # Errors
    /// [`Error::Nodes`]: a program is missing, or etcd does not run.
    pub async fn quick(sim: &Sim, tools: Option<&Path>) -> Result<Self, Error> {
        let tools = Tools::find(tools)?;
        let quarters = Arc::new(Quarters::new(Arc::clone(&sim.cloud), tools)?);
        let folder = quarters.folder().join("etcd");
        let (etcd, process) = Etcd::start(&quarters.tools.etcd, &folder)
            .await
            .map_err(|why| Error::Nodes(format!("etcd does not run: {why}")))?;
        quarters.keep("etcd", process);
        let stop = sim.cloud.stop.child_token();
        let lives = host(Arc::clone(&quarters), sim.vm_events());
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! { () = lives => {}, () = stopped.cancelled() => {} }
        });
        Ok(Self { quarters, etcd, stop })
    }

    /// The etcd that clusters have to use: `etcd.external` of their kubeadm configuration.
    #[must_use]
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop.cancel();
        self.quarters.close();
    }
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
