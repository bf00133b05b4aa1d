//! A machine goes: its VM, its disks, and nothing else.
//!
//! It needs less than making one does: what the machine was claimed with says where to look, and
//! no other object has to be there. It is released only when the cloud has shown that nothing is
//! left (contract, 12.1).

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;

use super::gate::{Around, Site, is_control_plane, site_of, vm_of};
use super::plan::private_ip;
use crate::api::VCOMachine;
use crate::api::condition::{
    CLOUD_UNREACHABLE, DELETING, DELETION_BLOCKED, DELETION_RUNS, INTERNAL_ERROR, READY, Said,
};
use crate::api::contract::{annotation, is_abandoned, label};
use crate::api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, CUSTOMER_ANNOTATION, MACHINE_FINALIZER,
    SITE_ANNOTATION,
};
use crate::fault::{Class, Fault as _};
use crate::manager::apply;
use crate::manager::cluster::id_of;
use crate::manager::context::Context;
use crate::manager::error::{Error, found};
use crate::manager::mark::ClusterId;
use crate::manager::step::Step;
use crate::manager::tenant::{NoTenant, Tenant};
use crate::manager::words;
use crate::vco::{Vm, VmDetail, VmDisk};

/// How long until what was begun is looked at again.
const SOON: Duration = Duration::from_secs(3);
/// How long the balancer is given to let a machine go before its VM is stopped.
const PATIENCE: Duration = Duration::from_mins(1);

/// What to say while it goes on.
pub type Course = (Step, Vec<Said>);

/// One step of a deletion.
pub async fn delete(context: &Context, around: &Around) -> Result<Course, Error> {
    let vco = &*around.vco;
    let Some((site, cluster)) = site_of(around).and_then(|site| site.id().map(|id| (site, id)))
    else {
        if vco.spec.provider_id.is_some() {
            let message = format!("the annotation {SITE_ANNOTATION} was taken away or spoilt");
            return blocked(context, vco, None, INTERNAL_ERROR, message).await;
        }
        // Nothing is made before the machine is claimed, and the claim says where.
        return release(context, vco).await;
    };
    if let Some(other) = around.network.as_deref().and_then(id_of).filter(|id| *id != cluster) {
        // By another's id its VM would be found in no list, and let go while it runs.
        let message = format!(
            "the annotation {SITE_ANNOTATION} names cluster {cluster}, and the VCOCluster is {other}"
        );
        return blocked(context, vco, Some(&site), INTERNAL_ERROR, message).await;
    }
    let tenant = match super::tenant(context, around, &site).await {
        Ok(tenant) => tenant,
        Err(NoTenant::Failed(error)) => return Err(error),
        Err(NoTenant::Said { reason, message }) => {
            return blocked(context, vco, Some(&site), reason, message).await;
        }
    };
    if is_abandoned(&vco.metadata) && tenant.denied.is_silent() {
        let message = words::SILENT.to_owned();
        return blocked(context, vco, Some(&site), CLOUD_UNREACHABLE, message).await;
    }
    match take_down(context, &tenant, around, &site, &cluster).await {
        Err(Error::Cloud(error)) => {
            context.refused(&tenant, &error, site.location.as_str());
            let (reason, message) = (words::reason(&error), words::of(&error));
            if error.class() == Class::Auth || is_abandoned(&vco.metadata) {
                return blocked(context, vco, Some(&site), reason, message).await;
            }
            let message = words::or_abandon(&message);
            let said = vec![
                Said::so(DELETING, reason).with(message.clone()),
                Said::not(READY, reason, message),
            ];
            super::say_only(context, around, said).await?;
            Err(error.into())
        }
        other => other,
    }
}

/// One step of a deletion, with the cloud.
async fn take_down(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    cluster: &ClusterId,
) -> Result<Course, Error> {
    let vco = &*around.vco;
    let vms = vms(context, tenant, around, site).await?;
    for vm in vms.iter().filter(|vm| is_candidate(vco, site, vm)) {
        // A list that runs behind shows what is gone.
        let Some(detail) = found(tenant.customer.vm(&site.cloudspace_id, vm.id).await)? else {
            continue;
        };
        let marked = cluster.is_mark(detail.description.as_deref(), "vm", &vco.name_any());
        if marked {
            return end(context, tenant, around, site, (vm, &detail), cluster).await;
        }
        if named_by_id(vco, site, vm) {
            let note = format!(
                "VM {} of cloudspace {} does not carry this machine's mark any more: it is left \
                 alone, with its disks; delete it yourself if it is yours",
                vm.id, site.cloudspace_id
            );
            context.events.warning(vco, "LeftAlone", "Delete", note).await;
        }
    }
    if vco.spec.data_disks.is_some() && disk_goes(tenant, vco, site, cluster).await? {
        return Ok(going("disks are being deleted"));
    }
    let uid = vco.uid().unwrap_or_default();
    let doubt = context.doubt(context.machine_facts.of(&uid).tried);
    // What ran once was in lists already; anything younger may be in none yet.
    if !super::status::provisioned(vco)
        && let Some(look) = doubt.any()
    {
        let said = going("the VM may have been made a moment ago; it is looked for").1;
        return Ok((Step::After(look), said));
    }
    release(context, vco).await
}

