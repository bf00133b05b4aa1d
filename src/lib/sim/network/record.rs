//! A cloudspace, its ways to the outside, and what may be in it: state and rules, no I/O.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::super::doing::{Doing, staged};
use super::super::ingress::record::{Balancer, Forward, Pool};
use super::super::machine::record::{Group, Vm};
use super::super::objectspace::record::Note;
use super::super::reply::Reply;
use super::super::world::{Site, World};
use super::range::Range;

/// The network that a cloudspace has if nobody says (vco-api.md 4.1).
pub(in crate::sim) const USUAL_NETWORK: &str = "192.168.103.0/24";

/// A cloudspace: one network behind one firewall, and what is in it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cloudspace {
    /// Opaque to clients; `<location>:<number>` in URL-safe base64 (vco-api.md 0.3, EX). Made up
    /// if it is empty.
    pub cloudspace_id: String,
    /// The number inside the id.
    pub number: u64,
    /// Its owner.
    pub customer_id: String,
    /// Where it is.
    pub location: String,
    /// Unique per customer, the recycle bin included (G8S, G8D).
    pub name: String,
    /// `DEPLOYED` when it works; `DISABLED`, `DELETED`, `DESTROYED`, or anything of 4.1.
    pub status: String,
    /// Its network; `192.168.103.0/24` if it is empty (vco-api.md 4.1).
    pub private_network: String,
    /// The domain of its machines.
    pub local_domain: String,
    /// Whether its firewall has no way to the outside.
    pub private: bool,
    /// The external addresses of its firewall, the first of them first. Without any, and not
    /// private, it gets one at the start.
    pub uplinks: Vec<Uplink>,
    /// What it may use.
    pub quota: Quota,
    /// When it was made, in seconds since 1970.
    pub created: f64,
    /// When it was put into the recycle bin, in seconds since 1970.
    pub deleted: f64,
    /// Its notes.
    pub notes: Vec<Note>,
    /// Its machines, the destroyed ones too.
    pub vms: Vec<Vm>,
    /// Its anti-affinity groups.
    pub groups: Vec<Group>,
    /// Its server pools.
    pub pools: Vec<Pool>,
    /// Its load balancers.
    pub balancers: Vec<Balancer>,
    /// Its port forwards.
    pub forwards: Vec<Forward>,
    /// The number in the next id of a pool, host, load balancer or port forward.
    #[serde(skip_serializing)]
    pub next_id: u64,
    /// What is being done to it.
    #[serde(skip)]
    pub doing: Option<Doing>,
}

staged!(Cloudspace);

/// An external address of a cloudspace's firewall.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Uplink {
    /// The network that it is of.
    pub external_network_id: u64,
    /// The address, without a prefix length.
    pub ip: String,
    /// Lower is preferred (vco-api.md 4.3).
    pub metric: u64,
}

/// A network outside the cloudspaces of a location.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExternalNetwork {
    /// Unique within the location.
    pub external_network_id: u64,
    /// Its name.
    pub name: String,
    /// Such as `127.77.0.0/24`: load balancers really listen on these addresses.
    pub network: String,
    /// Whether guests get their address from it.
    pub dhcp: bool,
    /// Whether it is the internet.
    pub public: bool,
    /// Addresses that others have.
    pub taken: Vec<String>,
}

/// What a cloudspace may use; -1 is without limit (vco-api.md 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// Virtual CPUs.
    pub vcpu: i64,
    /// Memory, in GiB (G8S: GB-class).
    pub memory: f64,
    /// Disks, in GiB.
    pub vdisk_space: i64,
    /// Public addresses, the firewall's included.
    pub public_ip: i64,
    /// Traffic, in GB; recorded, not counted.
    pub external_network: i64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { vcpu: -1, memory: -1.0, vdisk_space: -1, public_ip: -1, external_network: -1 }
    }
}

impl Cloudspace {
    /// The id that goes with a location and a number.
    pub(in crate::sim) fn id_of(location: &str, number: u64) -> String {
        URL_SAFE_NO_PAD.encode(format!("{location}:{number}"))
    }

    pub(in crate::sim) fn network(&self) -> &str {
        if self.private_network.is_empty() { USUAL_NETWORK } else { &self.private_network }
    }

    /// Its network as numbers; one that is none has no addresses.
    pub(in crate::sim) fn range(&self) -> Option<Range> {
        Range::parse(self.network())
    }

    /// Its first external address, without a prefix length.
    #[must_use]
    pub fn external_ip(&self) -> Option<&str> {
        self.uplinks.first().map(|uplink| uplink.ip.as_str())
    }

    /// Whether it is not gone for good.
    pub(in crate::sim) fn exists(&self) -> bool {
        self.status != "DESTROYED"
    }

