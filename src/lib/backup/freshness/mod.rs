//! `status`: the newest good backup of each cluster, its age, and whether that is good enough.

mod metrics;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::choice::{Looked, look};
use super::held::Locked;
use super::wording::{at, length, locked_until, moment, or_dash, since};
use super::{Error, Target};
use crate::clock::Clock;
use crate::disk::may_be_replaced;
use crate::report::{Remark, Report, Verdict, size};
use crate::s3::{Bucket, Retention, Version};
use crate::snapshot::catalog::{Catalog, Entry, Record};
use crate::snapshot::layout::ClusterId;
use crate::snapshot::manifest::{Lock, Manifest};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the backups lie.
    pub target: Target,
    /// Only this cluster.
    pub cluster: Option<u64>,
    /// How old the newest good one may be.
    pub max_age: Option<Duration>,
    /// A file of metrics to write, for the textfile collector of Prometheus' node exporter.
    pub textfile: Option<PathBuf>,
}

/// A cluster's newest good backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// etcd's cluster id.
    pub cluster: String,
    /// `fresh`, `too-old` or `none`.
    pub state: &'static str,
    /// The backup's name.
    pub backup: Option<String>,
    /// When the snapshot was asked for.
    pub taken: Option<String>,
    /// How many seconds ago.
    pub age_seconds: Option<i64>,
    /// The newest revision in it.
    pub revision: Option<i64>,
    /// Bytes of all its objects as stored.
    pub stored_size: Option<u64>,
    /// Bytes of the database.
    pub db_size: Option<u64>,
    /// The node's name.
    pub node: Option<String>,
    /// The lock's mode, as the store has it now; `none` where there is no lock.
    pub lock_mode: Option<&'static str>,
    /// The lock's end.
    pub locked_until: Option<String>,
    /// How many good ones there are.
    pub good: usize,
    /// How many are not: damaged, under way, or given up.
    pub not_good: usize,
}

/// How fresh the backups are.
#[derive(Debug)]
pub struct FreshnessReport {
    rows: Vec<Row>,
    remarks: Vec<Remark>,
    verdict: Verdict,
}

impl Report for FreshnessReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &[
            "CLUSTER",
            "STATE",
            "NEWEST GOOD",
            "TAKEN",
            "AGE",
            "REVISION",
            "DB",
            "STORED",
            "NODE",
            "LOCKED UNTIL",
            "GOOD",
        ]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        vec![
            row.cluster.clone(),
            row.state.to_owned(),
            or_dash(row.backup.clone()),
            or_dash(row.taken.clone()),
            or_dash(row.age_seconds.map(length)),
            or_dash(row.revision.map(|revision| revision.to_string())),
            or_dash(row.db_size.map(size)),
            or_dash(row.stored_size.map(size)),
            or_dash(row.node.clone()),
            locked_until(row.locked_until.as_deref(), row.lock_mode),
            format!("{} of {}", row.good, row.good + row.not_good),
        ]
    }

    fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// One cluster, looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    cluster: ClusterId,
    newest: Option<(String, Manifest)>,
    /// The bytes of the newest as stored.
    stored: Option<u64>,
    /// The lock of the newest: as the store has it, or as the manifest says where it is silent.
    lock: Locked,
    good: usize,
    not_good: usize,
}

/// Looks how old the newest good backups are.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    cancel: &CancellationToken,
) -> Result<FreshnessReport, Error> {
    if let Some(path) = &request.textfile {
        may_be_replaced(path).map_err(|error| Error::file("write", path, error))?;
    }
    let work = Box::pin(async {
        let looked = look(&request.target, request.cluster, clock).await?;
        let seen = see(&looked).await?;
        // By the clock that the backups are dated by: with one of ours behind it none grows old.
        let now = looked.bucket.server_time().await;
        let now = now.map(at).map_err(Error::doing("cannot learn the server's time"))?;
        Ok((looked, seen, now))
    });
    let stopped = || Err(Error::Interrupted("while the backups were looked at"));
    let (looked, (seen, mut remarks), now) =
        cancel.run_until_cancelled(work).await.unwrap_or_else(stopped)?;
    if let Some(path) = &request.textfile {
        let text = metrics::text(&seen, now);
        metrics::write(path, &text).map_err(|error| Error::file("write", path, error))?;
    }
    remarks.extend(looked.warnings().into_iter().map(Remark::Warning));
    if seen.is_empty() {
        remarks.push(Remark::Error(looked.no("backup")));
    }
    Ok(judge(&seen, request.max_age, now, remarks))
}

async fn see(looked: &Looked) -> Result<(Vec<Seen>, Vec<Remark>), Error> {
    let (mut all, mut remarks) = (Vec::new(), Vec::new());
    for cluster in looked.catalog.clusters() {
        let mut seen = count(&looked.catalog, cluster);
        if let Some((entry, record, manifest)) = looked.catalog.newest_good(cluster) {
            let (lock, remark) = lock_of(&looked.bucket, entry, record, manifest).await?;
            seen.lock = lock;
            seen.stored = record.stored_size();
            remarks.extend(remark);
            seen.newest = Some((entry.slot.to_string(), manifest.clone()));
        }
        all.push(seen);
    }
    Ok((all, remarks))
}

