//! `capvco`: the provider for Cluster API, and what its releases consist of.

mod args;
mod manager;
mod release;

use std::process::ExitCode;

use args::{Args, Verb};
use capvco::cli::{self, Program};
use capvco::clock;

fn main() -> ExitCode {
    let program = Program {
        name: "capvco",
        pause: clock::pause,
        unix: clock::unix,
        variables: None,
        one_thread: false,
    };
    cli::run(program, |args: Args, session| async move {
        match args.verb {
            Verb::Manager(args) => manager::run(*args, &session).await,
            Verb::Release(args) => release::run(&args.part, &session),
        }
    })
}
