//! A drill's folder: its owner's alone, locked while the drill lives, removed with it.
//!
//! A drill that is killed can remove nothing, and its etcd goes on: with every Secret of a
//! cluster. So the next one in the same place looks for folders whose lock nobody holds.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::backup::Error;
use crate::clock::Clock;
use crate::fault::chain;

/// What the names of these folders begin with.
const PREFIX: &str = "capvco-drill-";
/// Locked by the drill that lives here.
const LOCK: &str = "lock";
/// The data directory of its etcd.
const DATA: &str = "data";
/// How often it is looked whether a killed etcd is gone, and how many times.
const LOOK: (Duration, usize) = (Duration::from_millis(50), 100);

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    dir: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes one in `at`.
    ///
    /// # Errors
    /// It cannot be made there.
    pub fn make(at: &Path) -> Result<Self, Error> {
        let make = || {
            // The whole path, by which others find the etcd that is told of it.
            let at = fs::canonicalize(at)?;
            // tempfile leaves it to the mask of the process.
            let alone = Permissions::from_mode(0o700);
            let dir = tempfile::Builder::new().prefix(PREFIX).permissions(alone).tempdir_in(at)?;
            // It gets its name when it is locked: what has a lock that is free is a dead drill's.
            let (fresh, named) = (dir.path().join("lock.new"), dir.path().join(LOCK));
            let lock = File::create_new(&fresh)?;
            lock.lock()?;
            fs::rename(&fresh, &named)?;
            Ok(Self { dir, _lock: lock })
        };
        make().map_err(|error: io::Error| Error::file("make a folder in", at, error))
    }

    /// A path inside of it.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The data directory of its etcd.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.at(DATA)
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Removes it; what is left, if anything is: it holds a whole control plane's secrets.
    pub fn removed(self) -> Option<String> {
        let path = self.dir.path().to_owned();
        let error = self.dir.close().err()?;
        Some(format!("{} is still there: {}", path.display(), chain(&error)))
    }
}

/// Ends and removes what drills in `at` have left that were killed; a sentence for each.
pub async fn sweep(at: &Path, clock: &Arc<dyn Clock>) -> Vec<String> {
    let mut told = Vec::new();
    for folder in dead(at) {
        end_etcd(&folder, clock).await;
        let place = folder.display();
        told.push(match fs::remove_dir_all(&folder) {
            Ok(()) => format!("a drill was killed and has left {place}: it is removed"),
            Err(error) => format!(
                "a drill was killed and has left {place}, with secrets in it, which cannot be \
                 removed: {error}"
            ),
        });
    }
    told
}

/// Folders of ours whose drill does not live.
fn dead(at: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::canonicalize(at).and_then(fs::read_dir) else { return Vec::new() };
    let us = rustix::process::geteuid().as_raw();
    let ours = entries.flatten().filter(|entry| {
        let folder = entry.metadata().is_ok_and(|facts| facts.is_dir() && facts.uid() == us);
        folder && entry.file_name().to_string_lossy().starts_with(PREFIX)
    });
    let free =
        |path: &PathBuf| File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
    ours.map(|entry| entry.path()).filter(free).collect()
}

async fn end_etcd(folder: &Path, clock: &Arc<dyn Clock>) {
    let (pause, times) = LOOK;
    for _ in 0..times {
        let running = etcds(&folder.join(DATA));
        if running.is_empty() {
            return;
        }
        for id in running {
            // One that has gone meanwhile needs no signal.
            let _ = kill_process(id, Signal::KILL);
        }
        clock.sleep(pause).await;
    }
}

/// The processes that were started on this data directory, where the system shows them.
fn etcds(data_dir: &Path) -> Vec<Pid> {
    let flag = format!("--data-dir={}", data_dir.display());
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let told = |words: Vec<u8>| words.split(|byte| *byte == 0).any(|word| word == flag.as_bytes());
    let on_it = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        told(words).then(|| Pid::from_raw(id)).flatten()
    };
    entries.flatten().filter_map(on_it).collect()
}
