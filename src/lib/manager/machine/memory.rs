//! What passes over machines find out, and what several of them share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::id::CloudspaceId;
use crate::manager::doubt::Tried;
use crate::manager::memory::Deeds;

/// What is known of one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// When something was last changed about its VM: older lists do not count.
    pub touched: Option<Duration>,
    /// That the VM has everything it was to have before it is started.
    pub complete: bool,
    /// What was tried for it.
    pub tried: Tried,
    /// What was done last.
    pub deeds: Deeds,
    /// When it was first seen going while it was in the pool before the API.
    pub leaves: Option<Duration>,
}

/// What is known of an anti-affinity group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Group {
    /// Nothing: the cloud has to be asked.
    #[default]
    Unknown,
    /// A machine is making it.
    Making,
    /// It is there.
    There,
}

/// The anti-affinity groups of all cloudspaces. Several machines need the same one at the same
/// time, and one of them makes it.
#[derive(Debug, Default)]
pub struct Groups {
    known: Mutex<HashMap<(CloudspaceId, String), Group>>,
}

impl Groups {
    fn known(&self) -> MutexGuard<'_, HashMap<(CloudspaceId, String), Group>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a group.
    #[must_use]
    pub fn of(&self, cloudspace: &CloudspaceId, group: &str) -> Group {
        let place = (cloudspace.clone(), group.to_owned());
        self.known().get(&place).copied().unwrap_or_default()
    }

    /// A cloudspace has this group.
    pub fn learn(&self, cloudspace: &CloudspaceId, group: &str) {
        self.known().insert((cloudspace.clone(), group.to_owned()), Group::There);
    }

    /// A group was not there after all, or the cloudspace is gone.
    pub fn forget(&self, cloudspace: &CloudspaceId) {
        self.known().retain(|(place, _), _| place != cloudspace);
    }

    /// Whoever gets this makes the group; none if somebody else does or has done so.
    #[must_use]
    pub fn make(&self, cloudspace: &CloudspaceId, group: &str) -> Option<Making<'_>> {
        let place = (cloudspace.clone(), group.to_owned());
        let mut known = self.known();
        let state = known.entry(place.clone()).or_default();
        (*state == Group::Unknown).then(|| {
            *state = Group::Making;
            Making { groups: self, place }
        })
    }
}

/// A group that is being made. Dropped, nothing is known of it again.
#[derive(Debug)]
pub struct Making<'a> {
    groups: &'a Groups,
    place: (CloudspaceId, String),
}

impl Making<'_> {
    /// It is there.
    pub fn done(self) {
        self.groups.known().insert(self.place.clone(), Group::There);
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut known = self.groups.known();
        if known.get(&self.place) == Some(&Group::Making) {
            known.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_makes_a_group() {
        let groups = Groups::default();
        let (space, other) = ("a".parse().unwrap(), "b".parse().unwrap());
        let making = groups.make(&space, "g").unwrap();
        assert!(groups.make(&space, "g").is_none());
        assert_eq!(groups.of(&space, "g"), Group::Making);
        assert!(groups.make(&other, "g").is_some(), "names are a cloudspace's own");
        drop(making);
        assert_eq!(groups.of(&space, "g"), Group::Unknown);
        groups.make(&space, "g").unwrap().done();
        assert_eq!(groups.of(&space, "g"), Group::There);
        assert!(groups.make(&space, "g").is_none());
        groups.forget(&space);
        assert_eq!(groups.of(&space, "g"), Group::Unknown);
    }
}
