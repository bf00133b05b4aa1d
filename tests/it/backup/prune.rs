//! `prune` removes what no rule keeps, and nothing else.

use std::path::Path;
use std::time::{Duration, SystemTime};

use capvco::s3::Mode;
use capvco::snapshot::layout::ClusterId;
use serde_json::Value;

use crate::support::peers::s3::{BUCKET, S3, Seaweed, Versitygw};
use crate::support::program::backup_at;
use crate::support::stored::{Backup, Shelf};

async fn prune(store: &S3, words: &str, code: i32) -> Vec<Value> {
    let done = backup_at(store).words("prune -output json").words(words).run().await.expect(code);
    done.json()["results"].as_array().unwrap().clone()
}

fn outcomes(rows: &[Value]) -> Vec<String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter().map(|row| format!("{} {}", text(row, "backup"), text(row, "outcome"))).collect()
}

async fn keys(shelf: &Shelf) -> Vec<String> {
    let versions = shelf.bucket.versions("etcd/").await.unwrap();
    versions.into_iter().map(|version| version.key).collect()
}

/// Makes everything that versitygw stores look as old as `hours`.
pub fn grow_old(path: &Path, hours: u64) {
    let then = SystemTime::now() - Duration::from_hours(hours);
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            grow_old(&path, hours);
        }
        std::fs::File::open(&path).unwrap().set_modified(then).unwrap();
    }
}

