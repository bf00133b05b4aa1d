//! A thing in a cloudspace that goes with a cluster: how it is called, looked for and deleted.

use std::fmt;

use crate::id::{CloudspaceId, LoadBalancerId, PortForwardId, ServerPoolId, VmId};
use crate::manager::error::{Error, found};
use crate::vco::Customer;

/// A thing that is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    /// A load balancer.
    Balancer(LoadBalancerId),
    /// A server pool.
    Pool(ServerPoolId),
    /// A port forward.
    Forward(PortForwardId),
    /// An anti-affinity group.
    Group(String),
    /// A VM.
    Vm(VmId),
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balancer(id) => write!(f, "load balancer {id}"),
            Self::Pool(id) => write!(f, "server pool {id}"),
            Self::Forward(id) => write!(f, "port forward {id}"),
            Self::Group(id) => write!(f, "anti-affinity group {id}"),
            Self::Vm(id) => write!(f, "VM {id}"),
        }
    }
}

impl Thing {
    /// Whether what was deleted is there all the same. Lists may run behind: where the cloud shows
    /// a thing by itself, that counts; elsewhere its word that it was deleted does.
    pub async fn is_still_there(
        &self,
        customer: &Customer,
        space: &CloudspaceId,
    ) -> Result<bool, Error> {
        Ok(match self {
            Self::Balancer(id) => found(customer.load_balancer(space, id).await)?.is_some(),
            Self::Pool(id) => found(customer.server_pool(space, id).await)?.is_some(),
            Self::Vm(id) => found(customer.vm(space, *id).await)?.is_some(),
            Self::Forward(_) | Self::Group(_) => false,
        })
    }

    /// Deletes it; one that is not there counts as deleted.
    pub async fn delete(&self, customer: &Customer, space: &CloudspaceId) -> Result<(), Error> {
        match self {
            Self::Balancer(id) => customer.delete_load_balancer(space, id).await?,
            Self::Pool(id) => customer.delete_server_pool(space, id).await?,
            Self::Forward(id) => customer.delete_port_forward(space, id).await?,
            Self::Group(id) => customer.delete_anti_affinity_group(space, id).await?,
            Self::Vm(id) => customer.delete_vm(space, *id).await?,
        }
        Ok(())
    }
}
