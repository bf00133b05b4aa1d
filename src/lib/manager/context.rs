//! What every pass has at hand.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Client, Resource};

use super::doubt::{Doubt, Tried};
use super::events::Events;
use super::machine::memory::Memory;
use super::metrics::Metrics;
use super::queue::Queue;
use super::request::Request;
use super::survey::Survey;
use super::tenant::Tenants;
use super::watch::Known;
use crate::api::contract::{Cluster, Machine};
use crate::api::{VCOCluster, VCOMachine, VCOMachineTemplate};
use crate::clock::Clock;

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
    /// Lists of VMs.
    pub survey: Survey,
    /// What passes over machines have found out already.
    pub memory: Memory,
    /// What passes over clusters have found out already.
    pub clusters_memory: super::cluster::memory::Memory,
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
            survey: Survey::new(Arc::clone(&clock)),
            memory: Memory::default(),
            clusters_memory: super::cluster::memory::Memory::default(),
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
