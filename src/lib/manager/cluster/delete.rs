//! A cluster goes: in reverse order of how it came, and only what is its own.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::ListParams;

use super::memory::Facts;
use super::observe;
use super::plan::Space;
use super::thing::Thing;
use crate::api::cluster::Leftovers;
use crate::api::condition::{
    CLOUD_UNREACHABLE, CLUSTER_ID_TAKEN, DELETING, DELETION_BLOCKED, DELETION_RUNS,
    FOREIGN_THINGS_LEFT, INTERNAL_ERROR, LOCATION_UNKNOWN, NAME_TAKEN, READY, Said,
    WAITING_FOR_MACHINES,
};
use crate::api::contract::{is_abandoned, label};
use crate::api::names::{CLUSTER_FINALIZER, CLUSTER_NAME_LABEL};
use crate::api::{VCOCluster, VCOMachine};
use crate::fault::{Class, Fault as _};
use crate::id::{CloudspaceId, Location};
use crate::manager::context::Context;
use crate::manager::error::{Error, class_of, found};
use crate::manager::mark::ClusterId;
use crate::manager::step::Step;
use crate::manager::tenant::{NoTenant, Tenant};
use crate::manager::{apply, tenant, words};
use crate::vco;

/// How long until what was begun is looked at again.
const SOON: Duration = Duration::from_secs(3);
/// How long until somebody may have done something about it.
const LATER: Duration = Duration::from_secs(30);

