//! A throw-away etcd: started on restored data, asked, ended.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::tls::Files;
use crate::backup::Error;
use crate::clock::Clock;
use crate::disk;
use crate::etcd::{Access, Client, DIAL_TIMEOUT, Version};

/// How often it is looked at while it starts.
const LOOK: Duration = Duration::from_millis(50);
/// How long it may take to end by itself.
const END: Duration = Duration::from_secs(10);
/// The most of its log that is shown.
const SHOWN: usize = 3000;

/// Where it listens and what it is called.
#[derive(Debug, Clone)]
pub struct Place {
    /// The port for clients.
    pub client: u16,
    /// The port for peers.
    pub peer: u16,
}

impl Place {
    /// Two ports that nobody has just now.
    ///
    /// # Errors
    /// This machine has none.
    pub fn find() -> Result<Self, Error> {
        let find = || -> io::Result<Self> {
            let (a, b) =
                (TcpListener::bind(("127.0.0.1", 0))?, TcpListener::bind(("127.0.0.1", 0))?);
            Ok(Self { client: a.local_addr()?.port(), peer: b.local_addr()?.port() })
        };
        find()
            .map_err(|error| Error::failed(format!("no port of this machine is free: {error}"), ""))
    }

    /// Where its peers would reach it.
    #[must_use]
    pub fn peer_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.peer)
    }

    fn client_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.client)
    }
}

/// A running etcd. It is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
}

/// The version that a binary says it is of.
///
/// # Errors
/// It is not there, or is no etcd.
pub async fn version(etcd: &Path) -> Result<Version, Error> {
    let mut command = Command::new(etcd);
    command.arg("--version").env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await;
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::asked(
            format!("there is no etcd at {}", etcd.display()),
            "a drill needs the etcd of the cluster's version or newer: --etcd FILE",
        ),
        _ => Error::file("run", etcd, error),
    })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let named = said.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    named.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let what = format!("{} does not say which version of etcd it is", etcd.display());
        Error::declined(what, "name the etcd server's own binary with --etcd FILE")
    })
}

impl Server {
    /// Starts it on `data_dir`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(
        etcd: &Path,
        data_dir: &Path,
        place: &Place,
        tls: &Files,
        log: PathBuf,
    ) -> Result<Self, Error> {
        let out = disk::create(&log).map_err(|error| Error::file("create", &log, error))?;
        let err = out.try_clone().map_err(|error| Error::file("create", &log, error))?;
        let mut command = Command::new(etcd);
        // etcd takes every flag from ETCD_* variables too.
        command.env_clear().args(flags(data_dir, place, tls));
        command.stdin(Stdio::null()).stdout(out).stderr(err).kill_on_drop(true);
        let child = command.spawn().map_err(|error| Error::file("run", etcd, error))?;
        Ok(Self { child, log })
    }

    /// Waits until it serves and has a leader.
    ///
    /// # Errors
    /// It ends, or takes longer than `limit`.
    pub async fn serves(
        &mut self,
        place: &Place,
        tls: &Files,
        clock: &Arc<dyn Clock>,
        limit: Duration,
    ) -> Result<Client, Error> {
        let access = Access {
            endpoints: vec![place.client_url()],
            ca: Some(tls.ca.clone()),
            cert: Some(tls.cert.clone()),
            key: Some(tls.key.clone()),
            dial_timeout: DIAL_TIMEOUT,
        };
        let begun = clock.elapsed();
        loop {
            if let Some(status) =
                self.child.try_wait().map_err(|error| self.failed(&error.to_string()))?
            {
                return Err(self.failed(&format!("it ended ({status})")));
            }
            if let Ok(client) =
                Client::connect(&access, &place.client_url(), Arc::clone(clock)).await
                && let Ok(status) = client.status().await
                && status.leader != 0
            {
                return Ok(client);
            }
            if clock.elapsed().saturating_sub(begun) > limit {
                return Err(self.failed(&format!("it does not serve after {} s", limit.as_secs())));
            }
            clock.sleep(LOOK).await;
        }
    }

    fn failed(&self, why: &str) -> Error {
        let log = log_of(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let start = log.len().saturating_sub(SHOWN);
        let start = log[..].char_indices().map(|(at, _)| at).find(|at| *at >= start).unwrap_or(0);
        Error::Failed {
            what: format!("the restored etcd does not start: {why}"),
            hints: vec![format!("the end of its log:\n{}", log[start..].trim_end())],
        }
    }

    /// Ends it, politely if it lets itself be asked.
    pub async fn end(mut self, clock: &Arc<dyn Clock>) {
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok())
            && let Some(id) = rustix::process::Pid::from_raw(id)
        {
            // One that is gone already needs no signal.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        tokio::select! {
            _ = self.child.wait() => {}
            () = clock.sleep(END) => {
                // Its data is thrown away: nothing is lost by force.
                let _ = self.child.kill().await;
            }
        }
    }
}

/// The end of the log, and somewhat more.
fn log_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(4 * SHOWN as u64)))?;
    let mut end = Vec::new();
    file.take(8 * SHOWN as u64).read_to_end(&mut end)?;
    Ok(end)
}

fn flags(data_dir: &Path, place: &Place, tls: &Files) -> Vec<String> {
    let (client, peer) = (place.client_url(), place.peer_url());
    let file = |path: &Path| path.display().to_string();
    let mut all = vec![
        "--name=drill".to_owned(),
        format!("--data-dir={}", file(data_dir)),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=drill={peer}"),
        "--logger=zap".to_owned(),
    ];
    for (prefix, auth) in [("", "client-cert-auth"), ("peer-", "peer-client-cert-auth")] {
        all.push(format!("--{prefix}cert-file={}", file(&tls.cert)));
        all.push(format!("--{prefix}key-file={}", file(&tls.key)));
        all.push(format!("--{prefix}trusted-ca-file={}", file(&tls.ca)));
        all.push(format!("--{auth}=true"));
    }
    all
}
