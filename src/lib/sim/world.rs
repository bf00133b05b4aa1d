//! What exists in the cloud, and what may be done to it: state and rules without any I/O.
//!
//! Everything is public, so that a test can arrange any state and read the outcome. Numbers of
//! images and VMs are allocated per location (vco-api.md 0.3, inference).

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use super::disk::record::Disk;
pub use super::doing::Doing;
use super::doing::Staged as _;
use super::error::Error;
pub use super::ingress::record::{Balancer, Forward, Host, Pool, Tls};
pub use super::machine::record::{Account, Group, Nic, Userdata, Vm};
pub use super::network::quota::Allowance;
pub use super::network::record::{Cloudspace, ExternalNetwork, Quota, Uplink};
pub use super::objectspace::record::Note;
pub use super::objectspace::record::{Access, Bucket, Key, Objectspace, Pair};
use super::rules::{Rules, seconds};

/// The whole cloud.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct World {
    /// The name of the one user, who is let in with any token that this cloud made.
    pub username: String,
    /// The customers of the user, in the order in which `GET /me` lists them.
    pub customers: Vec<Customer>,
    /// The locations, all of which belong to every customer.
    pub locations: Vec<Site>,
    /// The cloudspaces of all customers.
    pub cloudspaces: Vec<Cloudspace>,
    /// What customers may use in a location, where that has a limit.
    pub allowances: Vec<Allowance>,
    /// What users are told when they exceed it (vco-api.md 11).
    pub resource_limit_message: String,
    /// The objectspaces of all customers, the destroyed ones too.
    pub objectspaces: Vec<Objectspace>,
    /// Where versitygw is, which serves the S3 of objectspaces; without it, the one on PATH or
    /// in `.tools/bin`.
    pub versitygw: Option<PathBuf>,
    /// How all of it behaves.
    pub rules: Rules,
    /// The number of the next objectspace; those of a file come first.
    pub next_objectspace: usize,
}

impl Default for World {
    fn default() -> Self {
        Self::small()
    }
}

/// A customer of the portal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Customer {
    /// Such as `acme_1`.
    pub customer_id: String,
    /// The company's name.
    pub name: String,
}

/// A location: one independent back-end.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Site {
    /// Such as `be-mac-dc01-001`.
    pub location: String,
    /// Whether it cannot host VMs, nor images then (vco-api.md 2; the latter is inference).
    pub storage_only: bool,
    /// Whether its back-end is out of order: calls answer 503 (G8S), lists over all locations
    /// leave its things out and say so (12.4).
    pub down: bool,
    /// How long an import takes here, if not `rules.import_time`.
    #[serde(deserialize_with = "some_seconds")]
    pub import_time: Option<Duration>,
    /// Whether every import fails here.
    pub imports_fail: bool,
    /// All images, the destroyed ones too.
    pub images: Vec<Image>,
    /// The number of the next image.
    pub next_image_id: u64,
    /// The number of the next VM.
    pub next_vm_id: u64,
    /// The networks outside. Without any, the location gets one of loopback addresses that no
    /// other cloud on this machine has.
    pub external_networks: Vec<ExternalNetwork>,
    /// The disks of all customers, the destroyed ones too.
    pub disks: Vec<Disk>,
    /// The number of the next disk.
    pub next_disk_id: u64,
    /// How many hosts there are; 0 means three.
    pub stacks: u64,
    /// How much memory each host has for machines, in MiB; 0 is without limit.
    pub stack_memory: u64,
    #[serde(skip)]
    pub(super) before_last_write: Option<Vec<Image>>,
}

fn some_seconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    seconds::deserialize(from).map(Some)
}

