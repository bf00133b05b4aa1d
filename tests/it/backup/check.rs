//! `check` foretells what a backup would meet, and leaves nothing behind that it may remove.

use serde_json::Value;

use crate::support::peers::etcd::Etcd;
use crate::support::peers::s3::{BUCKET, Moto, S3, Seaweed, Versitygw};
use crate::support::peers::tls::Tls;
use crate::support::program::{Done, backup, backup_at};
use crate::support::scripted::{Answer, Scripted};

/// A check of `store` with two recipients and no etcd.
async fn check(store: &S3, words: &str) -> Done {
    let recipients: Vec<String> = (0..2).map(|_| recipient()).collect();
    backup_at(store)
        .words("check --output json")
        .words(words)
        .arg(format!("--recipient={}", recipients.join(",")))
        .run()
        .await
}

fn recipient() -> String {
    capvco::snapshot::seal::Identities::generate().public()[0].clone()
}

/// Outcome and detail of a row.
#[track_caller]
fn row(done: &Done, check: &str) -> (String, String) {
    let rows = done.json();
    let all = rows["results"].as_array().expect("rows").clone();
    let row = all.iter().find(|row| row["check"].as_str().unwrap().ends_with(check));
    let row = row.unwrap_or_else(|| panic!("no row {check:?} in {all:#?}"));
    let text = |name: &str| row[name].as_str().map(str::to_owned).unwrap_or_default();
    (text("outcome"), text("detail"))
}

#[track_caller]
fn is(done: &Done, check: &str, outcome: &str, words: &str) {
    let (found, detail) = row(done, check);
    assert!(found == outcome && detail.contains(words), "{check}: {found}, {detail}");
}

