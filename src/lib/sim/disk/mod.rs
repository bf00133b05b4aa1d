//! Disks: made, attached, detached, grown, deleted; they are a location's, not a cloudspace's.
//!
//! What may enter: facts with an evidence tag, as in the whole room. Invariants: a disk is on one
//! machine at most; a machine has 25 at most; a boot disk does not leave its machine.
//!
//! To add an operation: a row in `operations`, an arm here, its body in `words`.

pub(super) mod operations;
pub mod record;
pub(super) mod words;

use serde_json::json;

use super::doing::{Staged as _, idle};
use super::machine::record::MOST_DISKS;
use super::machine::too_many;
use super::network::quota::{self, Want};
use super::reply::Reply;
use super::visit::{Noting, Visit, Which, result};
use super::world::{Disk, Vm};
use operations::Op;
use record::{METADATA, USUAL_IOPS};

/// Carries out a call about disks.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    match op {
        Op::List => Ok(result(words::list(visit))),
        Op::Create => create(visit),
        Op::Read => read(visit),
        Op::Delete => delete(visit),
        Op::Restore => restore(visit),
        Op::Resize => resize(visit),
        Op::LimitIo => limit(visit),
        Op::Notes => visit.notes(Noting::List, |v| Ok(&mut disk(v, Which::Living)?.notes)),
        Op::AddNote => visit.notes(Noting::Add, |v| Ok(&mut disk(v, Which::Living)?.notes)),
        Op::ChangeNote => visit.notes(Noting::Change, |v| Ok(&mut disk(v, Which::Living)?.notes)),
        Op::DeleteNote => visit.notes(Noting::Delete, |v| Ok(&mut disk(v, Which::Living)?.notes)),
        Op::OfMachine => {
            let (location, vm_id) = (visit.location()?, visit.vm()?.vm_id);
            let site = visit.site(&location)?.clone();
            Ok(result(words::of_machine(visit.world, &site.disks_on(vm_id))))
        }
        Op::Attach => attach(visit),
        Op::Detach => detach(visit),
    }
}

/// The disk of the path.
fn disk<'v>(visit: &'v mut Visit<'_>, which: Which) -> Result<&'v mut Disk, Reply> {
    let location = visit.call.in_path("location").to_owned();
    visit.disk_in(&location, visit.call.number("disk_id"), which)
}

fn create(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let location = visit.call.in_path("location").to_owned();
    let made = described(visit)?;
    let want = Want { disk: made.size, iops: made.iops, ..Want::default() };
    quota::room_in_location(visit.world, visit.customer(), &location, want)?;
    let onto = match visit.count("vm_id") {
        Some(vm_id) => Some(machine(visit, &location, vm_id)?),
        None if visit.text("vm_id").is_empty() => None,
        None => return Err(Reply::error(404, "Virtual machine not found")),
    };
    let (now, takes) = (visit.now, visit.world.rules.disk_time);
    let disk_id = visit.site(&location)?.add_disk(made);
    if let Some(at) = onto {
        put_on(visit, &location, disk_id, at)?;
    } else {
        let disk = visit.disk_in(&location, disk_id, Which::Living)?;
        disk.begin("CREATING", "CREATED", now, takes);
    }
    Ok(Reply::json(json!({ "disk_id": disk_id })))
}

/// The disk that a call describes.
fn described(visit: &Visit<'_>) -> Result<Disk, Reply> {
    let size = visit.count("disk_size").filter(|gib| *gib > 0);
    let size = size.ok_or_else(|| Reply::error(400, "ValidationError: disk_size is not valid"))?;
    let iops = visit.count("iops").unwrap_or(USUAL_IOPS);
    enough(iops)?;
    let kind = visit.call.arg("disk_type").unwrap_or("DATA");
    if kind != "PHYSICAL"
        && ["raid_level", "backup_size_limit"].iter().any(|k| visit.call.arg(k).is_some())
    {
        let why = "raid_level and backup_size_limit are for PHYSICAL disks only";
        return Err(Reply::error(400, why));
    }
    Ok(Disk {
        customer_id: visit.customer().to_owned(),
        name: visit.text("disk_name").to_owned(),
        description: visit.text("description").to_owned(),
        size,
        kind: kind.to_owned(),
        iops,
        created: visit.unix,
        ..Disk::default()
    })
}