/// The states of an image that this cloud knows (G8D, G8S).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// The import runs.
    Creating,
    /// Usable.
    #[default]
    Created,
    /// The import failed.
    Error,
    /// Switched off by an operator.
    Disabled,
    /// In the recycle bin.
    Deleted,
    /// Gone for good.
    Destroyed,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Creating => "CREATING",
            Self::Created => "CREATED",
            Self::Error => "ERROR",
            Self::Disabled => "DISABLED",
            Self::Deleted => "DELETED",
            Self::Destroyed => "DESTROYED",
        })
    }
}

/// An image of a location.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Image {
    /// Unique within its location.
    pub image_id: u64,
    /// The customer that owns it; empty for public ones.
    pub customer_id: String,
    /// Need not be unique, see [`Rules::unique_names`].
    pub name: String,
    /// Where it stands.
    pub status: Status,
    /// Whether everybody sees it and nobody may delete it (G8S).
    pub public: bool,
    /// Free text.
    pub tags: String,
    /// One of six.
    pub os_type: String,
    /// One of 47.
    pub os_name: String,
    /// `bios`, `uefi` or `uefi-secure-boot`.
    pub boot_type: String,
    /// Least memory of a VM, in MiB.
    pub memory: u64,
    /// Least boot disk of a VM, in GiB.
    pub boot_disk_size: u64,
    /// Bytes of the file that was imported; 0 until it is.
    pub bytes: u64,
    /// Bytes of the disk in it; 0 until it is imported.
    pub virtual_bytes: u64,
    /// `qcow2`, `raw` or `vmdk`, once it is imported. Not shown by the API.
    pub format: String,
    /// The checksum that the import was told to hold it to. Not shown by the API.
    pub md5_sum: String,
    /// Why the import failed. Not shown by the API.
    pub failure: Option<String>,
    /// Whether the hot-plug flags of the create call were left at their defaults.
    pub capabilities: Capabilities,
}

/// What may be changed on a running VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the vendor's own seven flags")]
pub struct Capabilities {
    /// Memory may be added.
    pub add_memory: bool,
    /// CPUs may be added.
    pub add_vcpu: bool,
    /// CPUs may be removed.
    pub remove_vcpu: bool,
    /// Disks may be added.
    pub add_disk: bool,
    /// Disks may be removed.
    pub remove_disk: bool,
    /// Network interfaces may be added.
    pub add_nic: bool,
    /// Network interfaces may be removed.
    pub remove_nic: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            add_memory: true,
            add_vcpu: true,
            remove_vcpu: true,
            add_disk: true,
            remove_disk: true,
            add_nic: true,
            remove_nic: true,
        }
    }
}

impl World {
    /// A customer `acme_1` with three locations that hold a public image each.
    #[must_use]
    pub fn small() -> Self {
        Self::of("acme_1", &["be-mac-dc01-001", "nl-rmd-dc01-001", "qt-gen-dc01-003"])
    }

