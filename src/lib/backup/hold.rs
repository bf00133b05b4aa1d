//! `hold add|remove`: a legal hold on every object of a backup, until somebody takes it off.
//!
//! A hold has no end and needs no date: it is for the one backup that must outlive every rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Error, Target};
use crate::clock::Clock;
use crate::fault::chain;
use crate::report::{Remark, Report, Verdict};
use crate::s3::{Bucket, Hold, Version};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the backups lie.
    pub target: Target,
    /// The backups, by the names that `list` shows.
    pub backups: Vec<String>,
    /// Only this cluster's.
    pub cluster: Option<u64>,
    /// Whether the hold is put on or taken off.
    pub on: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// One object version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// etcd's cluster id.
    pub cluster: String,
    /// The backup's name.
    pub backup: String,
    /// The object's key.
    pub key: String,
    /// Its version.
    pub version_id: Option<String>,
    /// `held`, `released`, `unchanged`, `would-be-held`, `would-be-released` or `failed`.
    pub outcome: &'static str,
    /// Why it failed.
    pub error: Option<String>,
}

/// What became of every object.
#[derive(Debug)]
pub struct HoldReport {
    rows: Vec<Row>,
    hints: Vec<String>,
}

impl Report for HoldReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["CLUSTER", "BACKUP", "OBJECT", "VERSION", "OUTCOME"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let name = row.key.rsplit('/').next().unwrap_or_default().to_owned();
        let version = row.version_id.clone().unwrap_or_else(|| "-".into());
        vec![row.cluster.clone(), row.backup.clone(), name, version, row.outcome.to_owned()]
    }

    fn remarks(&self) -> Vec<Remark> {
        let failed = self.rows.iter().filter_map(|row| {
            row.error.as_ref().map(|error| Remark::Error(format!("{}: {error}", row.key)))
        });
        failed.chain(self.hints.iter().cloned().map(Remark::Hint)).collect()
    }

    fn verdict(&self) -> Verdict {
        if self.rows.iter().any(|row| row.error.is_some()) {
            Verdict::Failed
        } else {
            Verdict::Done
        }
    }
}

/// Puts a hold on every version of every object of the backups, or takes it off.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    cancel: &CancellationToken,
) -> Result<HoldReport, Error> {
    let work = async {
        let bucket = request.target.open(clock).await?;
        let doing = format!("cannot list the objects below {}", request.target.prefix);
        let versions =
            bucket.versions(&request.target.prefix).await.map_err(Error::doing(doing))?;
        let found = choose(&versions, request)?;
        Ok(carry_out(&bucket, request, found).await)
    };
    let stopped = || Err(Error::Interrupted("while holds were being set"));
    // Boxed: the futures of the S3 client are large.
    cancel.run_until_cancelled(Box::pin(work)).await.unwrap_or_else(stopped)
}

/// The versions of every backup asked for, by its name.
fn choose(
    versions: &[Version],
    request: &Request,
) -> Result<BTreeMap<String, Vec<Version>>, Error> {
    let mut found = BTreeMap::new();
    for backup in &request.backups {
        let mut clusters: BTreeMap<&str, Vec<Version>> = BTreeMap::new();
        for version in versions.iter().filter(|version| !version.marker) {
            let below = version.key.strip_prefix(&request.target.prefix).unwrap_or_default();
            let mut names = below.split('/');
            let (Some(cluster), Some(name)) = (names.next(), names.next()) else { continue };
            let wanted = request.cluster.is_none_or(|id| cluster == format!("{id:016x}"));
            if wanted && name == backup {
                clusters.entry(cluster).or_default().push(version.clone());
            }
        }
        let ids: Vec<&str> = clusters.keys().copied().collect();
        match &ids[..] {
            [] => {
                return Err(Error::not_found(
                    format!("there is no backup {backup} below {}", request.target.prefix),
                    "`capvco-backup list` shows their names",
                ));
            }
            [_] => {
                found.insert(backup.clone(), clusters.into_values().flatten().collect());
            }
            several => {
                return Err(Error::Asked {
                    what: format!("{backup} is a backup of the clusters {}", several.join(", ")),
                    hints: several.iter().map(|id| format!("say --cluster {id}")).collect(),
                });
            }
        }
    }
    Ok(found)
}

async fn carry_out(
    bucket: &Bucket,
    request: &Request,
    found: BTreeMap<String, Vec<Version>>,
) -> HoldReport {
    let mut report = HoldReport { rows: Vec::new(), hints: Vec::new() };
    for (backup, versions) in found {
        for version in versions {
            let set = one(bucket, request, &version).await;
            let (outcome, error) = match set {
                Ok(outcome) => (outcome, None),
                Err((error, hints)) => {
                    report.hints.extend(hints);
                    ("failed", Some(error))
                }
            };
            let below = version.key.strip_prefix(&request.target.prefix).unwrap_or_default();
            let cluster = below.split('/').next().unwrap_or_default().to_owned();
            let (backup, key, version_id) = (backup.clone(), version.key, version.version_id);
            report.rows.push(Row { cluster, backup, key, version_id, outcome, error });
        }
    }
    report
}

type Failed = (String, Vec<String>);

async fn one(
    bucket: &Bucket,
    request: &Request,
    version: &Version,
) -> Result<&'static str, Failed> {
    let id = version.version_id.as_deref();
    let failed = |error: crate::s3::Error| (chain(&error), crate::fault::Fault::hints(&error));
    let was = bucket.legal_hold(&version.key, id).await.map_err(failed)?;
    if was == if request.on { Hold::On } else { Hold::Off } {
        return Ok("unchanged");
    }
    if request.dry_run {
        return Ok(if request.on { "would-be-held" } else { "would-be-released" });
    }
    bucket.set_legal_hold(&version.key, id, request.on).await.map_err(failed)?;
    // What was answered is not what is: some stores accept the call and keep nothing.
    match (bucket.legal_hold(&version.key, id).await.map_err(failed)?, request.on) {
        (Hold::On, true) => Ok("held"),
        (Hold::Off, false) => Ok("released"),
        (Hold::Unreadable(why), _) => Err((format!("set, and cannot be read back: {why}"), vec![])),
        (_, on) => {
            let still = if on { "off" } else { "on" };
            Err((format!("the server accepted it, and the hold is still {still}"), vec![]))
        }
    }
}
