//! Decides the next step of a cluster's network, and what is to be said of it. Pure.

use std::time::Duration;

use kube::ResourceExt as _;

use crate::api::VCOCluster;
use crate::api::cluster::NetworkStatus;
use crate::api::condition::{
    API_LOAD_BALANCER_READY, CLOUDSPACE_AMBIGUOUS, CLOUDSPACE_CREATING, CLOUDSPACE_DEPLOYED,
    CLOUDSPACE_NOT_FOUND, CLOUDSPACE_READY, CLOUDSPACE_UNUSABLE, CREDENTIALS_ACCEPTED,
    CREDENTIALS_VALID, IS_READY, LOAD_BALANCER_CONFIGURED, LOAD_BALANCER_CREATING,
    LOAD_BALANCER_DISABLED, NO_EXTERNAL_ADDRESS, PORT_TAKEN, READY, Said, WAITING_FOR_ENDPOINT,
};
use crate::id::{CloudspaceId, DiskId, HostId, LoadBalancerId, Location, ServerPoolId};
use crate::manager::doubt::Doubt;
use crate::manager::mark::ClusterId;
use crate::manager::step::Step;
use crate::vco::{Cloudspace, LoadBalancer, NewCloudspace, NewLoadBalancer, ServerPool};

use super::members::Change;

/// How long to wait for something on its way.
const SOON: Duration = Duration::from_secs(5);
/// How long to wait for what only somebody else can mend.
const LATER: Duration = Duration::from_mins(1);

/// What a cloudspace is called where it is in doubt.
pub const SPACE: &str = "cloudspace";
/// And a server pool.
pub const POOL: &str = "server pool";
/// And a load balancer.
pub const BALANCER: &str = "load balancer";

/// What was found of the cloudspace.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Space {
    /// None, and one is to be made, like this.
    #[default]
    None,
    /// None, and one is to be made; what it needs is known.
    Wanted(NewCloudspace),
    /// The one that was named is not there.
    Missing(String),
    /// Several have the name.
    Several(String),
    /// The one.
    Found(Cloudspace),
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The cloudspace.
    pub space: Space,
    /// The pools of our name: the one in use first, then those that no load balancer uses.
    pub pools: Vec<ServerPool>,
    /// The load balancers of our name, the one that is known first.
    pub balancers: Vec<LoadBalancer>,
    /// What of others' listens already where the load balancer of ours is to.
    pub taken: Option<String>,
    /// A disk that is there twice, and of the two the one that nothing uses.
    pub spare_disk: Option<DiskId>,
    /// What is to change in the pool.
    pub change: Change,
}

/// The one thing that is changed in a pass.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// The cluster is claimed, and gets its id, before anything is made for it.
    Claim,
    /// The cloudspace is made.
    CreateSpace(NewCloudspace),
    /// Its id is written down.
    WriteSpace(CloudspaceId),
    /// The pool is made.
    CreatePool(CloudspaceId),
    /// The load balancer is made.
    CreateBalancer(CloudspaceId, NewLoadBalancer),
    /// A pool that a lost reply left is removed.
    DropPool(CloudspaceId, ServerPoolId),
    /// A load balancer that a lost reply left is removed.
    DropBalancer(CloudspaceId, LoadBalancerId),
    /// The endpoint is written down.
    WriteEndpoint(String, i32),
    /// An address joins the pool.
    AddMember(CloudspaceId, ServerPoolId, String),
    /// A member leaves the pool.
    RemoveMember(CloudspaceId, ServerPoolId, HostId),
    /// A disk that a lost reply left is removed.
    DropDisk(Location, DiskId),
}

/// What is to be done and said.
#[derive(Debug, PartialEq)]
pub struct Plan {
    /// What is changed.
    pub action: Option<Action>,
    /// What is said.
    pub said: Vec<Said>,
    /// What the network is, as far as it is known.
    pub network: NetworkStatus,
    /// Whether machines may be made.
    pub provisioned: bool,
    /// When to look again.
    pub step: Step,
}

