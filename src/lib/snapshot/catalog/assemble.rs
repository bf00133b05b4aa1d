//! From versions and manifests to backups: pure.

use std::collections::BTreeMap;

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
    let mut folders: BTreeMap<(ClusterId, Slot), Vec<(Part, Version)>> = BTreeMap::new();
    let mut catalog = Catalog::default();
    for version in versions {
        match layout.parse(&version.key) {
            Some(Address { cluster, slot, part }) => {
                folders.entry((cluster, slot)).or_default().push((part, version));
            }
            None => catalog.strange.push(version),
        }
    }
    for ((cluster, slot), found) in folders {
        catalog.entries.push(entry(layout, cluster, slot, found, &mut manifests));
    }
    catalog.entries.sort_by_key(|entry| (entry.cluster, std::cmp::Reverse(entry.age())));
    catalog
}

fn entry(
    layout: &Layout,
    cluster: ClusterId,
    slot: Slot,
    found: Vec<(Part, Version)>,
    manifests: &mut BTreeMap<Which, Result<Manifest, NoManifest>>,
) -> Entry {
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
    for version in described {
        let which = (version.key.clone(), version.version_id.clone());
        let unread = || Err(NoManifest::Unread("it was not fetched".to_owned()));
        let said = manifests.remove(&which).unwrap_or_else(unread);
        let record = record(layout, &entry, version, said);
        entry.records.push(record);
    }
    entry.loose.retain(|loose| {
        let spoken_of =
            |record: &Record| [&record.data, &record.pki].contains(&&Some(loose.clone()));
        !entry.records.iter().any(spoken_of)
    });
    entry.records.sort_by_key(|record| {
        (!record.is_good(), std::cmp::Reverse(record.version.modified), record.place)
    });
    entry
}

fn record(
    layout: &Layout,
    entry: &Entry,
    version: Version,
    said: Result<Manifest, NoManifest>,
) -> Record {
    let found = said.and_then(|manifest| in_its_place(entry, manifest));
    let hidden = entry.markers.iter().any(|marker| marker.latest && marker.key == version.key);
    let place = match (version.latest, hidden) {
        (true, _) => Place::Shown,
        (false, true) => Place::Hidden,
        (false, false) => Place::Covered,
    };
    let object = |key: &str, id: Option<&str>, size: u64| {
        // A copied bucket has another prefix, but the same folders and names below it.
        let name = key.rsplit('/').next().unwrap_or_default();
        let key = format!("{}{name}", layout.folder(entry.cluster, &entry.slot));
        stored(&entry.loose, &key, id, size)
    };
    let manifest = found.as_ref().ok();
    let data = manifest
        .and_then(|m| object(&m.data.key, m.data.version_id.as_deref(), m.data.content.size));
    let pki = manifest
        .and_then(|m| m.pki.as_ref())
        .and_then(|pki| object(&pki.key, pki.version_id.as_deref(), pki.content.size));
    Record { version, place, found, data, pki }
}

/// A manifest that somebody has copied into another folder does not describe that one.
fn in_its_place(entry: &Entry, manifest: Manifest) -> Result<Manifest, NoManifest> {
    let folder = format!("{}/{}", entry.cluster, entry.slot);
    let said = format!("{}/{}", manifest.cluster, manifest.slot);
    let within = |key: &str, part: fn(Part) -> bool| {
        let below = key.rsplit('/').take(3).collect::<Vec<_>>();
        let key = below.into_iter().rev().collect::<Vec<_>>().join("/");
        Layout::new("").parse(&key).is_some_and(|address| {
            address.cluster == entry.cluster && address.slot == entry.slot && part(address.part)
        })
    };
    let pki =
        manifest.pki.as_ref().is_none_or(|pki| within(&pki.key, |p| matches!(p, Part::Pki(_))));
    if said != folder {
        Err(NoManifest::Misplaced(said))
    } else if !within(&manifest.data.key, |part| matches!(part, Part::Data(_))) {
        Err(NoManifest::Misplaced(manifest.data.key))
    } else if !pki {
        Err(NoManifest::Misplaced(manifest.pki.map(|pki| pki.key).unwrap_or_default()))
    } else {
        Ok(manifest)
    }
}

/// The version that a manifest names. A copied bucket has versions of its own: there any of the
/// right size will do, as its SHA-256 is checked when it is fetched.
fn stored(loose: &[Version], key: &str, id: Option<&str>, size: u64) -> Option<Version> {
    let fitting = || loose.iter().filter(|version| version.key == key && version.size == size);
    let exact = fitting().find(|version| version.version_id.as_deref() == id);
    exact.or_else(|| fitting().max_by_key(|version| version.modified)).cloned()
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
            modified,
            marker: false,
        }
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
            ("20261130T120000Z", false, "2026-11-30T07:00:00Z", 0),
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
