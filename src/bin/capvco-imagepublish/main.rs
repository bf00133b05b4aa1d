//! `capvco-imagepublish`: one image, usable under one name in many locations.

mod args;

use std::process::ExitCode;

use capvco::cli::{self, Program, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::publish::{self, Context};
use capvco::report::Verdict;

use args::Args;

fn main() -> ExitCode {
    let program = Program {
        name: "capvco-imagepublish",
        pause: clock::pause,
        unix: clock::unix,
        variables: None,
        one_thread: false,
    };
    cli::run(program, body)
}

async fn body(args: Args, session: Session) -> Result<Verdict, Box<dyn Fault>> {
    let cloud = args.cloud(&session).await?;
    let context = Context {
        clock: clock::System::shared(),
        progress: session.progress.clone(),
        cancel: session.cancel.clone(),
    };
    let report = Box::pin(publish::run(&args.inputs(), cloud, context)).await?;
    Ok(session.print(&report, args.format()))
}
