//! Virtual machines: list, read, create stopped, start, stop, delete.
//!
//! Every read names the fields it wants: the detail would hold the guest's passwords
//! (`os_accounts`), and what is not sent cannot leak.

use std::fmt;

use serde_json::{Map, Value, json};

use super::address;
use super::call::{Body, Call, Method, Reply};
use super::cloudspace::is_gone;
use super::customer::Customer;
use super::error::{Error, Kind};
use super::nic::Nic;
use super::wire;
use crate::fault::{Class, Fault as _};
use crate::id::{CloudspaceId, DiskId, ImageId, VmId};

/// What of a list's rows is read.
const ROW: &str = "result{vm_id,name,status,image_id,reference_id,stack_id,disks,\
    network_interfaces{mac_address,ip_address,network_id,external_network_type}}";

/// What of a detail is read.
const DETAIL: &str = "vm_id,name,status,description,hostname,boot_disk_id,image_id,vcpus,memory,\
    anti_affinity_group_ids,\
    disks{disk_id,disk_name,disk_type,description,disk_size,status,order,pci_bus,pci_slot},\
    network_interfaces{mac_address,ip_address,network_id,nic_type}";

/// A virtual machine as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// Its id, unique only together with the location.
    pub id: VmId,
    /// Its name.
    pub name: Option<String>,
    /// Such as `RUNNING` or `HALTED` (vco-api.md 5.2, G8D).
    pub status: Option<String>,
    /// The image it was made from.
    pub image_id: Option<ImageId>,
    /// Equals the guest's DMI product UUID in any case of letters (vco-api.md 5.7, CSI).
    pub reference_id: Option<String>,
    /// The physical host it is on (vco-api.md 5.7).
    pub stack_id: Option<u64>,
    /// Its disks, the boot disk included.
    pub disks: Vec<DiskId>,
    /// Its network interfaces.
    pub nics: Vec<Nic>,
}

impl Vm {
    /// Reads a row of a list; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        let disks = row.get("disks").and_then(Value::as_array);
        Some(Self {
            id: wire::id(row, "vm_id").map(VmId)?,
            name: text("name"),
            status: text("status"),
            image_id: wire::id(row, "image_id").map(ImageId),
            reference_id: text("reference_id"),
            stack_id: wire::id(row, "stack_id"),
            disks: disks.into_iter().flatten().filter_map(wire::whole).map(DiskId).collect(),
            nics: Nic::all(row),
        })
    }
}

/// A virtual machine in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmDetail {
    /// Its id.
    pub id: VmId,
    /// Its name.
    pub name: Option<String>,
    /// Such as `RUNNING` or `HALTED` (vco-api.md 5.2, G8D).
    pub status: Option<String>,
    /// Free text: the place of marks.
    pub description: Option<String>,
    /// What the guest is told to be called.
    pub hostname: Option<String>,
    /// The disk it boots from.
    pub boot_disk_id: Option<DiskId>,
    /// The image it was made from.
    pub image_id: Option<ImageId>,
    /// The names of the groups it belongs to.
    pub anti_affinity_groups: Vec<String>,
    /// Its disks, the boot disk included.
    pub disks: Vec<VmDisk>,
    /// Its network interfaces.
    pub nics: Vec<Nic>,
    /// Virtual processors.
    pub vcpus: Option<u64>,
    /// Memory in MiB.
    pub memory: Option<u64>,
}

impl VmDetail {
    /// Reads the detail of this VM.
    #[must_use]
    pub fn read(id: VmId, reply: &Value) -> Self {
        let text = |key| wire::text(reply, key);
        let groups = reply.get("anti_affinity_group_ids").and_then(Value::as_array);
        let groups = groups.into_iter().flatten();
        let disks = wire::rows(&reply["disks"], "disks").unwrap_or_default();
        Self {
            id,
            name: text("name"),
            status: text("status"),
            description: text("description"),
            hostname: text("hostname"),
            boot_disk_id: wire::id(reply, "boot_disk_id").map(DiskId),
            image_id: wire::id(reply, "image_id").map(ImageId),
            anti_affinity_groups: groups.filter_map(|g| g.as_str().map(str::to_owned)).collect(),
            disks: disks.into_iter().filter_map(VmDisk::read).collect(),
            nics: Nic::all(reply),
            vcpus: wire::amount(reply, "vcpus"),
            memory: wire::amount(reply, "memory"),
        }
    }
}

