//! `drill`: proves a backup by what it is for. It is restored into a throw-away etcd, which has to
//! serve what the backup holds and take a write; the time that takes is the time of the real day,
//! on this machine and from this bucket.
//!
//! The revision is not raised here: then the started etcd must hold the very same history, and
//! its own snapshot can be held against the backup, bucket by bucket.

mod report;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub use report::{DrillReport, Row};

use self::server::{Addresses, Server};
use super::restore::{self, Engine, MemberWish, Output, Source, Which};
use super::{Error, Target};
use crate::clock::Clock;
use crate::etcd::Client;
use crate::etcd::db::{Db, Summary};
use crate::progress::{Progress, Step};
use crate::report::Report as _;
use crate::snapshot::seal::Identities;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the backups lie.
    pub target: Target,
    /// Only this cluster's.
    pub cluster: Option<u64>,
    /// Which backup.
    pub which: Which,
    /// The keys to open it with.
    pub identities: Option<Identities>,
    /// The etcd to start.
    pub etcd: PathBuf,
    /// Where it is all done, in a folder of its own; where temporary files go if none is given.
    pub staging: Option<PathBuf>,
    /// How long etcd may take to serve.
    pub patience: Duration,
}

/// The name of the throw-away member.
const NAME: &str = "drill";

/// The key that is written to see that etcd takes writes.
const KEY: &str = "capvco-backup/drill";

/// How long the throw-away member may send nothing.
const IDLE: Duration = Duration::from_secs(30);

/// The buckets that hold what users stored; the others say who the members are.
const CONTENT: &[&str] = &["key", "lease", "auth", "authUsers", "authRoles"];

/// Drills a backup.
///
/// # Errors
/// It could not be restored, or nothing started from it. What came back differently is told by
/// the report.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Result<DrillReport, Error> {
    // Boxed: the futures of the S3 client are large.
    let work = Box::pin(drill(request, clock, progress, cancel));
    let stopped = || Err(Error::Interrupted("in the middle of a drill; nothing of it is left"));
    cancel.run_until_cancelled(work).await.unwrap_or_else(stopped)
}

async fn drill(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Result<DrillReport, Error> {
    let version = server::version(&request.etcd)?;
    let folder = folder(request.staging.as_deref())?;
    let (db, data_dir) = (folder.path().join("snapshot.db"), folder.path().join("data"));
    let begun = clock.elapsed();
    let since = |clock: &Arc<dyn Clock>| clock.elapsed().saturating_sub(begun).as_secs_f64();

    let fetch = restore::Request { output: Some(Output::Db(db.clone())), ..request.restore() };
    let fetched = restore::run(&fetch, Arc::clone(&clock), Arc::clone(&progress), cancel).await?;
    let backup = fetched.rows().first().map(|row| row.source.clone()).unwrap_or_default();
    let backup = backup.strip_prefix("backup ").unwrap_or(&backup).to_owned();
    let held = summary(db.clone()).await?;
    if held.auth_enabled {
        return Err(Error::declined(
            "this backup is of an etcd with users and passwords, which a drill does not have",
            "verify it instead: `capvco-backup verify` reads all of it without asking etcd",
        ));
    }
    let mut report = DrillReport::new(backup);
    report.measured("fetched and verified after", since(&clock));

    let addresses = Addresses::free()?;
    let member = MemberWish {
        name: Some(NAME.to_owned()),
        initial_cluster: vec![(NAME.to_owned(), addresses.peer.clone())],
        peer_urls: vec![addresses.peer.clone()],
        etcd_version: Some(version),
        ..MemberWish::default()
    };
    let output = Output::DataDir {
        path: data_dir.clone(),
        member: Box::new(member),
        engine: Engine::Native,
    };
    let place =
        restore::Request { source: Source::File(db.clone()), output: Some(output), ..fetch };
    restore::run(&place, Arc::clone(&clock), Arc::clone(&progress), cancel).await?;
    report.measured("restored after", since(&clock));

    progress.update(NAME, Step::state("starting etcd"));
    let log = folder.path().join("etcd.log");
    let mut server = Server::start(&request.etcd, &data_dir, NAME, addresses, log)?;
    let client = server.ready(&clock, request.patience).await?;
    report.measured("served after", since(&clock));
    progress.update(NAME, Step::state("comparing"));
    compare(&mut report, &client, &held, folder.path()).await?;
    write(&mut report, &client).await?;
    report.seconds = since(&clock);
    progress.finish(NAME, "done");
    Ok(report)
}

impl Request {
    fn restore(&self) -> restore::Request {
        let target = Box::new(self.target.clone());
        restore::Request {
            source: Source::Bucket { target, cluster: self.cluster, which: self.which.clone() },
            identities: self.identities.clone(),
            output: None,
            pki: None,
            // What this node is has no say here.
            manifests: PathBuf::from("/nonexistent"),
            plan_only: false,
            skip_hash_check: false,
        }
    }
}

fn folder(staging: Option<&Path>) -> Result<TempDir, Error> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("capvco-drill-");
    let (made, place) = match staging {
        Some(place) => (builder.tempdir_in(place), place.to_owned()),
        None => (builder.tempdir(), std::path::Path::new("the temporary folder").to_owned()),
    };
    made.map_err(|error| Error::file("make a folder in", &place, error))
}

