//! Decides the next step of a machine, and what is to be said of it. Pure.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::{Map, Value};

use super::gate::{Around, Site, is_control_plane};
use super::memory::{Facts, Group};
use crate::api::condition::{
    BOOTSTRAP_DATA_FOUND, BOOTSTRAP_DATA_READY, DISKS_ATTACHED, DISKS_MISSING, DISKS_READY,
    IMAGE_FOUND, IMAGE_RESOLVED, IS_READY, LOAD_BALANCER_MEMBER, MEMBER, NAME_TAKEN, NICS_MISSING,
    NOT_MEMBER, READY, Said, VM_CREATING, VM_FAILED, VM_NOT_FOUND, VM_NOT_RUNNING, VM_PROVISIONED,
    VM_RUNNING, VM_STARTING,
};
use crate::api::machine::{DataDisk, DiskType, ExternalNic, RaidLevel};
use crate::id::{DiskId, ImageId, VmId};
use crate::manager::doubt::Doubt;
use crate::manager::step::Step;
use crate::vco::{Disk, NewDisk, NewVm, Nic, Vm, VmDetail};

/// How long to wait for what another machine is about to do.
const MOMENT: Duration = Duration::from_secs(1);
/// How long to wait for a VM on its way.
const SOON: Duration = Duration::from_secs(5);
/// How long to wait for what only somebody else can mend.
const LATER: Duration = Duration::from_mins(1);
/// What a machine's VM is called where it is in doubt; no disk has this name.
pub const VM: &str = "";

/// What was found of the VM.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Found {
    /// None of its name.
    #[default]
    None,
    /// The one that the provider id names is in no list yet: it was made a moment ago.
    Unseen(VmId),
    /// The one that the provider id names is in no list.
    Lost(VmId),
    /// One of its name that is not marked as ours.
    Foreign(VmId),
    /// Several that are marked as this machine's.
    Several(usize),
    /// The machine's.
    Ours {
        /// As lists show it.
        vm: Vm,
        /// In detail, where that was needed.
        detail: Option<Box<VmDetail>>,
    },
}

/// Why there is no such thing: a condition's reason and message.
pub type Miss = (&'static str, String);

/// Everything that was seen.
#[derive(Default)]
pub struct Seen {
    /// The VM.
    pub vm: Found,
    /// Another VM that is marked as the machine's and was never started.
    pub spare: Option<VmId>,
    /// The image, or the reason and message of why there is none.
    pub image: Option<Result<ImageId, Miss>>,
    /// What the VM is told, or the reason and message of why it cannot be told that.
    pub userdata: Option<Result<Map<String, Value>, Miss>>,
    /// What is known of the group that the VM is to join.
    pub group: Group,
    /// The location's disks, if the VM lacks one.
    pub disks: Option<Vec<Disk>>,
    /// A free address for the interface that the VM lacks.
    pub free_address: Option<String>,
}

/// The one thing that is changed in a pass.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// The machine is claimed, before anything is made for it.
    Claim,
    /// A VM is made, stopped.
    Create(Box<NewVm>),
    /// Its id is written down.
    WriteId(VmId),
    /// A group is made.
    CreateGroup(String, i32),
    /// The VM joins a group.
    Join(String, VmId),
    /// A disk is made and attached.
    CreateDisk(NewDisk),
    /// A disk that was made before is attached.
    AttachDisk(DiskId, VmId),
    /// An interface is attached.
    AttachNic(u64, String, VmId),
    /// The VM is started.
    Start(VmId),
    /// A second VM, which nobody has ever started, is deleted.
    DropSpare(VmId),
}

/// What is to be done and said.
#[derive(Debug, PartialEq)]
pub struct Plan {
    /// What is changed.
    pub action: Option<Action>,
    /// What is said.
    pub said: Vec<Said>,
    /// When to look again.
    pub step: Step,
}

impl Plan {
    fn wait(step: Step, said: Vec<Said>) -> Self {
        Self { action: None, said, step }
    }

    fn act(action: Action, said: Vec<Said>) -> Self {
        Self { action: Some(action), said, step: Step::Changed }
    }
}

