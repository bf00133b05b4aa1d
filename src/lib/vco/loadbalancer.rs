//! Load balancers of a cloudspace: one port outside, one server pool, one port inside
//! (vco-api.md 7.3). There are no health checks.

use serde_json::{Value, json};

use super::address;
use super::call::{Body, Method};
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, LoadBalancerId, ServerPoolId};

/// A load balancer as lists show it: its port and address are in the detail only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedLoadBalancer {
    /// Its id.
    pub id: LoadBalancerId,
    /// Its name; nothing says that it is unique.
    pub name: Option<String>,
    /// Whether it belongs to the platform's own integrations (vco-api.md 7.5, inference).
    pub locked: Option<bool>,
    /// The name of its server pool.
    pub pool_name: Option<String>,
    /// `TCP` or `UDP`, in any case of letters.
    pub kind: Option<String>,
}

impl ListedLoadBalancer {
    /// Reads a row of a list; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        Some(Self {
            id: balancer_id(row)?,
            name: wire::text(row, "name"),
            locked: wire::flag(row, "locked"),
            pool_name: wire::text(row, "serverpool_name"),
            kind: wire::text(row, "type"),
        })
    }
}

/// A load balancer in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancer {
    /// Its id.
    pub id: LoadBalancerId,
    /// Its name.
    pub name: Option<String>,
    /// Free text: the place of marks.
    pub description: Option<String>,
    /// `TCP` or `UDP`, in any case of letters.
    pub kind: Option<String>,
    /// The port outside.
    pub port: Option<u16>,
    /// The address outside, without prefix length; `None` is all of the cloudspace's.
    pub ip: Option<String>,
    /// The pool behind it.
    pub pool: Option<ServerPoolId>,
    /// The port inside.
    pub target_port: Option<u16>,
    /// Whether it belongs to the platform's own integrations (vco-api.md 7.5, inference).
    pub locked: Option<bool>,
}

impl LoadBalancer {
    /// Reads a detail; `None` without a usable id.
    #[must_use]
    pub fn read(reply: &Value) -> Option<Self> {
        let (front, back) = (&reply["front_end"], &reply["back_end"]);
        let pool = wire::text(back, "serverpool_id");
        Some(Self {
            id: balancer_id(reply)?,
            name: wire::text(reply, "name"),
            description: wire::text(reply, "description"),
            kind: wire::text(reply, "type"),
            port: port(front, "port"),
            ip: address::field(front, "ip_address"),
            pool: pool.and_then(|id| id.parse().ok()),
            target_port: port(back, "target_port"),
            locked: wire::flag(reply, "locked"),
        })
    }
}

fn balancer_id(row: &Value) -> Option<LoadBalancerId> {
    wire::text(row, "loadbalancer_id").or_else(|| wire::text(row, "id"))?.parse().ok()
}

/// A port in a field.
pub(super) fn port(row: &Value, key: &str) -> Option<u16> {
    wire::id(row, key).and_then(|port| port.try_into().ok()).filter(|port| *port > 0)
}

/// A load balancer to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLoadBalancer {
    /// Its name.
    pub name: String,
    /// Free text: the place of marks.
    pub description: String,
    /// `TCP` or `UDP` (vco-api.md 7.3, PC).
    pub kind: String,
    /// The port outside.
    pub port: u16,
    /// An external address of the cloudspace; all of them unless said.
    pub ip: Option<String>,
    /// The pool behind it.
    pub pool: ServerPoolId,
    /// The port inside.
    pub target_port: u16,
}

impl NewLoadBalancer {
    fn document(&self) -> Value {
        let Self { name, description, kind, port, ip, pool, target_port } = self;
        let mut document = json!({
            "name": name,
            "description": description,
            "type": kind,
            "front_end": {"port": port},
            "back_end": {"serverpool_id": pool, "target_port": target_port},
        });
        if let Some(ip) = ip {
            document["front_end"]["ip_address"] = address::bare(ip).into();
        }
        document
    }
}

const BALANCERS: [&str; 2] = ["ingress", "load-balancers"];

