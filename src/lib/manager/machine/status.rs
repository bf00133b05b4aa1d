//! What a machine's status says. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::gate::{Around, Gate, Site, pause_said};
use super::plan::{Found, is_external, private_ip};
use crate::api::VCOMachine;
use crate::api::condition::{self, NOT_PAUSED, PAUSED, READY, Said};
use crate::api::machine::{AddressType, MachineAddress, VCOMachineStatus};
use crate::api::shared::Initialization;
use crate::vco::Vm;

/// Whether the machine's VM has run once. It stays so.
#[must_use]
pub fn provisioned(vco: &VCOMachine) -> bool {
    let status = vco.status.as_ref();
    status.and_then(|status| status.initialization.as_ref()?.provisioned) == Some(true)
}

/// The status after a pass: what was seen of the VM, and what is said.
///
/// What nothing is said of stays as it was: trouble with the cloud must not make a machine that
/// runs look broken (contract, 2.6).
#[must_use]
pub fn status(
    around: &Around,
    site: Option<&Site>,
    vm: &Found,
    said: Vec<Said>,
    now: Timestamp,
) -> VCOMachineStatus {
    let vco = &*around.vco;
    let mut status = vco.status.clone().unwrap_or_default();
    match vm {
        Found::Ours { vm, .. } => seen(&mut status, vco, site, vm),
        Found::Lost(id) => {
            status.vm_id = i64::try_from(id.0).ok();
            status.vm_state = Some("GONE".to_owned());
        }
        _ => {}
    }
    let before = status.conditions.take().unwrap_or_default();
    let mut said = said;
    if !said.iter().any(|said| said.kind == PAUSED) {
        said.push(Said::not(PAUSED, NOT_PAUSED, ""));
    }
    status.conditions = Some(keep(&before, said, vco.metadata.generation, now));
    status
}

/// Conditions in our order: the API server keeps the one in which they came.
#[must_use]
pub fn sorted(conditions: Option<Vec<Condition>>) -> Option<Vec<Condition>> {
    let mut conditions = conditions?;
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    Some(conditions)
}

/// The new conditions, and those of before of which nothing was said.
#[must_use]
pub fn keep(
    before: &[Condition],
    said: Vec<Said>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let kinds: Vec<_> = said.iter().map(|said| said.kind).collect();
    let mut all = condition::merge(before, said, generation, now);
    all.extend(before.iter().filter(|old| !kinds.contains(&old.type_.as_str())).cloned());
    all.sort_by(|a, b| a.type_.cmp(&b.type_));
    all
}

fn seen(status: &mut VCOMachineStatus, vco: &VCOMachine, site: Option<&Site>, vm: &Vm) {
    status.vm_id = i64::try_from(vm.id.0).ok();
    status.vm_state.clone_from(&vm.status);
    if let Some(site) = site {
        status.failure_domain = Some(site.location.to_string());
    }
    let running = vm.status.as_deref().is_some_and(|state| state.eq_ignore_ascii_case("RUNNING"));
    if running && private_ip(vm).is_some() {
        status.addresses = Some(addresses(vco, vm));
        if vco.spec.provider_id.is_some() {
            status.initialization = Some(Initialization { provisioned: Some(true) });
        }
    }
}

/// The addresses, sorted: in another order they would be another status.
fn addresses(vco: &VCOMachine, vm: &Vm) -> Vec<MachineAddress> {
    let of = |kind, address: &str| MachineAddress { kind, address: address.to_owned() };
    let mut all = vec![of(AddressType::Hostname, &vco.name_any())];
    for nic in &vm.nics {
        let kind = if is_external(nic) { AddressType::ExternalIP } else { AddressType::InternalIP };
        all.extend(nic.ip.as_deref().map(|ip| of(kind, ip)));
    }
    all.sort();
    all.dedup();
    all
}

/// The status of a machine that waits, or that nobody may work on.
#[must_use]
pub fn waiting(around: &Around, gate: &Gate, now: Timestamp) -> Option<VCOMachineStatus> {
    match gate {
        Gate::Wait(said) => Some(status(around, None, &Found::None, said.clone(), now)),
        Gate::Paused(why) => {
            Some(status(around, None, &Found::None, vec![pause_said(why.clone())], now))
        }
        _ => None,
    }
}

/// What is said of a machine whose pass failed before it could be seen: nothing of one that runs.
#[must_use]
pub fn trouble(vco: &VCOMachine, reason: &'static str, message: &str) -> Vec<Said> {
    if provisioned(vco) {
        return Vec::new();
    }
    vec![Said::not(condition::VM_PROVISIONED, reason, message), Said::not(READY, reason, message)]
}
