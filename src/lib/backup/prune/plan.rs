//! What to remove, what to keep, and why: pure.
//!
//! A backup is one thing: it is removed whole, its manifest first, so that what is left of an
//! interrupted removal is data without a manifest, which the next run sweeps. Nothing of it is
//! touched while any of it is locked.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::backup::held::Kept;
use crate::s3::{Unfinished, Version};
use crate::snapshot::catalog::{Catalog, Entry, NoManifest, Record};
use crate::snapshot::layout::{ClusterId, Layout, Part, Slot};
use crate::snapshot::manifest::Flaw;
use crate::snapshot::retention::{Decision, Keep, Point, Reason, decide};

/// What is younger than this may still be somebody's work.
const GRACE: i64 = 24 * 3600;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A backup, with all that is in its folder.
    Backup,
    /// Something in a folder that no backup needs.
    Leftover,
    /// An upload that was never finished.
    Upload,
}

/// What is to become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It stays.
    Keep,
    /// It goes.
    Remove,
    /// It would go, and cannot yet.
    Locked {
        /// Until when; none under a legal hold.
        until: Option<Timestamp>,
    },
}

/// One version of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its key.
    pub key: String,
    /// Its version; an upload's id where the item is one.
    pub version_id: Option<String>,
    /// Its bytes.
    pub size: u64,
    /// A delete marker, which no lock protects.
    pub marker: bool,
}

/// One line of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Whose.
    pub cluster: ClusterId,
    /// The backup that it is, or belongs to.
    pub slot: Slot,
    /// What it is.
    pub what: What,
    /// What becomes of it.
    pub action: Action,
    /// Why.
    pub why: String,
    /// What keeps its objects from being removed.
    pub kept: Kept,
    /// What goes, in this order; of a backup that stays, what is there.
    pub targets: Vec<Target>,
}

/// The whole plan: the newest first, cluster by cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Its lines.
    pub items: Vec<Item>,
    /// Objects and uploads below the prefix that are not ours, and stay.
    pub strange: usize,
}

/// What keeps versions from being removed; nothing keeps one that is not here.
pub type Locks = BTreeMap<Target, Kept>;

/// What decides about the backups of a cluster.
#[derive(Debug, Clone, Copy)]
pub enum Rules<'a> {
    /// These, and the newest good one stays.
    Keep {
        /// By age and number.
        keep: &'a Keep,
        /// An original goes if there is a copy of it that `rekey` has made.
        remove_rekeyed: bool,
    },
    /// The cluster is gone: nothing of it is kept.
    Gone,
}

/// Decides.
pub fn plan(
    catalog: &Catalog,
    unfinished: &[Unfinished],
    layout: &Layout,
    rules: Rules<'_>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan { items: Vec::new(), strange: catalog.strange.len() };
    for cluster in catalog.clusters() {
        let entries: Vec<&Entry> = catalog.of(cluster).collect();
        let decisions = match rules {
            Rules::Keep { keep, remove_rekeyed } => {
                of_cluster(catalog, &entries, (keep, remove_rekeyed), now)
            }
            Rules::Gone => entries.iter().map(|entry| of_gone(entry, now)).collect(),
        };
        for (entry, (action, why)) in entries.iter().zip(decisions) {
            plan.items.extend(of_entry(entry, action, &why, now));
        }
    }
    for upload in unfinished {
        match layout.parse(&upload.key) {
            Some(address) if matches!(address.part, Part::Data(_) | Part::Pki(_)) => {
                if is_old(upload.since, now) {
                    plan.items.push(of_upload(address.cluster, address.slot, upload));
                }
            }
            _ => plan.strange += 1,
        }
    }
    plan
}

impl Plan {
    /// Whether anything is to go that cannot be brought back.
    pub fn removes_objects(&self) -> bool {
        let mut going = self.items.iter().filter(|item| item.action == Action::Remove);
        going.any(|item| item.what != What::Upload)
    }

    /// The versions that may be locked.
    pub fn objects(&self) -> Vec<Target> {
        let objects = self.items.iter().filter(|item| item.what != What::Upload);
        objects.flat_map(|item| item.targets.clone()).filter(|target| !target.marker).collect()
    }

    /// Holds back what another look at the bucket would not remove: the store's word of one moment
    /// is not enough for what cannot be undone.
    #[must_use]
    pub fn confirmed_by(mut self, again: &Self) -> Self {
        for item in self.items.iter_mut().filter(|item| item.action == Action::Remove) {
            if item.what != What::Upload && !again.items.contains(item) {
                item.action = Action::Keep;
                item.why = format!("looked at again, the bucket tells otherwise ({})", item.why);
            }
        }
        self
    }