impl Plan {
    /// The same where the cloud refuses something: that is said, and looked at again before long.
    #[must_use]
    pub fn with(mut self, denied: Option<(&'static str, String)>) -> Self {
        let Some((reason, message)) = denied else { return self };
        self.said.retain(|said| said.kind != CREDENTIALS_VALID);
        self.said.push(Said::not(CREDENTIALS_VALID, reason, message));
        if self.step == Step::Settled {
            self.step = Step::After(LATER);
        }
        self
    }
}

/// What is not so, and why.
struct Blocked {
    kind: &'static str,
    reason: &'static str,
    message: String,
    action: Option<Action>,
    step: Step,
    /// Whether it passes by itself.
    passes: bool,
}

impl Blocked {
    fn wait(
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
        time: Duration,
    ) -> Box<Self> {
        Box::new(Self {
            kind,
            reason,
            message: message.into(),
            action: None,
            step: Step::After(time),
            passes: false,
        })
    }

    fn act(kind: &'static str, reason: &'static str, message: &str, action: Action) -> Box<Self> {
        let action = Some(action);
        let (message, step) = (message.to_owned(), Step::Changed);
        Box::new(Self { kind, reason, message, action, step, passes: false })
    }
}

/// The next step.
#[must_use]
pub fn plan(
    cluster: &VCOCluster,
    id: Option<&ClusterId>,
    claimed: bool,
    seen: &Seen,
    doubt: &Doubt,
) -> Plan {
    let mut said = vec![Said::so(CREDENTIALS_VALID, CREDENTIALS_ACCEPTED)];
    let mut network = network(cluster, seen);
    let space = match space(cluster, claimed, &seen.space, doubt) {
        Ok(space) => space,
        // A state that passes; for a cluster that was ready before, nothing is said: it would flap.
        Err(blocked) if blocked.passes && super::status::provisioned(cluster) => {
            return Plan { action: None, said, network, provisioned: true, step: blocked.step };
        }
        Err(blocked) => return conclude(said, network, *blocked),
    };
    said.push(Said::so(CLOUDSPACE_READY, CLOUDSPACE_DEPLOYED));
    let Some(id) = id else {
        let blocked = Blocked::act(CLOUDSPACE_READY, CLOUDSPACE_CREATING, "", Action::Claim);
        return conclude(said, network, *blocked);
    };
    let pool = match balancer(cluster, id, space, seen, doubt) {
        Ok(pool) => pool,
        Err(blocked) => return conclude(said, network, *blocked),
    };
    let extra = extra(cluster, space, seen);
    let (action, reason) = match pool {
        Some(pool) => {
            let mut members: Vec<_> =
                pool.hosts.iter().filter_map(|host| host.address.clone()).collect();
            members.sort();
            network.members = Some(members);
            (membership(space, pool, &seen.change).or(extra), LOAD_BALANCER_CONFIGURED)
        }
        None => (extra, LOAD_BALANCER_DISABLED),
    };
    said.push(Said::so(API_LOAD_BALANCER_READY, reason));
    said.push(Said::so(READY, IS_READY));
    let step = if action.is_some() { Step::Changed } else { Step::Settled };
    Plan { action, said, network, provisioned: true, step }
}

fn conclude(mut said: Vec<Said>, network: NetworkStatus, blocked: Blocked) -> Plan {
    let Blocked { kind, reason, message, action, step, .. } = blocked;
    said.retain(|said| said.kind != kind);
    said.push(Said::not(kind, reason, message.clone()));
    said.push(Said::not(READY, reason, message));
    Plan { action, said, network, provisioned: false, step }
}

/// The cloudspace, once it is there, usable and written down.
fn space<'a>(
    cluster: &VCOCluster,
    claimed: bool,
    space: &'a Space,
    doubt: &Doubt,
) -> Result<&'a CloudspaceId, Box<Blocked>> {
    let at = &cluster.spec.location;
    let found = match space {
        Space::Found(found) => found,
        Space::Missing(what) => {
            let message = format!("there is no cloudspace {what} at {at}");
            return Err(Blocked::wait(CLOUDSPACE_READY, CLOUDSPACE_NOT_FOUND, message, LATER));
        }
        Space::Several(name) => {
            let message = format!("several cloudspaces at {at} have the name {name:?}");
            return Err(Blocked::wait(CLOUDSPACE_READY, CLOUDSPACE_AMBIGUOUS, message, LATER));
        }
        Space::None | Space::Wanted(_) if !claimed => {
            let message = "the cloudspace is about to be made";
            return Err(Blocked::act(
                CLOUDSPACE_READY,
                CLOUDSPACE_CREATING,
                message,
                Action::Claim,
            ));
        }
        Space::None => {
            let message = "the cloudspace may have been made; it is looked for";
            let look = doubt.of(SPACE).unwrap_or(SOON);
            return Err(Blocked::wait(CLOUDSPACE_READY, CLOUDSPACE_CREATING, message, look));
        }
        Space::Wanted(new) => {
            let action = Action::CreateSpace(new.clone());
            let message = "the cloudspace is being made";
            return Err(Blocked::act(CLOUDSPACE_READY, CLOUDSPACE_CREATING, message, action));
        }
    };
    if !claimed {
        let message = "the cloudspace is about to be used";
        return Err(Blocked::act(CLOUDSPACE_READY, CLOUDSPACE_CREATING, message, Action::Claim));
    }
    if cluster.spec.cloudspace_id.is_none() {
        let action = Action::WriteSpace(found.id.clone());
        let message = "the cloudspace was found";
        return Err(Blocked::act(CLOUDSPACE_READY, CLOUDSPACE_CREATING, message, action));
    }
    match found.status.as_deref().unwrap_or("DEPLOYED").to_ascii_uppercase().as_str() {
        "DEPLOYED" => Ok(&found.id),
        // These pass by themselves (vco-api.md 4.1, G8D).
        state @ ("VIRTUAL" | "DEPLOYING" | "ENABLING" | "RESTORING" | "RESUMING" | "RESETTING"
        | "PAUSING" | "MIGRATING") => {
            let message = format!("cloudspace {} is {state}", found.id);
            let blocked = Blocked::wait(CLOUDSPACE_READY, CLOUDSPACE_CREATING, message, SOON);
            Err(Box::new(Blocked { passes: true, ..*blocked }))
        }
        state => {
            let message = format!("cloudspace {} is {state}", found.id);
            Err(Blocked::wait(CLOUDSPACE_READY, CLOUDSPACE_UNUSABLE, message, LATER))
        }
    }
}