    /// Reads a world from a YAML file; what it leaves out is as in [`World::small`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Error::reading(path, "read the world's file")
    }

    /// One customer with locations of these names that hold a public image each. Image numbers
    /// of different locations start a hundred apart, so that an id used in the wrong place
    /// finds nothing.
    #[must_use]
    pub fn of(customer_id: &str, locations: &[&str]) -> Self {
        let site = |(index, name): (u64, &&str)| Site::with_public_image(name, (index + 1) * 100);
        Self {
            username: "operator".into(),
            customers: vec![Customer { customer_id: customer_id.into(), name: "Acme".into() }],
            locations: (0..).zip(locations).map(site).collect(),
            cloudspaces: Vec::new(),
            allowances: Vec::new(),
            resource_limit_message: "You have reached a limit of your contract".into(),
            objectspaces: Vec::new(),
            versitygw: None,
            rules: Rules::default(),
            next_objectspace: 501,
        }
    }

    /// The location of this name.
    ///
    /// # Panics
    /// If there is none: for tests, where that is a mistake in the test.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test that names no location is wrong")]
    pub fn site(&mut self, location: &str) -> &mut Site {
        self.find_site(location).expect("the test names a location of its world")
    }

    /// Makes a running VM from an image, in a cloudspace of the first customer that is made for
    /// it. Returns the cloudspace's id and the VM's.
    pub fn add_vm(&mut self, location: &str, image_id: u64, name: &str) -> (String, u64) {
        let customer = self.customers.first().map_or(String::new(), |c| c.customer_id.clone());
        let cloudspace_id = self.add_cloudspace(&customer, location, &format!("{name}-space"), "");
        let vm = Vm { name: name.into(), hostname: name.into(), image_id, ..Vm::default() };
        let vm_id = self.add_vm_to(&cloudspace_id, vm);
        (cloudspace_id, vm_id)
    }

    /// Puts a machine into a cloudspace, with a boot disk, and an address, a host and an account
    /// if it has none. Returns its number, which is allocated here.
    ///
    /// # Panics
    /// If there is no such cloudspace: for tests, where that is a mistake in the test.
    #[expect(clippy::expect_used, reason = "a test that names no cloudspace is wrong")]
    pub fn add_vm_to(&mut self, cloudspace_id: &str, mut vm: Vm) -> u64 {
        let space = self.cloudspace(cloudspace_id).expect("the test names a cloudspace");
        let (location, customer_id) = (space.location.clone(), space.customer_id.clone());
        let free = self.free_private(space);
        vm.vm_id = self.take_vm_id(&location);
        Self::furnish(&mut vm, free);
        let boot = Disk {
            customer_id,
            name: format!("{} boot", vm.name),
            kind: "BOOT".into(),
            status: "ASSIGNED".into(),
            vm_id: vm.vm_id,
            ..Disk::default()
        };
        self.site(&location).add_disk(boot);
        let vm_id = vm.vm_id;
        if let Some(space) = self.cloudspace_mut(cloudspace_id) {
            space.vms.push(vm);
        }
        vm_id
    }

    /// What a machine of a test or a file has if that does not say.
    fn furnish(vm: &mut Vm, mut free: Vec<String>) {
        if vm.private_ip.is_empty() && vm.lives() {
            vm.private_ip = free.pop().unwrap_or_default();
        }
        if vm.stack_id == 0 {
            vm.stack_id = 1;
        }
        if vm.account == Account::default() {
            vm.account = Account::made_up();
        }
        if vm.userdata == Userdata::default() {
            vm.userdata = Userdata::new(serde_json::Map::new(), &vm.account);
        }
    }

    /// Makes a cloudspace without machines; an empty network is the usual one. Returns its id.
    pub fn add_cloudspace(
        &mut self,
        customer_id: &str,
        location: &str,
        name: &str,
        private_network: &str,
    ) -> String {
        let number = self.take_cloudspace_number();
        let cloudspace_id = Cloudspace::id_of(location, number);
        self.cloudspaces.push(Cloudspace {
            cloudspace_id: cloudspace_id.clone(),
            number,
            customer_id: customer_id.into(),
            location: location.into(),
            name: name.into(),
            status: "DEPLOYED".into(),
            private_network: private_network.into(),
            ..Cloudspace::default()
        });
        self.link_up(self.cloudspaces.len() - 1);
        cloudspace_id
    }

    /// Makes an objectspace of the first customer; its server starts when it is needed. Returns
    /// its id.
    pub fn add_objectspace(&mut self, location: &str, name: &str) -> String {
        let mut space = Objectspace {
            customer_id: self.customers.first().map_or(String::new(), |c| c.customer_id.clone()),
            location: location.into(),
            name: name.into(),
            ..Objectspace::default()
        };
        space.complete(self.take_objectspace_number());
        let id = space.objectspace_id.clone();
        self.objectspaces.push(space);
        id
    }

    /// A number that no objectspace has, nor one that is being made.
    pub(super) fn take_objectspace_number(&mut self) -> usize {
        self.next_objectspace += 1;
        self.next_objectspace - 1
    }

    /// Fills in what a file left out.
    pub(super) fn complete(&mut self, port: u16) {
        self.complete_networks(port);
        for at in 0..self.cloudspaces.len() {
            self.complete_cloudspace(at);
        }
        for space in &mut self.objectspaces {
            space.complete(self.next_objectspace);
            self.next_objectspace += 1;
        }
    }

    /// Gives every location without external networks one of loopback addresses, where the door's
    /// port tells this cloud from all others on the machine.
    fn complete_networks(&mut self, port: u16) {
        let [high, low] = port.to_be_bytes();
        let count = u32::try_from(self.locations.len()).unwrap_or(u32::MAX).max(4);
        let bits = (32 - (count - 1).leading_zeros()).min(5);
        let size = 1_usize << (8 - bits);
        for (index, site) in self.locations.iter_mut().enumerate() {
            let Ok(start) = u8::try_from(index * size) else { return };
            if site.external_networks.is_empty() && !site.storage_only {
                site.external_networks.push(ExternalNetwork {
                    external_network_id: index as u64 * 10 + 5,
                    name: "internet".into(),
                    network: format!("127.{high}.{low}.{start}/{}", 24 + bits),
                    public: true,
                    ..ExternalNetwork::default()
                });
            }
        }
    }

    fn complete_cloudspace(&mut self, at: usize) {
        let number = self.take_cloudspace_number();
        let space = &mut self.cloudspaces[at];
        if space.number == 0 {
            space.number = number;
        }
        if space.cloudspace_id.is_empty() {
            space.cloudspace_id = Cloudspace::id_of(&space.location, space.number);
        }
        if space.status.is_empty() {
            "DEPLOYED".clone_into(&mut space.status);
        }
        space.complete_ids();
        self.link_up(at);
        let ids = 0..self.cloudspaces[at].vms.len();
        for index in ids {
            let space = &self.cloudspaces[at];
            let (location, free) = (space.location.clone(), self.free_private(space));
            let mut vm = space.vms[index].clone();
            if vm.vm_id == 0 {
                vm.vm_id = self.take_vm_id(&location);
            }
            Self::furnish(&mut vm, free);
            self.cloudspaces[at].vms[index] = vm;
        }
    }

    /// Ends every action that is due; when the next one is.
    pub(super) fn settle(&mut self, now: Duration) -> Option<Duration> {
        let mut due: Option<Duration> = None;
        let mut meet = |next: Option<Duration>| {
            due = [due, next].into_iter().flatten().min();
        };
        for space in &mut self.cloudspaces {
            meet(space.settle(now));
            space.vms.iter_mut().for_each(|vm| meet(vm.settle(now)));
        }
        for site in &mut self.locations {
            site.disks.iter_mut().for_each(|disk| meet(disk.settle(now)));
        }
        due
    }

    pub(super) fn find_site(&mut self, location: &str) -> Option<&mut Site> {
        self.locations.iter_mut().find(|s| s.location == location)
    }

    /// Whether a VM that is not destroyed was made from the image (G8S).
    pub(super) fn in_use(&self, location: &str, image_id: u64) -> bool {
        let here = self.cloudspaces.iter().filter(|c| c.location == location);
        here.flat_map(|c| &c.vms).any(|vm| vm.image_id == image_id && vm.status != "DESTROYED")
    }
}

