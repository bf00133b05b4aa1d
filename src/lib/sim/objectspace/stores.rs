//! The S3 servers behind the objectspaces: who runs, whose turn it is, and that none is left.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::record::Pair;
use super::s3::S3;
use super::server;
use crate::clock::{Clock as _, System};
use crate::sim::process::{Process, find};

/// How long a server may take to answer for the first time.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a start is tried: another program may have taken the port in between.
const STARTS: usize = 5;

/// Hears of every server: the objectspace's id and name, the URL.
pub(in crate::sim) type Announce = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

/// Why there is no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::sim) enum Trouble {
    #[error("no versitygw here: run `scripts/test-tools s3`, or say where it is")]
    Missing,
    #[error("versitygw does not run: {0}")]
    Fails(String),
}

/// All servers of a cloud.
pub(in crate::sim) struct Stores {
    programs: Vec<PathBuf>,
    folder: PathBuf,
    client: reqwest::Client,
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<Store>>>>>,
    running: Mutex<Running>,
    announce: Mutex<Option<Announce>>,
}

#[derive(Default)]
struct Running {
    closed: bool,
    processes: HashMap<String, (Process, u16)>,
}

/// What is left of an objectspace's S3 while its server does not run.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    root: Pair,
}

/// One action at a time per objectspace (vco-api.md 5.2, G8D, on VMs): whoever holds this may
/// act on it.
pub(super) type Turn = OwnedMutexGuard<Option<Store>>;

impl Stores {
    /// `program` is where versitygw is; without it, it is looked for on PATH and where
    /// `scripts/test-tools` puts it. `folder` is where all data go.
    pub(in crate::sim) fn new(
        program: Option<&Path>,
        folder: &Path,
        client: reqwest::Client,
    ) -> Self {
        let usual = || vec!["versitygw".into(), ".tools/bin/versitygw".into()];
        Self {
            programs: program.map_or_else(usual, |path| vec![path.to_owned()]),
            folder: folder.to_owned(),
            client,
            turns: Mutex::default(),
            running: Mutex::default(),
            announce: Mutex::default(),
        }
    }

    pub(in crate::sim) fn announce(&self, to: Announce) {
        *lock(&self.announce) = Some(to);
    }

    /// Where an objectspace's S3 is, if its server runs.
    pub(in crate::sim) fn url(&self, id: &str) -> Option<String> {
        lock(&self.running).processes.get(id).map(|(_, port)| url(*port))
    }

    /// Waits for one's turn at an objectspace.
    pub(super) async fn turn(&self, id: &str) -> Turn {
        let turn = Arc::clone(lock(&self.turns).entry(id.to_owned()).or_default());
        turn.lock_owned().await
    }

    /// A client of the objectspace's server, which is started if it does not run; and whether
    /// it is a new one, with nothing in it.
    pub(super) async fn open(
        &self,
        id: &str,
        name: &str,
        turn: &mut Turn,
    ) -> Result<(S3, bool), Trouble> {
        let fresh = turn.is_none();
        if fresh {
            let made = Store::make(self.folder.join(format!("store-{id}")));
            **turn = Some(made.map_err(|e| Trouble::Fails(format!("making its folder: {e}")))?);
        }
        let Some(store) = turn.as_ref() else { return Err(Trouble::Missing) };
        let s3 = |port| S3 { client: self.client.clone(), port, root: store.root.clone() };
        if let Some(port) = self.port_of(id) {
            return Ok((s3(port), fresh));
        }
        let started = self.start(id, store, s3).await;
        if started.is_err() && fresh {
            **turn = None;
        }
        let port = started?;
        if let Some(announce) = lock(&self.announce).clone() {
            announce(id, name, &url(port));
        }
        Ok((S3 { port, client: self.client.clone(), root: turn_root(turn) }, fresh))
    }