/// What a step of the deletion came to.
enum Course {
    /// It goes on.
    Goes(Step, String),
    /// It cannot go on before somebody does something.
    Held(&'static str, String),
    /// Nothing of ours is left.
    Over,
}

/// One step of a deletion.
pub async fn delete(context: &Context, cluster: &VCOCluster) -> Result<Step, Error> {
    let machines = machines(context, cluster);
    if !machines.is_empty() {
        let message = format!("VCOMachines {} are still there", machines.join(", "));
        return said(context, cluster, WAITING_FOR_MACHINES, message, Step::After(SOON)).await;
    }
    let Some(id) = super::id_of(cluster) else {
        if cluster.spec.cloudspace_id.is_some() {
            return blocked(context, cluster, None, INTERNAL_ERROR, &super::without_id()).await;
        }
        // Nothing is made before a cluster has its id.
        return release(context, cluster).await;
    };
    if let Some(original) = super::original(context, cluster, &id) {
        // Whatever carries the mark is the other one's.
        let note = format!(
            "let go without changing anything in the cloud: its id is that of VCOCluster {}/{}",
            original.namespace().unwrap_or_default(),
            original.name_any()
        );
        context.events.warning(cluster, CLUSTER_ID_TAKEN, "Delete", note).await;
        return release(context, cluster).await;
    }
    let tenant = match super::tenant(context, cluster).await {
        Ok(tenant) => tenant,
        Err(NoTenant::Failed(error)) => return Err(error),
        Err(NoTenant::Said { reason, message }) => {
            return blocked(context, cluster, Some(&id), reason, &message).await;
        }
    };
    if is_abandoned(&cluster.metadata) && tenant.denied.is_silent() {
        return blocked(context, cluster, Some(&id), CLOUD_UNREACHABLE, words::SILENT).await;
    }
    let course = match next(context, &tenant, cluster, &id).await {
        Err(Error::Cloud(error)) => return failed(context, &tenant, cluster, &id, error).await,
        other => other?,
    };
    match course {
        Course::Goes(step, message) => said(context, cluster, DELETION_RUNS, message, step).await,
        Course::Held(NAME_TAKEN, message) => {
            blocked(context, cluster, Some(&id), NAME_TAKEN, &message).await
        }
        Course::Held(reason, message) => {
            said(context, cluster, reason, message, Step::After(LATER)).await
        }
        Course::Over => {
            let tried = context.cluster_facts.of(&cluster.uid().unwrap_or_default()).tried;
            // What was provisioned was in lists already; anything younger may be in none yet.
            if !super::status::provisioned(cluster)
                && let Some(look) = context.doubt(tried).any()
            {
                let message = "what may have been made a moment ago is looked for".to_owned();
                return said(context, cluster, DELETION_RUNS, message, Step::After(look)).await;
            }
            release(context, cluster).await
        }
    }
}

/// The cloud has failed in the middle: it is said, and tried again.
async fn failed(
    context: &Context,
    tenant: &Tenant,
    cluster: &VCOCluster,
    id: &ClusterId,
    error: vco::Error,
) -> Result<Step, Error> {
    if cluster.spec.cloudspace_id.is_none()
        && let Some(unknown) = super::unknown_location(tenant, cluster, &error).await
    {
        // Nothing can have been made where the customer is not; if he was until a moment ago, the
        // event says what to look for.
        let own = id.name(&cluster.name_any());
        let note = format!("let go: {unknown}; no cloudspace {own} was made");
        context.events.warning(cluster, LOCATION_UNKNOWN, "Delete", note).await;
        return release(context, cluster).await;
    }
    context.refused(tenant, &error, &cluster.spec.location);
    let (reason, message) = (words::reason(&error), words::of(&error));
    if error.class() == Class::Auth || is_abandoned(&cluster.metadata) {
        return blocked(context, cluster, Some(id), reason, &message).await;
    }
    let message = words::or_abandon(&message);
    said(context, cluster, reason, message, Step::Waits).await?;
    Err(error.into())
}

async fn said(
    context: &Context,
    cluster: &VCOCluster,
    reason: &'static str,
    message: String,
    step: Step,
) -> Result<Step, Error> {
    let said =
        vec![Said::so(DELETING, reason).with(message.clone()), Said::not(READY, reason, message)];
    super::say(context, cluster, said, None).await?;
    Ok(step)
}

/// The names of the cluster's machines that are still there.
fn machines(context: &Context, cluster: &VCOCluster) -> Vec<String> {
    let Some(name) = super::cluster_name(cluster) else { return Vec::new() };
    let found = context.vco_machines.find(|vco| {
        vco.namespace() == cluster.namespace()
            && label(&vco.metadata, CLUSTER_NAME_LABEL) == Some(name)
    });
    let mut names: Vec<_> = found.iter().map(|vco| vco.name_any()).collect();
    names.sort();
    names.truncate(10);
    names
}

async fn next(
    context: &Context,
    tenant: &Tenant,
    cluster: &VCOCluster,
    id: &ClusterId,
) -> Result<Course, Error> {
    let customer = &tenant.customer;
    let at = observe::location(cluster)?;
    let adopted = cluster.spec.cloudspace.as_ref().is_some_and(|wanted| wanted.adopt.is_some());
    let own = id.name(&cluster.name_any());
    // Disks are the location's: they may be there although the cloudspace is not.
    let going_disk = disk_goes(context, tenant, cluster, &at, id);
    let space = match observe::space(customer, cluster, &at, Some(id)).await? {
        Space::Found(space) => space,
        Space::Several(name) if adopted => {
            let message = format!("several cloudspaces are called {name:?}");
            return Ok(Course::Held(DELETION_BLOCKED, message));
        }
        _ if adopted => return Ok(going_disk.await?.unwrap_or(Course::Over)),
        // A call that was carried out after everybody had given it up may have made another one.
        _ => match observe::named(customer, &at, &own).await?.into_iter().next() {
            Some(space) => space,
            None => return Ok(going_disk.await?.unwrap_or(Course::Over)),
        },
    };
    let going = Going { context, tenant, cluster, space: &space.id };
    if let Some(course) = going.ours(id).await? {
        return Ok(course);
    }
    if let Some(course) = going_disk.await? {
        return Ok(course);
    }
    if adopted {
        return Ok(Course::Over);
    }
    if let Some(course) = going.leftovers().await? {
        return Ok(course);
    }
    if !id.named(space.name.as_deref()) {
        // Somebody wrote its id, or renamed it: what does not bear our mark is not deleted.
        let name = space.name.as_deref().unwrap_or_default();
        let message = format!("cloudspace {} is called {name:?} and not {own:?}", space.id);
        return Ok(Course::Held(NAME_TAKEN, message));
    }
    going.space_goes(&at, &own).await
}

/// A deletion in a cloudspace.
struct Going<'a> {
    context: &'a Context,
    tenant: &'a Tenant,
    cluster: &'a VCOCluster,
    space: &'a CloudspaceId,
}

