//! `prune`: old backups go by the rules, and what nobody needs with them.
//!
//! Stateless: every run lists anew, so what was locked is tried again when its time is over.

mod apply;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use report::{PruneReport, Row};

use self::plan::{Locks, Plan, Rules, Target as Object};
use super::choice::{Looked, look};
use super::held::{self, Kept, Locked};
use super::wording::at;
use super::{Error, Target};
use crate::clock::Clock;
use crate::progress::Progress;
use crate::s3::Bucket;
use crate::snapshot::catalog::Catalog;
use crate::snapshot::layout::ClusterId;
use crate::snapshot::retention::Keep;

/// How many locks are read at once.
const PARALLEL: usize = 8;

/// What is asked for.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of the user")]
pub struct Request {
    /// Where the backups lie.
    pub target: Target,
    /// Only this cluster.
    pub cluster: Option<u64>,
    /// That cluster is gone for good: no rule keeps anything of it, its newest neither.
    pub gone: bool,
    /// The rules, for each cluster.
    pub keep: Keep,
    /// Remove the original of each copy that `rekey` has made.
    pub remove_rekeyed: bool,
    /// Nothing below the prefix is no error.
    pub allow_empty: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

impl Request {
    /// The request, if there is any rule in it.
    ///
    /// # Errors
    /// There is none: everything would be kept. Or a cluster is gone, and it is not said which.
    pub fn checked(self) -> Result<Self, Error> {
        match (self.gone, self.cluster, self.keep.is_empty()) {
            (true, None, _) => Err(Error::asked(
                "--cluster-is-gone is said of no cluster",
                "name it with --cluster ID, as `capvco-backup list` shows it",
            )),
            (true, Some(_), false) => Err(Error::asked(
                "--cluster-is-gone leaves nothing that a rule could keep",
                "leave the rules out; CAPVCO_BACKUP_KEEP_LAST and its like count, too",
            )),
            (true, Some(_), true) => Ok(self),
            (false, ..) => self.with_rules(),
        }
    }

    fn with_rules(self) -> Result<Self, Error> {
        if self.keep.is_empty() {
            return Err(Error::asked(
                "no rule says what to keep",
                "say for example --keep-last 4 --keep-daily 7 --keep-weekly 5, and --dry-run first",
            ));
        }
        Ok(self)
    }
}

/// Prunes.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: &dyn Progress,
    cancel: &CancellationToken,
) -> Result<PruneReport, Error> {
    // Boxed: the futures of the S3 client are large.
    let looking = Box::pin(observe(request, clock));
    let stopped = || Err(Error::Interrupted("before anything was removed"));
    let (looked, plan) = cancel.run_until_cancelled(looking).await.unwrap_or_else(stopped)?;
    if plan.strange > 0 {
        progress.say(&format!("{} objects are not of capvco-backup and stay", plan.strange));
    }
    looked.warnings().iter().for_each(|warning| progress.say(warning));
    let report = if request.dry_run {
        PruneReport::dry(&plan)
    } else {
        Box::pin(apply::apply(&looked.bucket, &plan, progress, cancel)).await
    };
    let report = report.hinted(hint(&looked, request));
    progress.say(&report.counts());
    Ok(report)
}

/// What to do about originals that are there beside their copies.
fn hint(looked: &Looked, request: &Request) -> Option<String> {
    let catalog = &looked.catalog;
    let count = catalog.entries.iter().filter(|entry| catalog.rekeyed_as(entry).is_some()).count();
    (count > 0 && !request.remove_rekeyed).then(|| {
        format!(
            "{count} have a copy that `rekey` made, and stay as long as the rules keep the copy: \
             once `verify` has opened the copies, --remove-rekeyed removes them"
        )
    })
}

async fn observe(request: &Request, clock: Arc<dyn Clock>) -> Result<(Looked, Plan), Error> {
    let looked = look(&request.target, request.cluster, clock).await?;
    let now = now(&looked.bucket).await?;
    let prefix = request.cluster.map(|id| looked.layout.cluster(ClusterId(id)));
    let prefix = prefix.unwrap_or_else(|| looked.layout.prefix().to_owned());
    let doing = "cannot list unfinished uploads";
    let unfinished = match looked.bucket.unfinished(&prefix).await {
        // Some stores know no such list (s3s-fs): there is nothing to sweep then.
        Err(error) if error.is_unsupported() => Vec::new(),
        found => found.map_err(Error::doing(doing))?,
    };
    if looked.catalog.entries.is_empty() && unfinished.is_empty() && !request.allow_empty {
        return Err(Error::not_found(
            looked.no("backup"),
            "check --s3-prefix and --cluster; where none is expected yet, say --allow-empty",
        ));
    }
    let Request { keep, remove_rekeyed, .. } = request;
    let keep = Rules::Keep { keep, remove_rekeyed: *remove_rekeyed };
    let rules = if request.gone { Rules::Gone } else { keep };
    let decide = |catalog| plan::plan(catalog, &unfinished, &looked.layout, rules, now);
    let mut plan = decide(&looked.catalog);
    if plan.removes_objects() {
        plan = plan.confirmed_by(&decide(&again(request, &looked).await?));
    }
    let locks = locks(&looked.bucket, plan.objects(), now).await?;
    Ok((looked, plan.with_locks(&locks)))
}

/// Reads the bucket once more.
async fn again(request: &Request, looked: &Looked) -> Result<Catalog, Error> {
    let cluster = request.cluster.map(ClusterId);
    let read = Catalog::read(&looked.bucket, &looked.layout, cluster).await;
    read.map_err(Error::doing("cannot look again before anything is removed"))
}

async fn now(bucket: &Bucket) -> Result<Timestamp, Error> {
    let time = bucket.server_time().await;
    time.map(at).map_err(Error::doing("cannot learn the server's time"))
}

/// What keeps `objects` from being removed now.
async fn locks(bucket: &Bucket, objects: Vec<Object>, now: Timestamp) -> Result<Locks, Error> {
    let asked = objects.into_iter().map(|object| async move {
        let kept = held::of_object(bucket, &object.key, object.version_id.as_deref()).await?;
        let lock = match kept.lock {
            Locked::Until(lock) if lock.until <= now => Locked::No,
            lock => lock,
        };
        Ok((object, Kept { lock, ..kept }))
    });
    stream::iter(asked).buffer_unordered(PARALLEL).try_collect().await
}
