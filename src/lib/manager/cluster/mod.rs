//! `VCOCluster`: the network of a cluster and the way to its API.
//!
//! `observe` looks at the cloud, `plan` decides the next step, `act` carries it out, `status` says
//! what is so; `members` knows who belongs into the pool before the API; `delete` is the way back.
//! `backup` says, apart from all that, how old the newest backup is.
//!
//! **Invariants:** nothing is made before the cluster is claimed (finalizer, and the random id that
//! is part of every name and mark); a cloudspace that was adopted, and whatever in it carries no
//! mark of this cluster, is never changed nor deleted; this controller is the only one that changes
//! the pool; the pool is never emptied.

mod act;
pub mod backup;
mod delete;
mod members;
pub mod memory;
mod observe;
mod plan;
mod status;
#[cfg(test)]
mod tests;
mod thing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::members::Candidate;
use self::memory::Settled;
use self::plan::Plan;
use super::context::Context;
use super::controller::Controller;
use super::error::{Error, class_of};
use super::lease::timestamp;
use super::machine::gate::{not_ready, pause_said, paused};
use super::machine::sorted;
use super::mark::ClusterId;
use super::queue::{Key, Queue};
use super::step::Step;
use super::tenant::{NoTenant, Tenant};
use super::{apply, words};
use crate::api::cluster::VCOClusterStatus;
use crate::api::condition::{
    CLOUDSPACE_READY, CLUSTER_ID_TAKEN, CREDENTIALS_VALID, CUSTOMER_CHANGED, INTERNAL_ERROR,
    LOCATION_UNKNOWN, READY, Said,
};
use crate::api::contract::{annotation, core_owner, label};
use crate::api::names::{
    CLUSTER_FINALIZER, CLUSTER_ID_ANNOTATION, CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL,
    CUSTOMER_ANNOTATION, MANAGED_BY, SECRET_FINALIZER_PREFIX,
};
use crate::api::{VCOCluster, VCOMachine};
use crate::fault::{Class, Fault as _};
use crate::id::Location;
use crate::vco::{self, Kind};

/// Looks after clusters' networks.
pub struct Clusters;

impl Controller for Clusters {
    const NAME: &'static str = "vcocluster";

    fn queue(context: &Context) -> &Queue {
        &context.queues.clusters
    }

    fn lane(context: &Context, key: &Key) -> String {
        let cluster = context.vco_clusters.get(key);
        cluster.map(|cluster| cluster.spec.location.clone()).unwrap_or_default()
    }

    async fn pass(context: &Arc<Context>, key: &Key) -> Result<Step, Error> {
        let Some(cluster) = context.vco_clusters.get(key) else { return Ok(Step::Over) };
        let meta = &cluster.metadata;
        if is_managed(&cluster) {
            return Ok(Step::Waits);
        }
        let deleting = meta.deletion_timestamp.is_some();
        let held = cluster.finalizers().iter().any(|one| one == CLUSTER_FINALIZER);
        if deleting && !held {
            return Ok(Step::Waits);
        }
        let owner = core_owner(meta, "Cluster");
        let owner =
            owner.and_then(|owner| context.clusters.get(&Key::new(&key.namespace, &owner.name)));
        if let Some(why) = paused(&*cluster, owner.as_deref()) {
            // Whatever changes meanwhile is found by a look of its own afterwards.
            let uid = cluster.uid().unwrap_or_default();
            context.cluster_facts.note(&uid, |facts| facts.settled = None);
            say(context, &cluster, vec![pause_said(why)], None).await?;
            return Ok(Step::Waits);
        }
        if deleting {
            return delete::delete(context, &cluster).await;
        }
        match owner {
            Some(_) => go(context, &cluster).await,
            None => Ok(Step::Waits),
        }
    }
}

/// Whether somebody else looks after it.
fn is_managed(cluster: &VCOCluster) -> bool {
    let meta = &cluster.metadata;
    annotation(meta, MANAGED_BY).or_else(|| label(meta, MANAGED_BY)).is_some()
}

/// The id of a cluster, once it has one. Where the annotation was taken away or spoilt, the name
/// that its own cloudspace got tells it; where the two differ, nobody knows what is its own.
pub fn id_of(cluster: &VCOCluster) -> Option<ClusterId> {
    let adopted = cluster.spec.cloudspace.as_ref().is_some_and(|wanted| wanted.adopt.is_some());
    let network = cluster.status.as_ref().and_then(|status| status.network.as_ref());
    // One that was adopted may be another cluster's, and named by that one's id.
    let name = network.and_then(|on| on.cloudspace_name.as_deref()).filter(|_| !adopted);
    match (annotated_id(cluster), name.and_then(ClusterId::of_name)) {
        (Some(annotated), Some(named)) if annotated != named => None,
        (annotated, named) => annotated.or(named),
    }
}

