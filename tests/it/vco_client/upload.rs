//! Parts on their way: whole again after a failure, and patient while bytes move.

use super::*;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use capvco::vco::{FilePart, Upload};

fn upload() -> Upload {
    Upload { upload_id: "up/1".to_owned(), object_name: "o b".to_owned(), part_size: 300_000 }
}

fn file(len: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
    let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
    let bytes: Vec<u8> = (0..len).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    file.write_all(&bytes).expect("it can be written");
    (file, bytes)
}

#[tokio::test]
async fn a_part_is_sent_again_as_a_whole() {
    let etag = with(200, &[("ETag", "\"abc-1\"")], "");
    for trouble in [json(500, "{}"), json(503, "{}"), json(429, ""), Answer::Reset, html(200)] {
        let (file, bytes) = file(1_000_000);
        let server = saying(vec![trouble.clone(), etag.clone()]).await;
        let part = FilePart { path: file.path().to_owned(), offset: 100, len: 700_000 };
        let heard = AtomicU64::new(0);
        let sent = |count| heard.store(count, Ordering::Relaxed);
        // The portal is known: a page instead of a reply is a hiccup, not a wrong address.
        let customer = customer(&server).await;
        let outcome = customer.upload_part(&at(), &upload(), 3, &part, &sent).await;
        if matches!(trouble, Answer::Raw(ref text) if text.contains("<html>")) {
            assert_eq!(outcome.unwrap_err().kind(), Kind::NotTheApi);
            continue;
        }
        assert_eq!(outcome.unwrap(), "abc-1", "{trouble:?}");
        let asked = server.asked();
        assert_eq!(asked.len(), 2, "{trouble:?}");
        for asked in &asked {
            assert_eq!(asked.method, "PUT");
            let path = "/api/1/customers/acme_1/locations/be-1/vm-images/up%2F1/upload-part/3";
            assert_eq!((asked.path.as_str(), asked.query.as_str()), (path, "object_name=o%20b"));
            assert_eq!(asked.header("content-type"), Some("application/octet-stream"));
            assert_eq!(asked.header("content-length"), Some("700000"));
            assert_eq!(asked.header("transfer-encoding"), None);
            assert_eq!(asked.body, &bytes[100..700_100]);
        }
        assert_eq!(heard.load(Ordering::Relaxed), 700_000);
    }
}

#[tokio::test]
async fn an_etag_is_taken_from_wherever_it_is() {
    let (file, _) = file(10);
    for (reply, etag) in [
        (with(200, &[("etag", "\"h\"")], "\"b\""), Some("h")),
        (json(200, "\"b\""), Some("b")),
        (json(200, r#"{"ETag": "\"b\""}"#), Some("b")),
        (json(200, "{}"), None),
    ] {
        let server = saying(vec![reply]).await;
        let part = FilePart { path: file.path().to_owned(), offset: 0, len: 10 };
        let customer = customer(&server).await;
        let found = customer.upload_part(&at(), &upload(), 1, &part, &|_| ()).await;
        assert_eq!(found.ok().as_deref(), etag);
    }
}

#[tokio::test]
async fn a_file_that_shrank_is_an_error_of_the_file() {
    let (file, _) = file(500_000);
    let server = saying(vec![json(200, "\"e\"")]).await;
    let part = FilePart { path: file.path().to_owned(), offset: 0, len: 600_000 };
    let customer = customer(&server).await;
    let error = customer.upload_part(&at(), &upload(), 1, &part, &|_| ()).await.unwrap_err();
    assert_eq!((error.kind(), error.class(), error.tries()), (Kind::File, Class::Refused, 1));
    assert!(chain(&error).contains("cannot be read at byte 500000"), "{}", chain(&error));
}

#[tokio::test]
async fn a_part_that_stands_still_is_given_up() {
    let (file, _) = file(1000);
    let server = saying(vec![Answer::Hang]).await;
    let mut config = config(&server);
    config.write_timeout = Duration::from_secs(10);
    let customer = client(config).customer().await.unwrap();
    let part = FilePart { path: file.path().to_owned(), offset: 0, len: 1000 };
    let error = customer.upload_part(&at(), &upload(), 1, &part, &|_| ()).await.unwrap_err();
    assert_eq!((error.kind(), error.tries()), (Kind::Timeout, 8), "{error}");
}

#[tokio::test]
async fn an_upload_starts_and_finishes_as_declared() {
    let (start, made) = (
        json(200, r#"{"upload_id": "u1", "object_name": "o1", "part_size": "5242880"}"#),
        json(200, r#"{"image_id": 9}"#),
    );
    let server = saying(vec![json(503, ""), start, made]).await;
    let customer = customer(&server).await;
    let upload = customer.start_upload(&at(), "k8s.qcow2").await.unwrap();
    assert_eq!(upload.part_size, 5_242_880);
    let parts = [(1, "a".to_owned()), (2, "b".to_owned())];
    let id = customer.finish_upload(&at(), &upload, &spec(), &parts).await.unwrap();
    assert_eq!(id, Some(ImageId(9)));
    let asked = server.asked();
    assert_eq!(asked[1].query, "file_name=k8s.qcow2");
    assert!(asked[2].path.ends_with("/vm-images/u1/finish-image-upload"));
    assert!(asked[2].query.starts_with("name=k8s&memory=2048"));
    let body: serde_json::Value = serde_json::from_slice(&asked[2].body).unwrap();
    let parts = serde_json::json!([
        {"part_number": 1, "etag": "a"}, {"part_number": 2, "etag": "b"}]);
    assert_eq!(body, serde_json::json!({"object_name": "o1", "uploaded_parts": parts}));
}

#[tokio::test]
async fn an_upload_without_its_facts_is_garbled() {
    for body in
        [r#"{"upload_id": "u"}"#, "{}", r#"{"upload_id":"u","object_name":"o","part_size":0}"#]
    {
        let server = saying(vec![json(200, body)]).await;
        let error = customer(&server).await.start_upload(&at(), "x").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Garbled, "{body}");
    }
}
