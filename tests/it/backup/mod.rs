//! `capvco-backup` as its users run it, against real peers.

mod bucket;
mod check;
mod drill;
mod files;
mod forged;
mod hold;
mod identities;
mod json;
mod list;
mod pages;
mod permissions;
mod prune;
mod rekey;
mod restore;
mod settings;
pub mod snapshot;
mod verify;