/// The next step.
#[must_use]
pub fn plan(around: &Around, site: &Site, seen: Seen, facts: &Facts, doubt: &Doubt) -> Plan {
    match seen.vm {
        Found::None => create(around, site, seen, doubt),
        Found::Unseen(id) => {
            Plan::wait(Step::After(SOON), creating(&format!("VM {id} is in no list yet")))
        }
        Found::Lost(id) => {
            let message = format!("VM {id} is in no list of cloudspace {}", site.cloudspace_id);
            Plan::wait(Step::After(LATER), stopped(VM_NOT_FOUND, message))
        }
        Found::Foreign(id) => {
            let message = format!("VM {id} is not marked as that of {}", around.vco.name_any());
            Plan::wait(Step::After(LATER), stopped(NAME_TAKEN, message))
        }
        Found::Several(count) => {
            let message = format!("{count} VMs are marked as this machine's");
            Plan::wait(Step::After(LATER), stopped(NAME_TAKEN, message))
        }
        Found::Ours { ref vm, ref detail } => {
            if around.vco.spec.provider_id.is_none() {
                return Plan::act(Action::WriteId(vm.id), creating("the VM was made"));
            }
            let (vm, detail) = (vm.clone(), detail.as_deref().cloned());
            converge(around, site, &seen, (&vm, detail.as_ref()), facts, doubt)
        }
    }
}

fn stopped(reason: &'static str, message: String) -> Vec<Said> {
    super::gate::not_ready(VM_PROVISIONED, reason, message)
}

fn creating(message: &str) -> Vec<Said> {
    let mut said = super::gate::not_ready(VM_PROVISIONED, VM_CREATING, message);
    said.push(Said::so(BOOTSTRAP_DATA_READY, BOOTSTRAP_DATA_FOUND));
    said.push(Said::so(IMAGE_RESOLVED, IMAGE_FOUND));
    said
}

fn create(around: &Around, site: &Site, seen: Seen, doubt: &Doubt) -> Plan {
    if around.vco.spec.provider_id.is_some() {
        // Never a second one (contract, 12.2); `gate` has said what is wrong with the id.
        return Plan::wait(Step::Waits, Vec::new());
    }
    let userdata = match seen.userdata {
        Some(Ok(userdata)) => userdata,
        Some(Err((reason, message))) => {
            let said = super::gate::not_ready(BOOTSTRAP_DATA_READY, reason, message);
            return Plan::wait(Step::After(LATER), said);
        }
        None => return Plan::wait(Step::After(SOON), Vec::new()),
    };
    let image_id = match seen.image {
        Some(Ok(image)) => image,
        Some(Err((reason, message))) => {
            let mut said = super::gate::not_ready(IMAGE_RESOLVED, reason, message);
            said.push(Said::so(BOOTSTRAP_DATA_READY, BOOTSTRAP_DATA_FOUND));
            return Plan::wait(Step::After(LATER), said);
        }
        None => return Plan::wait(Step::After(SOON), Vec::new()),
    };
    if !super::is_claimed(&around.vco) {
        return Plan::act(Action::Claim, creating("the VM is being made"));
    }
    if let Some(look) = doubt.of(VM) {
        let said = creating("the VM may have been made; it is looked for");
        return Plan::wait(Step::After(look), said);
    }
    let Some(cluster) = site.id() else { return Plan::wait(Step::Waits, Vec::new()) };
    let (name, spec) = (around.vco.name_any(), &around.vco.spec);
    let whole = |number: i32| u64::try_from(number).unwrap_or_default();
    let new = NewVm {
        description: cluster.mark("vm", &name),
        hostname: name.clone(),
        name,
        image_id,
        disk_size: whole(spec.boot_disk_gib),
        vcpus: whole(spec.vcpus),
        memory: whole(spec.memory_mib),
        private_ip: spec.private_ip.clone(),
        userdata,
    };
    Plan::act(Action::Create(Box::new(new)), creating("the VM is being made"))
}

/// A VM that is there: what it lacks, or what it is.
fn converge(
    around: &Around,
    site: &Site,
    seen: &Seen,
    (vm, detail): (&Vm, Option<&VmDetail>),
    facts: &Facts,
    doubt: &Doubt,
) -> Plan {
    let provisioned = super::status::provisioned(&around.vco);
    let state = vm.status.as_deref().unwrap_or_default().to_ascii_uppercase();
    match state.as_str() {
        "RUNNING" if private_ip(vm).is_some() => match seen.spare {
            Some(spare) => Plan::act(Action::DropSpare(spare), running(around, vm)),
            None => Plan::wait(Step::Settled, running(around, vm)),
        },
        "RUNNING" => {
            let message = format!("VM {} runs and has no address yet", vm.id);
            Plan::wait(Step::After(SOON), starting(&message, provisioned))
        }
        "HALTED" if provisioned => {
            let message = format!("VM {} is HALTED", vm.id);
            Plan::wait(Step::After(LATER), stopped(VM_NOT_RUNNING, message))
        }
        "HALTED" => match detail {
            Some(detail) => before_start(around, site, seen, detail, doubt),
            None if facts.complete => start(vm.id),
            None => {
                Plan::wait(Step::After(SOON), starting(&format!("VM {} is HALTED", vm.id), false))
            }
        },
        "ERROR" | "DELETED" | "DESTROYED" | "TOBEDELETED" => {
            let message = format!("VM {} is {state}", vm.id);
            let reason = if state == "ERROR" { VM_FAILED } else { VM_NOT_FOUND };
            Plan::wait(Step::After(LATER), stopped(reason, message))
        }
        "PAUSED" => {
            let message = format!("VM {} is PAUSED", vm.id);
            Plan::wait(Step::After(LATER), stopped(VM_NOT_RUNNING, message))
        }
        // One action at a time per object (vco-api.md 5.2, G8D): whatever else it is, it passes.
        _ => {
            let message = format!("VM {} is {state}", vm.id);
            Plan::wait(Step::After(SOON), starting(&message, provisioned))
        }
    }
}

