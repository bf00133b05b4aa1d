//! Port forwards of a cloudspace: to see what else lives in it, and to clear it away
//! (vco-api.md 7.1).

use serde_json::Value;

use super::address;
use super::call::Method;
use super::customer::Customer;
use super::error::Error;
use super::loadbalancer::port;
use super::wire;
use crate::id::{CloudspaceId, PortForwardId, VmId};

/// A port forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortForward {
    /// Its id; changing the forward may change it (vco-api.md 7.1, PU).
    pub id: PortForwardId,
    /// `tcp` or `udp`.
    pub protocol: Option<String>,
    /// The port inside.
    pub local_port: Option<u16>,
    /// The port outside.
    pub public_port: Option<u16>,
    /// The address outside, without prefix length.
    pub public_ip: Option<String>,
    /// The address inside.
    pub local_ip: Option<String>,
    /// The VM it leads to.
    pub vm_id: Option<VmId>,
}

impl PortForward {
    /// Reads a row of a list; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        let id = wire::text(row, "portforward_id").or_else(|| wire::text(row, "id"))?;
        Some(Self {
            id: id.parse().ok()?,
            protocol: wire::text(row, "protocol"),
            local_port: port(row, "local_port"),
            public_port: port(row, "public_port"),
            public_ip: address::field(row, "public_ip"),
            local_ip: address::field(row, "local_ip"),
            vm_id: wire::id(row, "vm_id").map(VmId),
        })
    }
}

impl Customer {
    /// The port forwards of a cloudspace.
    pub async fn port_forwards(
        &self,
        cloudspace: &CloudspaceId,
    ) -> Result<Vec<PortForward>, Error> {
        let reply =
            self.send(self.read_in(cloudspace, "list port forwards", &["portforwards"])).await?;
        // A row left out would be something left behind that nobody sees.
        let read = |row| PortForward::read(row).ok_or_else(|| reply.garbled("a row has no id"));
        reply.rows("portforwards")?.into_iter().map(read).collect()
    }

    /// Deletes a port forward; one that is not there counts as deleted. It may be repeated. The
    /// reply, a list in an older form, says nothing of use.
    pub async fn delete_port_forward(
        &self,
        cloudspace: &CloudspaceId,
        id: &PortForwardId,
    ) -> Result<(), Error> {
        let path = ["portforwards", id.as_str()];
        let call = self
            .change_in(Method::Delete, cloudspace, "delete the port forward", &path)
            .about(format!("cloudspace {cloudspace}, port forward {id}"));
        self.send_delete(call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_port_forward_is_read_whatever_its_fields_are() {
        let row = json!({"portforward_id": 5, "protocol": "tcp", "local_port": "22",
            "public_port": 2222.0, "public_ip": "185.1.2.3/24", "vm_id": "4",
            "nested_cloudspace_id": null, "till_public_port": null});
        let read = PortForward::read(&row).unwrap();
        assert_eq!((read.local_port, read.public_port), (Some(22), Some(2222)));
        assert_eq!((read.public_ip.as_deref(), read.vm_id), (Some("185.1.2.3"), Some(VmId(4))));
        assert_eq!(PortForward::read(&json!({"id": "a"})).unwrap().vm_id, None);
        assert_eq!(PortForward::read(&json!({})), None);
    }
}
