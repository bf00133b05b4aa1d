//! The bodies of replies about ingress, in the vendor's words; pure.

use serde_json::{Value, json};

use super::super::world::{Balancer, Cloudspace, Forward, Host, Pool};

/// A row of `GET {CS}/ingress/server-pools`.
pub(super) fn pool_row(p: &Pool) -> Value {
    json!({"serverpool_id": p.serverpool_id, "name": p.name, "locked": p.locked})
}

/// `GET {CS}/ingress/server-pools/{serverpool_id}`.
pub(super) fn pool(p: &Pool) -> Value {
    json!({
        "serverpool_id": p.serverpool_id, "name": p.name, "description": p.description,
        "locked": p.locked, "hosts": p.hosts.iter().map(host).collect::<Vec<_>>(),
    })
}

/// A host of a pool.
pub(super) fn host(h: &Host) -> Value {
    json!({"host_id": h.host_id, "address": h.address})
}

/// A row of `GET {CS}/ingress/load-balancers`: neither port nor address (vco-api.md 7.3).
pub(super) fn balancer_row(space: &Cloudspace, b: &Balancer) -> Value {
    let pool = space.pool(&b.serverpool_id);
    json!({
        "loadbalancer_id": b.loadbalancer_id, "name": b.name, "locked": b.locked,
        "serverpool_name": pool.map(|p| p.name.as_str()), "type": b.kind,
    })
}

/// `GET {CS}/ingress/load-balancers/{loadbalancer_id}`.
pub(super) fn balancer(b: &Balancer) -> Value {
    json!({
        "loadbalancer_id": b.loadbalancer_id, "name": b.name, "description": b.description,
        "locked": b.locked, "type": b.kind,
        "front_end": {
            "port": b.port, "ip_address": b.ip_address,
            "tls": {
                "is_enabled": b.tls.is_enabled, "domain": b.tls.domain,
                "tls_termination": b.tls.tls_termination,
            },
        },
        "back_end": {"serverpool_id": b.serverpool_id, "target_port": b.target_port},
    })
}

fn local_ip<'s>(space: &'s Cloudspace, f: &Forward) -> Option<&'s str> {
    space.vm(f.vm_id).map(|vm| vm.private_ip.as_str())
}

/// A port forward, with the nulls that were seen (vco-api.md 7.1, PU).
pub(super) fn forward(space: &Cloudspace, f: &Forward) -> Value {
    json!({
        "portforward_id": f.portforward_id, "protocol": f.protocol, "local_port": f.local_port,
        "public_port": f.public_port, "public_ip": f.public_ip, "local_ip": local_ip(space, f),
        "vm_id": f.vm_id, "nested_cloudspace_name": null, "nested_cloudspace_id": null,
        "till_public_port": f.till_public_port,
    })
}

/// What is left after a deletion, in the older model (vco-api.md 7.1).
pub(super) fn old_forward(space: &Cloudspace, f: &Forward) -> Value {
    let till = f.till_public_port.unwrap_or(f.public_port);
    json!({
        "portforward_id": f.portforward_id, "protocol": f.protocol, "local_port": f.local_port,
        "public_port": f.public_port, "range_length": u32::from(till - f.public_port) + 1,
        "public_ip": f.public_ip, "machine_name": space.vm(f.vm_id).map(|vm| vm.name.as_str()),
        "vm_id": f.vm_id, "local_ip": local_ip(space, f), "nested_cloudspace_name": null,
        "nested_cloudspace_id": null,
    })
}