/// The pool behind the load balancer, once both and the endpoint are there; none if the cluster
/// wants no load balancer.
fn balancer<'a>(
    cluster: &VCOCluster,
    id: &ClusterId,
    space: &CloudspaceId,
    seen: &'a Seen,
    doubt: &Doubt,
) -> Result<Option<&'a ServerPool>, Box<Blocked>> {
    let about = |reason, message: &str, action| {
        Blocked::act(API_LOAD_BALANCER_READY, reason, message, action)
    };
    let look_for = |what: &str| {
        let message = format!("the {what} may have been made; it is looked for");
        let wait =
            |look| Blocked::wait(API_LOAD_BALANCER_READY, LOAD_BALANCER_CREATING, message, look);
        doubt.of(what).map_or(Ok(()), |look| Err(wait(look)))
    };
    let endpoint = cluster.spec.control_plane_endpoint.is_some();
    if !wants_balancer(cluster) {
        let message =
            "spec.controlPlaneEndpoint is not set and spec.apiLoadBalancer.enabled is false";
        let wait = || Blocked::wait(API_LOAD_BALANCER_READY, WAITING_FOR_ENDPOINT, message, LATER);
        return if endpoint { Ok(None) } else { Err(wait()) };
    }
    let found = match &seen.space {
        Space::Found(found) => address(cluster, found),
        _ => None,
    };
    let Some(host) = found else {
        let message = format!("cloudspace {space} has no external address");
        return Err(Blocked::wait(API_LOAD_BALANCER_READY, NO_EXTERNAL_ADDRESS, message, LATER));
    };
    let Some(pool) = seen.pools.first() else {
        look_for(POOL)?;
        let action = Action::CreatePool(space.clone());
        return Err(about(LOAD_BALANCER_CREATING, "the server pool is being made", action));
    };
    if seen.balancers.is_empty() {
        look_for(BALANCER)?;
        if let Some(taken) = &seen.taken {
            let message = format!(
                "{taken} of cloudspace {space}, which is not this cluster's, has port {} already",
                port(cluster)
            );
            return Err(Blocked::wait(API_LOAD_BALANCER_READY, PORT_TAKEN, message, LATER));
        }
        let new = new_balancer(cluster, id, &host, &pool.id);
        let action = Action::CreateBalancer(space.clone(), new);
        return Err(about(LOAD_BALANCER_CREATING, "the load balancer is being made", action));
    }
    if !endpoint {
        let action = Action::WriteEndpoint(host, port(cluster));
        return Err(about(LOAD_BALANCER_CREATING, "the endpoint is being written", action));
    }
    Ok(Some(pool))
}