/// A state that passes; for a machine that ran before, nothing is said: it would flap.
fn starting(message: &str, provisioned: bool) -> Vec<Said> {
    if provisioned {
        return Vec::new();
    }
    let mut said = creating(message);
    for said in &mut said {
        if said.reason == VM_CREATING {
            said.reason = VM_STARTING;
        }
    }
    said
}

fn start(id: VmId) -> Plan {
    Plan::act(Action::Start(id), starting(&format!("VM {id} is being started"), false))
}

/// What a VM needs before it is placed on a host and boots.
fn before_start(
    around: &Around,
    site: &Site,
    seen: &Seen,
    detail: &VmDetail,
    doubt: &Doubt,
) -> Plan {
    if let Some(group) = lacking_group(around, site, detail) {
        let said = creating("the VM joins its anti-affinity group");
        return match seen.group {
            Group::There => Plan::act(Action::Join(group, detail.id), said),
            Group::Making => Plan::wait(Step::After(MOMENT), said),
            Group::Unknown => Plan::act(Action::CreateGroup(group, spread(around)), said),
        };
    }
    if let Some(disk) = lacking_disk(around, site, detail) {
        return give_disk(around, site, seen, (detail.id, disk), doubt);
    }
    if let Some(nic) = lacking_nic(around, detail) {
        let network = u64::try_from(nic.external_network_id).unwrap_or_default();
        let message = format!("no interface on external network {network} yet");
        let said = super::gate::not_ready(VM_PROVISIONED, NICS_MISSING, message);
        let address = nic.ip_address.clone().or_else(|| seen.free_address.clone());
        return match address {
            Some(address) => Plan::act(Action::AttachNic(network, address, detail.id), said),
            None => Plan::wait(Step::After(LATER), said),
        };
    }
    start(detail.id)
}

/// The anti-affinity group that the machine belongs to, as the cloud knows it.
#[must_use]
pub fn group(around: &Around, site: &Site) -> Option<String> {
    let cluster = site.id()?;
    if let Some(group) = &around.vco.spec.anti_affinity_group {
        return Some(cluster.name(group));
    }
    let wanted = around.network.as_deref().and_then(|network| network.spec.anti_affinity.as_ref());
    let apart = wanted.and_then(|wanted| wanted.control_plane).unwrap_or(true);
    (is_control_plane(around) && apart).then(|| cluster.name("control-plane"))
}

/// Over how many hosts; −1 is no limit (vco-api.md 5.6).
fn spread(around: &Around) -> i32 {
    let wanted = around.network.as_deref().and_then(|network| network.spec.anti_affinity.as_ref());
    wanted.and_then(|wanted| wanted.spread).unwrap_or(-1)
}

/// The group that the VM is not in yet.
#[must_use]
pub fn lacking_group(around: &Around, site: &Site, detail: &VmDetail) -> Option<String> {
    group(around, site).filter(|group| !detail.anti_affinity_groups.contains(group))
}

/// Whether the VM has not all its disks yet.
#[must_use]
pub fn lacks_disk(around: &Around, site: &Site, detail: &VmDetail) -> bool {
    lacking_disk(around, site, detail).is_some()
}

fn lacking_disk<'a>(around: &'a Around, site: &Site, detail: &VmDetail) -> Option<&'a DataDisk> {
    let cluster = site.id()?;
    let machine = around.vco.name_any();
    around.vco.spec.data_disks.as_deref().unwrap_or_default().iter().find(|disk| {
        let name = disk_name(&machine, &disk.name);
        let there =
            |on: &crate::vco::VmDisk| cluster.is_mark(on.description.as_deref(), "disk", &name);
        !detail.disks.iter().any(there)
    })
}

