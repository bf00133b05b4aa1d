//! Crafted files: every layout is read the same, every fault is found.

use super::*;
use crate::etcd::bolt::{Layout, Rows, etcd, history};

fn sample(n: usize) -> Rows {
    let keys: Vec<String> = (0..n).map(|n| format!("/registry/pods/{}", n * 7919 % 1000)).collect();
    let value = |at: usize| (at % 5 != 4).then(|| vec![b'v'; at * 37 % 400]);
    history(keys.iter().enumerate().map(|(at, key)| (key.as_str(), value(at))))
}

fn layouts() -> Vec<Layout> {
    let plain = Layout::of(4096);
    vec![
        plain.clone(),
        Layout::of(65536),
        Layout { fanout: 4, ..plain.clone() },
        Layout { fanout: 2, inline: 0, ..Layout::of(16384) },
        Layout { inline: 0, free: 3, ..plain.clone() },
        Layout { fanout: 4, free: 2, freelist: true, ..plain },
    ]
}

#[test]
fn every_layout_of_the_same_data_is_read_the_same() {
    let buckets = etcd(sample(2000), "3.6.0");
    let found: Vec<Summary> = layouts()
        .iter()
        .map(|layout| Db::from_bytes(layout.write(&buckets)).unwrap().summary().unwrap())
        .collect();
    for one in &found {
        let (hash, revision) = (found[0].hash, 2001);
        assert_eq!((one.hash, one.revision, one.total_entries), (hash, revision, 2006));
        assert_eq!((one.live_keys, &one.buckets), (800, &found[0].buckets));
        assert_eq!((one.consistent_index, one.term), (77, Some(3)));
        assert_eq!(one.storage_version.unwrap().minor(), (3, 6));
        assert_eq!(one.lowest_etcd().minor(), (3, 6));
        assert_eq!(one.members[0].name, "old");
        assert_eq!(one.buckets[5].name, "key");
    }
    assert!(found[2].used_pages > found[0].used_pages, "small fan-out makes a deep tree");
}

#[test]
fn a_database_without_a_single_key_is_sound() {
    for layout in layouts() {
        let file = layout.write(&etcd(Rows::new(), "3.5.0"));
        let found = Db::from_bytes(file).unwrap().summary().unwrap();
        assert_eq!((found.revision, found.live_keys, found.total_entries), (0, 0, 5));
        assert_eq!(found.lowest_etcd().minor(), (3, 5));
    }
}

#[test]
fn values_larger_than_what_is_held_at_once_are_hashed_whole() {
    let large = |byte| Some(vec![byte; 3 << 20]);
    let file = |last| {
        let rows = history([("a", large(1)), ("b", large(2)), ("c", large(last))]);
        Layout::of(4096).write(&etcd(rows, "3.6.0"))
    };
    let hash = |last| Db::from_bytes(file(last)).unwrap().summary().unwrap();
    let found = hash(3);
    assert_eq!((found.revision, found.live_keys), (4, 3));
    assert_ne!(found.hash, hash(4).hash);
}

/// What a byte of a page in use is, and so whether flipping it must be found.
fn flips(layout: &Layout) -> Vec<(&'static str, Vec<u8>)> {
    let whole = layout.write(&etcd(sample(300), "3.6.0"));
    let size = layout.page_size;
    let db = Db::from_bytes(whole.clone()).unwrap();
    let root = usize::try_from(db.meta().root).unwrap() * size;
    let mut out = Vec::new();
    let mut flip = |what, at: usize, bit: u8| {
        let mut bytes = whole.clone();
        bytes[at] ^= bit;
        out.push((what, bytes));
    };
    for page in [0, size] {
        for (what, at) in [("meta id", 0), ("meta flags", 8), ("meta magic", 16), ("meta sum", 72)]
        {
            flip(what, page + at, 1);
        }
    }
    let header = [("id", 0), ("flags", 8), ("count", 11), ("overflow", 14)];
    let elements: &[(&str, usize)] = match whole[root + 8] {
        1 => &[("position", 18), ("key size", 22), ("child", 24)],
        _ => &[("flags", 16), ("position", 23), ("key size", 26), ("value size", 30)],
    };
    for (what, at) in header.iter().chain(elements) {
        flip(what, root + at, 0x40);
    }
    out
}

