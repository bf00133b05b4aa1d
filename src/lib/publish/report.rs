//! How publishing ended, location by location: the rows of table, JSON and NDJSON.

use std::time::Duration;

use serde::Serialize;

use super::error::Problem;
use super::plan::ids;
use crate::fault::Class;
use crate::id::{ImageId, Location};
use crate::report::{Remark, Report, Verdict, size};

/// What became of one location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A new image is usable.
    Created,
    /// The image was there already.
    Unchanged,
    /// Another run's image was waited for and is usable.
    Joined,
    /// A new image is usable and the old one is gone.
    Replaced,
    /// The import runs; `-no-wait` did not wait for it.
    Submitted,
    /// `-dry-run`: nothing was done.
    Planned,
    /// Ctrl-C came first.
    Interrupted,
    /// What was asked is not true.
    Failed,
}

impl Outcome {
    /// The word, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Unchanged => "unchanged",
            Self::Joined => "joined",
            Self::Replaced => "replaced",
            Self::Submitted => "submitted",
            Self::Planned => "planned",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }

    const fn is_failure(self) -> bool {
        matches!(self, Self::Interrupted | Self::Failed)
    }
}

/// One location's row. Its serialised form is a stable interface: keys are added, never changed.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The location.
    pub location: Location,
    /// What became of it.
    pub result: Outcome,
    /// The image there; null where there is none, or none is known.
    pub image_id: Option<ImageId>,
    /// The image's size as we sent it or as its URL says, in bytes; null where nobody knows.
    pub bytes: Option<u64>,
    /// How long this location took, in seconds.
    pub seconds: f64,
    /// What went wrong; only on failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What to do about it; only on failure, and not always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What a dry run would do; only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// What decides the exit code.
    #[serde(skip)]
    pub fate: Fate,
    /// What could not be verified or does not fit, for people.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// What a row means for the exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fate {
    /// Of what kind the failure is; none where there is none.
    pub class: Option<Class>,
    /// Whether anything was sent that changes something.
    pub touched: bool,
    /// Images that were left behind, as far as their ids are known.
    pub left: Vec<ImageId>,
    /// Something was left behind, known by id or not.
    pub left_behind: bool,
}

impl Row {
    /// A row in which all is well so far.
    #[must_use]
    pub fn new(location: Location, result: Outcome, image_id: Option<ImageId>) -> Self {
        Self {
            location,
            result,
            image_id,
            bytes: None,
            seconds: 0.0,
            error: None,
            hint: None,
            plan: None,
            fate: Fate::default(),
            warnings: Vec::new(),
        }
    }

    /// A row of failure.
    #[must_use]
    pub fn failed(location: Location, result: Outcome, problem: Problem) -> Self {
        let mut row = Self::new(location, result, None);
        row.hint = (!problem.hints.is_empty()).then(|| problem.hints.join("; "));
        row.error = Some(problem.text);
        row.fate.class = Some(problem.class);
        row
    }

    /// Sets how long it took, to the millisecond.
    pub fn took(&mut self, time: Duration) {
        self.seconds = (time.as_secs_f64() * 1000.0).round() / 1000.0;
    }
}

/// The report of a run.
#[derive(Debug, Clone)]
pub struct PublishReport {
    rows: Vec<Row>,
    warnings: Vec<String>,
}

impl PublishReport {
    /// A report of these rows; the warnings are the whole run's.
    #[must_use]
    pub fn new(rows: Vec<Row>, warnings: Vec<String>) -> Self {
        Self { rows, warnings }
    }
}

