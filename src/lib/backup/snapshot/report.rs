//! How a snapshot ended: one row, and what a person should know of it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::backup::wording::{moment, yes_or_no};
use crate::fault::{Class, Fault, chain};
use crate::report::{Remark, Report, Verdict, size};
use crate::snapshot::manifest::Manifest;

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is in the bucket.
    Stored,
    /// The slot's backup was there, made by this node or another, and is good.
    AlreadyMade,
    /// It is in the local file alone.
    Saved,
    /// It would be made.
    Planned,
    /// There is no backup; what is left in the bucket is listed.
    Failed,
}

impl Outcome {
    /// Its published word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::AlreadyMade => "already-made",
            Self::Saved => "saved",
            Self::Planned => "planned",
            Self::Failed => "failed",
        }
    }
}

/// The backup; its serialised form is a documented, stable interface.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What became of it.
    pub outcome: Outcome,
    /// etcd's cluster id.
    pub cluster: String,
    /// The backup's name, as `list` shows it; none without a bucket.
    pub backup: Option<String>,
    /// When the snapshot was asked for.
    pub taken: Option<String>,
    /// The node that made it.
    pub node: String,
    /// The member that it was taken from.
    pub member: Option<String>,
    /// Where that member is.
    pub endpoint: Option<String>,
    /// Its version.
    pub etcd_version: Option<String>,
    /// The database's version.
    pub storage_version: Option<String>,
    /// The database's newest revision.
    pub revision: Option<i64>,
    /// The database's size in bytes.
    pub db_size: Option<u64>,
    /// The database's SHA-256.
    pub db_sha256: Option<String>,
    /// Bytes of all its objects as stored.
    pub stored_size: Option<u64>,
    /// The database's bytes as stored.
    pub data_size: Option<u64>,
    /// Their SHA-256.
    pub data_sha256: Option<String>,
    /// The database's object.
    pub key: Option<String>,
    /// Its version.
    pub version_id: Option<String>,
    /// The object of the node's keys.
    pub pki_key: Option<String>,
    /// Whom it is encrypted to; empty without encryption.
    pub recipients: Vec<String>,
    /// The lock's mode, as it was read back.
    pub lock_mode: Option<&'static str>,
    /// The lock's end.
    pub locked_until: Option<String>,
    /// The local copy.
    pub out: Option<PathBuf>,
    /// Objects and uploads that were left in the bucket and belong to no backup.
    pub left: Vec<String>,
    /// What went wrong.
    pub error: Option<String>,
}

impl Row {
    /// A row about which nothing is known yet.
    #[must_use]
    pub fn new(outcome: Outcome, cluster: impl std::fmt::Display, node: &str) -> Self {
        Self {
            outcome,
            cluster: cluster.to_string(),
            backup: None,
            taken: None,
            node: node.to_owned(),
            member: None,
            endpoint: None,
            etcd_version: None,
            storage_version: None,
            revision: None,
            db_size: None,
            db_sha256: None,
            stored_size: None,
            data_size: None,
            data_sha256: None,
            key: None,
            version_id: None,
            pki_key: None,
            recipients: Vec::new(),
            lock_mode: None,
            locked_until: None,
            out: None,
            left: Vec::new(),
            error: None,
        }
    }

    /// What a manifest says.
    #[must_use]
    pub fn of(outcome: Outcome, manifest: &Manifest) -> Self {
        let pki = manifest.pki.as_ref().map_or(0, |pki| pki.content.size);
        let own = manifest.to_json().len() as u64;
        Self {
            backup: Some(manifest.slot.to_string()),
            member: Some(manifest.member.to_string()),
            etcd_version: Some(manifest.etcd_version.clone()),
            storage_version: manifest.storage_version.clone(),
            revision: Some(manifest.revision),
            db_size: Some(manifest.db.size),
            db_sha256: Some(manifest.db.sha256.clone()),
            taken: Some(moment(manifest.started)),
            stored_size: Some(manifest.data.content.size + pki + own),
            data_size: Some(manifest.data.content.size),
            data_sha256: Some(manifest.data.content.sha256.clone()),
            key: Some(manifest.data.key.clone()),
            version_id: manifest.data.version_id.clone(),
            pki_key: manifest.pki.as_ref().map(|pki| pki.key.clone()),
            recipients: manifest.recipients.clone(),
            lock_mode: manifest.lock.map(|lock| lock.mode.as_str()),
            locked_until: manifest.lock.map(|lock| moment(lock.until)),
            ..Self::new(outcome, manifest.cluster, &manifest.node)
        }
    }
}

/// How it ended.
#[derive(Debug)]
pub struct SnapshotReport {
    row: Row,
    remarks: Vec<Remark>,
    verdict: Verdict,
}

impl SnapshotReport {
    /// A good end, as far as nothing is added.
    #[must_use]
    pub fn new(row: Row) -> Self {
        Self { row, remarks: Vec::new(), verdict: Verdict::Done }
    }

    /// The local copy.
    #[must_use]
    pub fn saved_at(mut self, path: &Path) -> Self {
        self.row.out = Some(path.to_owned());
        self
    }

    /// The local copy of the node's keys.
    #[must_use]
    pub fn keys_saved_at(mut self, path: &Path) -> Self {
        self.row.pki_key = Some(path.display().to_string());
        self
    }

