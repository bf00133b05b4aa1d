//! `VCOMachine`: one VM, for ever.
//!
//! `gate` looks at the objects around it, `observe` at the cloud, `plan` decides the next step,
//! `act` carries it out, `status` says what is so; `delete` is the way back.
//!
//! **Invariants:** nothing is made before the machine is claimed (finalizer, and where its VM will
//! be); nothing is made while `providerID` is set; a VM is found by its id, or by name and mark; a
//! machine is released only when no list shows its VM and its disks any more.

mod act;
mod delete;
pub mod gate;
pub mod memory;
mod observe;
pub mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kube::ResourceExt as _;
use serde_json::Value;

pub use self::status::{keep, sorted};

use self::gate::{Around, Gate, Site};
use self::plan::{Found, Plan};
use super::cluster::other_customer;
use super::context::Context;
use super::controller::Controller;
use super::error::{Error, class_of};
use super::lease::timestamp;
use super::queue::{Key, Queue};
use super::step::Step;
use super::tenant::{NoTenant, Tenant};
use super::{apply, words};
use crate::api::VCOMachine;
use crate::api::condition::{CUSTOMER_CHANGED, Said};
use crate::api::contract::{annotation, core_owner, label};
use crate::api::machine::VCOMachineStatus;
use crate::api::names::{CLUSTER_NAME_LABEL, MACHINE_FINALIZER, SITE_ANNOTATION};
use crate::fault::Class;

/// Looks after machines.
pub struct Machines;

impl Controller for Machines {
    const NAME: &'static str = "vcomachine";

    fn queue(context: &Context) -> &Queue {
        &context.queues.machines
    }

    fn lane(context: &Context, key: &Key) -> String {
        let network = context.vco_machines.get(key).and_then(|vco| around(context, vco).network);
        network.map(|network| network.spec.location.clone()).unwrap_or_default()
    }

    async fn pass(context: &Arc<Context>, key: &Key) -> Result<Step, Error> {
        let Some(vco) = context.vco_machines.get(key) else { return Ok(Step::Over) };
        let around = around(context, vco);
        let now = timestamp(context.clock.unix());
        match gate::gate(&around) {
            Gate::Nothing => Ok(Step::Waits),
            gate @ (Gate::Paused(_) | Gate::Wait(_)) => {
                if let Some(status) = status::waiting(&around, &gate, now) {
                    write(context, &around, &status).await?;
                }
                Ok(Step::Waits)
            }
            Gate::Delete => {
                let (step, said) = delete::delete(context, &around).await?;
                if step != Step::Over {
                    let status = status::status(&around, None, &Found::None, said, now);
                    write(context, &around, &status).await?;
                }
                Ok(step)
            }
            Gate::Go(site) => go(context, &around, &site).await,
        }
    }
}

/// The objects that belong to a machine.
fn around(context: &Context, vco: Arc<VCOMachine>) -> Around {
    let namespace = vco.namespace().unwrap_or_default();
    let at = |name: &str| Key::new(namespace.as_str(), name);
    let owner = core_owner(&vco.metadata, "Machine");
    let machine = owner.and_then(|owner| context.machines.get(&at(&owner.name)));
    let cluster = machine.as_deref().and_then(|machine| machine.cluster_name());
    let cluster = cluster.or_else(|| label(&vco.metadata, CLUSTER_NAME_LABEL));
    let cluster = cluster.and_then(|name| context.clusters.get(&at(name)));
    let network = cluster
        .as_deref()
        .and_then(|cluster| context.vco_clusters.get(&at(cluster.vco_cluster()?)));
    Around { vco, machine, cluster, network }
}

/// Whether the machine says that it is ours, and where its VM is.
fn is_claimed(vco: &VCOMachine) -> bool {
    let held = vco.finalizers().iter().any(|one| one == MACHINE_FINALIZER);
    held && annotation(&vco.metadata, SITE_ANNOTATION).is_some()
}

fn is_missing(error: &kube::Error) -> bool {
    class_of(error) == Class::NotFound
}

