//! One machine's guest: told of boots and stops, it shows itself to its cluster or stays dark.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::super::events::{Machine, VmAt, VmEvent};
use super::bootstrap::{Bootstrap, Role};
use super::dark::Dark;
use super::objects::{Kubelet, version};
use super::quarters::Quarters;
use super::{full, quick};
use crate::clock::{Clock as _, System};

/// Where nobody listens.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// A guest that has come up once. It comes up again without its user data.
struct Guest {
    told: Bootstrap,
    kubelet: Kubelet,
    /// What runs while it is up.
    body: Option<Body>,
    /// cloud-init does not try again, whatever the cluster does later.
    dark: bool,
}

/// What runs while a guest is up; it ends when this is dropped.
enum Body {
    Quick(JoinSet<()>),
    Full(full::Body),
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
                stop(&quarters, &at, guest.as_mut()).await;
                next = events.recv().await;
            }
            VmEvent::Deleted(_) => {
                if let Some(guest) = guest {
                    drop(guest.body);
                    quick::gone(&quarters, &at, &guest.told).await;
                }
                quarters.wipe(&at);
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
        Some(again) => boot(quarters, at, again).await,
        None => first_boot(quarters, at, machine, guest).await,
    };
    let (name, id) = (&machine.vm.name, at.vm_id);
    match started {
        Ok(()) => tracing::info!(
            target: "capvco::sim", seconds = begun.elapsed().as_secs_f32(),
            "machine {name} ({id}) is a node",
        ),
        Err(dark) => {
            let why = dark.whole();
            tracing::warn!(target: "capvco::sim", "machine {name} ({id}) stays dark: {why}");
            quarters.console(at, &why);
        }
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
        stacked: quarters.networks.is_some() && !told.has_etcd_outside(),
        address: machine.private_ip.clone(),
        provider_id: told.registration.provider_id.clone().unwrap_or(provider_id),
        version: version(&image, &told.role).unwrap_or_default(),
        vcpus: machine.vm.vcpus,
        memory: machine.vm.memory,
        registration: told.registration.clone(),
    };
    let made = guest.insert(Guest { told, kubelet, body: None, dark: false });
    let booted = boot(quarters, at, made).await;
    made.dark = booted.is_err();
    booted
}

async fn boot(quarters: &Quarters, at: &VmAt, guest: &mut Guest) -> Result<(), Dark> {
    let (told, kubelet) = (&guest.told, &guest.kubelet);
    guest.body = None;
    guest.body = Some(match &quarters.networks {
        Some(networks) => Body::Full(full::boot(quarters, networks, at, told, kubelet).await?),
        None => Body::Quick(quick::boot(quarters, at, told, kubelet).await?),
    });
    Ok(())
}

/// The guest is off.
async fn stop(quarters: &Quarters, at: &VmAt, guest: Option<&mut Guest>) {
    let Some(guest) = guest else { return };
    map(quarters, at, &guest.kubelet.address, guest.told.port, NOWHERE);
    match guest.body.take() {
        Some(Body::Full(body)) => body.end().await,
        Some(Body::Quick(tasks)) => drop(tasks),
        None => {}
    }
    if quarters.networks.is_none() {
        quick::off(quarters, at, &guest.told, &guest.kubelet).await;
    }
}

/// From now on a port of a machine is somewhere else.
pub(super) fn map(quarters: &Quarters, at: &VmAt, ip: &str, port: u16, to: SocketAddr) {
    quarters.cloud.lock().fronts.map_port(&at.cloudspace_id, ip, port, to);
    // What follows from it: load balancers aim anew.
    drop(quarters.cloud.lock());
}
