//! Network interfaces of VMs, and those on external networks (vco-api.md 5.5).

use serde_json::Value;

use super::address;
use super::call::Method;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, VmId};

/// A network interface of a VM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    /// Its hardware address.
    pub mac: Option<String>,
    /// Its address without prefix length; `None` while it is not known.
    pub ip: Option<String>,
    /// The external network; `None` also for another cloudspace's, which is −1 (vco-api.md 5.5).
    pub network_id: Option<u64>,
    /// Which kind, in any case of letters: `external` or `cloudspace`, `bridge` or `PUBLIC`
    /// (vco-api.md 5.5, PU, G8S).
    pub kind: Option<String>,
}

impl Nic {
    /// Reads a row; the kind's field has two names.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        Self {
            mac: text("mac_address"),
            ip: address::field(row, "ip_address"),
            network_id: wire::id(row, "network_id"),
            kind: text("nic_type").or_else(|| text("external_network_type")),
        }
    }

    /// Reads those of a VM.
    pub(super) fn all(vm: &Value) -> Vec<Self> {
        let rows = wire::rows(&vm["network_interfaces"], "network_interfaces");
        rows.unwrap_or_default().into_iter().map(Self::read).collect()
    }
}

impl Customer {
    /// The interfaces of a VM on external networks.
    pub async fn external_nics(
        &self,
        cloudspace: &CloudspaceId,
        vm: VmId,
    ) -> Result<Vec<Nic>, Error> {
        let call = self.read_vm(cloudspace, vm, "list external NICs", &["external-nics"]);
        let reply = self.send(call).await?;
        Ok(reply.rows("external_nics")?.into_iter().map(Nic::read).collect())
    }

    /// Gives a VM an interface on an external network, with this address. It may not be
    /// repeated, and its reply names nothing: the address tells in [`Customer::external_nics`].
    ///
    /// The address is not configured in the guest unless the network has DHCP (vco-api.md 5.5,
    /// G8D).
    pub async fn attach_external_nic(
        &self,
        cloudspace: &CloudspaceId,
        vm: VmId,
        network: u64,
        ip: &str,
    ) -> Result<(), Error> {
        let operation = "attach the external NIC";
        let call = self
            .change_vm(Method::Post, cloudspace, vm, operation, &["external-nics"])
            .about(format!("cloudspace {cloudspace}, VM {vm}, address {ip}"))
            .with("external_network_id", network)
            .with("external_network_ip", ip)
            .with("external_network_type", "external");
        self.send(call).await.map(|_| ())
    }

    /// Takes that interface away; one that is not there counts as taken. It may be repeated.
    pub async fn detach_external_nic(
        &self,
        cloudspace: &CloudspaceId,
        vm: VmId,
        network: u64,
        ip: &str,
    ) -> Result<(), Error> {
        let path = ["external-nics", address::bare(ip)];
        let call = self
            .change_vm(Method::Delete, cloudspace, vm, "detach the external NIC", &path)
            .about(format!("cloudspace {cloudspace}, VM {vm}, address {ip}"))
            .with("external_network_id", network)
            .with("external_network_type", "external");
        self.send_delete(call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_nic_is_read_whatever_its_fields_are() {
        let row = json!({"mac_address": "52:54:00:00:00:01", "ip_address": "185.1.2.3/24",
            "network_id": "5", "nic_type": "EXTERNAL", "external_cloudspace_id": null});
        let nic = Nic::read(&row);
        assert_eq!((nic.ip.as_deref(), nic.network_id), (Some("185.1.2.3"), Some(5)));
        assert_eq!(nic.kind.as_deref(), Some("EXTERNAL"));
        let other = Nic::read(&json!({"network_id": -1, "external_network_type": "cloudspace"}));
        assert_eq!((other.network_id, other.kind.as_deref()), (None, Some("cloudspace")));
        assert_eq!(Nic::read(&json!({"ip_address": "Undefined"})), Nic::default());
        assert_eq!(Nic::all(&json!(null)), []);
    }
}
