//! The bodies of replies about disks, in the vendor's words; pure.

use serde_json::{Value, json};

use super::super::objectspace::words::time;
use super::super::visit::Visit;
use super::super::world::{Disk, World};
use super::record::METADATA;

/// Whether replies show it: cloud-init's disk by rule only (vco-api.md 6.2, inference).
pub(in crate::sim) fn is_shown(world: &World, disk: &Disk) -> bool {
    disk.kind != METADATA || world.rules.metadata_disk_shown
}

/// A disk's kind; cloud-init's is `M` (vco-api.md 6.2, G8S).
fn kind(disk: &Disk) -> &str {
    if disk.kind == METADATA { "M" } else { &disk.kind }
}

/// `GET {L}/disks`: all of the customer's, attached or not.
pub(super) fn list(visit: &Visit<'_>) -> Vec<Value> {
    let location = visit.call.in_path("location");
    let (all, only) = (visit.flag("include_deleted"), visit.flag("only_deleted"));
    let site = visit.world.locations.iter().find(|s| s.location == location);
    let shown = |d: &&Disk| {
        let state = if d.is_binned() { all || only } else { d.exists() && !only };
        state && d.customer_id == visit.customer() && is_shown(visit.world, d)
    };
    let disks = site.into_iter().flat_map(|s| &s.disks).filter(shown);
    disks.map(|d| row(visit.world, location, d)).collect()
}

fn row(world: &World, location: &str, disk: &Disk) -> Value {
    let holder = world.holder(location, disk);
    json!({
        "status": disk.shown(), "disk_size": disk.size, "disk_name": disk.name,
        "description": disk.description, "deletion_time": time(disk.deleted), "exposed": false,
        "disk_id": disk.disk_id, "disk_type": kind(disk), "order": disk.order.to_string(),
        "port": 0, "vm_id": holder.map(|(_, vm)| vm.vm_id),
        "vm_name": holder.map(|(_, vm)| vm.name.as_str()),
        "cloudspace_id": holder.map(|(c, _)| c.cloudspace_id.as_str()),
        "iotune": {"iops": disk.iops}, "backup_blocksize": 0,
    })
}

/// `GET {L}/disks/{disk_id}`.
pub(super) fn detail(world: &World, location: &str, disk: &Disk) -> Value {
    let holder = world.holder(location, disk);
    json!({
        "status": disk.shown(), "disk_size": disk.size, "disk_name": disk.name,
        "description": disk.description, "exposed": false, "disk_id": disk.disk_id,
        "disk_type": kind(disk), "order": disk.order.to_string(),
        "vm_id": holder.map(|(_, vm)| vm.vm_id), "port": 0, "model": "virtio",
        "iotune": {"iops": disk.iops},
        "cache": {
            "size": 0, "failure_policy": "WAIT", "replacement_policy": "LRU",
            "mode": "WRITETHROUGH",
        },
        "backup_blocksize": 0, "cloudspace_id": holder.map(|(c, _)| c.cloudspace_id.as_str()),
        "backup_snapshot_ratio": 0.0,
    })
}

/// `GET {VM}/disks`, and the disks of `GET {VM}`.
pub(in crate::sim) fn of_machine(world: &World, disks: &[&Disk]) -> Vec<Value> {
    let row = |d: &&Disk| {
        let (bus, slot) = d.pci();
        json!({
            "status": d.shown(), "disk_size": d.size, "disk_name": d.name,
            "description": d.description, "exposed": false, "pci_bus": bus, "pci_slot": slot,
            "disk_id": d.disk_id, "disk_type": kind(d), "order": d.order.to_string(),
        })
    };
    disks.iter().filter(|d| is_shown(world, d)).map(row).collect()
}

/// The disks of `GET {C}/recycle-bin`.
pub(in crate::sim) fn binned(world: &World, customer: &str, good: &[String]) -> Value {
    let sites = world.locations.iter().filter(|s| good.contains(&s.location));
    let rows = sites.flat_map(|site| {
        let mine = |d: &&Disk| d.is_binned() && d.customer_id == customer && is_shown(world, d);
        site.disks.iter().filter(mine).map(|d| {
            json!({
                "disk_id": d.disk_id, "disk_name": d.name, "location": site.location,
                "deletion_time": time(d.deleted),
            })
        })
    });
    rows.collect()
}
