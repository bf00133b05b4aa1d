//! Disks of a location, attached to a VM or not (vco-api.md 6).

use serde_json::Value;

use super::call::Method;
use super::cloudspace::is_gone;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, DiskId, Location, VmId};

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its id, unique only together with the location.
    pub id: DiskId,
    /// Its name; names are not unique (vco-api.md 6.2, CSI).
    pub name: Option<String>,
    /// Free text: the place of marks.
    pub description: Option<String>,
    /// GiB.
    pub size: Option<u64>,
    /// `DATA`, `BOOT` or `PHYSICAL`; other words have been seen (vco-api.md 6.2, G8S).
    pub kind: Option<String>,
    /// `CREATED` is detached, `ASSIGNED` attached (vco-api.md 6.2, G8D).
    pub status: Option<String>,
    /// The VM it is attached to.
    pub vm_id: Option<VmId>,
    /// The cloudspace of that VM.
    pub cloudspace_id: Option<CloudspaceId>,
}

impl Disk {
    /// Reads a row of a list; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        Some(Self {
            id: wire::id(row, "disk_id").map(DiskId)?,
            name: text("disk_name"),
            description: text("description"),
            size: wire::amount(row, "disk_size"),
            kind: text("disk_type"),
            status: text("status"),
            // Nothing says how "none" is written; no VM has the number 0.
            vm_id: wire::id(row, "vm_id").filter(|id| *id > 0).map(VmId),
            cloudspace_id: text("cloudspace_id").and_then(|id| id.parse().ok()),
        })
    }
}

/// A disk to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDisk {
    /// Its name.
    pub name: String,
    /// Free text: the place of marks.
    pub description: String,
    /// GiB.
    pub size: u64,
    /// How many operations a second it may have; 2000 unless said.
    pub iops: Option<u64>,
    /// `DATA` or `PHYSICAL`.
    pub kind: String,
    /// The VM to attach it to at once.
    pub vm_id: Option<VmId>,
    /// `no raid`, `raid1` or `raid5`, for a `PHYSICAL` one only.
    pub raid_level: Option<String>,
}

impl Customer {
    /// The disks of the customer in a location, deleted ones left out.
    pub async fn disks(&self, at: &Location) -> Result<Vec<Disk>, Error> {
        let reply = self.send(self.read_at(at, "list disks", &["disks"])).await?;
        let gone = |row: &Value| is_gone(wire::text(row, "status").as_deref());
        reply
            .rows("disks")?
            .into_iter()
            .filter(|row| !gone(row))
            // A row left out would be a disk that is made a second time.
            .map(|row| Disk::read(row).ok_or_else(|| reply.garbled("a row has no id")))
            .collect()
    }

    /// Makes a disk. It may not be repeated: names are not unique. After a lost reply the mark in
    /// its description tells ([`Customer::disks`]).
    pub async fn create_disk(&self, at: &Location, new: &NewDisk) -> Result<DiskId, Error> {
        let NewDisk { name, description, size, iops, kind, vm_id, raid_level } = new;
        let mut call = self
            .change_at(Method::Post, at, "create the disk", &["disks"])
            .about(format!("location {at}, disk {name}"))
            .with("disk_name", name)
            .with("description", description)
            .with("disk_size", size)
            .with("disk_type", kind);
        call.query = call
            .query
            .with_some("iops", *iops)
            .with_some("vm_id", *vm_id)
            .with_some("raid_level", raid_level.as_ref());
        self.send(call).await?.created(&["disk_id", "id"])
    }

    /// Attaches a disk to a VM. It may be repeated: attached to the same VM is success
    /// (vco-api.md 6.2, G8S).
    ///
    /// # Errors
    /// By the back-end's words (vco-api.md 6.2, G8S): 400 if it is attached to another VM.
    pub async fn attach_disk(
        &self,
        cloudspace: &CloudspaceId,
        vm: VmId,
        disk: DiskId,
    ) -> Result<(), Error> {
        let call = self
            .change_vm(Method::Post, cloudspace, vm, "attach the disk", &["disks"])
            .about(format!("cloudspace {cloudspace}, VM {vm}, disk {disk}"))
            .with("disk_id", disk)
            .repeatable();
        self.send(call).await.map(|_| ())
    }

    /// Detaches a disk from a VM; one that is not attached counts as detached (vco-api.md 6.2,
    /// G8S), so does one of a VM that is not there. It may be repeated.
    pub async fn detach_disk(
        &self,
        cloudspace: &CloudspaceId,
        vm: VmId,
        disk: DiskId,
    ) -> Result<(), Error> {
        let path = ["disks", &disk.to_string()];
        let call = self
            .change_vm(Method::Delete, cloudspace, vm, "detach the disk", &path)
            .about(format!("cloudspace {cloudspace}, VM {vm}, disk {disk}"));
        self.send_delete(call).await
    }

    /// Deletes a disk for good, with all that is on it; the cloud detaches it first. One that is
    /// not there counts as deleted. It may be repeated.
    pub async fn delete_disk(&self, at: &Location, disk: DiskId) -> Result<(), Error> {
        let call = self
            .change_at(Method::Delete, at, "delete the disk", &["disks", &disk.to_string()])
            .about(format!("location {at}, disk {disk}"))
            .with("permanently", true);
        self.send_delete(call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_disk_is_read_whatever_its_fields_are() {
        let row = json!({"disk_id": "9", "disk_name": "etcd", "disk_size": "20", "vm_id": "4",
            "disk_type": "DATA", "status": "ASSIGNED", "cloudspace_id": "YmU6MQ",
            "description": "capvco/x/disk/a-etcd", "iotune": null});
        let disk = Disk::read(&row).unwrap();
        assert_eq!((disk.id, disk.size, disk.vm_id), (DiskId(9), Some(20), Some(VmId(4))));
        assert_eq!(disk.cloudspace_id, "YmU6MQ".parse().ok());
        for nobody in [json!(null), json!(0), json!(""), json!("0"), json!(-1)] {
            let row = json!({"disk_id": 9, "vm_id": nobody, "cloudspace_id": ""});
            let disk = Disk::read(&row).unwrap();
            assert_eq!((disk.vm_id, disk.cloudspace_id), (None, None), "{row}");
        }
        for odd in [json!(null), json!({}), json!({"disk_id": null})] {
            assert_eq!(Disk::read(&odd), None, "{odd}");
        }
    }
}
