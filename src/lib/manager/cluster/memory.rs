//! What passes over clusters have found out, so that it is not asked again at once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::api::cluster::BackupSpec;
use crate::manager::doubt::Tried;

/// A look at the cloud that found everything in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// When.
    pub at: Duration,
    /// Of which generation of the object.
    pub generation: Option<i64>,
    /// With which addresses in the pool.
    pub members: BTreeSet<String>,
}

/// A look for backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub at: Duration,
    /// Where.
    pub of: BackupSpec,
}

/// What is known of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The last look that found everything in order.
    pub settled: Option<Settled>,
    /// Whether its Secret is held.
    pub held: bool,
    /// What was tried for it.
    pub tried: Tried,
    /// The last look for its backups.
    pub backup: Option<Look>,
}

/// What is known of all clusters.
#[derive(Default)]
pub struct Memory {
    facts: Mutex<HashMap<String, Facts>>,
}

impl Memory {
    /// What is known of the cluster of this uid.
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

    /// The cluster is gone.
    pub fn forget(&self, uid: &str) {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}