fn annotated_id(cluster: &VCOCluster) -> Option<ClusterId> {
    annotation(&cluster.metadata, CLUSTER_ID_ANNOTATION)?.parse().ok()
}

/// That the credentials are another customer's than those with which the cluster was made, if so:
/// all that it has would look as if it had vanished.
pub fn other_customer(cluster: &VCOCluster, tenant: &Tenant) -> Option<String> {
    let (made_for, is) =
        (annotation(&cluster.metadata, CUSTOMER_ANNOTATION)?, tenant.customer.id().as_str());
    (made_for != is).then(|| {
        format!(
            "the credentials in secret {} are of customer {is}, and the cluster was made for \
             customer {made_for}",
            tenant.secret
        )
    })
}

/// Whether the cluster says that it is ours, and by which id.
fn is_claimed(cluster: &VCOCluster) -> bool {
    let held = cluster.finalizers().iter().any(|one| one == CLUSTER_FINALIZER);
    let annotated = annotated_id(cluster);
    held && annotated.is_some() && annotated == id_of(cluster)
}

/// The cluster whose copy this one is: an older one with the same id. Names and marks in the cloud
/// are made of the id, so both would change and delete the same things.
fn original(context: &Context, copy: &VCOCluster, id: &ClusterId) -> Option<Arc<VCOCluster>> {
    let age = |cluster: &VCOCluster| (cluster.creation_timestamp(), cluster.uid());
    let same = context
        .vco_clusters
        .find(|other| age(other) < age(copy) && id_of(other).as_ref() == Some(id));
    same.into_iter().min_by_key(|other| age(other))
}

/// What to do about a copy.
fn copied_from(original: &VCOCluster) -> String {
    format!(
        "its annotation {CLUSTER_ID_ANNOTATION} is that of VCOCluster {}/{}, so everything that \
         one has in the cloud would be this one's too: delete this copy (the cloud is left as it \
         is), and make it anew without that annotation and without spec.cloudspaceId",
        original.namespace().unwrap_or_default(),
        original.name_any()
    )
}

/// What is wrong with a cluster that has a cloudspace and no id: nobody knows what in it is ours.
fn without_id() -> String {
    format!(
        "spec.cloudspaceId is set and the annotation {CLUSTER_ID_ANNOTATION} is missing, spoilt or \
         another one than in status.network.cloudspaceName: restore it, or use \
         spec.cloudspace.adopt for a cloudspace that was there before"
    )
}

/// The finalizer on the Secret for this cluster: its name, or what stands for one that is too long
/// (a finalizer's name has 63 characters at most).
fn secret_finalizer(cluster: &str) -> String {
    let whole = format!("{SECRET_FINALIZER_PREFIX}{cluster}");
    if whole.rsplit('/').next().is_some_and(|name| name.len() <= 63) && !cluster.contains('/') {
        return whole;
    }
    let sum = hex::encode(Sha256::digest(cluster));
    format!("{SECRET_FINALIZER_PREFIX}{}", &sum[..32])
}

async fn tenant(context: &Context, cluster: &VCOCluster) -> Result<Arc<Tenant>, NoTenant> {
    let namespace = cluster.namespace().unwrap_or_default();
    let secret = &cluster.spec.credential_secret_ref.name;
    let customer = cluster.spec.customer_id.as_deref();
    let api = context.api(&namespace);
    let tenant = context.tenants.named(&api, &namespace, secret, customer).await?;
    match other_customer(cluster, &tenant) {
        Some(message) => Err(NoTenant::Said { reason: CUSTOMER_CHANGED, message }),
        None => Ok(tenant),
    }
}

