//! What a machine waits for, what is done next, what is said: by tables.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::gate::{Around, Gate, Site, gate, paused, provider_id, site, vm_of};
use super::memory::{Facts, Group};
use super::plan::{Action, Found, Plan, Seen, plan};
use super::status;
use crate::api::condition::{self, READY, Said};
use crate::id::{ImageId, VmId};
use crate::manager::doubt::{Doubt, Tried};
use crate::manager::step::Step;
use crate::vco::{Vm, VmDetail};

const ID: &str = "0123456789abcdef";
const SITE: &str =
    r#"{"clusterId":"0123456789abcdef","cloudspaceId":"cs","location":"be-1","secret":"s"}"#;

/// A machine of the control plane that lacks nothing but its VM; each part can be changed.
struct Case {
    vco: Value,
    machine: Option<Value>,
    cluster: Option<Value>,
    network: Option<Value>,
}

impl Case {
    fn ready() -> Self {
        let labels = json!({
            "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": "",
        });
        Self {
            vco: json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachine",
                "metadata": {
                    "name": "c-1", "namespace": "n", "labels": labels, "annotations": {},
                    "finalizers": [],
                },
                "spec": {"imageId": 4, "vcpus": 2, "memoryMiB": 2048, "bootDiskGiB": 20},
            }),
            machine: Some(json!({
                "metadata": {"name": "c-1", "labels": labels},
                "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "b"}},
            })),
            cluster: Some(json!({
                "metadata": {"name": "c"},
                "spec": {"infrastructureRef": {"name": "c"}},
                "status": {"initialization": {"infrastructureProvisioned": true}},
            })),
            network: Some(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOCluster",
                "metadata": {"name": "c", "annotations": {
                    "vco.infrastructure.cluster.x-k8s.io/cluster-id": ID,
                }},
                "spec": {
                    "location": "be-1", "cloudspaceId": "cs",
                    "credentialSecretRef": {"name": "s"},
                },
            })),
        }
    }

    fn claimed() -> Self {
        Self::ready()
            .vco("/metadata/finalizers", json!(["infrastructure.cluster.x-k8s.io/vcomachine"]))
            .vco("/metadata/annotations", json!({"vco.infrastructure.cluster.x-k8s.io/site": SITE}))
    }

    fn with_id() -> Self {
        Self::claimed().vco("/spec/providerID", json!("vco://be-1/7"))
    }

    fn vco(mut self, at: &str, value: Value) -> Self {
        put(&mut self.vco, at, value);
        self
    }

    fn machine(mut self, at: &str, value: Value) -> Self {
        put(self.machine.as_mut().unwrap(), at, value);
        self
    }

    fn cluster(mut self, at: &str, value: Value) -> Self {
        put(self.cluster.as_mut().unwrap(), at, value);
        self
    }

    fn network(mut self, at: &str, value: Value) -> Self {
        put(self.network.as_mut().unwrap(), at, value);
        self
    }

    fn around(self) -> Around {
        fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
            Arc::new(serde_json::from_value(value).unwrap())
        }
        Around {
            vco: read(self.vco),
            machine: self.machine.map(read),
            cluster: self.cluster.map(read),
            network: self.network.map(read),
        }
    }

    fn gate(self) -> Gate {
        gate(&self.around())
    }
}

/// Sets a value at a pointer whose last part need not be there.
fn put(object: &mut Value, at: &str, value: Value) {
    let (parent, key) = at.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
}

fn home() -> Site {
    serde_json::from_str(SITE).unwrap()
}

const GONE: &str = "2026-01-01T00:00:00Z";

#[test]
fn a_machine_goes_on_when_nothing_is_missing() {
    assert_eq!(Case::ready().gate(), Gate::Go(home()));
    // What is there is looked at, whatever has become of the rest.
    let mut alone = Case::with_id();
    alone.network = None;
    assert_eq!(alone.gate(), Gate::Go(home()));
    let late = Case::with_id().cluster("/metadata/deletionTimestamp", json!(GONE));
    assert_eq!(late.gate(), Gate::Go(home()));
}

