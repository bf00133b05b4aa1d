//! Virtual machines: so far only what says whether an image is in use.

use serde_json::Value;

use super::cloudspace;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, ImageId, VmId};

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// Its id, unique only together with the location.
    pub id: Option<VmId>,
    /// Its name.
    pub name: Option<String>,
    /// Such as `RUNNING` or `HALTED` (vco-api.md 5.2, G8D).
    pub status: Option<String>,
    /// The image it was made from.
    pub image_id: Option<ImageId>,
}

impl Vm {
    /// Reads a row of a list.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self {
            id: wire::id(row, "vm_id").map(VmId),
            name: wire::text(row, "name"),
            status: wire::text(row, "status"),
            image_id: wire::id(row, "image_id").map(ImageId),
        }
    }
}

impl Customer {
    /// The VMs of a cloudspace, deleted ones left out. Only the fields of [`Vm`] are asked for:
    /// what is not sent cannot leak.
    pub async fn vms(&self, cloudspace: &CloudspaceId) -> Result<Vec<Vm>, Error> {
        let mut call = self
            .read("list VMs", &["cloudspaces", cloudspace.as_str(), "vms"])
            .about(format!("cloudspace {cloudspace}"))
            .mask("result{vm_id,name,status,image_id}");
        call.at = cloudspace::location_of(cloudspace);
        let reply = self.send(call).await?;
        Ok(reply.rows("vms")?.into_iter().map(Vm::read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_vm_is_read_whatever_its_fields_are() {
        let vm = Vm::read(&json!({"vm_id": "4", "name": "n", "status": null, "image_id": 7.0}));
        assert_eq!((vm.id, vm.image_id, vm.status), (Some(VmId(4)), Some(ImageId(7)), None));
        assert_eq!(Vm::read(&json!(null)).id, None);
    }
}