    /// Whether it works.
    pub(in crate::sim) fn works(&self) -> bool {
        self.shown() == "DEPLOYED"
    }

    /// The machine of this number.
    #[must_use]
    pub fn vm(&self, vm_id: u64) -> Option<&Vm> {
        self.vms.iter().find(|vm| vm.vm_id == vm_id)
    }

    pub(in crate::sim) fn vm_mut(&mut self, vm_id: u64) -> Option<&mut Vm> {
        self.vms.iter_mut().find(|vm| vm.vm_id == vm_id)
    }

    /// An id that nothing in it has yet.
    pub(in crate::sim) fn take_id(&mut self, kind: &str) -> String {
        self.next_id += 1;
        format!("{kind}-{}-{}", self.number, self.next_id)
    }
}

impl Site {
    /// The external network of this number.
    pub(in crate::sim) fn external(&self, id: u64) -> Option<&ExternalNetwork> {
        self.external_networks.iter().find(|n| n.external_network_id == id)
    }
}

impl World {
    /// The cloudspace of this id.
    #[must_use]
    pub fn cloudspace(&self, id: &str) -> Option<&Cloudspace> {
        self.cloudspaces.iter().find(|c| c.cloudspace_id == id)
    }

    /// The same, to be changed.
    pub fn cloudspace_mut(&mut self, id: &str) -> Option<&mut Cloudspace> {
        self.cloudspaces.iter_mut().find(|c| c.cloudspace_id == id)
    }

    /// A number that no cloudspace has.
    pub(in crate::sim) fn take_cloudspace_number(&self) -> u64 {
        self.cloudspaces.iter().map(|c| c.number).max().unwrap_or(1300).max(1300) + 1
    }

    /// The free addresses of an external network, from the bottom up.
    pub(in crate::sim) fn free_public(&self, location: &str, network: u64) -> Vec<String> {
        let site = self.locations.iter().find(|s| s.location == location);
        let Some(outside) = site.and_then(|s| s.external(network)) else { return Vec::new() };
        let here = self.cloudspaces.iter().filter(|c| c.location == location && c.exists());
        let mut taken: BTreeSet<&str> = outside.taken.iter().map(String::as_str).collect();
        for space in here {
            taken.extend(space.uplinks.iter().map(|u| u.ip.as_str()));
            let nics = space.vms.iter().filter(|vm| vm.exists()).flat_map(|vm| &vm.nics);
            taken.extend(nics.map(|nic| nic.ip.as_str()));
        }
        let hosts = Range::parse(&outside.network).into_iter().flat_map(Range::hosts);
        hosts.filter(|ip| !taken.contains(ip.as_str())).collect()
    }

    /// An address for a firewall: the one that is wanted, or the first free one. None is 503
    /// (vco-api.md 4.1, G8S), one that is taken or foreign 400 (inference).
    pub(in crate::sim) fn public_address(
        &self,
        location: &str,
        network: u64,
        wanted: &str,
    ) -> Result<String, Reply> {
        let free = self.free_public(location, network);
        let wanted = wanted.split('/').next().unwrap_or_default();
        if wanted.is_empty() {
            let none = || Reply::error(503, "No external ip address is free");
            return free.into_iter().next().ok_or_else(none);
        }
        let taken = || Reply::error(400, format!("Ip address {wanted} is not free"));
        free.into_iter().find(|ip| ip == wanted).ok_or_else(taken)
    }

    /// The free private addresses of a cloudspace, from the bottom up.
    pub(in crate::sim) fn free_private(&self, space: &Cloudspace) -> Vec<String> {
        let vms = space.vms.iter().filter(|vm| vm.lives());
        let mut taken: BTreeSet<&str> = vms.map(|vm| vm.private_ip.as_str()).collect();
        let links = self.objectspaces.iter().flat_map(|o| &o.links);
        let links = links.filter(|l| l.cloudspace_id == space.cloudspace_id);
        taken.extend(links.map(|l| l.ip_address.as_str()));
        let hosts = space.range().into_iter().flat_map(Range::hosts);
        hosts.filter(|ip| !taken.contains(ip.as_str())).collect()
    }

    /// Gives the firewall of a cloudspace its first external address, if there is one.
    pub(in crate::sim) fn link_up(&mut self, at: usize) {
        let space = &self.cloudspaces[at];
        if space.private || !space.uplinks.is_empty() || !space.exists() {
            return;
        }
        let site = self.locations.iter().find(|s| s.location == space.location);
        let Some(network) = site.and_then(|s| s.external_networks.first()) else { return };
        let external_network_id = network.external_network_id;
        let Ok(ip) = self.public_address(&space.location, external_network_id, "") else { return };
        let uplink = Uplink { external_network_id, ip, metric: 1 };
        self.cloudspaces[at].uplinks.push(uplink);
    }
}
