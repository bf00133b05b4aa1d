//! All backups of a bucket, as its versions and manifests tell: the bucket is the only truth.
//!
//! Every version counts, not only what a plain read finds: somebody who may write can hide a
//! backup behind a delete marker or put another manifest over the good one, but cannot take away
//! a version that is locked (rancher/backup-restore-operator#601, velero-io/velero#10188).
//!
//! Nor can he choose the store's dates: of several good manifests of one folder the one that was
//! stored first counts, and `judge` holds each against the time at which it was stored (ADR 0009).

mod assemble;
mod judge;
mod read;

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::layout::{ClusterId, Slot};
use super::manifest::{Flaw, Manifest};
use crate::s3::Version;
pub use assemble::assemble;
pub use judge::judge;

/// What was found below a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// By cluster, then the newest first.
    pub entries: Vec<Entry>,
    /// What is not ours.
    pub strange: Vec<Version>,
}

/// One folder of a backup: usually one manifest and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose.
    pub cluster: ClusterId,
    /// Which.
    pub slot: Slot,
    /// Every version of its manifest, the best first: good ones, of these the one that was stored
    /// first; then the newest.
    pub records: Vec<Record>,
    /// Versions of data that no manifest speaks of.
    pub loose: Vec<Version>,
    /// Versions of the claim: a node said that it was at work.
    pub claims: Vec<Version>,
    /// Delete markers.
    pub markers: Vec<Version>,
}

/// One version of a manifest, and what it speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The manifest's own object.
    pub version: Version,
    /// What a plain read of its key finds.
    pub place: Place,
    /// What it says, or why that cannot be told.
    pub found: Result<Manifest, NoManifest>,
    /// The object of the database, where it is there.
    pub data: Option<Version>,
    /// The object of the node's keys, where there should be one and is.
    pub pki: Option<Version>,
}

/// Whether a plain read finds a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// It does.
    Shown,
    /// A newer version of the same key stands before it.
    Covered,
    /// A delete marker stands before it.
    Hidden,
}

/// Why a manifest's version is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoManifest {
    /// Its bytes are none.
    #[error("{0}")]
    Flawed(Flaw),
    /// It speaks of another cluster, slot or folder than its own.
    #[error("it is of another place: {0}")]
    Misplaced(String),
    /// Its times cannot be, by the folder's name and the store's date.
    #[error("its times cannot be: {0}")]
    Untimely(String),
    /// Its figures cannot be.
    #[error("its figures cannot be: {0}")]
    Implausible(String),
    /// There is a good one and so many others that nobody reads them all.
    #[error("it is one of too many later versions of this manifest, and was not read")]
    Surplus,
    /// The store does not hand it out.
    #[error("it cannot be read: {0}")]
    Unread(String),
}

impl Record {
    /// Whether everything that a restore needs is there.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.good().is_some()
    }

    /// The manifest, if everything that a restore needs is there.
    #[must_use]
    pub fn good(&self) -> Option<&Manifest> {
        let manifest = self.found.as_ref().ok()?;
        let pki = manifest.pki.is_none() || self.pki.is_some();
        (self.data.is_some() && pki).then_some(manifest)
    }

    /// The bytes of all its objects as stored, as its manifest says.
    #[must_use]
    pub fn stored_size(&self) -> Option<u64> {
        let manifest = self.found.as_ref().ok()?;
        let pki = manifest.pki.as_ref().map_or(0, |pki| pki.content.size);
        Some(self.version.size + manifest.data.content.size + pki)
    }

    /// Why it is not good, in a few words.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match &self.found {
            Err(why) => Some(format!("manifest: {why}")),
            Ok(_) if self.data.is_none() => Some("its data is not there".to_owned()),
            Ok(manifest) if manifest.pki.is_some() && self.pki.is_none() => {
                Some("the node's keys are not there".to_owned())
            }
            Ok(_) => None,
        }
    }
}

impl Entry {
    /// The best of its records that is good.
    #[must_use]
    pub fn good(&self) -> Option<(&Record, &Manifest)> {
        self.records.iter().find_map(|record| record.good().map(|manifest| (record, manifest)))
    }

    /// How many later manifests say something else than the good one: whoever wrote them would
    /// like them to count.
    #[must_use]
    pub fn rivals(&self) -> usize {
        let Some((_, first)) = self.good() else { return 0 };
        let differs = |record: &&Record| match &record.found {
            Ok(manifest) => record.is_good() && manifest != first,
            Err(why) => *why == NoManifest::Surplus,
        };
        self.records.iter().filter(differs).count()
    }

    /// Whether the good one was stored long after it was made: a copy from elsewhere, or a forgery
    /// of the past.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.good()
            .is_some_and(|(record, manifest)| judge::is_late(record.version.modified, manifest))
    }

    /// What time it is of: the snapshot's, or the folder's where no manifest is good.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.good().map_or(self.slot.time(), |(_, manifest)| manifest.started)
    }

    /// Orders by age; of two of one second the one that holds more is the newer, and of two of one
    /// snapshot the one made later (by `rekey`).
    fn age(&self) -> (Timestamp, Option<i64>, Option<Timestamp>) {
        let manifest = self.good().map(|(_, manifest)| manifest);
        let rekeyed = manifest.and_then(|m| m.rekeyed.as_ref().map(|rekeyed| rekeyed.at));
        (self.time(), manifest.map(|m| m.revision), rekeyed)
    }
}

impl Catalog {
    /// The clusters that have anything here.
    #[must_use]
    pub fn clusters(&self) -> BTreeSet<ClusterId> {
        self.entries.iter().map(|entry| entry.cluster).collect()
    }

    /// The entries of one cluster, the newest first.
    pub fn of(&self, cluster: ClusterId) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.cluster == cluster)
    }

    /// The newest good one of a cluster.
    #[must_use]
    pub fn newest_good(&self, cluster: ClusterId) -> Option<(&Entry, &Record, &Manifest)> {
        self.of(cluster)
            .find_map(|entry| entry.good().map(|(record, found)| (entry, record, found)))
    }

    /// The newest good copy of a good backup that `rekey` has made, as far as that can be told
    /// without a key: nobody but who opens both can know it.
    #[must_use]
    pub fn rekeyed_as(&self, original: &Entry) -> Option<&Entry> {
        let (_, manifest) = original.good()?;
        self.of(original.cluster)
            .find(|entry| entry.good().is_some_and(|(_, copy)| judge::is_copy(manifest, copy)))
    }

    /// The good backup that a good copy was made from, if it is still there.
    #[must_use]
    pub fn original_of(&self, copy: &Entry) -> Option<&Entry> {
        let (_, manifest) = copy.good()?;
        let original = self.slot(copy.cluster, &manifest.rekeyed.as_ref()?.from)?;
        let (_, of) = original.good()?;
        judge::is_copy(of, manifest).then_some(original)
    }

    /// The entry of a slot, by its name.
    #[must_use]
    pub fn slot(&self, cluster: ClusterId, slot: &Slot) -> Option<&Entry> {
        self.of(cluster).find(|entry| entry.slot == *slot)
    }
}