/// A disk as its VM shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmDisk {
    /// Its id.
    pub id: DiskId,
    /// Its name.
    pub name: Option<String>,
    /// `DATA`, `BOOT` or `PHYSICAL`; other words have been seen (vco-api.md 6.2, G8S).
    pub kind: Option<String>,
    /// Free text: the place of marks.
    pub description: Option<String>,
    /// GiB.
    pub size: Option<u64>,
    /// `ASSIGNED` is attached (vco-api.md 6.2, G8D).
    pub status: Option<String>,
    /// In which order it was attached (vco-api.md 6.2, G8S).
    pub order: Option<String>,
    /// Where the guest sees it.
    pub pci: Option<Pci>,
}

/// An address on a VM's PCI bus, by which the guest's device is found (vco-api.md 6.2, CSI).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pci {
    /// The bus.
    pub bus: u64,
    /// The slot.
    pub slot: u64,
}

impl VmDisk {
    fn read(row: &Value) -> Option<Self> {
        let text = |key| wire::text(row, key);
        let pci = || Some(Pci { bus: wire::id(row, "pci_bus")?, slot: wire::id(row, "pci_slot")? });
        Some(Self {
            id: wire::id(row, "disk_id").map(DiskId)?,
            name: text("disk_name"),
            kind: text("disk_type"),
            description: text("description"),
            size: wire::amount(row, "disk_size"),
            status: text("status"),
            order: text("order"),
            pci: pci(),
        })
    }
}

/// A VM to be made from an image, stopped and with its boot disk only: it can join a group
/// before it is placed, and what it lacks can be given to it first.
#[derive(Clone, PartialEq)]
pub struct NewVm {
    /// Its name: unique in the cloudspace, deleted ones in the bin included (vco-api.md 5.1,
    /// G8S, G8D).
    pub name: String,
    /// What the guest is told to be called.
    pub hostname: String,
    /// Free text: the place of marks.
    pub description: String,
    /// The image.
    pub image_id: ImageId,
    /// The boot disk in GiB, at least what the image asks for.
    pub disk_size: u64,
    /// Virtual processors.
    pub vcpus: u64,
    /// Memory in MiB, even (vco-api.md 5.1, G8S).
    pub memory: u64,
    /// An address of its own choice in the cloudspace's network.
    pub private_ip: Option<String>,
    /// The cloud-config; it holds secrets and is never shown. It goes into the body.
    pub userdata: Map<String, Value>,
}

impl fmt::Debug for NewVm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewVm")
            .field("name", &self.name)
            .field("description", &self.description)
            .field("image_id", &self.image_id)
            .finish_non_exhaustive()
    }
}

impl NewVm {
    fn parameters<'a>(&self, call: Call<'a>) -> Call<'a> {
        let mut call = call
            .with("name", &self.name)
            .with("hostname", &self.hostname)
            .with("description", &self.description)
            .with("image_id", self.image_id)
            .with("disk_size", self.disk_size)
            .with("vcpus", self.vcpus)
            .with("memory", self.memory)
            .with("start_vm", false);
        call.query =
            call.query.with_some("private_ip", self.private_ip.as_deref().map(address::bare));
        call.body(Body::Json(json!({"userdata": self.userdata})))
    }
}

impl Customer {
    /// The VMs of a cloudspace, deleted ones left out.
    pub async fn vms(&self, cloudspace: &CloudspaceId) -> Result<Vec<Vm>, Error> {
        let all = self.list_vms(cloudspace, false).await?;
        Ok(all.into_iter().filter(|vm| !is_gone(vm.status.as_deref())).collect())
    }

    async fn list_vms(&self, cloudspace: &CloudspaceId, deleted: bool) -> Result<Vec<Vm>, Error> {
        let mut call = self.read_in(cloudspace, "list VMs", &["vms"]).mask(ROW);
        if deleted {
            call = call.with("include_deleted", true);
        }
        let reply = self.send(call).await?;
        // A row left out would be a VM that is made a second time.
        let read = |row| Vm::read(row).ok_or_else(|| reply.garbled("a row has no id"));
        reply.rows("vms")?.into_iter().map(read).collect()
    }