#[test]
fn what_is_missing_is_said() {
    let reason = |case: Case| match case.gate() {
        Gate::Wait(said) => {
            assert!(said.iter().any(|one| one.kind == READY && one.status == "False"));
            said[0].reason
        }
        other => panic!("{other:?}"),
    };
    let mut without = Case::ready();
    without.network = None;
    assert_eq!(reason(without), "WaitingForClusterInfrastructureReady");
    let no = || json!(null);
    let bootstrap = |case: Case| case.machine("/spec/bootstrap", no());
    let initialized = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    let worker = || bootstrap(Case::ready().machine("/metadata/labels", no()));
    for (case, want) in [
        (Case::ready().network("/spec/cloudspaceId", no()), "WaitingForClusterInfrastructureReady"),
        (Case::ready().cluster("/status", json!({})), "WaitingForClusterInfrastructureReady"),
        (bootstrap(Case::ready()), "WaitingForBootstrapData"),
        (worker(), "WaitingForControlPlaneInitialized"),
        (worker().cluster("/status/initialization", initialized), "WaitingForBootstrapData"),
        (Case::ready().machine("/spec/failureDomain", json!("nl-1")), "FailureDomainUnknown"),
        (Case::ready().vco("/spec/providerID", json!("vco://nl-1/7")), "ProviderIDInvalid"),
    ] {
        assert_eq!(reason(case), want);
    }
}

#[test]
fn nothing_is_done_for_whom_nobody_owns_or_who_goes() {
    let going = "/metadata/deletionTimestamp";
    let mut orphan = Case::ready();
    orphan.machine = None;
    for case in [
        orphan,
        Case::ready().vco(going, json!(GONE)),
        Case::ready().machine(going, json!(GONE)),
        Case::ready().cluster(going, json!(GONE)),
        Case::ready().network(going, json!(GONE)),
    ] {
        assert_eq!(case.gate(), Gate::Nothing);
    }
    let mut alone = Case::claimed().vco(going, json!(GONE));
    (alone.machine, alone.cluster, alone.network) = (None, None, None);
    assert_eq!(alone.gate(), Gate::Delete);
}

#[test]
fn a_pause_has_two_sources_and_holds_deletions_too() {
    let annotated =
        |key: &str| Case::claimed().vco(&format!("/metadata/annotations/{key}"), json!(""));
    for case in [
        Case::claimed().cluster("/spec/paused", json!(true)),
        annotated("cluster.x-k8s.io~1paused"),
        annotated("clusterctl.cluster.x-k8s.io~1delete-for-move"),
    ] {
        let mut around = case.around();
        assert!(paused(&*around.vco, around.cluster.as_deref()).is_some());
        assert!(matches!(gate(&around), Gate::Paused(_)));
        Arc::make_mut(&mut around.vco).metadata.deletion_timestamp =
            Some(serde_json::from_value(json!(GONE)).unwrap());
        assert!(matches!(gate(&around), Gate::Paused(_)));
    }
}

#[test]
fn provider_ids_have_one_form() {
    let at = "be-1".parse().unwrap();
    assert_eq!(provider_id(&at, VmId(7)), "vco://be-1/7");
    for (text, vm) in [
        ("vco://be-1/7", Some(VmId(7))),
        ("vco://be-2/7", None),
        ("vco:///be-1/7", None),
        ("vco://be-1/", None),
        ("vco://be-1/7/8", None),
        ("aws://be-1/7", None),
    ] {
        assert_eq!(vm_of(text, &at), vm, "{text}");
    }
    assert_eq!(site(Case::ready().around().network.as_deref().unwrap()), Some(home()));
}

fn vm(status: &str, ip: Option<&str>) -> Vm {
    Vm::read(&json!({
        "vm_id": 7, "name": "c-1", "status": status,
        "network_interfaces": [{"ip_address": ip, "nic_type": "bridge"}],
    }))
    .unwrap()
}

fn detail(groups: &[&str]) -> VmDetail {
    let description = format!("capvco/{ID}/vm/c-1");
    let mut detail = VmDetail::read(VmId(7), &json!({"description": description}));
    detail.anti_affinity_groups = groups.iter().map(|&group| group.to_owned()).collect();
    detail
}