/// What is there twice, because a reply was lost, a list ran behind, or a call was carried out
/// after everybody had given it up: the one that is not in use goes. That is no trouble of the
/// cluster's, which works.
fn extra(cluster: &VCOCluster, space: &CloudspaceId, seen: &Seen) -> Option<Action> {
    if let Some(extra) = seen.balancers.get(1) {
        return Some(Action::DropBalancer(space.clone(), extra.id.clone()));
    }
    if let Some(extra) = seen.pools.get(1) {
        return Some(Action::DropPool(space.clone(), extra.id.clone()));
    }
    Some(Action::DropDisk(cluster.spec.location.parse().ok()?, seen.spare_disk?))
}

/// The next change to the pool: who is missing joins before who is wrong leaves, so that it is
/// never empty.
fn membership(space: &CloudspaceId, pool: &ServerPool, change: &Change) -> Option<Action> {
    if let Some(address) = change.add.first() {
        return Some(Action::AddMember(space.clone(), pool.id.clone(), address.clone()));
    }
    let host = change.remove.first()?;
    Some(Action::RemoveMember(space.clone(), pool.id.clone(), host.clone()))
}

/// Whether the cluster wants a load balancer.
#[must_use]
pub fn wants_balancer(cluster: &VCOCluster) -> bool {
    let wanted = cluster.spec.api_load_balancer.as_ref();
    wanted.and_then(|wanted| wanted.enabled).unwrap_or(true)
}

/// The port that the load balancer listens on.
#[must_use]
pub fn port(cluster: &VCOCluster) -> i32 {
    let given = cluster.spec.control_plane_endpoint.as_ref().map(|endpoint| endpoint.port);
    let wanted = cluster.spec.api_load_balancer.as_ref().and_then(|wanted| wanted.port);
    wanted.or(given).unwrap_or(6443)
}

/// The address that the load balancer listens on.
#[must_use]
pub fn address(cluster: &VCOCluster, space: &Cloudspace) -> Option<String> {
    let wanted = cluster.spec.api_load_balancer.as_ref();
    wanted.and_then(|wanted| wanted.ip_address.clone()).or_else(|| space.external_ip.clone())
}

fn new_balancer(
    cluster: &VCOCluster,
    id: &ClusterId,
    host: &str,
    pool: &ServerPoolId,
) -> NewLoadBalancer {
    NewLoadBalancer {
        name: id.name("api"),
        description: id.mark("loadbalancer", &cluster.name_any()),
        kind: "TCP".to_owned(),
        port: u16::try_from(port(cluster)).unwrap_or(6443),
        ip: Some(host.to_owned()),
        pool: pool.clone(),
        target_port: 6443,
    }
}

