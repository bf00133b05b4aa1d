//! Looks at the cloud for a cluster's network. Changes nothing.

use kube::ResourceExt as _;

use super::plan::{SPACE, Seen, Space, wants_balancer};
use crate::api::VCOCluster;
use crate::fault::{Class, Fault as _};
use crate::id::{CloudspaceId, Location};
use crate::manager::doubt::Doubt;
use crate::manager::error::{Error, found};
use crate::manager::mark::ClusterId;
use crate::vco::{Cloudspace, Customer, LoadBalancer, NewCloudspace, ServerPool};

/// Looks at everything that the next step depends on, and no more.
pub async fn observe(
    customer: &Customer,
    cluster: &VCOCluster,
    id: Option<&ClusterId>,
    doubt: &Doubt,
) -> Result<Seen, Error> {
    let location = location(cluster)?;
    let mut seen =
        Seen { space: space(customer, cluster, &location, id).await?, ..Seen::default() };
    if seen.space == Space::None && doubt.of(SPACE).is_none() {
        seen.space = Space::Wanted(wanted(customer, cluster, &location, id).await?);
    }
    let Space::Found(found) = &seen.space else { return Ok(seen) };
    let (Some(id), Some(_)) = (id, &cluster.spec.cloudspace_id) else { return Ok(seen) };
    if wants_balancer(cluster) {
        seen.pools = pools(customer, &found.id, id).await?;
        seen.balancers = balancers(customer, &found.id, id).await?;
        // The pool that is in use comes first; of several the first one made would be.
        let used = seen.balancers.first().and_then(|balancer| balancer.pool.clone());
        seen.pools.sort_by_key(|pool| Some(&pool.id) != used.as_ref());
    }
    Ok(seen)
}

/// The location that the cluster names.
pub fn location(cluster: &VCOCluster) -> Result<Location, Error> {
    cluster.spec.location.parse().map_err(|bad| Error::Blocked(format!("spec.location: {bad}")))
}

/// The cloudspace: by the id that was written down, by the one to adopt, or by our name.
pub async fn space(
    customer: &Customer,
    cluster: &VCOCluster,
    at: &Location,
    id: Option<&ClusterId>,
) -> Result<Space, Error> {
    let adopt = cluster.spec.cloudspace.as_ref().and_then(|wanted| wanted.adopt.as_ref());
    let known = cluster.spec.cloudspace_id.as_deref();
    if let Some(known) = known.or_else(|| adopt.and_then(|adopt| adopt.id.as_deref())) {
        let bad = |bad| Error::Blocked(format!("the cloudspace's id: {bad}"));
        let known: CloudspaceId = known.parse().map_err(bad)?;
        return match customer.cloudspace(&known).await {
            Ok(found) => Ok(Space::Found(found)),
            Err(error) if error.class() == Class::NotFound => Ok(Space::Missing(known.to_string())),
            Err(error) => Err(error.into()),
        };
    }
    let name = match (adopt, id) {
        (Some(adopt), _) => adopt.name.clone().unwrap_or_default(),
        (None, Some(id)) => id.name(&cluster.name_any()),
        // Nothing is made before the cluster has its id.
        (None, None) => return Ok(Space::None),
    };
    let mut named: Vec<Cloudspace> = customer.cloudspaces(at).await?;
    named.retain(|space| space.name.as_deref() == Some(&name));
    Ok(match (named.len(), named.pop(), adopt) {
        (0, _, Some(_)) => Space::Missing(format!("{name:?}")),
        (0, _, None) => Space::None,
        // A list has less than the detail: the address, for one.
        (1, Some(found), _) => Space::Found(customer.cloudspace(&found.id).await?),
        _ => Space::Several(name),
    })
}

async fn wanted(
    customer: &Customer,
    cluster: &VCOCluster,
    at: &Location,
    id: Option<&ClusterId>,
) -> Result<NewCloudspace, Error> {
    let asked = cluster.spec.cloudspace.clone().unwrap_or_default();
    let private_network = match asked.private_network {
        Some(network) => Some(network),
        // Distinct ranges, so that clusters can be joined later (vco-api.md 4.2).
        None => customer.free_subnets(1).await?.into_iter().next(),
    };
    let external_network_id = if let Some(network) = asked.external_network_id {
        u64::try_from(network).ok()
    } else {
        let networks = customer.external_networks(at).await?;
        networks.iter().find(|network| network.public == Some(true)).and_then(|network| network.id)
    };
    Ok(NewCloudspace {
        name: id.map(|id| id.name(&cluster.name_any())).unwrap_or_default(),
        location: at.clone(),
        private_network,
        local_domain: asked.local_domain,
        external_network_id,
    })
}

/// The pools of our name, each with its hosts.
pub async fn pools(
    customer: &Customer,
    space: &CloudspaceId,
    id: &ClusterId,
) -> Result<Vec<ServerPool>, Error> {
    let mut pools = Vec::new();
    for listed in customer.server_pools(space).await? {
        if listed.name.as_deref() == Some(&id.name("api")) {
            // A list that runs behind shows what is gone.
            pools.extend(found(customer.server_pool(space, &listed.id).await)?);
        }
    }
    Ok(pools)
}

/// The load balancers of our name.
pub async fn balancers(
    customer: &Customer,
    space: &CloudspaceId,
    id: &ClusterId,
) -> Result<Vec<LoadBalancer>, Error> {
    let mut balancers = Vec::new();
    for listed in customer.load_balancers(space).await? {
        if listed.name.as_deref() == Some(&id.name("api")) {
            balancers.extend(found(customer.load_balancer(space, &listed.id).await)?);
        }
    }
    Ok(balancers)
}
