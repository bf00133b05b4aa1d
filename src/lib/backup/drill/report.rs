//! What a drill says: how long each step took, and what was compared.

use serde::Serialize;

use crate::report::{Remark, Report, Verdict};

/// How a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Good,
    /// Not as it was in the backup.
    Failed,
    /// It cannot be compared.
    Skipped,
}

/// A step that was measured, or a thing that was compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `find`, `fetch`, `restore`, `start`, `revision`, `keys`, `history`, `write`, `total`.
    pub step: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// Seconds; none for what was only compared.
    pub seconds: Option<f64>,
    /// What was found.
    pub detail: String,
}

impl Row {
    fn new(step: &'static str, outcome: Outcome, detail: String) -> Self {
        Self { step, outcome, seconds: None, detail }
    }

    /// As it should be.
    #[must_use]
    pub fn good(step: &'static str, detail: String) -> Self {
        Self::new(step, Outcome::Good, detail)
    }

    /// Not as it was.
    #[must_use]
    pub fn bad(step: &'static str, detail: String) -> Self {
        Self::new(step, Outcome::Failed, detail)
    }

    /// Not comparable.
    #[must_use]
    pub fn skipped(step: &'static str, detail: String) -> Self {
        Self::new(step, Outcome::Skipped, detail)
    }

    /// Two counts.
    #[must_use]
    pub fn compared(step: &'static str, expected: u64, found: u64) -> Self {
        if expected == found {
            Self::good(step, found.to_string())
        } else {
            Self::bad(step, format!("{found} instead of {expected}"))
        }
    }

    /// With the time that it took.
    #[must_use]
    pub fn took(self, seconds: f64) -> Self {
        Self { seconds: Some(seconds), ..self }
    }
}

/// A drill.
#[derive(Debug)]
pub struct DrillReport {
    pub(super) rows: Vec<Row>,
    pub(super) warnings: Vec<String>,
    pub(super) left_behind: Option<String>,
}

impl Report for DrillReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["STEP", "OUTCOME", "SECONDS", "DETAIL"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let outcome = match row.outcome {
            Outcome::Good => "good",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        };
        let seconds = row.seconds.map_or_else(String::new, |seconds| format!("{seconds:.1}"));
        vec![row.step.to_owned(), outcome.to_owned(), seconds, row.detail.clone()]
    }

    fn remarks(&self) -> Vec<Remark> {
        let left = self.left_behind.iter().cloned().map(Remark::Error);
        self.warnings.iter().cloned().map(Remark::Warning).chain(left).collect()
    }

    fn verdict(&self) -> Verdict {
        if self.rows.iter().any(|row| row.outcome == Outcome::Failed) {
            Verdict::Failed
        } else if self.left_behind.is_some() {
            Verdict::LeftBehind
        } else {
            Verdict::Done
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: Vec<Row>) -> DrillReport {
        DrillReport { rows, warnings: Vec::new(), left_behind: None }
    }

    #[test]
    fn one_difference_fails_the_drill_and_what_cannot_be_compared_does_not() {
        let good = || Row::compared("keys", 5, 5);
        assert_eq!(report(vec![good()]).verdict(), Verdict::Done);
        let skipped = Row::skipped("history", String::new());
        assert_eq!(report(vec![good(), skipped]).verdict(), Verdict::Done);
        let bad = Row::compared("keys", 5, 4);
        assert_eq!(bad.detail, "4 instead of 5");
        assert_eq!(report(vec![good(), bad.took(1.26)]).verdict(), Verdict::Failed);
        let row = good().took(1.26);
        assert_eq!(report(Vec::new()).cells(&row), ["keys", "good", "1.3", "5"]);
    }
}