#[test]
fn every_class_of_byte_that_is_flipped_is_found() {
    for layout in layouts() {
        for (what, bytes) in flips(&layout) {
            let found = Db::from_bytes(bytes).and_then(|db| db.check().map(|_| db.summary()));
            assert!(found.is_err(), "{what} in {layout:?}: {found:?}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_said_to_be_cut() {
    let whole = Layout::of(4096).write(&etcd(sample(300), "3.6.0"));
    for len in (0..whole.len()).step_by(509) {
        let cut = Db::from_bytes(whole[..len].to_vec()).unwrap_err();
        let right = matches!(cut, Damage::Cut { .. } | Damage::NotADatabase(_));
        assert!(right, "{len}: {cut}");
    }
}

#[test]
fn any_flipped_bit_ends_in_figures_or_in_damage() {
    for layout in [&layouts()[2], &layouts()[5]] {
        let mut bytes = layout.write(&etcd(sample(60), "3.6.0"));
        let (mut found, mut damaged) = (0, 0);
        for at in (0..bytes.len()).step_by(53) {
            bytes[at] ^= 1 << (at % 8);
            match Db::from_bytes(bytes.clone()).and_then(|db| db.summary()) {
                Ok(_) => found += 1,
                Err(damage) => {
                    assert!(!damage.to_string().is_empty());
                    damaged += 1;
                }
            }
            bytes[at] ^= 1 << (at % 8);
        }
        assert!(found > 0 && damaged > 40, "{found} sound, {damaged} damaged");
    }
}

/// A page of the file, to be made wrong.
fn page_mut<'a>(bytes: &'a mut [u8], layout: &Layout, page: u64) -> &'a mut [u8] {
    let at = usize::try_from(page).unwrap() * layout.page_size;
    &mut bytes[at..at + layout.page_size]
}

#[test]
fn a_tree_that_points_at_itself_does_not_end_in_a_loop() {
    let layout = Layout { fanout: 2, ..Layout::of(4096) };
    let mut bytes = layout.write(&etcd(sample(60), "3.6.0"));
    let root = Db::from_bytes(bytes.clone()).unwrap().meta().root;
    let page = page_mut(&mut bytes, &layout, root);
    page[24..32].copy_from_slice(&root.to_le_bytes());
    let damage = Db::from_bytes(bytes).unwrap().check().unwrap_err();
    assert!(damage.to_string().contains("two places point at it"), "{damage}");
}

#[test]
fn a_list_of_free_pages_must_agree_with_the_trees() {
    let layout = Layout { free: 2, freelist: true, ..Layout::of(4096) };
    let whole = layout.write(&etcd(sample(60), "3.6.0"));
    let list = Db::from_bytes(whole.clone()).unwrap().meta().freelist;
    for (what, at, bytes, says) in [
        ("used and free", 16, 4_u64.to_le_bytes().to_vec(), "two places"),
        ("outside", 16, u64::MAX.to_le_bytes().to_vec(), "outside"),
        ("one short", 10, vec![1, 0], "neither used nor free"),
        ("too many", 10, vec![0xfe, 0xff], "more free pages than fit"),
        ("too many, counted apart", 10, vec![0xff, 0xff], "neither used nor free"),
        ("another kind", 8, vec![2, 0], "another kind"),
    ] {
        let mut file = whole.clone();
        page_mut(&mut file, &layout, list)[at..at + bytes.len()].copy_from_slice(&bytes);
        let damage = Db::from_bytes(file).unwrap().check().unwrap_err().to_string();
        assert!(damage.contains(says), "{what}: {damage}");
    }
}

#[test]
fn a_torn_meta_page_is_found_although_the_other_one_serves() {
    let whole = Layout::of(16384).write(&etcd(sample(60), "3.6.0"));
    for (page, at) in [(0, 40), (1, 16384 + 40)] {
        let mut file = whole.clone();
        file[at] ^= 0xff;
        let db = Db::from_bytes(file).unwrap();
        let damage = db.check().unwrap_err().to_string();
        assert!(damage.starts_with(&format!("page {page} ")), "{damage}");
    }
}

#[test]
fn what_is_no_database_is_told_from_one_that_is_damaged() {
    for bytes in [vec![], vec![0; 100_000], b"PK\x03\x04".repeat(5000)] {
        let refusal = Db::from_bytes(bytes).unwrap_err();
        assert!(matches!(refusal, Damage::NotADatabase(_)), "{refusal}");
    }
}

#[test]
fn what_etcd_keeps_is_held_to_its_form() {
    let rows = |key: &[u8], value: &[u8]| Rows::from([(key.to_vec(), value.to_vec())]);
    let revision = crate::etcd::bolt::revision(2, 0, false);
    let cases: [(&str, Rows); 7] = [
        ("key", rows(b"short", b"")),
        ("key", rows(&revision, b"\x0a\xff")),
        ("meta", rows(b"term", b"1")),
        ("meta", rows(b"storageVersion", b"three")),
        ("meta", rows(b"scheduledCompactRev", b"")),
        ("members", rows(b"1", b"{")),
        ("cluster", rows(b"clusterVersion", b"\xff")),
    ];
    for (name, rows) in cases {
        let db = Db::from_bytes(Layout::of(4096).write(&[(name, rows)])).unwrap();
        assert!(db.check().is_ok(), "{name}: its pages are sound");
        let damage = db.summary().unwrap_err().to_string();
        assert!(damage.contains(&format!("{name:?}")), "{damage}");
    }
}

/// Feeds a file in pieces of `step` bytes.
fn pass(bytes: &[u8], step: usize) -> Result<Passed, Damage> {
    let mut passing = Passing::new();
    bytes.chunks(step).for_each(|piece| passing.feed(piece));
    passing.finish()
}

#[test]
fn what_passes_by_says_the_same_as_the_whole_file_however_it_is_cut() {
    let large = history([("a", Some(vec![1; 40_000])), ("b", Some(vec![2; 300_000]))]);
    for rows in [sample(500), sample(3), Rows::new(), large] {
        for layout in layouts() {
            let file = layout.write(&etcd(rows.clone(), "3.6.0"));
            if layout.fanout < 4 {
                // Ten buckets in a tree of three storeys: never seen, so never guessed at.
                assert!(matches!(pass(&file, 4096).unwrap_err(), Damage::Unclear(_)));
                continue;
            }
            let whole = Db::from_bytes(file.clone()).unwrap().summary().unwrap();
            for step in [file.len(), 32 << 10, 4096, 5000, 977] {
                let passed = pass(&file, step).unwrap();
                assert_eq!(passed.revision, whole.revision, "{step} of {layout:?}");
                assert_eq!((passed.size, passed.page_size), (whole.size, whole.page_size));
                assert_eq!(passed.consistent_index, Some(77), "{layout:?}");
                assert_eq!(passed.term, whole.term);
                assert_eq!(passed.storage_version, whole.storage_version);
                assert_eq!(passed.cluster_version, whole.cluster_version);
            }
        }
    }
}

#[test]
fn newer_leaves_on_pages_that_are_not_in_use_are_not_believed() {
    let layout = Layout { free: 1, ..Layout::of(4096) };
    let mut file = layout.write(&etcd(sample(500), "3.6.0"));
    let newer = layout.write(&etcd(sample(900), "3.6.0"));
    let db = Db::from_bytes(file.clone()).unwrap();
    let mut seen = tree::Seen::new(db.meta().high_water);
    tree::everything(&db, &mut seen, &mut check::Count::default()).unwrap();
    // A leaf of a later time, as a page that was freed and taken again while the snapshot ran.
    let leaf = newer.chunks(4096).rev().find(|page| {
        let header = page::Header::read(page).unwrap();
        facts::last_key(page, &header).is_some_and(|revision| revision > 600)
    });
    let mut planted = 0;
    for page in (2..db.meta().high_water).filter(|page| !seen.has(*page)) {
        let place = page_mut(&mut file, &layout, page);
        place.copy_from_slice(leaf.unwrap());
        place[..8].copy_from_slice(&page.to_le_bytes());
        planted += 1;
    }
    assert!(planted > 5);
    assert_eq!(pass(&file, 32 << 10).unwrap().revision, 501);
}

#[test]
fn what_passes_by_cut_or_foreign_is_said() {
    let file = Layout::of(4096).write(&etcd(sample(300), "3.6.0"));
    for len in [0, 1, 4095, 4096, 8191] {
        let refusal = pass(&file[..len], 1000).unwrap_err();
        assert!(matches!(refusal, Damage::NotADatabase(_)), "{len}: {refusal}");
    }
    for len in [8192, file.len() - 1] {
        assert!(matches!(pass(&file[..len], 1000).unwrap_err(), Damage::Cut { .. }), "{len}");
    }
    let foreign = pass(&b"PK\x03\x04".repeat(9000), 999).unwrap_err();
    assert!(matches!(foreign, Damage::NotADatabase(_)), "{foreign}");
}

#[test]
fn whatever_passes_by_ends_in_figures_or_in_damage() {
    let mut file =
        Layout { fanout: 3, free: 1, ..Layout::of(4096) }.write(&etcd(sample(90), "3.6.0"));
    for at in (0..file.len()).step_by(61) {
        file[at] ^= 1 << (at % 8);
        let _ = pass(&file, 10_000);
        file[at] ^= 1 << (at % 8);
    }
}

#[test]
fn the_history_up_to_a_revision_is_that_of_the_time() {
    let of = |n| Db::from_bytes(Layout::of(4096).write(&etcd(sample(n), "3.6.0"))).unwrap();
    let (before, after) = (of(300), of(500));
    assert_eq!(before.history(301).unwrap(), after.history(301).unwrap());
    assert_eq!(after.history(i64::MAX).unwrap().0, 500);
    assert_ne!(before.history(301).unwrap().1, after.history(i64::MAX).unwrap().1);
    assert_eq!(after.history(1).unwrap(), (0, 0));
}

#[test]
fn a_compaction_that_was_not_finished_is_known() {
    let revision = |main| crate::etcd::bolt::revision(main, 0, false);
    for (finished, scheduled, compacting) in [
        (None, None, false),
        (Some(5), Some(5), false),
        (Some(5), Some(9), true),
        (None, Some(3), true),
    ] {
        let mut buckets = etcd(sample(20), "3.6.0");
        let meta = &mut buckets.last_mut().unwrap().1;
        meta.extend(finished.map(|main| (b"finishedCompactRev".to_vec(), revision(main))));
        meta.extend(scheduled.map(|main| (b"scheduledCompactRev".to_vec(), revision(main))));
        let found = Db::from_bytes(Layout::of(4096).write(&buckets)).unwrap().summary().unwrap();
        assert_eq!(found.compacting, compacting);
        assert_eq!(found.compacted, finished.max(scheduled).unwrap_or(0));
    }
}

#[test]
fn a_trailer_is_held_against_what_precedes_it() {
    use sha2::{Digest, Sha256};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.db");
    let pages = Layout::of(4096).write(&etcd(sample(20), "3.6.0"));
    let sum: [u8; 32] = Sha256::digest(&pages).into();
    let mut flipped = [&pages[..], &sum].concat();
    flipped[5000] ^= 1;
    for (bytes, found) in [
        ([&pages[..], &sum].concat(), Trailer::Fits(sum)),
        (flipped, Trailer::Wrong),
        ([&pages[..], &[0; 32]].concat(), Trailer::Blank),
        (pages.clone(), Trailer::Absent),
        (Vec::new(), Trailer::Absent),
    ] {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(trailer(&path).unwrap(), found);
    }
}
