//! Backups at rest: sealed, compressed, described by a manifest, and found again.
//!
//! **May enter:** `fault`, `id`, `clock`, `progress`, `s3`, `etcd`; age only in `seal`, zstd only in
//! `pack`, tar only in `archive`.
//!
//! **Invariants**
//! - Without a manifest there is no backup; the manifest is written last.
//! - The newest good backup of a cluster is never given up.
//! - Nothing decrypted is believed before its last chunk was authenticated.
//! - Identities and passphrases never reach an error, a log or `Debug`; only line numbers do.
//!
//! **To add a field to the manifest:** make it optional in reading, write it always, and describe
//! it in docs/reference/manifest.md.

pub mod archive;
pub mod catalog;
mod error;
pub mod identity_file;
pub mod kind;
pub mod layout;
pub mod manifest;
pub mod pack;
pub mod passphrase;
pub mod pipe;
pub mod retention;
pub mod seal;
mod source;

pub use error::{Damage, Error, KeyFault, Place};
