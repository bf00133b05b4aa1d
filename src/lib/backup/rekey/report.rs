//! Which backups were encrypted anew, and to whom.

use serde::Serialize;

use crate::report::{Remark, Report, Verdict};

/// One backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// etcd's cluster id.
    pub cluster: String,
    /// The original's name.
    pub backup: String,
    /// The copy's name.
    pub rekeyed_as: Option<String>,
    /// `rekeyed`, `unchanged`, `would-be-rekeyed` or `failed`.
    pub outcome: &'static str,
    /// Why.
    pub why: Option<String>,
    /// Whom the copy is encrypted to.
    pub recipients: Vec<String>,
    /// The copy's lock, as it was read back.
    pub lock_mode: Option<&'static str>,
    /// Its end.
    pub locked_until: Option<String>,
}

/// All rows.
#[derive(Debug)]
pub struct RekeyReport {
    pub(super) rows: Vec<Row>,
    pub(super) remarks: Vec<Remark>,
    pub(super) verdict: Verdict,
}

impl RekeyReport {
    pub(super) fn new() -> Self {
        Self { rows: Vec::new(), remarks: Vec::new(), verdict: Verdict::Done }
    }

    /// What was left behind outweighs what failed, and that what may pass by itself.
    pub(super) fn worsen(&mut self, verdict: Verdict) {
        let rank = |verdict: Verdict| match verdict {
            Verdict::Done => 0,
            Verdict::OtherSide => 1,
            Verdict::Refused => 2,
            Verdict::Failed => 3,
            Verdict::LeftBehind => 4,
        };
        if rank(verdict) > rank(self.verdict) {
            self.verdict = verdict;
        }
    }
}

impl Report for RekeyReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["CLUSTER", "BACKUP", "OUTCOME", "REKEYED AS", "LOCKED UNTIL", "WHY"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        vec![
            row.cluster.clone(),
            row.backup.clone(),
            row.outcome.to_owned(),
            or_dash(&row.rekeyed_as),
            or_dash(&row.locked_until),
            or_dash(&row.why),
        ]
    }

    fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}
