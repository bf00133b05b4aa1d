//! `capvco-backup`: etcd into object storage under lock, and back.

mod args;
mod bucket;
mod check;
mod drill;
mod freshness;
mod hold;
mod list;
mod prune;
mod rekey;
mod restore;
mod snapshot;
mod verbs;
mod verify;

use std::process::ExitCode;

use capvco::cli::{self, Program};
use capvco::clock;

fn main() -> ExitCode {
    let program = Program {
        name: "capvco-backup",
        pause: clock::pause,
        unix: clock::unix,
        variables: Some("CAPVCO_BACKUP"),
        one_thread: true,
    };
    cli::run(program, verbs::run)
}