fn ours(status: &str, groups: Option<&[&str]>) -> Found {
    let detail = groups.map(|groups| Box::new(detail(groups)));
    Found::Ours { vm: vm(status, Some("10.0.0.7")), detail }
}

fn next(case: Case, seen: Seen, facts: &Facts) -> Plan {
    plan(&case.around(), &home(), seen, facts, &Doubt::default())
}

fn wanted() -> Seen {
    Seen { image: Some(Ok(ImageId(4))), userdata: Some(Ok(Map::new())), ..Seen::default() }
}

#[test]
fn a_vm_is_made_only_once_and_only_by_whom_is_claimed() {
    let facts = Facts::default();
    assert_eq!(next(Case::ready(), wanted(), &facts).action, Some(Action::Claim));
    let made = next(Case::claimed(), wanted(), &facts).action;
    let Some(Action::Create(new)) = made else { panic!("{made:?}") };
    assert_eq!((new.name.as_str(), new.hostname.as_str()), ("c-1", "c-1"));
    assert_eq!(new.description, format!("capvco/{ID}/vm/c-1"));
    assert_eq!(next(Case::with_id(), wanted(), &facts).action, None);
    // Whoever took over a moment ago knows nothing of what was tried before.
    let doubt = |now, tried: &Tried| {
        let (now, lag) = (Duration::from_secs(now), Duration::from_secs(30));
        let doubt = Doubt { tried: tried.clone(), now, lag, ..Doubt::default() };
        plan(&Case::claimed().around(), &home(), wanted(), &facts, &doubt).action
    };
    let mut known = Tried::default();
    assert_eq!(doubt(20, &known), None);
    assert!(matches!(doubt(40, &known), Some(Action::Create(_))));
    known.claim();
    assert!(matches!(doubt(20, &known), Some(Action::Create(_))));
    let found = Seen { vm: ours("HALTED", None), ..Seen::default() };
    assert_eq!(next(Case::claimed(), found, &facts).action, Some(Action::WriteId(VmId(7))));
}

#[test]
fn what_keeps_a_vm_from_being_made_is_the_reason() {
    let miss = |reason| Err((reason, "why".to_owned()));
    let image = Seen { image: Some(miss("ImageAmbiguous").map(|(): ()| ImageId(0))), ..wanted() };
    let data =
        Seen { userdata: Some(miss("BootstrapDataUnusable").map(|(): ()| Map::new())), ..wanted() };
    for (seen, want) in [
        (image, "ImageAmbiguous"),
        (data, "BootstrapDataUnusable"),
        (Seen { vm: Found::Foreign(VmId(9)), ..Seen::default() }, "NameTaken"),
        (Seen { vm: Found::Several(2), ..Seen::default() }, "NameTaken"),
    ] {
        let plan = next(Case::claimed(), seen, &Facts::default());
        assert_eq!(plan.action, None);
        let ready = plan.said.iter().find(|said| said.kind == READY).unwrap();
        assert_eq!((ready.status, ready.reason), ("False", want));
    }
}

#[test]
fn a_vm_gets_its_group_before_it_is_started() {
    let group = format!("capvco-{ID}-control-plane");
    let with = |group, member: &[&str]| {
        let seen = Seen { vm: ours("HALTED", Some(member)), group, ..Seen::default() };
        next(Case::with_id(), seen, &Facts::default()).action
    };
    assert_eq!(with(Group::Unknown, &[]), Some(Action::CreateGroup(group.clone(), -1)));
    assert_eq!(with(Group::Making, &[]), None);
    assert_eq!(with(Group::There, &[]), Some(Action::Join(group.clone(), VmId(7))));
    assert_eq!(with(Group::There, &[&group]), Some(Action::Start(VmId(7))));
}

