//! From where: the bucket in every way of naming a backup, files and pipes in every dress.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Lab, from_bucket, from_file, looked_at, plain, restored, start};
use crate::backup::snapshot::{Desk, named, objects, row};
use crate::support::peers::etcd::{Etcd, etcdutl};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::{BUCKET, Versitygw};
use crate::support::peers::{run, tool};
use crate::support::program::backup;

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_backup_becomes_an_etcd_that_says_the_same() {
    let lab = Lab::new("3.6").await;
    let was = looked_at(&lab.etcd);
    let data_dir = lab.desk.path("etcd");
    let words = "--bump-revision 0 --etcd-version 3.6";
    let done = lab.restore().words(words).arg("--data-dir").arg(&data_dir).run().await;
    let row = restored(done);
    assert_eq!((&row["revision"], &row["liveKeys"]), (&was.2.into(), &300.into()));
    assert_eq!(row["lowestEtcd"], "3.6");
    assert_eq!(row["proven"], serde_json::json!(["the manifest's SHA-256", "age"]));
    assert_eq!(row["member"]["name"], "default");
    let etcd = start("3.6", &data_dir);
    assert_eq!(looked_at(&etcd), was);
    // Old revisions are still there without a bump.
    assert!(etcd.etcdctl(&["get", "--rev", "2", "", "--prefix", "--limit", "1"]).contains("pod-"));
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_the_revision_goes_on_where_no_client_has_been() {
    let lab = Lab::new("3.6").await;
    let data_dir = lab.desk.path("etcd");
    let row = restored(lab.restore().arg("--data-dir").arg(&data_dir).run().await);
    let (_, keys, revision) = looked_at(&start("3.6", &data_dir));
    assert_eq!((keys, revision), (300, row["revision"].as_i64().unwrap() + 1_000_000_000));
    assert_eq!(row["member"]["revision"], revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_named_by_time_name_key_or_version() {
    let lab = Lab::new("3.6").await;
    let first = row(&lab.restore().words("--db").arg(lab.desk.path("1")).run().await.expect(0));
    lab.etcd.etcdctl(&["put", "/second", "1"]);
    let taken = lab.snapshot().await;
    let (newer, older) = (taken["revision"].clone(), first["revision"].clone());
    assert_ne!(newer, older);
    let name =
        |row: &serde_json::Value| row["source"].as_str().unwrap()["backup ".len()..].to_owned();
    let text = |row: &serde_json::Value, field: &str| row[field].as_str().unwrap().to_owned();
    for (number, (option, value, revision)) in [
        ("--object", name(&first), &older),
        ("--object", text(&first, "object"), &older),
        ("--version-id", text(&first, "versionId"), &older),
        ("--at", "2999-01-01T00:00:00Z".to_owned(), &newer),
        ("--at", "2999-01-01T00:00:00".to_owned(), &newer),
    ]
    .into_iter()
    .enumerate()
    {
        let path = lab.desk.path(&format!("db-{number}"));
        let done = lab.restore().arg(option).arg(&value).arg("--db").arg(&path).run().await;
        assert_eq!(&restored(done)["revision"], revision, "{option} {value}");
    }
    for (option, value, says) in [
        ("--object", "20200101T000000Z", "there is no backup 20200101T000000Z"),
        ("--object", "etcd/no/such.db", "there is no object etcd/no/such.db"),
        ("--version-id", "no-such-version", "no backup with an object of version"),
        (
            "--at",
            "2020-01-01T00:00:00Z",
            "no good backup that was taken at 2020-01-01T00:00:00Z or before",
        ),
    ] {
        let path = lab.desk.path("none");
        let done = lab.restore().arg(option).arg(value).arg("--db").arg(&path).run().await;
        done.expect(3).says(says);
        assert!(!path.exists());
    }
    let early =
        lab.restore().words("--at 2020-01-01 --plan").arg("--db").arg(lab.desk.path("none"));
    let said = format!("the earliest is {}, taken at {}", name(&first), text(&first, "taken"));
    early.run().await.expect(3).says("2020-01-01T00:00:00Z or before").says(&said);
    // To the second: the moment that the report tells is enough.
    let at = lab.restore().arg("--at").arg(text(&first, "taken")).arg("--db");
    let exact = restored(at.arg(lab.desk.path("exact")).run().await);
    assert_eq!(exact["taken"], first["taken"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_somebody_has_hidden_is_found_and_that_is_said() {
    let lab = Lab::new("3.6").await;
    for key in objects(&lab.s3) {
        lab.s3.aws(&["s3api", "delete-object", "--bucket", BUCKET, "--key", &key]).expect(0);
    }
    assert_eq!(objects(&lab.s3), Vec::<String>::new());
    let path = lab.desk.path("db");
    let done = lab.restore().arg("--db").arg(&path).run().await.expect(0);
    done.says("behind a delete marker");
    assert!(path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn data_without_a_manifest_is_restored_by_its_key_and_what_is_missing_is_said() {
    let lab = Lab::new("3.6").await;
    let key = named(&lab.s3, "data-").remove(0);
    let copy = format!("{BUCKET}/{key}");
    let to = ["--bucket", BUCKET, "--key", "elsewhere/x.age", "--copy-source", &copy];
    lab.s3.aws(&[&["s3api", "copy-object"], &to[..]].concat()).expect(0);
    let data_dir = lab.desk.path("etcd");
    let done =
        lab.restore().words("--object elsewhere/x.age --data-dir").arg(&data_dir).run().await;
    let row = restored(done.says("no manifest speaks of object elsewhere/x.age"));
    assert_eq!(row["proven"], serde_json::json!(["age"]));
    assert_eq!(looked_at(&start("3.6", &data_dir)).1, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_data_is_restored_is_never_guessed() {
    let lab = Lab::new("3.6").await;
    let other = Etcd::builder().line("3.6").arg("--initial-cluster-token=other").start();
    other.etcdctl(&["put", "a", "b"]);
    // Of another second than the first one.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    lab.desk.snapshot(&other, &lab.s3).run().await.expect(0);
    let path = lab.desk.path("db");
    let done = lab.restore().arg("--db").arg(&path).run().await.expect(3);
    assert!(!path.exists());
    let done = done.says("there are backups of 2 clusters");
    let hint = done.err.split("--cluster ").skip(1);
    let ids: Vec<&str> = hint.map(|rest| &rest[..16]).collect();
    assert_eq!(ids.len(), 2, "{}", done.err);
    // The newest is named first: after a restore it is that of the cluster that lives.
    for (id, key) in ids.iter().zip([1, 300]) {
        let path = lab.desk.path(id);
        let done = lab.restore().arg("--cluster").arg(id).arg("--db").arg(&path).run().await;
        let row = restored(done);
        assert_eq!((&row["cluster"], &row["liveKeys"]), (&(*id).into(), &key.into()));
    }
}

/// The snapshot that etcd's own tools take, and the same in every dress.
struct Dressed {
    desk: Desk,
    plain: PathBuf,
    bytes: Vec<u8>,
}

impl Dressed {
    fn new(line: &str) -> Self {
        let (desk, etcd) = (Desk::new(), Etcd::start_line(line));
        etcd.fill(200, 3000, Values::Random);
        let plain = desk.path("snapshot.db");
        etcd.etcdctl(&["snapshot", "save", plain.to_str().unwrap()]);
        let bytes = std::fs::read(&plain).unwrap();
        Self { desk, plain, bytes }
    }

    fn zstd(from: &Path) -> PathBuf {
        let to = from.with_extension("zst");
        run(Command::new(tool("zstd")).args(["-q", "-f", "-o"]).arg(&to).arg(from)).expect(0);
        to
    }

    fn age(&self, from: &Path, armored: bool) -> PathBuf {
        let to = from.with_extension("age");
        let mut age = Command::new(tool("age"));
        age.args(armored.then_some("-a")).arg("-r").arg(&self.desk.recipients[0]);
        run(age.arg("-o").arg(&to).arg(from)).expect(0);
        to
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pipelines_of_others_are_restored_whatever_their_layers() {
    let made = Dressed::new("3.5");
    let packed = Dressed::zstd(&made.plain);
    let sealed = made.age(&made.plain, false);
    let sealed =
        std::fs::rename(&sealed, made.desk.path("s.age")).map(|()| made.desk.path("s.age"));
    let both = made.age(&packed, false);
    let both = std::fs::rename(&both, made.desk.path("b.age")).map(|()| made.desk.path("b.age"));
    let text = made.age(&packed, true);
    let dresses = [made.plain.clone(), packed, sealed.unwrap(), both.unwrap(), text];
    for (number, path) in dresses.iter().enumerate() {
        for piped in [false, true] {
            let db = made.desk.path(&format!("db-{number}-{piped}"));
            let done = if piped {
                let stdin = std::fs::read(path).unwrap();
                plain(backup(), &made.desk).stdin(stdin).words("--from -").arg("--db").arg(&db)
            } else {
                from_file(&made.desk, path).arg("--db").arg(&db)
            };
            let row = restored(done.run().await);
            assert!(row["proven"].to_string().contains("etcd's own SHA-256"), "{row}");
            // What etcdutl accepts, to the byte what etcd had sent.
            assert!(std::fs::read(&db).unwrap() == made.bytes, "{}", path.display());
        }
    }
    let data_dir = made.desk.path("etcd");
    restored(from_file(&made.desk, &dresses[3]).arg("--data-dir").arg(&data_dir).run().await);
    assert_eq!(looked_at(&start("3.5", &data_dir)).1, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_file_is_what_etcdutl_takes() {
    let lab = Lab::new("3.6").await;
    let (path, data_dir) = (lab.desk.path("out.db"), lab.desk.path("by-etcdutl"));
    let row = restored(lab.restore().arg("--db").arg(&path).run().await);
    assert_eq!(row["dbFile"], path.to_str().unwrap());
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let dir = format!("--data-dir={}", data_dir.display());
    etcdutl("3.6", &["snapshot", "restore", path.to_str().unwrap(), &dir]);
    let was = looked_at(&lab.etcd);
    assert_eq!(looked_at(&start("3.6", &data_dir)), was);
    let again = lab.restore().arg("--db").arg(&path).run().await.expect(3);
    again.says("is there already").says("nothing is overwritten");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_etcdutl_engine_makes_the_same_cluster_as_ours() {
    let lab = Lab::new("3.6").await;
    let mut seen = Vec::new();
    for (name, engine) in [
        ("ours", "native".to_owned()),
        ("theirs", { format!("etcdutl --etcdutl {}", tool("etcdutl-3.6").display()) }),
    ] {
        let data_dir = lab.desk.path(name);
        let words = format!("--initial-cluster-token t --engine {engine} --data-dir");
        let done = lab.restore().words(&words).arg(&data_dir).run().await;
        let row = restored(done);
        let etcd = start("3.6", &data_dir);
        seen.push((row["member"].clone(), looked_at(&etcd)));
    }
    assert_eq!(seen[0], seen[1]);
    let done = lab.restore().words("--engine etcdutl --etcdutl /no/tool --data-dir");
    let data_dir = lab.desk.path("none");
    done.arg(&data_dir).run().await.expect(2).says("there is no etcdutl at /no/tool");
    assert!(!data_dir.exists());
    let failing = lab.restore().words("--engine etcdutl --etcdutl /bin/false --data-dir");
    failing.arg(&data_dir).run().await.expect(1).says("/bin/false failed");
    assert!(!data_dir.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_read_but_not_list_restores_by_key() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start_line("3.6"));
    etcd.etcdctl(&["put", "a", "b"]);
    let taken = row(&desk.snapshot(&etcd, &s3).run().await.expect(0));
    let reader = s3.create_user("reader");
    s3.allow(&reader, BUCKET, &["s3:GetObject", "s3:GetObjectVersion"]);
    let path = desk.path("db");
    let key = taken["key"].as_str().unwrap();
    let done = from_bucket(&desk, &reader).arg("--object").arg(key).arg("--db").arg(&path);
    let row = restored(done.run().await.says("could not be listed"));
    assert_eq!(row["proven"], serde_json::json!(["age"]));
    from_bucket(&desk, &reader).arg("--db").arg(desk.path("none")).run().await.expect(3);
}
