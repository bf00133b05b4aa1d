//! Into where: a live etcd, old data, foreign folders, full disks, mounted file systems.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::{Lab, everything, looked_at, names, restored, start};
use crate::support::program::{Program, program};

#[tokio::test(flavor = "multi_thread")]
async fn never_under_a_running_etcd_and_a_plan_touches_nothing() {
    let lab = Lab::new("3.6").await;
    let data_dir = lab.etcd.data_dir().to_owned();
    let parent = data_dir.parent().unwrap();
    let before = names(parent);
    let into = || lab.restore().arg("--data-dir").arg(&data_dir);
    into().run().await.expect(3).says("a running etcd holds").says("stop it first");
    let planned = into().words("--plan").run().await.expect(0).says("a running etcd holds");
    let row = &planned.json()["results"][0];
    assert_eq!(row["outcome"], "planned");
    let steps = row["steps"].to_string();
    for part in
        ["fetch and verify backup", "raise the revision by 1000000000", "move what is there to"]
    {
        assert!(steps.contains(part), "{steps}");
    }
    assert_eq!(names(parent), before);
    assert_eq!(looked_at(&lab.etcd).1, 300, "it goes on serving");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_data_is_moved_aside_whole_and_the_new_has_its_modes_and_owner() {
    let mut lab = Lab::new("3.6").await;
    lab.etcd.etcdctl(&["put", "/only", "in the old data"]);
    let was = looked_at(&lab.etcd);
    lab.etcd.stop();
    let data_dir = lab.etcd.data_dir().to_owned();
    std::fs::write(data_dir.join("notes"), "of the operator").unwrap();
    let handed_over =
        Command::new("chown").args(["-R", "1234:4321"]).arg(&data_dir).status().unwrap();
    let old = everything(&data_dir);
    let row = restored(lab.restore().arg("--data-dir").arg(&data_dir).run().await);
    let aside = Path::new(row["movedTo"].as_str().unwrap()).to_owned();
    assert!(aside.to_str().unwrap().starts_with(&format!("{}.bak-2", data_dir.display())));
    assert_eq!(everything(&aside).len(), old.len());
    for (path, mode) in
        [("", 0o700), ("member", 0o700), ("member/wal", 0o700), ("member/snap/db", 0o600)]
    {
        let facts = std::fs::metadata(data_dir.join(path)).unwrap();
        assert_eq!(facts.permissions().mode() & 0o777, mode, "{path}");
        let owner = std::os::unix::fs::MetadataExt::uid(&facts);
        assert!(!handed_over.success() || owner == 1234, "{path}: {owner}");
    }
    assert_eq!(looked_at(&start("3.6", &data_dir)).1, 300);
    let before = start("3.6", &aside);
    assert_eq!(looked_at(&before).1, was.1, "the old data still starts");
    drop(before);
    // A second one in the same second finds another name.
    let row = restored(lab.restore().arg("--data-dir").arg(&data_dir).run().await);
    assert_ne!(row["movedTo"], aside.to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_data_directory_is_left_alone() {
    let lab = Lab::new("3.6").await;
    let home = lab.desk.path("home");
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::write(lab.desk.path("file"), "x").unwrap();
    for (path, code, says) in [
        (home.clone(), 3, "is not empty, and it is no data directory of etcd"),
        (lab.desk.path("file"), 3, "is no folder"),
        (lab.desk.path("no/such/etcd"), 3, "cannot use"),
        (lab.desk.path("file/etcd"), 3, "file"),
        ("/proc/etcd".into(), 3, "/proc"),
    ] {
        let done = lab.restore().arg("--data-dir").arg(&path).run().await;
        assert_eq!(done.code, code, "{}: {}", path.display(), done.err);
        assert!(done.err.contains(says), "{}: {}", path.display(), done.err);
    }
    assert_eq!(names(&home), [".ssh"]);
    let empty = lab.desk.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let row = restored(lab.restore().arg("--data-dir").arg(&empty).run().await);
    assert!(row["movedTo"].is_null());
    assert_eq!(names(&empty), ["member"]);
}

/// The same restore below a shell that bounds what a file may have.
fn bounded(lab: &Lab, blocks: u64) -> Program {
    let words = format!(
        "ulimit -f {blocks}; exec {} restore -output json \"$@\"",
        env!("CARGO_BIN_EXE_capvco-backup")
    );
    program("/bin/sh")
        .env("CAPVCO_BACKUP_S3_ENDPOINT", lab.s3.endpoint())
        .env("CAPVCO_BACKUP_S3_BUCKET", crate::support::peers::s3::BUCKET)
        .env("AWS_ACCESS_KEY_ID", lab.s3.access_key())
        .env("AWS_SECRET_ACCESS_KEY", lab.s3.secret_key())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("CAPVCO_BACKUP_IDENTITY", lab.desk.path("one.txt"))
        .arg("-c")
        .arg(words)
        .arg("sh")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_takes_no_more_leaves_everything_as_it_was() {
    let lab = Lab::new("3.6").await;
    let place = lab.desk.path("place");
    std::fs::create_dir_all(place.join("etcd/member")).unwrap();
    // 100 KiB of 600; then all of the database, but not what comes after.
    for blocks in [200, 3000] {
        let done = bounded(&lab, blocks).arg("--data-dir").arg(place.join("etcd")).run().await;
        assert_eq!(done.code, 3, "{blocks}: {}", done.err);
        assert!(
            done.err.contains("cannot write") || done.err.contains("cannot be written"),
            "{}",
            done.err
        );
        assert_eq!(names(&place), ["etcd"], "{}", done.err);
        assert_eq!(names(&place.join("etcd")), ["member"]);
    }
    let done = bounded(&lab, 200).arg("--db").arg(place.join("x.db")).run().await.expect(3);
    assert_eq!(names(&place), ["etcd"], "{}", done.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_of_its_own_is_restored_from_inside_and_a_small_one_is_refused() {
    let lab = Lab::new("3.6").await;
    let mount = lab.desk.path("var/etcd");
    std::fs::create_dir_all(&mount).unwrap();
    // A mount that only this run sees.
    let inside = |size: &str, prepare: &str, check: &str| {
        let script = format!(
            "set -e; mount -t tmpfs -o size={size} none {at}; {prepare}; \
             {program} restore --data-dir {at} && rc=0 || rc=$?; {check}; exit $rc",
            at = mount.display(),
            program = env!("CARGO_BIN_EXE_capvco-backup"),
        );
        let mut command = program("unshare");
        command = command.words("-Urm sh -c").arg(script);
        for (name, value) in [
            ("CAPVCO_BACKUP_S3_ENDPOINT", lab.s3.endpoint()),
            ("CAPVCO_BACKUP_S3_BUCKET", crate::support::peers::s3::BUCKET),
            ("AWS_ACCESS_KEY_ID", lab.s3.access_key()),
            ("AWS_SECRET_ACCESS_KEY", lab.s3.secret_key()),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ] {
            command = command.env(name, value);
        }
        command.env("CAPVCO_BACKUP_IDENTITY", lab.desk.path("one.txt"))
    };
    let may_mount = Command::new("unshare").args(["-Urm", "true"]).status();
    if !may_mount.is_ok_and(|ended| ended.success()) {
        // A container that lets nobody mount anything: the pure part is held by the unit tests.
        return;
    }
    let at = mount.display();
    let check = format!("ls -A {at} | tr '\\n' ' '; ls {at}/member");
    let done = inside("256m", &format!("mkdir -p {at}/member; touch {at}/member/old"), &check);
    let done = done.run().await.expect(0);
    assert!(done.out.contains("member member.bak-2"), "{}", done.out);
    assert!(done.out.ends_with("snap\nwal\n"), "{}", done.out);
    let done = inside("1m", "true", &format!("ls -A {at}")).run().await.expect(3);
    done.says("there is too little room").says("are needed");
}
