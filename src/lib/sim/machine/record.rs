//! A virtual machine, its interfaces and its groups: state and rules, no I/O.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::super::doing::{Doing, staged};
use super::super::objectspace::record::{Note, random_letters};
use super::super::world::{Site, World};

/// So many disks has a machine at most, boot disk and metadata included (vco-api.md 6.2, G8S).
pub(in crate::sim) const MOST_DISKS: usize = 25;

/// So many hosts has a location if nobody says.
const USUAL_STACKS: u64 = 3;

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vm {
    /// Unique within its location.
    pub vm_id: u64,
    /// Unique within its cloudspace, the recycle bin included (G8S, G8D).
    pub name: String,
    /// `RUNNING`, `PAUSED`, `HALTED`, `ERROR`, `DELETED`, `DESTROYED`, or anything of 5.2.
    pub status: String,
    /// The image it was made from.
    pub image_id: u64,
    /// The name that its guest has.
    pub hostname: String,
    /// Free text.
    pub description: String,
    /// Virtual CPUs.
    pub vcpus: u64,
    /// Memory, in MiB.
    pub memory: u64,
    /// Its address in the cloudspace; empty while it has none.
    pub private_ip: String,
    /// Its interfaces beyond the private one.
    pub nics: Vec<Nic>,
    /// The host it is on, or was last; 0 before it has been on any.
    pub stack_id: u64,
    /// What it was told at its creation.
    pub userdata: Userdata,
    /// The account of the platform's own user; made up if it is empty.
    pub account: Account,
    /// Whether it may not be deleted (409, G8S).
    pub locked: bool,
    /// `bios`, `uefi` or `uefi-secure-boot`.
    pub boot_type: String,
    /// When it was made, in seconds since 1970.
    pub created: f64,
    /// When it was changed, in seconds since 1970.
    pub updated: f64,
    /// When it was put into the recycle bin, in seconds since 1970.
    pub deleted: f64,
    /// Its notes.
    pub notes: Vec<Note>,
    /// How often it was started again: more means that its guest has booted anew.
    #[serde(skip_serializing)]
    pub boots: u64,
    /// What is being done to it.
    #[serde(skip)]
    pub doing: Option<Doing>,
}

staged!(Vm);

impl Default for Vm {
    fn default() -> Self {
        Self {
            vm_id: 0,
            name: String::new(),
            status: "RUNNING".into(),
            image_id: 0,
            hostname: String::new(),
            description: String::new(),
            vcpus: 2,
            memory: 2048,
            private_ip: String::new(),
            nics: Vec::new(),
            stack_id: 0,
            userdata: Userdata::default(),
            account: Account::default(),
            locked: false,
            boot_type: "bios".into(),
            created: 0.0,
            updated: 0.0,
            deleted: 0.0,
            notes: Vec::new(),
            boots: 0,
            doing: None,
        }
    }
}

/// An interface to an external network or to another cloudspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nic {
    /// The external network; -1 is another cloudspace (vco-api.md 5.5).
    pub network_id: i64,
    /// Its address, without a prefix length.
    pub ip: String,
    /// Its hardware address; made up if it is empty.
    pub mac: String,
    /// The card that it plays; `virtio` if it is empty.
    pub model: String,
    /// The other cloudspace.
    pub external_cloudspace_id: String,
}

/// An anti-affinity group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// Its name, which is its id, unique per cloudspace.
    pub group_id: String,
    /// Over how many hosts its members are spread; -1 is without limit.
    pub spread: i64,
    /// The machines in it.
    pub members: Vec<u64>,
}

/// The login of the user that the platform makes in a guest.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Account {
    /// Its name.
    pub login: String,
    /// Its password; shown by neither `Debug` nor an inventory.
    pub password: String,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("login", &self.login).finish_non_exhaustive()
    }
}

impl Serialize for Account {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        format!("{} {}", self.login, fingerprint(&self.password)).serialize(to)
    }
}

/// User data, which holds the keys of a cluster: shown by neither `Debug` nor an inventory.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Userdata {
    /// What the creation call said.
    pub given: Map<String, Value>,
    /// What the guest is told: what the call said on top of what the platform says.
    pub merged: Map<String, Value>,
}

