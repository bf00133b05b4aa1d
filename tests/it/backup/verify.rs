//! `verify` finds what is wrong with a backup, from outside and all the way in.

use capvco::s3::Mode;
use capvco::snapshot::manifest::Manifest;
use serde_json::Value;

use crate::support::peers::s3::{BUCKET, S3, Versitygw};
use crate::support::program::{Done, backup_at};
use crate::support::stored::{Backup, KEY, Shelf, identity_file};

/// What is done to a good one, and which checks notice it.
type Case<T> = (&'static str, fn(&mut T), &'static [&'static str]);

const SLOT: &str = "20261130T060000Z";

/// Runs `verify` with the right identity and shows its rows by check.
async fn verify(store: &S3, words: &str, code: i32) -> (Vec<(String, String)>, Done) {
    let folder = tempfile::tempdir().unwrap();
    let identity = identity_file(folder.path());
    let program =
        backup_at(store).words("verify -output json").words(words).arg("-i").arg(identity);
    let done = program.run().await.expect(code);
    assert!(!done.out.contains(KEY) && !done.err.contains(KEY), "a key was shown");
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let json = if done.out.is_empty() { serde_json::json!({"results": []}) } else { done.json() };
    let rows = json["results"].as_array().unwrap();
    (rows.iter().map(|row| (word(row, "check"), word(row, "outcome"))).collect(), done)
}

fn bad(rows: &[(String, String)]) -> Vec<&str> {
    rows.iter().filter(|(_, result)| result == "failed").map(|(check, _)| check.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_backup_is_good_all_the_way_in() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let lock = Some((Mode::Compliance, 1_924_992_000));
    shelf.store(&Backup { lock, pki: true, ..Backup::of(SLOT) }).await;
    let (rows, _) = verify(&store, "--quick", 0).await;
    let quick = [
        "manifest",
        "data",
        "pki",
        "lock",
        "pki lock",
        "manifest lock",
        "hold",
        "identity",
        "identity",
    ];
    assert_eq!(rows.iter().map(|(check, _)| check.as_str()).collect::<Vec<_>>(), quick);
    let (rows, done) = verify(&store, "", 0).await;
    let full =
        ["sum", "opened", "database sum", "structure", "contents", "pki sum", "pki contents"];
    assert_eq!(rows[9..].iter().map(|(check, _)| check.as_str()).collect::<Vec<_>>(), full);
    assert!(rows.iter().all(|(_, result)| result == "good"), "{rows:?}");
    let contents = done.json()["results"][13]["detail"].as_str().unwrap().to_owned();
    assert!(contents.starts_with("revision 101, hash "), "{contents}");
    assert!(contents.ends_with(", 100 keys, 106 entries"), "{contents}");
    done.says("go into a file without a name in ");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_key_only_the_outside_is_looked_at() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup::of(SLOT)).await;
    let refused = backup_at(&store).words("verify").run().await.expect(2);
    refused.says("is encrypted, and no identity is given").says("--quick");
    backup_at(&store).words("verify --quick").run().await.expect(0);
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.txt");
    crate::support::peers::run(
        crate::support::peers::clean(crate::support::peers::tool("age-keygen"))
            .arg("-o")
            .arg(&other),
    )
    .expect(0);
    let wrong = backup_at(&store).words("verify --quick -i").arg(&other).run().await.expect(1);
    let wrong =
        wrong.says("none of the identities given (1) opens data-00000000000000f0.db.zst.age");
    let wrong = wrong.says(
        "which is encrypted to age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa",
    );
    let wrong = wrong.says("hint: look for the identity whose `# public key:`");
    assert!(!wrong.err.contains("take a new backup"), "the backup is good: {}", wrong.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_cut_or_flipped_anywhere_is_found() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let backup = Backup::of(SLOT);
    let manifest = shelf.begin(&backup).await;
    let good = shelf.bucket.get_small(&manifest.data.key, None, 1 << 30).await.unwrap().unwrap();
    let cases: [Case<Vec<u8>>; 6] = [
        ("the version line", |bytes| bytes[20] ^= 1, &["identity", "sum", "opened"]),
        ("a stanza", |bytes| bytes[40] ^= 1, &["identity", "sum", "opened"]),
        ("a chunk", |bytes| bytes[1000] ^= 1, &["sum", "opened"]),
        ("the last tag", |bytes| *bytes.last_mut().unwrap() ^= 1, &["sum", "opened"]),
        ("another file", |bytes| bytes.fill(b'x'), &["identity", "sum", "opened"]),
        ("a cut", |bytes| bytes.truncate(bytes.len() - 1), &["data"]),
    ];
    for (what, spoil, found) in cases {
        let mut bytes = good.clone();
        spoil(&mut bytes);
        let mut spoiled = manifest.clone();
        spoiled.data.version_id = shelf.replace(&manifest.data.key, bytes).await;
        shelf.replace(&shelf.manifest_key(&backup), spoiled.to_json()).await;
        let (rows, done) = verify(&store, "", 1).await;
        assert_eq!(bad(&rows), found, "{what}: {rows:?}");
        done.says("take a new backup now");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_lies_is_found_out() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let backup = Backup { pki: true, ..Backup::of(SLOT) };
    let manifest = shelf.begin(&backup).await;
    let cases: [Case<Manifest>; 9] = [
        ("nothing", |_| {}, &[]),
        ("revision", |m| m.revision += 1, &["contents"]),
        ("storage version", |m| m.storage_version = None, &["contents"]),
        ("database size", |m| m.db.size += 4096, &["database sum"]),
        ("database sum", |m| m.db.sha256 = "a".repeat(64), &["database sum"]),
        ("stored sum", |m| m.data.content.sha256 = "a".repeat(64), &["sum"]),
        ("stored size", |m| m.data.content.size += 1, &["data"]),
        ("keys' sum", |m| m.pki.as_mut().unwrap().content.sha256 = "a".repeat(64), &["pki sum"]),
        (
            "compression",
            |m| m.data.compression = capvco::snapshot::manifest::Compression::None,
            &["manifest"],
        ),
    ];
    for (what, lie, found) in cases {
        let mut lying = manifest.clone();
        lie(&mut lying);
        shelf.replace(&shelf.manifest_key(&backup), lying.to_json()).await;
        let (rows, _) = verify(&store, "", i32::from(!found.is_empty())).await;
        assert_eq!(bad(&rows), found, "{what}: {rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_cut_or_flipped_is_no_backup() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let backup = Backup::of(SLOT);
    let manifest = shelf.begin(&backup).await.to_json();
    let key = shelf.manifest_key(&backup);
    let position = |text: &str| {
        manifest.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
    };
    let mut spoiled: Vec<(String, Vec<u8>)> = [0, 1, manifest.len() / 2, manifest.len() - 3]
        .map(|end| (format!("cut at {end}"), manifest[..end].to_vec()))
        .to_vec();
    for text in
        ["{", "kind", "capvco", "version\"", "cluster", "20261130T06", "sha256", "data-0", "zstd"]
    {
        let mut bytes = manifest.clone();
        bytes[position(text)] ^= 0x10;
        spoiled.push((format!("flipped in {text}"), bytes));
    }
    for (what, bytes) in spoiled {
        shelf.replace(&key, bytes).await;
        let listed = backup_at(&store).words("list -output json").run().await.expect(0).json();
        assert_ne!(listed["results"][0]["state"], "good", "{what}");
        let (rows, _) = verify(&store, "--quick", 1).await;
        assert_eq!(bad(&rows), ["manifest"], "{what}: {rows:?}");
        backup_at(&store).words("status").run().await.expect(1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_not_there_is_missed() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let (near, far) = (1_900_000_000, 1_924_992_000);
    let backup = Backup::of(SLOT);
    let mut manifest = shelf.begin(&backup).await;
    let lock = |mode, until| Some(capvco::snapshot::manifest::Lock::until(mode, until));
    manifest.lock = lock(Mode::Governance, near);
    let key = shelf.manifest_key(&backup);
    shelf.put(&key, manifest.to_json(), Some((Mode::Governance, far))).await;
    let (rows, done) = verify(&store, "--quick", 1).await;
    assert_eq!(bad(&rows), ["lock"]);
    done.says("not locked; it should be until 2030-03-17T17:46:40Z");

    let retention = r#"{"Mode":"GOVERNANCE","RetainUntilDate":"2030-03-17T17:46:40Z"}"#;
    let mut words = vec!["s3api", "put-object-retention", "--bucket", BUCKET];
    words.extend(["--key", &manifest.data.key, "--retention", retention]);
    store.aws(&words).expect(0);
    verify(&store, "--quick", 0).await;

    let newer = Backup { lock: Some((Mode::Governance, near)), ..Backup::of("20261130T120000Z") };
    let mut manifest = shelf.begin(&newer).await;
    manifest.lock = lock(Mode::Governance, far);
    let key = shelf.manifest_key(&newer);
    shelf.put(&key, manifest.to_json(), Some((Mode::Governance, far))).await;
    let (_, done) = verify(&store, "--quick", 1).await;
    done.says("governance until 2030-03-17T17:46:40Z only");
}

#[tokio::test(flavor = "multi_thread")]
async fn staging_that_cannot_be_written_is_told() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup::of(SLOT)).await;
    let (_, done) = verify(&store, "--staging /nowhere/at/all", 3).await;
    done.says("cannot write a temporary file in /nowhere/at/all");
}
