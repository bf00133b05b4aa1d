//! What has to be so in the management cluster before the cloud is asked anything. Pure.

use std::sync::Arc;

use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use crate::api::condition::{
    BOOTSTRAP_DATA_READY, FAILURE_DOMAIN_UNKNOWN, IS_PAUSED, PROVIDER_ID_INVALID, READY, Said,
    VM_PROVISIONED, WAITING_FOR_BOOTSTRAP_DATA, WAITING_FOR_CLUSTER_INFRASTRUCTURE,
    WAITING_FOR_CONTROL_PLANE,
};
use crate::api::contract::{self, Cluster, Machine, annotation};
use crate::api::names::{
    DELETE_FOR_MOVE_ANNOTATION, MACHINE_FINALIZER, PAUSED_ANNOTATION, SITE_ANNOTATION,
};
use crate::api::{VCOCluster, VCOMachine};
use crate::id::{CloudspaceId, Location, VmId};
use crate::manager::cluster::id_of;
use crate::manager::mark::ClusterId;

/// The machine and what belongs to it.
#[derive(Debug, Clone)]
pub struct Around {
    /// The machine.
    pub vco: Arc<VCOMachine>,
    /// The Machine that owns it.
    pub machine: Option<Arc<Machine>>,
    /// The Cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// Our part of the Cluster.
    pub network: Option<Arc<VCOCluster>>,
}

/// Where a machine's VM is, or is to be, and by whose leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Site {
    /// The cluster's id.
    pub cluster_id: String,
    /// The cloudspace.
    pub cloudspace_id: CloudspaceId,
    /// The location.
    pub location: Location,
    /// The Secret with the credentials.
    pub secret: String,
    /// The customer, if the cluster names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer_id: Option<String>,
}

/// What is to be done with a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    /// Nothing: it is not ours yet, or no longer.
    Nothing,
    /// Nothing until somebody says so; the message names who holds it.
    Paused(String),
    /// It goes.
    Delete,
    /// It waits for something, which is to be said.
    Wait(Vec<Said>),
    /// It is to have a VM there.
    Go(Site),
}

/// Looks at the objects alone.
#[must_use]
pub fn gate(around: &Around) -> Gate {
    let Around { vco, machine, cluster, network } = around;
    let deleting = vco.metadata.deletion_timestamp.is_some();
    let held = vco.finalizers().iter().any(|one| one == MACHINE_FINALIZER);
    if deleting && !held {
        return Gate::Nothing;
    }
    if let Some(why) = paused(&**vco, cluster.as_deref()) {
        return Gate::Paused(why);
    }
    if deleting {
        return Gate::Delete;
    }
    let (Some(machine), Some(cluster)) = (machine, cluster) else { return Gate::Nothing };
    // A VM that is there can be looked at whatever has become of the network's object.
    if let (Some(id), Some(site)) = (&vco.spec.provider_id, site_of(around)) {
        if vm_of(id, &site.location).is_some() {
            return Gate::Go(site);
        }
        let message = format!("{id:?} names no VM at {}", site.location);
        return Gate::Wait(not_ready(VM_PROVISIONED, PROVIDER_ID_INVALID, message));
    }
    let Some(network) = network else { return wait_for_network("there is no VCOCluster yet") };
    let Some(site) = site(network) else {
        return wait_for_network("the cloudspace is not there yet");
    };
    before_the_vm(machine, cluster, network, site)
}

/// What a VM that is not there yet has to wait for.
fn before_the_vm(machine: &Machine, cluster: &Cluster, network: &VCOCluster, site: Site) -> Gate {
    // Whatever is made in a cluster that goes would be left behind (contract, 10.2, 27).
    let going = [
        machine.metadata.deletion_timestamp.is_some(),
        cluster.metadata.deletion_timestamp.is_some(),
        network.metadata.deletion_timestamp.is_some(),
    ];
    if going.contains(&true) {
        return Gate::Nothing;
    }
    if !cluster.infrastructure_provisioned() {
        return wait_for_network("the cluster's infrastructure is not provisioned yet");
    }
    if let Some(domain) = machine.spec.failure_domain.as_deref()
        && !domain.is_empty()
        && domain != site.location.as_str()
    {
        let message = format!("{domain} is not {}, where the cluster is", site.location);
        return Gate::Wait(not_ready(VM_PROVISIONED, FAILURE_DOMAIN_UNKNOWN, message));
    }
    if machine.data_secret_name().is_none() {
        let control_plane = machine.is_control_plane() || cluster.control_plane_initialized();
        let reason =
            if control_plane { WAITING_FOR_BOOTSTRAP_DATA } else { WAITING_FOR_CONTROL_PLANE };
        let message = "the Machine names no bootstrap data yet";
        return Gate::Wait(not_ready(BOOTSTRAP_DATA_READY, reason, message));
    }
    Gate::Go(site)
}

