//! `drill`: a backup proven by an etcd that serves it, thrown away afterwards.
//!
//! It restores as `restore` does, by the same code, into a folder of its own; starts a real etcd
//! on it; compares revision, keys and history with the backup; writes a key; and measures each
//! step. The sum until it serves is what a real restore takes before anything else.

mod compare;
mod folder;
mod report;
mod server;
mod tls;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

pub use report::{DrillReport, Outcome, Row};

use self::compare::Expected;
use self::folder::{Folder, sweep};
use self::server::{Place, Server};
use super::restore::find::{self, Found};
use super::restore::{Request as Restore, Source, Verified, verified};
use super::{Error, Identities, Manifests};
use crate::clock::Clock;
use crate::etcd::Version;
use crate::etcd::db::Db;
use crate::etcd::restore::{Plan, prepare, write};
use crate::progress::{Progress, Step};
use crate::report::size;

/// What progress is told of.
const ITEM: &str = "drill";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which backup.
    pub source: Source,
    /// The keys to open it with.
    pub identities: Option<Identities>,
    /// The etcd to start.
    pub etcd: PathBuf,
    /// Where there is room for the database, twice for a while; without it, where temporary
    /// files go.
    pub staging: Option<PathBuf>,
    /// How long etcd may take until it serves.
    pub start_timeout: Duration,
    /// Take a file that carries no SHA-256.
    pub skip_hash_check: bool,
}

/// Restores a backup into a throw-away etcd and compares.
///
/// # Errors
/// It cannot be restored, or etcd does not start on it.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Result<DrillReport, Error> {
    // Boxed: the futures of the S3 client are large.
    let work = Box::pin(drill(request, clock, progress));
    let stopped = || Err(Error::Interrupted("during the drill; nothing of it is left"));
    cancel.run_until_cancelled(work).await.unwrap_or_else(stopped)
}

/// Measures steps, one after the other.
struct Watch {
    clock: Arc<dyn Clock>,
    begun: Duration,
    last: Duration,
}

impl Watch {
    fn start(clock: Arc<dyn Clock>) -> Self {
        let now = clock.elapsed();
        Self { clock, begun: now, last: now }
    }

    /// Seconds since the last step ended.
    fn step(&mut self) -> f64 {
        let now = self.clock.elapsed();
        let took = now.saturating_sub(self.last);
        self.last = now;
        took.as_secs_f64()
    }

    /// Seconds from the beginning to the end of the last step.
    fn sum(&self) -> f64 {
        self.last.saturating_sub(self.begun).as_secs_f64()
    }
}

async fn drill(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
) -> Result<DrillReport, Error> {
    let version = server::version(&request.etcd).await?;
    let at = request.staging.clone().unwrap_or_else(tempfile::env::temp_dir);
    for left in sweep(&at, &clock).await {
        progress.warn(&left);
    }
    let mut watch = Watch::start(Arc::clone(&clock));
    let with = request.identities.clone().unwrap_or_default();
    let found = find::find(&request.source, Arc::clone(&clock)).await?;
    let found = find::opened(found, &with).await?;
    let mut rows = vec![Row::good("find", found.name.clone()).took(watch.step())];
    let folder = folder(&at, &found)?;
    let staged = folder.at("staged.db");
    let verified = verified(&found, &as_restore(request), &staged, &progress).await?;
    if verified.summary.auth_enabled {
        return Err(Error::declined(
            "this backup is of an etcd with users and passwords, which a drill does not have",
            "verify it instead: `capvco-backup verify` reads all of it without asking etcd",
        ));
    }
    rows.push(Row::good("fetch", fetched(&verified)).took(watch.step()));
    let expected = expected(&staged, &verified).await?;
    // The comparison's own work is not part of what a restore takes.
    let not_counted = watch.step();
    watch.begun += Duration::from_secs_f64(not_counted);

    progress.update(ITEM, Step::state("starting etcd"));
    let place = Place::find()?;
    let data_dir = folder.data_dir();
    made(&place, version, &verified, (&staged, &data_dir)).await?;
    rows.push(Row::good("restore", "the data directory was made".to_owned()).took(watch.step()));
    let tls = tls::make(folder.path())?;
    let mut server = Server::start(&request.etcd, &data_dir, &place, &tls, folder.at("etcd.log"))?;
    let client = server.serves(&place, &tls, &clock, request.start_timeout).await?;
    rows.push(Row::good("start", format!("etcd {version} serves it")).took(watch.step()));
    let total = watch.sum();

    progress.update(ITEM, Step::state("comparing"));
    rows.extend(compare::compare(&client, &expected, folder.path()).await?);
    server.end(&clock).await;
    rows.push(Row::good("total", "from the first look until etcd serves".to_owned()).took(total));
    progress.finish(ITEM, "done");
    let warnings = found.remarks.iter().chain(&verified.unproven).cloned().collect();
    Ok(DrillReport { rows, warnings, left_behind: folder.removed() })
}

