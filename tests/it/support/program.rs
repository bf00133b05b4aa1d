//! Runs our programs as a user would, but with nothing inherited from the environment.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a program did.
#[derive(Debug)]
pub struct Done {
    /// Exit code; -1 where a signal ended it.
    pub code: i32,
    /// All of stdout.
    pub out: String,
    /// All of stderr.
    pub err: String,
}

impl Done {
    /// Fails the test, showing everything, unless the exit code is `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "exit code\n--- stdout\n{}\n--- stderr\n{}",
            self.out, self.err
        );
        self
    }

    /// stdout as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("stdout is no JSON ({e}):\n{}\n{}", self.out, self.err))
    }

    /// Fails the test unless stderr holds `text`.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.err.contains(text), "stderr lacks {text:?}:\n{}", self.err);
        self
    }
}

/// A program about to be run.
#[derive(Debug)]
pub struct Program {
    command: Command,
    stdin: Option<Vec<u8>>,
}

/// `capvco` with a clean environment.
pub fn capvco() -> Program {
    program(env!("CARGO_BIN_EXE_capvco"))
}

/// `capvco-imagepublish` with a clean environment.
pub fn imagepublish() -> Program {
    program(env!("CARGO_BIN_EXE_capvco-imagepublish"))
}

/// `capvco-imageresolve` with a clean environment.
pub fn imageresolve() -> Program {
    program(env!("CARGO_BIN_EXE_capvco-imageresolve"))
}

/// `capvco-backup` with a clean environment.
pub fn backup() -> Program {
    program(env!("CARGO_BIN_EXE_capvco-backup"))
}

/// `capvco-backup` with the bucket of the tests at `s3`, its keys in the environment.
pub fn backup_at(s3: &super::peers::s3::S3) -> Program {
    backup()
        .env("CAPVCO_BACKUP_S3_ENDPOINT", s3.endpoint())
        .env("CAPVCO_BACKUP_S3_BUCKET", super::peers::s3::BUCKET)
        .env("AWS_ACCESS_KEY_ID", s3.access_key())
        .env("AWS_SECRET_ACCESS_KEY", s3.secret_key())
        .env("AWS_EC2_METADATA_DISABLED", "true")
}

/// `capvco-e2e` with a clean environment.
pub fn e2e() -> Program {
    program(env!("CARGO_BIN_EXE_capvco-e2e"))
}

/// The program at `path`; only PATH, HOME and TMPDIR are set.
pub fn program(path: impl AsRef<Path>) -> Program {
    let mut command = Command::new(path.as_ref());
    command.env_clear();
    for name in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    Program { command, stdin: None }
}

impl Program {
    /// Adds arguments, split at white space: fine for everything that holds none.
    pub fn words(mut self, words: &str) -> Self {
        self.command.args(words.split_whitespace());
        self
    }

    /// Adds one argument as it is.
    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Sets one variable.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Gives it something to read.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Starts it, for tests that signal it or close its output.
    pub fn spawn(&mut self) -> Child {
        self.command
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the program starts");
        if let (Some(bytes), Some(mut pipe)) = (self.stdin.take(), child.stdin.take()) {
            // A program may stop reading early; that is its right.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        child
    }

    /// Starts it with `stdin` to read, which may stay open for as long as the test likes.
    pub fn spawn_reading(&mut self, stdin: impl Into<Stdio>) -> Child {
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().expect("the program starts")
    }

    /// Runs it to its end without holding up the test's runtime.
    pub async fn run(mut self) -> Done {
        let child = self.spawn();
        finish(child).await
    }
}

/// Waits for a started program.
pub async fn finish(child: Child) -> Done {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output())
        .await
        .expect("the waiting thread lives")
        .expect("the program can be waited for");
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