    /// One VM in detail.
    ///
    /// # Errors
    /// Of [`Class::NotFound`] if there is no such one, or only a deleted one. A 400, which may
    /// mean the same (vco-api.md 5.2, AM), is verified by listing the deleted ones as well.
    pub async fn vm(&self, cloudspace: &CloudspaceId, id: VmId) -> Result<VmDetail, Error> {
        let call = self.read_vm(cloudspace, id, "read the VM", &[]).mask(DETAIL);
        match self.send(call).await {
            Ok(reply) if reply.json.is_object() => living(&reply, VmDetail::read(id, &reply.json)),
            Ok(reply) => Err(reply.garbled("it is no object")),
            Err(error) => Err(self.verified(cloudspace, id, error).await),
        }
    }

    /// What a 400 about a VM means: that it is gone, or what it says.
    async fn verified(&self, cloudspace: &CloudspaceId, id: VmId, error: Error) -> Error {
        if error.status() != Some(400) || error.class() != Class::Invalid {
            return error;
        }
        let status = match self.list_vms(cloudspace, true).await {
            Ok(all) => all.into_iter().find(|vm| vm.id == id).map(|vm| vm.status),
            // It may be a refusal for the same reason; only what passes is worth waiting for.
            Err(listing) if listing.class().is_other_side() => return listing,
            Err(_) => return error,
        };
        let why = match status {
            None => "the cloudspace's list does not show it".to_owned(),
            Some(status) if is_gone(status.as_deref()) => {
                format!("its state is {}", status.unwrap_or_default())
            }
            Some(_) => return error,
        };
        Error::new(error.operation(), error.target(), Kind::Gone).with_message(why)
    }

    /// Makes a VM, stopped. It may not be repeated: after a lost reply its name and, in its
    /// description, its mark tell.
    pub async fn create_vm(&self, cloudspace: &CloudspaceId, new: &NewVm) -> Result<VmId, Error> {
        let call = self
            .change_in(Method::Post, cloudspace, "create the VM", &["vms"])
            .about(format!("cloudspace {cloudspace}, VM {}", new.name));
        self.send(new.parameters(call)).await?.created(&["vm_id", "id"])
    }

    /// Starts a VM. It is not repeated: what the cloud says to a second start is unknown; the
    /// VM's state tells.
    pub async fn start_vm(&self, cloudspace: &CloudspaceId, id: VmId) -> Result<(), Error> {
        let call = self.change_vm(Method::Post, cloudspace, id, "start the VM", &["start"]);
        self.send(call).await.map(|_| ())
    }

    /// Stops a VM, with `force` without asking the guest. It is not repeated, see
    /// [`Customer::start_vm`].
    pub async fn stop_vm(
        &self,
        cloudspace: &CloudspaceId,
        id: VmId,
        force: bool,
    ) -> Result<(), Error> {
        let call = self.change_vm(Method::Post, cloudspace, id, "stop the VM", &["stop"]);
        self.send(call.with("force", force)).await.map(|_| ())
    }

    /// Deletes a VM for good with its boot disk; data disks are detached and stay. One that is
    /// not there counts as deleted. It may be repeated.
    ///
    /// # Errors
    /// By the back-end's words (vco-api.md 5.1, G8S): 409 if it is locked or has clones.
    pub async fn delete_vm(&self, cloudspace: &CloudspaceId, id: VmId) -> Result<(), Error> {
        let call = self
            .change_vm(Method::Delete, cloudspace, id, "delete the VM", &[])
            .with("permanently", true)
            .with("detach_disks", true);
        let Err(error) = self.send_delete(call).await else { return Ok(()) };
        let error = self.verified(cloudspace, id, error).await;
        if error.kind() == Kind::Gone { Ok(()) } else { Err(error) }
    }

    /// A call that reads below a VM.
    pub(super) fn read_vm<'a>(
        &self,
        cloudspace: &CloudspaceId,
        id: VmId,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let number = id.to_string();
        let path = [&["vms", number.as_str()], path].concat();
        self.read_in(cloudspace, operation, &path).about(about(cloudspace, id))
    }

    /// A call that changes something there.
    pub(super) fn change_vm<'a>(
        &self,
        method: Method,
        cloudspace: &CloudspaceId,
        id: VmId,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let number = id.to_string();
        let path = [&["vms", number.as_str()], path].concat();
        self.change_in(method, cloudspace, operation, &path).about(about(cloudspace, id))
    }
}

fn about(cloudspace: &CloudspaceId, id: VmId) -> String {
    format!("cloudspace {cloudspace}, VM {id}")
}