impl Site {
    /// A location that can host VMs and has one public image, numbered `first`.
    #[must_use]
    pub fn with_public_image(location: &str, first: u64) -> Self {
        let image = Image {
            image_id: first,
            name: "Ubuntu 24.04 LTS".into(),
            public: true,
            os_type: "Linux".into(),
            os_name: "Linux - other".into(),
            boot_type: "uefi".into(),
            memory: 512,
            boot_disk_size: 10,
            bytes: 612_368_384,
            virtual_bytes: 3_758_096_384,
            format: "qcow2".into(),
            ..Image::default()
        };
        Self {
            location: location.into(),
            images: vec![image],
            next_image_id: first + 1,
            next_vm_id: first + 1,
            next_disk_id: first + 1,
            ..Self::default()
        }
    }

    /// Adds an image and returns its number, which is allocated here.
    pub fn add_image(&mut self, mut image: Image) -> u64 {
        let taken = self.images.iter().map(|i| i.image_id).max().unwrap_or(0);
        image.image_id = self.next_image_id.max(taken + 1);
        self.next_image_id = image.image_id + 1;
        let id = image.image_id;
        self.images.push(image);
        id
    }

    /// The image of this number, destroyed or not.
    #[must_use]
    pub fn image(&self, image_id: u64) -> Option<&Image> {
        self.images.iter().find(|i| i.image_id == image_id)
    }

