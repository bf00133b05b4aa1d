//! What a customer or a cloudspace may use, and what it uses: state and rules, no I/O.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::reply::Reply;
use super::super::world::{Cloudspace, Vm, World};

/// What a customer may use in a location; 0 is without limit (vco-api.md 11).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Allowance {
    /// The customer.
    pub customer_id: String,
    /// The location.
    pub location: String,
    /// Virtual CPUs.
    pub max_cpu_capacity: u64,
    /// Disks, in GiB.
    pub max_vdisk_capacity: u64,
    /// Memory, in GiB.
    pub max_memory_capacity: f64,
    /// Public addresses.
    pub max_public_ips: u64,
    /// Operations a second of all disks.
    pub max_iops: u64,
}

impl Allowance {
    /// What a call says (vco-api.md 11).
    pub(super) fn read(customer_id: &str, location: &str, said: &Value) -> Self {
        let whole = |key: &str| said[key].as_u64().unwrap_or(0);
        Self {
            customer_id: customer_id.into(),
            location: location.into(),
            max_cpu_capacity: whole("max_cpu_capacity"),
            max_vdisk_capacity: whole("max_vdisk_capacity"),
            max_memory_capacity: said["max_memory_capacity"].as_f64().unwrap_or(0.0),
            max_public_ips: whole("max_public_ips"),
            max_iops: whole("max_iops"),
        }
    }
}

/// An amount of everything that has a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::sim) struct Want {
    pub(in crate::sim) vcpus: u64,
    /// In MiB.
    pub(in crate::sim) memory: u64,
    /// In GiB.
    pub(in crate::sim) disk: u64,
    pub(in crate::sim) ips: u64,
    pub(in crate::sim) iops: u64,
}

impl std::ops::Add for Want {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            vcpus: self.vcpus + more.vcpus,
            memory: self.memory + more.memory,
            disk: self.disk + more.disk,
            ips: self.ips + more.ips,
            iops: self.iops + more.iops,
        }
    }
}

/// Whether a cloudspace and its customer may have so much more; else 400 with a sentence that
/// names the missing amount (vco-api.md 5.1, G8S).
pub(in crate::sim) fn room(world: &World, space: &Cloudspace, want: Want) -> Result<(), Reply> {
    let of_space = used_in(world, space);
    let quota = &space.quota;
    let limit = |most: i64| u64::try_from(most).ok();
    let most = |gib: f64| (gib >= 0.0).then_some(gib * 1024.0);
    within("cloudspace", "vCPU", of_space.vcpus, want.vcpus, limit(quota.vcpu))?;
    within("cloudspace", "GiB of disk", of_space.disk, want.disk, limit(quota.vdisk_space))?;
    within("cloudspace", "public ip", of_space.ips, want.ips, limit(quota.public_ip))?;
    within_memory("cloudspace", of_space.memory, want.memory, most(quota.memory))?;
    room_in_location(world, &space.customer_id, &space.location, want)
}

/// The same for a customer in a location.
pub(in crate::sim) fn room_in_location(
    world: &World,
    customer: &str,
    location: &str,
    want: Want,
) -> Result<(), Reply> {
    let mine = |a: &&Allowance| a.customer_id == customer && a.location == location;
    let Some(most) = world.allowances.iter().find(mine) else { return Ok(()) };
    let used = used(world, customer, location);
    let limit = |most: u64| (most > 0).then_some(most);
    within("customer", "vCPU", used.vcpus, want.vcpus, limit(most.max_cpu_capacity))?;
    within("customer", "GiB of disk", used.disk, want.disk, limit(most.max_vdisk_capacity))?;
    within("customer", "public ip", used.ips, want.ips, limit(most.max_public_ips))?;
    within("customer", "IOPS", used.iops, want.iops, limit(most.max_iops))?;
    let memory = most.max_memory_capacity;
    within_memory("customer", used.memory, want.memory, (memory > 0.0).then_some(memory * 1024.0))
}

fn within(whose: &str, unit: &str, used: u64, want: u64, most: Option<u64>) -> Result<(), Reply> {
    let Some(most) = most.filter(|most| want > 0 && used + want > *most) else { return Ok(()) };
    let missing = used + want - most;
    Err(breach(whose, &format!("{missing} {unit}"), &format!("{used} of {most}")))
}

fn within_memory(whose: &str, used: u64, want: u64, most: Option<f64>) -> Result<(), Reply> {
    let as_float = |mib: u64| u32::try_from(mib).map_or(f64::MAX, f64::from);
    let over = most.filter(|most| want > 0 && as_float(used + want) > *most);
    let Some(most) = over else { return Ok(()) };
    let missing = as_float(used + want) - most;
    Err(breach(whose, &format!("{missing} MiB of memory"), &format!("{used} of {most}")))
}

fn breach(whose: &str, missing: &str, used: &str) -> Reply {
    let why = format!(
        "ResourceLimitExceededError: the {whose} lacks {missing}; {used} are in use already"
    );
    Reply::error(400, why)
}

