//! A server of the proving ground: a process that does not outlive us.
//!
//! A shell stands between: it starts the server and holds the other end of a pipe that we hold.
//! However we end, by a drop, a panic or SIGKILL, the pipe closes, and the shell kills the server.
//! Both are a process group of their own, so that Ctrl-C meets only us.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `$@`: the program and its arguments. The servers' own variables are unset, but for those that
/// we set: whatever they say is meant for another one.
const SHELL: &str = r#"
exec 3<&0 </dev/null
for name in $(env | sed -n 's/^\(ETCD_[A-Z0-9_]*\|VGW_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
"$@" 3<&- &
server=$!
{ read -r _ <&3; kill -9 "$server" 2>/dev/null; } &
watch=$!
exec 3<&-
wait "$server"
code=$?
kill -9 "$watch" 2>/dev/null
exit "$code"
"#;

/// A running server. Dropping it kills it, and waits until it is dead.
#[derive(Debug)]
pub(super) struct Process {
    shell: Child,
}

impl Process {
    /// Starts a program; what it says is appended to `log`.
    pub(super) fn start(program: &Path, args: &[String], log: &Path) -> io::Result<Self> {
        Self::start_with(program, args, &[], log)
    }

    /// The same, with variables: arguments can be read by everybody on the machine.
    pub(super) fn start_with(
        program: &Path,
        args: &[String],
        variables: &[(&str, &str)],
        log: &Path,
    ) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SHELL).arg("sh").arg(program).args(args);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).process_group(0);
        Ok(Self { shell: command.spawn()? })
    }

    /// Whether it has ended by itself.
    pub(super) fn ended(&mut self) -> bool {
        self.shell.try_wait().ok().flatten().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waiting closes the pipe first, and so ends the server.
        let _ = self.shell.wait();
    }
}

/// The first of these programs that is there, looked for on PATH where it is a name alone.
pub(super) fn find(programs: &[PathBuf]) -> Option<PathBuf> {
    let look = r#"for one in "$@"; do command -v "$one" && exit; done; exit 1"#;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(look).arg("sh").args(programs).stdin(Stdio::null());
    let found = command.stderr(Stdio::null()).output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?;
    found.status.success().then(|| PathBuf::from(path.trim_end()))
}