fn versions(store: &S3) -> Value {
    let done = store.aws(&["s3api", "list-object-versions", "--bucket", BUCKET]).expect(0);
    serde_json::from_str(&done.out).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_bucket_is_good_and_stays_empty() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let done = check(store, "--lock compliance --lock-for 30d").await.expect(0);
        assert!(done.err.contains("until the lock of the probes ends"), "{}", done.err);
        for name in [
            "bucket",
            "difference to the server",
            "bucket's configuration",
            "lock of an object",
            "lock of an upload in parts",
            "delete what is locked",
            "legal hold",
            "put",
            "read",
            "put only if absent",
            "list versions",
            "list unfinished uploads",
            "upload in parts",
            "abort an upload",
            "delete versions",
            "recipients",
        ] {
            is(&done, name, "good", "");
        }
        is(&done, "members", "skipped", "--endpoints");
        is(&done, "delete versions", "good", "nothing is left");
        let left = versions(store);
        assert!(left["Versions"].is_null() && left["DeleteMarkers"].is_null(), "{left}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_drops_the_lock_of_parts_is_found_out_before_the_first_backup() {
    let store = Moto::start();
    let done = check(&store, "--lock governance --lock-for 1d").await.expect(1);
    is(&done, "lock of an object", "good", "governance");
    is(&done, "lock of an upload in parts", "failed", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_only_append_is_told_what_it_will_miss() {
    let store = Versitygw::start();
    let user = store.append_only_user();
    let lock = "--lock governance --lock-for 1d";
    let done = check(&user, lock).await.expect(1);
    is(&done, "lock of an object", "failed", "snapshots would exit 5");
    is(&done, "read", "warning", "needed by list, verify, restore");
    is(&done, "list versions", "warning", "needed by list");
    is(&done, "abort an upload", "warning", "leave nothing behind");
    is(&done, "delete versions", "good", "prune needs one");
    assert!(
        done.err.contains("--lock-unverified-ok") && done.err.contains("stays"),
        "{}",
        done.err
    );
    let done = check(&user, &format!("{lock} --lock-unverified-ok")).await.expect(0);
    is(&done, "lock of an object", "warning", "cannot be read back");
    // The next check of a key that may, removes what had to stay.
    check(&store, "--lock none").await.expect(0);
    assert!(versions(&store)["Versions"].is_null(), "{}", versions(&store));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_cannot_lock_is_no_place_for_a_lock() {
    let store = Versitygw::start();
    store.aws(&["s3api", "create-bucket", "--bucket", "plain"]).expect(0);
    let bucket = "--s3-bucket plain";
    let done = check(&store, &format!("{bucket} --lock governance --lock-for 1d")).await.expect(1);
    is(&done, "bucket's configuration", "warning", "without locking");
    is(&done, "as asked for", "failed", "without Object Lock");
    let done = check(&store, bucket).await.expect(0);
    is(&done, "as asked for", "warning", "can be deleted at once");
    let done = check(&store, "--s3-bucket elsewhere").await.expect(1);
    is(&done, "bucket", "failed", "not there");
    assert!(done.err.contains("bucket create"), "{}", done.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_one_row_and_a_hint() {
    let store = Versitygw::start();
    let wrong = store.with_key("root", "planted-secret");
    let done = check(&wrong, "").await.expect(1);
    assert!(done.err.contains("AWS_SECRET_ACCESS_KEY"), "{}", done.err);
    let nobody = backup_at(&store)
        .words("check --no-encrypt")
        .env("AWS_ACCESS_KEY_ID", "")
        .env("AWS_SECRET_ACCESS_KEY", "")
        .env("HOME", "/nowhere")
        .run()
        .await
        .expect(1);
    assert!(nobody.err.contains("AWS_ACCESS_KEY_ID"), "{}\n{}", nobody.out, nobody.err);
    for done in [&done, &nobody] {
        assert!(!format!("{done:?}").contains("planted"), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_certificates_and_recipients_are_looked_at() {
    let store = Versitygw::start();
    let tls = std::sync::Arc::new(Tls::new());
    let etcd = Etcd::builder().tls(&tls).client_auth(&tls).start();
    let closed = format!("https://127.0.0.1:{}", crate::support::peers::port());
    let done = backup_at(&store)
        .words("check --output json --lock none")
        .arg(format!("--endpoints={},{closed}", etcd.endpoint()))
        .arg(format!("--cacert={}", tls.arg("ca.crt")))
        .arg(format!("--cert={}", tls.arg("client.crt")))
        .arg(format!("--key={}", tls.arg("client.key")))
        .arg(format!("--recipient={}", recipient()))
        .run()
        .await;
    is(&done, &etcd.endpoint(), "good", "leader");
    is(&done, &closed, "failed", "");
    is(&done, "ca.crt", "good", "days left");
    is(&done, "client.crt", "good", "days left");
    is(&done, "recipients", "warning", "only one key");
    // Only somebody else failed.
    done.expect(4);
    let done = backup_at(&store)
        .words("check --output json --lock none --recipients-file /nowhere/r")
        .run()
        .await
        .expect(1);
    is(&done, "recipients", "failed", "/nowhere/r");
    let own = capvco::snapshot::seal::Identities::generate().public()[0].clone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.txt");
    let made = crate::support::peers::run(
        std::process::Command::new(crate::support::peers::tool("age-keygen")).arg("-o").arg(&file),
    );
    made.expect(0);
    let done = backup_at(&store)
        .words("check --output json --lock none --recipient")
        .arg(&own)
        .arg(format!("--identity={}", file.display()))
        .run()
        .await
        .expect(1);
    is(&done, "identities", "failed", "none of them");
    let done = backup().words("check").run().await.expect(2);
    assert!(done.err.contains("--s3-bucket"), "{}", done.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_endpoint_come_from_the_usual_files_too() {
    let store = Versitygw::start();
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".aws");
    std::fs::create_dir(&folder).unwrap();
    let (id, secret) = (store.access_key(), store.secret_key());
    std::fs::write(
        folder.join("credentials"),
        format!("[backup]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"),
    )
    .unwrap();
    let process = format!(
        "echo '{{\"Version\": 1, \"AccessKeyId\": \"{id}\", \"SecretAccessKey\": \"{secret}\"}}'"
    );
    let script = home.path().join("keys.sh");
    std::fs::write(&script, process).unwrap();
    std::fs::write(
        folder.join("config"),
        format!(
            "[profile backup]\nregion = us-east-1\nendpoint_url = {0}\n[profile process]\nregion = \
             us-east-1\nendpoint_url = {0}\ncredential_process = /bin/sh {1}\n",
            store.endpoint(),
            script.display()
        ),
    )
    .unwrap();
    for profile in ["backup", "process"] {
        let done = backup()
            .words("check --output json --lock none --no-encrypt")
            .env("HOME", home.path())
            .env("AWS_PROFILE", profile)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("CAPVCO_BACKUP_S3_BUCKET", BUCKET)
            .run()
            .await
            .expect(0);
        is(&done, "bucket", "good", store.endpoint());
    }
    let done = backup_at(&store)
        .words("check --output json --lock none --no-encrypt")
        .env("CAPVCO_BACKUP_S3_ENDPOINT", "")
        .env("AWS_ENDPOINT_URL_S3", store.endpoint())
        .env("AWS_REGION", "us-east-1")
        .run()
        .await
        .expect(0);
    is(&done, "bucket", "good", store.endpoint());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_the_environment_is_used_and_its_refusal_is_said() {
    let proxy = Scripted::start(|_, _| Answer::status("407 Proxy Authentication Required")).await;
    for (endpoint, variable, asked) in [
        ("https://s3.test", "HTTPS_PROXY", ("CONNECT", "s3.test:443")),
        ("http://s3.test", "HTTP_PROXY", ("HEAD", "http://s3.test/backups")),
    ] {
        let before = proxy.asked().len();
        let done = backup()
            .words("check --no-encrypt --stall-timeout 2s")
            .env("CAPVCO_BACKUP_S3_BUCKET", BUCKET)
            .env("CAPVCO_BACKUP_S3_ENDPOINT", endpoint)
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "planted-secret")
            .env(variable, proxy.url("").as_str())
            .run()
            .await;
        assert_ne!(done.code, 0);
        let first = proxy.asked()[before].clone();
        assert_eq!(first.method, asked.0);
        assert!(first.path.starts_with(asked.1), "{}", first.path);
        assert!(done.err.to_lowercase().contains("proxy"), "{}\n{}", done.out, done.err);
        assert!(!format!("{done:?}").contains("planted"));
    }
}
