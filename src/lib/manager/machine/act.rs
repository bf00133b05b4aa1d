//! Carries out a step: the only place that changes anything for a machine.

use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::json;

use super::gate::{Around, Site, provider_id};
use super::plan::{Action, VM};
use crate::api::VCOMachine;
use crate::api::contract::annotation;
use crate::api::names::{MACHINE_FINALIZER, SITE_ANNOTATION};
use crate::fault::{Class, Fault as _};
use crate::id::{CloudspaceId, VmId};
use crate::manager::apply;
use crate::manager::context::Context;
use crate::manager::error::Error;
use crate::manager::queue::Key;
use crate::manager::tenant::Tenant;
use crate::vco::NewVm;

/// Carries out a step.
pub async fn act(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    action: Action,
) -> Result<(), Error> {
    let vco = &*around.vco;
    let api = context.api::<VCOMachine>(&vco.namespace().unwrap_or_default());
    let (customer, cloudspace) = (&tenant.customer, &site.cloudspace_id);
    let uid = vco.uid().unwrap_or_default();
    match action {
        Action::Claim => {
            let text = serde_json::to_string(site).unwrap_or_default();
            // The status was written since the pass began.
            let newest = Key::of(vco).and_then(|key| context.vco_machines.get(&key));
            let vco = newest.as_deref().filter(|newest| newest.uid() == vco.uid()).unwrap_or(vco);
            let claimed =
                apply::claim(&api, vco, MACHINE_FINALIZER, &[(SITE_ANNOTATION, &text)]).await?;
            if annotation(&vco.metadata, SITE_ANNOTATION).is_none() {
                // Nobody can have made anything before.
                context.machine_facts.note(&uid, |facts| facts.tried.claim());
            }
            context.vco_machines.wrote(claimed);
        }
        Action::Create(new) => create(context, tenant, &api, around, site, &new).await?,
        Action::WriteId(id) => write_id(context, &api, vco, site, id).await?,
        Action::CreateGroup(name, spread) => {
            create_group(context, tenant, cloudspace, &name, spread).await?;
        }
        Action::Join(group, id) => {
            let joined = customer.join_anti_affinity_group(cloudspace, &group, id).await;
            if joined.is_err() {
                // Somebody may have removed the group.
                context.groups.forget(cloudspace);
            }
            joined?;
        }
        Action::CreateDisk(new) => {
            let made = customer.create_disk(&site.location, &new).await;
            let now = context.clock.elapsed();
            context.machine_facts.note(&uid, |facts| facts.tried.note(&new.name, &made, now));
            made?;
        }
        Action::AttachDisk(disk, id) => customer.attach_disk(cloudspace, id, disk).await?,
        Action::AttachNic(network, address, id) => {
            customer.attach_external_nic(cloudspace, id, network, &address).await?;
        }
        Action::Start(id) => {
            // A VM is started only when it has everything: after this it is not asked again.
            context.machine_facts.note(&uid, |facts| facts.complete = true);
            customer.start_vm(cloudspace, id).await?;
            context.events.normal(vco, "VMStarted", "Start", format!("VM {id} was started")).await;
        }
        Action::DropSpare(id) => {
            customer.delete_vm(cloudspace, id).await?;
            let note = format!("VM {id}, a second one that was never started, was deleted");
            context.events.normal(vco, "SpareDeleted", "Delete", note).await;
        }
    }
    let now = context.clock.elapsed();
    context.machine_facts.note(&uid, |facts| facts.touched = Some(now));
    Ok(())
}

/// Makes a group that several machines may need at once: one of them does, the others wait.
async fn create_group(
    context: &Context,
    tenant: &Tenant,
    cloudspace: &CloudspaceId,
    name: &str,
    spread: i32,
) -> Result<(), Error> {
    let customer = &tenant.customer;
    let Some(making) = context.groups.make(cloudspace, name) else { return Ok(()) };
    let made = customer.create_anti_affinity_group(cloudspace, name, spread).await;
    // A name is one group's: what refuses it may be the one of a call whose reply was lost.
    if let Err(error) = made {
        let known = matches!(error.class(), Class::Conflict | Class::Invalid)
            && customer.anti_affinity_groups(cloudspace).await?.iter().any(|on| on.id == name);
        if !known {
            return Err(error.into());
        }
    }
    making.done();
    Ok(())
}

/// Makes the VM, after a last look at the object itself: a store runs behind (contract, 12.2).
async fn create(
    context: &Context,
    tenant: &Tenant,
    api: &Api<VCOMachine>,
    around: &Around,
    site: &Site,
    new: &NewVm,
) -> Result<(), Error> {
    let vco = &*around.vco;
    let live = api.get(&vco.name_any()).await;
    let live = live.map_err(|source| Error::api(format!("read {}", apply::name(vco)), source))?;
    let changed = live.uid() != vco.uid()
        || live.spec.provider_id.is_some()
        || live.metadata.deletion_timestamp.is_some();
    if changed {
        context.vco_machines.wrote(live);
        return Ok(());
    }
    let uid = vco.uid().unwrap_or_default();
    let made = tenant.customer.create_vm(&site.cloudspace_id, new).await;
    let now = context.clock.elapsed();
    context.machine_facts.note(&uid, |facts| facts.tried.note(VM, &made, now));
    let id = made?;
    context.metrics.made();
    write_id(context, api, &live, site, id).await?;
    context.events.normal(vco, "VMCreated", "Create", format!("VM {id} was made")).await;
    Ok(())
}

/// Writes the id into the spec: from then on there is never a second VM.
async fn write_id(
    context: &Context,
    api: &Api<VCOMachine>,
    vco: &VCOMachine,
    site: &Site,
    id: VmId,
) -> Result<(), Error> {
    let fields = json!({"providerID": provider_id(&site.location, id)});
    context.vco_machines.wrote(apply::spec(api, vco, &fields).await?);
    Ok(())
}
