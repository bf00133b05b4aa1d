//! A store that fails: what passes is ridden out, what lasts is said, and nothing is left.

use std::time::Duration;

use capvco::clock;
use capvco::fault::{Class, Fault as _};
use capvco::s3::{Bucket, Kind, LockConfig, Mode, Put, PutOutcome, Retention};

use super::{config, noise, open, read, stored, upload};
use crate::support::front::{Asked, Fault, Front};
use crate::support::peers::s3::{S3, Versitygw};

const PART: usize = 5 << 20;

/// The bucket through a front, with a short patience.
async fn through(
    store: &S3,
    faults: impl Fn(&Asked, usize) -> Fault + Send + Sync + 'static,
) -> (Bucket, Front) {
    let front = Front::start(store.endpoint(), faults).await;
    let mut config = config(store);
    config.endpoint = Some(front.endpoint());
    config.stall_timeout = Duration::from_secs(3);
    (Bucket::open(config, clock::System::shared()).await.unwrap(), front)
}

/// A fault of one operation, the first `times` times.
fn on(
    operation: &'static str,
    times: usize,
    fault: Fault,
) -> impl Fn(&Asked, usize) -> Fault + Send + Sync + 'static {
    move |asked, before| {
        if asked.operation() == operation && before < times { fault.clone() } else { Fault::Pass }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_ridden_out() {
    let store = Versitygw::start();
    let bytes = noise(PART + 1000);
    for (operation, fault) in [
        ("UploadPart", Fault::Refuse(503, "SlowDown")),
        ("UploadPart", Fault::Refuse(500, "InternalError")),
        ("UploadPart", Fault::RefuseFor(503, "SlowDown", 1)),
        ("UploadPart", Fault::ResetAfter(1_000_000)),
        ("UploadPart", Fault::ResetAfter(0)),
        ("UploadPart", Fault::LoseReply),
        ("UploadPart", Fault::Slowly(1 << 20, Duration::from_millis(100))),
        ("UploadPart", Fault::Hang),
        ("UploadPart", Fault::Refuse(400, "RequestTimeout")),
        ("CreateMultipartUpload", Fault::Refuse(503, "ServiceUnavailable")),
        ("CreateMultipartUpload", Fault::LoseReply),
        ("CompleteMultipartUpload", Fault::Refuse(500, "InternalError")),
        ("CompleteMultipartUpload", Fault::LoseReply),
    ] {
        let (bucket, front) = through(&store, on(operation, 1, fault.clone())).await;
        let made = upload(&bucket, "a", &Put::default(), &bytes, PART).await;
        let made = made.unwrap_or_else(|error| panic!("{operation} {fault:?}: {error}"));
        assert!(made.etag.is_some());
        assert!(front.count(operation) >= 2 || matches!(fault, Fault::Slowly(..)), "{operation}");
        assert!(read(&bucket, "a", None).await == bytes, "{operation} {fault:?}");
        assert_eq!(bucket.unfinished("").await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lasts_is_said_and_nothing_is_left() {
    let store = Versitygw::start();
    for (operation, fault, class, words) in [
        ("UploadPart", Fault::Refuse(503, "SlowDown"), Class::RateLimited, "too many calls"),
        ("UploadPart", Fault::Refuse(403, "AccessDenied"), Class::Auth, "may not do this"),
        ("UploadPart", Fault::ResetAfter(1000), Class::Transient, "connection broke"),
        ("UploadPart", Fault::Hang, Class::Transient, "nothing moved"),
        ("CreateMultipartUpload", Fault::Refuse(403, "AccessDenied"), Class::Auth, "begin the"),
        ("CompleteMultipartUpload", Fault::Refuse(403, "AccessDenied"), Class::Auth, "finish the"),
        ("CompleteMultipartUpload", Fault::Refuse(500, "InternalError"), Class::Transient, "fail"),
    ] {
        let (bucket, front) = through(&store, on(operation, usize::MAX, fault.clone())).await;
        let error = upload(&bucket, "a", &Put::default(), &noise(PART + 1000), PART).await;
        let error = error.unwrap_err();
        assert_eq!(error.class(), class, "{operation} {fault:?}: {error}");
        assert!(error.to_string().contains(words), "{operation} {fault:?}: {error}");
        // 403 is no reason to knock again.
        assert!(front.count(operation) <= if class == Class::Auth { 1 } else { 16 });
        assert_eq!(bucket.unfinished("").await.unwrap(), [], "{operation} {fault:?}");
        assert_eq!(bucket.versions("").await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_each_call_is_said_and_asked_once() {
    let store = Versitygw::start();
    let bucket = open(&store).await;
    stored(bucket.put("a", noise(10), &Put::default()).await.unwrap());
    for operation in [
        "PutObject",
        "GetObject",
        "HeadObject",
        "DeleteObject",
        "ListObjectVersions",
        "ListMultipartUploads",
        "AbortMultipartUpload",
        "PutObjectLegalHold",
    ] {
        let refuse = on(operation, usize::MAX, Fault::Refuse(403, "AccessDenied"));
        let (bucket, front) = through(&store, refuse).await;
        let error = match operation {
            "PutObject" => bucket.put("b", noise(10), &Put::default()).await.unwrap_err(),
            "GetObject" => bucket.get("a", None, None).await.unwrap_err(),
            "HeadObject" => bucket.head("a", None).await.unwrap_err(),
            "DeleteObject" => bucket.delete("a", Some("null")).await.unwrap_err(),
            "ListObjectVersions" => bucket.versions("").await.unwrap_err(),
            "ListMultipartUploads" => bucket.unfinished("").await.unwrap_err(),
            "AbortMultipartUpload" => bucket.abort_upload("a", "x").await.unwrap_err(),
            _ => bucket.set_legal_hold("a", None, true).await.unwrap_err(),
        };
        assert!(error.is_denied() && error.class() == Class::Auth, "{operation}: {error}");
        assert!(error.hints()[0].contains("capvco-backup check"), "{operation}");
        assert_eq!(front.count(operation), 1, "{operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_was_cut_off_is_none() {
    let store = Versitygw::start();
    let one = "<ListVersionsResult><IsTruncated>false</IsTruncated><Version><Key>a</Key><Size>1\
               </Size></Version>";
    let silent = "<ListVersionsResult><Version><Key>a</Key></Version></ListVersionsResult>";
    let uploads = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated><Upload></Upload>";
    for (operation, reply, kind) in [
        ("ListObjectVersions", one, Kind::Lost),
        ("ListObjectVersions", "<ListVersionsResult", Kind::Lost),
        ("ListObjectVersions", silent, Kind::Incomplete),
        ("ListMultipartUploads", uploads, Kind::Lost),
    ] {
        let (bucket, _front) = through(&store, on(operation, 99, Fault::Instead(reply))).await;
        let error = match operation {
            "ListObjectVersions" => bucket.versions("").await.unwrap_err(),
            _ => bucket.unfinished("").await.unwrap_err(),
        };
        assert_eq!((error.kind(), error.class()), (&kind, Class::Transient), "{error}");
        // Where it passes, nobody notices.
        let (bucket, _front) = through(&store, on(operation, 1, Fault::Instead(one))).await;
        if kind == Kind::Lost {
            assert_eq!(bucket.versions("").await.unwrap(), [], "{operation}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_may_not_be_read_is_not_taken_for_none() {
    let store = Versitygw::start();
    let denied = |asked: &Asked, _: usize| match asked.operation() {
        "GetObjectRetention" | "GetObjectLockConfiguration" => Fault::Refuse(403, "AccessDenied"),
        "HeadObject" => Fault::Without("x-amz-object-lock"),
        _ => Fault::Pass,
    };
    let (bucket, _front) = through(&store, denied).await;
    stored(bucket.put("a", noise(10), &Put::default()).await.unwrap());
    let unreadable = Retention::Unreadable("AccessDenied".to_owned());
    assert_eq!(bucket.retention("a", None).await.unwrap(), unreadable);
    assert_eq!(bucket.lock_config().await.unwrap(), LockConfig::Unknown("AccessDenied".to_owned()));
    // A store that tells it only when asked for nothing else.
    let (bucket, _front) =
        through(&store, on("HeadObject", 99, Fault::Without("x-amz-object-lock"))).await;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is after 1970")]
    let until = bucket.server_time().await.unwrap() as u64 + 3600;
    let put = Put { lock: Some((Mode::Governance, until)), ..Put::default() };
    stored(bucket.put("b", noise(10), &put).await.unwrap());
    let locked = Retention::Locked { mode: Mode::Governance, until };
    assert_eq!(bucket.retention("b", None).await.unwrap(), locked);
    // kopia/kopia#913: a store that answers with a listing.
    let listing = "<ListBucketResult><Name>backups</Name></ListBucketResult>";
    let (bucket, _front) =
        through(&store, on("GetObjectLockConfiguration", 99, Fault::Instead(listing))).await;
    let config = bucket.lock_config().await.unwrap();
    assert!(matches!(config, LockConfig::Unknown(_)), "{config:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_that_breaks_goes_on_where_it_broke() {
    let store = Versitygw::start();
    let bytes = noise(3 << 20);
    let direct = open(&store).await;
    let made = stored(direct.put("a", bytes.clone(), &Put::default()).await.unwrap());
    let cut = |_: &Asked, before: usize| match before {
        0 => Fault::CutAfter(1_000_000),
        1 => Fault::CutAfter(10),
        2 => Fault::Refuse(503, "SlowDown"),
        3 => Fault::CutAfter(0),
        _ => Fault::Pass,
    };
    let (bucket, front) = through(&store, cut).await;
    assert!(read(&bucket, "a", made.version_id.as_deref()).await == bytes, "the bytes differ");
    let ranges: Vec<_> =
        front.asked().iter().filter_map(|a| a.header("range").map(str::to_owned)).collect();
    let last = bytes.len() - 1;
    assert_eq!(ranges[0], format!("bytes=1000000-{last}"));
    assert_eq!(ranges[1], format!("bytes=1000010-{last}"));
    assert!(front.asked()[1].path.contains("versionId="), "{:?}", front.asked()[1]);
    // Cut for ever at the same place, it ends.
    let (bucket, front) = through(&store, |_, _| Fault::CutAfter(0)).await;
    let mut body = bucket.get("a", None, None).await.unwrap();
    let error = body.next().await.unwrap_err();
    assert!(error.class() == Class::Transient && front.count("GetObject") <= 10, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_replaced_while_it_is_read_is_not_mixed() {
    let store = Versitygw::start();
    store.aws(&["s3api", "create-bucket", "--bucket", "plain"]).expect(0);
    let mut plain = config(&store);
    "plain".clone_into(&mut plain.bucket);
    let direct = Bucket::open(plain.clone(), clock::System::shared()).await.unwrap();
    stored(direct.put("a", noise(1 << 20), &Put::default()).await.unwrap());
    let front = Front::start(store.endpoint(), on("GetObject", 1, Fault::CutAfter(1000))).await;
    plain.endpoint = Some(front.endpoint());
    let bucket = Bucket::open(plain, clock::System::shared()).await.unwrap();
    let mut body = bucket.get("a", None, None).await.unwrap();
    let first = body.next().await.unwrap().unwrap();
    stored(direct.put("a", noise(2 << 20), &Put::default()).await.unwrap());
    let mut taken = first.len();
    let error = loop {
        match body.next().await {
            Ok(Some(more)) => taken += more.len(),
            Ok(None) => panic!("mixed"),
            Err(error) => break error,
        }
    };
    assert!(taken <= 1000, "{taken}");
    assert!(matches!(error.kind(), Kind::Damaged), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stores_own_time_counts() {
    let store = Versitygw::start();
    let date = "Tue, 14 Nov 2023 22:13:20 GMT";
    let (bucket, _front) = through(&store, move |_, _| Fault::Dated(date.to_owned())).await;
    let time = bucket.server_time().await.unwrap();
    assert!((1_700_000_000.0..1_700_000_060.0).contains(&time), "{time}");
    assert!(bucket.skew().await.unwrap() < -1_000_000.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_reply_a_conditional_put_says_that_something_is_there() {
    let store = Versitygw::start();
    let (bucket, _front) = through(&store, on("PutObject", 1, Fault::LoseReply)).await;
    let put = Put { only_if_absent: true, ..Put::default() };
    let outcome = bucket.put("manifest.json", noise(10), &put).await.unwrap();
    assert_eq!(outcome, PutOutcome::AlreadyThere);
    assert_eq!(bucket.get_small("manifest.json", None, 100).await.unwrap().unwrap(), noise(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_over_all_parts() {
    let store = Versitygw::start();
    let mut config = config(&store);
    config.limit_rate = Some(4 << 20);
    let bucket = Bucket::open(config, clock::System::shared()).await.unwrap();
    let bytes = noise(2 * PART);
    let began = std::time::Instant::now();
    upload(&bucket, "a", &Put::default(), &bytes, PART).await.unwrap();
    // Ten megabytes at four a second, whatever else the machine does.
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(read(&open(&store).await, "a", None).await == bytes, "the bytes differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_crc32c_gets_md5_and_is_remembered() {
    let store = Versitygw::start();
    let dislikes = |asked: &Asked, _: usize| {
        if asked.header("x-amz-checksum-crc32c").is_some()
            || asked.header("x-amz-checksum-algorithm").is_some()
        {
            Fault::Refuse(501, "NotImplemented")
        } else {
            Fault::Pass
        }
    };
    let (bucket, front) = through(&store, dislikes).await;
    let bytes = noise(PART + 10);
    upload(&bucket, "a", &Put::default(), &bytes, PART).await.unwrap();
    stored(bucket.put("b", noise(10), &Put::default()).await.unwrap());
    assert_eq!(front.count("CreateMultipartUpload"), 2);
    assert_eq!((front.count("UploadPart"), front.count("PutObject")), (2, 1));
    let asked = front.asked();
    let puts = asked.iter().filter(|a| ["UploadPart", "PutObject"].contains(&a.operation()));
    assert!(puts.clone().all(|a| a.header("content-md5").is_some()));
    assert!(asked.iter().all(|a| a.header("x-amz-trailer").is_none()));
    // One that takes the beginning and minds the first part.
    let at_part = |asked: &Asked, _: usize| {
        let minds =
            asked.operation() == "UploadPart" && asked.header("x-amz-checksum-crc32c").is_some();
        if minds { Fault::Refuse(400, "InvalidRequest") } else { Fault::Pass }
    };
    let (bucket, front) = through(&store, at_part).await;
    upload(&bucket, "c", &Put::default(), &bytes, PART).await.unwrap();
    assert!(read(&bucket, "c", None).await == bytes, "the bytes differ");
    assert_eq!(front.count("UploadPart"), 3);
    assert_eq!(bucket.unfinished("").await.unwrap(), []);
}

/// Each call whose reply is kept in memory, as its error.
async fn small_call(bucket: &Bucket, operation: &str) -> capvco::s3::Error {
    match operation {
        "ListObjectVersions" => bucket.versions("").await.unwrap_err(),
        "ListMultipartUploads" => bucket.unfinished("").await.unwrap_err(),
        "CreateMultipartUpload" => {
            bucket.upload("b", &Put::default(), PART as u64, 1).await.unwrap_err()
        }
        "PutObjectLegalHold" => bucket.set_legal_hold("a", None, true).await.unwrap_err(),
        "GetObject" => bucket.get_small("a", None, 100).await.unwrap_err(),
        other => panic!("{other} is no call of this test"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_without_an_end_is_refused_and_not_kept() {
    let store = Versitygw::start();
    for operation in ["ListObjectVersions", "ListMultipartUploads", "CreateMultipartUpload"] {
        for length in [None, Some(u64::MAX >> 1)] {
            let (bucket, front) =
                through(&store, on(operation, usize::MAX, Fault::Endless(length))).await;
            let error = small_call(&bucket, operation).await;
            assert_eq!(error.kind(), &Kind::Garbled, "{operation} {length:?}: {error}");
            assert_eq!(error.class(), Class::Transient, "{operation} {length:?}");
            let text = error.to_string();
            assert!(text.contains("longer than"), "{operation} {length:?}: {text}");
            assert!(front.count(operation) <= 3, "{operation}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_comes_a_byte_a_second_ends() {
    let store = Versitygw::start();
    let bucket = open(&store).await;
    stored(bucket.put("a", noise(90), &Put::default()).await.unwrap());
    for operation in ["ListObjectVersions", "GetObject"] {
        let trickle = Fault::Trickle(Duration::from_millis(300));
        let (bucket, _front) = through(&store, on(operation, usize::MAX, trickle)).await;
        let began = std::time::Instant::now();
        let error = small_call(&bucket, operation).await;
        assert_eq!(error.kind(), &Kind::Slow, "{operation}: {error}");
        assert_eq!(error.class(), Class::Transient, "{operation}");
        assert!(began.elapsed() < Duration::from_secs(15), "{operation}: {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_whose_ids_were_lost_are_aborted_or_told() {
    let store = Versitygw::start();
    let (bucket, _front) =
        through(&store, on("CreateMultipartUpload", usize::MAX, Fault::LoseReply)).await;
    let error = bucket.upload("a", &Put::default(), PART as u64, 1).await.unwrap_err();
    assert!(error.is_doubtful() && error.left().is_empty(), "{error}: {:?}", error.left());
    assert_eq!(bucket.unfinished("").await.unwrap(), []);
    let deaf = |asked: &Asked, _: usize| match asked.operation() {
        "CreateMultipartUpload" => Fault::LoseReply,
        "ListMultipartUploads" => Fault::Refuse(403, "AccessDenied"),
        _ => Fault::Pass,
    };
    let (bucket, _front) = through(&store, deaf).await;
    let error = bucket.upload("a", &Put::default(), PART as u64, 1).await.unwrap_err();
    assert!(error.left()[0].contains("an unfinished upload of a"), "{:?}", error.left());
}