fn count(catalog: &Catalog, cluster: ClusterId) -> Seen {
    let good = catalog.of(cluster).filter(|entry| entry.good().is_some()).count();
    let not_good = catalog.of(cluster).count() - good;
    Seen { cluster, newest: None, stored: None, lock: Locked::Unknown, good, not_good }
}

/// The weakest lock of a backup's objects, as the store has it.
async fn lock_of(
    bucket: &Bucket,
    entry: &Entry,
    record: &Record,
    manifest: &Manifest,
) -> Result<(Locked, Option<Remark>), Error> {
    let objects = [Some(&record.version), record.data.as_ref(), record.pki.as_ref()];
    let mut weakest: Option<Lock> = None;
    for version in objects.into_iter().flatten() {
        let lock = match retention(bucket, version).await? {
            Retention::Locked { mode, until } => Lock::until(mode, until),
            Retention::None => {
                let unlocked = manifest.lock.map(|lock| {
                    let name = version.key.rsplit('/').next().unwrap_or_default();
                    let until = moment(lock.until);
                    let slot = &entry.slot;
                    Remark::Warning(format!(
                        "{slot}: {name} is not locked, though its manifest says so until {until}"
                    ))
                });
                return Ok((Locked::No, unlocked));
            }
            Retention::Unreadable(_) => {
                return Ok((manifest.lock.map_or(Locked::Unknown, Locked::Until), None));
            }
        };
        weakest = Some(weakest.filter(|weakest| weakest.until <= lock.until).unwrap_or(lock));
    }
    Ok((weakest.map_or(Locked::Unknown, Locked::Until), None))
}

async fn retention(bucket: &Bucket, version: &Version) -> Result<Retention, Error> {
    let doing = format!("cannot read the lock of {}", version.key);
    let read = bucket.retention(&version.key, version.version_id.as_deref()).await;
    read.map_err(Error::doing(doing))
}

fn judge(
    seen: &[Seen],
    max_age: Option<Duration>,
    now: Timestamp,
    mut remarks: Vec<Remark>,
) -> FreshnessReport {
    let rows: Vec<Row> = seen.iter().map(|seen| row(seen, max_age, now)).collect();
    let known = seen.iter().any(|seen| seen.newest.is_some());
    for (row, seen) in rows.iter().zip(seen) {
        remarks.extend(match complaint(row, seen, max_age, now) {
            // Whoever may write can make up clusters: that is no reason for an alarm.
            Some(text) if known && seen.newest.is_none() => {
                let cluster = seen.cluster;
                let why = "and is left out, as others have: --cluster";
                Some(Remark::Warning(format!("{text}, {why} {cluster} asks for it")))
            }
            complaint => complaint.map(Remark::Error),
        });
    }
    let is_fine = |row: &Row| row.state == "fresh" || (known && row.state == "none");
    let fresh = !rows.is_empty() && rows.iter().all(is_fine);
    if !fresh {
        remarks.push(Remark::Hint("`capvco-backup list` shows every backup".to_owned()));
    }
    FreshnessReport { rows, remarks, verdict: if fresh { Verdict::Done } else { Verdict::Failed } }
}

fn complaint(row: &Row, seen: &Seen, max_age: Option<Duration>, now: Timestamp) -> Option<String> {
    let cluster = seen.cluster;
    match (&seen.newest, max_age) {
        (None, _) => Some(format!("cluster {cluster} has no good backup")),
        (Some((slot, manifest)), Some(max_age)) if row.state == "too-old" => {
            let most = length(i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX));
            let age = since(manifest.started, now);
            Some(format!(
                "cluster {cluster}: the newest good backup {slot} is {age} old, {most} at most"
            ))
        }
        _ => None,
    }
}

fn row(seen: &Seen, max_age: Option<Duration>, now: Timestamp) -> Row {
    let newest = seen.newest.as_ref().map(|(_, manifest)| manifest);
    let age = newest.map(|manifest| now.as_second() - manifest.started.as_second());
    let most = max_age.map(|most| i64::try_from(most.as_secs()).unwrap_or(i64::MAX));
    let state = match (age, most) {
        (None, _) => "none",
        (Some(age), Some(most)) if age > most => "too-old",
        _ => "fresh",
    };
    Row {
        cluster: seen.cluster.to_string(),
        state,
        backup: seen.newest.as_ref().map(|(slot, _)| slot.clone()),
        taken: newest.map(|manifest| moment(manifest.started)),
        age_seconds: age,
        revision: newest.map(|manifest| manifest.revision),
        stored_size: seen.stored,
        db_size: newest.map(|manifest| manifest.db.size),
        node: newest.map(|manifest| manifest.node.clone()),
        lock_mode: seen.lock.mode(),
        locked_until: seen.lock.lock().map(|lock| moment(lock.until)),
        good: seen.good,
        not_good: seen.not_good,
    }
}
