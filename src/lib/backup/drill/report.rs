//! What a drill has shown.

use serde::Serialize;

use crate::report::{Remark, Report, Verdict};

/// One thing that was compared, or measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The backup.
    pub backup: String,
    /// What was compared.
    pub check: &'static str,
    /// `good`, `FAILED` or `measured`.
    pub result: &'static str,
    /// What the backup holds, or the time that it took.
    pub expected: String,
    /// What the started etcd says.
    pub found: String,
}

/// A drill.
#[derive(Debug)]
pub struct DrillReport {
    pub(super) backup: String,
    pub(super) rows: Vec<Row>,
    /// Seconds from the first call to the first write that was served.
    pub(super) seconds: f64,
}

impl DrillReport {
    pub(super) fn new(backup: String) -> Self {
        Self { backup, rows: Vec::new(), seconds: 0.0 }
    }

    pub(super) fn compare(&mut self, check: &'static str, expected: &str, found: &str) {
        let result = if expected == found { "good" } else { "FAILED" };
        self.row(check, result, expected.to_owned(), found.to_owned());
    }

    pub(super) fn measured(&mut self, check: &'static str, seconds: f64) {
        self.row(check, "measured", String::new(), format!("{seconds:.1} s"));
    }

    fn row(&mut self, check: &'static str, result: &'static str, expected: String, found: String) {
        self.rows.push(Row { backup: self.backup.clone(), check, result, expected, found });
    }

    fn failed(&self) -> bool {
        self.rows.iter().any(|row| row.result == "FAILED")
    }
}

impl Report for DrillReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["BACKUP", "CHECK", "RESULT", "IN THE BACKUP", "FROM ETCD"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let expected = if row.expected.is_empty() { "-" } else { &row.expected };
        let check = row.check.to_owned();
        vec![row.backup.clone(), check, row.result.to_owned(), expected.into(), row.found.clone()]
    }

    fn remarks(&self) -> Vec<Remark> {
        if self.failed() {
            let what = format!("{} does not come back as it was backed up", self.backup);
            let hint = "verify it, and drill an older one (--object); tell us what you find";
            return vec![Remark::Error(what), Remark::Hint(hint.to_owned())];
        }
        Vec::new()
    }

    fn verdict(&self) -> Verdict {
        if self.failed() { Verdict::Failed } else { Verdict::Done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_difference_is_a_failed_drill() {
        let mut report = DrillReport::new("20261130T120000Z".into());
        report.compare("revision", "7", "7");
        report.measured("time to restore", 2.345);
        assert_eq!((report.verdict(), report.remarks().len()), (Verdict::Done, 0));
        assert_eq!(report.cells(&report.rows[1])[3..], ["-", "2.3 s"]);
        report.compare("keys", "7", "8");
        assert_eq!((report.verdict(), report.remarks().len()), (Verdict::Failed, 2));
        assert_eq!(report.rows[2].result, "FAILED");
    }
}
