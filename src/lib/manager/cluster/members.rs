//! Which machines belong into the pool before the API. Pure.
//!
//! The balancer checks nobody's health (vco-api.md 7.3): a machine that is dead or goes leaves the
//! pool at once, and one that does not answer yet is not put into it, since each such member
//! breaks one connection in so many. The last one always stays.

use std::collections::BTreeSet;

use crate::api::VCOMachine;
use crate::api::contract::Machine;
use crate::api::machine::AddressType;
use crate::id::HostId;
use crate::vco::Host;

/// A machine of the control plane, as far as the pool is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its address in the private network.
    pub address: String,
    /// Whether its VM runs and nobody wants it gone.
    pub alive: bool,
    /// Whether it has become a Node: its API server has answered then.
    pub joined: bool,
}

/// What is to change in the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Addresses that are missing.
    pub add: Vec<String>,
    /// The ids of hosts that are wrong.
    pub remove: Vec<HostId>,
}

/// Looks at a machine; none without an address.
#[must_use]
pub fn candidate(vco: &VCOMachine, machine: Option<&Machine>) -> Option<Candidate> {
    let status = vco.status.as_ref()?;
    let address =
        status.addresses.iter().flatten().find(|on| on.kind == AddressType::InternalIP)?;
    let runs =
        status.vm_state.as_deref().is_some_and(|state| state.eq_ignore_ascii_case("RUNNING"));
    let goes = vco.metadata.deletion_timestamp.is_some()
        || machine.is_some_and(|machine| machine.metadata.deletion_timestamp.is_some());
    Some(Candidate {
        address: address.address.clone(),
        alive: runs && !goes && !machine.is_some_and(is_unhealthy),
        joined: machine.is_some_and(|machine| machine.status.node_ref.is_some()),
    })
}

/// Whether a health check has given the machine up.
fn is_unhealthy(machine: &Machine) -> bool {
    machine.status.conditions.iter().flatten().any(|condition| {
        condition.kind.as_deref() == Some("HealthCheckSucceeded")
            && condition.status.as_deref() == Some("False")
    })
}

/// The addresses that should be in the pool; none if nothing is known to be good.
#[must_use]
pub fn wanted(candidates: &[Candidate]) -> BTreeSet<String> {
    let of = |fits: &dyn Fn(&Candidate) -> bool| -> BTreeSet<String> {
        candidates.iter().filter(|one| fits(one)).map(|one| one.address.clone()).collect()
    };
    let good = of(&|one| one.alive && one.joined);
    // The first one cannot join before it is reached.
    if good.is_empty() { of(&|one| one.alive) } else { good }
}

/// What has to change for the pool to hold the wanted addresses. Nothing leaves it while nothing
/// good is known, and each address stays in it once.
#[must_use]
pub fn change(hosts: &[Host], wanted: &BTreeSet<String>) -> Change {
    if wanted.is_empty() {
        return Change::default();
    }
    let mut change = Change::default();
    let mut there = BTreeSet::new();
    for host in hosts {
        let address = host.address.as_deref().unwrap_or_default();
        if !wanted.contains(address) || !there.insert(address) {
            change.remove.push(host.id.clone());
        }
    }
    change.add = wanted.iter().filter(|one| !there.contains(one.as_str())).cloned().collect();
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(id: &str, address: &str) -> Host {
        Host { id: id.parse().unwrap(), address: Some(address.to_owned()) }
    }

    fn set(addresses: &[&str]) -> BTreeSet<String> {
        addresses.iter().map(|&one| one.to_owned()).collect()
    }

    fn one(address: &str, alive: bool, joined: bool) -> Candidate {
        Candidate { address: address.to_owned(), alive, joined }
    }

    #[test]
    fn who_lives_and_has_joined_belongs_in() {
        let all = [one("1", true, true), one("2", true, false), one("3", false, true)];
        assert_eq!(wanted(&all), set(&["1"]));
        assert_eq!(wanted(&all[1..]), set(&["2"]));
        assert_eq!(wanted(&all[2..]), set(&[]));
    }

    #[test]
    fn the_last_one_stays() {
        let hosts = [host("h1", "1")];
        assert_eq!(change(&hosts, &set(&[])), Change::default());
        let change = change(&hosts, &set(&["2"]));
        assert_eq!(
            (change.add, change.remove),
            (vec!["2".to_owned()], vec!["h1".parse().unwrap()])
        );
    }

    #[test]
    fn an_address_is_in_once() {
        let hosts = [host("h1", "1"), host("h2", "1"), host("h3", "3")];
        let change = change(&hosts, &set(&["1", "3"]));
        assert_eq!((change.add.len(), change.remove), (0, vec!["h2".parse().unwrap()]));
    }
}