impl Customer {
    /// The load balancers of a cloudspace.
    pub async fn load_balancers(
        &self,
        cloudspace: &CloudspaceId,
    ) -> Result<Vec<ListedLoadBalancer>, Error> {
        let call = self.read_in(cloudspace, "list load balancers", &BALANCERS);
        let reply = self.send(call).await?;
        // A row left out would be a load balancer that is made a second time.
        let read =
            |row| ListedLoadBalancer::read(row).ok_or_else(|| reply.garbled("a row has no id"));
        reply.rows("load_balancers")?.into_iter().map(read).collect()
    }

    /// One load balancer.
    ///
    /// # Errors
    /// Of [`Class::NotFound`](crate::fault::Class::NotFound) if there is no such one.
    pub async fn load_balancer(
        &self,
        cloudspace: &CloudspaceId,
        id: &LoadBalancerId,
    ) -> Result<LoadBalancer, Error> {
        let path = [&BALANCERS[..], &[id.as_str()]].concat();
        let call = self.read_in(cloudspace, "read the load balancer", &path);
        let reply = self.send(call.about(about(cloudspace, id))).await?;
        LoadBalancer::read(&reply.json).ok_or_else(|| reply.garbled("it holds no load balancer"))
    }

    /// Makes a load balancer. It may not be repeated: nothing says that names are unique. After a
    /// lost reply its name tells ([`Customer::load_balancers`]). Its port may not answer yet when
    /// this returns (vco-api.md 7.3, PC).
    pub async fn create_load_balancer(
        &self,
        cloudspace: &CloudspaceId,
        new: &NewLoadBalancer,
    ) -> Result<LoadBalancerId, Error> {
        let call = self
            .change_in(Method::Post, cloudspace, "create the load balancer", &BALANCERS)
            .about(format!("cloudspace {cloudspace}, load balancer {}", new.name))
            .body(Body::Json(new.document()));
        self.send(call).await?.created(&["loadbalancer_id", "id"])
    }

    /// Deletes a load balancer; one that is not there counts as deleted. It may be repeated.
    pub async fn delete_load_balancer(
        &self,
        cloudspace: &CloudspaceId,
        id: &LoadBalancerId,
    ) -> Result<(), Error> {
        let path = [&BALANCERS[..], &[id.as_str()]].concat();
        let call = self.change_in(Method::Delete, cloudspace, "delete the load balancer", &path);
        self.send_delete(call.about(about(cloudspace, id))).await
    }
}

fn about(cloudspace: &CloudspaceId, id: &LoadBalancerId) -> String {
    format!("cloudspace {cloudspace}, load balancer {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_balancer_is_read_whatever_its_fields_are() {
        let reply = json!({"loadbalancer_id": 3, "name": "capvco-x-api", "type": "tcp",
            "locked": null, "front_end": {"port": "6443", "ip_address": "185.1.2.3/24", "tls": null},
            "back_end": {"serverpool_id": 7, "target_port": 6443.0}});
        let read = LoadBalancer::read(&reply).unwrap();
        assert_eq!((read.id.as_str(), read.port, read.target_port), ("3", Some(6443), Some(6443)));
        assert_eq!((read.ip.as_deref(), read.pool), (Some("185.1.2.3"), "7".parse().ok()));
        let bare = json!({"id": "a", "front_end": {"port": 70000, "ip_address": ""},
            "back_end": null});
        let read = LoadBalancer::read(&bare).unwrap();
        assert_eq!((read.port, read.ip, read.pool), (None, None, None));
        for odd in [json!(null), json!({}), json!({"loadbalancer_id": null})] {
            assert_eq!(LoadBalancer::read(&odd), None, "{odd}");
            assert_eq!(ListedLoadBalancer::read(&odd), None, "{odd}");
        }
    }

    #[test]
    fn a_new_load_balancer_is_written_in_the_clouds_words() {
        let mut new = NewLoadBalancer {
            name: "capvco-x-api".to_owned(),
            description: "capvco/x/api/web".to_owned(),
            kind: "TCP".to_owned(),
            port: 6443,
            ip: None,
            pool: "7".parse().unwrap(),
            target_port: 6443,
        };
        let plain = json!({"name": "capvco-x-api", "description": "capvco/x/api/web",
            "type": "TCP", "front_end": {"port": 6443},
            "back_end": {"serverpool_id": "7", "target_port": 6443}});
        assert_eq!(new.document(), plain);
        new.ip = Some("185.1.2.3/24".to_owned());
        assert_eq!(new.document()["front_end"], json!({"port": 6443, "ip_address": "185.1.2.3"}));
    }
}
