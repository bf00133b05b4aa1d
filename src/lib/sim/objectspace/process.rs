//! One S3 server: a versitygw process that does not outlive us.
//!
//! A shell stands between: it starts the server and holds the other end of a pipe that we hold.
//! However we end, by a drop, a panic or SIGKILL, the pipe closes, and the shell kills the server.
//! Both are a process group of their own, so that Ctrl-C meets only us.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::record::Pair;

/// `$@`: candidates for the program, `--`, its arguments. Ends with 127 if there is none.
/// versitygw's own variables are unset: whatever they say is meant for another one.
const SHELL: &str = r#"
exec 3<&0 </dev/null
found=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [ -n "$found" ] || found=$(command -v "$1") || found=
    shift
done
[ -n "$found" ] || exit 127
shift
for name in $(env | sed -n 's/^\(VGW_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
"$found" "$@" 3<&- &
server=$!
{ read -r _ <&3; kill -9 "$server" 2>/dev/null; } &
watch=$!
exec 3<&-
wait "$server"
code=$?
kill -9 "$watch" 2>/dev/null
exit "$code"
"#;

/// What the shell ends with where there is no such program.
pub(super) const MISSING: i32 = 127;

/// A running server. Dropping it kills it, and waits until it is dead.
#[derive(Debug)]
pub(super) struct Process {
    shell: Child,
}

impl Process {
    /// Starts the first of `programs` that is there, on a port of this machine's loopback, with
    /// all it keeps in `folder`.
    pub(super) fn start(
        programs: &[PathBuf],
        folder: &Path,
        port: u16,
        root: &Pair,
    ) -> io::Result<Self> {
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SHELL).arg("versitygw").args(programs).arg("--");
        command.args(["--quiet", "--keep-alive", "--iam-cache-disable", "--region", super::REGION]);
        command.arg("--port").arg(format!("127.0.0.1:{port}"));
        command.arg("--iam-dir").arg(folder.join("iam"));
        command.arg("posix").arg("--versioning-dir").arg(folder.join("versions"));
        command.arg(folder.join("data"));
        // Not as arguments: those can be read by everybody on the machine.
        command.env("ROOT_ACCESS_KEY_ID", &root.access_key);
        command.env("ROOT_SECRET_ACCESS_KEY", &root.secret);
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).process_group(0);
        Ok(Self { shell: command.spawn()? })
    }

    /// The exit code, if it has ended by itself; -1 where a signal ended it.
    pub(super) fn ended(&mut self) -> Option<i32> {
        let ended = self.shell.try_wait().ok().flatten()?;
        Some(ended.code().unwrap_or(-1))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waiting closes the pipe first, and so ends the server.
        let _ = self.shell.wait();
    }
}
