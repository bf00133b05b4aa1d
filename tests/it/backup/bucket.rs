//! `bucket create` makes what is missing, once, and writes keys that only their owner can read.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use capvco::sim::{Sim, World};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::cloud::cloud;
use crate::support::peers::s3::{S3, Seaweed, Versitygw};
use crate::support::peers::tool;
use crate::support::program::{Done, Program, backup, backup_at};

const HERE: &str = "be-mac-dc01-001";

fn world() -> World {
    World { versitygw: Some(tool("versitygw")), ..World::small() }
}

/// `bucket create` of `etcd` in the objectspace `backups`, whose key files go to `folder`.
fn create(sim: &Sim, folder: &TempDir, words: &str) -> Program {
    backup()
        .on(sim)
        .words("bucket create --output json --s3-bucket etcd --objectspace backups --location")
        .arg(HERE)
        .arg(format!("--write-key-file={}", folder.path().join("rw.env").display()))
        .arg(format!("--read-key-file={}", folder.path().join("r.env").display()))
        .words(words)
}

/// Outcomes by what they are about.
#[track_caller]
fn outcomes(done: &Done) -> Vec<(String, String)> {
    let rows = done.json()["results"].as_array().unwrap().clone();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(row, "what"), text(row, "outcome"))).collect()
}

#[track_caller]
fn all(done: &Done, outcome: &str) {
    let found = outcomes(done);
    assert!(!found.is_empty() && found.iter().all(|(_, o)| o == outcome), "{found:?}");
}

fn text(path: &Path) -> String {
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    std::fs::read_to_string(path).unwrap()
}

fn value<'a>(env: &'a str, name: &str) -> &'a str {
    let found = env.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// Where the objectspace's S3 is; it has to be there.
