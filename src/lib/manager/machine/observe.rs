//! Looks: at the cloud, and at the bootstrap data. Changes nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::{Map, Value};

use super::gate::{Around, Site, vm_of};
use super::memory::{Facts, Group};
use super::plan::{Found, Miss, Seen, VM};
use crate::api::condition::{
    BOOTSTRAP_DATA_UNUSABLE, IMAGE_AMBIGUOUS, IMAGE_NOT_FOUND, IMAGE_TOO_LARGE,
    WAITING_FOR_BOOTSTRAP_DATA,
};
use crate::fault::{Class, Fault as _};
use crate::id::{ImageId, VmId};
use crate::manager::context::Context;
use crate::manager::error::{Error, found};
use crate::manager::tenant::Tenant;
use crate::resolve;
use crate::template::cloud_init::{self, Facts as Guest};
use crate::vco::{Image, Vm, VmDetail};

/// How old a list may be for a machine that runs: one a cloudspace and minute serves all.
const SETTLED: Duration = Duration::from_mins(1);
/// And for one that is being made.
const MOVING: Duration = Duration::from_secs(3);

/// Looks at everything that the next step depends on, and no more.
pub async fn observe(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    facts: &Facts,
) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    seen.vm = find(context, tenant, around, site, facts, &mut seen).await?;
    let provisioned = super::status::provisioned(&around.vco);
    match &mut seen.vm {
        Found::None => {
            seen.image = Some(image(context, tenant, around, site).await?);
            seen.userdata = Some(userdata(context, around).await?);
        }
        Found::Ours { vm, detail } if !provisioned && !facts.complete && is_halted(vm) => {
            let seen_detail = match detail.take() {
                Some(detail) => detail,
                None => Box::new(tenant.customer.vm(&site.cloudspace_id, vm.id).await?),
            };
            // Only what the very next step depends on is asked: group, then disks, then interfaces.
            if let Some(group) = super::plan::lacking_group(around, site, &seen_detail) {
                seen.group = group_state(context, tenant, site, &group).await?;
            } else if super::plan::lacks_disk(around, site, &seen_detail) {
                seen.disks = Some(tenant.customer.disks(&site.location).await?);
            } else if let Some(nic) = super::plan::lacking_nic(around, &seen_detail)
                && nic.ip_address.is_none()
                && let Ok(network) = u64::try_from(nic.external_network_id)
            {
                let free = tenant.customer.external_addresses(&site.location, network).await?;
                seen.free_address = free.into_iter().next();
            }
            *detail = Some(seen_detail);
        }
        _ => {}
    }
    Ok(seen)
}

fn is_halted(vm: &Vm) -> bool {
    vm.status.as_deref().is_some_and(|status| status.eq_ignore_ascii_case("HALTED"))
}