/// The VMs of the machine's cloudspace; none if that is gone, which counts only if the customer is
/// known to be the one who had it.
async fn vms(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
) -> Result<Arc<Vec<Vm>>, Error> {
    let network = around.network.as_deref().map(|network| &network.metadata);
    let is_known = network.is_some_and(|meta| annotation(meta, CUSTOMER_ANNOTATION).is_some());
    match context.survey.vms(tenant, &site.cloudspace_id, Duration::ZERO).await {
        Err(error) if error.class() == Class::NotFound && is_known => {
            match found(tenant.customer.cloudspace(&site.cloudspace_id).await)? {
                None => Ok(Arc::default()),
                Some(_) => Err(error.into()),
            }
        }
        vms => Ok(vms?),
    }
}

fn named_by_id(vco: &VCOMachine, site: &Site, vm: &Vm) -> bool {
    vco.spec.provider_id.as_deref().and_then(|id| vm_of(id, &site.location)) == Some(vm.id)
}

/// Whether a VM may be the machine's: by its id, or by its name where the id was never written.
fn is_candidate(vco: &VCOMachine, site: &Site, vm: &Vm) -> bool {
    named_by_id(vco, site, vm) || vm.name.as_deref() == Some(&vco.name_any())
}

/// The VM is there: it leaves the balancer, gives back the disks of others, and is deleted.
async fn end(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    (vm, detail): (&Vm, &VmDetail),
    cluster: &ClusterId,
) -> Result<Course, Error> {
    if let Some(message) = still_member(context, around, vm) {
        return Ok(going(&message));
    }
    let state = vm.status.as_deref().unwrap_or_default().to_ascii_uppercase();
    // One action at a time per object (vco-api.md 5.2, G8D).
    if !matches!(state.as_str(), "RUNNING" | "HALTED" | "PAUSED" | "ERROR") {
        return Ok(going(&format!("VM {} is {state}", vm.id)));
    }
    let foreign = detail.disks.iter().find(|disk| is_others(disk, detail, cluster));
    if let Some(disk) = foreign {
        let (disk, cloudspace) = (disk.id, &site.cloudspace_id);
        if was_just_done(context, &around.vco, &format!("detach {disk}")) {
            return Ok(going(&format!("disk {disk} is being detached")));
        }
        tenant.customer.detach_disk(cloudspace, vm.id, disk).await?;
        done(context, &around.vco, format!("detach {disk}"));
        let note = format!("disk {disk} is not ours: it was detached and kept");
        context.events.normal(&*around.vco, "DiskDetached", "Delete", note).await;
        return Ok((Step::Changed, going("disks of others are being detached").1));
    }
    let message = format!("VM {} is being deleted", vm.id);
    if was_just_done(context, &around.vco, &message) {
        return Ok(going(&message));
    }
    tenant.customer.delete_vm(&site.cloudspace_id, vm.id).await?;
    done(context, &around.vco, message.clone());
    context.metrics.deleted();
    let note = format!("VM {} was deleted", vm.id);
    context.events.normal(&*around.vco, "VMDeleted", "Delete", note).await;
    Ok((Step::Changed, going(&message).1))
}

/// Whether this was done a moment ago: a list or a detail may not show it yet.
fn was_just_done(context: &Context, vco: &VCOMachine, what: &str) -> bool {
    let facts = context.machine_facts.of(&vco.uid().unwrap_or_default());
    facts.deeds.pause(what, context.clock.elapsed()).is_some()
}

fn done(context: &Context, vco: &VCOMachine, what: String) {
    let now = context.clock.elapsed();
    let uid = vco.uid().unwrap_or_default();
    context.machine_facts.note(&uid, |facts| facts.deeds.done(what, now));
}

