//! Restores of crafted files, read back by our own reader.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::etcd::bolt::{self, Layout, Rows, etcd, history};
use crate::etcd::db::{Db, Summary};

const BUMP: u64 = 1_000_000_000;

fn rows(n: usize) -> Rows {
    let keys: Vec<String> = (0..n).map(|n| format!("/registry/{}", n % 700)).collect();
    let value = |at: usize| (at % 5 != 4).then(|| vec![b'v'; at * 37 % 900]);
    history(keys.iter().enumerate().map(|(at, key)| (key.as_str(), value(at))))
}

fn plan(members: usize, bump: bool) -> Plan {
    let member = |n| (format!("cp-{n}"), format!("https://10.0.0.{n}:2380"));
    Plan {
        name: "cp-1".to_owned(),
        initial_cluster: (1..=members).map(member).collect(),
        advertise_peer_urls: Vec::new(),
        token: "again".to_owned(),
        bump: bump.then_some(BUMP),
        mark_compacted: bump,
        target_version: None,
        force: false,
    }
}

/// Restores a file; the figures before and after, and what was written.
fn restore(file: &[u8], plan: &Plan) -> (Summary, Summary, Prepared) {
    let folder = tempfile::tempdir().unwrap();
    let staged = folder.path().join("staged");
    fs::write(&staged, file).unwrap();
    let before = Db::open(&staged).unwrap().summary().unwrap();
    let prepared = prepare(plan, &before).unwrap();
    let member_dir = folder.path().join("new/member");
    let restored = write(&prepared, &staged, &member_dir).unwrap();
    assert!(!staged.exists());
    assert_eq!(restored.files[0], member_dir.join("snap/db"));
    for (path, mode) in [
        ("", 0o700),
        ("snap", 0o700),
        ("wal", 0o700),
        ("snap/db", 0o600),
        (&format!("snap/0000000000000001-{:016x}.snap", prepared.members.len()), 0o600),
        ("wal/0000000000000000-0000000000000000.wal", 0o600),
    ] {
        let found = fs::metadata(member_dir.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{path}");
    }
    let db = Db::open(&member_dir.join("snap/db")).unwrap();
    assert_eq!(db.len(), restored.db_bytes);
    db.check().unwrap();
    (before, db.summary().unwrap(), prepared)
}

fn layouts() -> Vec<Layout> {
    let plain = Layout::of(4096);
    vec![
        plain.clone(),
        Layout::of(65536),
        Layout { fanout: 2, inline: 0, ..plain.clone() },
        Layout { fanout: 3, free: 2, freelist: true, ..Layout::of(16384) },
        Layout { inline: 0, ..plain },
    ]
}

fn bucket<'a>(summary: &'a Summary, name: &str) -> &'a crate::etcd::db::BucketSize {
    summary.buckets.iter().find(|bucket| bucket.name == name).unwrap()
}

#[test]
fn a_restored_database_differs_only_in_what_a_new_cluster_needs() {
    for layout in layouts() {
        for members in [1, 3] {
            let file = layout.write(&etcd(rows(900), "3.6.0"));
            let (before, after, prepared) = restore(&file, &plan(members, false));
            for name in ["key", "lease", "cluster", "auth", "alarm"] {
                assert_eq!(bucket(&before, name), bucket(&after, name), "{layout:?}");
            }
            assert_eq!((after.revision, after.live_keys), (901, before.live_keys));
            assert_eq!((after.consistent_index, after.term), (members as u64, Some(1)));
            assert_eq!(after.storage_version, before.storage_version);
            let ids = |ids: Vec<u64>| ids.into_iter().collect::<std::collections::BTreeSet<_>>();
            let found = ids(after.members.iter().map(|member| member.id).collect());
            assert_eq!(found, ids(prepared.members.iter().map(|member| member.id).collect()));
            assert!(after.members.iter().all(|member| member.name.starts_with("cp-")));
        }
    }
}

#[test]
fn a_bump_adds_one_row_and_marks_it_compacted_in_every_shape_of_tree() {
    for layout in layouts() {
        for n in [0_usize, 1, 3, 40, 120, 900] {
            let file = layout.write(&etcd(rows(n), "3.6.0"));
            let (before, after, prepared) = restore(&file, &plan(1, true));
            let raised = before.revision + 1_000_000_000;
            assert_eq!((after.revision, after.compacted), (raised, raised), "{n} in {layout:?}");
            assert_eq!(prepared.bumped_to, Some(raised));
            assert_eq!(bucket(&after, "key").entries, n as u64 + 1);
            assert_eq!(bucket(&after, "key").bytes, bucket(&before, "key").bytes + 17);
        }
    }
}

#[test]
fn full_branches_get_a_sibling_up_to_a_new_root() {
    // As many children a branch as fit on its page: 120 of 34 bytes.
    for n in [2, 240, 120 * 120 - 1, 120 * 120] {
        let rows: Rows = (0..n).map(|at| (bolt::revision(at + 2, 0, true), Vec::new())).collect();
        let layout = Layout { leaf_rows: 1, ..Layout::of(4096) };
        let file = layout.write(&etcd(rows, "3.6.0"));
        let (before, after, _) = restore(&file, &plan(3, true));
        assert_eq!(after.revision, before.revision + 1_000_000_000, "{n}");
        assert_eq!(bucket(&after, "key").entries, bucket(&before, "key").entries + 1);
    }
}

#[test]
fn members_too_many_for_an_inline_bucket_get_a_page_of_their_own() {
    let file = Layout::of(4096).write(&etcd(rows(50), "3.6.0"));
    for members in [7, 9, 60] {
        let (_, after, _) = restore(&file, &plan(members, true));
        assert_eq!(after.members.len(), members);
    }
}

#[test]
fn a_database_of_3_4_gets_what_newer_ones_ask_for_unless_3_4_is_to_read_it() {
    let mut buckets = etcd(rows(20), "3.4.0");
    for (name, rows) in &mut buckets {
        match *name {
            "meta" => rows.retain(|key, _| key == b"consistent_index"),
            "cluster" => rows.clear(),
            _ => {}
        }
    }
    let file = Layout::of(4096).write(&buckets);
    let (before, after, prepared) = restore(&file, &plan(1, false));
    assert_eq!((before.term, after.term), (None, Some(1)));
    assert_eq!(prepared.lowest_etcd.minor(), (3, 4));
    let old = Plan { target_version: Some(Version::line(3, 4)), ..plan(1, false) };
    let (_, after, _) = restore(&file, &old);
    assert_eq!((after.term, bucket(&after, "meta").entries), (None, 1));
}

#[test]
fn what_is_behind_the_last_page_is_cut_off() {
    let mut file = Layout::of(4096).write(&etcd(rows(50), "3.6.0"));
    file.extend(vec![0xAA; 100_032]);
    let (before, after, _) = restore(&file, &plan(1, false));
    assert!(after.size > before.size && after.size < file.len() as u64);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let staged = folder.path().join("staged");
    fs::write(&staged, Layout::of(4096).write(&etcd(rows(5), "3.6.0"))).unwrap();
    let found = Db::open(&staged).unwrap().summary().unwrap();
    let prepared = prepare(&plan(1, false), &found).unwrap();
    let error = write(&prepared, &staged, &staged.join("member")).unwrap_err();
    assert!(error.to_string().contains("staged/member cannot be written"), "{error}");
}