    /// Holds back what is locked.
    #[must_use]
    pub fn with_locks(mut self, locks: &Locks) -> Self {
        for item in self.items.iter_mut().filter(|item| item.what != What::Upload) {
            let objects = item.targets.iter().filter(|target| !target.marker);
            let found = objects.map(|target| locks.get(target).copied().unwrap_or(Kept::FREE));
            item.kept = found.reduce(Kept::and).unwrap_or_default();
            if item.action != Action::Remove {
                continue;
            }
            if item.kept.held == Some(true) {
                item.action = Action::Locked { until: None };
            } else if let Some(lock) = item.kept.lock.lock() {
                item.action = Action::Locked { until: Some(lock.until) };
            } else if item.kept != Kept::FREE {
                // Only the store knows: it is asked about the data while the manifest is there.
                item.targets.sort_by_key(|target| (target.marker, is_manifest(target)));
            }
        }
        self
    }
}

fn is_manifest(target: &Target) -> bool {
    target.key.ends_with(&format!("/{}", Part::Manifest))
}

/// A decision for each entry, in their order.
fn of_cluster(
    catalog: &Catalog,
    entries: &[&Entry],
    (keep, remove_rekeyed): (&Keep, bool),
    now: Timestamp,
) -> Vec<(Action, String)> {
    let originals = originals(catalog, entries);
    let is_point = |at: &usize| !originals.contains_key(at) && !is_bare(entries[*at]);
    let points: Vec<usize> = (0..entries.len()).filter(is_point).collect();
    let decided = decisions(entries, &points, keep, now);
    let newest = points.iter().copied().find(|at| entries[*at].good().is_some());
    let one = |at: usize| {
        let original = originals.get(&at);
        let point = original.copied().unwrap_or(at);
        let copied = catalog.rekeyed_as(entries[at]).filter(|_| remove_rekeyed);
        let (action, why) = match (decided.get(&point), copied) {
            (_, Some(copy)) => (Action::Remove, format!("rekeyed as {}", copy.slot)),
            (Some(Decision::Keep(reasons)), _) => (Action::Keep, joined(reasons)),
            // Whatever the rules make of it: the newest good one stays.
            _ if newest == Some(point) => (Action::Keep, Reason::Newest.to_string()),
            (Some(Decision::Remove), _) => of_removed(entries[at], now),
            (None, _) => bare(entries[at], now),
        };
        let copy_of = original.map(|original| format!("copy of {}: ", entries[*original].slot));
        let why = format!("{}{why}", copy_of.unwrap_or_default());
        match entries[at].rivals() {
            0 => (action, why),
            rivals if action == Action::Remove => (Action::Keep, contested(rivals)),
            _ => (action, why),
        }
    };
    (0..entries.len()).map(one).collect()
}

/// Of a cluster that is gone even the newest good one goes; one of today says that it is not.
fn of_gone(entry: &Entry, now: Timestamp) -> (Action, String) {
    if is_bare(entry) {
        bare(entry, now)
    } else if entry.good().is_none() {
        of_not_good(entry, true, now)
    } else if all_old(entry, now) {
        (Action::Remove, "its cluster is gone".to_owned())
    } else {
        (Action::Keep, "younger than a day: its cluster is not gone".to_owned())
    }
}

/// Why a folder with several good manifests stays.
fn contested(rivals: usize) -> String {
    format!("{rivals} later manifests say otherwise: find out who writes them")
}

/// Which entries are copies that `rekey` made, and of which one in the end. Rules decide about the
/// snapshot, and copies go with it: nobody can make room for a backup by saying that it is a copy
/// of another.
fn originals(catalog: &Catalog, entries: &[&Entry]) -> BTreeMap<usize, usize> {
    let places: BTreeMap<&Slot, usize> =
        entries.iter().enumerate().map(|(at, entry)| (&entry.slot, at)).collect();
    let up = |at: usize| {
        let original = catalog.original_of(entries[at])?;
        places.get(&original.slot).copied()
    };
    let first = |at: usize| {
        let (mut top, mut seen) = (at, BTreeSet::from([at]));
        while let Some(original) = up(top) {
            // Copies of each other are none.
            if !seen.insert(original) {
                return None;
            }
            top = original;
        }
        (top != at).then_some((at, top))
    };
    (0..entries.len()).filter_map(first).collect()
}

/// What the rules say. A backup that was stored long after its time (a copy from elsewhere, or a
/// forgery of the past) takes no other one's place: what the rules keep without those stays, too.
fn decisions(
    entries: &[&Entry],
    points: &[usize],
    keep: &Keep,
    now: Timestamp,
) -> BTreeMap<usize, Decision> {
    let decide = |late: bool| {
        let counted = points.iter().copied().filter(|at| late || !entries[*at].is_late());
        let point = |at: usize| {
            let (time, good) = (entries[at].time(), entries[at].good().is_some());
            Point { id: at, time, good }
        };
        decide(&counted.map(point).collect::<Vec<_>>(), keep, now)
    };
    let mut decided: BTreeMap<usize, Decision> = decide(true).into_iter().collect();
    for (at, decision) in decide(false) {
        if entries[at].good().is_some() && decided.get(&at) == Some(&Decision::Remove) {
            decided.insert(at, decision);
        }
    }
    decided
}

fn joined(reasons: &[Reason]) -> String {
    reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join(", ")
}

/// Nothing but claims and delete markers.
fn is_bare(entry: &Entry) -> bool {
    entry.records.is_empty() && entry.loose.is_empty()
}