/// A control plane's VM is stopped only after the balancer has let it go, which cuts its
/// connections (contract, 2.5); not for ever, and not where nobody is left for whom: then the last
/// ones stay in the pool, and would wait for each other.
fn still_member(context: &Context, around: &Around, vm: &Vm) -> Option<String> {
    let network = around.network.as_deref()?;
    let going = [
        network.metadata.deletion_timestamp.is_some(),
        around.cluster.as_deref().is_some_and(|on| on.metadata.deletion_timestamp.is_some()),
    ];
    if !is_control_plane(around) || going.contains(&true) || !others_stay(context, &around.vco) {
        return None;
    }
    let members = network.status.as_ref()?.network.as_ref()?.members.as_ref()?;
    let ip = private_ip(vm)?;
    let (uid, now) = (around.vco.uid().unwrap_or_default(), context.clock.elapsed());
    // On our own clock: the API server's may be another.
    context.machine_facts.note(&uid, |facts| facts.leaves = facts.leaves.or(Some(now)));
    let since = context.machine_facts.of(&uid).leaves.unwrap_or(now);
    let is_member = members.len() > 1 && members.iter().any(|on| on == ip);
    (is_member && now.saturating_sub(since) < PATIENCE)
        .then(|| format!("VM {} is still in the pool before the API", vm.id))
}

/// Whether another machine of the control plane stays.
fn others_stay(context: &Context, vco: &VCOMachine) -> bool {
    let cluster = label(&vco.metadata, CLUSTER_NAME_LABEL);
    let stays = |other: &VCOMachine| {
        other.namespace() == vco.namespace()
            && other.uid() != vco.uid()
            && label(&other.metadata, CLUSTER_NAME_LABEL) == cluster
            && label(&other.metadata, CONTROL_PLANE_LABEL).is_some()
            && other.metadata.deletion_timestamp.is_none()
    };
    !context.vco_machines.find(stays).is_empty()
}

/// Whether a disk is neither ours nor part of the VM itself. What the cloud says nothing of is
/// taken for somebody's.
fn is_others(disk: &VmDisk, vm: &VmDetail, cluster: &ClusterId) -> bool {
    let boots = vm.boot_disk_id == Some(disk.id);
    // Boot, cloud-init and CD-ROM, in today's words and in the back-end's letters (vco-api.md 6.2).
    let part =
        |kind: &str| ["BOOT", "B", "M", "C", "T"].iter().any(|one| kind.eq_ignore_ascii_case(one));
    !boots
        && !disk.kind.as_deref().is_some_and(part)
        && !cluster.marked(disk.description.as_deref())
}

/// Deletes one of the machine's disks; false if none is left.
async fn disk_goes(
    tenant: &Tenant,
    vco: &VCOMachine,
    site: &Site,
    cluster: &ClusterId,
) -> Result<bool, Error> {
    let machine = vco.name_any();
    let names: Vec<_> = vco.spec.data_disks.iter().flatten().map(|disk| &disk.name).collect();
    let disks = tenant.customer.disks(&site.location).await?;
    let ours = disks.iter().find(|disk| {
        names.iter().any(|name| {
            let name = super::plan::disk_name(&machine, name);
            cluster.is_mark(disk.description.as_deref(), "disk", &name)
        })
    });
    let Some(disk) = ours else { return Ok(false) };
    tenant.customer.delete_disk(&site.location, disk.id).await?;
    Ok(true)
}

fn going(message: &str) -> Course {
    let said = vec![
        Said::so(DELETING, DELETION_RUNS).with(message),
        Said::not(READY, DELETION_RUNS, message),
    ];
    (Step::After(SOON), said)
}

/// The cloud cannot be asked: it is said, and whoever knows better may let the machine go.
async fn blocked(
    context: &Context,
    vco: &VCOMachine,
    site: Option<&Site>,
    reason: &'static str,
    message: String,
) -> Result<Course, Error> {
    if is_abandoned(&vco.metadata) {
        let id = vco.spec.provider_id.as_deref().unwrap_or("a VM that may have been made");
        let place =
            site.map_or_else(String::new, |at| format!(" in cloudspace {}", at.cloudspace_id));
        let name = vco.name_any();
        let note = format!(
            "let go without asking the cloud; look for {id} named {name}{place}, and for its disks"
        );
        context.events.warning(vco, "Abandoned", "Delete", note).await;
        return release(context, vco).await;
    }
    let message = format!("{reason}: {message}");
    let said = vec![
        Said::so(DELETING, DELETION_BLOCKED).with(message.clone()),
        Said::not(READY, DELETION_BLOCKED, message),
    ];
    Ok((Step::After(Duration::from_secs(30)), said))
}

/// Lets the machine go.
async fn release(context: &Context, vco: &VCOMachine) -> Result<Course, Error> {
    let api = context.api::<VCOMachine>(&vco.namespace().unwrap_or_default());
    match apply::release(&api, vco, MACHINE_FINALIZER).await {
        Err(Error::Api { source, .. }) if super::is_missing(&source) => {}
        other => drop(other?),
    }
    context.machine_facts.forget(&vco.uid().unwrap_or_default());
    Ok((Step::Over, Vec::new()))
}
