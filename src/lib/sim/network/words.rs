//! The bodies of replies about cloudspaces, in the vendor's words; pure.

use serde_json::{Value, json};

use super::super::objectspace::words::time;
use super::super::visit::{Visit, whole};
use super::super::words::statuses;
use super::super::world::{Cloudspace, ExternalNetwork, Uplink, World};
use super::quota;
use super::range::Range;

/// An external address as lists have it: with its prefix length (vco-api.md 4.3).
pub(in crate::sim) fn with_length(world: &World, location: &str, uplink: &Uplink) -> String {
    let site = world.locations.iter().find(|s| s.location == location);
    let network = site.and_then(|s| s.external(uplink.external_network_id));
    let bits = network.and_then(|n| Range::parse(&n.network)).map_or(24, Range::bits);
    format!("{}/{bits}", uplink.ip)
}

fn first(c: &Cloudspace, world: &World) -> (String, String) {
    let Some(uplink) = c.uplinks.first() else { return (String::new(), String::new()) };
    (with_length(world, &c.location, uplink), uplink.external_network_id.to_string())
}

fn mode(c: &Cloudspace) -> &'static str {
    if c.private { "private" } else { "public" }
}

/// `GET {C}/cloudspaces`: disabled ones too by default, deleted ones not (vco-api.md 4.1).
pub(super) fn list(visit: &Visit<'_>) -> Value {
    let csv = visit.text("locations").split(',');
    let names: Vec<String> = csv.filter(|n| !n.is_empty()).map(str::to_owned).collect();
    let (statuses, good) = statuses(visit.world, &names, visit.broken);
    let flag = |name| visit.flag(name);
    let (deleted, only) = (flag("include_deleted"), flag("only_deleted"));
    let disabled = visit.call.flag("include_disabled", true);
    let shown = |c: &&Cloudspace| {
        let state = match c.status.as_str() {
            "DESTROYED" => false,
            "DELETED" => deleted || only,
            "DISABLED" => disabled && !only,
            _ => !only,
        };
        state && c.customer_id == visit.customer() && good.contains(&c.location)
    };
    let rows = visit.world.cloudspaces.iter().filter(shown).map(|c| row(c, visit.world));
    json!({"locations": statuses, "result": rows.collect::<Vec<_>>()})
}

fn row(c: &Cloudspace, world: &World) -> Value {
    let uplink = |u: &Uplink| {
        let ip = with_length(world, &c.location, u);
        json!([{"id": u.external_network_id, "metric": u.metric, "ip": ip, "type": "external"}])
    };
    json!({
        "cloudspace_id": c.cloudspace_id, "status": c.shown(), "deletion_time": time(c.deleted),
        "external_network_ip": first(c, world).0,
        "external_networks": c.uplinks.iter().map(uplink).collect::<Vec<_>>(),
        "name": c.name, "update_time": whole(c.created), "creation_time": whole(c.created),
        "router_type": "vgw", "cloudspace_mode": mode(c), "private_network": c.network(),
        "location": c.location,
    })
}

/// `GET {CS}`.
pub(super) fn detail(c: &Cloudspace, world: &World) -> Value {
    let (ip, id) = first(c, world);
    let q = &c.quota;
    json!({
        "cloudspace_id": c.cloudspace_id, "status": c.shown(), "external_network_ip": ip,
        "external_network_id": id, "private_network": c.network(), "name": c.name,
        "local_domain": c.local_domain, "update_time": whole(c.created),
        "creation_time": whole(c.created), "router_type": "vgw", "location": c.location,
        "cloudspace_mode": mode(c),
        "resource_limits": {
            "memory_quota": q.memory, "vdisk_space_quota": q.vdisk_space,
            "public_ip_quota": q.public_ip, "vcpu_quota": q.vcpu,
            "external_network_quota": q.external_network,
        },
    })
}

/// `GET {CS}/external-networks`: the network's number is text here (vco-api.md 13.1).
pub(super) fn uplinks(world: &World, c: &Cloudspace) -> Vec<Value> {
    let row = |u: &Uplink| {
        json!({
            "external_network_ip": with_length(world, &c.location, u), "metric": u.metric,
            "external_network_id": u.external_network_id.to_string(), "type": "external",
        })
    };
    c.uplinks.iter().map(row).collect()
}

/// `GET {L}/external-networks/{external_network_id}`.
pub(super) fn network(n: &ExternalNetwork) -> Value {
    let range = Range::parse(&n.network);
    json!({
        "external_network_id": n.external_network_id, "network": n.network, "name": n.name,
        "gateway": range.map(Range::gateway).unwrap_or_default(),
        "subnet_mask": range.map(Range::mask).unwrap_or_default(),
        "dhcp": n.dhcp, "public": n.public,
    })
}

/// `GET {C}/quota`: 0 is without limit here (vco-api.md 11).
pub(super) fn customer_quota(world: &World, customer: &str) -> Value {
    let rows = world.locations.iter().map(|site| {
        let mine = |a: &&quota::Allowance| a.customer_id == customer && a.location == site.location;
        let most = world.allowances.iter().find(mine).cloned().unwrap_or_default();
        json!({"name": site.location, "resources": {
            "max_cpu_capacity": most.max_cpu_capacity,
            "max_vdisk_capacity": most.max_vdisk_capacity,
            "max_memory_capacity": most.max_memory_capacity,
            "max_public_ips": most.max_public_ips, "max_iops": most.max_iops,
        }})
    });
    let rows: Vec<Value> = rows.collect();
    json!({"locations": rows, "resource_limit_message": world.resource_limit_message})
}

/// `GET {C}/locations/consumption`: a total of 0 is without limit (inference); memory in GiB,
/// disks in TiB, both rounded up (vco-api.md 2: MU, SU).
pub(super) fn consumption(world: &World, customer: &str) -> Vec<Value> {
    let row = |location: &str| {
        let mine = |a: &&quota::Allowance| a.customer_id == customer && a.location == location;
        let most = world.allowances.iter().find(mine).cloned().unwrap_or_default();
        let used = quota::used(world, customer, location);
        json!({
            "location": location, "total_vcpu": most.max_cpu_capacity,
            "total_mu": whole(most.max_memory_capacity),
            "total_su": most.max_vdisk_capacity.div_ceil(1024),
            "total_piu": most.max_public_ips, "used_vcpu": used.vcpus,
            "used_mu": used.memory.div_ceil(1024), "used_su": used.disk.div_ceil(1024),
            "used_piu": used.ips,
        })
    };
    world.locations.iter().map(|s| row(&s.location)).collect()
}

/// The cloudspaces of `GET {C}/recycle-bin`.
pub(in crate::sim) fn binned(world: &World, customer: &str, good: &[String]) -> Value {
    let mine = world.cloudspaces.iter().filter(|c| {
        c.customer_id == customer && good.contains(&c.location) && c.status == "DELETED"
    });
    let rows = mine.map(|c| {
        json!({
            "cloudspace_name": c.name, "cloudspace_id": c.cloudspace_id, "location": c.location,
            "deletion_time": time(c.deleted),
        })
    });
    rows.collect()
}
