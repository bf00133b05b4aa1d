//! etcd: its gRPC as far as a backup needs it, and the files it keeps.
//!
//! **May enter:** `fault`, `clock`; tonic and prost only here.
//!
//! **Invariants**
//! - A snapshot stream ends well only after its SHA-256 trailer was recomputed and fits.
//! - Files are read by position, never mapped, and never written while they are verified.
//! - What we write for a restore is what etcd's own tools would accept: pages are only appended,
//!   and everything is on disk before the place it belongs to is swapped.
//!
//! **To add a call:** declare its messages in `wire` with their field numbers and source, and put
//! a method on `Client`.

mod access;
mod client;
pub mod db;
mod error;
mod probe;
pub mod receive;
pub mod restore;
mod stream;
mod trouble;
mod version;
mod wire;

pub use access::{Access, DIAL_TIMEOUT};
pub use client::{Alarm, AlarmKind, Client, HashKv, Member, Status};
pub use error::{Error, Kind};
pub use stream::{Chunk, Messages, SnapshotStream};
pub use version::{NoVersion, Version};

#[cfg(test)]
#[path = "../../../tests/it/support/bolt.rs"]
mod bolt;