impl Going<'_> {
    /// The cloudspace itself is deleted, once it is empty.
    async fn space_goes(&self, at: &Location, own: &str) -> Result<Course, Error> {
        let Self { context, tenant, space, .. } = self;
        let customer = &tenant.customer;
        let message = format!("cloudspace {space} is being deleted");
        let facts = self.facts();
        if let Some(left) = facts.deeds.pause(&message, context.clock.elapsed()) {
            return Ok(Course::Goes(Step::After(left), message));
        }
        customer.delete_cloudspace(space).await?;
        self.note(message.clone());
        match customer.cloudspace(space).await {
            Err(error) if error.class() == Class::NotFound => {}
            Ok(_) => return Ok(Course::Goes(Step::After(SOON), message)),
            Err(error) => return Err(error.into()),
        }
        context.survey.forget(space);
        context.groups.forget(space);
        let others = observe::named(customer, at, own).await?;
        if others.iter().all(|other| other.id == **space) {
            return Ok(Course::Over);
        }
        Ok(Course::Goes(Step::Changed, message))
    }

    /// Deletes one of our own things in the cloudspace; none if none is left.
    async fn ours(&self, id: &ClusterId) -> Result<Option<Course>, Error> {
        let (customer, space) = (&self.tenant.customer, self.space);
        let named = |name: &Option<String>| id.named(name.as_deref());
        let balancers = customer.load_balancers(space).await?.into_iter();
        let ours = balancers.filter(|one| named(&one.name)).map(|one| Thing::Balancer(one.id));
        if let Some(course) = self.first(ours.collect()).await? {
            return Ok(Some(course));
        }
        let pools = customer.server_pools(space).await?.into_iter();
        let ours = pools.filter(|one| named(&one.name)).map(|one| Thing::Pool(one.id));
        if let Some(course) = self.first(ours.collect()).await? {
            return Ok(Some(course));
        }
        let groups = customer.anti_affinity_groups(space).await?.into_iter();
        let ours = groups.filter(|one| id.named(Some(&one.id))).map(|one| Thing::Group(one.id));
        if let Some(course) = self.first(ours.collect()).await? {
            return Ok(Some(course));
        }
        let late = self.late_vms(id).await?;
        if late.is_empty() || machine_is_left(self.context, self.cluster).await? {
            return Ok(None);
        }
        self.first(late).await
    }

    /// VMs of machines that are gone, made by calls that were carried out after everybody had given
    /// them up: marked as ours, and never started. In a cloudspace of ours any other VM holds the
    /// deletion; in one that was adopted they are others'.
    async fn late_vms(&self, id: &ClusterId) -> Result<Vec<Thing>, Error> {
        let Self { context, tenant, space, .. } = self;
        let vms = context.survey.vms(tenant, space, Duration::ZERO).await?;
        let mut late = Vec::new();
        for vm in vms.iter() {
            let halted = vm.status.as_deref().is_some_and(|on| on.eq_ignore_ascii_case("HALTED"));
            if !halted {
                continue;
            }
            let detail = found(tenant.customer.vm(space, vm.id).await)?;
            if detail.is_some_and(|detail| id.marked(detail.description.as_deref())) {
                late.push(Thing::Vm(vm.id));
            }
        }
        Ok(late)
    }

    /// Deletes the first of these that is there.
    async fn first(&self, things: Vec<Thing>) -> Result<Option<Course>, Error> {
        for thing in things {
            if let Some(course) = self.take(&thing).await? {
                return Ok(Some(course));
            }
        }
        Ok(None)
    }

    /// Deletes a thing; none if it was deleted before and only a list still shows it.
    async fn take(&self, thing: &Thing) -> Result<Option<Course>, Error> {
        let Self { context, tenant, space, .. } = self;
        let (customer, what, facts) = (&tenant.customer, thing.to_string(), self.facts());
        if facts.deleted.contains(&what) {
            if !thing.is_still_there(customer, space).await? {
                return Ok(None);
            }
            if let Some(left) = facts.deeds.pause(&what, context.clock.elapsed()) {
                let message = format!("{what} of cloudspace {space} is being deleted");
                return Ok(Some(Course::Goes(Step::After(left), message)));
            }
        }
        thing.delete(customer, space).await?;
        self.note(what.clone());
        let message = format!("{what} of cloudspace {space} was deleted");
        Ok(Some(Course::Goes(Step::Changed, message)))
    }

    /// What others have made in a cloudspace of ours: named, or removed, as the cluster says.
    async fn leftovers(&self) -> Result<Option<Course>, Error> {
        let Self { context, tenant, cluster, space } = self;
        let customer = &tenant.customer;
        let balancers = customer.load_balancers(space).await?;
        let pools = customer.server_pools(space).await?;
        let forwards = customer.port_forwards(space).await?;
        let vms = context.survey.vms(tenant, space, Duration::ZERO).await?;
        let known = |name: &Option<String>| name.clone().unwrap_or_default();
        let entry =
            |thing: Thing, name: &Option<String>| (format!("{thing} {}", known(name)), thing);
        let mut things = Vec::new();
        things.extend(balancers.into_iter().map(|on| entry(Thing::Balancer(on.id), &on.name)));
        things.extend(pools.into_iter().map(|on| entry(Thing::Pool(on.id), &on.name)));
        things.extend(forwards.into_iter().map(|on| entry(Thing::Forward(on.id), &None)));
        let gone = |thing: &Thing| self.facts().deleted.contains(&thing.to_string());
        let mut left = Vec::new();
        for vm in vms.iter() {
            let (name, thing) = entry(Thing::Vm(vm.id), &vm.name);
            // A list that runs behind shows what is gone.
            if thing.is_still_there(customer, space).await? {
                left.push(name);
            }
        }
        let policy = cluster.spec.cloudspace.as_ref().and_then(|wanted| wanted.leftovers);
        for (name, thing) in things {
            if policy != Some(Leftovers::Remove) {
                if !gone(&thing) {
                    left.push(name);
                }
                continue;
            }
            let course = self.take(&thing).await?;
            if matches!(course, Some(Course::Goes(Step::Changed, _))) {
                let note = format!("{} was removed", name.trim_end());
                context.events.normal(*cluster, "LeftoverRemoved", "Delete", note).await;
            }
            if course.is_some() {
                return Ok(course);
            }
        }
        if left.is_empty() {
            return Ok(None);
        }
        // A VM of somebody else's is never deleted, whatever the cluster says.
        left.sort();
        let message = format!("cloudspace {space} still holds {}", left.join(", "));
        Ok(Some(Course::Held(FOREIGN_THINGS_LEFT, message)))
    }

    fn facts(&self) -> Facts {
        facts(self.context, self.cluster)
    }

    fn note(&self, what: String) {
        note(self.context, self.cluster, what);
    }
}

