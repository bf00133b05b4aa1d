//! Carries the plan out: the only file that deletes.

use tokio_util::sync::CancellationToken;

use super::plan::{Action, Item, Plan, What};
use super::report::{Outcome, PruneReport, Row};
use crate::fault::{Fault as _, chain};
use crate::progress::{Progress, Step};
use crate::report::Verdict;
use crate::s3::{Bucket, Deleted, Error, Mode};
use crate::snapshot::manifest::Lock;

/// Removes what is to be removed. A failure does not stop the rest.
pub async fn apply(
    bucket: &Bucket,
    plan: &Plan,
    progress: &dyn Progress,
    cancel: &CancellationToken,
) -> PruneReport {
    let mut report = PruneReport::default();
    for item in &plan.items {
        let name = item.slot.to_string();
        let row = if item.action != Action::Remove {
            Row::planned(item, false)
        } else if cancel.is_cancelled() {
            report.verdict = Verdict::Failed;
            Row::of(item, &Outcome::NotReached)
        } else {
            progress.update(&name, Step::state("removing"));
            let (outcome, failed) = remove(bucket, item).await;
            progress.finish(&name, outcome.word());
            if let Some(error) = failed {
                report.blame(&error);
            }
            Row::of(item, &outcome)
        };
        report.rows.push(row);
    }
    report
}

/// Removes an item's objects in their order, up to the first that cannot be.
async fn remove(bucket: &Bucket, item: &Item) -> (Outcome, Option<Error>) {
    for target in &item.targets {
        let id = target.version_id.as_deref();
        let done = match (item.what, id) {
            (What::Upload, Some(id)) => {
                bucket.abort_upload(&target.key, id).await.map(|()| Deleted::Gone)
            }
            _ => bucket.delete(&target.key, id).await,
        };
        match done {
            Ok(Deleted::Gone) => {}
            Ok(Deleted::Locked { until, hold }) => {
                let until = until.map(|until| Lock::until(Mode::Governance, until).until);
                return (Outcome::Locked { until, hold }, None);
            }
            Err(error) => return (Outcome::Failed(chain(&error)), Some(error)),
        }
    }
    (Outcome::Removed, None)
}

impl PruneReport {
    /// A failure decides how the run ends: the worst is one that will not pass by itself.
    fn blame(&mut self, error: &Error) {
        let verdict =
            if error.class().is_other_side() { Verdict::OtherSide } else { Verdict::Failed };
        if self.verdict != Verdict::Failed {
            self.verdict = verdict;
        }
        self.hints.extend(error.hints());
    }
}
