//! Whether a manifest can be what it says: by where it lies, when it was stored, and its figures.
//!
//! Whoever may write to a bucket may write a manifest, but he cannot choose the store's dates, and
//! cannot put a folder's name into the past. Pure.

use jiff::{SignedDuration, Timestamp};

use super::NoManifest;
use crate::snapshot::layout::{ClusterId, Layout, Part, Slot, Stored};
use crate::snapshot::manifest::{Compression, Encryption, Manifest};

/// How far the dates of one store may be apart from each other.
pub const SKEW: SignedDuration = SignedDuration::from_mins(15);

/// How long after the time in its folder's name a run's snapshot may begin.
const RUN: SignedDuration = SignedDuration::from_hours(24);

/// The same in a folder that nodes share: the longest slot has 31 days. A copy by `rekey` is of
/// its original's time.
const SHARED: SignedDuration = SignedDuration::from_hours(32 * 24);

/// zstd makes a block of 128 KiB of one byte into 4 bytes: more is not possible.
const MOST_PACKED: u64 = 1 << 15;

/// The shortest header of age, and what ends its data.
const LEAST_SEALED: u64 = 150;

/// The most that compressing or encrypting adds, beside a share of the data: a long header.
const MOST_ADDED: u64 = 1 << 20;

/// The manifest again, if it can be the one of this folder; `modified` is the store's date of its
/// own object, in seconds since 1970, or 0 where the store tells none.
///
/// # Errors
/// Why it cannot be.
pub fn judge(
    cluster: ClusterId,
    slot: &Slot,
    modified: u64,
    manifest: Manifest,
) -> Result<Manifest, NoManifest> {
    in_its_place(cluster, slot, &manifest)?;
    in_its_time(slot, modified, &manifest).map_or(Ok(()), |why| Err(NoManifest::Untimely(why)))?;
    implausible(&manifest).map_or(Ok(()), |why| Err(NoManifest::Implausible(why)))?;
    Ok(manifest)
}

/// Whether an object was stored before its folder's time, so that it cannot be of that time.
pub fn is_too_early(slot: &Slot, modified: u64) -> bool {
    date(modified).is_some_and(|stored| later(stored, SKEW) < slot.time())
}

/// A manifest that somebody has copied into another folder does not describe that one.
fn in_its_place(cluster: ClusterId, slot: &Slot, manifest: &Manifest) -> Result<(), NoManifest> {
    let said = (manifest.cluster, &manifest.slot);
    if said != (cluster, slot) {
        return Err(NoManifest::Misplaced(format!("{}/{}", said.0, said.1)));
    }
    let within = |key: &str| {
        let below = key.rsplit('/').take(3).collect::<Vec<_>>();
        let key = below.into_iter().rev().collect::<Vec<_>>().join("/");
        let address = Layout::new("").parse(&key)?;
        (address.cluster == cluster && address.slot == *slot).then_some(address.part)
    };
    let data = &manifest.data;
    let stored = |stored: Stored| {
        stored.packed == (data.compression == Compression::Zstd)
            && stored.sealed == (data.encryption == Encryption::Age)
    };
    if !matches!(within(&data.key), Some(Part::Data(part)) if stored(part)) {
        return Err(NoManifest::Misplaced(data.key.clone()));
    }
    match &manifest.pki {
        Some(pki) if !matches!(within(&pki.key), Some(Part::Pki(_))) => {
            Err(NoManifest::Misplaced(pki.key.clone()))
        }
        _ => Ok(()),
    }
}

/// Why its times cannot be.
fn in_its_time(slot: &Slot, modified: u64, manifest: &Manifest) -> Option<String> {
    let Manifest { started, finished, rekeyed, .. } = manifest;
    let most = if slot.is_shared() || rekeyed.is_some() { SHARED } else { RUN };
    if later(*started, SKEW) < slot.time() {
        return Some(format!("it was begun at {started}, before the time of its folder"));
    }
    if *started > later(slot.time(), most) {
        return Some(format!("it was begun at {started}, long after the time of its folder"));
    }
    let last = rekeyed.as_ref().map_or(*finished, |rekeyed| rekeyed.at.max(*finished));
    let stored = date(modified)?;
    (last > later(stored, SKEW))
        .then(|| format!("it was finished at {last}, and stored before that, at {stored}"))
}

/// Why its figures cannot be.
fn implausible(manifest: &Manifest) -> Option<String> {
    let (size, db) = (manifest.data.content.size, manifest.db.size);
    let sealed = manifest.data.encryption == Encryption::Age;
    if sealed == manifest.recipients.is_empty() {
        let how = if sealed { "encrypted to nobody" } else { "in clear, with recipients" };
        return Some(format!("its data is {how}"));
    }
    let packed = manifest.data.compression == Compression::Zstd;
    let least = if packed { db / MOST_PACKED } else { db };
    let least = least + if sealed { LEAST_SEALED } else { 0 };
    let most = db.saturating_add(db / 128).saturating_add(MOST_ADDED);
    let most = if packed || sealed { most } else { db };
    (size < least || size > most).then(|| format!("{size} bytes cannot hold a database of {db}"))
}

