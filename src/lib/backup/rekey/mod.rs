//! `rekey`: backups encrypted anew, to other recipients.
//!
//! A copy with a folder of its own, so that nothing is written over: the original stays until
//! `prune` may take it. The data goes from the bucket into the bucket and is never in clear on a
//! disk; its SHA-256 is held against the manifest's before the copy comes into being, and the
//! copy is read back whole before its manifest does.

mod apply;
mod plan;
mod report;
mod reseal;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use report::{RekeyReport, Row};

use self::apply::{Broken, Copied};
use self::plan::Step;
use super::choice::{Looked, look};
use super::lock::{Settled, settle};
use super::snapshot::locked::LockSeen;
use super::wording::moment;
use super::{Error, LockWish, Target};
use crate::clock::Clock;
use crate::fault::{Fault as _, chain};
use crate::progress::Progress;
use crate::report::{Remark, Verdict};
use crate::s3::Bucket;
use crate::snapshot::catalog::Entry;
use crate::snapshot::layout::Layout;
use crate::snapshot::seal::{Identities, Recipients};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the backups lie.
    pub target: Target,
    /// Only this cluster's.
    pub cluster: Option<u64>,
    /// The backups, by the names that `list` shows; none: all that are not encrypted to these
    /// recipients.
    pub backups: Vec<String>,
    /// With which keys they are opened.
    pub identities: Option<Identities>,
    /// Whom the copies are encrypted to.
    pub recipients: Recipients,
    /// How the copies are locked.
    pub lock: LockWish,
    /// Be content where the lock cannot be read back.
    pub lock_unverified_ok: bool,
    /// Who makes them, for the manifest.
    pub tool: String,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// The work on one backup.
struct Job<'a> {
    request: &'a Request,
    bucket: &'a Bucket,
    layout: &'a Layout,
    settled: &'a Settled,
    identities: Identities,
    clock: &'a Arc<dyn Clock>,
    cancel: &'a CancellationToken,
    told: (&'a dyn Progress, &'a str),
}

/// Encrypts backups anew, one after the other.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: &dyn Progress,
    cancel: &CancellationToken,
) -> Result<RekeyReport, Error> {
    // Boxed: the futures of the S3 client are large.
    let looking = Box::pin(observe(request, Arc::clone(&clock)));
    let stopped = || Err(Error::Interrupted("before anything was encrypted anew"));
    let (looked, settled) = cancel.run_until_cancelled(looking).await.unwrap_or_else(stopped)?;
    let mut report = RekeyReport::new();
    report.remarks.extend(settled.warning.clone().map(Remark::Warning));
    if request.recipients.len() == 1 {
        let text = "there is one recipient only: if its identity is lost, so are the backups";
        report.remarks.push(Remark::Warning(text.to_owned()));
    }
    for entry in chosen(&looked, request)? {
        let name = entry.slot.to_string();
        let job = Job {
            request,
            bucket: &looked.bucket,
            layout: &looked.layout,
            settled: &settled,
            identities: request.identities.clone().unwrap_or_default(),
            clock: &clock,
            cancel,
            told: (progress, &name),
        };
        Box::pin(job.one(&looked, entry, &mut report)).await;
        if cancel.is_cancelled() {
            report.worsen(Verdict::Failed);
            break;
        }
    }
    Ok(report)
}

async fn observe(request: &Request, clock: Arc<dyn Clock>) -> Result<(Looked, Settled), Error> {
    let looked = look(&request.target, request.cluster, clock).await?;
    let settled = settle(request.lock, &looked.bucket).await?;
    Ok((looked, settled))
}

fn chosen<'a>(looked: &'a Looked, request: &Request) -> Result<Vec<&'a Entry>, Error> {
    if !request.backups.is_empty() {
        return looked.named(&request.backups);
    }
    let all: Vec<_> =
        looked.catalog.entries.iter().filter(|entry| entry.good().is_some()).collect();
    if all.is_empty() {
        let hint = "check --s3-prefix and --cluster; `capvco-backup list` shows what is there";
        return Err(Error::not_found(looked.no("good backup"), hint));
    }
    Ok(all)
}

