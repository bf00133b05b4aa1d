//! What is asked for.

use std::path::PathBuf;

use crate::backup::Target;
use crate::id::Location;
use crate::s3::Mode;
use crate::vco::{Config, Publish};

/// A bucket to be made.
#[derive(Debug, Clone)]
pub struct Request {
    /// The bucket's name, the prefix of backups in it, and how S3 is reached. Without an
    /// endpoint the objectspace's own is tried.
    pub target: Target,
    /// Who makes it.
    pub place: Place,
    /// What every new object gets: the mode, and for how many days.
    pub default_lock: Option<(Mode, u32)>,
    /// After how many days the store itself ends unfinished uploads.
    pub abort_after_days: u32,
    /// Only say what would be made.
    pub dry_run: bool,
}

/// Who makes a bucket.
#[derive(Debug, Clone)]
pub enum Place {
    /// Plain S3, with the keys of the environment. Keys for others are that store's own matter.
    Plain,
    /// The portal.
    Portal(Box<Portal>),
}

/// A bucket of an objectspace.
#[derive(Debug, Clone)]
pub struct Portal {
    /// The portal, and who we are there.
    pub cloud: Config,
    /// Where the objectspace is, or is to be.
    pub location: Location,
    /// Its name or id; made if there is none of that name.
    pub objectspace: String,
    /// How a new one is reached from outside.
    pub publish: Option<Publish>,
    /// What the names of the keys begin with: `NAME-rw` and `NAME-r`.
    pub key_name: String,
    /// Where the key for the schedule is written to.
    pub write_key_file: PathBuf,
    /// Where the key for restores is written to.
    pub read_key_file: PathBuf,
}
