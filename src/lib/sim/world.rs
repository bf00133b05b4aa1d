//! What exists in the cloud, and what may be done to it: state and rules without any I/O.
//!
//! Everything is public, so that a test can arrange any state and read the outcome. Numbers of
//! images and VMs are allocated per location (vco-api.md 0.3, inference).

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::error::Error;
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

/// A cloudspace, as far as its VMs use images.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cloudspace {
    /// Opaque to clients; `<location>:<number>` in URL-safe base64 (vco-api.md 0.3, EX).
    pub cloudspace_id: String,
    /// The number inside the id.
    pub number: u64,
    /// Its owner.
    pub customer_id: String,
    /// Where it is.
    pub location: String,
    /// Its name.
    pub name: String,
    /// `DEPLOYED` when it works.
    pub status: String,
    /// Its network; `192.168.103.0/24` if it is empty (vco-api.md 4.1).
    pub private_network: String,
    /// Its machines.
    pub vms: Vec<Vm>,
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vm {
    /// Unique within its location.
    pub vm_id: u64,
    /// Its name.
    pub name: String,
    /// `RUNNING`, `HALTED`, … `DELETED`, `DESTROYED`.
    pub status: String,
    /// The image it was made from.
    pub image_id: u64,
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
        let site = self.site(location);
        let vm_id = site.next_vm_id;
        site.next_vm_id += 1;
        let vm = Vm { vm_id, name: name.into(), status: "RUNNING".into(), image_id };
        let customer = self.customers.first().map_or(String::new(), |c| c.customer_id.clone());
        let space = format!("{name}-space");
        let cloudspace_id = self.add_cloudspace(&customer, location, &space, "");
        if let Some(space) = self.cloudspaces.last_mut() {
            space.vms.push(vm);
        }
        (cloudspace_id, vm_id)
    }

    /// Makes a cloudspace without machines; an empty network is the usual one. Returns its id.
    pub fn add_cloudspace(
        &mut self,
        customer_id: &str,
        location: &str,
        name: &str,
        private_network: &str,
    ) -> String {
        let number = self.cloudspaces.len() as u64 + 1301;
        let cloudspace_id = URL_SAFE_NO_PAD.encode(format!("{location}:{number}"));
        self.cloudspaces.push(Cloudspace {
            cloudspace_id: cloudspace_id.clone(),
            number,
            customer_id: customer_id.into(),
            location: location.into(),
            name: name.into(),
            status: "DEPLOYED".into(),
            private_network: private_network.into(),
            vms: Vec::new(),
        });
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
    pub(super) fn complete(&mut self) {
        for space in &mut self.objectspaces {
            space.complete(self.next_objectspace);
            self.next_objectspace += 1;
        }
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

impl Cloudspace {
    pub(super) fn network(&self) -> &str {
        if self.private_network.is_empty() { "192.168.103.0/24" } else { &self.private_network }
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
