//! What a cluster's status says of its backups.

use capvco::sim::World;
use serde_json::{Value, json};

use super::stage::{Stage, condition};
use crate::backup::snapshot::{Desk, row};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::s3::{BUCKET, S3, Versitygw};

fn put_keys(stage: &Stage, s3: &S3, secret_key: &str) {
    stage.plane.put(&[json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "bucket", "namespace": stage.namespace},
        "stringData": {"accessKeyId": s3.access_key(), "secretAccessKey": secret_key},
    })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_status_follows_a_snapshot() {
    let (store, etcd, desk) = (Versitygw::start(), Etcd::start(), Desk::new());
    // It may read and do nothing else.
    let reader = store.create_user("reader");
    let may = ["s3:ListBucket", "s3:ListBucketVersions", "s3:GetObject", "s3:GetObjectVersion"];
    store.allow(&reader, BUCKET, &may);
    let stage = Stage::new("manager-backups", World::small()).await;
    put_keys(&stage, &reader, reader.secret_key());
    let s3 = json!({"endpoint": store.endpoint(), "bucket": BUCKET});
    let backup = json!({"s3": s3, "secretRef": {"name": "bucket"}, "maxAge": "8h"});
    stage.cluster("c", json!({"backup": backup})).await;
    stage.provisioned("c").await;
    let says = |wanted: (&'static str, &'static str)| {
        move |cluster: &Value| condition(cluster, "BackupFresh") == wanted
    };
    stage.until("VCOCluster", "c", says(("False", "BackupMissing"))).await;

    let made = row(&desk.snapshot(&etcd, &store).run().await.expect(0));
    // A Secret that changes is reason enough to look before the time.
    put_keys(&stage, &reader, "wrong");
    let cluster = stage.until("VCOCluster", "c", says(("Unknown", "BackupUnreadable"))).await;
    assert_eq!(condition(&cluster, "Ready"), ("True", "Ready"));
    put_keys(&stage, &reader, reader.secret_key());
    let cluster = stage.until("VCOCluster", "c", says(("True", "BackupFresh"))).await;
    let told = &cluster["status"]["backup"];
    assert_eq!(told["revision"], made["revision"], "{made:#}");
    assert!(told["key"].as_str().unwrap().ends_with("manifest.json"), "{told}");
    told["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(condition(&cluster, "Ready"), ("True", "Ready"));
    assert_eq!(condition(&cluster, "CloudspaceReady").0, "True");

    // A store that is gone takes away nothing that was known.
    drop(store);
    put_keys(&stage, &reader, "other");
    let cluster = stage.until("VCOCluster", "c", says(("Unknown", "BackupUnreadable"))).await;
    assert_eq!(cluster["status"]["backup"]["revision"], made["revision"]);

    // Nobody asks any more.
    let none = json!([{"op": "remove", "path": "/spec/backup"}]).to_string();
    let namespace = format!("--namespace={}", stage.namespace);
    let patch = ["patch", "vcocluster", "c", &namespace, "--type=json", "-p", &none];
    stage.plane.kubectl(&patch).expect(0);
    let gone = |cluster: &Value| {
        cluster["status"]["backup"].is_null() && condition(cluster, "BackupFresh").0.is_empty()
    };
    let cluster = stage.until("VCOCluster", "c", gone).await;
    assert_eq!(condition(&cluster, "Ready"), ("True", "Ready"));
    assert!(!stage.said().contains(reader.secret_key()), "a key was logged");
    stage.all_gone("c", &[]).await;
}
