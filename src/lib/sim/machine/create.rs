//! What a machine is made of, and when it is not made.

use serde_json::{Map, Value, json};

use super::super::disk::record::METADATA;
use super::super::doing::Staged as _;
use super::super::network::quota::{self, Want};
use super::super::reply::Reply;
use super::super::visit::{Visit, object};
use super::super::world::{Cloudspace, Disk, Status, Vm, World};
use super::no_host;
use super::record::{Account, MOST_DISKS, Userdata};

/// A data disk is so many GB at most when its machine is made (vco-api.md 5.1, G8S).
const MOST_GB: u64 = 2000;

/// `POST {CS}/vms`.
pub(super) fn create(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let space = visit.working()?.clone();
    visit.reach(&space.location)?;
    let mut vm = described(visit, &space)?;
    let sizes = data_disks(visit.text("data_disks"))?;
    let boot = boot_disk(visit, &space, &mut vm)?;
    let disk = boot + sizes.iter().sum::<u64>();
    let iops = super::super::disk::record::USUAL_IOPS * (1 + sizes.len() as u64);
    let want = Want { vcpus: vm.vcpus, memory: vm.memory, disk, ips: 0, iops };
    quota::room(visit.world, &space, want)?;
    vm.private_ip = address(visit, &space)?;
    let starts = visit.call.flag("start_vm", true);
    if starts {
        vm.stack_id = visit.world.place(&space.cloudspace_id, &vm).ok_or_else(no_host)?;
        vm.boots = 1;
    }
    vm.vm_id = visit.world.take_vm_id(&space.location);
    let vm_id = vm.vm_id;
    add_disks(visit, &space, &vm, boot, &sizes)?;
    let then = if starts { "RUNNING" } else { "HALTED" };
    vm.begin("DEPLOYING", then, visit.now, visit.world.rules.vm_time);
    visit.space_mut()?.vms.push(vm);
    Ok(Reply::json(json!({ "vm_id": vm_id })))
}

/// The machine that a call describes.
fn described(visit: &Visit<'_>, space: &Cloudspace) -> Result<Vm, Reply> {
    let text = |name: &str| visit.text(name).to_owned();
    let whole = |name: &str| visit.count(name).unwrap_or(0);
    let (name, vcpus, memory) = (text("name"), whole("vcpus"), whole("memory"));
    free_name(visit.world, space, &name, 0)?;
    sized(vcpus, memory)?;
    let account = Account::made_up();
    let userdata = Userdata::new(userdata(visit)?, &account);
    let given = text("hostname");
    let hostname = if given.is_empty() { host_name(&name) } else { given };
    Ok(Vm {
        name,
        hostname,
        description: text("description"),
        vcpus,
        memory,
        status: "VIRTUAL".into(),
        userdata,
        account,
        created: visit.unix,
        updated: visit.unix,
        ..Vm::default()
    })
}

/// A guest's name, derived from its machine's (vco-api.md 5.1, G8S).
fn host_name(name: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.chars().filter(fits).take(63).collect()
}

/// Memory is even (400, vco-api.md 5.1, G8S).
pub(super) fn sized(vcpus: u64, memory: u64) -> Result<(), Reply> {
    if vcpus == 0 || memory == 0 {
        return Err(Reply::error(400, "ValidationError: vcpus and memory must be positive"));
    }
    if !memory.is_multiple_of(2) {
        return Err(Reply::error(400, "ValidationError: memory must be a multiple of 2"));
    }
    Ok(())
}

/// Names are unique in a cloudspace, the recycle bin included (vco-api.md 5.1, G8S, G8D).
pub(super) fn free_name(
    world: &World,
    space: &Cloudspace,
    name: &str,
    but: u64,
) -> Result<(), Reply> {
    if name.trim().is_empty() {
        return Err(Reply::error(400, "ValidationError: name is empty"));
    }
    let binned = world.rules.binned_names_reserved;
    let counts = |vm: &&Vm| vm.vm_id != but && vm.exists() && (binned || vm.lives());
    let taken = space.vms.iter().filter(counts).any(|vm| vm.name == name);
    if world.rules.unique_cloud_names && taken {
        return Err(Reply::error(409, format!("Virtual machine with name {name} already exists")));
    }
    Ok(())
}

/// User data must be a mapping (vco-api.md 5.1, G8S); where both forms are there, the body's
/// wins (unknown, inference).
fn userdata(visit: &Visit<'_>) -> Result<Map<String, Value>, Reply> {
    if let Some(given) = object(visit.body, "userdata").filter(|given| !given.is_empty()) {
        return Ok(given.clone());
    }
    match visit.call.arg("user_data").filter(|text| !text.trim().is_empty()) {
        None => Ok(Map::new()),
        Some(text) => match crate::yaml::from_str(text, "user data") {
            Ok(Value::Object(given)) => Ok(given),
            _ => Err(Reply::error(400, "User data is not a dictionary")),
        },
    }
}

