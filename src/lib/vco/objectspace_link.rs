//! From which cloudspaces an objectspace can be reached (vco-api.md 4.7).

use serde_json::Value;

use super::call::{Call, Method};
use super::cloudspace::location_of;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, ObjectspaceId};

/// An objectspace as a cloudspace sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedObjectspace {
    /// The objectspace.
    pub id: ObjectspaceId,
    /// Its name.
    pub name: Option<String>,
    /// Where S3 is inside the cloudspace, over plain HTTP (vco-api.md 10.1, WEB); port unknown.
    pub ip_address: Option<String>,
}

impl LinkedObjectspace {
    fn read(row: &Value) -> Option<Self> {
        Some(Self {
            id: wire::text(row, "objectspace_id")?.parse().ok()?,
            name: wire::text(row, "objectspace_name"),
            ip_address: wire::text(row, "ip_address").filter(|address| !address.is_empty()),
        })
    }
}

impl Customer {
    /// The objectspaces that can be reached from a cloudspace.
    pub async fn linked_objectspaces(
        &self,
        cloudspace: &CloudspaceId,
    ) -> Result<Vec<LinkedObjectspace>, Error> {
        let path = ["cloudspaces", cloudspace.as_str(), "objectspaces"];
        let mut call = self.read("list the cloudspace's objectspaces", &path);
        call.at = location_of(cloudspace);
        let reply = self.send(call.about(format!("cloudspace {cloudspace}"))).await?;
        let read =
            |row| LinkedObjectspace::read(row).ok_or_else(|| reply.garbled("a row has no id"));
        reply.rows("objectspaces")?.into_iter().map(read).collect()
    }

    /// Makes an objectspace reachable from a cloudspace of the same location; their private
    /// networks may not overlap those of cloudspaces that are linked already (vco-api.md 10.1,
    /// WEB). It is not repeated: what the cloud says to a second link is unknown;
    /// [`Customer::linked_objectspaces`] tells.
    pub async fn link_objectspace(
        &self,
        cloudspace: &CloudspaceId,
        id: &ObjectspaceId,
    ) -> Result<(), Error> {
        let call = self.link(Method::Post, "link the objectspace", cloudspace, id);
        self.send(call).await.map(|_| ())
    }

    /// Undoes [`Customer::link_objectspace`]; a link that is not there counts as undone. It may
    /// be repeated.
    pub async fn unlink_objectspace(
        &self,
        cloudspace: &CloudspaceId,
        id: &ObjectspaceId,
    ) -> Result<(), Error> {
        self.send_delete(self.link(Method::Delete, "unlink the objectspace", cloudspace, id)).await
    }

    fn link<'a>(
        &self,
        method: Method,
        operation: &'static str,
        cloudspace: &CloudspaceId,
        id: &ObjectspaceId,
    ) -> Call<'a> {
        let path = self.below(&["cloudspaces", cloudspace.as_str(), "objectspaces"]);
        let mut call = Call::change(method, operation, &path).with("objectspace_id", id);
        call.at = location_of(cloudspace);
        call.about(format!("cloudspace {cloudspace}, objectspace {id}"))
    }
}