/// Whether it was stored long after it was finished: a copy from elsewhere, or a forgery of the
/// past. The store's date cannot be chosen by whoever writes.
pub fn is_late(modified: u64, manifest: &Manifest) -> bool {
    let done = manifest.rekeyed.as_ref().map_or(manifest.finished, |rekeyed| rekeyed.at);
    date(modified).is_some_and(|stored| stored > later(done, RUN))
}

/// Whether a backup can be the copy that `rekey` makes of another: of the same snapshot, with the
/// same things in it, as large but for its header, and locked as long.
pub fn is_copy(original: &Manifest, copy: &Manifest) -> bool {
    let (of, by) = (original.data.content.size, copy.data.content.size);
    let share = of / 2048 + (64 << 10);
    let until = |manifest: &Manifest| manifest.lock.map(|lock| lock.until);
    copy.rekeyed.as_ref().is_some_and(|rekeyed| rekeyed.from == original.slot)
        && copy.db == original.db
        && (copy.started, copy.revision, copy.member)
            == (original.started, original.revision, original.member)
        && copy.data.compression == original.data.compression
        && copy.pki.is_some() == original.pki.is_some()
        && of.abs_diff(by) <= share
        && until(copy) >= until(original)
}

fn date(modified: u64) -> Option<Timestamp> {
    let seconds = i64::try_from(modified).ok().filter(|seconds| *seconds > 0)?;
    Timestamp::from_second(seconds).ok()
}

