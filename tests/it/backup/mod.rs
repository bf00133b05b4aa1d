//! `capvco-backup` as its users run it, against real peers.

mod check;
mod hold;
