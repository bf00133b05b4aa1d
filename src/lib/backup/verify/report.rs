//! One row a check.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::fault::{Fault as _, chain};
use crate::report::{Remark, Report, Verdict};
use crate::snapshot::catalog::Entry;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As it should be.
    Good,
    /// Not as it should be.
    Failed,
    /// It could not be looked at.
    Unknown,
}

/// One check of one backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// etcd's cluster id.
    pub cluster: String,
    /// The backup's name.
    pub backup: String,
    /// What was looked at.
    pub check: &'static str,
    /// How it is.
    pub outcome: Outcome,
    /// What was seen.
    pub detail: String,
    /// What to do, where it is not the backup's fault.
    #[serde(skip)]
    pub hint: Option<String>,
}

/// The checks of one backup, as they are made.
#[derive(Debug)]
pub(super) struct Checks {
    cluster: String,
    backup: String,
    rows: Vec<Row>,
}

impl Checks {
    pub fn of(entry: &Entry) -> Self {
        let (cluster, backup) = (entry.cluster.to_string(), entry.slot.to_string());
        Self { cluster, backup, rows: Vec::new() }
    }

    fn add(&mut self, check: &'static str, outcome: Outcome, detail: String) {
        let (cluster, backup) = (self.cluster.clone(), self.backup.clone());
        self.rows.push(Row { cluster, backup, check, outcome, detail, hint: None });
    }

    pub fn good(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, Outcome::Good, detail.into());
    }

    pub fn bad(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, Outcome::Failed, detail.into());
    }

    pub fn unknown(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, Outcome::Unknown, detail.into());
    }

    /// What could not be opened: a key that does not fit says nothing against the backup.
    pub fn closed(&mut self, check: &'static str, error: &crate::snapshot::Error) {
        self.bad(check, chain(error));
        if let (crate::snapshot::Error::WrongKey { .. }, Some(row)) = (error, self.rows.last_mut())
        {
            row.hint = error.hints().into_iter().next();
        }
    }

    pub fn judged(&mut self, check: &'static str, judged: Result<String, String>) {
        match judged {
            Ok(detail) => self.good(check, detail),
            Err(detail) => self.bad(check, detail),
        }
    }

    pub fn all_good(&self) -> bool {
        !self.rows.iter().any(|row| row.outcome == Outcome::Failed)
    }
}

/// All checks of all backups.
#[derive(Debug, Default)]
pub struct VerifyReport {
    rows: Vec<Row>,
}

impl VerifyReport {
    pub(super) fn add(&mut self, checks: Checks) {
        self.rows.extend(checks.rows);
    }

    fn bad(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.outcome == Outcome::Failed)
    }
}

impl Report for VerifyReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["BACKUP", "CHECK", "OUTCOME", "DETAIL"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let outcome = match row.outcome {
            Outcome::Good => "good",
            Outcome::Failed => "failed",
            Outcome::Unknown => "unknown",
        };
        vec![row.backup.clone(), row.check.to_owned(), outcome.to_owned(), row.detail.clone()]
    }

    fn remarks(&self) -> Vec<Remark> {
        let bad = self.bad().map(|row| {
            let Row { cluster, backup, check, detail, .. } = row;
            Remark::Error(format!("{backup} of cluster {cluster}: {check}: {detail}"))
        });
        let mut remarks: Vec<Remark> = bad.collect();
        let hints: BTreeSet<&String> = self.bad().filter_map(|row| row.hint.as_ref()).collect();
        remarks.extend(hints.into_iter().cloned().map(Remark::Hint));
        if self.bad().any(|row| row.hint.is_none()) {
            let hint = "take a new backup now, and keep this one until somebody has looked at it";
            remarks.push(Remark::Hint(hint.to_owned()));
        }
        remarks
    }

    fn verdict(&self) -> Verdict {
        if self.bad().next().is_some() { Verdict::Failed } else { Verdict::Done }
    }
}
