//! Virtual machines: made, switched on and off, changed, deleted; their interfaces and groups.
//!
//! What may enter: facts with an evidence tag, as in the whole room. Invariants: one action at a
//! time per machine; a machine's disks are the location's, its address the cloudspace's; what a
//! guest is told stays in its record. What a machine that runs becomes is for `events` to tell.
//!
//! To add an operation: a row in `operations`, an arm here, its body in `words`.

mod create;
mod group;
mod nic;
pub(super) mod operations;
pub mod record;
pub(super) mod words;

use serde_json::json;

use super::doing::{Staged as _, idle};
use super::network::quota::{self, Want};
use super::reply::Reply;
use super::visit::{Noting, Visit, Which, result};
use super::world::World;
pub(super) use create::too_many;
use operations::Op;

/// Carries out a call about machines.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    match op {
        Op::List => {
            let space = visit.space()?;
            Ok(result(words::list(visit, space)))
        }
        Op::Create => create::create(visit),
        Op::Read => {
            let (at, index) = visit.vm_at(bin_too(visit))?;
            let space = &visit.world.cloudspaces[at];
            Ok(Reply::json(words::detail(visit.world, space, &space.vms[index])))
        }
        Op::Delete => delete(visit),
        Op::Restore => restore(visit),
        Op::Start => start(visit),
        Op::Stop => power(visit, &["RUNNING", "PAUSED"], "STOPPING", "HALTED"),
        Op::Pause => power(visit, &["RUNNING"], "PAUSING", "PAUSED"),
        Op::Resume => power(visit, &["PAUSED"], "RESUMING", "RUNNING"),
        Op::Reboot => reboot(visit, "REBOOTING"),
        Op::Reset => reboot(visit, "RESETTING"),
        Op::Resize => resize(visit),
        Op::Rename => {
            let name = visit.text("name").to_owned();
            let (at, index) = visit.vm_at(Which::Living)?;
            let id = visit.world.cloudspaces[at].vms[index].vm_id;
            create::free_name(visit.world, &visit.world.cloudspaces[at], &name, id)?;
            visit.idle_vm()?.name = name;
            Ok(Reply::json(json!({ "vm_id": id })))
        }
        Op::Describe => {
            let description = visit.text("description").to_owned();
            let vm = visit.vm_mut()?;
            vm.description = description;
            Ok(Reply::json(json!({ "vm_id": vm.vm_id })))
        }
        Op::Notes => visit.notes(Noting::List, |v| Ok(&mut v.vm_mut()?.notes)),
        Op::AddNote => visit.notes(Noting::Add, |v| Ok(&mut v.vm_mut()?.notes)),
        Op::ChangeNote => visit.notes(Noting::Change, |v| Ok(&mut v.vm_mut()?.notes)),
        Op::DeleteNote => visit.notes(Noting::Delete, |v| Ok(&mut v.vm_mut()?.notes)),
        Op::Nics | Op::Nic | Op::AttachNic | Op::DetachNic => nic::answer(visit, op),
        Op::Groups | Op::AddGroup | Op::Group | Op::ChangeGroup | Op::DeleteGroup => {
            group::answer(visit, op)
        }
        Op::Members | Op::Join | Op::Leave => group::members(visit, op),
    }
}

fn bin_too(visit: &Visit<'_>) -> Which {
    if visit.world.rules.bin_visible { Which::Binned } else { Which::Living }
}

/// An action that a machine allows in some states only (vco-api.md 5.2, G8D); what is so already
/// stays so (inference).
fn power(
    visit: &mut Visit<'_>,
    from: &[&str],
    word: &'static str,
    then: &'static str,
) -> Result<Reply, Reply> {
    let (now, takes) = (visit.now, visit.world.rules.power_time);
    let vm = visit.idle_vm()?;
    if vm.status == then {
        return Ok(Reply::success());
    }
    allowed(&vm.status, from)?;
    vm.begin(word, then, now, takes);
    Ok(Reply::success())
}

fn allowed(status: &str, from: &[&str]) -> Result<(), Reply> {
    let refused = || Reply::error(400, format!("Not possible while virtual machine is {status}"));
    if from.contains(&status) { Ok(()) } else { Err(refused()) }
}

/// `POST …/start`: the machine gets a host; none with room is 503 (vco-api.md 5.1, G8S).
fn start(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (now, takes) = (visit.now, visit.world.rules.power_time);
    if !visit.space()?.works() {
        return Err(Reply::error(400, "Cloudspace is not DEPLOYED"));
    }
    let vm = visit.idle_vm()?.clone();
    if vm.status == "RUNNING" {
        return Ok(Reply::success());
    }
    allowed(&vm.status, &["HALTED", "ERROR"])?;
    let stack = visit.world.place(visit.call.in_path("cloudspace_id"), &vm);
    let vm = visit.idle_vm()?;
    vm.stack_id = stack.ok_or_else(no_host)?;
    vm.boots += 1;
    vm.begin("STARTING", "RUNNING", now, takes);
    Ok(Reply::success())
}