/// So much later, or at the end of time.
fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::manifest::{Content, Lock, Rekeyed, full};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn unix(text: &str) -> u64 {
        u64::try_from(at(text).as_second()).unwrap()
    }

    fn judged(stored: &str, change: impl Fn(&mut Manifest)) -> Result<Manifest, NoManifest> {
        let mut manifest = full();
        let (cluster, slot) = (manifest.cluster, manifest.slot.clone());
        change(&mut manifest);
        judge(cluster, &slot, unix(stored), manifest)
    }

    #[test]
    fn a_manifest_is_of_the_time_of_its_folder_and_not_of_the_stores_future() {
        for (started, finished, stored, fault) in [
            ("2026-11-30T06:00:03Z", "2026-11-30T06:00:09Z", "2026-11-30T06:00:10Z", None),
            // By clocks that are a little apart.
            ("2026-11-30T05:46:00Z", "2026-11-30T06:14:00Z", "2026-11-30T06:00:00Z", None),
            // In a copy of the bucket.
            ("2026-11-30T06:00:03Z", "2026-11-30T06:00:09Z", "2028-01-01T00:00:00Z", None),
            // The last of a slot of 31 days.
            ("2026-12-31T06:00:00Z", "2026-12-31T07:00:00Z", "2026-12-31T07:00:00Z", None),
            (
                "2020-01-01T00:00:00Z",
                "2020-01-01T00:00:00Z",
                "2026-11-30T07:00:00Z",
                Some("before"),
            ),
            ("2027-01-02T00:00:00Z", "2027-01-02T00:00:00Z", "2027-01-02T00:00:00Z", Some("long")),
            (
                "2026-11-30T06:00:03Z",
                "2026-11-30T06:16:00Z",
                "2026-11-30T06:00:00Z",
                Some("stored"),
            ),
            (
                "2026-11-30T06:00:03Z",
                "2099-12-31T00:00:00Z",
                "2026-11-30T06:00:10Z",
                Some("stored"),
            ),
        ] {
            let found = judged(stored, |manifest| {
                (manifest.started, manifest.finished) = (at(started), at(finished));
            });
            match (found, fault) {
                (Ok(_), None) => {}
                (Err(NoManifest::Untimely(why)), Some(word)) => {
                    assert!(why.contains(word), "{why}");
                }
                (found, _) => panic!("{started} {finished} {stored}: {found:?}"),
            }
        }
        let silent = judge(full().cluster, &full().slot, 0, full());
        assert!(silent.is_ok(), "a store that tells no date");
    }

    #[test]
    fn a_run_of_its_own_begins_within_a_day_and_a_rekeyed_one_is_of_its_originals_time() {
        let run = |rekeyed: bool, started: &str| {
            let mut manifest = full();
            let name = "20261130T060000Z-c0ffee";
            manifest.slot = name.parse().unwrap();
            manifest.data.key = manifest.data.key.replace("20261130T060000Z", name);
            manifest.pki = None;
            (manifest.started, manifest.finished) = (at(started), at(started));
            let from = full().slot;
            manifest.rekeyed = rekeyed.then(|| Rekeyed { from, at: at("2027-03-01T00:00:00Z") });
            let slot = manifest.slot.clone();
            judge(manifest.cluster, &slot, unix("2027-03-01T00:00:00Z"), manifest).is_ok()
        };
        assert!(run(false, "2026-11-30T06:10:00Z") && !run(false, "2026-12-02T06:00:00Z"));
        assert!(run(true, "2026-12-02T06:00:00Z") && !run(true, "2027-02-01T06:00:00Z"));
    }

    #[test]
    fn a_manifest_is_of_the_future_by_its_folder_alone() {
        let slot: Slot = "20261130T060000Z".parse().unwrap();
        for (stored, early) in [
            (unix("2026-11-30T05:40:00Z"), true),
            (unix("2026-11-30T05:50:00Z"), false),
            (unix("2026-12-30T05:50:00Z"), false),
            (0, false),
        ] {
            assert_eq!(is_too_early(&slot, stored), early, "{stored}");
        }
    }

    #[test]
    fn figures_have_to_be_possible() {
        let mib = 1 << 20;
        for (size, db, compression, encryption, good) in [
            (41_000_000, 868_651_008, Compression::Zstd, Encryption::Age, true),
            (16, 868_651_008, Compression::Zstd, Encryption::Age, false),
            (16, 20_480, Compression::Zstd, Encryption::Age, false),
            (700, 20_480, Compression::Zstd, Encryption::Age, true),
            (1, 20_480, Compression::Zstd, Encryption::None, true),
            (mib, mib, Compression::None, Encryption::None, true),
            (mib + 1, mib, Compression::None, Encryption::None, false),
            (mib, mib, Compression::None, Encryption::Age, false),
            (mib + 600, mib, Compression::None, Encryption::Age, true),
            (100 * mib, mib, Compression::Zstd, Encryption::Age, false),
            (u64::MAX, u64::MAX, Compression::Zstd, Encryption::Age, true),
        ] {
            let mut manifest = full();
            manifest.db.size = db;
            manifest.data.content.size = size;
            (manifest.data.compression, manifest.data.encryption) = (compression, encryption);
            if encryption == Encryption::None {
                manifest.recipients.clear();
            }
            assert_eq!(implausible(&manifest).is_none(), good, "{size} of {db}");
        }
        let nobody = judged("2026-11-30T06:00:10Z", |manifest| manifest.recipients.clear());
        assert!(matches!(nobody, Err(NoManifest::Implausible(why)) if why.contains("nobody")));
    }

    #[test]
    fn the_ending_of_a_key_is_what_the_manifest_says_of_its_data() {
        let clear = judged("2026-11-30T06:00:10Z", |manifest| {
            manifest.data.encryption = Encryption::None;
            manifest.recipients.clear();
        });
        assert!(matches!(clear, Err(NoManifest::Misplaced(_))), "{clear:?}");
    }

    #[test]
    fn a_copy_is_of_the_same_snapshot_as_large_and_locked_as_long() {
        let original = full();
        let mut copy = original.clone();
        copy.slot = "20261130T060000Z-c0ffee".parse().unwrap();
        copy.rekeyed = Some(Rekeyed { from: original.slot.clone(), at: original.finished });
        copy.data.content.size += 500;
        assert!(is_copy(&original, &copy));
        for (what, change) in [
            ("of another", (|m| m.rekeyed = None) as fn(&mut Manifest)),
            ("database", |m| m.db = Content { size: 9, sha256: "e".repeat(64) }),
            ("time", |m| m.started = m.finished),
            ("revision", |m| m.revision += 1),
            ("keys", |m| m.pki = None),
            ("size", |m| m.data.content.size = 16),
            ("no lock", |m| m.lock = None),
            ("shorter lock", |m| {
                m.lock = m.lock.map(|lock| Lock { until: m.finished, ..lock });
            }),
        ] {
            let mut other = copy.clone();
            change(&mut other);
            assert!(!is_copy(&original, &other), "{what}");
        }
    }

    #[test]
    fn what_was_stored_long_after_it_was_made_is_late() {
        let mut manifest = full();
        assert!(!is_late(unix("2026-12-01T06:00:00Z"), &manifest));
        assert!(is_late(unix("2026-12-01T06:01:00Z"), &manifest));
        assert!(!is_late(0, &manifest));
        let (from, at) = (full().slot, at("2027-03-01T00:00:00Z"));
        manifest.rekeyed = Some(Rekeyed { from, at });
        assert!(!is_late(unix("2027-03-01T00:10:00Z"), &manifest));
    }
}
