//! `capvco-backup`: etcd into object storage under lock, and back.
//!
//! **May enter:** the ground floor, `vco`, `s3`, `etcd`, `snapshot`.
//!
//! **Invariants**
//! - A backup counts when its manifest, its data and its lock were seen, whoever made them.
//! - A restore is made in staging and swapped in by rename; what was there is moved aside, never
//!   removed.
//! - The newest good backup of a cluster is never pruned.
//!
//! **To add a verb:** a file or a folder of its name here with request, plan, apply and report as
//! needed, and a file of its flags in `src/bin/capvco-backup`.

pub mod bucket;
pub mod certificates;
pub mod check;
mod choice;
pub mod drill;
mod error;
mod fetch;
pub mod freshness;
mod held;
pub mod hold;
pub mod identities;
pub mod kubeadm;
pub mod list;
pub mod lock;
mod manifests;
pub mod node;
mod own_cluster;
pub mod prune;
pub mod recipients;
pub mod rekey;
pub mod restore;
pub mod snapshot;
mod target;
pub mod verify;
mod wording;

pub use crate::s3::{Checksum, Config as S3Config, Mode};
pub use crate::snapshot::pack::Layers;
pub use crate::snapshot::passphrase::AskPassphrase;
pub use crate::snapshot::retention::{Keep, UNLIMITED, Within};
pub use crate::snapshot::seal::{Identities, Recipients};
pub use error::Error;
pub use lock::LockWish;
pub use manifests::Manifests;
pub use node::Given as EtcdGiven;
pub use own_cluster::own_cluster;
pub use target::Target;
