//! What passes over clusters find out.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::cluster::BackupSpec;
use crate::manager::doubt::Tried;
use crate::manager::memory::Deeds;

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
    /// The Secret that is held.
    pub held: Option<String>,
    /// What was tried for it.
    pub tried: Tried,
    /// What was done last.
    pub deeds: Deeds,
    /// What was deleted, by its name.
    pub deleted: BTreeSet<String>,
    /// The last look for its backups.
    pub backup: Option<Look>,
}
