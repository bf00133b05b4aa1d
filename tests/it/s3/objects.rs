//! Objects go in and come out whole, in one piece and in parts.

use bytes::Bytes;
use capvco::s3::{Checksum, Deleted, Put, PutOutcome};

use super::{config, noise, open, read, stored, upload};
use crate::support::peers::s3::{S3, Seaweed, Versitygw};

const PART: usize = 5 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn an_object_comes_back_as_it_went() {
    let store = Versitygw::start();
    let bucket = open(&store).await;
    let put = Put {
        content_type: Some("application/json".to_owned()),
        metadata: vec![("node".to_owned(), "cp-1".to_owned())],
        ..Put::default()
    };
    for len in [0, 1, 70_000] {
        let (key, bytes) = (format!("a/{len}"), noise(len));
        let made = stored(bucket.put(&key, bytes.clone(), &put).await.unwrap());
        let head = bucket.head(&key, made.version_id.as_deref()).await.unwrap().unwrap();
        assert_eq!((head.size, head.version_id), (len as u64, made.version_id.clone()));
        assert_eq!(head.metadata, put.metadata);
        assert!(head.modified.is_some() && head.etag.is_some());
        assert_eq!(read(&bucket, &key, made.version_id.as_deref()).await, bytes);
    }
    assert_eq!(bucket.head("a/none", None).await.unwrap(), None);
    assert_eq!(bucket.get_small("a/none", None, 10).await.unwrap(), None);
    assert_eq!(bucket.get_small("a/1", None, 10).await.unwrap().map(|b| b.len()), Some(1));
    assert!(bucket.get_small("a/70000", None, 10).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_object_goes_in_parts_and_comes_back_whole() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let bucket = open(store).await;
        let bytes = noise(2 * PART + 12_345);
        let made = upload(&bucket, "big", &Put::default(), &bytes, PART).await.unwrap();
        assert!(made.version_id.is_some() && made.etag.is_some(), "{made:?}");
        assert!(read(&bucket, "big", None).await == bytes, "the bytes differ");
        let mut body = bucket.get("big", None, Some(100..300)).await.unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), bytes.slice(100..300));
        assert_eq!(bucket.unfinished("").await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_given_up_leaves_nothing() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let bucket = open(store).await;
        let mut upload = bucket.upload("dir/given-up", &Put::default(), 1, 2).await.unwrap();
        for _ in 0..3 {
            upload.part(noise(PART)).await.unwrap();
        }
        let seen = bucket.unfinished("dir/").await.unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].upload_id, upload.id());
        assert!(seen[0].since > 1_700_000_000);
        upload.abort().await.unwrap();
        assert_eq!(bucket.unfinished("").await.unwrap(), []);
        assert_eq!(bucket.versions("dir/").await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_checksum_is_taken_by_the_stores() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        for checksum in
            [Checksum::Auto, Checksum::Crc32c, Checksum::Sha256, Checksum::Md5, Checksum::None]
        {
            let mut config = config(store);
            config.checksum = checksum;
            let clock = capvco::clock::System::shared();
            let bucket = capvco::s3::Bucket::open(config, clock).await.unwrap();
            let bytes = noise(PART + 1);
            stored(bucket.put("one", bytes.clone(), &Put::default()).await.unwrap());
            upload(&bucket, "parts", &Put::default(), &bytes, PART)
                .await
                .unwrap_or_else(|error| panic!("{checksum:?}: {error}"));
            assert!(read(&bucket, "parts", None).await == bytes, "{checksum:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_who_put_the_same_object_one_wins() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let bucket = open(store).await;
        let put = Put { only_if_absent: true, ..Put::default() };
        let racers = (0..8).map(|n| {
            let (bucket, put) = (bucket.clone(), put.clone());
            tokio::spawn(async move {
                bucket.put("slot/manifest.json", Bytes::from(vec![n; 100]), &put).await.unwrap()
            })
        });
        let racers: Vec<_> = racers.collect();
        let mut won = 0;
        for racer in racers {
            won += usize::from(racer.await.unwrap() != PutOutcome::AlreadyThere);
        }
        assert_eq!(won, 1);
        assert_eq!(bucket.versions("slot/").await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_listed_once_each_whatever_the_pages_are() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let bucket = open(store).await;
        for n in 0..12 {
            let key = format!("p/{}", n % 5);
            stored(bucket.put(&key, noise(n), &Put::default()).await.unwrap());
        }
        stored(bucket.put("q", noise(1), &Put::default()).await.unwrap());
        assert_eq!(bucket.delete("p/3", None).await.unwrap(), Deleted::Gone);
        for page in [1, 2, 3, 5, 1000] {
            let all = bucket.clone().with_page_size(page).versions("p/").await.unwrap();
            assert_eq!(all.len(), 13, "page of {page}: {all:#?}");
            let hidden: Vec<_> = all.iter().filter(|v| v.marker).collect();
            assert!(hidden.len() == 1 && hidden[0].key == "p/3" && hidden[0].latest);
            assert_eq!(all.iter().filter(|v| v.latest).count(), 5);
        }
        // Only the version itself is freed, and the marker is a version like any other.
        for version in bucket.versions("p/").await.unwrap() {
            let gone = bucket.delete(&version.key, version.version_id.as_deref()).await.unwrap();
            assert_eq!(gone, Deleted::Gone);
        }
        assert_eq!(bucket.versions("p/").await.unwrap(), []);
        assert_eq!(bucket.delete("p/3", None).await.unwrap(), Deleted::Gone);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_uploads_are_all_found() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let bucket = open(store).await;
        let mut begun = Vec::new();
        for n in 0..5 {
            let key = format!("u/{}", n % 2);
            begun.push(bucket.upload(&key, &Put::default(), 1, 1).await.unwrap());
        }
        let other = bucket.upload("v", &Put::default(), 1, 1).await.unwrap();
        assert_eq!(bucket.unfinished("u/").await.unwrap().len(), 5);
        for upload in begun {
            upload.abort().await.unwrap();
        }
        assert_eq!(bucket.unfinished("").await.unwrap().len(), 1);
        other.abort().await.unwrap();
    }
}