/// The least limit is 100 (vco-api.md 6.1).
fn enough(iops: u64) -> Result<(), Reply> {
    if iops < 100 {
        return Err(Reply::error(400, "ValidationError: iops must be at least 100"));
    }
    Ok(())
}

/// The places of a machine in any cloudspace of the customer here: it rests, and has room.
fn machine(visit: &Visit<'_>, location: &str, vm_id: u64) -> Result<(usize, usize), Reply> {
    let spaces = visit.world.cloudspaces.iter().enumerate();
    let mut mine =
        spaces.filter(|(_, c)| c.location == location && c.customer_id == visit.customer());
    let living = |vm: &Vm| vm.vm_id == vm_id && vm.lives();
    let found = mine.find_map(|(at, c)| Some((at, c.vms.iter().position(living)?)));
    let (at, index) = found.ok_or_else(|| Reply::error(404, "Virtual machine not found"))?;
    let vm = &visit.world.cloudspaces[at].vms[index];
    idle("Virtual machine", vm.doing.as_ref())?;
    rests(&vm.status)?;
    let site = visit.world.locations.iter().find(|s| s.location == location);
    let disks = site.map(|s| s.disks_on(vm_id)).unwrap_or_default();
    // Cloud-init's disk counts, whether it is known or not (vco-api.md 6.2, inference).
    let metadata = usize::from(!disks.iter().any(|d| d.kind == METADATA));
    if disks.len() + metadata >= MOST_DISKS {
        return Err(too_many());
    }
    Ok((at, index))
}

/// Disks come and go only while a machine rests, running or not (vco-api.md 5.2, AM).
fn rests(status: &str) -> Result<&'static str, Reply> {
    match status {
        "RUNNING" => Ok("RUNNING"),
        "HALTED" => Ok("HALTED"),
        "PAUSED" => Ok("PAUSED"),
        status => Err(Reply::error(400, format!("Not possible while virtual machine is {status}"))),
    }
}

fn put_on(
    visit: &mut Visit<'_>,
    location: &str,
    disk_id: u64,
    (at, index): (usize, usize),
) -> Result<(), Reply> {
    let (now, takes) = (visit.now, visit.world.rules.attach_time);
    let vm = &mut visit.world.cloudspaces[at].vms[index];
    let (vm_id, status) = (vm.vm_id, rests(&vm.status)?);
    vm.begin("ATTACHING_DISK", status, now, takes);
    let order = visit.site(location)?.next_order(vm_id);
    let disk = visit.disk_in(location, disk_id, Which::Living)?;
    (disk.vm_id, disk.order) = (vm_id, order);
    disk.begin("ATTACHING", "ASSIGNED", now, takes);
    Ok(())
}

/// `POST {VM}/disks`: on the same machine already is success, on another one 400 (vco-api.md
/// 6.2, G8S).
fn attach(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (location, vm_id) = (visit.location()?, visit.vm()?.vm_id);
    let disk_id = visit.count("disk_id").unwrap_or(0);
    let disk = visit.disk_in(&location, disk_id, Which::Living)?.clone();
    if disk.is_on(vm_id) {
        return Ok(Reply::success());
    }
    idle("Disk", disk.doing.as_ref())?;
    if disk.vm_id != 0 {
        return Err(Reply::error(400, "Disk is attached to another virtual machine"));
    }
    if disk.kind == "BOOT" {
        return Err(Reply::error(400, "A boot disk cannot be attached"));
    }
    let at = machine(visit, &location, vm_id)?;
    put_on(visit, &location, disk_id, at)?;
    Ok(Reply::success())
}

/// `DELETE {VM}/disks/{disk_id}`: one that is not attached is success (vco-api.md 6.2, G8S).
fn detach(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (location, vm_id) = (visit.location()?, visit.vm()?.vm_id);
    let disk = visit.disk_in(&location, visit.call.number("disk_id"), Which::Living)?.clone();
    if !disk.is_on(vm_id) {
        return Ok(Reply::success());
    }
    take_off(visit, &location, &disk)?;
    Ok(Reply::success())
}