async fn summary(path: PathBuf) -> Result<Summary, Error> {
    let read = move || {
        let doing = format!("cannot read {}", path.display());
        Db::open(&path).and_then(|db| db.summary()).map_err(Error::doing(doing))
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err(Error::failed("reading the database has died", "")))
}

/// Holds what etcd serves against what the backup holds.
async fn compare(
    report: &mut DrillReport,
    client: &Client,
    held: &Summary,
    folder: &Path,
) -> Result<(), Error> {
    let doing = || Error::doing("cannot ask the started etcd");
    let status = client.status().await.map_err(doing())?;
    report.compare("revision", &held.revision.to_string(), &status.revision.to_string());
    let keys = client.count_keys(0).await.map_err(doing())?;
    report.compare("keys", &held.live_keys.to_string(), &keys.to_string());
    let own = folder.join("own.db");
    save(client, &own).await?;
    let served = summary(own).await?;
    report.compare("content hash", &hash(held), &hash(&served));
    Ok(())
}

/// The hashes of all that users stored, in one word.
fn hash(summary: &Summary) -> String {
    let of = |name: &str| {
        let bucket = summary.buckets.iter().find(|bucket| bucket.name == name);
        bucket.map_or(0, |bucket| bucket.hash)
    };
    let all: Vec<u8> = CONTENT.iter().flat_map(|name| of(name).to_be_bytes()).collect();
    format!("{:08x}", crc32c::crc32c(&all))
}

async fn save(client: &Client, path: &Path) -> Result<(), Error> {
    let doing = || Error::doing("cannot take a snapshot of the started etcd");
    let wrong = |error| Error::file("write", path, error);
    let mut stream = client.snapshot(IDLE).await.map_err(doing())?;
    let mut file = tokio::fs::File::create(path).await.map_err(wrong)?;
    while let Some(bytes) = stream.next().await.map_err(doing())? {
        tokio::io::AsyncWriteExt::write_all(&mut file, &bytes).await.map_err(wrong)?;
    }
    tokio::io::AsyncWriteExt::flush(&mut file).await.map_err(wrong)
}

async fn write(report: &mut DrillReport, client: &Client) -> Result<(), Error> {
    let doing = || Error::doing("the started etcd takes no write");
    let value = b"written".to_vec();
    client.put(KEY.as_bytes().to_vec(), value.clone()).await.map_err(doing())?;
    let read = client.get(KEY.as_bytes().to_vec()).await.map_err(doing())?;
    let read = String::from_utf8_lossy(&read.unwrap_or_default()).into_owned();
    report.compare("a write", &String::from_utf8_lossy(&value), &read);
    Ok(())
}
