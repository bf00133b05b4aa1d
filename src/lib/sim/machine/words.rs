//! The bodies of replies about machines, in the vendor's words; pure.

use serde_json::{Value, json};

use super::super::disk::words as disk_words;
use super::super::network::words::with_length;
use super::super::objectspace::words::time;
use super::super::visit::Visit;
use super::super::world::{Cloudspace, Site, Uplink, Vm, World};
use super::nic;
use super::record::mac;

fn site<'w>(world: &'w World, space: &Cloudspace) -> Option<&'w Site> {
    world.locations.iter().find(|s| s.location == space.location)
}

/// The private address: the word `Undefined` before it is known, by rule (vco-api.md 5.5, G8S).
fn private_ip<'v>(world: &World, vm: &'v Vm) -> &'v str {
    let early = vm.shown() == "DEPLOYING" && world.rules.undefined_address;
    if early || vm.private_ip.is_empty() { "Undefined" } else { &vm.private_ip }
}

/// `GET {VM}/external-nics`: with prefix lengths (vco-api.md 5.5, PU).
pub(super) fn nics(world: &World, location: &str, vm: &Vm) -> Vec<Value> {
    let row = |(index, n): (usize, &super::super::world::Nic)| {
        let external_network_id = u64::try_from(n.network_id).unwrap_or(0);
        let uplink = Uplink { external_network_id, ip: n.ip.clone(), metric: 0 };
        json!({
            "device_name": format!("vm-{}-{:04}", vm.vm_id, index + 1), "mac_address": n.mac,
            "ip_address": with_length(world, location, &uplink), "network_id": n.network_id,
            "nic_type": nic::kind(n), "model": n.model,
            "external_cloudspace_id": other(n),
        })
    };
    vm.nics.iter().enumerate().map(row).collect()
}

/// The other cloudspace; null where there is none (vco-api.md 5.5, PU).
fn other(nic: &super::super::world::Nic) -> Value {
    match nic.external_cloudspace_id.as_str() {
        "" => Value::Null,
        id => json!(id),
    }
}

/// All interfaces, the private one first; `kind` is what the model calls their kind.
fn interfaces(world: &World, space: &Cloudspace, vm: &Vm, kind: &str) -> Vec<Value> {
    let mut private = json!({
        "device_name": format!("vm-{}-0000", vm.vm_id), "mac_address": mac(vm.vm_id, 0),
        "ip_address": private_ip(world, vm), "network_id": space.number, "model": "virtio",
        "external_cloudspace_id": null,
    });
    private[kind] = json!("bridge");
    let mut all = vec![private];
    for mut row in nics(world, &space.location, vm) {
        let nic_type = row["nic_type"].take();
        if let Some(map) = row.as_object_mut() {
            map.remove("nic_type");
            map.insert(kind.to_owned(), nic_type);
        }
        all.push(row);
    }
    all
}

/// `GET {CS}/vms`. The cloudspace's id is declared a number here (vco-api.md 13.1).
pub(super) fn list(visit: &Visit<'_>, space: &Cloudspace) -> Vec<Value> {
    let (all, only) = (visit.flag("include_deleted"), visit.flag("only_deleted"));
    rows(visit.world, space, all, only)
}

fn rows(world: &World, space: &Cloudspace, deleted: bool, only_deleted: bool) -> Vec<Value> {
    let shown = |vm: &&Vm| match vm.status.as_str() {
        "DESTROYED" => false,
        "DELETED" => deleted || only_deleted,
        _ => !only_deleted,
    };
    space.vms.iter().filter(shown).map(|vm| row(world, space, vm)).collect()
}

fn row(world: &World, space: &Cloudspace, vm: &Vm) -> Value {
    let disks = site(world, space).map(|s| s.disks_on(vm.vm_id)).unwrap_or_default();
    let storage: u64 = disks.iter().map(|d| d.size).sum();
    let disks = disks.into_iter().filter(|d| disk_words::is_shown(world, d));
    let ids: Vec<u64> = disks.map(|d| d.disk_id).collect();
    json!({
        "vm_id": vm.vm_id, "name": vm.name, "cloudspace_id": space.number, "status": vm.shown(),
        "deletion_time": time(vm.deleted), "stack_id": vm.stack_id, "creation_time": vm.created,
        "update_time": vm.updated, "reference_id": vm.reference_id(&space.location),
        "image_id": vm.image_id, "storage": storage, "vcpus": vm.vcpus, "memory": vm.memory,
        "appliance": false, "disks": ids, "tpm_enabled": false, "backup_status": "",
        "network_interfaces": interfaces(world, space, vm, "external_network_type"),
        "devices": [],
    })
}