impl Report for PublishReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["location", "result", "image", "size", "time", "note"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let note = [&row.error, &row.plan].into_iter().flatten().cloned();
        let hint = row.hint.iter().map(|hint| format!("({hint})"));
        vec![
            row.location.to_string(),
            row.result.word().to_owned(),
            row.image_id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            row.bytes.map_or_else(|| "-".to_owned(), size),
            format!("{:.1}s", row.seconds),
            note.chain(hint).collect::<Vec<_>>().join(" "),
        ]
    }

    fn remarks(&self) -> Vec<Remark> {
        let mut remarks: Vec<Remark> = self.warnings.iter().cloned().map(Remark::Warning).collect();
        for row in &self.rows {
            let here = |text: &String| format!("{}: {text}", row.location);
            remarks.extend(row.warnings.iter().map(|text| Remark::Warning(here(text))));
            remarks.extend(row.error.iter().map(|text| Remark::Error(here(text))));
            if !row.fate.left.is_empty() {
                let text = format!("left behind: image {}", ids(&row.fate.left));
                remarks.push(Remark::Error(here(&text)));
            }
        }
        remarks.extend(self.rows.iter().filter_map(|row| row.hint.clone()).map(Remark::Hint));
        remarks
    }

    /// 5 if something was left behind, else 4 if every failure was the other side's, else 3 if
    /// every location was declined before anything was done, else 1.
    fn verdict(&self) -> Verdict {
        let failures: Vec<&Row> = self.rows.iter().filter(|r| r.result.is_failure()).collect();
        let declined = |row: &&Row| {
            matches!(
                row.fate.class,
                Some(Class::Conflict | Class::Refused | Class::Auth | Class::NotFound)
            )
        };
        if self.rows.iter().any(|row| row.fate.left_behind) {
            Verdict::LeftBehind
        } else if failures.is_empty() {
            Verdict::Done
        } else if failures.iter().all(|row| row.fate.class.is_some_and(Class::is_other_side)) {
            Verdict::OtherSide
        } else if self.rows.iter().all(|row| declined(&row) && !row.fate.touched) {
            Verdict::Refused
        } else {
            Verdict::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(result: Outcome, class: Option<Class>, touched: bool, left: bool) -> Row {
        let mut row = Row::new("be-1".parse().unwrap(), result, Some(ImageId(7)));
        row.fate = Fate { class, touched, left: vec![], left_behind: left };
        row
    }

    #[test]
    fn verdicts_of_mixed_results() {
        use Outcome::{Created, Failed, Interrupted, Unchanged};
        let created = || row(Created, None, true, false);
        let unchanged = || row(Unchanged, None, false, false);
        let conflict = || row(Failed, Some(Class::Conflict), false, false);
        let import = || row(Failed, Some(Class::Invalid), true, false);
        let away = || row(Failed, Some(Class::Transient), true, false);
        let left = || row(Failed, Some(Class::Transient), true, true);
        let table: Vec<(Vec<Row>, Verdict)> = vec![
            (vec![], Verdict::Done),
            (vec![created(), unchanged()], Verdict::Done),
            (vec![conflict()], Verdict::Refused),
            (vec![conflict(), conflict()], Verdict::Refused),
            (vec![conflict(), unchanged()], Verdict::Failed),
            (vec![conflict(), created()], Verdict::Failed),
            (vec![import()], Verdict::Failed),
            (vec![away()], Verdict::OtherSide),
            (vec![away(), created()], Verdict::OtherSide),
            (vec![away(), import()], Verdict::Failed),
            (vec![away(), conflict()], Verdict::Failed),
            (vec![left(), import(), created()], Verdict::LeftBehind),
            (vec![row(Interrupted, None, true, true)], Verdict::LeftBehind),
            (vec![row(Interrupted, None, false, false)], Verdict::Failed),
        ];
        for (rows, verdict) in table {
            let shown = format!("{rows:?}");
            assert_eq!(PublishReport::new(rows, vec![]).verdict(), verdict, "{shown}");
        }
    }

    #[test]
    fn rows_keep_their_published_shape() {
        let mut row = Row::new("be-1".parse().unwrap(), Outcome::Created, Some(ImageId(7)));
        row.bytes = Some(10);
        row.took(Duration::from_micros(1_500_400));
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(
            json,
            r#"{"location":"be-1","result":"created","image_id":7,"bytes":10,"seconds":1.5}"#
        );
        let problem = Problem::refused("no").hint("do");
        let failed = Row::failed("be-1".parse().unwrap(), Outcome::Failed, problem);
        let json = serde_json::to_value(&failed).unwrap();
        assert_eq!((&json["error"], &json["hint"]), (&"no".into(), &"do".into()));
        assert!(json["image_id"].is_null() && json.get("plan").is_none(), "{json}");
    }

    #[test]
    fn what_was_left_behind_is_said() {
        let mut row = row(Outcome::Failed, Some(Class::Transient), true, true);
        row.fate.left = vec![ImageId(7), ImageId(9)];
        let remarks = PublishReport::new(vec![row], vec!["w".to_owned()]).remarks();
        assert_eq!(remarks[0], Remark::Warning("w".to_owned()));
        assert_eq!(remarks[1], Remark::Error("be-1: left behind: image 7, 9".to_owned()));
    }
}
