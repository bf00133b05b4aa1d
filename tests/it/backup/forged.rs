//! What somebody achieves who may write to the bucket and not delete: nothing that costs a backup
//! or an alarm.

use capvco::snapshot::layout::ClusterId;
use capvco::snapshot::manifest::{Manifest, Rekeyed};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::prune::grow_old;
use crate::support::front::{Fault, Front};
use crate::support::peers::s3::{S3, Versitygw};
use crate::support::program::{Done, backup_at};
use crate::support::stored::{Backup, Shelf};

fn name(hours: i64) -> String {
    let time = Timestamp::now() - SignedDuration::from_hours(hours);
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn column(done: &Done, field: &str) -> Vec<String> {
    let rows = done.json()["results"].as_array().unwrap().clone();
    let text = |row: &Value| format!("{} {}", row["backup"].as_str().unwrap(), row[field]);
    rows.iter().map(text).collect()
}

/// Stores `junk` as the data of a manifest like `like`, and that manifest, both in `slot`.
async fn forge(shelf: &Shelf, like: &Manifest, slot: &str, junk: usize, change: fn(&mut Manifest)) {
    let mut manifest = like.clone();
    let was = manifest.slot.to_string();
    manifest.slot = slot.parse().unwrap();
    manifest.data.key = manifest.data.key.replace(&was, slot).replace("00f0", "00fe");
    change(&mut manifest);
    manifest.data.content.size = junk as u64;
    manifest.data.version_id = shelf.put(&manifest.data.key, vec![b'x'; junk], None).await;
    let folder = manifest.data.key.rsplit_once('/').unwrap().0;
    shelf.put(&format!("{folder}/manifest.json"), manifest.to_json(), None).await;
}

async fn prune(store: &S3, words: &str) -> Done {
    backup_at(store).words("prune -output json").words(words).run().await.expect(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_who_may_only_write_makes_prune_remove_a_good_backup() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let (old, new) = (name(30), name(6));
    for slot in [&old, &new] {
        let real = shelf.store(&Backup::of(slot)).await;
        // "I am a copy of it", with nothing inside and with as much inside as it has.
        let as_copy = |m: &mut Manifest| {
            let at = m.finished;
            let from = m.slot.to_string().split('-').next().unwrap().parse().unwrap();
            m.rekeyed = Some(Rekeyed { from, at });
        };
        let size = usize::try_from(real.data.content.size).unwrap();
        forge(&shelf, &real, &format!("{slot}-aaaaaa"), 16, as_copy).await;
        forge(&shelf, &real, &format!("{slot}-bbbbbb"), size, as_copy).await;
        // "It is of 2020", in its own folder.
        forge(&shelf, &real, slot, size, |m| {
            m.started = "2020-01-01T00:00:00Z".parse().unwrap();
        })
        .await;
    }
    let real = shelf.begin(&Backup::of(&new)).await;
    forge(&shelf, &real, "20991231T000000Z", 16, |m| {
        m.started = m.slot.time();
        m.finished = m.slot.time();
    })
    .await;
    grow_old(&store.data_dir(), 1);
    let done = prune(&store, "--keep-last 2 --keep-within 7d").await;
    let rows = column(&done, "outcome");
    for slot in [&old, &new] {
        assert!(rows.contains(&format!("{slot} \"kept\"")), "{rows:?}");
    }
    let listed = backup_at(&store).words("list -output json").run().await.expect(0);
    let states = column(&listed, "state");
    for slot in [&old, &new] {
        assert!(states.contains(&format!("{slot} \"covered\"")), "{states:?}");
    }
    assert!(states.contains(&"20991231T000000Z \"damaged\"".to_owned()), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_the_future_does_not_silence_the_alarm() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let real = shelf.store(&Backup::of(&name(30))).await;
    let size = usize::try_from(real.data.content.size).unwrap();
    forge(&shelf, &real, "20991231T000000Z", size, |m| {
        m.started = m.slot.time();
        m.finished = m.slot.time();
    })
    .await;
    let status = backup_at(&store).words("status --max-age 8h -output json").run().await.expect(1);
    let row = status.json()["results"][0].clone();
    assert_eq!((&row["state"], &row["good"]), (&"too-old".into(), &1.into()));
    assert_eq!(row["backup"], real.slot.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_good_manifest_of_a_folder_counts_and_others_are_told() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let (slot, newer) = (name(5), name(1));
    let real = shelf.store(&Backup::of(&slot)).await;
    shelf.store(&Backup::of(&newer)).await;
    // A whole backup of somebody else's, to the same recipients.
    let other =
        Backup { revision: 7, db: crate::support::stored::database(6), ..Backup::of(&slot) };
    let (key, version_id, content) = shelf.put_data(&other, 0xF9).await;
    let mut forged = Manifest { revision: 7, ..real.clone() };
    (forged.data.key, forged.data.version_id, forged.data.content) = (key, version_id, content);
    for _ in 0..20 {
        shelf.put(&shelf.manifest_key(&other), forged.to_json(), None).await;
    }
    let front = Front::start(store.endpoint(), |_, _| Fault::Pass).await;
    let listed = backup_at(&store.behind(&front)).words("list -output json").run().await.expect(0);
    let row = listed.json()["results"][1].clone();
    assert_eq!((&row["revision"], &row["state"]), (&real.revision.into(), &"covered".into()));
    listed.says("20 later manifests say something else and do not count");
    assert!(front.count("GetObject") <= 6, "all of them are read");
    let verified = backup_at(&store).words("verify --quick").arg(&slot).run().await.expect(0);
    assert!(verified.out.contains("20 later manifests say otherwise"), "{}", verified.out);
    let pruned = prune(&store, "--keep-last 1").await;
    assert_eq!(column(&pruned, "outcome")[1], format!("{slot} \"kept\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_comes_cut_or_empty_is_the_stores_failure_and_costs_nothing() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    for hours in [100, 80, 60] {
        shelf.store(&Backup::of(&name(hours))).await;
    }
    grow_old(&store.data_dir(), 50);
    let before = shelf.bucket.versions("").await.unwrap().len();
    for reply in ["", "{\"kind\": \"capvco-backup\"}"] {
        let front = Front::start(store.endpoint(), move |asked, before| {
            let hit = asked.operation() == "GetObject" && before == 1;
            if hit { Fault::Instead(reply) } else { Fault::Pass }
        });
        let front = front.await;
        let behind = store.behind(&front);
        let pruned = backup_at(&behind).words("prune --keep-last 1").run().await.expect(4);
        pruned.says("bytes came, and the list says");
        assert_eq!(shelf.bucket.versions("").await.unwrap().len(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_somebody_made_up_are_told_and_no_alarm() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let real = shelf.store(&Backup::of(&name(1))).await;
    let stray = format!("etcd/{}/00010101T000000Z/claim.json", ClusterId(u64::MAX));
    shelf.put(&stray, b"{}".to_vec(), None).await;
    let status = backup_at(&store).words("status --max-age 8h").run().await.expect(0);
    status.says("cluster ffffffffffffffff has no good backup, and is left out");
    let alone = "status --max-age 8h --cluster ffffffffffffffff";
    backup_at(&store).words(alone).run().await.expect(1).says("has no good backup");
    let words = format!("status --max-age 8h --cluster {}", real.cluster);
    let one = backup_at(&store).words(&words).run().await.expect(0);
    assert!(!one.err.contains("ffffffffffffffff"), "{}", one.err);
}