    /// The port of a server that still runs.
    fn port_of(&self, id: &str) -> Option<u16> {
        let mut running = lock(&self.running);
        let (process, port) = running.processes.get_mut(id)?;
        let (port, ended) = (*port, process.ended());
        if ended {
            running.processes.remove(id);
        }
        (!ended).then_some(port)
    }

    async fn start(&self, id: &str, store: &Store, s3: impl Fn(u16) -> S3) -> Result<u16, Trouble> {
        let program = find(&self.programs).ok_or(Trouble::Missing)?;
        for _ in 0..STARTS {
            let port = free_port().map_err(|e| Trouble::Fails(e.to_string()))?;
            let begun = server::start(&program, &store.folder, port, &store.root);
            let mut process = begun.map_err(|e| Trouble::Fails(e.to_string()))?;
            if is_ready(&s3(port), &mut process).await {
                return self.keep(id, process, port);
            }
        }
        Err(Trouble::Fails(store.last_words()))
    }

    fn keep(&self, id: &str, process: Process, port: u16) -> Result<u16, Trouble> {
        let mut running = lock(&self.running);
        if running.closed {
            return Err(Trouble::Fails("the cloud has stopped".into()));
        }
        running.processes.insert(id.to_owned(), (process, port));
        Ok(port)
    }

    /// Ends an objectspace's server; its data stay.
    pub(super) fn shut(&self, id: &str) {
        let process = lock(&self.running).processes.remove(id);
        drop(process);
    }

    /// Ends an objectspace's server and removes its data.
    pub(super) fn forget(&self, id: &str, turn: &mut Turn) {
        self.shut(id);
        if let Some(store) = turn.take() {
            // Only space is at stake, and the cloud's own folder goes in the end.
            let _ = fs::remove_dir_all(&store.folder);
        }
    }

    /// Ends all servers, for ever.
    pub(in crate::sim) fn close(&self) {
        let processes = {
            let mut running = lock(&self.running);
            running.closed = true;
            std::mem::take(&mut running.processes)
        };
        drop(processes);
    }
}

fn turn_root(turn: &Turn) -> Pair {
    turn.as_ref().map(|store| store.root.clone()).unwrap_or_default()
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that was free a moment ago.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits until it answers to its root keys, which shows that it is ours.
async fn is_ready(s3: &S3, process: &mut Process) -> bool {
    let clock = System::new();
    while clock.elapsed() < PATIENCE && !process.ended() {
        if s3.buckets().await.is_ok() {
            return true;
        }
        clock.sleep(Duration::from_millis(15)).await;
    }
    false
}

impl Store {
    fn make(folder: PathBuf) -> std::io::Result<Self> {
        for name in ["data", "versions", "iam", "bin/data", "bin/versions"] {
            fs::create_dir_all(folder.join(name))?;
        }
        Ok(Self { folder, root: Pair::random() })
    }

    /// What the server said last.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or("it ended without a word").to_owned()
    }

    /// Takes a bucket out of S3's sight. The server looks into its folders at every call
    /// (versitygw, posix back-end: a folder is a bucket, with its settings in attributes).
    pub(super) fn hide(&self, bucket: &str) -> std::io::Result<()> {
        self.carry(bucket, "", "bin/")
    }

    /// Puts it back.
    pub(super) fn show(&self, bucket: &str) -> std::io::Result<()> {
        self.carry(bucket, "bin/", "")
    }

    fn carry(&self, bucket: &str, from: &str, to: &str) -> std::io::Result<()> {
        for part in ["data", "versions"] {
            let from = self.folder.join(format!("{from}{part}")).join(bucket);
            if from.exists() {
                fs::rename(from, self.folder.join(format!("{to}{part}")).join(bucket))?;
            }
        }
        Ok(())
    }

    /// Removes a bucket with all that is in it, hidden or not.
    pub(super) fn remove(&self, bucket: &str) -> std::io::Result<()> {
        for part in ["data", "versions", "bin/data", "bin/versions"] {
            let folder = self.folder.join(part).join(bucket);
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
        }
        Ok(())
    }
}
