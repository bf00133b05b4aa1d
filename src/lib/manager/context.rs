//! What every pass has at hand.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Client, Resource};

use super::cluster::memory as cluster;
use super::doubt::{Doubt, Tried};
use super::events::Events;
use super::machine::memory::{self as machine, Groups};
use super::memory::Memory;
use super::metrics::Metrics;
use super::queue::{Key, Queue};
use super::request::Request;
use super::survey::Survey;
use super::tenant::{Tenant, Tenants};
use super::watch::Known;
use crate::api::condition::CREDENTIALS_VALID;
use crate::api::contract::{Cluster, Machine};
use crate::api::{VCOCluster, VCOMachine, VCOMachineTemplate};
use crate::clock::Clock;
use crate::vco;

/// One queue a kind.
pub struct Queues {
    /// Of `VCOCluster`s.
    pub clusters: Queue,
    /// Of `VCOCluster`s whose backups are looked for.
    pub backups: Queue,
    /// Of `VCOMachine`s.
    pub machines: Queue,
    /// Of `VCOMachineTemplate`s.
    pub templates: Queue,
}

/// What every pass has at hand.
pub struct Context {
    client: Client,
    /// What the manager was told.
    pub request: Request,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Events.
    pub events: Events,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Cluster API's Clusters.
    pub clusters: Known<Cluster>,
    /// Cluster API's Machines.
    pub machines: Known<Machine>,
    /// Our clusters.
    pub vco_clusters: Known<VCOCluster>,
    /// Our machines.
    pub vco_machines: Known<VCOMachine>,
    /// Our templates of machines.
    pub templates: Known<VCOMachineTemplate>,
    /// Credentials.
    pub tenants: Tenants,
    /// Lists of VMs and images.
    pub survey: Survey,
    /// What passes over machines have found out already.
    pub machine_facts: Memory<machine::Facts>,
    /// What passes over clusters have found out already.
    pub cluster_facts: Memory<cluster::Facts>,
    /// The anti-affinity groups of cloudspaces.
    pub groups: Groups,
    /// What is to be looked at.
    pub queues: Queues,
    began: OnceLock<Duration>,
}

/// The stores, before anything fills them.
pub struct Stores {
    /// Cluster API's Clusters.
    pub clusters: Known<Cluster>,
    /// Cluster API's Machines.
    pub machines: Known<Machine>,
    /// Our clusters.
    pub vco_clusters: Known<VCOCluster>,
    /// Our machines.
    pub vco_machines: Known<VCOMachine>,
    /// Our templates of machines.
    pub templates: Known<VCOMachineTemplate>,
}

/// Whether a cluster says already that its credentials are refused.
fn says_refused(cluster: &VCOCluster) -> bool {
    let said = cluster.status.iter().flat_map(|status| status.conditions.iter().flatten());
    said.into_iter().any(|one| one.type_ == CREDENTIALS_VALID && one.status == "False")
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    /// Everything that passes share.
    #[must_use]
    pub fn new(
        client: Client,
        request: Request,
        stores: Stores,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let Stores { clusters, machines, vco_clusters, vco_machines, templates } = stores;
        let queue = || Queue::new(Arc::clone(&clock));
        Self {
            events: Events::new(client.clone(), request.identity.clone()),
            tenants: Tenants::new(request.cloud.clone(), Arc::clone(&clock), Arc::clone(&metrics)),
            survey: Survey::new(&clock),
            machine_facts: Memory::default(),
            cluster_facts: Memory::default(),
            groups: Groups::default(),
            queues: Queues {
                clusters: queue(),
                backups: queue(),
                machines: queue(),
                templates: queue(),
            },
            began: OnceLock::new(),
            client,
            request,
            clock,
            metrics,
            clusters,
            machines,
            vco_clusters,
            vco_machines,
            templates,
        }
    }

    /// From now on this process changes things, which another one may have done until now.
    pub fn begin(&self) {
        self.began.get_or_init(|| self.clock.elapsed());
    }

    /// The cloud has answered a tenant's call for something at a location like this. If that is
    /// about his credentials, the clusters that use them say so at once, unless they do already; of
    /// a right that is lacking, those at the location.
    pub fn refused(&self, tenant: &Tenant, error: &vco::Error, at: &str) {
        if !self.tenants.refused(tenant, error, at) {
            return;
        }
        let concerned = |cluster: &VCOCluster| {
            cluster.metadata.namespace.as_deref() == Some(&tenant.secret.namespace)
                && cluster.spec.credential_secret_ref.name == tenant.secret.name
                && (cluster.spec.location == at || error.status() != Some(403))
                && !says_refused(cluster)
        };
        for cluster in self.vco_clusters.find(concerned) {
            let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
            self.cluster_facts.note(uid, |facts| facts.settled = None);
            if let Some(key) = Key::of(&*cluster) {
                self.queues.clusters.add(key);
            }
        }
    }

    /// What is in doubt now of an object for which this was tried.
    #[must_use]
    pub fn doubt(&self, tried: Tried) -> Doubt {
        let now = self.clock.elapsed();
        let began = self.began.get().copied().unwrap_or(now);
        Doubt { tried, began, now, lag: self.request.cloud_lag }
    }

    /// The objects of a kind in a namespace.
    #[must_use]
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// All objects of a kind that we work on: in one namespace or in all.
    #[must_use]
    pub fn all<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match &self.request.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}
