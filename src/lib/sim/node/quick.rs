//! The quick flavour: one API server a cluster, on the etcd outside.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;

use super::super::events::VmAt;
use super::bootstrap::{Bootstrap, Role};
use super::dark::Dark;
use super::guest::map;
use super::kubelet::StaticPods;
use super::objects::Kubelet;
use super::quarters::Quarters;
use super::{kubelet, plane};
use crate::clock::{Clock as _, System};

/// How long a machine tries to join a cluster, as kubeadm does.
const JOINING: Duration = Duration::from_mins(5);

/// How often a machine looks for pods that are to end.
const LOOK: Duration = Duration::from_secs(5);

/// The static pods of a machine that are only shown.
struct AllRun;

impl StaticPods for AllRun {
    fn runs(&self, _: &str) -> bool {
        true
    }

    fn annotations(&self, _: &str) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// Boots a machine, for the first time or again. What it gives goes on while the machine runs.
pub(super) async fn boot(
    quarters: &Quarters,
    at: &VmAt,
    told: &Bootstrap,
    kubelet: &Kubelet,
) -> Result<JoinSet<()>, Dark> {
    if !matches!(told.role, Role::Init { .. }) {
        discover(quarters, told).await?;
    }
    let mut turn = quarters.turn(&told.endpoint).await;
    if kubelet.control_plane {
        plane::up(quarters, &mut turn, at, told, &kubelet.address).await?;
    }
    let plane = turn.as_ref().ok_or_else(|| Dark::NoCluster(told.endpoint.clone()))?;
    if kubelet.control_plane {
        map(quarters, at, &kubelet.address, told.port, plane.at);
    }
    let mut kubelet = kubelet.clone();
    if kubelet.version.is_empty() {
        kubelet.version.clone_from(&plane.version);
    }
    kubelet::show(&plane.client, &kubelet, &AllRun).await?;
    let (client, name) = (plane.client.clone(), kubelet.name().to_owned());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            System::new().sleep(LOOK).await;
            // A cluster that does not answer is asked again.
            let _ = kubelet::finish(&client, &name).await;
        }
    });
    Ok(tasks)
}

/// Waits until the cluster answers and knows the machine's token, as a joining machine does.
async fn discover(quarters: &Quarters, told: &Bootstrap) -> Result<(), Dark> {
    let clock = System::new();
    while clock.elapsed() < JOINING {
        if quarters.runs(&told.endpoint) {
            let turn = quarters.turn(&told.endpoint).await;
            if let Some(plane) = turn.as_ref().filter(|plane| plane.is_of(told))
                && plane.knows(&told.token).await
            {
                return Ok(());
            }
        }
        clock.sleep(Duration::from_millis(500)).await;
    }
    Err(Dark::NoCluster(told.endpoint.clone()))
}

/// A machine is off. What a cluster would notice by itself in a minute is written at once.
pub(super) async fn off(quarters: &Quarters, at: &VmAt, told: &Bootstrap, kubelet: &Kubelet) {
    let mut turn = quarters.turn(&told.endpoint).await;
    plane::off(quarters, &mut turn, at, &told.endpoint);
    let Some(plane) = turn.as_ref().filter(|_| quarters.runs(&told.endpoint)) else { return };
    if let Err(error) = kubelet::hide(&plane.client, kubelet).await {
        tracing::warn!(target: "capvco::sim", "{}: {}", kubelet.name(), error.whole());
    }
}

/// A machine is gone for good.
pub(super) async fn gone(quarters: &Quarters, at: &VmAt, told: &Bootstrap) {
    let mut turn = quarters.turn(&told.endpoint).await;
    plane::gone(quarters, &mut turn, at, &told.endpoint);
}
