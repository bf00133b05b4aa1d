//! `capvco-backup` as its users run it, against real peers.

mod bucket;
mod check;
mod hold;
mod permissions;
mod snapshot;