    /// The images of this name that are not destroyed, in the order of their numbers.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<&Image> {
        let alive = |i: &&Image| i.name == name && i.status != Status::Destroyed;
        self.images.iter().filter(alive).collect()
    }

    pub(super) fn image_mut(&mut self, image_id: u64) -> Option<&mut Image> {
        self.images.iter_mut().find(|i| i.image_id == image_id)
    }

    pub(super) fn remember(&mut self) {
        self.before_last_write = Some(self.images.clone());
    }
}

impl Image {
    /// Whether lists and reads show it to this customer.
    pub(super) fn is_visible(&self, customer: &str, rules: &Rules) -> bool {
        let state = match self.status {
            Status::Destroyed => false,
            Status::Deleted => rules.bin_visible,
            _ => true,
        };
        state && (self.public || self.customer_id == customer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_allocated_per_location_and_never_twice() {
        let mut world = World::small();
        let a = world.site("be-mac-dc01-001").add_image(Image::default());
        let b = world.site("nl-rmd-dc01-001").add_image(Image::default());
        assert_eq!((a, b), (101, 201));
        let site = world.site("be-mac-dc01-001");
        site.image_mut(a).unwrap().status = Status::Destroyed;
        assert_eq!(site.add_image(Image::default()), 102);
    }

    #[test]
    fn a_vm_uses_its_image_until_it_is_destroyed() {
        let mut world = World::small();
        let (id, vm) = world.add_vm("be-mac-dc01-001", 100, "node-1");
        assert_eq!((id.as_str(), vm), ("YmUtbWFjLWRjMDEtMDAxOjEzMDE", 101));
        assert!(world.in_use("be-mac-dc01-001", 100));
        assert!(!world.in_use("nl-rmd-dc01-001", 100) && !world.in_use("be-mac-dc01-001", 101));
        world.cloudspaces[0].vms[0].status = "DESTROYED".into();
        assert!(!world.in_use("be-mac-dc01-001", 100));
    }

    #[test]
    fn visibility_follows_state_owner_and_rules() {
        let own = |status| Image { customer_id: "a".into(), status, ..Image::default() };
        let mut rules = Rules::default();
        for (status, plain, with_bin) in [
            (Status::Creating, true, true),
            (Status::Created, true, true),
            (Status::Error, true, true),
            (Status::Deleted, false, true),
            (Status::Destroyed, false, false),
        ] {
            rules.bin_visible = false;
            assert_eq!(own(status).is_visible("a", &rules), plain, "{status}");
            assert!(!own(status).is_visible("b", &rules));
            rules.bin_visible = true;
            assert_eq!(own(status).is_visible("a", &rules), with_bin, "{status}");
        }
    }

    #[test]
    fn a_world_comes_from_a_file() {
        let text = "customers: [{customer_id: c_1, name: C}]\n\
                    locations: [{location: x-1, storage_only: true, import_time: 3}]\n\
                    rules: {redirects: 3}\n";
        let world: World = crate::yaml::from_str(text, "test").unwrap();
        assert!(world.locations[0].storage_only && world.rules.redirects == 3);
        assert_eq!(world.locations[0].import_time, Some(Duration::from_secs(3)));
    }
}
