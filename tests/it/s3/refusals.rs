//! What a store refuses is said in a sentence with something to do.

use capvco::clock;
use capvco::fault::{Class, Fault as _};
use capvco::s3::{Bucket, Config, Kind, Made, Put};

use super::{config, noise, open, stored};
use crate::support::peers::s3::{S3, Seaweed, Versitygw};
use crate::support::peers::tls::Tls;

async fn refused(config: Config) -> (String, Class, String) {
    let bucket = Bucket::open(config, clock::System::shared()).await.unwrap();
    let error = bucket.put("a/b", noise(10), &Put::default()).await.unwrap_err();
    (error.to_string(), error.class(), error.hints().join(" "))
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_buckets_and_regions_are_told_apart() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let with = |change: &dyn Fn(&mut Config)| {
            let mut config = config(store);
            change(&mut config);
            config
        };
        let wrong_secret = with(&|c| c.keys = Some(("root".to_owned(), "planted-x".into())));
        let wrong_id = with(&|c| c.keys = Some(("nobody".to_owned(), "planted-x".into())));
        let wrong_bucket = with(&|c| "elsewhere".clone_into(&mut c.bucket));
        // SeaweedFS makes a missing bucket of the first put (without locking).
        let told = if store.endpoint() == seaweed.endpoint() { 2 } else { 3 };
        for (config, class, words, hint) in [
            (wrong_secret, Class::Auth, "secret access key", "AWS_SECRET_ACCESS_KEY"),
            (wrong_id, Class::Auth, "access key id", "AWS_ACCESS_KEY_ID"),
            (wrong_bucket, Class::NotFound, "no such bucket", "--s3-bucket"),
        ]
        .into_iter()
        .take(told)
        {
            let (error, is, hints) = refused(config).await;
            assert_eq!(is, class, "{error}");
            assert!(error.contains(words), "{error}");
            assert!(hints.contains(hint), "{hints}");
            assert!(!error.contains("planted"), "{error}");
        }
    }
    let mut wrong_region = config(&versitygw);
    wrong_region.region = Some("eu-west-9".to_owned());
    let (error, class, hints) = refused(wrong_region).await;
    assert!(class == Class::Usage && hints.contains("--s3-region"), "{error} {hints}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_there_is_said() {
    let store = Versitygw::start();
    let gone = |endpoint: &str| {
        let mut config = config(&store);
        config.endpoint = Some(endpoint.to_owned());
        config.stall_timeout = std::time::Duration::from_secs(1);
        config
    };
    let closed = format!("http://127.0.0.1:{}", crate::support::peers::port());
    let plain = store.endpoint().replace("http:", "https:");
    for (endpoint, kind, hint) in [
        (closed.as_str(), "no connection", "--s3-endpoint"),
        ("http://no-such-host.invalid", "name cannot be resolved", "DNS"),
        (plain.as_str(), "no secure connection", "--s3-endpoint"),
    ] {
        let (error, class, hints) = refused(gone(endpoint)).await;
        assert!(error.contains(kind), "{endpoint}: {error}");
        assert!(hints.contains(hint), "{endpoint}: {hints}");
        assert_ne!(class, Class::Bug);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_over_tls_needs_its_authority() {
    let tls = std::sync::Arc::new(Tls::new());
    let store = Versitygw::start_tls(&tls);
    let mut trusting = config(&store);
    let (error, class, hints) = refused(trusting.clone()).await;
    assert!(error.contains("no secure connection") && hints.contains("--s3-ca-file"), "{error}");
    assert_eq!(class, Class::Refused);
    trusting.ca_file = Some(tls.path("ca.crt"));
    let bucket = Bucket::open(trusting, clock::System::shared()).await.unwrap();
    stored(bucket.put("a", noise(100_000), &Put::default()).await.unwrap());
    assert_eq!(bucket.get_small("a", None, 1 << 20).await.unwrap().unwrap(), noise(100_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_wrong_is_no_obstacle_and_is_known() {
    let store = Versitygw::start();
    #[allow(clippy::cast_precision_loss, reason = "seconds since 1970 fit easily")]
    let now = jiff::Timestamp::now().as_second() as f64;
    for off in [-7200.0, 7200.0] {
        let wrong = clock::Stepped::at(now + off);
        let bucket = Bucket::open(config(&store), wrong).await.unwrap();
        let skew = bucket.skew().await.unwrap();
        assert!((skew + off).abs() < 60.0, "{off}: {skew}");
        let put = Put::default();
        match bucket.put("a", noise(10), &put).await {
            Ok(made) => drop(stored(made)),
            Err(error) => panic!("{off}: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_made_once() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let mut config = config(store);
        "fresh".clone_into(&mut config.bucket);
        let bucket = Bucket::open(config, clock::System::shared()).await.unwrap();
        assert!(!bucket.exists().await.unwrap());
        assert_eq!(bucket.create_bucket(true).await.unwrap(), Made::New);
        assert!(bucket.exists().await.unwrap());
        assert_eq!(bucket.create_bucket(true).await.unwrap(), Made::Existing);
        if let Err(error) = bucket.set_abort_rule("", 2).await {
            assert!(error.is_unsupported(), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_append_is_told_what_he_may_not() {
    let store = Versitygw::start();
    let bucket = open(&store.append_only_user()).await;
    let made = stored(bucket.put("a/b", noise(10), &Put::default()).await.unwrap());
    let error = bucket.get_small("a/b", None, 100).await.unwrap_err();
    assert!(error.is_denied() && error.class() == Class::Auth, "{error}");
    let error = bucket.delete("a/b", made.version_id.as_deref()).await.unwrap_err();
    assert!(error.is_denied(), "{error}");
    let error = bucket.versions("a/").await.unwrap_err();
    assert!(error.hints().join("").contains("capvco-backup check"), "{error}");
    assert!(matches!(error.kind(), Kind::Refused { .. }));
}
