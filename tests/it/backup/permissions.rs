//! The policies of docs/reference/s3-permissions.md, tried on a real server.

use bytes::Bytes;
use capvco::clock;
use capvco::s3::{Bucket, Config, Deleted, Mode, Put, PutOutcome, Retention};
use serde_json::Value;

use crate::support::peers::s3::{BUCKET, S3, Versitygw};
use crate::support::program::{Done, backup_at};
use crate::support::rust_text::root;

const KEY: &str = "etcd/a/b";

/// The page's policies, for the users of a test.
fn policies() -> Vec<Value> {
    let page = std::fs::read_to_string(root().join("docs/reference/s3-permissions.md")).unwrap();
    let page = page.replace("BUCKET", BUCKET);
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| serde_json::from_str(block).expect("a block is JSON")).collect()
}

/// The roles of the page, all in force at once.
struct Roles {
    store: Versitygw,
    writer: S3,
    reader: S3,
    pruner: S3,
    appender: S3,
}

impl Roles {
    fn new() -> Self {
        let store = Versitygw::start();
        let user = |name: &str| store.create_user(name);
        let (writer, reader, pruner) = (user("WRITER"), user("READER"), user("PRUNER"));
        let appender = user("APPENDER");
        let statements = policies()
            .into_iter()
            .flat_map(|policy| policy["Statement"].as_array().expect("statements").clone());
        let all: Vec<Value> = statements.collect();
        assert_eq!(all.len(), 7);
        let policy = serde_json::json!({"Version": "2012-10-17", "Statement": all}).to_string();
        let put = ["s3api", "put-bucket-policy", "--bucket", BUCKET, "--policy", &policy];
        store.aws(&put).expect(0);
        Self { store, writer, reader, pruner, appender }
    }
}

async fn open(store: &S3) -> Bucket {
    let mut config = Config::new(BUCKET);
    config.endpoint = Some(store.endpoint().to_owned());
    config.keys = Some((store.access_key().to_owned(), store.secret_key().into()));
    Bucket::open(config, clock::System::shared()).await.unwrap()
}

fn put(lock: Option<(Mode, u64)>) -> Put {
    Put { lock, ..Put::default() }
}

async fn stored(bucket: &Bucket, lock: Option<(Mode, u64)>) -> String {
    match bucket.put(KEY, Bytes::from_static(b"x"), &put(lock)).await.unwrap() {
        PutOutcome::Stored(stored) => stored.version_id.unwrap(),
        PutOutcome::AlreadyThere => panic!("nobody asked"),
    }
}

async fn check(user: &S3, words: &str) -> Done {
    let program = backup_at(user).words("check --output json --no-encrypt");
    let done = program.words("--lock governance --lock-for 1d").words(words).run().await;
    assert!(!done.err.contains("`capvco-backup check`"), "it runs already: {}", done.err);
    done
}

fn outcome(done: &Done, check: &str) -> String {
    let rows = done.json()["results"].as_array().unwrap().clone();
    let row = rows.iter().find(|row| row["check"] == check);
    row.unwrap_or_else(|| panic!("no row {check}"))["outcome"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_may_do_its_work_and_no_more() {
    let roles = Roles::new();
    let (writer, reader) = (open(&roles.writer).await, open(&roles.reader).await);
    let pruner = open(&roles.pruner).await;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is after 1970")]
    let until = writer.server_time().await.unwrap() as u64 + 3600;
    let locked = stored(&writer, Some((Mode::Governance, until))).await;
    let free = stored(&writer, None).await;
    let mode = Mode::Governance;

    for bucket in [&writer, &reader, &pruner] {
        let found = bucket.retention(KEY, Some(&locked)).await.unwrap();
        assert_eq!(found, Retention::Locked { mode, until });
        assert_eq!(bucket.get_small(KEY, Some(&free), 10).await.unwrap().unwrap(), b"x");
        assert_eq!(bucket.versions("etcd/").await.unwrap().len(), 2);
        assert!(bucket.exists().await.unwrap());
    }
    for bucket in [&writer, &reader] {
        assert!(bucket.delete(KEY, Some(&free)).await.unwrap_err().is_denied());
        assert!(bucket.set_legal_hold(KEY, Some(&free), true).await.unwrap_err().is_denied());
    }
    for bucket in [&reader, &pruner] {
        let refused = bucket.put(KEY, Bytes::from_static(b"y"), &put(None)).await;
        assert!(refused.unwrap_err().is_denied());
    }
    let outside = writer.put("other/a", Bytes::from_static(b"y"), &put(None)).await;
    assert!(outside.unwrap_err().is_denied(), "only below the prefix");

    pruner.set_legal_hold(KEY, Some(&free), true).await.unwrap();
    let held = Deleted::Locked { until: None, hold: true };
    assert_eq!(pruner.delete(KEY, Some(&free)).await.unwrap(), held);
    pruner.set_legal_hold(KEY, Some(&free), false).await.unwrap();
    assert_eq!(pruner.delete(KEY, Some(&free)).await.unwrap(), Deleted::Gone);
    let kept = Deleted::Locked { until: Some(until), hold: false };
    assert_eq!(pruner.delete(KEY, Some(&locked)).await.unwrap(), kept);
    let begun = writer.upload("etcd/c", &put(None), 1, 1).await.unwrap();
    let unfinished = pruner.unfinished("etcd/").await.unwrap();
    assert_eq!(unfinished.len(), 1);
    pruner.abort_upload("etcd/c", begun.id()).await.unwrap();
    begun.abort().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn check_finds_a_writer_good_and_an_appender_good_enough() {
    let roles = Roles::new();
    let writer = check(&roles.writer, "").await.expect(0);
    for good in [
        "bucket",
        "bucket's configuration",
        "lock of an object",
        "lock of an upload in parts",
        "delete what is locked",
        "put",
        "put only if absent",
        "read",
        "list versions",
        "list unfinished uploads",
        "abort an upload",
    ] {
        assert_eq!(outcome(&writer, good), "good", "{good}");
    }
    assert_eq!(outcome(&writer, "legal hold"), "warning");
    let appender = check(&roles.appender, "").await.expect(1);
    assert_eq!(outcome(&appender, "lock of an object"), "failed");
    check(&roles.appender, "--lock-unverified-ok").await.expect(0);
    // What both had to leave, a pruner's `prune` may remove later; here an administrator does.
    check(&roles.store, "").await.expect(0);
}