/// `GET {VM}`, the password of its account included.
pub(super) fn detail(world: &World, space: &Cloudspace, vm: &Vm) -> Value {
    let here = site(world, space);
    let disks = here.map(|s| s.disks_on(vm.vm_id)).unwrap_or_default();
    let boot = disks.iter().find(|d| d.kind == "BOOT").map(|d| d.disk_id);
    let storage: u64 = disks.iter().map(|d| d.size).sum();
    let image = here.and_then(|s| s.image(vm.image_id));
    let groups: Vec<&str> = space.groups_of(vm.vm_id).map(|g| g.group_id.as_str()).collect();
    json!({
        "backup_policies": [], "name": vm.name, "vm_id": vm.vm_id,
        "description": vm.description, "boot_disk_id": boot,
        "cloudspace_id": space.cloudspace_id, "status": vm.shown(), "update_time": vm.updated,
        "creation_time": vm.created, "vcpus": vm.vcpus, "storage": storage, "memory": vm.memory,
        "agent_status": "NOT_RUNNING", "image_id": vm.image_id, "locked": vm.locked,
        "stack_id": vm.stack_id, "impact_alert_hook": "",
        "os_image_name": image.map_or("", |i| i.name.as_str()), "hostname": vm.hostname,
        "anti_affinity_group_ids": groups, "disks": disk_words::of_machine(world, &disks),
        "os_accounts": [{"login": vm.account.login, "password": vm.account.password}],
        "network_interfaces": interfaces(world, space, vm, "nic_type"), "appliance": false,
        "cpus_pin_status": false, "boot_type": vm.boot_type,
        "cpu_topology": {"cores": vm.vcpus, "threads": 1, "sockets": 1}, "devices": [],
        "tpm_enabled": false,
    })
}

/// The machines of `GET {C}/recycle-bin`.
pub(in crate::sim) fn binned(world: &World, customer: &str, good: &[String]) -> Value {
    let mine = |c: &&Cloudspace| c.customer_id == customer && good.contains(&c.location);
    let rows = world.cloudspaces.iter().filter(mine).flat_map(|c| {
        c.vms.iter().filter(|vm| vm.status == "DELETED").map(move |vm| {
            json!({
                "vm_name": vm.name, "vm_id": vm.vm_id, "cloudspace_name": c.name,
                "cloudspace_id": c.cloudspace_id, "cloudspace_status": c.shown(),
                "location": c.location, "deletion_time": time(vm.deleted),
            })
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_machines_show_on_request() {
        let vm = |status: &str| Vm { status: status.into(), ..Vm::default() };
        let vms = vec![vm("RUNNING"), vm("DELETED"), vm("DESTROYED")];
        let space = Cloudspace { vms, ..Cloudspace::default() };
        for (deleted, only, count) in [(false, false, 1), (true, false, 2), (false, true, 1)] {
            assert_eq!(rows(&World::small(), &space, deleted, only).len(), count);
        }
    }

    #[test]
    fn an_address_may_be_undefined_while_the_machine_is_deployed() {
        use super::super::super::doing::Staged as _;
        use std::time::Duration;
        let mut world = World::small();
        let mut vm = Vm { private_ip: "192.168.103.254".into(), ..Vm::default() };
        vm.begin("DEPLOYING", "RUNNING", Duration::ZERO, Duration::from_secs(1));
        assert_eq!(private_ip(&world, &vm), "192.168.103.254");
        world.rules.undefined_address = true;
        assert_eq!(private_ip(&world, &vm), "Undefined");
        vm.settle(Duration::from_secs(1));
        assert_eq!(private_ip(&world, &vm), "192.168.103.254");
    }
}