async fn find(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    facts: &Facts,
    seen: &mut Seen,
) -> Result<Found, Error> {
    let cloudspace = &site.cloudspace_id;
    let list = |age| context.survey.vms(tenant, cloudspace, age);
    let Some(id) = around.vco.spec.provider_id.as_deref() else {
        // Whoever may have made something looks now, not a while ago. Where nothing was tried yet,
        // nothing of ours is there, and only the name may be taken.
        let untried = !super::is_claimed(&around.vco) || facts.tried.is_nothing();
        let age = if untried { MOVING } else { Duration::ZERO };
        return by_name(tenant, around, site, &list(age).await?).await;
    };
    let Some(id) = vm_of(id, &site.location) else { return Ok(Found::None) };
    let now = context.clock.elapsed();
    let provisioned = super::status::provisioned(&around.vco);
    if !provisioned && !facts.complete {
        // Before it is started the detail is needed anyway, and says what a list says.
        match tenant.customer.vm(cloudspace, id).await {
            Ok(detail) if is_marked(site, &around.vco.name_any(), &detail) => {
                return Ok(Found::Ours { vm: row(&detail), detail: Some(Box::new(detail)) });
            }
            // Somebody else wrote the id, or took the mark away: it is not ours to change.
            Ok(detail) => return Ok(Found::Foreign(detail.id)),
            Err(error) if error.class() == Class::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    let age = if provisioned { SETTLED.min(context.request.sync_period / 2) } else { MOVING };
    let age = facts.touched.map_or(age, |at| age.min(now.saturating_sub(at)));
    let in_list = |vms: &[Vm]| vms.iter().find(|vm| vm.id == id).cloned();
    let mut vms = list(age).await?;
    if in_list(&vms).is_none() {
        // One list that misses it proves little; a second one that was asked for now does.
        vms = list(Duration::ZERO).await?;
    }
    Ok(match in_list(&vms) {
        Some(vm) => {
            seen.spare = spare(tenant, around, site, (&vms, id)).await?;
            Found::Ours { vm, detail: None }
        }
        // One that was made a moment ago is not lost.
        None if !provisioned && context.doubt(facts.tried.clone()).of(VM).is_some() => {
            Found::Unseen(id)
        }
        None => Found::Lost(id),
    })
}

/// A detail as a list would show it.
fn row(detail: &VmDetail) -> Vm {
    Vm {
        id: detail.id,
        name: detail.name.clone(),
        status: detail.status.clone(),
        image_id: detail.image_id,
        reference_id: None,
        stack_id: None,
        disks: detail.disks.iter().map(|disk| disk.id).collect(),
        nics: detail.nics.clone(),
    }
}

/// What is known of the group; once it is there it stays as long as the cluster.
async fn group_state(
    context: &Context,
    tenant: &Tenant,
    site: &Site,
    group: &str,
) -> Result<Group, Error> {
    let known = context.groups.of(&site.cloudspace_id, group);
    if known != Group::Unknown {
        return Ok(known);
    }
    let groups = tenant.customer.anti_affinity_groups(&site.cloudspace_id).await?;
    if groups.iter().any(|known| known.id == group) {
        context.groups.learn(&site.cloudspace_id, group);
    }
    // Another machine may have begun to make it meanwhile.
    Ok(context.groups.of(&site.cloudspace_id, group))
}

/// The VM of the machine's name, and whether it carries the machine's mark.
async fn by_name(
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    vms: &[Vm],
) -> Result<Found, Error> {
    let name = around.vco.name_any();
    let same: Vec<&Vm> = vms.iter().filter(|vm| vm.name.as_deref() == Some(&name)).collect();
    let mut ours = Vec::new();
    for vm in &same {
        // A list that runs behind shows what is gone.
        let Some(detail) = found(tenant.customer.vm(&site.cloudspace_id, vm.id).await)? else {
            continue;
        };
        if is_marked(site, &name, &detail) {
            ours.push(((*vm).clone(), Box::new(detail)));
        }
    }
    // A machine's VM is started only after its id was written: of several that nobody has started
    // the first one made is the machine's, and the others go (`spare`).
    ours.sort_by_key(|(vm, _)| vm.id);
    let unused = ours.iter().all(|(vm, _)| is_halted(vm));
    let count = ours.len();
    Ok(match (ours.into_iter().next(), same.first()) {
        (None, None) => Found::None,
        (None, Some(vm)) => Found::Foreign(vm.id),
        (Some(_), _) if count > 1 && !unused => Found::Several(count),
        (Some((vm, detail)), _) => Found::Ours { vm, detail: Some(detail) },
    })
}

fn is_marked(site: &Site, name: &str, detail: &VmDetail) -> bool {
    site.id().is_some_and(|id| id.is_mark(detail.description.as_deref(), "vm", name))
}

/// A VM that is marked as the machine's, is not the one that the provider id names, and was never
/// started: a call that the cloud carried out after everybody had given it up.
async fn spare(
    tenant: &Tenant,
    around: &Around,
    site: &Site,
    (vms, ours): (&[Vm], VmId),
) -> Result<Option<VmId>, Error> {
    let name = around.vco.name_any();
    let same = vms.iter().filter(|vm| vm.name.as_deref() == Some(&name));
    for vm in same.filter(|vm| vm.id != ours && is_halted(vm)) {
        let detail = found(tenant.customer.vm(&site.cloudspace_id, vm.id).await)?;
        if detail.is_some_and(|detail| is_marked(site, &name, &detail)) {
            return Ok(Some(vm.id));
        }
    }
    Ok(None)
}

/// The image, or the reason and message of why there is none.
async fn image(
    context: &Context,
    tenant: &Tenant,
    around: &Around,
    site: &Site,
) -> Result<Result<ImageId, Miss>, Error> {
    let images = context.survey.images(tenant, &site.location, SETTLED).await?;
    Ok(choose(around, site, &images))
}

fn choose(around: &Around, site: &Site, images: &[Image]) -> Result<ImageId, Miss> {
    let spec = &around.vco.spec;
    let at = &site.location;
    let id = match (spec.image_id, &spec.image_name) {
        (Some(id), _) => ImageId(u64::try_from(id).unwrap_or_default()),
        (None, Some(name)) => resolve::named(name, images).map_err(|miss| {
            let reason = if miss.several { IMAGE_AMBIGUOUS } else { IMAGE_NOT_FOUND };
            (reason, format!("{} at {at}", miss.why))
        })?,
        (None, None) => {
            return Err((IMAGE_NOT_FOUND, "neither imageId nor imageName is set".into()));
        }
    };
    let missing = || (IMAGE_NOT_FOUND, format!("there is no image {id} at {at}"));
    let image = images.iter().find(|image| image.id == Some(id)).ok_or_else(missing)?;
    let status = image.status.as_deref().unwrap_or("no status");
    if !status.eq_ignore_ascii_case("CREATED") {
        return Err((IMAGE_NOT_FOUND, format!("image {id} at {at} is {status}, not CREATED")));
    }
    for (what, has, least, unit) in [
        ("bootDiskGiB", spec.boot_disk_gib, image.boot_disk_size, "GiB"),
        ("memoryMiB", spec.memory_mib, image.memory, "MiB"),
    ] {
        let least = least.unwrap_or_default();
        if u64::try_from(has).unwrap_or_default() < least {
            let message = format!("image {id} needs {what} of {least} {unit} at least, not {has}");
            return Err((IMAGE_TOO_LARGE, message));
        }
    }
    Ok(id)
}

/// What the VM is told when it boots, or why it cannot be told that. Never kept.
async fn userdata(
    context: &Context,
    around: &Around,
) -> Result<Result<Map<String, Value>, Miss>, Error> {
    let machine = around.machine.as_deref();
    let Some(name) = machine.and_then(|machine| machine.data_secret_name()) else {
        let message = "the Machine names no bootstrap data";
        return Ok(Err((WAITING_FOR_BOOTSTRAP_DATA, message.to_owned())));
    };
    let namespace = around.vco.namespace().unwrap_or_default();
    let secret = context.api::<Secret>(&namespace).get_opt(name).await;
    let secret =
        secret.map_err(|e| Error::api(format!("read the secret {namespace}/{name}"), e))?;
    let Some(secret) = secret else {
        let message = format!("there is no secret {namespace}/{name}");
        return Ok(Err((WAITING_FOR_BOOTSTRAP_DATA, message)));
    };
    let data = |key: &str| Some(secret.data.as_ref()?.get(key)?.0.as_slice());
    let Some(value) = data("value") else {
        let message = format!("the secret {namespace}/{name} has no key \"value\"");
        return Ok(Err((BOOTSTRAP_DATA_UNUSABLE, message)));
    };
    let format = data("format").map(String::from_utf8_lossy);
    let hostname = around.vco.name_any();
    let guest = Guest { local_hostname: hostname.clone(), instance_id: hostname };
    let made = cloud_init::text(value)
        .and_then(|value| cloud_init::userdata(value, format.as_deref(), &guest));
    Ok(made.map_err(|unusable| (BOOTSTRAP_DATA_UNUSABLE, unusable.to_string())))
}