async fn go(context: &Context, cluster: &VCOCluster) -> Result<Step, Error> {
    let uid = cluster.uid().unwrap_or_default();
    let candidates = candidates(context, cluster);
    let wanted = members::wanted(&candidates);
    let facts = context.cluster_facts.of(&uid);
    let now = context.clock.elapsed();
    let (id, claimed) = (id_of(cluster), is_claimed(cluster));
    if claimed && is_settled(context, cluster, facts.settled.as_ref(), &wanted, now) {
        return Ok(Step::Settled);
    }
    if let Some(original) = id.as_ref().and_then(|id| original(context, cluster, id)) {
        let said = not_ready(CLOUDSPACE_READY, CLUSTER_ID_TAKEN, copied_from(&original));
        say(context, cluster, said, None).await?;
        return Ok(Step::After(Duration::from_secs(30)));
    }
    if id.is_none() && cluster.spec.cloudspace_id.is_some() {
        let said = not_ready(CLOUDSPACE_READY, INTERNAL_ERROR, without_id());
        say(context, cluster, said, None).await?;
        return Ok(Step::Waits);
    }
    // Finalizers can be taken away by others; what is there gets its own back (contract, 1.7).
    if !claimed && status::provisioned(cluster) {
        let api = context.api::<VCOCluster>(&cluster.namespace().unwrap_or_default());
        act::claim(context, &api, cluster, id.as_ref(), None).await?;
        return Ok(Step::Changed);
    }
    let tenant = match tenant(context, cluster).await {
        Ok(tenant) => tenant,
        Err(NoTenant::Failed(error)) => return Err(error),
        Err(NoTenant::Said { reason, message }) => {
            let mut said = vec![Said::not(CREDENTIALS_VALID, reason, message.clone())];
            if !status::provisioned(cluster) {
                said.push(Said::not(READY, reason, message));
            }
            say(context, cluster, said, None).await?;
            return Ok(Step::After(Duration::from_secs(30)));
        }
    };
    warn_of_expiry(context, cluster, &tenant).await;
    let secret = &cluster.spec.credential_secret_ref.name;
    if claimed && facts.held.as_ref() != Some(secret) {
        act::hold(context, cluster).await?;
        context.cluster_facts.note(&uid, |facts| facts.held = Some(secret.clone()));
    }
    let doubt = context.doubt(facts.tried.clone());
    let disks = has_disks(context, cluster);
    let seen = observe::observe(&tenant.customer, cluster, id.as_ref(), &doubt, disks).await;
    let mut seen = match seen {
        Ok(seen) => seen,
        Err(error) => return failed(context, &tenant, cluster, error).await,
    };
    if let Some(pool) = seen.pools.first() {
        seen.change = members::change(&pool.hosts, &wanted);
    }
    let plan = plan::plan(cluster, id.as_ref(), claimed, &seen, &doubt);
    let plan = plan.with(tenant.denied.any(&cluster.spec.location));
    carry(context, &tenant, cluster, id.as_ref(), plan, wanted).await
}

/// Says days ahead that a token ends which nothing renews.
async fn warn_of_expiry(context: &Context, cluster: &VCOCluster, tenant: &Tenant) {
    if context.tenants.ends_soon(tenant).is_some() {
        let secret = &tenant.secret;
        let note =
            format!("the token in secret {secret} expires within a week and cannot be renewed");
        context.events.warning(cluster, "CredentialsExpire", "Authenticate", note).await;
    }
}

/// Says what the plan says, and does what is to be done.
async fn carry(
    context: &Context,
    tenant: &Tenant,
    cluster: &VCOCluster,
    id: Option<&ClusterId>,
    plan: Plan,
    wanted: BTreeSet<String>,
) -> Result<Step, Error> {
    let Plan { action, said, network, provisioned, step } = plan;
    let (uid, now) = (cluster.uid().unwrap_or_default(), context.clock.elapsed());
    let generation = cluster.metadata.generation;
    let settled =
        (step == Step::Settled).then_some(Settled { at: now, generation, members: wanted });
    context.cluster_facts.note(&uid, |facts| facts.settled = settled);
    let facts = context.cluster_facts.of(&uid);
    if action.is_none() || !facts.deeds.failed() || status::provisioned(cluster) {
        say(context, cluster, said, Some((network, provisioned))).await?;
    }
    let Some(action) = action else { return Ok(step) };
    let what = format!("{action:?}");
    if let Some(left) = facts.deeds.pause(&what, now) {
        return Ok(Step::After(left));
    }
    let done = act::act(context, &tenant.customer, cluster, id, action).await;
    let now = context.clock.elapsed();
    context.cluster_facts.note(&uid, |facts| facts.deeds.tried(what, &done, now));
    match done {
        Ok(()) => Ok(step),
        Err(error) => failed(context, tenant, cluster, error).await,
    }
}

/// Whether machines of the cluster have disks of their own.
fn has_disks(context: &Context, cluster: &VCOCluster) -> bool {
    let name = cluster_name(cluster);
    let has = |vco: &VCOMachine| {
        vco.namespace() == cluster.namespace()
            && label(&vco.metadata, CLUSTER_NAME_LABEL) == name
            && vco.spec.data_disks.is_some()
    };
    !context.vco_machines.find(has).is_empty()
}

/// The name of the Cluster that it belongs to.
fn cluster_name(cluster: &VCOCluster) -> Option<&str> {
    let owner = core_owner(&cluster.metadata, "Cluster").map(|owner| owner.name.as_str());
    label(&cluster.metadata, CLUSTER_NAME_LABEL).or(owner)
}