fn data_disks(csv: &str) -> Result<Vec<u64>, Reply> {
    let items = csv.split(',').filter(|item| !item.is_empty());
    let sizes: Option<Vec<u64>> = items.map(|item| item.parse().ok()).collect();
    let bad = || Reply::error(400, "ValidationError: data_disks holds what is no size");
    let sizes = sizes.ok_or_else(bad)?;
    if sizes.iter().any(|gb| *gb == 0 || *gb > MOST_GB) {
        return Err(Reply::error(400, format!("A data disk has 1 to {MOST_GB} GB")));
    }
    // The boot disk and cloud-init's count too (vco-api.md 6.2, G8S).
    if sizes.len() + 2 > MOST_DISKS {
        return Err(too_many());
    }
    Ok(sizes)
}

pub(in crate::sim) fn too_many() -> Reply {
    Reply::error(400, format!("A virtual machine has at most {MOST_DISKS} disks"))
}

/// The size of the boot disk, from the image, whose way to boot the machine gets too.
fn boot_disk(visit: &mut Visit<'_>, space: &Cloudspace, vm: &mut Vm) -> Result<u64, Reply> {
    let size = visit.count("disk_size").unwrap_or(0);
    let Some(image_id) = visit.count("image_id") else {
        let why = "NotImplementedError: the embedded cloud makes machines from images only";
        return Err(Reply::error(501, why));
    };
    let rules = visit.world.rules.clone();
    let image = visit.site(&space.location)?.image(image_id).cloned();
    let image = image.filter(|image| image.is_visible(&space.customer_id, &rules));
    let image = image.ok_or_else(|| Reply::error(404, "Image not found"))?;
    if image.status != Status::Created {
        return Err(Reply::error(400, format!("Image is {}", image.status)));
    }
    if size < image.boot_disk_size {
        let least = image.boot_disk_size;
        return Err(Reply::error(400, format!("The boot disk needs at least {least} GiB")));
    }
    (vm.image_id, vm.boot_type) = (image_id, image.boot_type);
    Ok(size)
}

/// The address: the one that is asked for, or the highest that is free (vco-api.md 4.2, G8S).
fn address(visit: &Visit<'_>, space: &Cloudspace) -> Result<String, Reply> {
    let most = space.range().map_or(0, |range| range.size().saturating_sub(5));
    let living = space.vms.iter().filter(|vm| vm.lives()).count() as u64;
    let mut free = visit.world.free_private(space);
    let none = || Reply::error(400, "No private ip address is free");
    if living >= most {
        return Err(none());
    }
    let wanted = visit.text("private_ip");
    if wanted.is_empty() {
        return free.pop().ok_or_else(none);
    }
    let inside = space.range().is_some_and(|range| range.has_host(wanted));
    match free.into_iter().find(|ip| ip == wanted) {
        Some(ip) => Ok(ip),
        None if inside => Err(Reply::error(409, format!("Ip address {wanted} is in use"))),
        None => Err(Reply::error(400, format!("Ip address {wanted} is not in the cloudspace"))),
    }
}

fn add_disks(
    visit: &mut Visit<'_>,
    space: &Cloudspace,
    vm: &Vm,
    boot: u64,
    sizes: &[u64],
) -> Result<(), Reply> {
    let disk = |name: String, kind: &str, size: u64, order: u64| Disk {
        customer_id: space.customer_id.clone(),
        name,
        kind: kind.into(),
        size,
        order,
        status: "ASSIGNED".into(),
        vm_id: vm.vm_id,
        created: visit.unix,
        ..Disk::default()
    };
    let mut disks = vec![disk(format!("{} boot", vm.name), "BOOT", boot, 0)];
    for (order, size) in (1..).zip(sizes) {
        disks.push(disk(format!("{} data {order}", vm.name), "DATA", *size, order));
    }
    // After every other one, so that it takes no data disk's place.
    let order = MOST_DISKS as u64;
    disks.push(disk(format!("{} metadata", vm.name), METADATA, 0, order));
    let site = visit.site(&space.location)?;
    for disk in disks {
        site.add_disk(disk);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_data_disks_has_25_at_most() {
        let csv = |count: usize| vec!["10"; count].join(",");
        for (text, count) in
            [(csv(0), Ok(0)), (csv(23), Ok(23)), (csv(24), Err(())), ("2001".into(), Err(()))]
        {
            assert_eq!(data_disks(&text).map(|s| s.len()).map_err(drop), count, "{text}");
        }
        assert!(data_disks("[10 20]").is_err());
    }

    #[test]
    fn a_guests_name_is_made_of_its_machines() {
        for (name, host) in [("node-1", "node-1"), ("node 1.é", "node1"), ("_", "_")] {
            assert_eq!(host_name(name), host);
        }
        assert_eq!(host_name(&"a".repeat(70)).len(), 63);
    }

    #[test]
    fn memory_is_even() {
        for (vcpus, memory, good) in [(1, 2, true), (1, 513, false), (0, 2, false), (1, 0, false)] {
            assert_eq!(sized(vcpus, memory).is_ok(), good, "{vcpus} {memory}");
        }
    }
}
