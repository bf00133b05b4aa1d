//! Buckets: made by the API, filled by S3, and kept from destruction by their locks.

use capvco::sim::rules::LockedData;
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_bucket_comes_and_goes_with_what_is_in_it() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/plain?limit=500").await;
    assert_eq!(place.call("POST", "/buckets/plain").await.0, 409);
    assert_eq!(place.call("POST", "/buckets/NOT%20GOOD").await.0, 400);
    let bucket = place.get("/buckets/plain").await;
    assert_eq!(bucket, json!({"name": "plain", "limit": 500, "deleted": false}));
    let root = place.root().await;
    root.s5cmd(&["cp", &place.file("a", "hello"), "s3://plain/a"]).expect(0);

    place.ok("DELETE", "/buckets/plain").await;
    assert_eq!(place.call("DELETE", "/buckets/plain").await.0, 404);
    root.s5cmd(&["cat", "s3://plain/a"]).expect(1);
    assert_eq!(place.get("/buckets").await["result"], json!([]));
    assert_eq!(place.get("/buckets/plain").await["deleted"], true);
    let bin = place.get("/buckets?only_deleted=true").await;
    assert_eq!(column(&bin, "bucket_name"), ["plain"]);
    let bin = place.raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["result"]["buckets"][0]["bucket_name"], "plain");
    assert_eq!(place.call("POST", "/buckets/plain").await.0, 409, "its name is reserved");

    place.ok("PUT", "/plain/restore").await;
    assert_eq!(place.call("PUT", "/plain/restore").await.0, 400);
    assert_eq!(root.s5cmd(&["cat", "s3://plain/a"]).expect(0).out, "hello");
    place.ok("DELETE", "/buckets/plain?permanently=true").await;
    assert_eq!(place.call("GET", "/buckets/plain").await.0, 404);
    place.ok("POST", "/buckets/plain").await;
    root.s5cmd(&["cat", "s3://plain/a"]).expect(1);
}

#[tokio::test]
async fn limits_are_recorded() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/etcd").await;
    assert_eq!(place.get("/buckets/etcd").await["limit"], 2000);
    place.ok("PUT", "/etcd/bucket-limit?limit=100").await;
    assert_eq!(place.get("").await["limits"], json!([{"bucket_name": "etcd", "limit": 100}]));
    place.ok("PUT", "/etcd/reset-limit").await;
    assert_eq!(place.get("/buckets/etcd").await["limit"], 2000);
    assert_eq!(place.call("PUT", "/none/bucket-limit?limit=1").await.0, 404);
}

/// Puts an object that is locked for a day.
fn put_locked(place: &Place, s3: &S3, mode: &str) {
    let file = place.file("locked", "precious");
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24);
    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let put = ["s3api", "put-object", "--bucket", "etcd", "--key", "p/locked", "--body", &file];
    let lock = ["--object-lock-mode", mode, "--object-lock-retain-until-date", &until];
    s3.aws(&[&put[..], &lock[..]].concat()).expect(0);
}

#[tokio::test]
async fn locked_data_outlast_every_deletion() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/etcd?enable_locking=true").await;
    let root = place.root().await;
    put_locked(&place, &root, "COMPLIANCE");
    for path in ["/buckets/etcd?permanently=true", "?permanently=true"] {
        let (status, said) = place.call("DELETE", path).await;
        assert_eq!(status, 409, "{path}: {said}");
        assert!(said["message"].as_str().unwrap().contains("locked"), "{said}");
    }
    place.ok("DELETE", "/buckets/etcd").await;
    assert_eq!(place.call("DELETE", "/buckets/etcd?permanently=true").await.0, 409);
    root.s5cmd(&["cat", "s3://etcd/p/locked"]).expect(1);
    place.ok("PUT", "/etcd/restore").await;
    place.ok("DELETE", "").await;
    assert_eq!(place.call("DELETE", "?permanently=true").await.0, 409);
    place.ok("PUT", "/restore").await;
    let root = place.root().await;
    assert_eq!(root.s5cmd(&["cat", "s3://etcd/p/locked"]).expect(0).out, "precious");
    place.sim.world(|w| w.rules.locked_data = LockedData::Destroyed);
    place.ok("DELETE", "/buckets/etcd?permanently=true").await;
    place.ok("DELETE", "?permanently=true").await;
}