    /// Something to keep in mind.
    #[must_use]
    pub fn warned(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.remarks.extend(warnings.into_iter().map(Remark::Warning));
        self
    }

    /// Something to do.
    #[must_use]
    pub fn hinted(mut self, hint: &str) -> Self {
        self.remarks.push(Remark::Hint(hint.to_owned()));
        self
    }

    /// Something that was asked and is not so.
    #[must_use]
    pub fn failed(mut self, verdict: Verdict, error: String) -> Self {
        self.remarks.push(Remark::Error(error.clone()));
        self.row.error.get_or_insert(error);
        // What was left behind is said whatever else went wrong.
        if self.verdict != Verdict::LeftBehind {
            self.verdict = verdict;
        }
        self
    }

    /// The same, from an error of another room.
    #[must_use]
    pub fn failed_by(self, error: &dyn Fault) -> Self {
        let hints = error.hints();
        let failed = self.failed(verdict_of(error.class()), chain_of(error));
        hints.iter().fold(failed, |report, hint| report.hinted(hint))
    }

    /// That the bucket has the backup, although something else of the run failed.
    #[must_use]
    pub fn half(self) -> Self {
        if self.row.outcome != Outcome::Stored || self.verdict == Verdict::LeftBehind {
            return self;
        }
        let mut told = self.hinted("the backup is in the bucket all the same, whole and good");
        told.verdict = Verdict::LeftBehind;
        told
    }

    /// Something that stays in the bucket and is no backup.
    #[must_use]
    pub fn left(mut self, what: impl IntoIterator<Item = String>) -> Self {
        for what in what {
            self.remarks.push(Remark::Warning(format!("left in the bucket: {what}")));
            self.row.left.push(what);
        }
        if !self.row.left.is_empty() {
            self.verdict = Verdict::LeftBehind;
        }
        self
    }
}

fn chain_of(error: &dyn Fault) -> String {
    let mut line = error.to_string();
    if let Some(source) = error.source() {
        line.push_str(": ");
        line.push_str(&chain(source));
    }
    line
}

fn verdict_of(class: Class) -> Verdict {
    match class {
        class if class.is_other_side() => Verdict::OtherSide,
        _ => Verdict::Failed,
    }
}

impl Report for SnapshotReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        std::slice::from_ref(&self.row)
    }

    fn headers(&self) -> &'static [&'static str] {
        &[
            "BACKUP",
            "CLUSTER",
            "TAKEN",
            "NODE",
            "ETCD",
            "REVISION",
            "DB",
            "STORED",
            "KEYS",
            "LOCKED UNTIL",
            "OUTCOME",
        ]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let dash = || "-".to_owned();
        let text = |text: &Option<String>| text.clone().unwrap_or_else(dash);
        let out = row.out.as_ref().map(|path| path.display().to_string());
        vec![
            row.backup.clone().or(out).unwrap_or_else(dash),
            row.cluster.clone(),
            text(&row.taken),
            row.node.clone(),
            text(&row.etcd_version),
            row.revision.map_or_else(dash, |revision| revision.to_string()),
            row.db_size.map_or_else(dash, size),
            row.stored_size.map_or_else(dash, size),
            yes_or_no(row.stored_size.map(|_| row.pki_key.is_some())).to_owned(),
            text(&row.locked_until),
            row.outcome.word().to_owned(),
        ]
    }

    fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::Error;

    fn report() -> SnapshotReport {
        SnapshotReport::new(Row::new(Outcome::Stored, "c", "n"))
    }

    #[test]
    fn what_was_left_behind_outweighs_everything_else() {
        assert_eq!(report().verdict(), Verdict::Done);
        assert_eq!(report().warned(["w".to_owned()]).verdict(), Verdict::Done);
        let other = |report: SnapshotReport| report.failed(Verdict::OtherSide, "e".into());
        assert_eq!(other(report()).verdict(), Verdict::OtherSide);
        assert_eq!(report().left([]).verdict(), Verdict::Done);
        assert_eq!(other(report().left(["k".to_owned()])).verdict(), Verdict::LeftBehind);
        assert_eq!(other(report()).left(["k".to_owned()]).verdict(), Verdict::LeftBehind);
    }

    #[test]
    fn an_error_of_another_room_brings_its_hints() {
        let failed = report().failed_by(&Error::declined("no", "do this"));
        assert_eq!(failed.verdict(), Verdict::Failed);
        let remarks = [Remark::Error("no".into()), Remark::Hint("do this".into())];
        assert_eq!(failed.remarks(), remarks);
        assert_eq!(failed.rows()[0].error.as_deref(), Some("no"));
    }

    #[test]
    fn an_outcome_has_one_word_for_people_and_programs() {
        use Outcome::{AlreadyMade, Failed, Planned, Saved, Stored};
        for outcome in [Stored, AlreadyMade, Saved, Planned, Failed] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.word());
        }
    }

    #[test]
    fn a_row_has_a_cell_for_every_header() {
        let report = report();
        assert_eq!(report.cells(&report.rows()[0]).len(), report.headers().len());
        assert_eq!(report.cells(&report.rows()[0]).last().map(String::as_str), Some("stored"));
    }
}
