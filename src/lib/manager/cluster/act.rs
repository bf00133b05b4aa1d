//! Carries out a step: the only place that changes anything for a cluster's network.

use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::json;

use super::plan::{Action, BALANCER, POOL, SPACE};
use crate::api::VCOCluster;
use crate::api::names::{CLUSTER_FINALIZER, CLUSTER_ID_ANNOTATION, CUSTOMER_ANNOTATION};
use crate::id::CustomerId;
use crate::manager::context::Context;
use crate::manager::error::Error;
use crate::manager::mark::ClusterId;
use crate::manager::queue::Key;
use crate::manager::{apply, tenant};
use crate::vco::{self, Customer};

/// Carries out a step.
pub async fn act(
    context: &Context,
    customer: &Customer,
    cluster: &VCOCluster,
    id: Option<&ClusterId>,
    action: Action,
) -> Result<(), Error> {
    let api = context.api::<VCOCluster>(&cluster.namespace().unwrap_or_default());
    let uid = cluster.uid().unwrap_or_default();
    match action {
        Action::Claim => claim(context, &api, cluster, id, Some(customer.id())).await?,
        Action::CreateSpace(new) => {
            let made = customer.create_cloudspace(&new).await;
            let made = tried(context, &uid, SPACE, made)?;
            write(context, &api, cluster, &json!({"cloudspaceId": made})).await?;
            let note = format!("cloudspace {made} was made");
            context.events.normal(cluster, "CloudspaceCreated", "Create", note).await;
        }
        Action::WriteSpace(found) => {
            write(context, &api, cluster, &json!({"cloudspaceId": found})).await?;
        }
        Action::CreatePool(space) => {
            let Some(id) = id else { return Ok(()) };
            let mark = id.mark("serverpool", &cluster.name_any());
            let made = customer.create_server_pool(&space, &id.name("api"), &mark).await;
            tried(context, &uid, POOL, made)?;
        }
        Action::CreateBalancer(space, new) => {
            let made = customer.create_load_balancer(&space, &new).await;
            tried(context, &uid, BALANCER, made)?;
        }
        Action::DropPool(space, pool) => customer.delete_server_pool(&space, &pool).await?,
        Action::DropBalancer(space, one) => customer.delete_load_balancer(&space, &one).await?,
        Action::DropDisk(at, disk) => {
            customer.delete_disk(&at, disk).await?;
            let note = format!("disk {disk}, a second one that nothing uses, was deleted");
            context.events.normal(cluster, "SpareDeleted", "Delete", note).await;
        }
        Action::WriteEndpoint(host, port) => {
            let endpoint = json!({"controlPlaneEndpoint": {"host": host, "port": port}});
            write(context, &api, cluster, &endpoint).await?;
        }
        Action::AddMember(space, pool, address) => {
            customer.add_host(&space, &pool, &address).await?;
            let note = format!("{address} joined the pool before the API");
            context.events.normal(cluster, "MemberAdded", "Balance", note).await;
        }
        Action::RemoveMember(space, pool, host) => {
            customer.remove_host(&space, &pool, &host).await?;
            let note = format!("host {host} left the pool before the API");
            context.events.normal(cluster, "MemberRemoved", "Balance", note).await;
        }
    }
    Ok(())
}

/// Remembers that something was made, or may have been.
fn tried<T>(
    context: &Context,
    uid: &str,
    what: &str,
    made: Result<T, vco::Error>,
) -> Result<T, Error> {
    let now = context.clock.elapsed();
    context.cluster_facts.note(uid, |facts| facts.tried.note(what, &made, now));
    Ok(made?)
}

/// Claims the cluster: finalizer, id and customer in one write.
pub async fn claim(
    context: &Context,
    api: &Api<VCOCluster>,
    cluster: &VCOCluster,
    id: Option<&ClusterId>,
    customer: Option<&CustomerId>,
) -> Result<(), Error> {
    let known = id.is_some();
    // The status was written since the pass began.
    let newest = Key::of(cluster).and_then(|key| context.vco_clusters.get(&key));
    let cluster =
        newest.as_deref().filter(|newest| newest.uid() == cluster.uid()).unwrap_or(cluster);
    if !known && super::id_of(cluster).is_some() {
        // Somebody else was quicker: with another id a second cloudspace would be made.
        return Ok(());
    }
    let id = match id {
        Some(id) => id.to_string(),
        None => ClusterId::random()
            .map_err(|e| Error::Blocked(format!("no randomness: {e}")))?
            .to_string(),
    };
    let mut annotations = vec![(CLUSTER_ID_ANNOTATION, id.as_str())];
    annotations.extend(customer.map(|customer| (CUSTOMER_ANNOTATION, customer.as_str())));
    let claimed = apply::claim(api, cluster, CLUSTER_FINALIZER, &annotations).await?;
    if !known {
        // Nobody can have made anything before.
        let uid = cluster.uid().unwrap_or_default();
        context.cluster_facts.note(&uid, |facts| facts.tried.claim());
    }
    context.vco_clusters.wrote(claimed);
    Ok(())
}

/// Holds the cluster's Secret, so that it outlives the cluster, and no other one that the cluster
/// named before.
pub async fn hold(context: &Context, cluster: &VCOCluster) -> Result<(), Error> {
    let namespace = cluster.namespace().unwrap_or_default();
    let name = &cluster.spec.credential_secret_ref.name;
    let finalizer = super::secret_finalizer(&cluster.name_any());
    let secrets = context.api(&namespace);
    tenant::hold(&secrets, name, &finalizer).await?;
    tenant::let_others_go(&secrets, name, &finalizer).await
}

async fn write(
    context: &Context,
    api: &Api<VCOCluster>,
    cluster: &VCOCluster,
    fields: &serde_json::Value,
) -> Result<(), Error> {
    // Applying takes away what an earlier apply of the same manager set and this one leaves out.
    let mut all = fields.clone();
    let spec = &cluster.spec;
    if let Some(id) = &spec.cloudspace_id {
        all["cloudspaceId"] = json!(id);
    }
    if let (Some(endpoint), true) =
        (&spec.control_plane_endpoint, all.get("controlPlaneEndpoint").is_none())
    {
        all["controlPlaneEndpoint"] = json!(endpoint);
    }
    context.vco_clusters.wrote(apply::spec(api, cluster, &all).await?);
    Ok(())
}
