//! Locks are asked for, read back, and keep what they lock.

use capvco::clock;
use capvco::s3::{Bucket, Checksum, Deleted, Hold, LockConfig, Mode, Put, Retention};

use super::{config, noise, open, stored, upload};
use crate::support::peers::s3::{Moto, S3, Seaweed, Versitygw};

const PART: usize = 5 << 20;

/// An hour from now by the store's clock.
async fn an_hour(bucket: &Bucket) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is after 1970")]
    let now = bucket.server_time().await.unwrap() as u64;
    now + 3600
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_object_stays() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let bucket = open(store).await;
        assert_eq!(bucket.lock_config().await.unwrap(), LockConfig::On { default: None });
        let until = an_hour(&bucket).await;
        for mode in [Mode::Governance, Mode::Compliance] {
            let put = Put { lock: Some((mode, until)), ..Put::default() };
            let one = stored(bucket.put("one", noise(10), &put).await.unwrap());
            let parts = upload(&bucket, "parts", &put, &noise(PART + 1), PART).await.unwrap();
            for (key, made) in [("one", one), ("parts", parts)] {
                let version = made.version_id.as_deref();
                let locked = Retention::Locked { mode, until };
                assert_eq!(bucket.retention(key, version).await.unwrap(), locked, "{key}");
                let kept = Deleted::Locked { until: Some(until), hold: false };
                assert_eq!(bucket.delete(key, version).await.unwrap(), kept, "{key}");
                assert!(bucket.head(key, version).await.unwrap().is_some());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_lock_is_read_and_comes_into_force() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let bucket = open(store).await;
        bucket.set_default_lock(Some((Mode::Governance, 2))).await.unwrap();
        let default = Some((Mode::Governance, 2 * 86_400));
        assert_eq!(bucket.lock_config().await.unwrap(), LockConfig::On { default });
        let one = stored(bucket.put("one", noise(10), &Put::default()).await.unwrap());
        let deleted = bucket.delete("one", one.version_id.as_deref()).await.unwrap();
        assert!(matches!(deleted, Deleted::Locked { .. }), "{deleted:?}");
        bucket.set_default_lock(None).await.unwrap();
        assert_eq!(bucket.lock_config().await.unwrap(), LockConfig::On { default: None });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legal_hold_keeps_an_object_until_it_is_taken_off() {
    let (versitygw, seaweed, moto) = (Versitygw::start(), Seaweed::start(), Moto::start());
    for store in [&*versitygw as &S3, &seaweed, &moto] {
        let bucket = open(store).await;
        let one = stored(bucket.put("one", noise(10), &Put::default()).await.unwrap());
        let version = one.version_id.as_deref();
        assert_eq!(bucket.legal_hold("one", version).await.unwrap(), Hold::Off);
        bucket.set_legal_hold("one", version, true).await.unwrap();
        assert_eq!(bucket.legal_hold("one", version).await.unwrap(), Hold::On);
        let kept = Deleted::Locked { until: None, hold: true };
        assert_eq!(bucket.delete("one", version).await.unwrap(), kept);
        bucket.set_legal_hold("one", version, false).await.unwrap();
        assert_eq!(bucket.delete("one", version).await.unwrap(), Deleted::Gone);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_checksum_is_refused_as_aws_does_and_ours_is_taken() {
    let moto = Moto::start();
    for (checksum, taken) in [
        (Checksum::None, false),
        (Checksum::Auto, true),
        (Checksum::Crc32c, true),
        (Checksum::Sha256, true),
        (Checksum::Md5, true),
    ] {
        let mut config = config(&moto);
        config.checksum = checksum;
        let bucket = Bucket::open(config, clock::System::shared()).await.unwrap();
        let put = Put { lock: Some((Mode::Governance, an_hour(&bucket).await)), ..Put::default() };
        let outcome = bucket.put("one", noise(10), &put).await;
        assert_eq!(outcome.is_ok(), taken, "{checksum:?}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(error.status() == Some(400), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_dropped_on_the_way_is_found_out() {
    let moto = Moto::start();
    let bucket = open(&moto).await;
    let put = Put { lock: Some((Mode::Governance, an_hour(&bucket).await)), ..Put::default() };
    let one = stored(bucket.put("one", noise(10), &put).await.unwrap());
    let seen = bucket.retention("one", one.version_id.as_deref()).await.unwrap();
    assert!(matches!(seen, Retention::Locked { .. }), "{seen:?}");
    let parts = upload(&bucket, "parts", &put, &noise(PART + 1), PART).await.unwrap();
    let seen = bucket.retention("parts", parts.version_id.as_deref()).await.unwrap();
    assert!(
        !matches!(seen, Retention::Locked { .. }),
        "moto locks multipart uploads now: {seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_without_locking_says_so() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        store.aws(&["s3api", "create-bucket", "--bucket", "plain"]).expect(0);
        let mut config = config(store);
        "plain".clone_into(&mut config.bucket);
        let bucket = Bucket::open(config, clock::System::shared()).await.unwrap();
        assert_eq!(bucket.lock_config().await.unwrap(), LockConfig::Off);
        let put = Put { lock: Some((Mode::Governance, an_hour(&bucket).await)), ..Put::default() };
        let error = bucket.put("one", noise(10), &put).await.unwrap_err();
        assert_eq!(error.status(), Some(400), "{error}");
        stored(bucket.put("one", noise(10), &Put::default()).await.unwrap());
        assert_eq!(bucket.retention("one", None).await.unwrap(), Retention::None);
    }
}
