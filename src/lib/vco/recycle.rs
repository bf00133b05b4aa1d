//! The recycle bin, as far as it keeps names taken: a binned thing's name cannot be used again
//! (vco-api.md 11, G8D).

use serde_json::Value;

use super::call::Reply;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, DiskId, Location, VmId};

/// What lies in the bin, of all locations, some of which may have failed to report.
#[derive(Debug)]
pub struct RecycleBin(Reply);

/// What of one location lies in the bin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binned {
    /// Cloudspaces with their names.
    pub cloudspaces: Vec<(CloudspaceId, Option<String>)>,
    /// VMs.
    pub vms: Vec<BinnedVm>,
    /// Disks with their names.
    pub disks: Vec<(DiskId, Option<String>)>,
}

/// A VM in the bin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinnedVm {
    /// Its id.
    pub id: VmId,
    /// Its name.
    pub name: Option<String>,
    /// The cloudspace in which the name is taken.
    pub cloudspace_id: Option<CloudspaceId>,
}

impl Binned {
    fn read(result: &Value, at: &Location) -> Self {
        let rows = |key: &str| {
            let here = |row: &&Value| wire::text(row, "location").as_deref() == Some(at.as_str());
            wire::rows(&result[key], key).unwrap_or_default().into_iter().filter(here)
        };
        let cloudspace = |row: &Value| wire::text(row, "cloudspace_id")?.parse().ok();
        let vm = |row: &Value| {
            let (id, name) = (wire::id(row, "vm_id").map(VmId)?, wire::text(row, "vm_name"));
            Some(BinnedVm { id, name, cloudspace_id: cloudspace(row) })
        };
        let space = |row: &Value| Some((cloudspace(row)?, wire::text(row, "cloudspace_name")));
        let disk = |row: &Value| {
            Some((wire::id(row, "disk_id").map(DiskId)?, wire::text(row, "disk_name")))
        };
        Self {
            cloudspaces: rows("cloudspaces").filter_map(space).collect(),
            vms: rows("vms").filter_map(vm).collect(),
            disks: rows("disks").filter_map(disk).collect(),
        }
    }
}

impl RecycleBin {
    /// What of one location lies in the bin.
    ///
    /// # Errors
    /// [`Incomplete`](super::Kind::Incomplete) if the bin does not vouch for that location.
    pub fn at(&self, at: &Location) -> Result<Binned, Error> {
        self.0.vouched(at)?;
        Ok(Binned::read(&self.0.json["result"], at))
    }
}

impl Customer {
    /// The recycle bin of all locations: one document, so one call.
    pub async fn recycle_bin(&self) -> Result<RecycleBin, Error> {
        self.send(self.read("read the recycle bin", &["recycle-bin"])).await.map(RecycleBin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bin_is_read_by_location_whatever_its_fields_are() {
        let at: Location = "be-1".parse().unwrap();
        let result = json!({
            "cloudspaces": [
                {"cloudspace_id": "YmU6MQ", "cloudspace_name": "web", "location": "be-1"},
                {"cloudspace_id": "YmU6Mg", "location": "be-2"}, null],
            "vms": [{"vm_id": "4", "vm_name": null, "cloudspace_id": 7, "location": "be-1"}],
            "disks": null,
        });
        let binned = Binned::read(&result, &at);
        assert_eq!(binned.cloudspaces, [("YmU6MQ".parse().unwrap(), Some("web".to_owned()))]);
        let cloudspace_id = "7".parse().ok();
        assert_eq!(binned.vms, [BinnedVm { id: VmId(4), name: None, cloudspace_id }]);
        assert_eq!(binned.disks, []);
        assert_eq!(Binned::read(&json!(null), &at), Binned::default());
    }
}
