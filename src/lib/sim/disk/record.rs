//! A disk: state and rules, no I/O.

use serde::{Deserialize, Serialize};

use super::super::doing::{Doing, staged};
use super::super::objectspace::record::Note;
use super::super::world::{Cloudspace, Site, Vm, World};

/// Operations a second, if nobody says (vco-api.md 6.1).
pub(in crate::sim) const USUAL_IOPS: u64 = 2000;

/// What the disk with cloud-init's metadata is (vco-api.md 6.2, G8S: older letters).
pub(in crate::sim) const METADATA: &str = "META";

/// A disk of a customer in a location.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disk {
    /// Unique within its location.
    pub disk_id: u64,
    /// Its owner.
    pub customer_id: String,
    /// Its name; need not be unique (vco-api.md 6.2).
    pub name: String,
    /// Free text.
    pub description: String,
    /// In GiB.
    pub size: u64,
    /// `DATA`, `BOOT`, `PHYSICAL`, or `META` for cloud-init's.
    pub kind: String,
    /// `CREATED` when it is on no machine, `ASSIGNED` when it is, `TOBEDELETED` when it went into
    /// the recycle bin with its machine, `DELETED` when it went alone, `DESTROYED`.
    pub status: String,
    /// The machine it is on, or went with; 0 for none.
    pub vm_id: u64,
    /// The order of its attachment; the boot disk has 0.
    pub order: u64,
    /// Operations a second; recorded, not enforced.
    pub iops: u64,
    /// When it was made, in seconds since 1970.
    pub created: f64,
    /// When it was put into the recycle bin, in seconds since 1970.
    pub deleted: f64,
    /// Its notes.
    pub notes: Vec<Note>,
    /// What is being done to it.
    #[serde(skip)]
    pub doing: Option<Doing>,
}

staged!(Disk);

impl Default for Disk {
    fn default() -> Self {
        Self {
            disk_id: 0,
            customer_id: String::new(),
            name: String::new(),
            description: String::new(),
            size: 10,
            kind: "DATA".into(),
            status: "CREATED".into(),
            vm_id: 0,
            order: 0,
            iops: USUAL_IOPS,
            created: 0.0,
            deleted: 0.0,
            notes: Vec::new(),
            doing: None,
        }
    }
}

impl Disk {
    /// Whether it is not gone for good.
    pub(in crate::sim) fn exists(&self) -> bool {
        self.status != "DESTROYED"
    }

    /// Whether it lies in the recycle bin.
    pub(in crate::sim) fn is_binned(&self) -> bool {
        matches!(self.status.as_str(), "DELETED" | "TOBEDELETED")
    }

    /// Whether it is on this machine.
    pub(in crate::sim) fn is_on(&self, vm_id: u64) -> bool {
        vm_id != 0 && self.vm_id == vm_id && self.exists() && !self.is_binned()
    }

    /// Where the guest sees it: bus and slot (vco-api.md 6.2, CSI).
    pub(in crate::sim) fn pci(&self) -> (u64, u64) {
        (0, self.order + 5)
    }
}

impl Site {
    /// Adds a disk and returns its number, which is allocated here.
    pub fn add_disk(&mut self, mut disk: Disk) -> u64 {
        let taken = self.disks.iter().map(|d| d.disk_id).max().unwrap_or(0);
        disk.disk_id = self.next_disk_id.max(taken + 1);
        self.next_disk_id = disk.disk_id + 1;
        let id = disk.disk_id;
        self.disks.push(disk);
        id
    }

    /// The disk of this number, destroyed or not.
    #[must_use]
    pub fn disk(&self, disk_id: u64) -> Option<&Disk> {
        self.disks.iter().find(|d| d.disk_id == disk_id)
    }

    pub(in crate::sim) fn disk_mut(&mut self, disk_id: u64) -> Option<&mut Disk> {
        self.disks.iter_mut().find(|d| d.disk_id == disk_id)
    }

    /// The disks on a machine, in the order of their attachment.
    pub(in crate::sim) fn disks_on(&self, vm_id: u64) -> Vec<&Disk> {
        let mut disks: Vec<&Disk> = self.disks.iter().filter(|d| d.is_on(vm_id)).collect();
        disks.sort_by_key(|d| (d.kind != "BOOT", d.order, d.disk_id));
        disks
    }

    /// The smallest free order from 1 (vco-api.md 6.2, G8S).
    pub(in crate::sim) fn next_order(&self, vm_id: u64) -> u64 {
        let taken: Vec<u64> = self.disks_on(vm_id).iter().map(|d| d.order).collect();
        (1..=taken.len() as u64 + 1).find(|order| !taken.contains(order)).unwrap_or(1)
    }
}

impl World {
    /// The machine a disk is on, and its cloudspace.
    pub(in crate::sim) fn holder(&self, location: &str, disk: &Disk) -> Option<(&Cloudspace, &Vm)> {
        let mut here =
            self.cloudspaces.iter().filter(|c| c.location == location && disk.vm_id != 0);
        here.find_map(|c| Some((c, c.vm(disk.vm_id)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_the_smallest_that_are_free() {
        let mut site = Site::default();
        let on = |order, kind: &str| Disk {
            vm_id: 7,
            order,
            kind: kind.into(),
            status: "ASSIGNED".into(),
            ..Disk::default()
        };
        assert_eq!(site.next_order(7), 1);
        for order in [3, 1] {
            site.add_disk(on(order, "DATA"));
        }
        site.add_disk(on(0, "BOOT"));
        assert_eq!(site.next_order(7), 2);
        let ids: Vec<u64> = site.disks_on(7).iter().map(|d| d.disk_id).collect();
        assert_eq!(ids, [3, 2, 1]);
        site.disk_mut(2).unwrap().status = "TOBEDELETED".into();
        assert_eq!(site.next_order(7), 1);
    }
}
