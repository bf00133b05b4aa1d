//! What passes over machines have found out, so that it is not asked again.
//!
//! Nothing here decides anything that could not be found out anew: after a restart it is empty.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::id::{CloudspaceId, Location};
use crate::manager::doubt::Tried;
use crate::vco::Image;

/// What is known of one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// When something was last changed about its VM: older lists do not count.
    pub touched: Option<Duration>,
    /// That the VM has everything it was to have before it is started.
    pub complete: bool,
    /// What was tried for it.
    pub tried: Tried,
}

type Images = HashMap<(u64, Location), (Duration, Arc<Vec<Image>>)>;

/// What is known of all machines and of images.
#[derive(Default)]
pub struct Memory {
    facts: Mutex<HashMap<String, Facts>>,
    images: Mutex<Images>,
    groups: Mutex<HashSet<(CloudspaceId, String)>>,
}

impl Memory {
    /// What is known of the machine of this uid.
    #[must_use]
    pub fn facts(&self, uid: &str) -> Facts {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.get(uid).cloned().unwrap_or_default()
    }

    /// Changes what is known of it.
    pub fn note(&self, uid: &str, change: impl FnOnce(&mut Facts)) {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        change(facts.entry(uid.to_owned()).or_default());
    }

    /// The machine is gone.
    pub fn forget(&self, uid: &str) {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Whether a cloudspace is known to have this anti-affinity group.
    #[must_use]
    pub fn knows_group(&self, cloudspace: &CloudspaceId, group: &str) -> bool {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.contains(&(cloudspace.clone(), group.to_owned()))
    }

    /// A cloudspace has this group.
    pub fn learn_group(&self, cloudspace: &CloudspaceId, group: &str) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.insert((cloudspace.clone(), group.to_owned()));
    }

    /// A group was not there after all, or the cloudspace is gone.
    pub fn forget_groups(&self, cloudspace: &CloudspaceId) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|(place, _)| place != cloudspace);
    }

    /// The images of a location as they were seen since `oldest`.
    #[must_use]
    pub fn images(&self, tenant: u64, at: &Location, oldest: Duration) -> Option<Arc<Vec<Image>>> {
        let images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, list) = images.get(&(tenant, at.clone()))?;
        (*seen >= oldest).then(|| Arc::clone(list))
    }

    /// Keeps a location's images.
    pub fn keep_images(&self, tenant: u64, at: &Location, seen: Duration, list: Arc<Vec<Image>>) {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        images.insert((tenant, at.clone()), (seen, list));
    }
}