#[test]
fn a_second_vm_goes_only_once_the_machines_own_runs() {
    let with = |state| {
        let seen = Seen { vm: ours(state, None), spare: Some(VmId(8)), ..Seen::default() };
        next(Case::with_id(), seen, &Facts::default())
    };
    let plan = with("RUNNING");
    assert_eq!(plan.action, Some(Action::DropSpare(VmId(8))));
    assert!(plan.said.iter().any(|said| said.kind == READY && said.status == "True"));
    assert_eq!(with("DEPLOYING").action, None);
}

#[test]
fn a_state_is_a_reason() {
    let ran = || Case::with_id().vco("/status", json!({"initialization": {"provisioned": true}}));
    for (case, found, action, want) in [
        (Case::with_id(), ours("RUNNING", None), None, ("True", "Ready")),
        (Case::with_id(), ours("DEPLOYING", None), None, ("False", "VMStarting")),
        (Case::with_id(), ours("ERROR", None), None, ("False", "VMFailed")),
        (Case::with_id(), ours("PAUSED", None), None, ("False", "VMNotRunning")),
        (Case::with_id(), ours("DELETED", None), None, ("False", "VMNotFound")),
        (Case::with_id(), Found::Lost(VmId(7)), None, ("False", "VMNotFound")),
        (ran(), ours("HALTED", None), None, ("False", "VMNotRunning")),
        // Nothing is said of a state that passes, if the machine has run before.
        (ran(), ours("MIGRATING", None), None, ("", "")),
    ] {
        let text = format!("{found:?}");
        let plan = next(case, Seen { vm: found, ..Seen::default() }, &Facts::default());
        assert_eq!(plan.action, action, "{text}");
        let ready = plan.said.iter().find(|said| said.kind == READY);
        assert_eq!(ready.map_or(("", ""), |said| (said.status, said.reason)), want, "{text}");
    }
    let bare = Found::Ours { vm: vm("RUNNING", None), detail: None };
    let plan = next(Case::with_id(), Seen { vm: bare, ..Seen::default() }, &Facts::default());
    assert!(matches!(plan.step, Step::After(_)));
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_status_is_filled_from_what_is_seen_and_then_stays() {
    let said = || vec![Said::so(READY, condition::IS_READY)];
    let around = Case::with_id().around();
    let first = status::status(&around, Some(&home()), &ours("RUNNING", None), said(), at(5));
    assert!(first.initialization.as_ref().unwrap().provisioned.unwrap());
    assert_eq!((first.vm_id, first.failure_domain.as_deref()), (Some(7), Some("be-1")));
    let addresses: Vec<_> =
        first.addresses.iter().flatten().map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["c-1", "10.0.0.7"]);
    let kinds: Vec<_> = first.conditions.iter().flatten().map(|one| one.type_.as_str()).collect();
    assert_eq!(kinds, ["Paused", "Ready"]);

    let after = |found: &Found, said| {
        let known = serde_json::to_value(&first).unwrap();
        let around = Case::with_id().vco("/status", known).around();
        status::status(&around, Some(&home()), found, said, at(9))
    };
    // The same again is the same; trouble takes nothing away.
    assert_eq!(after(&ours("RUNNING", None), said()), first);
    assert_eq!(after(&Found::None, Vec::new()), first);
    let lost = after(&Found::Lost(VmId(7)), Vec::new());
    assert_eq!(lost.vm_state.as_deref(), Some("GONE"));
    assert_eq!(lost.initialization, first.initialization);
}

#[test]
fn without_an_id_or_an_address_nothing_is_provisioned() {
    let none = Found::Ours { vm: vm("RUNNING", None), detail: None };
    for (case, found) in [
        (Case::claimed(), ours("RUNNING", None)),
        (Case::with_id(), ours("HALTED", None)),
        (Case::with_id(), none),
    ] {
        let status = status::status(&case.around(), Some(&home()), &found, Vec::new(), at(1));
        assert_eq!(status.initialization, None);
    }
    let ran = Case::with_id().vco("/status", json!({"initialization": {"provisioned": true}}));
    assert!(status::trouble(&ran.around().vco, "CloudUnreachable", "m").is_empty());
    assert_eq!(status::trouble(&Case::ready().around().vco, "CloudUnreachable", "m").len(), 2);
}
