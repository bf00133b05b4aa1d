//! A program's life: understand the command line, start, work, say how it went.

use std::any::Any;
use std::future::Future;
use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use tokio_util::sync::CancellationToken;

use super::args::{CloudArgs, Color, Format, LogFormat, Talk};
use super::diagnose::{self, Label, Line};
use super::progress::Screen;
use super::terminal::{self, Terminal};
use super::{env, exit, goflags, log, passphrase, print, signals, variables};
use crate::disk;
use crate::fault::Fault;
use crate::progress::Progress;
use crate::report::{Report, Verdict};

/// Which program this is, and what it lends to the door.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The program's name, such as `capvco-imagepublish`.
    pub name: &'static str,
    /// Lets time pass ([`crate::clock::pause`]): the door itself knows no clock.
    pub pause: fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Seconds since 1970 ([`crate::clock::unix`]), for logs that say when.
    pub unix: fn() -> f64,
    /// Where every option has a variable: the beginning of their names, such as `CAPVCO_BACKUP`.
    pub variables: Option<&'static str>,
    /// Whether all that waits, waits in one thread, for a program that moves one stream: handing
    /// every message of it from thread to thread costs as much as compressing it. What computes
    /// must then be in blocking threads.
    pub one_thread: bool,
}

/// The version of all programs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A program's whole command line.
pub trait Flags: clap::Parser {
    /// How much to say; usually `self.output.talk()`.
    fn talk(&self) -> Talk;
}

/// What a program has while it runs.
pub struct Session {
    /// Cancelled by the first Ctrl-C, SIGTERM or SIGHUP. The second ends the program at once.
    pub cancel: CancellationToken,
    /// Where a tool's progress goes.
    pub progress: Arc<dyn Progress>,
    /// `NAME/VERSION`, for calls to other machines.
    pub user_agent: String,
    /// How much is logged.
    pub log: log::Dial,
    screen: Arc<Screen>,
    terminal: Terminal,
}

impl Session {
    /// The token that `given` leads to. Reading it may take for ever, where somebody is to type
    /// it, so that Ctrl-C ends the waiting.
    pub async fn token(&self, given: &CloudArgs) -> Result<env::Token, env::NoToken> {
        let (given, progress) = (given.clone(), Arc::clone(&self.progress));
        let reading = tokio::task::spawn_blocking(move || given.token(progress.as_ref()));
        match self.cancel.run_until_cancelled(reading).await {
            Some(read) => read.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic())),
            None => Err(env::NoToken::Interrupted),
        }
    }

    /// Writes the report to stdout and its remarks to stderr, and hands on its verdict.
    ///
    /// A reader that went away is no failure; a stdout that cannot be written is.
    pub fn print<R: Report>(&self, report: &R, format: Format) -> Verdict {
        self.screen.clear();
        let mut out = io::BufWriter::new(io::stdout().lock());
        let written = print::write(&mut out, report, format, self.terminal.width);
        self.after(written, report)
    }

    /// The same for a form that only this program knows.
    pub fn print_text<R: Report>(&self, report: &R, text: &str) -> Verdict {
        self.screen.clear();
        self.after(write_out(text), report)
    }

    /// Writes `text` as it is to stdout at once, for a program that has no report.
    pub fn put(&self, text: &str) -> io::Result<()> {
        unless_closed(write_out(text))
    }

    fn after<R: Report>(&self, written: io::Result<()>, report: &R) -> Verdict {
        let remarks = report.remarks().into_iter().map(Line::from).collect();
        self.screen.lines(&diagnose::without_repeats(remarks));
        match (unless_closed(written), report.verdict()) {
            (Ok(()), verdict) => verdict,
            (Err(error), verdict) => {
                let text = format!("write the results to stdout: {error}");
                self.screen.lines(&[Line::new(Label::Error, text)]);
                if verdict == Verdict::Done { Verdict::Failed } else { verdict }
            }
        }
    }
}

fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// `| head` has seen enough: that is its right.
fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Runs a program: parses the command line into `A`, calls `body`, and maps what comes back.
///
/// `--help` and `--version` end with 0 and wrong flags with 2 before anything is started.
pub fn run<A, F, Fut>(program: Program, body: F) -> ExitCode
where
    A: Flags,
    F: FnOnce(A, Session) -> Fut,
    Fut: Future<Output = Result<Verdict, Box<dyn Fault>>>,
{
    let strange = variables::strange(&A::command(), program.variables);
    let args: A = match parse(program, env::words()) {
        Ok(args) => args,
        Err(error) => {
            if error.use_stderr() {
                // What seems to be missing may stand in a variable that is mistyped.
                let warnings = strange.iter().map(|text| Line::new(Label::Warning, text));
                terminal::complain(Terminal::look(Color::Auto), &warnings.collect::<Vec<_>>());
            }
            // Help may go into a closed pipe like any other output.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
        }
    };
    // Before anything else can make a file.
    disk::keep_private();
    let talk = args.talk();
    let terminal = match talk.logs {
        LogFormat::Text => Terminal::look(talk.color),
        LogFormat::Json => Terminal::look(talk.color).for_machines(program.unix),
    };
    report_bugs(program.name, terminal);
    let screen = Arc::new(Screen::new(terminal, talk.quiet));
    let log = log::start(Arc::clone(&screen), talk);
    for text in &strange {
        screen.warn(text);
    }
    // Only a second call in one process finds a provider installed: it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let session = Session {
        cancel: CancellationToken::new(),
        progress: Arc::clone(&screen) as Arc<dyn Progress>,
        user_agent: format!("{}/{VERSION}", program.name),
        log,
        screen: Arc::clone(&screen),
        terminal,
    };
    if let Err(error) = env::bounded_files() {
        return ExitCode::from(conclude(Ok(Err(error.into())), &screen));
    }
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| {
        work(program, &screen, session.cancel.clone(), || body(args, session))
    }));
    ExitCode::from(conclude(ended, &screen))
}

fn parse<A: Flags>(
    program: Program,
    words: impl Iterator<Item = std::ffi::OsString>,
) -> Result<A, clap::Error> {
    let command = A::command().name(program.name).bin_name(program.name).version(VERSION);
    let mut command = match program.variables {
        Some(prefix) => variables::attach(command, prefix),
        None => command,
    };
    command.build();
    let words = goflags::rewrite(words, &command);
    let color = terminal::for_clap(terminal::color_among(&words));
    let mut command = command.color(color);
    let matches = command.try_get_matches_from_mut(words).map_err(with_tip)?;
    A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Says what is to be written instead of what people often write.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.as_str(),
        _ => "",
    };
    let tip = match (error.kind(), flag) {
        (ErrorKind::UnknownArgument, "--json" | "--ndjson" | "--env" | "--table") => {
            format!("write -output {}", flag.trim_start_matches('-'))
        }
        (ErrorKind::TooManyValues, _) => "a switch takes =true or =false".to_owned(),
        _ => return error,
    };
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Starts the runtime, and lets `body` run beside the signal handler and the heartbeat.
fn work<Fut>(
    program: Program,
    screen: &Arc<Screen>,
    cancel: CancellationToken,
    body: impl FnOnce() -> Fut,
) -> Result<Verdict, Box<dyn Fault>>
where
    Fut: Future<Output = Result<Verdict, Box<dyn Fault>>>,
{
    let mut runtime = if program.one_thread {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime =
        runtime.enable_all().build().expect("a process that may not start threads can do nothing");
    let ended = runtime.block_on(async {
        let beats = Arc::default();
        tokio::spawn(beat(Arc::clone(screen), program, Arc::clone(&beats)));
        watch(program, screen, cancel, beats);
        body().await
    });
    passphrase::unhide();
    // A blocked read of stdin must not keep a finished program alive.
    runtime.shutdown_background();
    ended
}

async fn beat(screen: Arc<Screen>, program: Program, beats: Arc<AtomicU64>) {
    loop {
        (program.pause)(Duration::from_secs(1)).await;
        screen.beat();
        beats.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long a program that was asked to stop may show no sign of life.
const DEAF: Duration = Duration::from_secs(8);

/// Listens for signals in a thread of its own, so that they are heard even while another one is
/// stuck in the system (in a read from a dead server's disk): such a program is ended. On return
/// they are caught.
fn watch(program: Program, screen: &Arc<Screen>, cancel: CancellationToken, beats: Arc<AtomicU64>) {
    let screen = Arc::clone(screen);
    let (told, caught) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else {
            return screen.warn("signals cannot be caught: Ctrl-C ends the program at once");
        };
        let stopped = Arc::clone(&screen);
        let asked = move || {
            stop(&stopped, &cancel);
            tokio::spawn(end_if_deaf(program, Arc::clone(&stopped), Arc::clone(&beats)));
        };
        runtime.block_on(signals::obey(screen, move || drop(told), asked));
    });
    // Nobody sends: the other end goes when signals are caught, or cannot be.
    let _ = caught.recv();
}

async fn end_if_deaf(program: Program, screen: Arc<Screen>, beats: Arc<AtomicU64>) {
    let before = beats.load(Ordering::Relaxed);
    (program.pause)(DEAF).await;
    if beats.load(Ordering::Relaxed) == before {
        screen.warn("the program is stuck in a read or write that does not end: it is ended");
        passphrase::unhide();
        std::process::exit(i32::from(exit::KILLED));
    }
}

/// The first signal asks the program to stop, the second ends it.
fn stop(screen: &Screen, cancel: &CancellationToken) {
    if cancel.is_cancelled() {
        passphrase::unhide();
        std::process::exit(i32::from(exit::KILLED));
    }
    screen.say("stopping; a second Ctrl-C ends at once");
    cancel.cancel();
}

/// A panic is a bug of ours, and is said like any other error.
fn report_bugs(name: &'static str, terminal: Terminal) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|at| format!(" at {at}")).unwrap_or_default();
        let text = format!("{name} {VERSION} met a bug{place}: {}", said(panic.payload()));
        let mut lines = vec![Line::new(Label::Error, text)];
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            lines.push(Line::new(Label::CausedBy, format!("\n{trace}")));
        }
        let hint = "please report it with the command that led here, without its secrets";
        lines.push(Line::new(Label::Hint, hint));
        terminal::complain(terminal, &lines);
    }));
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

