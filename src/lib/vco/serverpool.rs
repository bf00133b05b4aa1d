//! Server pools: the hosts behind load balancers (vco-api.md 7.2).
//!
//! A host is an address only: no port, weight or state. Nothing checks its health, so whoever
//! puts it in takes it out.

use serde_json::Value;

use super::call::Method;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, HostId, ServerPoolId};

/// A pool as lists show it: its hosts and its description are in the detail only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedServerPool {
    /// Its id.
    pub id: ServerPoolId,
    /// Its name; nothing says that it is unique.
    pub name: Option<String>,
    /// Whether it belongs to the platform's own integrations (vco-api.md 7.5, inference).
    pub locked: Option<bool>,
}

impl ListedServerPool {
    /// Reads a row of a list; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        Some(Self {
            id: pool_id(row)?,
            name: wire::text(row, "name"),
            locked: wire::flag(row, "locked"),
        })
    }
}

/// A pool in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPool {
    /// Its id.
    pub id: ServerPoolId,
    /// Its name.
    pub name: Option<String>,
    /// Free text: the place of marks.
    pub description: Option<String>,
    /// Whether it belongs to the platform's own integrations (vco-api.md 7.5, inference).
    pub locked: Option<bool>,
    /// Its hosts.
    pub hosts: Vec<Host>,
}

impl ServerPool {
    /// Reads a detail; `None` without a usable id, or if a host in it has none: a host left out
    /// would be put in twice.
    #[must_use]
    pub fn read(reply: &Value) -> Option<Self> {
        let hosts = wire::rows(&reply["hosts"], "hosts").unwrap_or_default();
        Some(Self {
            id: pool_id(reply)?,
            name: wire::text(reply, "name"),
            description: wire::text(reply, "description"),
            locked: wire::flag(reply, "locked"),
            hosts: hosts.into_iter().map(Host::read).collect::<Option<_>>()?,
        })
    }
}

/// A host in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its id.
    pub id: HostId,
    /// Its address: IPv4, IPv6 or a name.
    pub address: Option<String>,
}

impl Host {
    fn read(row: &Value) -> Option<Self> {
        let id = wire::text(row, "host_id").or_else(|| wire::text(row, "id"))?.parse().ok()?;
        Some(Self { id, address: wire::text(row, "address").filter(|text| !text.is_empty()) })
    }
}

fn pool_id(row: &Value) -> Option<ServerPoolId> {
    wire::text(row, "serverpool_id").or_else(|| wire::text(row, "id"))?.parse().ok()
}

impl Customer {
    /// The pools of a cloudspace.
    pub async fn server_pools(
        &self,
        cloudspace: &CloudspaceId,
    ) -> Result<Vec<ListedServerPool>, Error> {
        let call = self.read_in(cloudspace, "list server pools", &POOLS);
        let reply = self.send(call).await?;
        // A row left out would be a pool that is made a second time.
        let read =
            |row| ListedServerPool::read(row).ok_or_else(|| reply.garbled("a row has no id"));
        reply.rows("server_pools")?.into_iter().map(read).collect()
    }

    /// One pool with its hosts.
    ///
    /// # Errors
    /// Of [`Class::NotFound`](crate::fault::Class::NotFound) if there is no such one.
    pub async fn server_pool(
        &self,
        cloudspace: &CloudspaceId,
        id: &ServerPoolId,
    ) -> Result<ServerPool, Error> {
        let path = [&POOLS[..], &[id.as_str()]].concat();
        let call = self.read_in(cloudspace, "read the server pool", &path);
        let reply = self.send(call.about(about(cloudspace, id))).await?;
        ServerPool::read(&reply.json).ok_or_else(|| reply.garbled("it holds no server pool"))
    }

    /// Makes a pool without hosts. It may not be repeated: nothing says that names are unique.
    /// After a lost reply its name tells ([`Customer::server_pools`]).
    pub async fn create_server_pool(
        &self,
        cloudspace: &CloudspaceId,
        name: &str,
        description: &str,
    ) -> Result<ServerPoolId, Error> {
        let call = self
            .change_in(Method::Post, cloudspace, "create the server pool", &POOLS)
            .about(format!("cloudspace {cloudspace}, server pool {name}"))
            .with("name", name)
            .with("description", description);
        self.send(call).await?.created(&["serverpool_id", "id"])
    }

    /// Deletes a pool; one that is not there counts as deleted. It may be repeated.
    pub async fn delete_server_pool(
        &self,
        cloudspace: &CloudspaceId,
        id: &ServerPoolId,
    ) -> Result<(), Error> {
        let path = [&POOLS[..], &[id.as_str()]].concat();
        let call = self.change_in(Method::Delete, cloudspace, "delete the server pool", &path);
        self.send_delete(call.about(about(cloudspace, id))).await
    }

    /// Puts a host into a pool. It may not be repeated: nothing says that addresses are unique.
    /// After a lost reply the address tells ([`Customer::server_pool`]).
    pub async fn add_host(
        &self,
        cloudspace: &CloudspaceId,
        pool: &ServerPoolId,
        address: &str,
    ) -> Result<Host, Error> {
        let path = [&POOLS[..], &[pool.as_str(), "hosts"]].concat();
        let call = self
            .change_in(Method::Post, cloudspace, "add the host to the server pool", &path)
            .about(format!("{}, address {address}", about(cloudspace, pool)))
            .with("address", address);
        let id = self.send(call).await?.created(&["host_id", "id"])?;
        Ok(Host { id, address: Some(address.to_owned()) })
    }

    /// Takes a host out of a pool; one that is not in it counts as taken. It may be repeated.
    pub async fn remove_host(
        &self,
        cloudspace: &CloudspaceId,
        pool: &ServerPoolId,
        host: &HostId,
    ) -> Result<(), Error> {
        let path = [&POOLS[..], &[pool.as_str(), "hosts", host.as_str()]].concat();
        let operation = "remove the host from the server pool";
        let call = self.change_in(Method::Delete, cloudspace, operation, &path);
        self.send_delete(call.about(format!("{}, host {host}", about(cloudspace, pool)))).await
    }
}

const POOLS: [&str; 2] = ["ingress", "server-pools"];

fn about(cloudspace: &CloudspaceId, id: &ServerPoolId) -> String {
    format!("cloudspace {cloudspace}, server pool {id}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pool_is_read_whatever_its_fields_are() {
        let reply = json!({"serverpool_id": 7, "name": "capvco-x-api", "locked": "false",
            "description": null, "hosts": [{"host_id": 1, "address": "192.168.103.9"}, null]});
        let pool = ServerPool::read(&reply).unwrap();
        assert_eq!((pool.id.as_str(), pool.locked, pool.description), ("7", Some(false), None));
        assert_eq!((pool.hosts.len(), pool.hosts[0].id.as_str()), (1, "1"));
        let bare = ServerPool::read(&json!({"id": "a", "hosts": null})).unwrap();
        assert!(bare.hosts.is_empty());
        assert_eq!(ServerPool::read(&json!({"serverpool_id": "a", "hosts": [{}]})), None);
        for odd in [json!(null), json!({}), json!({"serverpool_id": ""})] {
            assert_eq!(ServerPool::read(&odd), None, "{odd}");
            assert_eq!(ListedServerPool::read(&odd), None, "{odd}");
        }
    }
}