/// Deletes a disk of a machine that is gone, made by a call that was carried out after everybody had
/// given it up: marked as ours, and on no VM; none if there is none.
async fn disk_goes(
    context: &Context,
    tenant: &Tenant,
    cluster: &VCOCluster,
    at: &Location,
    id: &ClusterId,
) -> Result<Option<Course>, Error> {
    let deleted = facts(context, cluster).deleted;
    let disks = tenant.customer.disks(at).await?.into_iter();
    let ours = disks.filter(|on| on.vm_id.is_none() && id.marked(on.description.as_deref()));
    let mut named = ours.map(|disk| (disk.id, format!("disk {} at {at}", disk.id)));
    let Some((disk, what)) = named.find(|(_, what)| !deleted.contains(what)) else {
        return Ok(None);
    };
    if machine_is_left(context, cluster).await? {
        return Ok(None);
    }
    tenant.customer.delete_disk(at, disk).await?;
    note(context, cluster, what.clone());
    Ok(Some(Course::Goes(Step::Changed, format!("{what} was deleted"))))
}

/// Whether a machine of the cluster is there that this manager was not told to look after: its VM
/// and disks are its own.
async fn machine_is_left(context: &Context, cluster: &VCOCluster) -> Result<bool, Error> {
    let Some(name) = super::cluster_name(cluster) else { return Ok(true) };
    let api = context.api::<VCOMachine>(&cluster.namespace().unwrap_or_default());
    let params = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={name}"));
    let all = api.list_metadata(&params).await;
    let all = all.map_err(|source| Error::api(format!("list machines of {name}"), source))?;
    Ok(!all.items.is_empty())
}

fn facts(context: &Context, cluster: &VCOCluster) -> Facts {
    context.cluster_facts.of(&cluster.uid().unwrap_or_default())
}

/// This was deleted now.
fn note(context: &Context, cluster: &VCOCluster, what: String) {
    let now = context.clock.elapsed();
    context.cluster_facts.note(&cluster.uid().unwrap_or_default(), |facts| {
        facts.deleted.insert(what.clone());
        facts.deeds.done(what, now);
    });
}

/// The cloud cannot be asked: it is said, and whoever knows better may let the cluster go.
async fn blocked(
    context: &Context,
    cluster: &VCOCluster,
    id: Option<&ClusterId>,
    reason: &'static str,
    message: &str,
) -> Result<Step, Error> {
    if is_abandoned(&cluster.metadata) {
        let space = cluster.spec.cloudspace_id.clone();
        let space = space.or_else(|| id.map(|id| id.name(&cluster.name_any())));
        let prefix = id.map_or_else(|| "capvco-".to_owned(), |id| id.name(""));
        let note = format!(
            "let go without asking the cloud; look for cloudspace {}, and for load balancers, \
             server pools and groups whose names begin with {prefix}",
            space.unwrap_or_default()
        );
        context.events.warning(cluster, "Abandoned", "Delete", note).await;
        return release(context, cluster).await;
    }
    let message = format!("{reason}: {message}");
    said(context, cluster, DELETION_BLOCKED, message, Step::After(LATER)).await
}

/// Lets the Secret and then the cluster go.
async fn release(context: &Context, cluster: &VCOCluster) -> Result<Step, Error> {
    let namespace = cluster.namespace().unwrap_or_default();
    let secret = &cluster.spec.credential_secret_ref.name;
    let finalizer = super::secret_finalizer(&cluster.name_any());
    tenant::let_go(&context.api(&namespace), secret, &finalizer).await?;
    let api = context.api::<VCOCluster>(&namespace);
    match apply::release(&api, cluster, CLUSTER_FINALIZER).await {
        Err(Error::Api { source, .. }) if class_of(&source) == Class::NotFound => {}
        other => drop(other?),
    }
    context.cluster_facts.forget(&cluster.uid().unwrap_or_default());
    Ok(Step::Over)
}
