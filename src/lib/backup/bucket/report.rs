//! What was made.

use serde::Serialize;

use super::plan::{Step, What};
use super::request::{Place, Request};
use crate::report::{Remark, Report, Verdict};

/// One thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `objectspace`, `bucket`, `abort-rule`, `default-lock` or `key`.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// `created`, `written` (the file of a key that was there), `unchanged`, `kept`,
    /// `would-be-created`, `would-be-written`, `unsupported`, `skipped` or `failed`.
    pub outcome: &'static str,
    /// What is to be known of it.
    pub detail: Option<String>,
}

/// Everything that was looked at or made.
#[derive(Debug)]
pub struct BucketReport {
    pub(super) rows: Vec<Row>,
    pub(super) remarks: Vec<Remark>,
    pub(super) verdict: Verdict,
}

impl Report for BucketReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["WHAT", "NAME", "OUTCOME", "DETAIL"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let detail = row.detail.clone().unwrap_or_else(|| "-".to_owned());
        vec![row.what.to_owned(), row.name.clone(), row.outcome.to_owned(), detail]
    }

    fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// A row for a step, with an outcome.
pub fn row(request: &Request, step: &Step, outcome: &'static str) -> Row {
    let (what, name) = match (step.what, &request.place) {
        (What::Objectspace, Place::Portal(portal)) => ("objectspace", portal.objectspace.clone()),
        (What::Key(access), Place::Portal(portal)) => ("key", portal.key(access)),
        (What::AbortRule, _) => ("abort-rule", format!("{} days", request.abort_after_days)),
        (What::DefaultLock(mode, days), _) => ("default-lock", format!("{mode}, {days} days")),
        (What::Bucket | What::Objectspace | What::Key(_), _) => {
            ("bucket", request.target.s3.bucket.clone())
        }
    };
    Row { what, name, outcome, detail: step.note.clone() }
}

/// What would be made.
pub fn rehearsed(request: &Request, plan: &[Step]) -> BucketReport {
    let outcome = |step: &Step| match (step.todo, &step.note) {
        (true, None) => "would-be-created",
        (true, Some(_)) => "would-be-written",
        (false, Some(_)) => "kept",
        (false, None) => "unchanged",
    };
    let rows = plan.iter().map(|step| row(request, step, outcome(step))).collect();
    BucketReport { rows, remarks: Vec::new(), verdict: Verdict::Done }
}
