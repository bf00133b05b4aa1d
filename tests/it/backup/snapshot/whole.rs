//! What is stored is the database, as etcd's own tools know it.

use sha2::{Digest as _, Sha256};

use super::{Desk, json_of, named, objects, row, unfinished};
use crate::support::peers::etcd::{Etcd, LINES, etcdutl};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::{BUCKET, Versitygw};

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_every_line_opens_with_age_and_zstd_and_is_what_etcdutl_says_it_is() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    for line in LINES {
        let etcd = Etcd::start_line(line);
        let revision = etcd.fill(300, 4096, Values::Compressible);
        let row = row(&desk.snapshot(&etcd, &s3).run().await.expect(0));
        assert_eq!((&row["outcome"], &row["revision"]), (&"stored".into(), &revision.into()));

        let sealed = desk.fetch(&s3, row["key"].as_str().unwrap());
        let stored = std::fs::read(&sealed).unwrap();
        assert_eq!(row["dataSize"], stored.len());
        assert_eq!(row["dataSha256"], hex::encode(Sha256::digest(&stored)));
        for identity in ["one.txt", "two.txt"] {
            let db = desk.open(&sealed, identity, "db");
            let bytes = std::fs::read(&db).unwrap();
            assert_eq!(row["dbSize"], bytes.len());
            assert_eq!(row["dbSha256"], hex::encode(Sha256::digest(&bytes)));
            let newer = if line == "3.4" { "3.5" } else { line };
            let said = etcdutl(newer, &["snapshot", "status", db.to_str().unwrap(), "-w", "json"]);
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!(said["revision"], revision, "{line}: {said}");
        }

        let folder = row["key"].as_str().unwrap().rsplit_once('/').unwrap().0.to_owned();
        let manifest = json_of(&s3, &desk, &format!("{folder}/manifest.json"));
        assert_eq!(manifest["revision"], revision, "{manifest}");
        assert_eq!(manifest["data"]["key"], row["key"]);
        assert_eq!(manifest["data"]["sha256"], row["dataSha256"]);
        assert_eq!(manifest["db"]["sha256"], row["dbSha256"]);
        assert_eq!(manifest["recipients"], serde_json::json!(desk.recipients));
        assert_eq!(manifest["node"], "cp-1");
        assert!(manifest["etcdVersion"].as_str().unwrap().starts_with(line), "{manifest}");
        assert_eq!(manifest["storageVersion"].is_null(), line < "3.6", "{manifest}");
    }
    assert_eq!(named(&s3, "manifest.json").len(), LINES.len());
    assert_eq!(named(&s3, "claim.json").len(), 0, "a run of its own claims nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_many_parts_is_one_object_and_no_upload_is_left() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(1200, 32 << 10, Values::Random);
    let done = desk.snapshot(&etcd, &s3).words("--no-compress").run().await.expect(0);
    let row = row(&done);
    let key = row["key"].as_str().unwrap();
    assert!(key.ends_with(".db.age"), "{key}");
    let head = s3.aws(&["s3api", "head-object", "--bucket", BUCKET, "--key", key]).expect(0);
    let head: serde_json::Value = serde_json::from_str(&head.out).unwrap();
    let parts = head["ContentLength"].as_u64().unwrap().div_ceil(8 << 20);
    assert!(head["ETag"].as_str().unwrap().contains(&format!("-{parts}")), "{head}");
    assert_eq!(head["ObjectLockMode"], "GOVERNANCE", "{head}");
    assert_eq!((unfinished(&s3), objects(&s3).len()), (0, 2));

    let sealed = std::fs::read(desk.fetch(&s3, key)).unwrap();
    assert_eq!(row["dataSha256"], hex::encode(Sha256::digest(&sealed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_is_a_backup_too() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    for line in LINES {
        let etcd = Etcd::start_line(line);
        let row = row(&desk.snapshot(&etcd, &s3).run().await.expect(0));
        assert_eq!((&row["outcome"], &row["revision"]), (&"stored".into(), &0.into()), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_encryption_and_compression_the_object_is_the_database_itself() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let revision = etcd.fill(10, 100, Values::Compressible);
    let program = desk.unlocked(&etcd, &s3).env("CAPVCO_BACKUP_RECIPIENT", "");
    let done = program.words("--no-encrypt --no-compress --lock none").run().await.expect(0);
    let row = row(&done);
    assert_eq!(row["key"].as_str().unwrap().rsplit_once('.').unwrap().1, "db", "{row}");
    assert_eq!(row["recipients"], serde_json::json!([]));
    let db = desk.fetch(&s3, row["key"].as_str().unwrap());
    let said = etcdutl("3.7", &["snapshot", "status", db.to_str().unwrap(), "-w", "json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["revision"], revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_says_what_would_be_done_and_does_nothing() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let row = row(&desk.snapshot(&etcd, &s3).words("--dry-run --slot 6h").run().await.expect(0));
    assert_eq!((&row["outcome"], &row["endpoint"]), (&"planned".into(), &etcd.endpoint().into()));
    assert_eq!(objects(&s3), Vec::<String>::new());
    let slot = |more| desk.snapshot(&etcd, &s3).words("--slot 6h").words(more);
    let made = super::row(&slot("").run().await.expect(0));
    let again = super::row(&slot("--dry-run").run().await.expect(0));
    assert_eq!((&again["outcome"], &again["key"]), (&"already-made".into(), &made["key"]));
}