async fn go(context: &Context, around: &Around, site: &Site) -> Result<Step, Error> {
    let vco = &*around.vco;
    // Finalizers can be taken away by others; what has a VM gets its own back (contract, 1.7).
    if vco.spec.provider_id.is_some() && !is_claimed(vco) {
        let text = serde_json::to_string(site).unwrap_or_default();
        let api = context.api::<VCOMachine>(&vco.namespace().unwrap_or_default());
        let claimed =
            apply::claim(&api, vco, MACHINE_FINALIZER, &[(SITE_ANNOTATION, &text)]).await?;
        context.vco_machines.wrote(claimed);
        return Ok(Step::Changed);
    }
    let tenant = match tenant(context, around, site).await {
        Ok(tenant) => tenant,
        Err(NoTenant::Failed(error)) => return Err(error),
        Err(NoTenant::Said { reason, message }) => {
            say(context, around, site, &Found::None, status::trouble(vco, reason, &message))
                .await?;
            return Ok(Step::After(std::time::Duration::from_secs(30)));
        }
    };
    let facts = context.machine_facts.of(&vco.uid().unwrap_or_default());
    let seen = match observe::observe(context, &tenant, around, site, &facts).await {
        Ok(seen) => seen,
        Err(error) => return failed(context, &tenant, around, site, error).await,
    };
    let found = seen.vm.clone();
    let doubt = context.doubt(facts.tried.clone());
    let Plan { action, said, step } = plan::plan(around, site, seen, &facts, &doubt);
    if action.is_none() || !facts.deeds.failed() || status::provisioned(vco) {
        say(context, around, site, &found, said).await?;
    }
    let Some(action) = action else { return Ok(step) };
    let what = format!("{action:?}");
    if let Some(left) = facts.deeds.pause(&what, context.clock.elapsed()) {
        return Ok(Step::After(left));
    }
    let done = act::act(context, &tenant, around, site, action).await;
    let now = context.clock.elapsed();
    context
        .machine_facts
        .note(&vco.uid().unwrap_or_default(), |facts| facts.deeds.tried(what, &done, now));
    match done {
        Ok(()) => Ok(step),
        Err(error) => failed(context, &tenant, around, site, error).await,
    }
}

/// Whoever may look after the machine, and is the one for whom its cluster was made.
async fn tenant(context: &Context, around: &Around, site: &Site) -> Result<Arc<Tenant>, NoTenant> {
    let namespace = around.vco.namespace().unwrap_or_default();
    let (api, customer) = (context.api(&namespace), site.customer_id.as_deref());
    let tenant = context.tenants.named(&api, &namespace, &site.secret, customer).await?;
    match around.network.as_deref().and_then(|network| other_customer(network, &tenant)) {
        Some(message) => Err(NoTenant::Said { reason: CUSTOMER_CHANGED, message }),
        None => Ok(tenant),
    }
}

/// Says why a machine does not get on, if it has not run yet, and hands the error on.
async fn failed(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    error: Error,
) -> Result<Step, Error> {
    if let Error::Cloud(cloud) = &error {
        context.refused(tenant, cloud, site.location.as_str());
        let said = status::trouble(&around.vco, words::reason(cloud), &words::of(cloud));
        say(context, around, site, &Found::None, said).await?;
    }
    Err(error)
}

async fn say(
    context: &Context,
    around: &Around,
    site: &Site,
    found: &Found,
    said: Vec<Said>,
) -> Result<(), Error> {
    let now = timestamp(context.clock.unix());
    write(context, around, &status::status(around, Some(site), found, said, now)).await
}

/// Says this, and nothing of the VM.
async fn say_only(context: &Context, around: &Around, said: Vec<Said>) -> Result<(), Error> {
    let now = timestamp(context.clock.unix());
    write(context, around, &status::status(around, None, &Found::None, said, now)).await
}

/// Writes the status, if it is another one than before.
async fn write(context: &Context, around: &Around, status: &VCOMachineStatus) -> Result<(), Error> {
    let vco = &*around.vco;
    let mut before = vco.status.clone().unwrap_or_default();
    before.conditions = status::sorted(before.conditions);
    if before == *status {
        return Ok(());
    }
    let api = context.api::<VCOMachine>(&vco.namespace().unwrap_or_default());
    let body = serde_json::to_value(status).unwrap_or(Value::Null);
    match apply::status(&api, vco, &body).await {
        Ok(written) => {
            context.vco_machines.wrote(written);
            Ok(())
        }
        Err(Error::Api { source, .. }) if is_missing(&source) => Ok(()),
        Err(error) => Err(error),
    }
}