fn living(reply: &Reply, vm: VmDetail) -> Result<VmDetail, Error> {
    if !is_gone(vm.status.as_deref()) {
        return Ok(vm);
    }
    let why = format!("its state is {}", vm.status.unwrap_or_default());
    Err(Error::new(reply.operation, reply.target.clone(), Kind::Gone).with_message(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_is_read_whatever_its_fields_are() {
        let row = json!({"vm_id": "4", "name": "n", "status": null, "image_id": 7.0,
            "reference_id": "", "stack_id": "3", "disks": [1, "2", null, 3.0],
            "network_interfaces": [{"mac_address": "52:54", "ip_address": "Undefined"}, null]});
        let vm = Vm::read(&row).unwrap();
        assert_eq!((vm.id, vm.image_id, vm.status), (VmId(4), Some(ImageId(7)), None));
        assert_eq!((vm.reference_id, vm.stack_id), (None, Some(3)));
        assert_eq!(vm.disks, [DiskId(1), DiskId(2), DiskId(3)]);
        assert_eq!((vm.nics.len(), &vm.nics[0].ip), (1, &None));
        let bare = Vm::read(&json!({"vm_id": 4, "disks": null, "network_interfaces": 7})).unwrap();
        assert!(bare.disks.is_empty() && bare.nics.is_empty());
        for odd in [json!(null), json!({}), json!({"vm_id": null}), json!({"vm_id": "x"})] {
            assert_eq!(Vm::read(&odd), None, "{odd}");
        }
    }

    #[test]
    fn a_detail_is_read_without_passwords() {
        let reply = json!({"vm_id": "4", "description": "capvco/x/machine/a", "memory": "2048",
            "vcpus": 2.0, "boot_disk_id": "9", "anti_affinity_group_ids": ["cp", null],
            "disks": [{"disk_id": 9, "pci_bus": 0, "pci_slot": "7", "disk_size": 20.5, "order": 1,
                "disk_type": "BOOT", "status": "ASSIGNED"}, {"disk_name": "no id"}],
            "os_accounts": [{"login": "user", "password": "hunter2"}],
            "network_interfaces": [{"ip_address": "10.0.0.4", "nic_type": "bridge"}]});
        let vm = VmDetail::read(VmId(4), &reply);
        assert_eq!(vm.description.as_deref(), Some("capvco/x/machine/a"));
        assert_eq!((vm.memory, vm.vcpus, vm.boot_disk_id), (Some(2048), Some(2), Some(DiskId(9))));
        assert_eq!(vm.anti_affinity_groups, ["cp"]);
        assert_eq!((vm.disks.len(), vm.disks[0].pci), (1, Some(Pci { bus: 0, slot: 7 })));
        assert_eq!((vm.disks[0].size, vm.disks[0].order.as_deref()), (Some(20), Some("1")));
        assert_eq!(vm.nics[0].kind.as_deref(), Some("bridge"));
        assert!(!format!("{vm:?}").contains("hunter2"));
        assert!(!DETAIL.contains("os_accounts") && !ROW.contains("os_accounts"));
        assert!(VmDetail::read(VmId(4), &json!({"disks": null})).disks.is_empty());
    }

    #[test]
    fn a_new_vm_goes_into_the_query_and_its_user_data_into_the_body() {
        let userdata = json!({"runcmd": ["kubeadm join --token hunter2"]});
        let new = NewVm {
            name: "cp 1".to_owned(),
            hostname: "cp-1".to_owned(),
            description: "capvco/x/machine/cp-1".to_owned(),
            image_id: ImageId(7),
            disk_size: 20,
            vcpus: 2,
            memory: 4096,
            private_ip: Some("192.168.103.9/24".to_owned()),
            userdata: userdata.as_object().unwrap().clone(),
        };
        let call = new.parameters(Call::change(Method::Post, "x", &[]));
        assert_eq!(
            call.query.encoded(),
            "name=cp%201&hostname=cp-1&description=capvco%2Fx%2Fmachine%2Fcp-1&image_id=7\
             &disk_size=20&vcpus=2&memory=4096&start_vm=false&private_ip=192.168.103.9"
        );
        assert!(matches!(call.body, Body::Json(body) if body == json!({"userdata": userdata})));
        assert!(!call.repeatable);
        assert!(!format!("{new:?}").contains("hunter2"));
    }
}