/// Whether a look a while ago found everything as it should be now.
fn is_settled(
    context: &Context,
    cluster: &VCOCluster,
    settled: Option<&Settled>,
    wanted: &BTreeSet<String>,
    now: Duration,
) -> bool {
    let period = context.request.sync_period.mul_f64(0.9);
    status::provisioned(cluster)
        && settled.is_some_and(|settled| {
            now.saturating_sub(settled.at) < period
                && settled.generation == cluster.metadata.generation
                && settled.members == *wanted
        })
}

/// The control plane's machines.
fn candidates(context: &Context, cluster: &VCOCluster) -> Vec<Candidate> {
    let (namespace, name) = (cluster.namespace(), cluster_name(cluster));
    let machines = context.vco_machines.find(|vco| {
        vco.namespace() == namespace
            && label(&vco.metadata, CLUSTER_NAME_LABEL) == name
            && label(&vco.metadata, CONTROL_PLANE_LABEL).is_some()
    });
    let found = machines.iter().filter_map(|vco| {
        let key = Key::of(&**vco)?;
        let vco = context.vco_machines.get(&key)?;
        let owner = core_owner(&vco.metadata, "Machine")?;
        let machine = context.machines.get(&Key::new(key.namespace, &owner.name));
        members::candidate(&vco, machine.as_deref())
    });
    found.collect()
}

/// Says why a cluster does not get on, if it has not been there yet, and hands the error on.
async fn failed(
    context: &Context,
    tenant: &Tenant,
    cluster: &VCOCluster,
    error: Error,
) -> Result<Step, Error> {
    if let Error::Blocked(why) = &error {
        let said = not_ready(CLOUDSPACE_READY, INTERNAL_ERROR, why.clone());
        say(context, cluster, said, None).await?;
    }
    if let Error::Cloud(cloud) = &error {
        let (reason, message) = (words::reason(cloud), words::of(cloud));
        if let Some(unknown) = unknown_location(tenant, cluster, cloud).await {
            let said = not_ready(CLOUDSPACE_READY, LOCATION_UNKNOWN, unknown);
            say(context, cluster, said, None).await?;
            return Err(error);
        }
        context.refused(tenant, cloud, &cluster.spec.location);
        let mut said = Vec::new();
        if cloud.class() == Class::Auth {
            said.push(Said::not(CREDENTIALS_VALID, reason, message.clone()));
        }
        if !status::provisioned(cluster) {
            said.extend(not_ready(CLOUDSPACE_READY, reason, message));
        }
        if !said.is_empty() {
            say(context, cluster, said, None).await?;
        }
    }
    Err(error)
}

/// That the customer has no such location, if that is why a call for a new cluster was refused.
async fn unknown_location(
    tenant: &Tenant,
    cluster: &VCOCluster,
    error: &vco::Error,
) -> Option<String> {
    // Lists of all locations leave such a one out.
    let fits = matches!(error.status(), Some(403 | 404)) || error.kind() == Kind::Incomplete;
    if status::provisioned(cluster) || !fits {
        return None;
    }
    let at = &cluster.spec.location;
    let known = tenant.customer.locations().await.ok()?;
    let known: Vec<_> = known.iter().map(Location::as_str).collect();
    (!known.contains(&at.as_str())).then(|| {
        format!(
            "customer {} has no location {at}; it has {}",
            tenant.customer.id(),
            known.join(", ")
        )
    })
}

async fn say(
    context: &Context,
    cluster: &VCOCluster,
    said: Vec<Said>,
    network: Option<(crate::api::cluster::NetworkStatus, bool)>,
) -> Result<(), Error> {
    let now = timestamp(context.clock.unix());
    write(context, cluster, &status::status(cluster, said, network, now)).await
}

/// Writes the status, if it is another one than before.
async fn write(
    context: &Context,
    cluster: &VCOCluster,
    status: &VCOClusterStatus,
) -> Result<(), Error> {
    let status = backup::without(status);
    let mut before = backup::without(&cluster.status.clone().unwrap_or_default());
    before.conditions = sorted(before.conditions);
    if before == status {
        return Ok(());
    }
    let api = context.api::<VCOCluster>(&cluster.namespace().unwrap_or_default());
    let body = serde_json::to_value(&status).unwrap_or(Value::Null);
    match apply::status(&api, cluster, &body).await {
        Ok(written) => {
            context.vco_clusters.wrote(written);
            Ok(())
        }
        Err(Error::Api { source, .. }) if class_of(&source) == Class::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