/// The answer where no host has room (vco-api.md 5.1, G8S).
fn no_host() -> Reply {
    Reply::error(503, "No host has room for the virtual machine")
}

fn reboot(visit: &mut Visit<'_>, word: &'static str) -> Result<Reply, Reply> {
    let (now, takes) = (visit.now, visit.world.rules.power_time);
    let vm = visit.idle_vm()?;
    allowed(&vm.status, &["RUNNING"])?;
    vm.boots += 1;
    vm.begin(word, "RUNNING", now, takes);
    Ok(Reply::success())
}

/// `PUT …/size`: what is left out stays; less needs a halted machine (400, vco-api.md 5.3, G8S).
fn resize(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (vcpus, memory) = (visit.count("vcpus"), visit.count("memory"));
    let space = visit.space()?.clone();
    let vm = visit.idle_vm()?.clone();
    let (vcpus, memory) = (vcpus.unwrap_or(vm.vcpus), memory.unwrap_or(vm.memory));
    create::sized(vcpus, memory)?;
    if (vcpus < vm.vcpus || memory < vm.memory) && vm.status != "HALTED" {
        return Err(Reply::error(400, "A virtual machine is made smaller while it is HALTED"));
    }
    let more = Want {
        vcpus: vcpus.saturating_sub(vm.vcpus),
        memory: memory.saturating_sub(vm.memory),
        ..Want::default()
    };
    quota::room(visit.world, &space, more)?;
    let vm = visit.idle_vm()?;
    (vm.vcpus, vm.memory) = (vcpus, memory);
    Ok(Reply::success())
}

/// `DELETE`: its port forwards and interfaces go, the hosts of pools stay (vco-api.md 5.1, G8S).
fn delete(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (permanently, detach) = (visit.flag("permanently"), visit.flag("detach_disks"));
    let (at, index) = visit.vm_at(Which::Binned)?;
    let (gone, now, unix) = (visit.gone("Virtual machine"), visit.now, visit.unix);
    let takes = visit.world.rules.delete_time;
    let space = &mut visit.world.cloudspaces[at];
    let vm = &mut space.vms[index];
    idle("Virtual machine", vm.doing.as_ref())?;
    if vm.status == "DELETED" && !permanently {
        return Err(gone);
    }
    if vm.locked {
        return Err(Reply::error(409, "Virtual machine is locked"));
    }
    let vm_id = vm.vm_id;
    vm.nics.clear();
    vm.private_ip.clear();
    (vm.updated, vm.deleted) = (unix, unix);
    let (word, then) =
        if permanently { ("DESTROYING", "DESTROYED") } else { ("DELETING", "DELETED") };
    if vm.is_up() {
        // Its guest is off from here on.
        "HALTED".clone_into(&mut vm.status);
    }
    vm.begin(word, then, now, takes);
    space.forwards.retain(|f| f.vm_id != vm_id);
    if permanently {
        space.groups.iter_mut().for_each(|g| g.members.retain(|m| *m != vm_id));
    }
    let location = space.location.clone();
    drop_disks(visit.world, &location, vm_id, permanently, detach, unix);
    Ok(Reply::success())
}

/// What becomes of the disks of a machine that is deleted: data disks go with it unless they are
/// detached (vco-api.md 5.1, G8D, G8S).
fn drop_disks(
    world: &mut World,
    location: &str,
    vm_id: u64,
    permanently: bool,
    detach: bool,
    unix: f64,
) {
    let Some(site) = world.find_site(location) else { return };
    for disk in site.disks.iter_mut().filter(|d| d.vm_id == vm_id && d.exists()) {
        disk.doing = None;
        if detach && matches!(disk.kind.as_str(), "DATA" | "PHYSICAL") && !disk.is_binned() {
            "CREATED".clone_into(&mut disk.status);
            (disk.vm_id, disk.order) = (0, 0);
        } else {
            let then = if permanently { "DESTROYED" } else { "TOBEDELETED" };
            then.clone_into(&mut disk.status);
            disk.deleted = unix;
        }
    }
}

/// `PUT …/restore`: it comes back HALTED with a new address (vco-api.md 5.1, G8S).
fn restore(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (at, index) = visit.vm_at(Which::Binned)?;
    let (now, takes) = (visit.now, visit.world.rules.vm_time);
    let space = &visit.world.cloudspaces[at];
    if space.vms[index].status != "DELETED" || space.vms[index].doing.is_some() {
        return Err(Reply::error(400, "Only deleted virtual machines can be restored"));
    }
    let location = space.location.clone();
    let address = visit.world.free_private(space).pop();
    let none = || Reply::error(400, "No private ip address is free");
    let vm = &mut visit.world.cloudspaces[at].vms[index];
    vm.private_ip = address.ok_or_else(none)?;
    vm.deleted = 0.0;
    let vm_id = vm.vm_id;
    vm.begin("RESTORING", "HALTED", now, takes);
    for disk in &mut visit.site(&location)?.disks {
        if disk.vm_id == vm_id && disk.status == "TOBEDELETED" {
            "ASSIGNED".clone_into(&mut disk.status);
            disk.deleted = 0.0;
        }
    }
    Ok(Reply::success())
}
