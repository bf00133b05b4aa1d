//! What was kept, removed, locked; and how much that freed.

use jiff::Timestamp;
use serde::Serialize;

use super::plan::{Action, Item, Plan, What};
use crate::backup::wording::{locked_until, moment, yes_or_no};
use crate::report::{Remark, Report, Verdict, size};
use crate::snapshot::layout::Part;

/// What became of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It stays.
    Kept,
    /// It is gone.
    Removed,
    /// It would go.
    WouldBeRemoved,
    /// It would go, and is locked or held.
    Locked {
        /// Until when, as far as the store tells.
        until: Option<Timestamp>,
        /// Whether by a legal hold.
        hold: bool,
    },
    /// It could not be removed; why.
    Failed(String),
    /// The run was interrupted before.
    NotReached,
}

impl Outcome {
    /// Its word in tables and JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Removed => "removed",
            Self::WouldBeRemoved => "would-be-removed",
            Self::Locked { .. } => "locked",
            Self::Failed(_) => "failed",
            Self::NotReached => "not-reached",
        }
    }
}

/// One backup, leftover or upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// etcd's cluster id.
    pub cluster: String,
    /// The backup that it is, or belongs to.
    pub backup: String,
    /// `backup`, `leftover` or `upload`.
    pub what: &'static str,
    /// `kept`, `removed`, `would-be-removed`, `locked`, `failed` or `not-reached`.
    pub outcome: &'static str,
    /// Why.
    pub why: String,
    /// The mode of the lock that ends last; `none` where the store has no lock.
    pub lock_mode: Option<&'static str>,
    /// Its end.
    pub locked_until: Option<String>,
    /// Whether a legal hold is on any of them.
    pub held: Option<bool>,
    /// How many object versions it has.
    pub objects: usize,
    /// Bytes as stored of all of them but claims.
    pub stored_size: u64,
    /// The keys, where it is no whole backup.
    pub keys: Vec<String>,
    /// What failed.
    pub error: Option<String>,
}

impl Row {
    pub(super) fn of(item: &Item, outcome: &Outcome) -> Self {
        let what = match item.what {
            What::Backup => "backup",
            What::Leftover => "leftover",
            What::Upload => "upload",
        };
        let whole = item.what == What::Backup;
        let keys = item.targets.iter().filter(|_| !whole).map(|target| target.key.clone());
        // The store's word when it refused is newer than what was read before.
        let (newer, hold) = match outcome {
            Outcome::Locked { until, hold } => (*until, *hold),
            _ => (None, false),
        };
        let lock = item.kept.lock;
        let error = match outcome {
            Outcome::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let locked_until = newer.or(lock.lock().map(|lock| lock.until)).map(moment);
        Self {
            cluster: item.cluster.to_string(),
            backup: item.slot.to_string(),
            what,
            outcome: outcome.word(),
            why: item.why.clone(),
            lock_mode: lock.mode().filter(|mode| newer.is_none() || *mode != "none"),
            locked_until,
            objects: item.targets.len(),
            held: if hold { Some(true) } else { item.kept.held },
            stored_size: stored(item),
            keys: keys.collect(),
            error,
        }
    }

    /// What the plan says of it.
    pub(super) fn planned(item: &Item, dry: bool) -> Self {
        let outcome = match &item.action {
            Action::Keep => Outcome::Kept,
            Action::Remove if dry => Outcome::WouldBeRemoved,
            Action::Remove => Outcome::NotReached,
            Action::Locked { until } => Outcome::Locked { until: *until, hold: until.is_none() },
        };
        Self::of(item, &outcome)
    }
}

/// A claim is no part of a backup.
fn stored(item: &Item) -> u64 {
    let claim = format!("/{}", Part::Claim);
    let objects = item.targets.iter();
    let parts = objects.filter(|t| item.what != What::Backup || !t.key.ends_with(&claim));
    parts.map(|target| target.size).sum()
}

/// All rows.
#[derive(Debug)]
pub struct PruneReport {
    pub(super) rows: Vec<Row>,
    pub(super) hints: Vec<String>,
    pub(super) verdict: Verdict,
}

impl Default for PruneReport {
    fn default() -> Self {
        Self { rows: Vec::new(), hints: Vec::new(), verdict: Verdict::Done }
    }
}

impl PruneReport {
    pub(super) fn dry(plan: &Plan) -> Self {
        let rows = plan.items.iter().map(|item| Row::planned(item, true)).collect();
        Self { rows, ..Self::default() }
    }

    pub(super) fn hinted(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// One line of figures.
    #[must_use]
    pub fn counts(&self) -> String {
        let count = |outcome: &str| self.rows.iter().filter(|row| row.outcome == outcome).count();
        let bytes = |outcome: &str| {
            let rows = self.rows.iter().filter(|row| row.outcome == outcome);
            rows.map(|row| row.stored_size).sum::<u64>()
        };
        let all = self.rows.len();
        let (kept, locked) = (count("kept"), count("locked"));
        let dry = count("would-be-removed");
        if dry > 0 {
            let freed = size(bytes("would-be-removed"));
            return format!(
                "{all} listed: {kept} kept, {dry} would be removed ({freed}), {locked} locked"
            );
        }
        let freed = size(bytes("removed"));
        let removed = count("removed");
        let rest = match count("failed") + count("not-reached") {
            0 => String::new(),
            rest => format!(", {rest} not removed"),
        };
        format!("{all} listed: {kept} kept, {removed} removed ({freed}), {locked} locked{rest}")
    }
}

impl Report for PruneReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["CLUSTER", "BACKUP", "WHAT", "OUTCOME", "STORED", "LOCKED UNTIL", "HELD", "WHY"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        vec![
            row.cluster.clone(),
            row.backup.clone(),
            row.what.to_owned(),
            row.outcome.to_owned(),
            size(row.stored_size),
            locked_until(row.locked_until.as_deref(), row.lock_mode),
            yes_or_no(row.held).to_owned(),
            row.why.clone(),
        ]
    }

    fn remarks(&self) -> Vec<Remark> {
        let failed = self.rows.iter().filter_map(|row| {
            let error = row.error.as_ref()?;
            Some(Remark::Error(format!("{} of cluster {}: {error}", row.backup, row.cluster)))
        });
        failed.chain(self.hints.iter().cloned().map(Remark::Hint)).collect()
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}