impl fmt::Debug for Userdata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Userdata").finish_non_exhaustive()
    }
}

impl Serialize for Userdata {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fingerprint(&json!([self.given, self.merged]).to_string()).serialize(to)
    }
}

/// Tells whether a secret is still the same, and nothing else.
fn fingerprint(secret: &str) -> String {
    let mut hasher = DefaultHasher::new();
    secret.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl Userdata {
    /// What becomes of a caller's user data: its users are added to the platform's, every other
    /// key of its replaces the platform's (vco-api.md 5.1, G8S).
    #[must_use]
    pub fn new(given: Map<String, Value>, account: &Account) -> Self {
        let mut merged = platform(account);
        for (key, value) in &given {
            match (merged.get_mut(key), value) {
                (Some(Value::Array(users)), Value::Array(more)) if key == "users" => {
                    users.extend(more.iter().cloned());
                }
                _ => drop(merged.insert(key.clone(), value.clone())),
            }
        }
        Self { given, merged }
    }
}

/// What the platform tells every guest (vco-api.md 5.1, G8S).
fn platform(account: &Account) -> Map<String, Value> {
    let cpu = r#"SUBSYSTEM=="cpu", ACTION=="add", ATTR{online}="1""#;
    let memory = r#"SUBSYSTEM=="memory", ACTION=="add", ATTR{state}="online""#;
    let rules = "/etc/udev/rules.d/66-hotplug.rules";
    let value = json!({
        "password": account.password,
        "users": [{
            "name": account.login, "plain_text_passwd": account.password, "lock_passwd": false,
            "shell": "/bin/bash", "sudo": "ALL=(ALL) ALL",
        }],
        "ssh_pwauth": true,
        "manage_etc_hosts": true,
        "chpasswd": {"expire": false},
        "runcmd": [
            format!("echo '{cpu}' > {rules}"),
            format!("echo '{memory}' >> {rules}"),
            "udevadm control -R",
        ],
    });
    value.as_object().cloned().unwrap_or_default()
}

impl Account {
    /// The default user with a password that nobody can guess (vco-api.md 5.1, G8S).
    pub(in crate::sim) fn made_up() -> Self {
        Self { login: "user".into(), password: random_letters(12) }
    }
}

/// A hardware address that goes with two numbers.
pub(in crate::sim) fn mac(vm_id: u64, nth: u64) -> String {
    let [.., a, b, c] = (vm_id * 32 + nth).to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

impl Vm {
    /// Whether it is not gone for good.
    pub(in crate::sim) fn exists(&self) -> bool {
        self.status != "DESTROYED"
    }

    /// Whether it is neither gone nor in the recycle bin.
    pub(in crate::sim) fn lives(&self) -> bool {
        !matches!(self.status.as_str(), "DELETED" | "DESTROYED")
    }

    /// Whether its guest runs, or has its memory at least.
    pub(in crate::sim) fn is_up(&self) -> bool {
        matches!(self.status.as_str(), "RUNNING" | "PAUSED")
    }

    /// The DMI product UUID of its guest (vco-api.md 5.7), made of where it is.
    #[must_use]
    pub fn reference_id(&self, location: &str) -> String {
        let place = fingerprint(location);
        format!("{}-{}-4000-8000-{:012x}", &place[..8], &place[8..12], self.vm_id)
    }
}

impl World {
    /// A number that no machine of the location has.
    pub(in crate::sim) fn take_vm_id(&mut self, location: &str) -> u64 {
        let here = self.cloudspaces.iter().filter(|c| c.location == location);
        let taken = here.flat_map(|c| &c.vms).map(|vm| vm.vm_id).max().unwrap_or(0);
        let Some(site) = self.find_site(location) else { return taken + 1 };
        let id = site.next_vm_id.max(taken + 1);
        site.next_vm_id = id + 1;
        id
    }

    /// The host for a machine: one with room, then one with as few of its groups' members as
    /// can be, then one with as few machines. None means 503 (vco-api.md 5.1, G8S).
    pub(in crate::sim) fn place(&self, space: &str, vm: &Vm) -> Option<u64> {
        let space = self.cloudspace(space)?;
        let site = self.locations.iter().find(|s| s.location == space.location)?;
        let here = self.cloudspaces.iter().filter(|c| c.location == space.location);
        let up: Vec<&Vm> = here.flat_map(|c| &c.vms).filter(|vm| vm.is_up()).collect();
        let groups: Vec<&Group> = space.groups_of(vm.vm_id).collect();
        let is_mate = |v: &&&Vm| groups.iter().any(|g| g.members.contains(&v.vm_id));
        let others = || up.iter().filter(|v| v.vm_id != vm.vm_id);
        let on = |stack: u64| others().filter(move |v| v.stack_id == stack);
        let with_mates = |stack: u64| on(stack).filter(is_mate).count();
        let mates: BTreeSet<u64> = others().filter(is_mate).map(|v| v.stack_id).collect();
        let spread = |g: &&Group| g.spread >= 0 && mates.len() as u64 >= g.spread.unsigned_abs();
        let may_share = !self.rules.anti_affinity_is_hard || groups.iter().any(spread);
        (1..=site.stacks())
            .filter(|stack| {
                let used: u64 = on(*stack).map(|v| v.memory).sum();
                site.stack_memory == 0 || used + vm.memory <= site.stack_memory
            })
            .filter(|stack| may_share || with_mates(*stack) == 0)
            .min_by_key(|stack| (with_mates(*stack), on(*stack).count(), *stack))
    }
}

impl super::super::world::Cloudspace {
    /// The groups that a machine is in.
    pub(in crate::sim) fn groups_of(&self, vm_id: u64) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |g| g.members.contains(&vm_id))
    }
}