/// Two conditions that say the same: the one that it is about, and the summary.
#[must_use]
pub fn not_ready(
    kind: &'static str,
    reason: &'static str,
    message: impl Into<String>,
) -> Vec<Said> {
    let message = message.into();
    vec![Said::not(kind, reason, message.clone()), Said::not(READY, reason, message)]
}

fn wait_for_network(message: &str) -> Gate {
    Gate::Wait(not_ready(VM_PROVISIONED, WAITING_FOR_CLUSTER_INFRASTRUCTURE, message))
}

/// Who holds the machine, if somebody does (contract, 1.6).
#[must_use]
pub fn paused<K: kube::Resource<DynamicType = ()>>(
    object: &K,
    cluster: Option<&Cluster>,
) -> Option<String> {
    if cluster.is_some_and(Cluster::is_paused) {
        return Some("Cluster spec.paused is set to true".to_owned());
    }
    // What moves to another management cluster is deleted here, and its Cluster may be gone before
    // it: its VM lives on there (contract, 3.7).
    [PAUSED_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION]
        .into_iter()
        .find(|key| annotation(object.meta(), key).is_some())
        .map(|key| format!("{} has the {key} annotation", K::kind(&())))
}

/// Where a cluster is; none before its cloudspace is known.
#[must_use]
pub fn site(network: &VCOCluster) -> Option<Site> {
    let spec = &network.spec;
    Some(Site {
        cluster_id: id_of(network)?.to_string(),
        cloudspace_id: spec.cloudspace_id.as_deref()?.parse().ok()?,
        location: spec.location.parse().ok()?,
        secret: spec.credential_secret_ref.name.clone(),
        customer_id: spec.customer_id.clone(),
    })
}

/// Where a machine's VM was to be, from its own annotation or else from its cluster. Whoever may
/// delete it is the one whom the cluster names now, as long as there is a cluster.
#[must_use]
pub fn site_of(around: &Around) -> Option<Site> {
    let own = annotation(&around.vco.metadata, SITE_ANNOTATION);
    let own: Option<Site> = own.and_then(|text| serde_json::from_str(text).ok());
    let named = around.network.as_deref().and_then(site);
    match (own, named) {
        (Some(own), Some(Site { secret, customer_id, .. })) => {
            Some(Site { secret, customer_id, ..own })
        }
        (own, named) => own.or(named),
    }
}

impl Site {
    /// The id in marks; none if the annotation was tampered with.
    #[must_use]
    pub fn id(&self) -> Option<ClusterId> {
        self.cluster_id.parse().ok()
    }
}

/// The VM that a provider id names at this location.
#[must_use]
pub fn vm_of(provider_id: &str, at: &Location) -> Option<VmId> {
    let (location, vm) = provider_id.strip_prefix("vco://")?.split_once('/')?;
    (location == at.as_str()).then(|| vm.parse().ok()).flatten()
}

/// The one form of provider ids; a Node's is equal to it byte for byte (contract, 1.3).
#[must_use]
pub fn provider_id(at: &Location, vm: VmId) -> String {
    format!("vco://{at}/{vm}")
}

/// Whether the machine belongs to the control plane.
#[must_use]
pub fn is_control_plane(around: &Around) -> bool {
    let labelled = contract::label(&around.vco.metadata, crate::api::names::CONTROL_PLANE_LABEL);
    labelled.is_some() || around.machine.as_deref().is_some_and(Machine::is_control_plane)
}

/// The condition of a machine that nobody may work on.
#[must_use]
pub fn pause_said(why: String) -> Said {
    Said { kind: crate::api::condition::PAUSED, status: "True", reason: IS_PAUSED, message: why }
}