async fn s3_url(sim: &Sim) -> String {
    let id = sim.world(|world| world.objectspaces[0].objectspace_id.clone());
    sim.s3_url(&id).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_portal_gives_a_bucket_under_lock_and_two_keys() {
    let mut world = world();
    world.add_objectspace(HERE, "backups");
    let sim = cloud("backup-bucket", world).await;
    let (folder, url) = (tempfile::tempdir().unwrap(), s3_url(&sim).await);
    let endpoint = format!("--s3-endpoint={url}");
    let rehearsal = create(&sim, &folder, "--dry-run").arg(&endpoint).run().await.expect(0);
    assert!(outcomes(&rehearsal).contains(&("bucket".to_owned(), "would-be-created".to_owned())));
    assert!(sim.world(|world| world.objectspaces[0].buckets.is_empty()));

    let made = create(&sim, &folder, "").arg(&endpoint).run().await.expect(0);
    let wanted = ["objectspace", "bucket", "abort-rule", "default-lock", "key", "key"];
    let found = outcomes(&made);
    assert_eq!(found.iter().map(|(what, _)| &**what).collect::<Vec<_>>(), wanted);
    assert!(found[0].1 == "unchanged" && found[1..].iter().all(|(_, o)| o == "created"));
    let (rw, r) = (text(&folder.path().join("rw.env")), text(&folder.path().join("r.env")));
    assert_eq!(value(&rw, "CAPVCO_BACKUP_S3_BUCKET"), "etcd");
    assert_eq!(value(&rw, "CAPVCO_BACKUP_S3_ENDPOINT"), url);
    for env in [&rw, &r] {
        let secret = value(env, "AWS_SECRET_ACCESS_KEY");
        assert!(!format!("{made:?}").contains(secret), "a secret was printed");
    }

    // What was made is what it should be.
    let home = tempfile::tempdir().unwrap();
    let as_key = |env: &str| {
        let id = value(env, "AWS_ACCESS_KEY_ID");
        S3::at(&url, id, value(env, "AWS_SECRET_ACCESS_KEY"), home.path())
    };
    let lock = as_key(&r).aws(&["s3api", "get-object-lock-configuration", "--bucket", "etcd"]);
    let lock = lock.expect(0).json();
    let default = &lock["ObjectLockConfiguration"]["Rule"]["DefaultRetention"];
    assert_eq!((&default["Mode"], &default["Days"]), (&"GOVERNANCE".into(), &30.into()));
    let file = home.path().join("x");
    std::fs::write(&file, "x").unwrap();
    let put = ["s3api", "put-object", "--bucket", "etcd", "--key", "etcd/x", "--body"];
    let put = [&put[..], &[file.to_str().unwrap()]].concat();
    let version = as_key(&rw).aws(&put).expect(0).json()["VersionId"].clone();
    assert_ne!(as_key(&r).aws(&put).code, 0, "the key for restores may not write");
    let delete = ["s3api", "delete-object", "--bucket", "etcd", "--key", "etcd/x", "--version-id"];
    let delete = [&delete[..], &[version.as_str().unwrap()]].concat();
    assert_ne!(as_key(&rw).aws(&delete).code, 0, "the lock keeps it from the schedule's key");

    let again = create(&sim, &folder, "").arg(&endpoint).run().await.expect(0);
    all(&again, "unchanged");
    assert_eq!(text(&folder.path().join("rw.env")), rw);
    // A file that was lost comes back from the portal.
    std::fs::remove_file(folder.path().join("r.env")).unwrap();
    let lost = create(&sim, &folder, "--dry-run").arg(&endpoint).run().await.expect(0);
    assert_eq!(outcomes(&lost)[5].1, "would-be-written");
    let found = create(&sim, &folder, "").arg(&endpoint).run().await.expect(0);
    assert_eq!(text(&folder.path().join("r.env")), r);
    assert_eq!((&*outcomes(&found)[4].1, &*outcomes(&found)[5].1), ("unchanged", "written"));
    found.says("stay valid, wherever their files are: capvco-backup-r; to revoke one");
    // From another folder it is the same keys, and whoever has them is told of.
    let elsewhere = tempfile::tempdir().unwrap();
    let second = create(&sim, &elsewhere, "").arg(&endpoint).run().await.expect(0);
    assert_eq!(text(&elsewhere.path().join("rw.env")), rw);
    second.says("their files are: capvco-backup-rw, capvco-backup-r; to revoke one");
    let pair = tempfile::tempdir().unwrap();
    let renewed = create(&sim, &pair, "--key-name next").arg(&endpoint).run().await.expect(0);
    assert_eq!((&*outcomes(&renewed)[4].1, &*outcomes(&renewed)[5].1), ("created", "created"));
    renewed.says("their files are: capvco-backup-rw, capvco-backup-r; to revoke one");
    // The keys serve a check.
    let mut check = backup().words("check --output json --no-encrypt");
    for line in rw.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.split_once('=').unwrap();
        check = check.env(name, value);
    }
    check.run().await.expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_objectspace_that_is_not_there_is_made() {
    let sim = cloud("backup-bucket", world()).await;
    let folder = tempfile::tempdir().unwrap();
    let rehearsal = create(&sim, &folder, "--dry-run").run().await.expect(0);
    all(&rehearsal, "would-be-created");
    assert!(sim.world(|world| world.objectspaces.is_empty()));
    // Nothing says how S3 is reached until it is there: the lock has to wait.
    let made = create(&sim, &folder, "").run().await.expect(5);
    let found = outcomes(&made);
    assert!(found.contains(&("objectspace".to_owned(), "created".to_owned())), "{found:?}");
    assert!(found.contains(&("default-lock".to_owned(), "skipped".to_owned())), "{found:?}");
    let made = made.says("error: no default lock was set").says("--s3-endpoint");
    assert!(!made.err.contains("there before"), "{}", made.err);
    let rw = folder.path().join("rw.env");
    assert!(text(&rw).contains("\n#CAPVCO_BACKUP_S3_ENDPOINT=\n"), "the file says what is missing");
    create(&sim, &folder, "").run().await.expect(1).says("error: no default lock was set");
    let endpoint = format!("--s3-endpoint={}", s3_url(&sim).await);
    let again = create(&sim, &folder, "").arg(endpoint).run().await.expect(0);
    let found = outcomes(&again);
    assert!(found.contains(&("default-lock".to_owned(), "created".to_owned())), "{found:?}");
    assert!(text(&rw).contains("\nCAPVCO_BACKUP_S3_ENDPOINT=http"), "the file has it now");
    assert_eq!(sim.world(|world| world.objectspaces.len()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_is_said_and_nothing_is_made() {
    let mut world = world();
    world.add_objectspace(HERE, "backups");
    world.add_objectspace(HERE, "twice");
    world.add_objectspace(HERE, "twice");
    let sim = cloud("backup-bucket", world).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rw.env"), "AWS_ACCESS_KEY_ID=OTHER\n").unwrap();
    create(&sim, &folder, "").run().await.expect(3).says("rw.env is there");
    std::fs::remove_file(folder.path().join("rw.env")).unwrap();
    let several = backup()
        .on(&sim)
        .words("bucket create --s3-bucket etcd --objectspace twice --location")
        .arg(HERE);
    several.run().await.expect(3).says("several objectspaces are called twice");
    let nowhere = backup()
        .on(&sim)
        .words("bucket create --s3-bucket etcd --objectspace backups --location")
        .arg("be-mac-dc01-002");
    let nowhere = nowhere.run().await.expect(3).says("location be-mac-dc01-002 is none of this");
    nowhere.says(&format!("hint: there are: {HERE}, "));
    assert!(sim.world(|world| world.objectspaces.iter().all(|o| o.buckets.is_empty())));
    for (words, told) in [
        ("bucket create --s3-bucket etcd --objectspace backups", "--location"),
        ("bucket create --objectspace backups --location x", "--s3-bucket"),
        ("bucket create --s3-bucket b --default-lock-for 36h", "whole days"),
    ] {
        backup().on(&sim).words(words).run().await.expect(2).says(told);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_s3_makes_a_bucket_too() {
    let (versitygw, seaweed) = (Versitygw::start(), Seaweed::start());
    for store in [&*versitygw as &S3, &seaweed] {
        let create = |words: &str| {
            let program = backup_at(store).env("CAPVCO_BACKUP_S3_BUCKET", "fresh");
            program.words("bucket create --output json --default-lock compliance").words(words)
        };
        let rehearsal = create("--dry-run").run().await.expect(0);
        all(&rehearsal, "would-be-created");
        let made = create("").run().await.expect(0);
        let found = outcomes(&made);
        assert_eq!(found[0], ("bucket".to_owned(), "created".to_owned()));
        assert_eq!(found[2], ("default-lock".to_owned(), "created".to_owned()), "{found:?}");
        assert!(made.err.contains("s3-permissions.md"), "{}", made.err);
        let again = create("").run().await.expect(0);
        assert_eq!(outcomes(&again)[0], ("bucket".to_owned(), "unchanged".to_owned()));
        // Another default is not weakened.
        let kept = create("--default-lock-for 1d").run().await.expect(0);
        assert_eq!(outcomes(&kept)[2].1, "kept");
        store.aws(&["s3api", "create-bucket", "--bucket", "plain"]).expect(0);
        let plain = create("").env("CAPVCO_BACKUP_S3_BUCKET", "plain").run().await.expect(3);
        assert!(plain.err.contains("made without locking"), "{}", plain.err);
    }
}