type Ended = Result<Result<Verdict, Box<dyn Fault>>, Box<dyn Any + Send>>;

fn conclude(ended: Ended, screen: &Screen) -> u8 {
    screen.clear();
    match ended {
        Ok(Ok(verdict)) => exit::of_verdict(verdict),
        Ok(Err(error)) => {
            screen.lines(&diagnose::lines(error.as_ref()));
            exit::of_class(error.class())
        }
        Err(_panic) => exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;

    use super::*;
    use crate::cli::OutputArgs;
    use crate::fault::Class;

    #[derive(Debug, Parser)]
    #[command(about = "A program of this test")]
    struct Args {
        #[arg(long, required = true)]
        url: String,
        #[command(flatten)]
        output: OutputArgs,
    }

    impl Flags for Args {
        fn talk(&self) -> Talk {
            self.output.talk()
        }
    }

    const PROGRAM: Program = Program {
        name: "capvco-test",
        pause: |_| Box::pin(async {}),
        unix: || 0.0,
        variables: None,
        one_thread: false,
    };

    fn parsed(words: &[&str]) -> Result<Args, clap::Error> {
        let words = std::iter::once("x").chain(words.iter().copied()).map(OsString::from);
        parse(PROGRAM, words)
    }

    #[test]
    fn the_command_line_ends_early_with_its_own_codes() {
        assert_eq!(parsed(&["-url", "-x", "-vv"]).unwrap().url, "-x");
        for (words, code, text) in [
            (&["-version"][..], 0, "capvco-test 0."),
            (&["--help"], 0, "A program of this test"),
            (&["-foo"], 2, "--foo"),
            (&["-url", "x", "-json"], 2, "tip: write -output json"),
            (&["-url", "x", "-quiet=yes"], 2, "tip: a switch takes =true or =false"),
            (&[], 2, "--url"),
        ] {
            let error = parsed(words).unwrap_err();
            assert_eq!(error.exit_code(), code, "{words:?}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no")]
    struct No(Class);

    impl Fault for No {
        fn class(&self) -> Class {
            self.0
        }
    }

    #[test]
    fn every_end_has_its_exit_code() {
        let terminal = Terminal { bars: false, width: None, color: false, json: None };
        let screen = Screen::new(terminal, true);
        assert_eq!(conclude(Ok(Ok(Verdict::LeftBehind)), &screen), 5);
        assert_eq!(conclude(Ok(Err(No(Class::Auth).into())), &screen), 3);
        assert_eq!(conclude(Err(Box::new("bug")), &screen), 1);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        assert!(unless_closed(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(unless_closed(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