fn take_off(visit: &mut Visit<'_>, location: &str, disk: &Disk) -> Result<(), Reply> {
    let (now, takes) = (visit.now, visit.world.rules.attach_time);
    idle("Disk", disk.doing.as_ref())?;
    if disk.kind == "BOOT" || disk.kind == METADATA {
        return Err(Reply::error(400, "A boot disk cannot be detached"));
    }
    let mut here = visit.world.cloudspaces.iter_mut().filter(|c| c.location == location);
    if let Some(vm) = here.find_map(|c| c.vm_mut(disk.vm_id)) {
        idle("Virtual machine", vm.doing.as_ref())?;
        let status = rests(&vm.status)?;
        vm.begin("DETACHING_DISK", status, now, takes);
    }
    let disk = visit.disk_in(location, disk.disk_id, Which::Living)?;
    (disk.vm_id, disk.order) = (0, 0);
    disk.begin("DETACHING", "CREATED", now, takes);
    Ok(())
}

fn read(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (location, id) = (visit.call.in_path("location"), visit.call.number("disk_id"));
    let rules = &visit.world.rules;
    let which = if rules.bin_visible { Which::Binned } else { Which::Living };
    let site = visit.world.locations.iter().find(|s| s.location == location);
    let destroyed = site.and_then(|s| s.disk(id)).filter(|d| d.customer_id == visit.customer());
    if let Some(disk) = destroyed.filter(|d| !d.exists() && rules.destroyed_readable) {
        return Ok(Reply::json(words::detail(visit.world, location, disk)));
    }
    let disk = disk(visit, which)?.clone();
    Ok(Reply::json(words::detail(visit.world, visit.call.in_path("location"), &disk)))
}

/// `DELETE`: one that is gone already is success; an attached one without `detach` is 409
/// (vco-api.md 6.2, G8S).
fn delete(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (detach, permanently) = (visit.call.flag("detach", true), visit.flag("permanently"));
    let location = visit.call.in_path("location").to_owned();
    let unix = visit.unix;
    let disk_id = visit.call.number("disk_id");
    let here = visit.site(&location)?.disk(disk_id).cloned();
    let here = here.filter(|d| d.customer_id == visit.customer() && d.exists());
    let Some(there) = here else { return Ok(Reply::success()) };
    idle("Disk", there.doing.as_ref())?;
    if there.is_on(there.vm_id) {
        if !detach {
            return Err(Reply::error(409, "Disk is attached to a virtual machine"));
        }
        take_off(visit, &location, &there)?;
    }
    let disk = disk(visit, Which::Binned)?;
    disk.doing = None;
    disk.deleted = unix;
    let then = if permanently { "DESTROYED" } else { "DELETED" };
    then.clone_into(&mut disk.status);
    Ok(Reply::success())
}

/// `PUT …/restore`: what went with its machine comes back with it only (vco-api.md 6.2, G8D).
fn restore(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let disk = disk(visit, Which::Binned)?;
    if disk.status != "DELETED" {
        return Err(Reply::error(400, "Only deleted disks can be restored"));
    }
    "CREATED".clone_into(&mut disk.status);
    disk.deleted = 0.0;
    Ok(Reply::success())
}

/// `PUT …/size`: only larger (400, vco-api.md 6.1, G8S).
fn resize(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let size = visit.count("disk_size").unwrap_or(0);
    let location = visit.call.in_path("location").to_owned();
    let there = disk(visit, Which::Living)?.clone();
    idle("Disk", there.doing.as_ref())?;
    if size <= there.size {
        return Err(Reply::error(400, "A disk can only be made larger"));
    }
    let more = Want { disk: size - there.size, ..Want::default() };
    quota::room_in_location(visit.world, visit.customer(), &location, more)?;
    disk(visit, Which::Living)?.size = size;
    Ok(Reply::success())
}

fn limit(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let iops = visit.count("iops").unwrap_or(USUAL_IOPS);
    enough(iops)?;
    disk(visit, Which::Living)?.iops = iops;
    Ok(Reply::success())
}
