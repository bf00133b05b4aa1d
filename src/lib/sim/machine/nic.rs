//! Interfaces of a machine to external networks and to other cloudspaces.

use serde_json::{Value, json};

use super::super::doing::Staged as _;
use super::super::network::quota::{self, Want};
use super::super::reply::Reply;
use super::super::visit::{Visit, result};
use super::super::world::{Cloudspace, Nic, Vm};
use super::operations::Op;
use super::record::mac;
use super::words;

/// `…/external-nics…`.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    match op {
        Op::AttachNic => attach(visit),
        Op::DetachNic => detach(visit),
        _ => {
            let (location, vm) = (visit.location()?, visit.vm()?.clone());
            let rows = words::nics(visit.world, &location, &vm);
            if op == Op::Nics {
                return Ok(result(rows));
            }
            let wanted = visit.call.in_path("external_ip_address");
            let at = vm.nics.iter().position(|nic| nic.ip == wanted).ok_or_else(unknown)?;
            Ok(Reply::json(rows.get(at).cloned().unwrap_or(Value::Null)))
        }
    }
}

fn unknown() -> Reply {
    Reply::error(404, "Virtual machine has no such interface")
}

/// `POST`: only while the machine rests, running or not (vco-api.md 5.2, AM).
fn attach(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let space = visit.space()?.clone();
    let vm = visit.idle_vm()?.clone();
    super::allowed(&vm.status, &["RUNNING", "HALTED", "PAUSED"])?;
    let network_id = visit.number("external_network_id").unwrap_or(0);
    let other = visit.text("external_network_type") == "cloudspace" || network_id == -1;
    let ip = if other { inside(visit, &space)? } else { outside(visit, &space, network_id)? };
    let given = visit.text("model");
    let nic = Nic {
        network_id: if other { -1 } else { network_id },
        ip,
        mac: mac(vm.vm_id, (1..32).find(|n| free_mac(&vm, *n)).unwrap_or(31)),
        model: if given.is_empty() { "virtio".into() } else { given.into() },
        external_cloudspace_id: visit.text("external_cloudspace_id").into(),
    };
    changing(visit, |vm| vm.nics.push(nic))
}

fn free_mac(vm: &Vm, nth: u64) -> bool {
    vm.nics.iter().all(|nic| nic.mac != mac(vm.vm_id, nth))
}

fn changing(visit: &mut Visit<'_>, change: impl FnOnce(&mut Vm)) -> Result<Reply, Reply> {
    let (now, takes) = (visit.now, visit.world.rules.attach_time);
    let vm = visit.idle_vm()?;
    change(vm);
    let rests = match vm.status.as_str() {
        "RUNNING" => "RUNNING",
        "PAUSED" => "PAUSED",
        _ => "HALTED",
    };
    vm.begin("ATTACHING_NIC", rests, now, takes);
    Ok(Reply::success())
}

/// An address of an external network, which the caller names or not.
fn outside(visit: &Visit<'_>, space: &Cloudspace, network_id: i64) -> Result<String, Reply> {
    let id = u64::try_from(network_id).unwrap_or(0);
    let site = visit.world.locations.iter().find(|s| s.location == space.location);
    let network = site.and_then(|s| s.external(id));
    let network = network.ok_or_else(|| Reply::error(404, "External network not found"))?;
    if network.public {
        quota::room(visit.world, space, Want { ips: 1, ..Want::default() })?;
    }
    visit.world.public_address(&space.location, id, visit.text("external_network_ip"))
}

/// An address in another cloudspace of the same customer and location.
fn inside(visit: &Visit<'_>, space: &Cloudspace) -> Result<String, Reply> {
    let id = visit.text("external_cloudspace_id");
    let other = visit.world.cloudspace(id).filter(|c| {
        c.customer_id == space.customer_id && c.location == space.location && c.works()
    });
    let other = other.ok_or_else(|| Reply::error(404, "Cloudspace not found"))?;
    let mut free = visit.world.free_private(other);
    let wanted = visit.text("external_network_ip").split('/').next().unwrap_or_default();
    let none = || Reply::error(400, "Ip address is not free");
    if wanted.is_empty() {
        return free.pop().ok_or_else(none);
    }
    free.into_iter().find(|ip| ip == wanted).ok_or_else(none)
}

/// `DELETE`: network, kind and address must all fit.
fn detach(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let vm = visit.idle_vm()?.clone();
    super::allowed(&vm.status, &["RUNNING", "HALTED", "PAUSED"])?;
    let ip = visit.call.in_path("external_ip_address");
    let network_id = visit.number("external_network_id").unwrap_or(0);
    let kind = visit.text("external_network_type");
    let fits = |nic: &Nic| {
        nic.ip == ip
            && nic.network_id == network_id
            && (nic.network_id == -1) == (kind == "cloudspace")
    };
    let at = vm.nics.iter().position(fits).ok_or_else(unknown)?;
    changing(visit, |vm| drop(vm.nics.remove(at)))
}

/// The kind as the API shows it: in capitals (vco-api.md 5.5, PU).
pub(super) fn kind(nic: &Nic) -> Value {
    json!(if nic.network_id == -1 { "CLOUDSPACE" } else { "EXTERNAL" })
}
