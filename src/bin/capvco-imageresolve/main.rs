//! `capvco-imageresolve`: image ids by name, per location.

mod args;

use std::process::ExitCode;

use capvco::cli::{self, Program, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use capvco::resolve;

use args::{Args, Output};

fn main() -> ExitCode {
    let program = Program {
        name: "capvco-imageresolve",
        pause: clock::pause,
        unix: clock::unix,
        variables: None,
        one_thread: false,
    };
    cli::run(program, body)
}

async fn body(args: Args, session: Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = args.request()?;
    let config = args.cloud(&session).await?;
    let found = resolve::run(config, &request, clock::System::shared(), &session.cancel).await?;
    Ok(match args.form() {
        Output::Text(form) => {
            // A report that failed says why itself; then there is no text.
            let text = found.text(form)?;
            session.print_text(&found, &text)
        }
        Output::Report(format) => session.print(&found, format),
    })
}