/// A folder that is its owner's alone, with room for what will be in it.
fn folder(at: &Path, found: &Found) -> Result<Folder, Error> {
    let db = found.manifest.as_ref().map(|manifest| manifest.db.size).or(found.data.size());
    // Restored, and a snapshot of it; and etcd's own log.
    let needed = db.unwrap_or(0).saturating_mul(2).saturating_add(200 << 20);
    let free = super::restore::free(at)?;
    if free < needed {
        return Err(Error::declined(
            format!(
                "there is too little room at {}: {} are needed, {} are free",
                at.display(),
                size(needed),
                size(free)
            ),
            "name another place with --staging DIR",
        ));
    }
    Folder::make(at)
}

fn as_restore(request: &Request) -> Restore {
    Restore {
        source: request.source.clone(),
        identities: request.identities.clone(),
        identity_files: Vec::new(),
        output: None,
        pki: None,
        manifests: Manifests::default(),
        plan_only: false,
        skip_hash_check: request.skip_hash_check,
    }
}

fn fetched(verified: &Verified) -> String {
    let summary = &verified.summary;
    format!(
        "{}, revision {}, {} keys; proven by {}",
        size(verified.fetched.size),
        summary.revision,
        summary.live_keys,
        if verified.proven.is_empty() { "nothing".to_owned() } else { verified.proven.join("; ") }
    )
}

async fn expected(staged: &Path, verified: &Verified) -> Result<Expected, Error> {
    let (path, summary) = (staged.to_owned(), verified.summary.clone());
    let revision = summary.current_revision().max(1);
    let read = spawn_blocking(move || Db::open(&path).and_then(|db| db.history(revision)));
    let history = read.await.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
    let history = history.map_err(Error::doing("the restored database is damaged"))?;
    Ok(Expected { summary, history })
}

/// The data directory, without a bump: what is compared must be the backup's own.
async fn made(
    place: &Place,
    version: Version,
    verified: &Verified,
    (staged, data_dir): (&Path, &Path),
) -> Result<(), Error> {
    let plan = Plan {
        name: "drill".to_owned(),
        initial_cluster: vec![("drill".to_owned(), place.peer_url())],
        advertise_peer_urls: Vec::new(),
        token: "capvco-backup-drill".to_owned(),
        bump: None,
        mark_compacted: false,
        target_version: Some(version),
        force: false,
    };
    let prepared = prepare(&plan, &verified.summary);
    let prepared = prepared.map_err(Error::doing("the drill's etcd does not fit the backup"))?;
    let folder = DirBuilder::new().mode(0o700).create(data_dir);
    folder.map_err(|error| Error::file("create", data_dir, error))?;
    let (staged, member) = (staged.to_owned(), data_dir.join("member"));
    let written = spawn_blocking(move || write(&prepared, &staged, &member)).await;
    let written = written.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
    written.map(drop).map_err(Error::doing("cannot make the data directory"))
}