/// What a machine's disk is called in the cloud.
#[must_use]
pub fn disk_name(machine: &str, disk: &str) -> String {
    format!("{machine}-{disk}")
}

fn give_disk(
    around: &Around,
    site: &Site,
    seen: &Seen,
    (vm, disk): (VmId, &DataDisk),
    doubt: &Doubt,
) -> Plan {
    let Some(cluster) = site.id() else { return Plan::wait(Step::Waits, Vec::new()) };
    let name = disk_name(&around.vco.name_any(), &disk.name);
    let message = format!("disk {:?} is not attached yet", disk.name);
    let mut said = super::gate::not_ready(DISKS_ATTACHED, DISKS_MISSING, message.clone());
    said.push(Said::not(VM_PROVISIONED, DISKS_MISSING, message));
    let known = seen.disks.as_deref().unwrap_or_default();
    let made = known.iter().find(|on| cluster.is_mark(on.description.as_deref(), "disk", &name));
    if let Some(made) = made {
        return Plan::act(Action::AttachDisk(made.id, vm), said);
    }
    if let Some(look) = doubt.of(&name) {
        return Plan::wait(Step::After(look), said);
    }
    let whole = |number: i32| u64::try_from(number).unwrap_or_default();
    let new = NewDisk {
        description: cluster.mark("disk", &name),
        name,
        size: whole(disk.size_gib),
        iops: disk.iops.map(whole),
        kind: match disk.kind.unwrap_or(DiskType::Data) {
            DiskType::Data => "DATA".to_owned(),
            DiskType::Physical => "PHYSICAL".to_owned(),
        },
        vm_id: Some(vm),
        raid_level: disk.raid_level.map(|level| {
            match level {
                RaidLevel::None => "no raid",
                RaidLevel::Raid1 => "raid1",
                RaidLevel::Raid5 => "raid5",
            }
            .to_owned()
        }),
    };
    Plan::act(Action::CreateDisk(new), said)
}

/// The first interface that the VM lacks.
#[must_use]
pub fn lacking_nic<'a>(around: &'a Around, detail: &VmDetail) -> Option<&'a ExternalNic> {
    let wanted = around.vco.spec.external_nics.as_deref().unwrap_or_default();
    let mut there: Vec<&Nic> = detail.nics.iter().collect();
    wanted.iter().find(|nic| {
        let fits = |on: &&Nic| {
            on.network_id == u64::try_from(nic.external_network_id).ok()
                && nic.ip_address.as_ref().is_none_or(|ip| on.ip.as_ref() == Some(ip))
        };
        match there.iter().position(fits) {
            Some(at) => {
                there.remove(at);
                false
            }
            None => true,
        }
    })
}

/// The VM's address in the cloudspace's network.
#[must_use]
pub fn private_ip(vm: &Vm) -> Option<&str> {
    vm.nics.iter().find(|nic| !is_external(nic)).and_then(|nic| nic.ip.as_deref())
}

/// `external`, `cloudspace` or `PUBLIC` (vco-api.md 5.5, PU, G8S); the private one is `bridge` or
/// says nothing.
pub(super) fn is_external(nic: &Nic) -> bool {
    let kind = nic.kind.as_deref().unwrap_or_default().to_ascii_lowercase();
    matches!(kind.as_str(), "external" | "public" | "cloudspace")
}