impl Job<'_> {
    async fn one(&self, looked: &Looked, entry: &Entry, report: &mut RekeyReport) {
        let (progress, name) = self.told;
        let recipients = self.request.recipients.texts();
        let step = plan::step(&looked.catalog, entry, recipients, self.identities.public());
        let row = Row {
            cluster: entry.cluster.to_string(),
            backup: name.to_owned(),
            rekeyed_as: None,
            outcome: "unchanged",
            why: None,
            recipients: recipients.to_vec(),
            lock_mode: None,
            locked_until: None,
        };
        let row = match step {
            Step::Stay(why) => Row { why: Some(why), recipients: Vec::new(), ..row },
            Step::Cannot(why) => cannot(row, why, report),
            Step::Closed(to) => {
                let row = cannot(row, "none of the identities given opens it".to_owned(), report);
                // Often all are encrypted to the same ones: said once.
                let to = to.join(", ");
                let hint = Remark::Hint(format!("find the identity of one of these: {to}"));
                if !report.remarks.contains(&hint) {
                    report.remarks.push(hint);
                }
                row
            }
            Step::Rekey if self.request.dry_run => Row { outcome: "would-be-rekeyed", ..row },
            Step::Rekey => match entry.records.first() {
                Some(record) => match Box::pin(self.copy(entry, record)).await {
                    Ok(copied) => self.copied(row, &copied, report),
                    Err(broken) => failed(row, broken, report),
                },
                None => row,
            },
        };
        progress.finish(name, row.outcome);
        report.rows.push(row);
    }

    fn copied(&self, row: Row, copied: &Copied, report: &mut RekeyReport) -> Row {
        let slot = copied.manifest.slot.to_string();
        let row = Row { outcome: "rekeyed", rekeyed_as: Some(slot.clone()), ..row };
        match &copied.lock {
            LockSeen::Held(mode, until) => {
                let lock = crate::snapshot::manifest::Lock::until(*mode, *until);
                return Row {
                    lock_mode: Some(mode.as_str()),
                    locked_until: Some(moment(lock.until)),
                    ..row
                };
            }
            LockSeen::NotNeeded => {}
            LockSeen::Unreadable(why) if self.request.lock_unverified_ok => {
                let text = format!("{slot}: the lock cannot be read back ({why})");
                report.remarks.push(Remark::Warning(text));
            }
            LockSeen::Unreadable(why) | LockSeen::Less(why) => {
                report.worsen(Verdict::LeftBehind);
                let text = format!("{slot} is stored, and its lock is not as asked: {why}");
                report.remarks.push(Remark::Error(text));
            }
        }
        row
    }
}

fn cannot(row: Row, why: String, report: &mut RekeyReport) -> Row {
    report.worsen(Verdict::Failed);
    report.remarks.push(Remark::Error(format!("{}: {why}", row.backup)));
    Row { outcome: "failed", why: Some(why), ..row }
}

fn failed(row: Row, broken: Broken, report: &mut RekeyReport) -> Row {
    let Broken { error, left } = broken;
    let why = chain(&error);
    report.remarks.push(Remark::Error(format!("{}: {why}", row.backup)));
    report.remarks.extend(error.hints().into_iter().map(Remark::Hint));
    report.worsen(match error.class() {
        class if class.is_other_side() => Verdict::OtherSide,
        _ => Verdict::Failed,
    });
    if !left.is_empty() {
        report.worsen(Verdict::LeftBehind);
        let text = format!("left in the bucket, for `prune` to take: {}", left.join(", "));
        report.remarks.push(Remark::Error(text));
    }
    Row { outcome: "failed", why: Some(why), ..row }
}
