//! What `list` and `status` say of a bucket, and what they notice.

use capvco::s3::Mode;
use capvco::snapshot::layout::ClusterId;
use capvco::snapshot::pack::Layers;

use crate::support::peers::etcd::Etcd;
use crate::support::peers::s3::{BUCKET, S3, Seaweed, Versitygw};
use crate::support::program::{backup, backup_at};
use crate::support::stored::{Backup, CLUSTER, PUBLIC, Shelf, identity_file};

const EARLY: &str = "20261129T060000Z";
const LATE: &str = "20261130T060000Z";

fn unix(text: &str) -> u64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second().try_into().unwrap()
}

async fn shows_what_is_there(store: &S3) {
    let shelf = Shelf::of(store).await;
    let until = unix("2031-01-01T00:00:00Z");
    shelf
        .store(&Backup { lock: Some((Mode::Governance, until)), pki: true, ..Backup::of(EARLY) })
        .await;
    let plain = Layers { recipients: None, ..Backup::of(LATE).layers };
    shelf.store(&Backup { layers: plain, ..Backup::of(LATE) }).await;
    shelf.put_data(&Backup::of("20261130T120000Z"), 1).await;

    let folder = tempfile::tempdir().unwrap();
    let identity = identity_file(folder.path());
    let done = backup_at(store).words("list -output json -i").arg(&identity).run().await.expect(0);
    let rows = done.json()["results"].as_array().unwrap().clone();
    let field = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("state"), ["unfinished", "good", "good"]);
    assert_eq!(field("backup"), ["20261130T120000Z", LATE, EARLY]);
    assert_eq!(field("cluster"), [CLUSTER.to_string(), CLUSTER.to_string(), CLUSTER.to_string()]);
    let early = &rows[2];
    assert_eq!(early["revision"], 101);
    assert_eq!(early["lockedUntil"], "2031-01-01T00:00:00Z");
    assert_eq!(early["lockMode"], "governance");
    assert_eq!(early["recipients"][0], PUBLIC);
    assert_eq!((&early["taken"], &early["held"]), (&"2026-11-29T06:00:00Z".into(), &false.into()));
    assert_eq!((&rows[1]["lockMode"], &rows[1]["pki"]), (&"none".into(), &false.into()));
    assert_eq!((&early["readable"], &early["pki"]), (&true.into(), &true.into()));
    assert_eq!(rows[1]["encrypted"], false);
    done.says("not encrypted: 1 of 3");

    let table = backup_at(store).words("list").run().await.expect(0).out;
    assert!(table.contains("BACKUP") && !table.contains("CLUSTER"), "{table}");
    assert!(table.contains("2031-01-01T00:00:00Z") && table.contains("not encrypted"), "{table}");
    assert!(table.contains("unfinished: no manifest"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_shown_with_what_is_in_them() {
    shows_what_is_there(&Versitygw::start()).await;
    shows_what_is_there(&Seaweed::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_hid_or_wrote_over_is_shown_and_still_good() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup::of(EARLY)).await;
    shelf.store(&Backup::of(LATE)).await;
    let late = shelf.manifest_key(&Backup::of(LATE));
    store.aws(&["s3api", "delete-object", "--bucket", BUCKET, "--key", &late]).expect(0);
    let early = shelf.manifest_key(&Backup::of(EARLY));
    shelf.put(&early, b"{\"kind\": \"nothing\"}".to_vec(), None).await;

    let done = backup_at(&store).words("list -output json").run().await.expect(0);
    let json = done.json();
    assert_eq!(json["results"][0]["state"], "hidden");
    assert_eq!(json["results"][1]["state"], "covered");
    done.says("hidden behind a delete marker").says("--all-versions");

    let all = backup_at(&store).words("list --all-versions -output json").run().await.expect(0);
    let json = all.json();
    let rows = json["results"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[2]["state"], "damaged");
    assert_eq!(rows[2]["trouble"], "manifest: this is no manifest of capvco-backup");
    assert_ne!(rows[1]["versionId"], rows[2]["versionId"]);

    let verified = backup_at(&store).words("verify --all --quick").run().await.expect(0);
    assert!(verified.out.contains("hidden behind a delete marker"), "{}", verified.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_or_missing_bucket_is_told() {
    let store = Versitygw::start();
    let done = backup_at(&store).words("list").run().await.expect(0);
    done.says("there is no backup in s3://backups/etcd/");
    let done = backup_at(&store).words("list --s3-bucket nosuchbucket").run().await.expect(3);
    done.says("cannot list the backups in s3://nosuchbucket/etcd/");
    let done = backup_at(&store).words("status").run().await.expect(1);
    done.says("there is no backup in s3://backups/etcd/");
    backup_at(&store).words("verify --quick").run().await.expect(3).says("there is no backup in");
    let prune = backup_at(&store).words("prune --keep-last 3").run().await.expect(3);
    prune.says("there is no backup in").says("--allow-empty");
    backup_at(&store).words("prune --keep-last 3 --allow-empty").run().await.expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_means_its_own_cluster_after_a_restore() {
    let (store, etcd) = (Versitygw::start(), Etcd::start());
    let shelf = Shelf::of(&store).await;
    let status = etcd.etcdctl(&["endpoint", "status", "-w", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let own = status[0]["Status"]["header"]["cluster_id"].as_u64().unwrap();
    shelf.store(&Backup::of(EARLY)).await;
    let at_node =
        |words: &str| backup_at(&store).env("ETCDCTL_ENDPOINTS", etcd.endpoint()).words(words);
    let none = at_node("status --cluster own").run().await.expect(1);
    none.says(&format!("there is no backup of cluster {} in", ClusterId(own)));
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    shelf.store(&Backup { cluster: ClusterId(own), ..Backup::of(&now) }).await;
    at_node("status --max-age 1h").run().await.expect(1).says(&CLUSTER.to_string());
    let done = at_node("status --max-age 1h --cluster own -output json").run().await.expect(0);
    assert_eq!(done.json()["results"][0]["cluster"], ClusterId(own).to_string());
    for verb in ["list", "verify --quick", "prune --keep-last 1"] {
        let done = at_node(verb).words("--cluster own -output json").run().await.expect(0);
        let rows = done.json()["results"].as_array().unwrap().clone();
        assert!(rows.iter().all(|row| row["cluster"] == ClusterId(own).to_string()), "{verb}");
    }
    let down = at_node("status --cluster own").env("ETCDCTL_ENDPOINTS", "http://127.0.0.1:1");
    down.run().await.expect(4).says("no member of etcd can be asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_clusters_id_is_none_and_a_cluster_without_backups_is_named() {
    let store = Versitygw::start();
    Shelf::of(&store).await.store(&Backup::of(EARLY)).await;
    for verb in ["list", "status", "verify --quick", "prune --keep-last 1", "hold add x"] {
        let part = backup_at(&store).words(verb).words("--cluster cdf8").run().await.expect(2);
        part.says("16 hexadecimal digits");
    }
    for (verb, code) in [("list", 0), ("status", 1), ("verify --quick", 3)] {
        let other = backup_at(&store).words(verb).words("--cluster 000000000000cdf8");
        other
            .run()
            .await
            .expect(code)
            .says("there is no backup of cluster 000000000000cdf8 in s3:");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_for_monitoring() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let now = jiff::Timestamp::now();
    let hours = |hours: i64| now - jiff::SignedDuration::from_hours(hours);
    let name = |time: jiff::Timestamp| time.strftime("%Y%m%dT%H%M%SZ").to_string();
    let until = unix("2031-01-01T00:00:00Z");
    let fresh = Backup {
        lock: Some((Mode::Governance, until)),
        ..Backup::of(&name(hours(3) - jiff::SignedDuration::from_mins(1)))
    };
    let manifest = shelf.store(&fresh).await;
    shelf.store(&Backup::of(&name(hours(30)))).await;
    shelf.put_data(&Backup::of(&name(hours(1))), 7).await;
    let folder = tempfile::tempdir().unwrap();
    let prom = folder.path().join("etcd.prom");

    let status = backup_at(&store).words("status --max-age 8h -output json --textfile").arg(&prom);
    let row = status.run().await.expect(0).json()["results"][0].clone();
    assert_eq!(
        (&row["state"], &row["good"], &row["notGood"]),
        (&"fresh".into(), &2.into(), &1.into())
    );
    assert_eq!(row["backup"], fresh.slot.to_string());
    assert_eq!(row["lockedUntil"], "2031-01-01T00:00:00Z", "as the store has it");

    let late = backup_at(&store).words("status --max-age 2h").run().await.expect(1);
    late.says("is 3h").says("2h at most");

    let other = Backup { cluster: ClusterId(7), ..Backup::of(&name(hours(40))) };
    shelf.store(&other).await;
    backup_at(&store).words("status --max-age 8h").run().await.expect(1).says("0000000000000007");
    backup_at(&store).words("status --max-age 8h --cluster cdf818194e3a8c32").run().await.expect(0);

    let text = std::fs::read_to_string(&prom).unwrap();
    let line = format!(
        "capvco_backup_last_success_timestamp_seconds{{cluster=\"{CLUSTER}\"}} {}",
        manifest.started.as_second()
    );
    assert!(text.lines().any(|found| found == line), "{text}");
    let locked =
        format!("capvco_backup_locked_until_timestamp_seconds{{cluster=\"{CLUSTER}\"}} {until}");
    assert!(text.lines().any(|found| found == locked), "{text}");
}

#[tokio::test]
async fn a_store_whose_name_is_unknown_is_told_in_words() {
    let list = backup()
        .words("list --s3-endpoint https://no-such-host.invalid --s3-bucket b")
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b");
    let done = list.run().await.expect(4).says("the host's name cannot be resolved");
    assert!(!done.err.contains("Query {"), "{}", done.err);
    done.says("hint: Check the host in --s3-endpoint").says("(--s3-path-style on)");
}
