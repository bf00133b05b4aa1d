//! What leads from a cloudspace's external addresses to its machines: state, no I/O.

use serde::{Deserialize, Serialize};

use super::super::world::Cloudspace;

/// A server pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Its id; made up if it is empty.
    pub serverpool_id: String,
    /// Its name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Whether it is the platform's own (vco-api.md 7.5, inference).
    pub locked: bool,
    /// Who is in it, dead or alive.
    pub hosts: Vec<Host>,
}

/// A host of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Its id; made up if it is empty.
    pub host_id: String,
    /// IPv4, IPv6 or a name.
    pub address: String,
}

/// A load balancer: it listens on a front end and spreads connections over a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Balancer {
    /// Its id; made up if it is empty.
    pub loadbalancer_id: String,
    /// Its name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Whether it is the platform's own.
    pub locked: bool,
    /// `TCP` or `UDP`, as its maker wrote it; only TCP is really served.
    pub kind: String,
    /// The port of the front end.
    pub port: u16,
    /// Its address; every external one of the cloudspace if it is empty.
    pub ip_address: String,
    /// Whether TLS is on, for which domain, and whether it ends here; recorded, not served.
    pub tls: Tls,
    /// The pool.
    pub serverpool_id: String,
    /// The port of the pool's hosts.
    pub target_port: u16,
}

/// What a front end says of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Whether it is on.
    pub is_enabled: bool,
    /// The name (SNI) it is for.
    pub domain: String,
    /// Whether it ends at the load balancer.
    pub tls_termination: bool,
}

/// A port forward; recorded, nothing listens there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forward {
    /// Its id; made up if it is empty.
    pub portforward_id: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The port on the machine.
    pub local_port: u16,
    /// The port outside.
    pub public_port: u16,
    /// The last port of a range outside.
    pub till_public_port: Option<u16>,
    /// The address outside, without a prefix length.
    pub public_ip: String,
    /// The machine.
    pub vm_id: u64,
}

impl Cloudspace {
    /// The pool of this id.
    #[must_use]
    pub fn pool(&self, id: &str) -> Option<&Pool> {
        self.pools.iter().find(|p| p.serverpool_id == id)
    }

    /// Makes up the ids that a world's file left out.
    pub(in crate::sim) fn complete_ids(&mut self) {
        let number = self.number;
        let next = &mut self.next_id;
        let mut fill = |id: &mut String, kind: &str| {
            if id.is_empty() {
                *next += 1;
                *id = format!("{kind}-{number}-{next}");
            }
        };
        for pool in &mut self.pools {
            fill(&mut pool.serverpool_id, "pool");
            pool.hosts.iter_mut().for_each(|host| fill(&mut host.host_id, "host"));
        }
        self.balancers.iter_mut().for_each(|b| fill(&mut b.loadbalancer_id, "lb"));
        self.forwards.iter_mut().for_each(|f| fill(&mut f.portforward_id, "pf"));
    }
}
