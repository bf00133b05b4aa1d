//! What a tool says when it is done: one value for table, JSON and NDJSON.

use serde::Serialize;

/// What a finished run means, and so the program's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Done, or nothing to do.
    Done,
    /// What was asked is not true now.
    Failed,
    /// Refused before anything was changed.
    Refused,
    /// The other side failed; the same command may work later.
    OtherSide,
    /// Failed, and something was left behind, which the report lists.
    LeftBehind,
}

/// The result of a run: rows of one kind, and a verdict.
pub trait Report {
    /// One row; its serialised form is a documented, stable interface.
    type Row: Serialize;

    /// The rows, in the order in which they should be shown.
    fn rows(&self) -> &[Self::Row];

    /// The table's column titles.
    fn headers(&self) -> &'static [&'static str];

    /// One row's cells, as many as there are headers.
    fn cells(&self, row: &Self::Row) -> Vec<String>;

    /// Lines for a person, shown on stderr after the table: errors of rows and their hints,
    /// what was left behind, what could not be verified.
    fn remarks(&self) -> Vec<Remark> {
        Vec::new()
    }

    /// What it all means.
    fn verdict(&self) -> Verdict;
}

/// A line for a person that accompanies a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Something failed.
    Error(String),
    /// Something to keep in mind.
    Warning(String),
    /// What to do next.
    Hint(String),
}
