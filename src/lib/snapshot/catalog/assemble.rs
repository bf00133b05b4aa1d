//! From versions and manifests to backups: pure.

use std::collections::BTreeMap;

use super::judge::{is_too_early, judge};
use super::{Catalog, Entry, NoManifest, Place, Record};
use crate::s3::Version;
use crate::snapshot::layout::{Address, ClusterId, Layout, Part, Slot};
use crate::snapshot::manifest::Manifest;

/// A manifest's version: its key and version id.
pub type Which = (String, Option<String>);

/// Puts together what a bucket holds: all its versions below the layout's prefix, and what the
/// versions of manifests say. A manifest that is not in `manifests` counts as unread.
#[must_use]
pub fn assemble(
    layout: &Layout,
    versions: Vec<Version>,
    mut manifests: BTreeMap<Which, Result<Manifest, NoManifest>>,
) -> Catalog {
    let (folders, strange) = folders(layout, versions);
    let mut entries = Vec::new();
    for ((cluster, slot), found) in folders {
        let (mut folder, described) = Folder::new(layout, cluster, slot, found);
        for version in described {
            let which = (version.key.clone(), version.version_id.clone());
            let unread = || Err(NoManifest::Unread("it was not fetched".to_owned()));
            let said = manifests.remove(&which).unwrap_or_else(unread);
            folder.take(version, said);
        }
        entries.push(folder.close());
    }
    sorted(entries, strange)
}

type Folders = BTreeMap<(ClusterId, Slot), Vec<(Part, Version)>>;

/// What is ours by folders, and what is not.
pub(super) fn folders(layout: &Layout, versions: Vec<Version>) -> (Folders, Vec<Version>) {
    let (mut folders, mut strange) = (Folders::new(), Vec::new());
    for version in versions {
        match layout.parse(&version.key) {
            Some(Address { cluster, slot, part }) => {
                folders.entry((cluster, slot)).or_default().push((part, version));
            }
            None => strange.push(version),
        }
    }
    (folders, strange)
}

/// The newest first, cluster by cluster.
pub(super) fn sorted(mut entries: Vec<Entry>, strange: Vec<Version>) -> Catalog {
    entries.sort_by_key(|entry| (entry.cluster, std::cmp::Reverse(entry.age())));
    Catalog { entries, strange }
}

/// Puts one folder together.
pub(super) struct Folder<'a> {
    layout: &'a Layout,
    entry: Entry,
}

impl<'a> Folder<'a> {
    /// A folder with these objects, and the versions of its manifest, the oldest first.
    pub fn new(
        layout: &'a Layout,
        cluster: ClusterId,
        slot: Slot,
        found: Vec<(Part, Version)>,
    ) -> (Self, Vec<Version>) {
        let mut entry = Entry {
            cluster,
            slot,
            records: Vec::new(),
            loose: Vec::new(),
            claims: Vec::new(),
            markers: Vec::new(),
        };
        let mut described = Vec::new();
        for (part, version) in found {
            match part {
                _ if version.marker => entry.markers.push(version),
                Part::Manifest => described.push(version),
                Part::Claim => entry.claims.push(version),
                Part::Data(_) | Part::Pki(_) => entry.loose.push(version),
            }
        }
        // Stores list the newest version of a key first: that decides within one second.
        described.reverse();
        described.sort_by_key(|version| version.modified);
        (Self { layout, entry }, described)
    }

    /// Takes in what a version of the manifest says, in the order of [`Self::new`]; whether it is
    /// good.
    pub fn take(&mut self, version: Version, said: Result<Manifest, NoManifest>) -> bool {
        let record = record(self.layout, &self.entry, version, said);
        let good = record.is_good();
        self.entry.records.push(record);
        good
    }

    /// Why a version need not be read.
    pub fn is_out(&self, version: &Version) -> Option<NoManifest> {
        is_too_early(&self.entry.slot, version.modified)
            .then(|| NoManifest::Untimely("it was stored before the time of its folder".to_owned()))
    }

    /// The folder, sorted.
    pub fn close(self) -> Entry {
        let mut entry = self.entry;
        entry.loose.retain(|loose| {
            let spoken_of =
                |record: &Record| [&record.data, &record.pki].contains(&&Some(loose.clone()));
            !entry.records.iter().any(spoken_of)
        });
        // Good ones stay as they are, the first before the later ones.
        let (good, mut others): (Vec<_>, Vec<_>) =
            entry.records.into_iter().partition(Record::is_good);
        others.reverse();
        entry.records = good.into_iter().chain(others).collect();
        entry
    }
}

