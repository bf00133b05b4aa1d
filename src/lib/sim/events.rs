//! What becomes of machines, told to those who want to play their guests.
//!
//! Each listener has its own view of what it was told; what differs from the world is told next.

use std::collections::BTreeMap;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::world::{Cloudspace, Disk, Vm, World};

/// A machine that runs, as its guest needs to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Where it is.
    pub location: String,
    /// In which cloudspace.
    pub cloudspace_id: String,
    /// Its record, user data included.
    pub vm: Vm,
    /// Its address in the cloudspace.
    pub private_ip: String,
    /// Its data disks, in the order of their attachment.
    pub data_disks: Vec<Disk>,
}

/// Something happened to a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum VmEvent {
    /// Its guest boots: after its creation, a start, a reboot or a reset.
    Started(Box<Machine>),
    /// Its guest is off: after a stop, before another boot, or in the recycle bin.
    Stopped(VmAt),
    /// Its guest stands still, and may go on.
    Paused(VmAt),
    /// Its guest goes on.
    Resumed(VmAt),
    /// It is gone for good, with its disks.
    Deleted(VmAt),
}

/// Which machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VmAt {
    /// Its location.
    pub location: String,
    /// Its cloudspace.
    pub cloudspace_id: String,
    /// Its number in the location.
    pub vm_id: u64,
}

/// The events from now on; machines that run already are told as started.
#[derive(Debug)]
pub struct VmEvents(UnboundedReceiver<VmEvent>);

impl VmEvents {
    /// The next event; none when the cloud has ended.
    pub async fn next(&mut self) -> Option<VmEvent> {
        self.0.recv().await
    }

    /// The next event, if it is there already.
    pub fn try_next(&mut self) -> Option<VmEvent> {
        self.0.try_recv().ok()
    }
}

/// What a listener was told of a machine: which boot is up, and whether it is paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Told {
    boot: Option<u64>,
    paused: bool,
}

#[derive(Debug)]
struct Listener {
    to: UnboundedSender<VmEvent>,
    told: BTreeMap<VmAt, Told>,
}

/// Everybody who listens.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<Listener>);

impl Listeners {
    pub(super) fn add(&mut self) -> VmEvents {
        let (to, from) = unbounded_channel();
        self.0.push(Listener { to, told: BTreeMap::new() });
        VmEvents(from)
    }

    /// Tells everybody what they do not know yet.
    pub(super) fn keep_up(&mut self, world: &World) {
        self.0.retain(|listener| !listener.to.is_closed());
        for listener in &mut self.0 {
            for event in news(&mut listener.told, world) {
                // Whoever has gone is left out the next time.
                let _ = listener.to.send(event);
            }
        }
    }
}

fn news(told: &mut BTreeMap<VmAt, Told>, world: &World) -> Vec<VmEvent> {
    let mut news = Vec::new();
    let mut there = BTreeMap::new();
    for space in &world.cloudspaces {
        for vm in space.vms.iter().filter(|vm| vm.exists()) {
            let at = VmAt {
                location: space.location.clone(),
                cloudspace_id: space.cloudspace_id.clone(),
                vm_id: vm.vm_id,
            };
            let before = told.get(&at).copied().unwrap_or_default();
            there.insert(at.clone(), about(&mut news, &at, before, world, space, vm));
        }
    }
    for (at, before) in told.iter().filter(|(at, _)| !there.contains_key(at)) {
        if before.boot.is_some() {
            news.push(VmEvent::Stopped(at.clone()));
        }
        news.push(VmEvent::Deleted(at.clone()));
    }
    *told = there;
    news
}

/// What is new about one machine; what is known of it then.
fn about(
    news: &mut Vec<VmEvent>,
    at: &VmAt,
    before: Told,
    world: &World,
    space: &Cloudspace,
    vm: &Vm,
) -> Told {
    // What is under way is told when it is done.
    if vm.doing.is_some() && vm.is_up() {
        return before;
    }
    let now = Told { boot: vm.is_up().then_some(vm.boots), paused: vm.status == "PAUSED" };
    if before.boot != now.boot {
        if before.boot.is_some() {
            news.push(VmEvent::Stopped(at.clone()));
        }
        if now.boot.is_some() {
            news.push(VmEvent::Started(Box::new(machine(world, space, vm))));
        }
    }
    let paused_before = before.paused && before.boot == now.boot;
    match (paused_before, now.paused) {
        (false, true) => news.push(VmEvent::Paused(at.clone())),
        (true, false) => news.push(VmEvent::Resumed(at.clone())),
        _ => {}
    }
    now
}

fn machine(world: &World, space: &Cloudspace, vm: &Vm) -> Machine {
    let site = world.locations.iter().find(|s| s.location == space.location);
    let disks = site.map(|s| s.disks_on(vm.vm_id)).unwrap_or_default();
    let data = disks.into_iter().filter(|d| matches!(d.kind.as_str(), "DATA" | "PHYSICAL"));
    Machine {
        location: space.location.clone(),
        cloudspace_id: space.cloudspace_id.clone(),
        vm: vm.clone(),
        private_ip: vm.private_ip.clone(),
        data_disks: data.cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(events: &[VmEvent]) -> Vec<&'static str> {
        let word = |event: &VmEvent| match event {
            VmEvent::Started(_) => "started",
            VmEvent::Stopped(_) => "stopped",
            VmEvent::Paused(_) => "paused",
            VmEvent::Resumed(_) => "resumed",
            VmEvent::Deleted(_) => "deleted",
        };
        events.iter().map(word).collect()
    }

    type Change = fn(&mut Vm);

    #[test]
    fn a_machines_life_is_told_step_by_step() {
        let mut world = World::small();
        let (id, _) = world.add_vm("be-mac-dc01-001", 100, "a");
        let mut told = BTreeMap::new();
        let steps: [(Change, &[&str]); 9] = [
            (|_| (), &["started"]),
            (|_| (), &[]),
            (|vm| vm.boots += 1, &["stopped", "started"]),
            (|vm| vm.status = "PAUSED".into(), &["paused"]),
            (|vm| vm.status = "RUNNING".into(), &["resumed"]),
            (|vm| vm.status = "HALTED".into(), &["stopped"]),
            (|vm| vm.status = "RUNNING".into(), &["started"]),
            (|vm| vm.status = "DELETED".into(), &["stopped"]),
            (|vm| vm.status = "DESTROYED".into(), &["deleted"]),
        ];
        for (change, wanted) in steps {
            change(&mut world.cloudspace_mut(&id).unwrap().vms[0]);
            assert_eq!(words(&news(&mut told, &world)), wanted);
        }
        assert!(news(&mut told, &world).is_empty());
    }
}
