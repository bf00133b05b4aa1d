//! The table of `check`.

use serde::Serialize;

use crate::fault::{Fault, chain};
use crate::report::{Remark, Report, Verdict};
use crate::s3::POLICY;

/// What to do about a permission that is lacking.
const RIGHTS: &str = "add it to the bucket's policy or the key's rights: \
                      docs/reference/s3-permissions.md has them all";

/// How something turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Good,
    /// A backup works, and something else will not, or not well.
    Warning,
    /// A backup would fail.
    Failed,
    /// Could not be tried, or needs not be.
    Skipped,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `s3`, `lock`, `clock`, `etcd`, `node`, `certificates` or `encryption`.
    pub area: &'static str,
    /// What was looked at.
    pub check: String,
    /// How it turned out.
    pub outcome: Outcome,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether somebody else's failure made it fail.
    #[serde(skip)]
    pub other_side: bool,
}

impl Row {
    /// A row without a hint.
    pub fn new(
        area: &'static str,
        check: impl Into<String>,
        outcome: Outcome,
        detail: impl Into<String>,
    ) -> Self {
        let (check, detail) = (check.into(), detail.into());
        Self { area, check, outcome, detail, hint: None, other_side: false }
    }

    /// With something to do.
    #[must_use]
    pub fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What an error makes of it.
    pub fn of_error(
        area: &'static str,
        check: impl Into<String>,
        outcome: Outcome,
        error: &dyn Fault,
    ) -> Self {
        let mut row = Self::new(area, check, outcome, chain_of(error));
        // Whoever reads this has run `check` already.
        let hint = error.hints().into_iter().next();
        row.hint = hint.map(|hint| if hint == POLICY { RIGHTS.to_owned() } else { hint });
        row.other_side = error.class().is_other_side();
        row
    }
}

/// The error with its causes; a trait object of ours is no `dyn Error` by itself.
fn chain_of(error: &dyn Fault) -> String {
    let mut line = error.to_string();
    if let Some(source) = error.source() {
        let rest = chain(source);
        if !line.ends_with(&rest) {
            line = format!("{line}: {rest}");
        }
    }
    line
}

/// Everything that was looked at.
#[derive(Debug)]
pub struct CheckReport {
    rows: Vec<Row>,
    left: Vec<String>,
}

impl CheckReport {
    /// `left` is what the check could not remove again, in words.
    #[must_use]
    pub fn new(rows: Vec<Row>, left: Vec<String>) -> Self {
        Self { rows, left }
    }
}

impl Report for CheckReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["AREA", "CHECK", "OUTCOME", "FOUND"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let found = row.detail.clone();
        vec![row.area.to_owned(), row.check.clone(), row.outcome.as_str().to_owned(), found]
    }

    fn remarks(&self) -> Vec<Remark> {
        let mut remarks: Vec<Remark> = self.left.iter().cloned().map(Remark::Warning).collect();
        for row in &self.rows {
            let Some(hint) = &row.hint else { continue };
            let said = Remark::Hint(format!("{}: {hint}", row.check));
            if !remarks.contains(&said) {
                remarks.push(said);
            }
        }
        remarks
    }

    fn verdict(&self) -> Verdict {
        let failed = || self.rows.iter().filter(|row| row.outcome == Outcome::Failed);
        if failed().next().is_none() {
            Verdict::Done
        } else if failed().all(|row| row.other_side) {
            Verdict::OtherSide
        } else {
            Verdict::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_decides_the_exit_code() {
        let row = |outcome, other_side| Row { other_side, ..Row::new("s3", "x", outcome, "y") };
        let (good, warned) = (row(Outcome::Good, false), row(Outcome::Warning, true));
        let (ours, theirs) = (row(Outcome::Failed, false), row(Outcome::Failed, true));
        for (rows, verdict) in [
            (vec![], Verdict::Done),
            (vec![good.clone(), warned.clone()], Verdict::Done),
            (vec![good.clone(), theirs.clone()], Verdict::OtherSide),
            (vec![theirs, ours], Verdict::Failed),
        ] {
            assert_eq!(CheckReport::new(rows, vec![]).verdict(), verdict);
        }
    }

    #[test]
    fn a_hint_is_given_once() {
        let row = Row::new("s3", "x", Outcome::Failed, "y").hinted("do z");
        let report = CheckReport::new(vec![row.clone(), row], vec!["k stays".to_owned()]);
        let hints = [Remark::Warning("k stays".to_owned()), Remark::Hint("x: do z".to_owned())];
        assert_eq!(report.remarks(), hints);
    }
}
