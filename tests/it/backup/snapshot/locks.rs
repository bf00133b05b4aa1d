//! Locks are asked for, read back, and missed where they are missing.

use super::{Desk, named, row};
use crate::support::front::{Asked, Fault, Front};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::s3::{BUCKET, Moto, S3, Seaweed, Versitygw};
use crate::support::program::Program;

fn default_lock(s3: &S3, days: u32) {
    let rule = format!(
        r#"{{"ObjectLockEnabled":"Enabled","Rule":{{"DefaultRetention":{{"Mode":"COMPLIANCE","Days":{days}}}}}}}"#
    );
    let put = ["s3api", "put-object-lock-configuration", "--bucket", BUCKET];
    s3.aws(&[&put[..], &["--object-lock-configuration", &rule]].concat()).expect(0);
}

fn retention(s3: &S3, key: &str) -> serde_json::Value {
    let done = s3.aws(&["s3api", "get-object-retention", "--bucket", BUCKET, "--key", key]);
    serde_json::from_str(&done.expect(0).out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn data_and_manifest_are_locked_as_asked() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    for mode in ["governance", "compliance"] {
        let words = format!("--lock {mode} --lock-for 2d");
        let row = row(&desk.unlocked(&etcd, &s3).words(&words).run().await.expect(0));
        assert_eq!(row["lockMode"], mode);
        let until = row["lockedUntil"].as_str().unwrap();
        let until: jiff::Timestamp = until.parse().unwrap();
        let left = until.as_second() - jiff::Timestamp::now().as_second();
        assert!((2 * 86_400 - 60..=2 * 86_400 + 60).contains(&left), "{left} s");
        let key = row["key"].as_str().unwrap();
        let manifest = format!("{}/manifest.json", key.rsplit_once('/').unwrap().0);
        for key in [key, &manifest] {
            assert_eq!(retention(&s3, key)["Retention"]["Mode"], mode.to_uppercase(), "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_buckets_own_lock_is_asked_for_and_seen() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    default_lock(&s3, 3);
    let done = desk.unlocked(&etcd, &s3).run().await.expect(0);
    assert_eq!(row(&done)["lockMode"], "compliance", "{}", done.err);
    assert!(!done.err.contains("warning"), "{}", done.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_without_a_lock_of_its_own_is_warned_of() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let done = desk.unlocked(&etcd, &s3).run().await.expect(0).says("has no default lock");
    assert!(row(&done)["lockMode"].is_null());
    let asked = desk.unlocked(&etcd, &s3).words("--lock none").run().await.expect(0);
    assert!(!asked.err.contains("warning"), "{}", asked.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_the_store_drops_from_large_objects_is_missed() {
    let (desk, s3, etcd) = (Desk::new(), Moto::start(), Etcd::start());
    let small = desk.snapshot(&etcd, &s3).run().await.expect(0);
    assert_eq!(row(&small)["lockMode"], "governance");
    etcd.fill(500, 32 << 10, Values::Random);
    let large = desk.snapshot(&etcd, &s3).run().await.expect(5);
    let row = row(&large);
    assert_eq!((&row["outcome"], row["lockMode"].is_null()), (&"stored".into(), true));
    // moto shows no lock when looked at, and answers nonsense when asked.
    let large = large.says("the backup is stored, but its lock cannot be read back");
    assert!(large.err.contains("data-"), "it says which object: {}", large.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_store_shows_the_same_locks_on_large_objects_and_small() {
    let (desk, s3, etcd) = (Desk::new(), Seaweed::start(), Etcd::start());
    default_lock(&s3, 1);
    let small = row(&desk.unlocked(&etcd, &s3).run().await.expect(0));
    etcd.fill(500, 32 << 10, Values::Random);
    let large = row(&desk.snapshot(&etcd, &s3).words("--slot 24h").run().await.expect(0));
    assert_eq!(
        (&small["lockMode"], &large["lockMode"]),
        (&"compliance".into(), &"governance".into())
    );
    for row in [small, large] {
        let key = row["key"].as_str().unwrap();
        let manifest = format!("{}/manifest.json", key.rsplit_once('/').unwrap().0);
        assert_eq!(retention(&s3, &manifest)["Retention"]["Mode"], {
            row["lockMode"].as_str().unwrap().to_uppercase()
        });
    }
    let late = row(&desk.snapshot(&etcd, &s3).words("--slot 24h").run().await.expect(0));
    assert_eq!(late["outcome"], "already-made");
}

/// A store before which nobody may read locks.
async fn blind(s3: &S3) -> S3 {
    let refuse = |asked: &Asked, _: usize| match asked.operation() {
        "GetObjectRetention" => Fault::Refuse(403, "AccessDenied"),
        _ => Fault::Without("x-amz-object-lock"),
    };
    s3.behind(&Front::start(s3.endpoint(), refuse).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_cannot_be_read_back_is_said_and_may_be_accepted() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let blind = blind(&s3).await;
    let refused = desk.snapshot(&etcd, &blind).run().await.expect(5);
    assert_eq!(row(&refused)["outcome"], "stored");
    refused.says("its lock cannot be read back").says("--lock-unverified-ok");
    let accepted = desk.snapshot(&etcd, &blind).words("--lock-unverified-ok").run().await;
    accepted.expect(0).says("cannot be read back");
    assert_eq!(named(&s3, "manifest.json").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_only_add_makes_backups_too() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let adder = s3.append_only_user();
    let run = |more: &str| -> Program { desk.snapshot(&etcd, &adder).words(more) };
    let done = run("").run().await.expect(5).says("cannot be read back");
    assert_eq!(row(&done)["outcome"], "stored", "{}", done.err);
    run("--lock-unverified-ok").run().await.expect(0);
    assert_eq!(named(&s3, "manifest.json").len(), 2);
    // Of several such nodes one makes the slot's backup; the others cannot see it.
    let slot = |more: &str| run("--slot 24h").words(more);
    assert_eq!(row(&slot("--lock-unverified-ok").run().await.expect(0))["outcome"], "stored");
    let second =
        slot("--lock-unverified-ok").run().await.expect(0).says("another node has made it");
    assert_eq!(row(&second)["outcome"], "already-made");
    let strict = slot("").run().await.expect(5).says("another node's manifest is there");
    assert!(row(&strict)["left"][0].as_str().unwrap().contains("data-"), "{}", strict.out);
    assert_eq!(named(&s3, "manifest.json").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_in_a_bucket_without_locks_is_refused_before_anything_is_stored() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    s3.aws(&["s3api", "create-bucket", "--bucket", "plain"]).expect(0);
    let plain = |words: &str| desk.unlocked(&etcd, &s3).words("--s3-bucket plain").words(words);
    let refused = plain("--lock governance --lock-for 1d").run().await.expect(3);
    refused.says("was made without Object Lock").says("bucket create");
    plain("").run().await.expect(0).says("was made without Object Lock");
}
