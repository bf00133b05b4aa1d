//! Anti-affinity groups: VMs that should not share a physical host (vco-api.md 5.6).
//!
//! A group's id is its name, chosen by us and unique in its cloudspace, so a lost reply is
//! settled by listing. Whether the rule is hard or soft is unknown (13.3 no. 7).

use serde_json::Value;

use super::call::Method;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, VmId};

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AntiAffinityGroup {
    /// Its name.
    pub id: String,
    /// Over how many physical hosts to spread; −1 is no limit.
    pub spread: Option<i64>,
    /// `INCOMPLETE` was seen of a fresh one (vco-api.md 5.6, PU); other words are unknown.
    pub status: Option<String>,
}

impl AntiAffinityGroup {
    /// Reads a row of a list; `None` without a name.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        Some(Self {
            id: wire::text(row, "group_id").filter(|id| !id.is_empty())?,
            spread: spread(row),
            status: wire::text(row, "status"),
        })
    }
}

/// The one number here that may be negative.
fn spread(row: &Value) -> Option<i64> {
    let text = wire::text(row, "spread")?;
    let text = text.trim();
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

impl Customer {
    /// The groups of a cloudspace.
    pub async fn anti_affinity_groups(
        &self,
        cloudspace: &CloudspaceId,
    ) -> Result<Vec<AntiAffinityGroup>, Error> {
        let operation = "list anti-affinity groups";
        let reply =
            self.send(self.read_in(cloudspace, operation, &["anti-affinity-groups"])).await?;
        let read =
            |row| AntiAffinityGroup::read(row).ok_or_else(|| reply.garbled("a row has no name"));
        reply.rows("groups")?.into_iter().map(read).collect()
    }

    /// Makes a group, spread over so many physical hosts; −1 is no limit. It may not be repeated
    /// blindly, since a second time it is refused; after a lost reply
    /// [`Customer::anti_affinity_groups`] tells.
    pub async fn create_anti_affinity_group(
        &self,
        cloudspace: &CloudspaceId,
        name: &str,
        spread: i32,
    ) -> Result<(), Error> {
        let operation = "create the anti-affinity group";
        let call = self
            .change_in(Method::Post, cloudspace, operation, &["anti-affinity-groups"])
            .about(about(cloudspace, name))
            .with("group_id", name)
            .with("spread", spread);
        self.send(call).await.map(|_| ())
    }

    /// Deletes a group; one that is not there counts as deleted. It may be repeated.
    pub async fn delete_anti_affinity_group(
        &self,
        cloudspace: &CloudspaceId,
        name: &str,
    ) -> Result<(), Error> {
        let operation = "delete the anti-affinity group";
        let path = ["anti-affinity-groups", name];
        let call = self.change_in(Method::Delete, cloudspace, operation, &path);
        self.send_delete(call.about(about(cloudspace, name))).await
    }

    /// The VMs of a group.
    pub async fn anti_affinity_group_members(
        &self,
        cloudspace: &CloudspaceId,
        name: &str,
    ) -> Result<Vec<VmId>, Error> {
        let operation = "list the anti-affinity group's VMs";
        let path = ["anti-affinity-groups", name, "vms"];
        let call = self.read_in(cloudspace, operation, &path).about(about(cloudspace, name));
        let reply = self.send(call).await?;
        let ids = reply.rows("vms")?.into_iter().filter_map(|row| wire::id(row, "vm_id"));
        Ok(ids.map(VmId).collect())
    }

    /// Puts a VM into a group, best while it is stopped (vco-api.md 5.1, inference). It is not
    /// repeated: what the cloud says to a second time is unknown;
    /// [`Customer::anti_affinity_group_members`] tells.
    pub async fn join_anti_affinity_group(
        &self,
        cloudspace: &CloudspaceId,
        name: &str,
        vm: VmId,
    ) -> Result<(), Error> {
        let operation = "put the VM into the anti-affinity group";
        let path = ["anti-affinity-groups", name, "vms"];
        let call = self
            .change_in(Method::Post, cloudspace, operation, &path)
            .about(format!("{}, VM {vm}", about(cloudspace, name)))
            .with("vm_id", vm);
        self.send(call).await.map(|_| ())
    }

    /// Takes a VM out of a group; one that is not in it counts as taken. It may be repeated.
    pub async fn leave_anti_affinity_group(
        &self,
        cloudspace: &CloudspaceId,
        name: &str,
        vm: VmId,
    ) -> Result<(), Error> {
        let operation = "take the VM out of the anti-affinity group";
        let path = ["anti-affinity-groups", name, "vms", &vm.to_string()];
        let call = self.change_in(Method::Delete, cloudspace, operation, &path);
        self.send_delete(call.about(format!("{}, VM {vm}", about(cloudspace, name)))).await
    }
}

fn about(cloudspace: &CloudspaceId, name: &str) -> String {
    format!("cloudspace {cloudspace}, anti-affinity group {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_group_is_read_whatever_its_fields_are() {
        for (told, spread) in [
            (json!(-1), Some(-1)),
            (json!("-1"), Some(-1)),
            (json!(-1.0), Some(-1)),
            (json!(3), Some(3)),
            (json!(null), None),
            (json!("x"), None),
        ] {
            let row = json!({"group_id": "cp", "spread": told, "status": "INCOMPLETE"});
            assert_eq!(AntiAffinityGroup::read(&row).unwrap().spread, spread, "{row}");
        }
        for odd in [json!(null), json!({}), json!({"group_id": null}), json!({"group_id": ""})] {
            assert_eq!(AntiAffinityGroup::read(&odd), None, "{odd}");
        }
    }
}
