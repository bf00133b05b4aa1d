//! A data directory of etcd, made from a snapshot without etcd's tools.
//!
//! The database is not loaded and not mapped: a few pages are written behind its last one, then
//! its meta pages; beside it go the first segment of a write-ahead log and, for etcd up to 3.6,
//! a `.snap` file.
//!
//! **Invariants**
//! - [`prepare`] decides everything and touches nothing; [`write()`] decides nothing.
//! - Old pages are never changed, so what was verified is what etcd will read.
//! - When [`write()`] returns, all of it is on disk.
//!
//! **To change one more fact of the database:** see `rewrite`, and say which file of etcd's asks
//! for it.

mod append;
mod error;
mod member;
mod plan;
mod rewrite;
mod snap;
mod wal;
mod write;

use super::Version;

pub use error::Error;
pub use member::NewMember;
pub use plan::{Cluster, Plan, Prepared, prepare};
pub use write::{Restored, write};

#[cfg(test)]
mod tests;
