//! Looks at the cloud for a cluster's network. Changes nothing.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use kube::ResourceExt as _;

use super::plan::{SPACE, Seen, Space, address, port, wants_balancer};
use crate::api::VCOCluster;
use crate::fault::{Class, Fault as _};
use crate::id::{CloudspaceId, DiskId, Location};
use crate::manager::doubt::Doubt;
use crate::manager::error::{Error, found};
use crate::manager::mark::ClusterId;
use crate::vco::{
    Cloudspace, Customer, Disk, ListedLoadBalancer, LoadBalancer, NewCloudspace, ServerPool,
};

/// Looks at everything that the next step depends on, and no more.
pub async fn observe(
    customer: &Customer,
    cluster: &VCOCluster,
    id: Option<&ClusterId>,
    doubt: &Doubt,
    disks: bool,
) -> Result<Seen, Error> {
    let location = location(cluster)?;
    let mut seen =
        Seen { space: space(customer, cluster, &location, id).await?, ..Seen::default() };
    if seen.space == Space::None && doubt.of(SPACE).is_none() {
        seen.space = Space::Wanted(wanted(customer, cluster, &location, id).await?);
    }
    let Space::Found(found) = seen.space.clone() else { return Ok(seen) };
    let (Some(id), Some(_)) = (id, &cluster.spec.cloudspace_id) else { return Ok(seen) };
    if wants_balancer(cluster) {
        let others = front(customer, cluster, &found.id, id, &mut seen).await?;
        if seen.balancers.is_empty() && !seen.pools.is_empty() {
            seen.taken = taken(customer, cluster, &found, &others).await?;
        }
    }
    if disks && super::status::provisioned(cluster) {
        seen.spare_disk = spare(&customer.disks(&location).await?, id);
    }
    Ok(seen)
}

/// Sees the pools and load balancers of our name, and returns the load balancers of others. First
/// come those that are known to be in use, last come pools that nobody uses; what a load balancer
/// of somebody else's uses is left out.
async fn front(
    customer: &Customer,
    cluster: &VCOCluster,
    space: &CloudspaceId,
    id: &ClusterId,
    seen: &mut Seen,
) -> Result<Vec<ListedLoadBalancer>, Error> {
    let mut pools = pools(customer, space, id).await?;
    let (mut balancers, others) = balancers(customer, space, id).await?;
    let known = cluster.status.as_ref().and_then(|status| status.network.as_ref());
    let known_balancer = known.and_then(|network| network.load_balancer_id.as_deref());
    let known_pool = known.and_then(|network| network.server_pool_id.as_deref());
    balancers.sort_by_key(|one| Some(one.id.as_str()) != known_balancer);
    let used = balancers.first().and_then(|balancer| balancer.pool.clone());
    pools.sort_by_key(|pool| {
        let in_use = used.as_ref().map_or(known_pool, |used| Some(used.as_str()));
        (Some(pool.id.as_str()) != in_use, Reverse(pool.hosts.len()))
    });
    if pools.len() > 1 {
        let mut theirs = Vec::new();
        for other in &others {
            let detail = found(customer.load_balancer(space, &other.id).await)?;
            theirs.extend(detail.and_then(|detail| detail.pool));
        }
        let first = pools[0].id.clone();
        pools.retain(|pool| pool.id == first || !theirs.contains(&pool.id));
    }
    (seen.pools, seen.balancers) = (pools, balancers);
    Ok(others)
}

/// What of others' listens where our load balancer is to. The cloud may refuse a second one there,
/// or take it and send connections to either (vco-api.md 7.3 says neither): so it is not asked to.
async fn taken(
    customer: &Customer,
    cluster: &VCOCluster,
    space: &Cloudspace,
    others: &[ListedLoadBalancer],
) -> Result<Option<String>, Error> {
    let (port, host) = (u16::try_from(port(cluster)).ok(), address(cluster, space));
    // Without an address it is all of the cloudspace's.
    let is_there = |ip: &Option<String>| ip.is_none() || *ip == host;
    for other in others {
        let Some(detail) = found(customer.load_balancer(&space.id, &other.id).await)? else {
            continue;
        };
        if detail.port == port && is_there(&detail.ip) {
            let name = detail.name.unwrap_or_default();
            return Ok(Some(format!("load balancer {} {name:?}", other.id)));
        }
    }
    let forwards = customer.port_forwards(&space.id).await?;
    let found = forwards.iter().find(|on| on.public_port == port && is_there(&on.public_ip));
    Ok(found.map(|on| format!("port forward {}", on.id)))
}

/// A disk of ours that is there twice: of those with one mark, one is attached and this one is
/// not.
fn spare(disks: &[Disk], id: &ClusterId) -> Option<DiskId> {
    let mark = |disk: &Disk| disk.description.clone().filter(|text| id.marked(Some(text)));
    let used: BTreeSet<_> = disks.iter().filter(|on| on.vm_id.is_some()).filter_map(mark).collect();
    let free = disks.iter().filter(|on| on.vm_id.is_none());
    free.filter(|on| mark(on).is_some_and(|mark| used.contains(&mark))).map(|on| on.id).max()
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
    let mut named = named(customer, at, &name).await?;
    Ok(match (named.len(), named.pop(), adopt) {
        (0, _, Some(_)) => Space::Missing(format!("{name:?}")),
        (0, _, None) => Space::None,
        // A list has less than the detail: the address, for one.
        (1, Some(found), _) => Space::Found(customer.cloudspace(&found.id).await?),
        _ => Space::Several(name),
    })
}

/// The cloudspaces of this name.
pub async fn named(
    customer: &Customer,
    at: &Location,
    name: &str,
) -> Result<Vec<Cloudspace>, Error> {
    let mut all = customer.cloudspaces(at).await?;
    all.retain(|space| space.name.as_deref() == Some(name));
    Ok(all)
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
async fn pools(
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

/// The load balancers of our name, and all others.
async fn balancers(
    customer: &Customer,
    space: &CloudspaceId,
    id: &ClusterId,
) -> Result<(Vec<LoadBalancer>, Vec<ListedLoadBalancer>), Error> {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for listed in customer.load_balancers(space).await? {
        if listed.name.as_deref() == Some(&id.name("api")) {
            ours.extend(found(customer.load_balancer(space, &listed.id).await)?);
        } else {
            others.push(listed);
        }
    }
    Ok((ours, others))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_two_disks_the_one_that_nothing_uses_is_spare() {
        let id: ClusterId = "0123456789abcdef".parse().unwrap();
        let disk = |number: u64, name: &str, vm: u64| {
            let mark = if name == "csi" { name.to_owned() } else { id.mark("disk", name) };
            Disk::read(&json!({"disk_id": number, "description": mark, "vm_id": vm})).unwrap()
        };
        for (disks, found) in [
            (vec![], None),
            (vec![disk(1, "a", 5), disk(2, "a", 0)], Some(2)),
            (vec![disk(1, "a", 0), disk(2, "a", 5), disk(3, "b", 0)], Some(1)),
            // One that waits to be attached, two that nothing uses yet, two in use, others'.
            (vec![disk(1, "a", 0)], None),
            (vec![disk(1, "a", 0), disk(2, "a", 0)], None),
            (vec![disk(1, "a", 5), disk(2, "a", 5)], None),
            (vec![disk(1, "csi", 5), disk(2, "csi", 0)], None),
        ] {
            assert_eq!(spare(&disks, &id), found.map(DiskId), "{disks:?}");
        }
    }
}
