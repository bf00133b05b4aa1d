//! The database file of etcd: read, checked, summed up; whole, or as it passes by.
//!
//! **Invariants**
//! - Read by position, never mapped, never written; a bounded part of it is held at a time.
//! - No byte of it is trusted: any file at all ends in figures or in a [`Damage`].
//! - The figures are those of `etcdutl snapshot status`.
//!
//! **To add a figure:** collect it in `summary` where its bucket passes; if it must be known
//! from a stream too, look for it in `passing`.

mod census;
mod check;
mod damage;
mod facts;
mod file;
pub(in crate::etcd) mod page;
mod passing;
pub(in crate::etcd) mod row;
mod summary;
mod trailer;
pub(in crate::etcd) mod tree;

pub use check::Checked;
pub use damage::Damage;
pub use file::{Db, ReadAt};
pub use passing::{Passed, Passing};
pub use summary::{BucketSize, Member, Summary};
pub use trailer::{TRAILER, Trailer, has_trailer, judge, trailer};

#[cfg(test)]
mod tests;
