//! `capvco-e2e`: the embedded cloud as a program, and a server of image files beside it.

mod args;
mod cloud;
mod exports;
mod image_server;

use std::process::ExitCode;

use args::{Args, Verb};
use capvco::cli::{self, Program};
use capvco::clock;

fn main() -> ExitCode {
    let program = Program {
        name: "capvco-e2e",
        pause: clock::pause,
        unix: clock::unix,
        variables: None,
        one_thread: false,
    };
    cli::run(program, |args: Args, session| async move {
        match args.verb {
            Verb::Cloud(args) => cloud::run(*args, &session).await,
            Verb::ImageServer(args) => image_server::run(args, &session).await,
        }
    })
}