#[tokio::test]
async fn a_default_lock_counts_and_so_does_a_legal_hold() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/etcd?enable_locking=true").await;
    place.ok("POST", "/buckets/held?enable_locking=true").await;
    let root = place.root().await;
    let rule = r#"{"ObjectLockEnabled":"Enabled","Rule":{"DefaultRetention":{"Mode":"GOVERNANCE","Days":1}}}"#;
    let put = ["s3api", "put-object-lock-configuration", "--bucket", "etcd"];
    root.aws(&[&put[..], &["--object-lock-configuration", rule]].concat()).expect(0);
    let file = place.file("a", "a");
    root.s5cmd(&["cp", &file, "s3://etcd/a"]).expect(0);
    assert_eq!(place.call("DELETE", "/buckets/etcd?permanently=true").await.0, 409);

    let put = ["s3api", "put-object", "--bucket", "held", "--key", "k", "--body", &file];
    root.aws(&[&put[..], &["--object-lock-legal-hold-status", "ON"]].concat()).expect(0);
    assert_eq!(place.call("DELETE", "/buckets/held?permanently=true").await.0, 409);
    let off = ["put-object-legal-hold", "--bucket", "held", "--key", "k", "--legal-hold"];
    root.aws(&[&["s3api"], &off[..], &["Status=OFF"]].concat()).expect(0);
    place.ok("DELETE", "/buckets/held?permanently=true").await;
}

#[tokio::test]
async fn unfinished_uploads_are_listed_and_cancelled() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/etcd").await;
    let root = place.root().await;
    for key in ["plain", "a b/c+d"] {
        let begin = ["s3api", "create-multipart-upload", "--bucket", "etcd", "--key", key];
        root.aws(&begin).expect(0);
    }
    let list = place.get("/buckets/etcd/multipart-uploads").await;
    let (keys, ids) = (column(&list, "key"), column(&list, "upload_id"));
    assert_eq!(keys, ["a b/c+d", "plain"]);
    let path = format!("/buckets/etcd/multipart-uploads/a%20b%2Fc%2Bd/{}", ids[0]);
    place.sim.world(|w| w.rules.slashes_in_keys = false);
    assert_eq!(place.call("DELETE", &path).await.0, 404);
    place.sim.world(|w| w.rules.slashes_in_keys = true);
    place.ok("DELETE", &path).await;
    assert_eq!(place.call("DELETE", &path).await.0, 404);
    assert_eq!(column(&place.get("/buckets/etcd/multipart-uploads").await, "key"), ["plain"]);
}

#[tokio::test]
async fn abort_rules_are_recorded() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/etcd").await;
    let rule = |days: u64| {
        json!({
            "ID": "abort", "Prefix": "p/", "Status": "Enabled",
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days},
        })
    };
    let rules = "/buckets/etcd/lifecycle-rules";
    let add = format!("{rules}/delete-incomplete-multipart-uploads");
    assert_eq!(place.send("POST", &add, &rule(3)).await.0, 200);
    assert_eq!(place.send("POST", &add, &rule(7)).await.0, 200);
    assert_eq!(place.get(rules).await, json!({"result": [{"data": rule(7)}]}));
    let bad = place.raw.request("POST", &place.path(&add)).header("x-capvco-deliberate", "1");
    let bad = bad.json(&json!({"ID": "x", "AbortIncompleteMultipartUpload": {"Days": 1}}));
    let (status, said) = read(bad.send().await.unwrap()).await;
    assert!(status == 400 && said.to_string().contains("DaysAfterInitiation"), "{said}");
    place.ok("DELETE", &format!("{rules}/abort")).await;
    assert_eq!(place.call("DELETE", &format!("{rules}/abort")).await.0, 404);
}