fn network(cluster: &VCOCluster, seen: &Seen) -> NetworkStatus {
    let before = cluster.status.as_ref().and_then(|status| status.network.clone());
    let mut network = before.unwrap_or_default();
    if let Space::Found(found) = &seen.space {
        network.cloudspace_id = Some(found.id.to_string());
        network.cloudspace_name.clone_from(&found.name);
        network.external_address.clone_from(&found.external_ip);
        network.private_network.clone_from(&found.private_network);
    }
    if let Some(pool) = seen.pools.first() {
        network.server_pool_id = Some(pool.id.to_string());
    }
    if let Some(balancer) = seen.balancers.first() {
        network.load_balancer_id = Some(balancer.id.to_string());
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(endpoint: bool) -> VCOCluster {
        let mut object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOCluster",
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {
                "location": "be-1", "cloudspaceId": "YmU6MQ",
                "credentialSecretRef": {"name": "s"},
            },
        });
        if endpoint {
            object["spec"]["controlPlaneEndpoint"] = json!({"host": "1.2.3.4", "port": 6443});
        }
        serde_json::from_value(object).unwrap()
    }

    fn seen(pools: &[&str], balancers: &[&str]) -> Seen {
        let space = json!({
            "cloudspace_id": "YmU6MQ", "status": "DEPLOYED", "external_network_ip": "1.2.3.4",
        });
        let pool =
            |id: &&str| ServerPool::read(&json!({"serverpool_id": id, "hosts": []})).unwrap();
        let balancer = |id: &&str| {
            let back = json!({"serverpool_id": "p1", "target_port": 6443});
            LoadBalancer::read(&json!({"loadbalancer_id": id, "back_end": back})).unwrap()
        };
        Seen {
            space: Space::Found(Cloudspace::read(&space).unwrap()),
            pools: pools.iter().map(pool).collect(),
            balancers: balancers.iter().map(balancer).collect(),
            ..Seen::default()
        }
    }

    /// What the plan does, in one word, and whether it comes back by itself.
    fn does(seen: &Seen, doubt: &Doubt) -> (&'static str, bool) {
        let id = "0123456789abcdef".parse().unwrap();
        let plan = plan(&cluster(true), Some(&id), true, seen, doubt);
        let word = match plan.action {
            None => "nothing",
            Some(Action::CreateSpace(_)) => "make the cloudspace",
            Some(Action::CreatePool(_)) => "make the pool",
            Some(Action::CreateBalancer(..)) => "make the balancer",
            Some(Action::DropPool(..)) => "drop a pool",
            Some(Action::DropBalancer(..)) => "drop a balancer",
            Some(_) => "something else",
        };
        (word, matches!(plan.step, Step::After(_)))
    }

    fn doubt(of: &str) -> Doubt {
        let lag = Duration::from_secs(30);
        let mut tried = crate::manager::doubt::Tried::default();
        tried.claim();
        if !of.is_empty() {
            tried.note(of, &Ok(()), Duration::from_secs(100));
        }
        Doubt { tried, began: Duration::ZERO, now: Duration::from_secs(101), lag }
    }

    #[test]
    fn nothing_is_made_twice_while_lists_may_run_behind() {
        for (pools, balancers, of, word, waits) in [
            (&[][..], &[][..], "", "make the pool", false),
            (&[], &[], POOL, "nothing", true),
            (&[], &[], BALANCER, "make the pool", false),
            (&["p1"], &[], "", "make the balancer", false),
            (&["p1"], &[], POOL, "make the balancer", false),
            (&["p1"], &[], BALANCER, "nothing", true),
            (&["p1"], &["b1"], BALANCER, "nothing", false),
        ] {
            let done = does(&seen(pools, balancers), &doubt(of));
            assert_eq!(done, (word, waits), "{pools:?} {balancers:?} {of}");
        }
        let none = Seen::default();
        assert_eq!(does(&none, &doubt(SPACE)), ("nothing", true));
    }

    #[test]
    fn nothing_is_made_where_somebody_elses_listens() {
        let taken = |balancers: &[&str]| {
            let taken = Some("load balancer b9 others".to_owned());
            does(&Seen { taken, ..seen(&["p1"], balancers) }, &doubt(""))
        };
        assert_eq!(taken(&[]), ("nothing", true));
        assert_eq!(taken(&["b1"]), ("nothing", false), "ours is there");
    }

    #[test]
    fn what_is_there_twice_all_the_same_goes() {
        let none = doubt("");
        assert_eq!(does(&seen(&["p1", "p2"], &["b1", "b2"]), &none).0, "drop a balancer");
        assert_eq!(does(&seen(&["p1", "p2"], &["b1"]), &none).0, "drop a pool");
        assert_eq!(does(&seen(&["p1"], &["b1"]), &none).0, "nothing");
    }
}