fn running(around: &Around, vm: &Vm) -> Vec<Said> {
    let mut said = vec![
        Said::so(VM_PROVISIONED, VM_RUNNING),
        Said::so(IMAGE_RESOLVED, IMAGE_FOUND),
        Said::so(BOOTSTRAP_DATA_READY, BOOTSTRAP_DATA_FOUND),
        Said::so(READY, IS_READY),
    ];
    if around.vco.spec.data_disks.is_some() {
        said.push(Said::so(DISKS_ATTACHED, DISKS_READY));
    }
    if is_control_plane(around) {
        let members = around.network.as_deref().and_then(|network| network.status.as_ref());
        let members = members.and_then(|status| status.network.as_ref()?.members.as_ref());
        let ip = private_ip(vm).unwrap_or_default();
        let member = members.is_some_and(|members| members.iter().any(|on| on == ip));
        said.push(if member {
            Said::so(LOAD_BALANCER_MEMBER, MEMBER)
        } else {
            Said::not(LOAD_BALANCER_MEMBER, NOT_MEMBER, format!("{ip} is not in the pool"))
        });
    }
    said
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::manager::doubt::Tried;

    const CLUSTER: &str = "0123456789abcdef";

    fn site() -> Site {
        serde_json::from_value(json!({
            "clusterId": CLUSTER, "cloudspaceId": "YmU6MQ", "location": "be-1", "secret": "s",
        }))
        .unwrap()
    }

    fn around(provider_id: Option<&str>) -> Around {
        let vco = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachine",
            "metadata": {
                "name": "m", "namespace": "n",
                "finalizers": [crate::api::names::MACHINE_FINALIZER],
                "annotations": {crate::api::names::SITE_ANNOTATION: "{}"},
            },
            "spec": {
                "imageId": 1, "vcpus": 2, "memoryMiB": 2048, "bootDiskGiB": 20,
                "dataDisks": [{"name": "etcd", "sizeGiB": 10}], "providerID": provider_id,
            },
        });
        let vco = Arc::new(serde_json::from_value(vco).unwrap());
        Around { vco, machine: None, cluster: None, network: None }
    }

    fn seen(vm: Found, disks: &[&str]) -> Seen {
        let disk = |name: &&str| {
            let mark = format!("capvco/{CLUSTER}/disk/{name}");
            Disk::read(&json!({"disk_id": 9, "description": mark})).unwrap()
        };
        Seen {
            vm,
            image: Some(Ok(ImageId(1))),
            userdata: Some(Ok(Map::new())),
            disks: Some(disks.iter().map(disk).collect()),
            ..Seen::default()
        }
    }

    fn halted() -> Found {
        let vm = Vm::read(&json!({"vm_id": 7, "name": "m", "status": "HALTED"})).unwrap();
        let detail = VmDetail::read(vm.id, &json!({"name": "m", "status": "HALTED"}));
        Found::Ours { vm, detail: Some(Box::new(detail)) }
    }

    fn doubt(of: Option<&str>) -> Doubt {
        let (now, lag) = (Duration::from_secs(101), Duration::from_secs(30));
        let mut tried = Tried::default();
        tried.claim();
        if let Some(of) = of {
            tried.note(of, &Ok(()), Duration::from_secs(100));
        }
        Doubt { tried, began: Duration::ZERO, now, lag }
    }

    /// What the plan does, in one word.
    fn does(provider_id: Option<&str>, seen: Seen, doubt: &Doubt) -> &'static str {
        let plan = plan(&around(provider_id), &site(), seen, &Facts::default(), doubt);
        match plan.action {
            None => "nothing",
            Some(Action::Create(_)) => "make the VM",
            Some(Action::WriteId(_)) => "write its id",
            Some(Action::CreateDisk(_)) => "make a disk",
            Some(Action::AttachDisk(..)) => "attach a disk",
            Some(_) => "something else",
        }
    }

    #[test]
    fn a_vm_that_may_be_there_is_not_made_again() {
        let id = Some("vco://be-1/7");
        for (provider_id, vm, of, word) in [
            (None, Found::None, None, "make the VM"),
            (None, Found::None, Some("m-etcd"), "make the VM"),
            (None, Found::None, Some(VM), "nothing"),
            (None, halted(), Some(VM), "write its id"),
            (None, Found::Foreign(VmId(7)), None, "nothing"),
            (None, Found::Several(2), None, "nothing"),
            // Never a second one, whatever lists say.
            (id, Found::None, None, "nothing"),
            (id, Found::Unseen(VmId(7)), None, "nothing"),
            (id, Found::Lost(VmId(7)), None, "nothing"),
        ] {
            let said = format!("{provider_id:?} {vm:?} {of:?}");
            assert_eq!(does(provider_id, seen(vm, &[]), &doubt(of)), word, "{said}");
        }
    }

    #[test]
    fn a_disk_that_may_be_there_is_not_made_again() {
        let id = Some("vco://be-1/7");
        for (disks, of, word) in [
            (&[][..], None, "make a disk"),
            (&[], Some(VM), "make a disk"),
            (&[], Some("m-etcd"), "nothing"),
            (&["m-etcd"], Some("m-etcd"), "attach a disk"),
            (&["n-etcd"], None, "make a disk"),
        ] {
            assert_eq!(does(id, seen(halted(), disks), &doubt(of)), word, "{disks:?} {of:?}");
        }
    }

    #[test]
    fn whoever_takes_over_looks_first() {
        let mut doubt = doubt(None);
        doubt.tried = Tried::default();
        doubt.began = Duration::from_secs(90);
        assert_eq!(does(None, seen(Found::None, &[]), &doubt), "nothing");
        doubt.now = Duration::from_secs(121);
        assert_eq!(does(None, seen(Found::None, &[]), &doubt), "make the VM");
    }
}
