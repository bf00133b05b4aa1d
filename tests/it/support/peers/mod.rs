//! Real peers, started for one test: polled until they answer, killed when the test ends, or with
//! the run if that is killed.
//!
//! They come from `scripts/test-tools`, and a test that needs one fails without it. Nothing here
//! is async: a test may wait for its peers on the spot, within a runtime or without.

pub mod capi;
pub mod etcd;
pub mod fill;
pub mod kube;
pub mod leash;
pub mod s3;
pub mod tls;

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::program::Done;

/// Where `scripts/test-tools` has put a tool. `KUBEBUILDER_ASSETS` may name a folder with a
/// `kube-apiserver` and a `kubectl` that are taken instead.
#[track_caller]
pub fn tool(name: &str) -> PathBuf {
    if matches!(name, "kube-apiserver" | "kubectl") {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        if let Some(path) = assets.map(|assets| assets.join(name)).filter(|path| path.exists()) {
            return path;
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/bin").join(name);
    let group = match name.split('-').next() {
        Some("etcd" | "etcdctl" | "etcdutl") => "etcd",
        Some("age" | "zstd") => "age",
        Some("kube" | "kubeadm" | "kubectl") => "kube",
        Some("capi" | "cert" | "cluster" | "clusterctl" | "kustomize") => "capi",
        _ => "s3",
    };
    assert!(path.exists(), "{name} is not in .tools/bin: run scripts/test-tools {group}");
    path
}

/// A port that nobody has: from below those that the kernel gives to clients, each once a run.
pub fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Runs that take place at once begin apart.
    let first = std::process::id().wrapping_mul(619);
    for _ in 0..2000 {
        let next = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + u16::try_from(next % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Runs a command to its end; what it inherits is for the caller to clear.
#[track_caller]
pub fn run(command: &mut Command) -> Done {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("{command:?} does not start: {e}"));
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A command with nothing of this process's environment but PATH.
pub fn clean(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// The body of a 200 from `http://127.0.0.1:<port><path>`.
pub fn get(port: u16, path: &str) -> Option<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n").ok()?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    let reply = String::from_utf8_lossy(&reply);
    let (head, body) = reply.split_once("\r\n\r\n")?;
    (head.split(' ').nth(1)? == "200").then(|| body.to_owned())
}

/// Polls until `done`, or until `limit` is over, which is told.
pub fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A server's process. It ends, at once and whatever its state, when this is dropped.
#[derive(Debug)]
pub struct Peer {
    name: String,
    args: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Peer {
    /// A server yet to be started, which logs into `folder`.
    pub fn new(name: &str, folder: &Path, args: Vec<String>) -> Self {
        let log = folder.join(format!("{name}.log"));
        Self { name: name.to_owned(), args, log, child: None }
    }

    /// Starts the process, which need not answer yet.
    #[track_caller]
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let mut command = clean(tool(&self.name));
        command.args(&self.args).env("HOME", self.log.parent().unwrap());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn();
        let child = child.unwrap_or_else(|e| panic!("{} does not start: {e}", self.name));
        leash::hold(child.id());
        self.child = Some(child);
    }

    /// Polls until it is ready; panics with the end of its log if it ends or takes too long.
    #[track_caller]
    pub fn wait(&mut self, mut ready: impl FnMut() -> bool) {
        let mut ended = None;
        let child = self.child.as_mut().expect("it was started");
        let answered = until(Duration::from_mins(1), || {
            ended = child.try_wait().unwrap();
            ended.is_some() || ready()
        });
        if let Some(status) = ended {
            leash::free(child.id());
            self.child = None;
            panic!("{} ended ({status}) before it was ready\n{}", self.name, self.log());
        }
        assert!(answered, "{} is not ready after a minute\n{}", self.name, self.log());
    }

    /// Ends it politely and waits for that.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal("TERM");
        let mut child = self.child.take().expect("it runs");
        let ended = until(Duration::from_secs(30), || child.try_wait().unwrap().is_some());
        leash::free(child.id());
        if !ended {
            self.child = Some(child);
            panic!("{} does not obey SIGTERM\n{}", self.name, self.log());
        }
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the process is ours");
            leash::free(child.id());
            child.wait().expect("the process is ours");
        }
    }

    /// Stops its time: connections stay open, and nothing is answered.
    #[track_caller]
    pub fn pause(&self) {
        self.signal("STOP");
        let stat = format!("/proc/{}/stat", self.child.as_ref().expect("it runs").id());
        let stopped = || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T "));
        assert!(until(Duration::from_secs(5), stopped), "{} does not pause", self.name);
    }

    /// Lets it go on.
    #[track_caller]
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Its process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The last lines of what it said.
    pub fn log(&self) -> String {
        let said = std::fs::read(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    #[track_caller]
    fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success(), "{} takes no signal", self.name);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}
