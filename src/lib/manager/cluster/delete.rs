//! A cluster goes: in reverse order of how it came, and only what is its own.

use std::time::Duration;

use kube::ResourceExt as _;

use super::observe;
use super::plan::Space;
use crate::api::VCOCluster;
use crate::api::cluster::Leftovers;
use crate::api::condition::{
    DELETING, DELETION_BLOCKED, DELETION_RUNS, FOREIGN_THINGS_LEFT, READY, Said,
    WAITING_FOR_MACHINES,
};
use crate::api::contract::{annotation, core_owner, label};
use crate::api::names::{ABANDON_ANNOTATION, CLUSTER_FINALIZER, CLUSTER_NAME_LABEL};
use crate::fault::{Class, Fault as _};
use crate::id::CloudspaceId;
use crate::manager::context::Context;
use crate::manager::error::{Error, class_of};
use crate::manager::mark::ClusterId;
use crate::manager::step::Step;
use crate::manager::tenant::{NoTenant, Tenant};
use crate::manager::{apply, tenant, words};
use crate::vco::{self, Customer};

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
        // Nothing is made before a cluster has its id.
        return release(context, cluster).await;
    };
    let tenant = match super::tenant(context, cluster).await {
        Ok(tenant) => tenant,
        Err(NoTenant::Failed(error)) => return Err(error),
        Err(NoTenant::Said { reason, message }) => {
            return blocked(context, cluster, &id, reason, &message).await;
        }
    };
    let course = match next(context, &tenant, cluster, &id).await {
        Err(Error::Cloud(error)) => return failed(context, &tenant, cluster, &id, error).await,
        other => other?,
    };
    match course {
        Course::Goes(step, message) => said(context, cluster, DELETION_RUNS, message, step).await,
        Course::Held(reason, message) => {
            said(context, cluster, reason, message, Step::After(LATER)).await
        }
        Course::Over => {
            let tried = context.clusters_memory.facts(&cluster.uid().unwrap_or_default()).tried;
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
    context.tenants.refused(tenant.number, &error);
    let (reason, message) = (words::reason(&error), words::of(&error));
    if error.class() == Class::Auth {
        return blocked(context, cluster, id, reason, &message).await;
    }
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
    let owner = core_owner(&cluster.metadata, "Cluster").map(|owner| owner.name.as_str());
    let Some(name) = label(&cluster.metadata, CLUSTER_NAME_LABEL).or(owner) else {
        return Vec::new();
    };
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
    let space = match observe::space(customer, cluster, &at, Some(id)).await? {
        Space::Found(space) => space.id,
        Space::Several(name) => {
            return Ok(Course::Held(
                DELETION_BLOCKED,
                format!("several cloudspaces are called {name:?}"),
            ));
        }
        Space::None | Space::Wanted(_) | Space::Missing(_) => return Ok(Course::Over),
    };
    if let Some(what) = ours_goes(customer, &space, id).await? {
        return Ok(Course::Goes(
            Step::Changed,
            format!("{what} of cloudspace {space} was deleted"),
        ));
    }
    let adopted = cluster.spec.cloudspace.as_ref().is_some_and(|wanted| wanted.adopt.is_some());
    if adopted {
        return Ok(Course::Over);
    }
    if let Some(course) = leftovers(context, tenant, cluster, &space).await? {
        return Ok(course);
    }
    customer.delete_cloudspace(&space).await?;
    match customer.cloudspace(&space).await {
        Err(error) if error.class() == Class::NotFound => {
            context.survey.forget(&space);
            context.memory.forget_groups(&space);
            Ok(Course::Over)
        }
        Ok(_) => {
            Ok(Course::Goes(Step::After(SOON), format!("cloudspace {space} is being deleted")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Deletes one of our own things in the cloudspace; none if none is left.
async fn ours_goes(
    customer: &Customer,
    space: &CloudspaceId,
    id: &ClusterId,
) -> Result<Option<String>, Error> {
    for balancer in customer.load_balancers(space).await? {
        if id.named(balancer.name.as_deref()) {
            customer.delete_load_balancer(space, &balancer.id).await?;
            return Ok(Some(format!("load balancer {}", balancer.id)));
        }
    }
    for pool in customer.server_pools(space).await? {
        if id.named(pool.name.as_deref()) {
            customer.delete_server_pool(space, &pool.id).await?;
            return Ok(Some(format!("server pool {}", pool.id)));
        }
    }
    for group in customer.anti_affinity_groups(space).await? {
        if id.named(Some(&group.id)) {
            customer.delete_anti_affinity_group(space, &group.id).await?;
            return Ok(Some(format!("anti-affinity group {}", group.id)));
        }
    }
    Ok(None)
}

/// What others have made in a cloudspace of ours: named, or removed, as the cluster says.
async fn leftovers(
    context: &Context,
    tenant: &Tenant,
    cluster: &VCOCluster,
    space: &CloudspaceId,
) -> Result<Option<Course>, Error> {
    let customer = &tenant.customer;
    let balancers = customer.load_balancers(space).await?;
    let pools = customer.server_pools(space).await?;
    let forwards = customer.port_forwards(space).await?;
    let vms = context.survey.vms(tenant, space, Duration::ZERO).await?;
    let mut names = Vec::new();
    let known = |name: &Option<String>| name.clone().unwrap_or_default();
    names.extend(
        balancers.iter().map(|one| format!("load balancer {} {}", one.id, known(&one.name))),
    );
    names.extend(pools.iter().map(|one| format!("server pool {} {}", one.id, known(&one.name))));
    names.extend(forwards.iter().map(|one| format!("port forward {}", one.id)));
    names.extend(vms.iter().map(|one| format!("VM {} {}", one.id, known(&one.name))));
    if names.is_empty() {
        return Ok(None);
    }
    let policy = cluster.spec.cloudspace.as_ref().and_then(|wanted| wanted.leftovers);
    if policy != Some(Leftovers::Remove)
        || (balancers.is_empty() && pools.is_empty() && forwards.is_empty())
    {
        // A VM of somebody else's is never deleted, whatever the cluster says.
        names.sort();
        let message = format!("cloudspace {space} still holds {}", names.join(", "));
        return Ok(Some(Course::Held(FOREIGN_THINGS_LEFT, message)));
    }
    let removed = format!("{} was removed", names[0]);
    if let Some(one) = balancers.first() {
        customer.delete_load_balancer(space, &one.id).await?;
    } else if let Some(one) = pools.first() {
        customer.delete_server_pool(space, &one.id).await?;
    } else if let Some(one) = forwards.first() {
        customer.delete_port_forward(space, &one.id).await?;
    }
    context.events.normal(cluster, "LeftoverRemoved", "Delete", removed.clone()).await;
    Ok(Some(Course::Goes(Step::Changed, removed)))
}

/// The cloud cannot be asked: it is said, and whoever knows better may let the cluster go.
async fn blocked(
    context: &Context,
    cluster: &VCOCluster,
    id: &ClusterId,
    reason: &'static str,
    message: &str,
) -> Result<Step, Error> {
    if annotation(&cluster.metadata, ABANDON_ANNOTATION) == Some("true") {
        let space = cluster.spec.cloudspace_id.clone();
        let space = space.unwrap_or_else(|| id.name(&cluster.name_any()));
        let note = format!(
            "let go without asking the cloud; look for cloudspace {space}, and for load balancers, \
             server pools and groups whose names begin with capvco-{id}-"
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
    context.clusters_memory.forget(&cluster.uid().unwrap_or_default());
    Ok(Step::Over)
}