async fn removes_what_no_rule_keeps(store: &S3) {
    let shelf = Shelf::of(store).await;
    let until = 1_924_992_000;
    let locked = Backup { lock: Some((Mode::Governance, until)), ..Backup::of("20261127T060000Z") };
    shelf.store(&Backup { pki: true, ..Backup::of("20261126T060000Z") }).await;
    shelf.store(&locked).await;
    shelf.store(&Backup::of("20261129T060000Z")).await;
    shelf.store(&Backup::of("20261130T060000Z")).await;
    shelf.put("etcd/readme.txt", b"not ours".to_vec(), None).await;
    let before = keys(&shelf).await;

    let plan = prune(store, "--keep-last 2 --dry-run", 0).await;
    assert_eq!(
        outcomes(&plan),
        [
            "20261130T060000Z kept",
            "20261129T060000Z kept",
            "20261127T060000Z locked",
            "20261126T060000Z would-be-removed"
        ]
    );
    assert_eq!(plan[2]["lockedUntil"], "2031-01-01T00:00:00Z");
    assert_eq!(plan[3]["objects"], 3);
    assert_eq!(keys(&shelf).await, before, "a rehearsal changed something");

    let done = backup_at(store).words("prune -output json --keep-last 2").run().await.expect(0);
    let json = done.json();
    let rows = json["results"].as_array().unwrap();
    assert_eq!(outcomes(rows)[3], "20261126T060000Z removed");
    assert_eq!(rows[3]["why"], "no rule keeps it");
    done.says("4 listed: 2 kept, 1 removed (").says("1 locked").says("1 objects are not of");
    let after = keys(&shelf).await;
    let gone: Vec<_> = before.iter().filter(|key| !after.contains(key)).collect();
    assert_eq!(gone.len(), 3, "{gone:?}");
    assert!(gone.iter().all(|key| key.contains("20261126T060000Z")), "{gone:?}");

    let again = prune(store, "--keep-last 2", 0).await;
    assert_eq!(outcomes(&again)[2], "20261127T060000Z locked", "locked is no error");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_rule_keeps_goes_version_by_version_unless_it_is_locked() {
    removes_what_no_rule_keeps(&Versitygw::start()).await;
    removes_what_no_rule_keeps(&Seaweed::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_good_one_of_each_cluster_stays_whatever_the_rules_say() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    for cluster in [1, 2] {
        let of = |slot| Backup { cluster: ClusterId(cluster), ..Backup::of(slot) };
        shelf.store(&of("20200101T000000Z")).await;
        shelf.store(&of("20200102T000000Z")).await;
        // Newer, and not good: its data is cut.
        let cut = of("20200103T000000Z");
        let manifest = shelf.begin(&cut).await;
        shelf.bucket.delete(&manifest.data.key, manifest.data.version_id.as_deref()).await.unwrap();
        shelf.put(&manifest.data.key, b"cut".to_vec(), None).await;
        shelf.put(&shelf.manifest_key(&cut), manifest.to_json(), None).await;
    }
    let rows = prune(&store, "--keep-within 1h", 0).await;
    let want = ["20200103T000000Z kept", "20200102T000000Z kept", "20200101T000000Z removed"];
    assert_eq!(outcomes(&rows), [want, want].concat());
    assert_eq!(rows[1]["why"], "newest good, within 1h");
    assert_eq!(rows[0]["why"], "nothing newer is good");
    let rows = prune(&store, "--keep-last 1 --cluster 0000000000000002", 0).await;
    assert_eq!(rows.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_gone_goes_with_its_newest_when_its_locks_are_over_and_no_other_does() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let of = |cluster, slot| Backup { cluster: ClusterId(cluster), ..Backup::of(slot) };
    let lock = Some((Mode::Governance, 1_924_992_000));
    shelf.store(&of(1, "20261123T060000Z")).await;
    shelf.store(&Backup { lock, ..of(1, "20261124T060000Z") }).await;
    shelf.store(&of(1, "20261125T060000Z")).await;
    shelf.store(&of(2, "20261123T060000Z")).await;
    let gone = "--cluster 0000000000000001 --cluster-is-gone";

    for (words, text) in [
        ("--cluster-is-gone", "--cluster ID"),
        ("--cluster own --cluster-is-gone", "is not gone"),
        ("--cluster 0000000000000001 --cluster-is-gone --keep-last 1", "leave the rules out"),
        ("--cluster 1 --cluster-is-gone", "16 hexadecimal digits"),
    ] {
        backup_at(&store).words("prune").words(words).run().await.expect(2).says(text);
    }
    let young = prune(&store, gone, 0).await;
    assert!(outcomes(&young).iter().all(|row| row.ends_with("kept")), "of today: {young:?}");

    grow_old(&store.data_dir(), 25);
    let plan = prune(&store, &format!("{gone} --dry-run"), 0).await;
    assert_eq!(plan[0]["why"], "its cluster is gone");
    let rows = prune(&store, gone, 0).await;
    let want = ["20261125T060000Z removed", "20261124T060000Z locked", "20261123T060000Z removed"];
    assert_eq!(outcomes(&rows), want);
    let left = keys(&shelf).await;
    let of_one = left.iter().filter(|key| key.contains("/0000000000000001/"));
    assert!(of_one.clone().all(|key| key.contains("20261124T060000Z")), "{left:?}");
    assert_eq!((left.len(), of_one.count()), (4, 2), "what is locked, and the other cluster's");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_hidden_still_counts_and_goes_with_its_markers() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup::of("20261129T060000Z")).await;
    shelf.store(&Backup::of("20261130T060000Z")).await;
    for slot in ["20261129T060000Z", "20261130T060000Z"] {
        let key = shelf.manifest_key(&Backup::of(slot));
        store.aws(&["s3api", "delete-object", "--bucket", BUCKET, "--key", &key]).expect(0);
    }
    let rows = prune(&store, "--keep-last 1", 0).await;
    assert_eq!(outcomes(&rows), ["20261130T060000Z kept", "20261129T060000Z removed"]);
    let left = keys(&shelf).await;
    assert_eq!(left.len(), 3, "data, manifest, marker: {left:?}");
    assert!(left.iter().all(|key| key.contains("20261130T060000Z")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dead_runs_left_is_swept_after_a_day() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.put_data(&Backup::of("20261123T060000Z"), 1).await;
    shelf.put("etcd/cdf818194e3a8c32/20261122T060000Z/claim.json", b"{}".to_vec(), None).await;
    shelf.store(&Backup::of("20261125T060000Z")).await;
    shelf.put_data(&Backup::of("20261125T060000Z"), 2).await;
    let key = "etcd/cdf818194e3a8c32/20261123T060000Z/data-0000000000000003.db.zst.age";
    let begun = store
        .aws(&["s3api", "create-multipart-upload", "--bucket", BUCKET, "--key", key])
        .expect(0);
    let begun = begun.json();
    let id = begun["UploadId"].as_str().unwrap();
    let part = store.data_dir().join("part");
    std::fs::write(&part, vec![1; 100_000]).unwrap();
    let mut words =
        vec!["s3api", "upload-part", "--bucket", BUCKET, "--key", key, "--upload-id", id];
    words.extend(["--part-number", "1", "--body", part.to_str().unwrap()]);
    store.aws(&words).expect(0);

    let young = prune(&store, "--keep-last 3", 0).await;
    assert!(!outcomes(&young).iter().any(|row| row.ends_with("removed")), "{young:?}");

    grow_old(&store.data_dir(), 23);
    let young = prune(&store, "--keep-last 3", 0).await;
    assert!(!outcomes(&young).iter().any(|row| row.ends_with("removed")), "{young:?}");
    assert_eq!(shelf.bucket.unfinished("etcd/").await.unwrap().len(), 1);

    grow_old(&store.data_dir(), 25);
    let old = prune(&store, "--keep-last 3", 0).await;
    assert_eq!(
        outcomes(&old),
        [
            "20261125T060000Z kept",
            "20261125T060000Z removed",
            "20261123T060000Z removed",
            "20261122T060000Z removed",
            "20261123T060000Z removed",
        ]
    );
    let whys: Vec<_> = old.iter().map(|row| row["why"].as_str().unwrap()).collect();
    assert_eq!(
        whys,
        [
            "newest good, last",
            "data that no manifest speaks of",
            "not good: no manifest",
            "only a claim",
            "never finished"
        ]
    );
    assert_eq!(keys(&shelf).await.len(), 2);
    assert!(shelf.bucket.unfinished("etcd/").await.unwrap().is_empty(), "parts are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legal_hold_outlasts_every_rule() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup::of("20261129T060000Z")).await;
    shelf.store(&Backup::of("20261130T060000Z")).await;
    backup_at(&store).words("hold add 20261129T060000Z").run().await.expect(0);
    let rows = prune(&store, "--keep-last 1", 0).await;
    assert_eq!(outcomes(&rows)[1], "20261129T060000Z locked");
    assert_eq!((&rows[1]["held"], &rows[0]["held"]), (&true.into(), &false.into()));
    assert_eq!((&rows[1]["lockMode"], &rows[1]["lockedUntil"]), (&"none".into(), &Value::Null));
    let list = backup_at(&store).words("list -output json").run().await.expect(0).json();
    assert_eq!(list["results"][1]["held"], true, "{list}");
    let verified = backup_at(&store).words("verify --all --quick").run().await.expect(0).out;
    assert!(verified.contains("held, until `capvco-backup hold remove`"), "{verified}");
    assert_eq!(keys(&shelf).await.len(), 4);
    backup_at(&store).words("hold remove 20261129T060000Z").run().await.expect(0);
    assert_eq!(outcomes(&prune(&store, "--keep-last 1", 0).await)[1], "20261129T060000Z removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_not_delete_changes_nothing() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup::of("20261129T060000Z")).await;
    shelf.store(&Backup::of("20261130T060000Z")).await;
    let user = store.create_user("reader");
    let reads = ["s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:ListBucketVersions"];
    let more = ["s3:ListBucketMultipartUploads", "s3:GetObjectRetention", "s3:GetObjectLegalHold"];
    store.allow(&user, BUCKET, &[&reads[..], &more[..]].concat());
    let done = backup_at(&user).words("prune -output json --keep-last 1").run().await.expect(1);
    let json = done.json();
    assert_eq!(json["results"][1]["outcome"], "failed");
    done.says("20261129T060000Z of cluster cdf818194e3a8c32: cannot delete the object");
    assert_eq!(keys(&shelf).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_rule_or_with_an_unclear_one_nothing_is_done() {
    let store = Versitygw::start();
    let none = backup_at(&store).words("prune").run().await.expect(2);
    none.says("no rule says what to keep").says("--keep-daily 7");
    for words in ["--keep-last -2", "--keep-last many", "--keep-within 7w", "--keep-within 0d"] {
        backup_at(&store).words("prune").words(words).run().await.expect(2);
    }
}
