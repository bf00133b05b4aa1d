//! One machine's guest: told of boots and stops, it shows itself to its cluster or stays dark.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::events::{Machine, VmAt, VmEvent};
use super::bootstrap::{Bootstrap, Role};
use super::dark::Dark;
use super::objects::{COMPONENTS, Kubelet, running, unknown, version};
use super::plane;
use super::quarters::Quarters;
use crate::clock::{Clock as _, System};

/// How long a machine tries to join a cluster, as kubeadm does.
const JOINING: Duration = Duration::from_mins(5);

/// Where nobody listens.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// A guest that has come up once. It comes up again without its user data.
struct Guest {
    told: Bootstrap,
    kubelet: Kubelet,
    /// cloud-init does not try again, whatever the cluster does later.
    dark: bool,
}

/// Plays a machine's guest until it is gone.
pub(super) async fn live(
    quarters: Arc<Quarters>,
    at: VmAt,
    mut events: UnboundedReceiver<VmEvent>,
) {
    let mut guest = None;
    let mut next = events.recv().await;
    while let Some(event) = next.take() {
        match event {
            VmEvent::Started(machine) => {
                tokio::select! {
                    () = start(&quarters, &at, &machine, &mut guest) => next = events.recv().await,
                    // Whatever comes first ends what was being started.
                    event = events.recv() => next = event,
                }
            }
            VmEvent::Stopped(_) => {
                stop(&quarters, &at, guest.as_ref()).await;
                next = events.recv().await;
            }
            VmEvent::Deleted(_) => {
                if let Some(Guest { told, .. }) = &guest {
                    let mut turn = quarters.turn(&told.endpoint).await;
                    plane::gone(&quarters, &mut turn, &at, &told.endpoint);
                }
                return;
            }
            VmEvent::Paused(_) | VmEvent::Resumed(_) => next = events.recv().await,
        }
    }
}

async fn start(quarters: &Quarters, at: &VmAt, machine: &Machine, guest: &mut Option<Guest>) {
    map(quarters, at, &machine.private_ip, 6443, NOWHERE);
    let begun = System::new();
    let started = match guest {
        Some(Guest { dark: true, .. }) => return,
        Some(again) => boot(quarters, at, &again.told, &again.kubelet).await,
        None => first_boot(quarters, at, machine, guest).await,
    };
    let (name, id) = (&machine.vm.name, at.vm_id);
    match started {
        Ok(()) => tracing::info!(
            target: "capvco::sim", seconds = begun.elapsed().as_secs_f32(),
            "machine {name} ({id}) is a node",
        ),
        Err(dark) => tracing::warn!(
            target: "capvco::sim", "machine {name} ({id}) stays dark: {}", dark.whole(),
        ),
    }
}

async fn first_boot(
    quarters: &Quarters,
    at: &VmAt,
    machine: &Machine,
    guest: &mut Option<Guest>,
) -> Result<(), Dark> {
    let told = Bootstrap::read(&machine.vm.userdata.merged, &machine.vm.hostname)?;
    let image = quarters.image_name(&at.location, machine.vm.image_id);
    let provider_id = format!("vco://{}/{}", at.location, at.vm_id);
    let kubelet = Kubelet {
        control_plane: told.role != Role::Worker,
        address: machine.private_ip.clone(),
        provider_id: told.registration.provider_id.clone().unwrap_or(provider_id),
        version: version(&image, &told.role).unwrap_or_default(),
        vcpus: machine.vm.vcpus,
        memory: machine.vm.memory,
        registration: told.registration.clone(),
    };
    let made = guest.insert(Guest { told, kubelet, dark: false });
    let booted = boot(quarters, at, &made.told, &made.kubelet).await;
    made.dark = booted.is_err();
    booted
}

async fn boot(
    quarters: &Quarters,
    at: &VmAt,
    told: &Bootstrap,
    kubelet: &Kubelet,
) -> Result<(), Dark> {
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
    show(&plane.client, &kubelet).await
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

/// Writes what a kubelet would: its Node, and the mirrors of its static pods.
async fn show(client: &Client, kubelet: &Kubelet) -> Result<(), Dark> {
    let now = now();
    let nodes: Api<Node> = Api::all(client.clone());
    let made = nodes.create(&PostParams::default(), &object(kubelet.node(&now))?).await;
    let node = match made {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let status = json!({"status": kubelet.status(&now)});
            nodes.patch_status(kubelet.name(), &PatchParams::default(), &Patch::Merge(status)).await
        }
        made => made,
    };
    let node = node.map_err(Dark::api("the Node"))?;
    if !kubelet.control_plane {
        return Ok(());
    }
    let uid = node.metadata.uid.unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    for component in COMPONENTS {
        let mirror = object(kubelet.pod(component, &uid, &now))?;
        match pods.create(&PostParams::default(), &mirror).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            made => drop(made.map_err(Dark::api("a static pod's mirror"))?),
        }
        let (name, status) = (format!("{component}-{}", kubelet.name()), running(&now));
        let patched =
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        patched.map_err(Dark::api("a static pod's status"))?;
    }
    Ok(())
}

/// The guest is off. What a cluster would notice by itself in a minute is written at once.
async fn stop(quarters: &Quarters, at: &VmAt, guest: Option<&Guest>) {
    let Some(Guest { told, kubelet, .. }) = guest else { return };
    map(quarters, at, &kubelet.address, told.port, NOWHERE);
    let mut turn = quarters.turn(&told.endpoint).await;
    plane::off(quarters, &mut turn, at, &told.endpoint);
    let Some(plane) = turn.as_ref().filter(|_| quarters.runs(&told.endpoint)) else { return };
    if let Err(error) = hide(&plane.client, kubelet).await {
        tracing::warn!(target: "capvco::sim", "{}: {}", kubelet.name(), error.whole());
    }
}

async fn hide(client: &Client, kubelet: &Kubelet) -> Result<(), Dark> {
    let absent = |error: &kube::Error| matches!(error, kube::Error::Api(s) if s.is_not_found());
    let (nodes, name) = (Api::<Node>::all(client.clone()), kubelet.name());
    let silent = Patch::Strategic(unknown(&now()));
    match nodes.patch_status(name, &PatchParams::default(), &silent).await {
        Err(error) if absent(&error) => {}
        patched => drop(patched.map_err(Dark::api("the Node's status"))?),
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    for component in COMPONENTS.into_iter().filter(|_| kubelet.control_plane) {
        match pods.delete(&format!("{component}-{name}"), &at_once).await {
            Err(error) if absent(&error) => {}
            deleted => drop(deleted.map_err(Dark::api("to delete a mirror"))?),
        }
    }
    Ok(())
}

fn object<T: serde::de::DeserializeOwned>(of: Value) -> Result<T, Dark> {
    serde_json::from_value(of).map_err(|_| Dark::Strange("an object of a guest"))
}

fn now() -> String {
    let since = SignedDuration::try_from_secs_f64(System::new().unix().floor());
    let now = since.and_then(Timestamp::from_duration);
    now.unwrap_or_default().to_string()
}

/// From now on a port of a machine is somewhere else.
fn map(quarters: &Quarters, at: &VmAt, ip: &str, port: u16, to: SocketAddr) {
    quarters.cloud.lock().fronts.map_port(&at.cloudspace_id, ip, port, to);
    // What follows from it: load balancers aim anew.
    drop(quarters.cloud.lock());
}
