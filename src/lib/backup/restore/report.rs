//! What a restore says: one object for programs, a page for people.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::procedure::Step;
use crate::report::{Remark, Report, Verdict, size};

/// A restore, done or planned.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `planned` or `restored`.
    pub outcome: &'static str,
    /// What it was made of: `backup 20261130T060000Z`, `file PATH`.
    pub source: String,
    /// The key of the object, if it was one.
    pub object: Option<String>,
    /// Its version.
    pub version_id: Option<String>,
    /// The cluster that the backup is of, where that is known.
    pub cluster: Option<String>,
    /// When its snapshot was taken, which is what `--at` compares with.
    pub taken: Option<String>,
    /// The revision of the backup.
    pub revision: Option<i64>,
    /// Bytes of the database.
    pub db_size: Option<u64>,
    /// Its SHA-256.
    #[serde(rename = "dbSha256")]
    pub sha256: Option<String>,
    /// Keys that live in it.
    pub live_keys: Option<u64>,
    /// The hash of `etcdutl snapshot status`, eight hexadecimal digits.
    pub hash: Option<String>,
    /// The lowest line of etcd that may be started on it.
    pub lowest_etcd: Option<String>,
    /// What proves that the data is what was backed up.
    pub proven: Vec<String>,
    /// The data directory that was made.
    pub data_dir: Option<PathBuf>,
    /// Where the old one is.
    pub moved_to: Option<PathBuf>,
    /// The database file that was made.
    pub db_file: Option<PathBuf>,
    /// The folder of the node's keys.
    pub pki: Option<PathBuf>,
    /// How many files they are, once that is known.
    pub pki_files: Option<usize>,
    /// The new member.
    pub member: Option<NewMember>,
    /// What was, or will be, done.
    pub steps: Vec<String>,
    /// What remains to be done by hand.
    pub remains: Vec<Step>,
    /// Seconds that it took.
    pub seconds: Option<f64>,
}

/// A member of the new cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewMember {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The new cluster's id: the same on all members.
    #[serde(rename = "cluster")]
    pub cluster_id: String,
    /// The token that made it so.
    pub token: String,
    /// The revision that clients will see, once that is known.
    pub revision: Option<i64>,
}

/// A restore, done or planned.
#[derive(Debug)]
pub struct RestoreReport {
    pub(super) rows: Vec<Row>,
    pub(super) warnings: Vec<String>,
    pub(super) left_behind: Option<String>,
}

impl Report for RestoreReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["SOURCE", "OUTCOME", "REVISION", "INTO"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let revision = row.revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string());
        let into = [&row.data_dir, &row.db_file, &row.pki].into_iter().flatten().next();
        let into = into.map_or_else(|| "-".to_owned(), |path| path.display().to_string());
        vec![row.source.clone(), row.outcome.to_owned(), revision, into]
    }

    fn remarks(&self) -> Vec<Remark> {
        let left = self.left_behind.iter().cloned().map(Remark::Error);
        self.warnings.iter().cloned().map(Remark::Warning).chain(left).collect()
    }

    fn verdict(&self) -> Verdict {
        if self.left_behind.is_some() { Verdict::LeftBehind } else { Verdict::Done }
    }
}

impl RestoreReport {
    /// The page for people.
    #[must_use]
    pub fn text(&self) -> String {
        self.rows.iter().map(Row::text).collect()
    }
}

impl Row {
    fn text(&self) -> String {
        let mut out = String::new();
        let facts: Vec<(&str, String)> = self.facts();
        let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, fact) in &facts {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name:width$}  {fact}");
        }
        if self.outcome == "planned" {
            list(&mut out, "This would be done:", &self.steps);
        }
        if !self.remains.is_empty() {
            out.push_str("\nThis remains to be done by you:\n");
        }
        for (number, step) in (1..).zip(&self.remains) {
            let _ = writeln!(out, "{number:2}. {}", step.what);
            for command in &step.commands {
                let _ = writeln!(out, "      {command}");
            }
        }
        out
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![(self.outcome, self.source.clone())];
        let text = |path: &PathBuf| path.display().to_string();
        let optional = [
            ("object", self.object.clone()),
            ("version", self.version_id.clone()),
            ("of cluster", self.cluster.clone()),
            ("taken", self.taken.clone()),
            ("revision", self.revision.map(|revision| revision.to_string())),
            ("database", self.db_size.map(|bytes| self.database(bytes))),
            ("proven by", Some(self.proven.join("; ")).filter(|text| !text.is_empty())),
            ("etcd", self.lowest_etcd.as_ref().map(|lowest| format!("{lowest} or newer"))),
            ("data dir", self.data_dir.as_ref().map(text)),
            ("old data", self.moved_to.as_ref().map(text)),
            ("file", self.db_file.as_ref().map(text)),
            ("keys", self.pki.as_ref().map(|path| self.keys(path))),
        ];
        all.extend(optional.into_iter().filter_map(|(name, fact)| Some((name, fact?))));
        if let Some(member) = &self.member {
            all.push(("member", format!("{} {}", member.name, member.id)));
            all.push(("new cluster", format!("{}, token {}", member.cluster_id, member.token)));
            let revision = member.revision.map(|revision| ("begins at", revision.to_string()));
            all.extend(revision);
        }
        all.extend(self.seconds.map(|seconds| ("took", format!("{seconds:.1} s"))));
        all
    }

    fn keys(&self, path: &Path) -> String {
        let files = self.pki_files.map(|files| format!("{files} files below "));
        format!("{}{}", files.unwrap_or_default(), path.display())
    }

    fn database(&self, bytes: u64) -> String {
        let keys = self.live_keys.map(|keys| format!(", {keys} keys")).unwrap_or_default();
        let hash = self.hash.as_ref().map(|hash| format!(", hash {hash}")).unwrap_or_default();
        format!("{}{keys}{hash}", size(bytes))
    }
}

fn list(out: &mut String, title: &str, lines: &[String]) {
    let _ = writeln!(out, "\n{title}");
    for (number, line) in (1..).zip(lines) {
        let _ = writeln!(out, "{number:2}. {line}");
    }
}
