//! What can keep a restore from being written.

use std::io;
use std::path::{Path, PathBuf};

use crate::etcd::Version;
use crate::etcd::db::Damage;
use crate::fault::{Class, Fault};

/// Why a data directory was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No member was named.
    #[error("the initial cluster has no members")]
    NoMembers,
    /// This member is not among those of the cluster.
    #[error("the initial cluster has no member {name:?}; it has {}", .known.join(", "))]
    NotAMember {
        /// This member's name.
        name: String,
        /// The names in the initial cluster.
        known: Vec<String>,
    },
    /// A peer URL that etcd would not take.
    #[error("peer URL {url:?} {why}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The same peer URL for two members.
    #[error("the initial cluster names {0} twice")]
    UrlTwice(String),
    /// What this member advertises is not what the cluster is told.
    #[error(
        "member {name:?} advertises {}, but the initial cluster says {}",
        .advertised.join(","), .cluster.join(",")
    )]
    UrlsDiffer {
        /// This member's name.
        name: String,
        /// What it advertises.
        advertised: Vec<String>,
        /// What the initial cluster says of it.
        cluster: Vec<String>,
    },
    /// One of the two without the other.
    #[error("bumping the revision and marking it compacted go together")]
    HalfABump,
    /// The revision would no longer be a number of etcd's.
    #[error("revision {revision} cannot be raised by {bump}")]
    BumpTooLarge {
        /// The snapshot's revision.
        revision: i64,
        /// By how much.
        bump: u64,
    },
    /// The target would read data that it does not know.
    #[error("etcd {target} may not be started on data of etcd {needs}")]
    TooOld {
        /// What would be started.
        target: Version,
        /// What the data asks for.
        needs: Version,
    },
    /// The database cannot be rewritten.
    #[error("the database cannot be made part of a new cluster")]
    Database(#[from] Damage),
    /// A file or folder could not be written.
    #[error("{} cannot be written", .path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`, with the path.
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Self::TooOld { .. } | Self::Write { .. } => Class::Refused,
            Self::Database(damage) => damage.class(),
            _ => Class::Usage,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotAMember { .. } => "the name must be one of --initial-cluster's",
            Self::UrlsDiffer { .. } => {
                "give the same URLs to --initial-advertise-peer-urls and --initial-cluster"
            }
            Self::BumpTooLarge { .. } => {
                "give --bump-revision what the cluster may have written since the backup, such as \
                 1000000000; the sum may be 4611686018427387904 (2^62) at most"
            }
            Self::HalfABump => "give both --bump-revision and --mark-compacted, or neither",
            Self::TooOld { .. } => {
                "restore with the etcd that made the backup, or a newer one; etcd itself does not \
                 always notice, and serves wrong data"
            }
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "make room there, or choose another place"
            }
            Self::Database(damage) => return damage.hints(),
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
