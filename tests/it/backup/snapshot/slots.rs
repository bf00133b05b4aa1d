//! Several nodes on one schedule: one backup, whoever makes it, and nobody believes a word.

use std::time::Duration;

use super::{Desk, json_of, named, row, signal, unfinished, until_so};
use crate::support::front::{Fault, Front};
use crate::support::peers::etcd::{Cluster, Etcd};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::{BUCKET, S3, Versitygw};
use crate::support::program::{Program, finish};

fn node(desk: &Desk, etcd: &Etcd, s3: &S3, name: &str) -> Program {
    let program = desk.snapshot(etcd, s3).words("--slot 24h");
    program.env("CAPVCO_BACKUP_NODE", name)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_at_once_make_one_backup() {
    let (desk, s3, cluster) = (Desk::new(), Versitygw::start(), Cluster::start(3));
    cluster.members[0].fill(50, 2000, Values::Compressible);
    let nodes = ["cp-1", "cp-2", "cp-3"].iter().zip(&cluster.members);
    let running: Vec<_> = nodes.map(|(name, etcd)| node(&desk, etcd, &s3, name).spawn()).collect();
    let mut made = Vec::new();
    for child in running {
        let row = row(&finish(child).await.expect(0));
        made.push((row["outcome"].as_str().unwrap().to_owned(), row["key"].clone()));
    }
    made.sort_by(|a, b| a.0.cmp(&b.0));
    let outcomes: Vec<&str> = made.iter().map(|(outcome, _)| outcome.as_str()).collect();
    assert_eq!(outcomes, ["already-made", "already-made", "stored"]);
    assert!(made.iter().all(|(_, key)| *key == made[0].1), "all mean the same: {made:?}");
    assert_eq!((named(&s3, "data-").len(), named(&s3, "manifest.json").len()), (1, 1));

    // A latecomer asks nobody to do anything.
    let late = row(&node(&desk, &cluster.members[0], &s3, "cp-4").run().await.expect(0));
    assert_eq!(late["outcome"], "already-made");
    assert_eq!(named(&s3, "data-").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_half_way_is_taken_over() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(50, 2000, Values::Compressible);
    let stuck = Front::start(s3.endpoint(), |asked, _| {
        if asked.operation() == "PutObject" && asked.path.contains("/data-") {
            Fault::Hang
        } else {
            Fault::Pass
        }
    });
    let stuck = std::sync::Arc::new(stuck.await);
    let mut first = node(&desk, &etcd, &s3.behind(&stuck), "cp-1").spawn();
    let front = std::sync::Arc::clone(&stuck);
    until_so("cp-1 is at work", move || {
        front.asked().iter().any(|asked| asked.path.contains("/data-"))
    })
    .await;

    // While it may be at work, others wait.
    let patient = node(&desk, &etcd, &s3, "cp-2").words("--claim-age 10m").spawn();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(named(&s3, "manifest.json").len(), 0);
    signal(&patient, "TERM");
    let stopped = finish(patient).await.expect(1);
    stopped.says("interrupted while waiting for another node");

    first.kill().unwrap();
    first.wait().unwrap();
    let next = node(&desk, &etcd, &s3, "cp-3").words("--claim-age 10s").run().await.expect(0);
    assert_eq!(row(&next)["outcome"], "stored");
    let manifest = json_of(&s3, &desk, &named(&s3, "manifest.json")[0]);
    assert_eq!(manifest["node"], "cp-3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_gives_up_lets_the_next_one_at_once() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let broken = Front::start(s3.endpoint(), |asked, _| {
        if asked.operation() == "PutObject" && asked.path.contains("/data-") {
            Fault::Refuse(403, "AccessDenied")
        } else {
            Fault::Pass
        }
    });
    let broken = s3.behind(&broken.await);
    node(&desk, &etcd, &broken, "cp-1").run().await.expect(3);
    let claim = json_of(&s3, &desk, &named(&s3, "claim.json")[0]);
    assert_eq!((&claim["released"], &claim["node"]), (&true.into(), &"cp-1".into()));
    let next = node(&desk, &etcd, &s3, "cp-2").run().await.expect(0);
    assert_eq!(row(&next)["outcome"], "stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_whose_data_is_gone_or_unlocked_is_made_again() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let unlocked = |name: &str| {
        let program = desk.unlocked(&etcd, &s3).words("--slot 24h --lock none");
        program.env("CAPVCO_BACKUP_NODE", name)
    };
    let first = row(&unlocked("cp-1").run().await.expect(0));
    let key = first["key"].as_str().unwrap();
    let version = first["versionId"].as_str().unwrap();
    let delete = ["s3api", "delete-object", "--bucket", BUCKET, "--key", key];
    s3.aws(&[&delete[..], &["--version-id", version]].concat()).expect(0);

    let second = unlocked("cp-2").run().await.expect(0).says("is gone");
    let second = row(&second);
    assert_eq!(second["outcome"], "stored");
    let third = row(&unlocked("cp-3").run().await.expect(0));
    assert_eq!((&third["outcome"], &third["key"]), (&"already-made".into(), &second["key"]));

    // Whoever needs a lock is not content with a backup without one.
    let locked = node(&desk, &etcd, &s3, "cp-4").run().await.expect(0).says("is not locked");
    assert_eq!(row(&locked)["lockMode"], "governance");
    let again = row(&node(&desk, &etcd, &s3, "cp-5").run().await.expect(0));
    assert_eq!(again["outcome"], "already-made");
}

/// Puts another manifest over the only one.
fn write_over(s3: &S3, desk: &Desk, change: impl Fn(&mut serde_json::Value)) {
    let key = named(s3, "manifest.json")[0].clone();
    let mut manifest = json_of(s3, desk, &key);
    change(&mut manifest);
    let file = desk.path("forged.json");
    std::fs::write(&file, serde_json::to_vec(&manifest).unwrap()).unwrap();
    let file = file.to_str().unwrap();
    s3.aws(&["s3api", "put-object", "--bucket", BUCKET, "--key", &key, "--body", file]).expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_manifest_does_not_keep_a_node_from_its_backup() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let run = || desk.unlocked(&etcd, &s3).words("--slot 24h --lock none");
    let first = row(&run().run().await.expect(0));
    let folder = first["key"].as_str().unwrap().rsplit_once('/').unwrap().0.to_owned();
    let junk = desk.path("junk");
    std::fs::write(&junk, vec![b'x'; 4096]).unwrap();
    let put = |key: &str| {
        let words = ["s3api", "put-object", "--bucket", BUCKET, "--key", key, "--body"];
        let stored = s3.aws(&[&words[..], &[junk.to_str().unwrap()]].concat()).expect(0).json();
        stored["VersionId"].clone()
    };
    let inside = format!("{folder}/data-00000000000000f7.db.zst.age");
    for (key, date, why) in [
        ("evil/x.bin".to_owned(), None, "it is of another place"),
        (inside.clone(), Some("2099-12-31T00:00:00Z"), "its times cannot be"),
        (inside, None, "is not encrypted by age"),
    ] {
        let id = put(&key);
        write_over(&s3, &desk, |manifest| {
            manifest["data"]["key"] = key.clone().into();
            manifest["data"]["versionId"] = id.clone();
            manifest["data"]["size"] = 4096.into();
            if let Some(date) = date {
                manifest["finished"] = date.into();
            }
        });
        let made = run().run().await.expect(0).says(why);
        assert_eq!(row(&made)["outcome"], "stored", "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_nobody_could_read_again_is_not_begun() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    for (flag, text) in [("--node", "a\u{1b}[2Jb"), ("--pki-dir", "pk\nx")] {
        let refused = desk.snapshot(&etcd, &s3).arg(flag).arg(text).run().await.expect(2);
        refused.says(flag).says("control character");
    }
    assert!(named(&s3, "").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_damaged_or_hidden_does_not_stand_in_the_way() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let first = row(&node(&desk, &etcd, &s3, "cp-1").run().await.expect(0));
    let manifest = named(&s3, "manifest.json")[0].clone();
    s3.aws(&["s3api", "delete-object", "--bucket", BUCKET, "--key", &manifest]).expect(0);
    let hidden = row(&node(&desk, &etcd, &s3, "cp-2").run().await.expect(0));
    assert_eq!(hidden["outcome"], "stored");
    assert_ne!(hidden["key"], first["key"]);

    let junk = desk.path("junk");
    std::fs::write(&junk, "{\"kind\":\"capvco-backup\"").unwrap();
    let put = ["s3api", "put-object", "--bucket", BUCKET, "--key", &manifest, "--body"];
    s3.aws(&[&put[..], &[junk.to_str().unwrap()]].concat()).expect(0);
    let damaged = node(&desk, &etcd, &s3, "cp-3").run().await.expect(0).says("is damaged");
    assert_eq!(row(&damaged)["outcome"], "stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_was_lost_is_no_second_backup() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let lossy = Front::start(s3.endpoint(), |asked, before| {
        let manifest = asked.operation() == "PutObject" && asked.path.contains("/manifest.json");
        if manifest && before < 3 { Fault::LoseReply } else { Fault::Pass }
    });
    let lossy = s3.behind(&lossy.await);
    let row = row(&node(&desk, &etcd, &lossy, "cp-1").run().await.expect(0));
    assert_eq!(row["outcome"], "stored");
    assert_eq!((named(&s3, "data-").len(), named(&s3, "manifest.json").len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_claims_are_ignored_the_manifest_still_decides() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(50, 2000, Values::Compressible);
    // Nobody sees anybody's claim, and both manifests meet in the bucket.
    let blind = Front::start(s3.endpoint(), |asked, _| {
        let claim = asked.path.contains("/claim.json");
        if claim { Fault::Refuse(403, "AccessDenied") } else { Fault::Pass }
    });
    let blind = s3.behind(&blind.await);
    let refused = node(&desk, &etcd, &blind, "cp-1").run().await;
    assert!(matches!(refused.code, 0 | 3), "{}", refused.err);
    assert_eq!(unfinished(&s3), 0);
}