/// What a cloudspace uses, with the disks on its machines.
fn used_in(world: &World, space: &Cloudspace) -> Want {
    if !space.exists() {
        return Want::default();
    }
    let binned = world.rules.bin_counts;
    let site = world.locations.iter().find(|s| s.location == space.location);
    let counted = space.vms.iter().filter(|vm| vm.lives() || (binned && vm.exists()));
    let of_vm = |vm: &Vm| {
        let disks = site.into_iter().flat_map(|s| &s.disks);
        let disks = disks.filter(|d| d.vm_id == vm.vm_id && d.exists());
        let disk = disks.clone().map(|d| d.size).sum();
        let iops = disks.map(|d| d.iops).sum();
        let public = |id: i64| {
            let id = u64::try_from(id).unwrap_or(0);
            site.and_then(|s| s.external(id)).is_some_and(|n| n.public)
        };
        let addresses = vm.nics.iter().filter(|nic| public(nic.network_id)).count() as u64;
        Want { vcpus: vm.vcpus, memory: vm.memory, disk, ips: addresses, iops }
    };
    let sum = counted.map(of_vm).fold(Want::default(), |sum, one| sum + one);
    sum + Want { ips: space.uplinks.len() as u64, ..Want::default() }
}

/// What a customer uses in a location, free disks included.
pub(super) fn used(world: &World, customer: &str, location: &str) -> Want {
    let here = world.cloudspaces.iter();
    let here = here.filter(|c| c.customer_id == customer && c.location == location);
    let sum = here.map(|c| used_in(world, c)).fold(Want::default(), |sum, one| sum + one);
    let site = world.locations.iter().find(|s| s.location == location);
    let binned = world.rules.bin_counts;
    let free = site.into_iter().flat_map(|s| &s.disks).filter(|d| {
        d.customer_id == customer && d.vm_id == 0 && d.exists() && (binned || !d.is_binned())
    });
    free.fold(sum, |sum, d| sum + Want { disk: d.size, iops: d.iops, ..Want::default() })
}

#[cfg(test)]
mod tests {
    use super::super::super::world::Quota;
    use super::*;

    const HERE: &str = "be-mac-dc01-001";

    fn refusal(change: impl Fn(&mut World, &str), want: Want) -> Option<String> {
        let mut world = World::small();
        let (id, _) = world.add_vm(HERE, 100, "a");
        change(&mut world, &id);
        let space = world.cloudspace(&id).unwrap();
        let reply = room(&world, space, want).err()?;
        assert_eq!(reply.status, 400);
        reply.as_journaled()["message"].as_str().map(str::to_owned)
    }

    type Limit = fn(&mut Allowance);

    #[test]
    fn a_breach_names_what_is_missing() {
        let want = Want { vcpus: 2, memory: 2048, disk: 10, ips: 1, iops: 2000 };
        assert_eq!(refusal(|_, _| (), want), None, "nothing is limited");
        let cases: [(Limit, &str); 5] = [
            (|a| a.max_cpu_capacity = 3, "1 vCPU"),
            (|a| a.max_vdisk_capacity = 15, "5 GiB of disk"),
            (|a| a.max_memory_capacity = 3.5, "512 MiB of memory"),
            (|a| a.max_iops = 3000, "1000 IOPS"),
            (|a| a.max_cpu_capacity = 4, ""),
        ];
        for (limit, missing) in cases {
            let told = refusal(
                |world, _| {
                    let mut most = Allowance::read("acme_1", HERE, &Value::Null);
                    limit(&mut most);
                    world.allowances.push(most);
                },
                want,
            );
            assert_eq!(told.is_some(), !missing.is_empty(), "{missing}");
            assert!(told.unwrap_or_default().contains(missing), "{missing}");
        }
    }

    #[test]
    fn a_cloudspace_has_limits_of_its_own_and_zero_is_one() {
        let want = Want { vcpus: 1, memory: 2, ..Want::default() };
        for (vcpu, memory, refused) in [(-1, -1.0, false), (0, -1.0, true), (3, 2.0, true)] {
            let told = refusal(
                |world, id| {
                    let quota = Quota { vcpu, memory, ..Quota::default() };
                    world.cloudspace_mut(id).unwrap().quota = quota;
                },
                want,
            );
            assert_eq!(told.is_some(), refused, "{vcpu} {memory}");
        }
    }

    #[test]
    fn what_is_in_the_bin_counts_if_the_rule_says_so() {
        let want = Want { vcpus: 1, ..Want::default() };
        for (counts, refused) in [(true, true), (false, false)] {
            let told = refusal(
                |world, id| {
                    world.rules.bin_counts = counts;
                    let space = world.cloudspace_mut(id).unwrap();
                    space.quota.vcpu = 2;
                    "DELETED".clone_into(&mut space.vms[0].status);
                },
                want,
            );
            assert_eq!(told.is_some(), refused);
        }
    }
}