impl Site {
    fn stacks(&self) -> u64 {
        if self.stacks == 0 { USUAL_STACKS } else { self.stacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "be-mac-dc01-001";

    /// A cloudspace with machines on these hosts, all in one group with the one to be placed.
    fn placed(stacks: &[u64], spread: i64, change: impl Fn(&mut World)) -> Option<u64> {
        let mut world = World::small();
        let id = world.add_cloudspace("acme_1", HERE, "a", "");
        let mut members = vec![0];
        for stack_id in stacks {
            let vm = Vm { stack_id: *stack_id, ..Vm::default() };
            members.push(world.add_vm_to(&id, vm));
        }
        let group = Group { group_id: "g".into(), spread, members };
        world.cloudspace_mut(&id).unwrap().groups.push(group);
        change(&mut world);
        world.place(&id, &Vm::default())
    }

    #[test]
    fn machines_of_a_group_are_spread() {
        let hard = |w: &mut World| w.rules.anti_affinity_is_hard = true;
        assert_eq!(placed(&[], -1, |_| ()), Some(1));
        assert_eq!(placed(&[1], -1, |_| ()), Some(2));
        assert_eq!(placed(&[1, 2], -1, hard), Some(3));
        assert_eq!(placed(&[1, 2, 3], -1, |_| ()), Some(1), "a soft rule bends");
        assert_eq!(placed(&[1, 2, 3], -1, hard), None);
        assert_eq!(placed(&[1, 2, 3], 3, hard), Some(1), "they are spread enough");
    }

    #[test]
    fn a_host_without_room_gets_no_machine() {
        assert_eq!(placed(&[1, 1], -1, |w| w.site(HERE).stack_memory = 4096), Some(2));
        assert_eq!(placed(&[1, 2, 3], -1, |w| w.site(HERE).stack_memory = 4095), None);
    }

    #[test]
    fn a_callers_user_data_lies_on_top_of_the_platforms() {
        let account = Account { login: "user".into(), password: "p".into() };
        let given = json!({
            "ssh_pwauth": false, "runcmd": ["mine"], "users": [{"name": "me"}], "hostname": "h",
        });
        let data = Userdata::new(given.as_object().unwrap().clone(), &account);
        let merged = Value::Object(data.merged);
        assert_eq!((&merged["ssh_pwauth"], &merged["runcmd"]), (&json!(false), &json!(["mine"])));
        assert_eq!(merged["users"][0]["name"], "user");
        assert_eq!(merged["users"][1]["name"], "me");
        assert_eq!(
            (&merged["hostname"], &merged["chpasswd"]["expire"]),
            (&json!("h"), &json!(false))
        );
        assert_eq!(Value::Object(data.given), given);
    }
}
