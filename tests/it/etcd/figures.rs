//! The figures of a database are those of `etcdutl snapshot status`.

use std::path::{Path, PathBuf};

use capvco::etcd::db::{Db, Passing, Summary, TRAILER, Trailer, has_trailer, trailer};
use tempfile::TempDir;

use crate::support::bolt::{self, Layout, Rows};
use crate::support::peers::etcd::{Etcd, LINES, etcdutl};
use crate::support::peers::fill::Values;

/// What `etcdutl snapshot status` of a line says.
fn status(line: &str, path: &Path) -> serde_json::Value {
    let out = etcdutl(line, &["snapshot", "status", "-w", "json", path.to_str().unwrap()]);
    serde_json::from_str(&out).unwrap()
}

/// Holds our figures of the file to those of every line that has `etcdutl`.
fn compare(path: &Path) -> Summary {
    let ours = Db::open(path).unwrap().summary().unwrap();
    for line in ["3.7", "3.6", "3.5"] {
        let theirs = status(line, path);
        assert_eq!(theirs["hash"], ours.hash, "{line}: {theirs}");
        assert_eq!(theirs["revision"], ours.revision, "{line}: {theirs}");
        assert_eq!(theirs["totalSize"], ours.size, "{line}: {theirs}");
        let keys = if line == "3.5" { ours.total_entries } else { ours.live_keys };
        assert_eq!(theirs["totalKey"], keys, "{line}: {theirs}");
        if line != "3.5" {
            let version = ours.storage_version.map(|found| found.to_string()).unwrap_or_default();
            assert_eq!(theirs["version"], version, "{line}: {theirs}");
        }
    }
    ours
}

/// A snapshot that etcd itself took.
pub fn snapshot(etcd: &Etcd) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.db");
    etcd.etcdctl(&["snapshot", "save", path.to_str().unwrap()]);
    (folder, path)
}

#[test]
fn of_a_snapshot_of_every_line() {
    for line in LINES {
        let etcd = Etcd::start_line(line);
        let filled = etcd.fill(700, 900, Values::Random);
        etcd.etcdctl(&["del", "--prefix", "/registry/pods/default/pod-00000"]);
        etcd.etcdctl(&["lease", "grant", "3600"]);
        let (_folder, path) = snapshot(&etcd);
        let found = compare(&path);
        assert_eq!(found.revision, filled + 1, "{line}");
        assert_eq!((found.live_keys, found.members.len()), (600, 1), "{line}");
        assert_eq!(found.members[0].name, "default", "{line}");
        assert!(found.consistent_index > 0, "{line}");
        assert_eq!(found.lowest_etcd().to_string()[..3], *line);
        assert!(matches!(trailer(&path).unwrap(), Trailer::Fits(_)), "{line}");
    }
}

#[test]
fn of_a_database_full_of_deletions_compactions_and_a_defragmentation() {
    let etcd = Etcd::start_line("3.6");
    for round in 0..4 {
        let revision = etcd.fill(3000, 300, Values::Compressible);
        etcd.etcdctl(&["del", "--prefix", &format!("/registry/pods/default/pod-000{round}")]);
        etcd.etcdctl(&["compact", "--physical", &(revision - 2).to_string()]);
    }
    let (_folder, path) = snapshot(&etcd);
    let before = compare(&path);
    assert!(before.compacted > 0 && before.used_pages * 4096 < before.size);
    etcd.etcdctl(&["defrag"]);
    let (_folder, path) = snapshot(&etcd);
    let after = compare(&path);
    assert!(after.size < before.size);
    assert_eq!((after.live_keys, after.revision), (before.live_keys, before.revision));
}

#[test]
fn of_a_copied_data_directory_that_has_no_trailer_and_free_room_behind_its_pages() {
    let mut etcd = Etcd::start_line("3.5");
    etcd.fill(100, 100, Values::Random);
    etcd.stop();
    let db = etcd.data_dir().join("member/snap/db");
    assert!(!has_trailer(std::fs::metadata(&db).unwrap().len()));
    assert_eq!(compare(&db).live_keys, 100);
}

#[test]
fn of_an_etcd_that_never_held_a_key() {
    for line in ["3.7", "3.5"] {
        let etcd = Etcd::start_line(line);
        let (_folder, path) = snapshot(&etcd);
        let found = compare(&path);
        assert_eq!((found.revision, found.live_keys), (0, 0));
    }
}

#[test]
fn of_crafted_files_that_no_etcd_here_would_make() {
    let value = |at: usize| (at % 7 != 6).then(|| vec![b'x'; at * 61 % 3000]);
    let keys: Vec<String> = (0..5000).map(|at| format!("/k/{}", at % 1500)).collect();
    let rows = bolt::history(keys.iter().enumerate().map(|(at, key)| (key.as_str(), value(at))));
    let large = bolt::history([("a", Some(vec![7; 5 << 20])), ("b", Some(vec![8; 3 << 20]))]);
    let plain = Layout::of(4096);
    for (layout, rows) in [
        (Layout::of(65536), &rows),
        (Layout::of(16384), &rows),
        (Layout { fanout: 4, free: 3, freelist: true, ..plain.clone() }, &rows),
        (Layout { fanout: 2, inline: 0, ..plain.clone() }, &rows),
        (plain.clone(), &large),
        (plain, &Rows::new()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        std::fs::write(&path, layout.write(&bolt::etcd(rows.clone(), "3.6.0"))).unwrap();
        compare(&path);
    }
}

#[test]
fn of_a_stream_are_those_of_the_file_although_etcd_goes_on_while_it_runs() {
    let etcd = Etcd::start_line("3.6");
    etcd.fill(4000, 2000, Values::Random);
    for round in 0..6 {
        let (_folder, path) = std::thread::scope(|scope| {
            scope.spawn(|| etcd.fill(500, 1000 + round * 100, Values::Compressible));
            snapshot(&etcd)
        });
        if round == 3 {
            etcd.etcdctl(&["compaction", "--physical", "8"]);
        }
        let whole = Db::open(&path).unwrap().summary().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut passing = Passing::new();
        let pages = &bytes[..bytes.len() - usize::try_from(TRAILER).unwrap()];
        pages.chunks(32 << 10).for_each(|piece| passing.feed(piece));
        let passed = passing.finish().unwrap();
        assert_eq!((passed.size, passed.revision), (whole.size, whole.revision));
        assert_eq!(passed.storage_version, whole.storage_version);
        assert_eq!(passed.cluster_version, whole.cluster_version);
        assert_eq!(passed.consistent_index, Some(whole.consistent_index));
        assert_eq!(passed.term, whole.term);
    }
}