fn record(
    layout: &Layout,
    entry: &Entry,
    version: Version,
    said: Result<Manifest, NoManifest>,
) -> Record {
    let (cluster, slot) = (entry.cluster, &entry.slot);
    let found = said.and_then(|manifest| judge(cluster, slot, version.modified, manifest));
    let hidden = entry.markers.iter().any(|marker| marker.latest && marker.key == version.key);
    let place = match (version.latest, hidden) {
        (true, _) => Place::Shown,
        (false, true) => Place::Hidden,
        (false, false) => Place::Covered,
    };
    let object = |key: &str, id: Option<&str>, size: u64| {
        stored(&entry.loose, &layout.beside(cluster, slot, key), id, size)
    };
    let manifest = found.as_ref().ok();
    let data = manifest
        .and_then(|m| object(&m.data.key, m.data.version_id.as_deref(), m.data.content.size));
    let pki = manifest
        .and_then(|m| m.pki.as_ref())
        .and_then(|pki| object(&pki.key, pki.version_id.as_deref(), pki.content.size));
    Record { version, place, found, data, pki }
}

/// The version that a manifest names. A copied bucket has versions of its own: there any of the
/// right size will do, the first one before others, as its SHA-256 is checked when it is fetched.
fn stored(loose: &[Version], key: &str, id: Option<&str>, size: u64) -> Option<Version> {
    let fitting = || loose.iter().filter(|version| version.key == key && version.size == size);
    let exact = fitting().find(|version| version.version_id.as_deref() == id);
    exact.or_else(|| fitting().min_by_key(|version| version.modified)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::manifest::full;

    const FOLDER: &str = "etcd/cdf818194e3a8c32/20261130T060000Z";

    fn version(key: &str, id: &str, size: u64, modified: u64) -> Version {
        Version {
            key: key.to_owned(),
            version_id: Some(id.to_owned()),
            latest: true,
            size,
            modified: unix("2026-11-30T06:00:00Z") + modified,
            marker: false,
        }
    }

    fn unix(text: &str) -> u64 {
        u64::try_from(text.parse::<jiff::Timestamp>().unwrap().as_second()).unwrap()
    }

    /// The full manifest's three objects.
    fn objects() -> Vec<Version> {
        let manifest = full();
        let pki = manifest.pki.unwrap();
        vec![
            version(&format!("{FOLDER}/manifest.json"), "m1", 2000, 100),
            version(&manifest.data.key, "v1", manifest.data.content.size, 90),
            version(&pki.key, "v2", pki.content.size, 91),
        ]
    }

    fn said(
        all: &[(&str, Result<Manifest, NoManifest>)],
    ) -> BTreeMap<Which, Result<Manifest, NoManifest>> {
        let key = |id: &str| (format!("{FOLDER}/manifest.json"), Some(id.to_owned()));
        all.iter().map(|(id, said)| (key(id), said.clone())).collect()
    }

    fn assembled(versions: Vec<Version>, manifest: Manifest) -> Catalog {
        assemble(&Layout::new("etcd"), versions, said(&[("m1", Ok(manifest))]))
    }

    #[test]
    fn a_whole_backup_is_good() {
        let catalog = assembled(objects(), full());
        assert_eq!(catalog.entries.len(), 1);
        let entry = &catalog.entries[0];
        let (record, manifest) = entry.good().unwrap();
        assert_eq!(manifest, &full());
        assert_eq!(record.place, Place::Shown);
        assert_eq!(record.data.as_ref().unwrap().version_id.as_deref(), Some("v1"));
        assert!(entry.loose.is_empty() && catalog.strange.is_empty());
        assert_eq!(catalog.newest_good(full().cluster).unwrap().0, entry);
        assert_eq!(entry.time(), full().started);
    }

    #[test]
    fn what_is_missing_or_of_another_size_is_not_good() {
        for (lost, trouble) in [(1, "its data is not there"), (2, "the node's keys are not there")]
        {
            for other in [true, false] {
                let mut versions = objects();
                if other {
                    versions[lost].size += 1;
                } else {
                    versions.remove(lost);
                }
                let catalog = assembled(versions, full());
                let entry = &catalog.entries[0];
                assert!(entry.good().is_none());
                assert_eq!(entry.records[0].trouble().as_deref(), Some(trouble));
                assert_eq!(entry.loose.len(), usize::from(other));
                assert_eq!(entry.time(), entry.slot.time());
            }
        }
        let mut bare = full();
        bare.pki = None;
        let mut versions = objects();
        versions.remove(2);
        assert!(assembled(versions, bare).entries[0].good().is_some());
    }

    #[test]
    fn a_manifest_of_another_place_is_none() {
        for change in [
            (|m: &mut Manifest| m.cluster = ClusterId(7)) as fn(&mut Manifest),
            |m| m.slot = "20261130T120000Z".parse().unwrap(),
            |m| m.data.key = m.data.key.replace("20261130T060000Z", "20261130T000000Z"),
            |m| m.data.key = m.pki.as_ref().unwrap().key.clone(),
            |m| m.data.key = format!("{FOLDER}/manifest.json"),
            |m| m.pki.as_mut().unwrap().key = m.data.key.clone(),
        ] {
            let mut manifest = full();
            change(&mut manifest);
            let catalog = assembled(objects(), manifest);
            let trouble = catalog.entries[0].records[0].trouble().unwrap();
            assert!(trouble.starts_with("manifest: it is of another place: "), "{trouble}");
            assert_eq!(catalog.entries[0].loose.len(), 2);
        }
    }

    #[test]
    fn a_copied_bucket_has_other_prefixes_and_versions() {
        let copied = objects().into_iter().map(|mut version| {
            version.key = version.key.replace("etcd/", "copy/of/");
            version.version_id = None;
            version
        });
        let key = format!("{FOLDER}/manifest.json").replace("etcd/", "copy/of/");
        let manifests = BTreeMap::from([((key, None), Ok(full()))]);
        let catalog = assemble(&Layout::new("copy/of"), copied.collect(), manifests);
        let (record, _) = catalog.entries[0].good().unwrap();
        assert!(record.data.as_ref().unwrap().key.starts_with("copy/of/cdf8"));
    }

    #[test]
    fn what_was_hidden_or_covered_is_still_there() {
        let mut versions = objects();
        versions[0].latest = false;
        let manifest_key = versions[0].key.clone();
        versions.push(Version { marker: true, ..version(&manifest_key, "d1", 0, 200) });
        let catalog = assembled(versions.clone(), full());
        assert_eq!(catalog.entries[0].good().unwrap().0.place, Place::Hidden);

        versions.pop();
        versions.push(version(&manifest_key, "m2", 5, 300));
        let flawed = NoManifest::Flawed(crate::snapshot::manifest::Flaw::NotOurs);
        let manifests = said(&[("m1", Ok(full())), ("m2", Err(flawed))]);
        let catalog = assemble(&Layout::new("etcd"), versions, manifests);
        let entry = &catalog.entries[0];
        assert_eq!(entry.records.len(), 2);
        assert_eq!(entry.records[0].place, Place::Covered, "the good one comes first");
        assert!(entry.records[0].is_good() && !entry.records[1].is_good());
        assert_eq!(entry.records[1].place, Place::Shown);
    }

    #[test]
    fn of_several_good_manifests_the_one_that_was_stored_first_counts() {
        let mut other = full();
        other.revision += 7;
        other.data.key = other.data.key.replace("f0", "f1");
        let own = version(&other.data.key, "v9", other.data.content.size, 150);
        let mut versions = objects();
        versions[0].latest = false;
        versions.insert(0, version(&versions[0].key, "m2", 2000, 160));
        versions.push(own);
        let told = |second: Manifest| said(&[("m1", Ok(full())), ("m2", Ok(second))]);
        for (second, modified, rivals) in [
            (other.clone(), 160, 1),
            // Of one second: the store lists the newest first.
            (other.clone(), 100, 1),
            // The reply to the first try was lost.
            (full(), 160, 0),
        ] {
            versions[0].modified = unix("2026-11-30T06:00:00Z") + modified;
            let catalog = assemble(&Layout::new("etcd"), versions.clone(), told(second));
            let entry = &catalog.entries[0];
            assert_eq!(entry.good().unwrap().1.revision, full().revision, "{modified}");
            assert_eq!((entry.rivals(), entry.records[0].place), (rivals, Place::Covered));
        }
        // What came before the time of the folder is no first one.
        versions[0].modified = unix("2026-11-30T05:00:00Z");
        let catalog = assemble(&Layout::new("etcd"), versions, told(other));
        let entry = &catalog.entries[0];
        assert_eq!((entry.good().unwrap().1, entry.rivals()), (&full(), 0));
    }

    #[test]
    fn later_manifests_that_nobody_has_read_are_rivals() {
        let mut versions = objects();
        versions[0].latest = false;
        versions.insert(0, version(&versions[0].key, "m2", 2000, 160));
        let told = said(&[("m1", Ok(full())), ("m2", Err(NoManifest::Surplus))]);
        let catalog = assemble(&Layout::new("etcd"), versions, told);
        assert_eq!(catalog.entries[0].rivals(), 1);
    }

    #[test]
    fn in_a_copied_bucket_the_first_object_that_fits_is_taken() {
        let mut versions = objects();
        versions[1].version_id = Some("copied".to_owned());
        let later = Version { modified: versions[1].modified + 60, ..versions[1].clone() };
        versions.push(Version { version_id: Some("later".to_owned()), ..later });
        let catalog = assembled(versions, full());
        let (record, _) = catalog.entries[0].good().unwrap();
        assert_eq!(record.data.as_ref().unwrap().version_id.as_deref(), Some("copied"));
    }

    #[test]
    fn data_without_a_manifest_claims_and_strangers_are_told_apart() {
        let mut versions = objects();
        versions.remove(0);
        versions.push(version(&format!("{FOLDER}/claim.json"), "c1", 80, 80));
        versions.push(version("etcd/readme.txt", "x", 3, 1));
        versions.push(version(&format!("{FOLDER}/other.bin"), "y", 3, 1));
        let catalog = assemble(&Layout::new("etcd"), versions, BTreeMap::new());
        let entry = &catalog.entries[0];
        assert_eq!((entry.records.len(), entry.loose.len(), entry.claims.len()), (0, 2, 1));
        assert_eq!(catalog.strange.len(), 2);
        assert_eq!(catalog.newest_good(entry.cluster), None);
    }

    #[test]
    fn the_newest_comes_first_and_a_rekeyed_one_before_its_original() {
        let mut manifests = BTreeMap::new();
        let mut versions = Vec::new();
        for (slot, rekeyed, started, more) in [
            ("20261130T060000Z", false, "2026-11-30T06:00:03Z", 0),
            ("20261130T060000Z-c0ffee", true, "2026-11-30T06:00:03Z", 0),
            // Of the same second, and of a later revision.
            ("20261130T060003Z-00beef", false, "2026-11-30T06:00:03Z", 1),
            ("20261130T120000Z", false, "2026-11-30T12:00:00Z", 0),
            ("20261130T000000Z", false, "2026-11-30T05:00:00Z", 0),
        ] {
            let mut manifest = full();
            let move_to = |key: &str| key.replace("20261130T060000Z", slot);
            manifest.slot = slot.parse().unwrap();
            manifest.started = started.parse().unwrap();
            manifest.revision += more;
            manifest.finished = "2026-11-30T12:00:00Z".parse().unwrap();
            manifest.data.key = move_to(&manifest.data.key);
            manifest.pki = None;
            if rekeyed {
                let from = "20261130T060000Z".parse().unwrap();
                let at = manifest.finished;
                manifest.rekeyed = Some(crate::snapshot::manifest::Rekeyed { from, at });
            }
            for mut one in objects().drain(..2) {
                one.key = move_to(&one.key);
                one.modified = unix("2026-11-30T12:00:05Z");
                versions.push(one);
            }
            let key = move_to(&format!("{FOLDER}/manifest.json"));
            manifests.insert((key, Some("m1".to_owned())), Ok(manifest));
        }
        let catalog = assemble(&Layout::new("etcd"), versions, manifests);
        let slots: Vec<_> = catalog.entries.iter().map(|entry| entry.slot.to_string()).collect();
        let want = [
            "20261130T120000Z",
            "20261130T060003Z-00beef",
            "20261130T060000Z-c0ffee",
            "20261130T060000Z",
            "20261130T000000Z",
        ];
        assert_eq!(slots, want);
    }
}