fn bare(entry: &Entry, now: Timestamp) -> (Action, String) {
    let what = if entry.claims.is_empty() { "only delete markers" } else { "only a claim" };
    if all_old(entry, now) {
        (Action::Remove, what.to_owned())
    } else {
        (Action::Keep, format!("{what}, younger than a day"))
    }
}

/// What no rule keeps: a good one goes, another one only if it is nobody's work and understood.
fn of_removed(entry: &Entry, now: Timestamp) -> (Action, String) {
    if entry.good().is_some() {
        (Action::Remove, "no rule keeps it".to_owned())
    } else {
        of_not_good(entry, false, now)
    }
}

/// While its data is there, what is not good goes only with its whole cluster.
fn of_not_good(entry: &Entry, gone: bool, now: Timestamp) -> (Action, String) {
    let trouble = entry.records.first().and_then(Record::trouble);
    let trouble = trouble.unwrap_or_else(|| "no manifest".to_owned());
    let any = |is: &dyn Fn(&Record) -> bool| entry.records.iter().any(is);
    if any(&is_unread) || (!gone && any(&|record| is_not_understood(entry, record))) {
        (Action::Keep, format!("not understood: {trouble}"))
    } else if !gone && any(&|record| record.data.is_some()) {
        (Action::Keep, format!("its data is there: {trouble}"))
    } else if all_old(entry, now) {
        (Action::Remove, format!("not good: {trouble}"))
    } else {
        (Action::Keep, format!("younger than a day: {trouble}"))
    }
}

/// A manifest of a newer program, or one that was not read, may be a good one.
fn is_unread(record: &Record) -> bool {
    matches!(
        record.found,
        Err(NoManifest::Flawed(Flaw::Newer(_)) | NoManifest::Unread(_) | NoManifest::Surplus)
    )
}

/// So may any that cannot be understood, while there is data that it may speak of.
fn is_not_understood(entry: &Entry, record: &Record) -> bool {
    is_unread(record) || (record.found.is_err() && !entry.loose.is_empty())
}

/// Whether a day has passed; a date that the store does not tell (0) is never old.
fn is_old(modified: u64, now: Timestamp) -> bool {
    let modified = i64::try_from(modified).ok().filter(|modified| *modified > 0);
    modified.is_some_and(|modified| now.as_second() - modified >= GRACE)
}

fn versions(entry: &Entry) -> impl Iterator<Item = &Version> {
    let records = entry.records.iter();
    let spoken = records.flat_map(|r| [Some(&r.version), r.data.as_ref(), r.pki.as_ref()]);
    spoken.flatten().chain(&entry.loose).chain(&entry.claims).chain(&entry.markers)
}

fn all_old(entry: &Entry, now: Timestamp) -> bool {
    versions(entry).all(|version| is_old(version.modified, now))
}

fn target(version: &Version) -> Target {
    Target {
        key: version.key.clone(),
        version_id: version.version_id.clone(),
        size: version.size,
        marker: version.marker,
    }
}

/// Every version of a folder once: manifests first, delete markers last.
fn whole(entry: &Entry) -> Vec<Target> {
    let mut seen = BTreeSet::new();
    let manifests = entry.records.iter().map(|record| &record.version);
    let all = manifests.chain(versions(entry)).map(target);
    all.filter(|target| seen.insert(target.clone())).collect()
}

fn of_entry(entry: &Entry, action: Action, why: &str, now: Timestamp) -> Vec<Item> {
    let item = |what, action, why: &str, targets| Item {
        cluster: entry.cluster,
        slot: entry.slot.clone(),
        what,
        action,
        why: why.to_owned(),
        kept: Kept::default(),
        targets,
    };
    let what = if is_bare(entry) { What::Leftover } else { What::Backup };
    let kept_good = action == Action::Keep && entry.good().is_some();
    let mut items = vec![item(what, action, why, whole(entry))];
    if !kept_good {
        return items;
    }
    let old = |version: &&Version| is_old(version.modified, now);
    let unclear = entry.records.iter().any(|record| is_not_understood(entry, record));
    let beside = entry.records.iter().filter(|r| !r.is_good() && !is_not_understood(entry, r));
    // Loose data may be that of a manifest which is not understood.
    let loose = entry.loose.iter().filter(|_| !unclear);
    for (why, versions) in [
        ("a manifest that is not good, beside one that is", beside.map(|r| &r.version).collect()),
        ("data that no manifest speaks of", loose.collect::<Vec<_>>()),
        ("a claim of an earlier day", entry.claims.iter().collect()),
    ] {
        for version in versions.into_iter().filter(old) {
            items.push(item(What::Leftover, Action::Remove, why, vec![target(version)]));
        }
    }
    items
}

fn of_upload(cluster: ClusterId, slot: Slot, upload: &Unfinished) -> Item {
    let target = Target {
        key: upload.key.clone(),
        version_id: Some(upload.upload_id.clone()),
        size: 0,
        marker: false,
    };
    Item {
        cluster,
        slot,
        what: What::Upload,
        action: Action::Remove,
        why: "never finished".to_owned(),
        kept: Kept::default(),
        targets: vec![target],
    }
}
