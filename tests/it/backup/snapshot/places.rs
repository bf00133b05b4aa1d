//! A local copy, beside the bucket or instead of it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Desk, objects, row};
use crate::support::front::{Fault, Front};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;
use crate::support::program::{Program, backup};

fn instead(desk: &Desk, etcd: &Etcd) -> Program {
    backup()
        .env("CAPVCO_BACKUP_RECIPIENT", desk.recipients.join(","))
        .env("ETCDCTL_ENDPOINTS", etcd.endpoint())
        .words("snapshot -output json")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_instead_of_a_bucket_is_its_owners_alone() {
    let (desk, etcd) = (Desk::new(), Etcd::start());
    etcd.fill(100, 1000, Values::Compressible);
    let path = desk.path("copy.db.zst.age");
    let done = instead(&desk, &etcd).arg("--out").arg(&path).run().await.expect(0);
    let row = row(&done);
    assert_eq!((&row["outcome"], &row["out"]), (&"saved".into(), &path.to_str().unwrap().into()));
    assert_eq!(mode(&path), 0o600);
    let db = std::fs::read(desk.open(&path, "two.txt", "db")).unwrap();
    assert_eq!(row["dbSize"], db.len());
    assert!(!desk.path("copy.db.zst.age.part").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_beside_the_bucket_is_the_same_to_the_byte() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(400, 32 << 10, Values::Random);
    let path = desk.path("copy");
    let done = desk.snapshot(&etcd, &s3).arg("--out").arg(&path).run().await.expect(0);
    let stored = std::fs::read(desk.fetch(&s3, row(&done)["key"].as_str().unwrap())).unwrap();
    assert!(std::fs::read(&path).unwrap() == stored);
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_already_is_not_overwritten() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let path = desk.path("copy");
    std::fs::write(&path, "precious").unwrap();
    for program in [instead(&desk, &etcd), desk.snapshot(&etcd, &s3)] {
        let refused = program.arg("--out").arg(&path).run().await.expect(3);
        refused.says("copy is there already").says("name another file");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
    assert_eq!(objects(&s3), Vec::<String>::new(), "noticed before anything was sent");
    std::fs::rename(&path, desk.path("other.pki.tar.zst.age")).unwrap();
    let refused = instead(&desk, &etcd).arg("--out").arg(desk.path("other")).run().await.expect(3);
    refused.says("other.pki.tar.zst.age is there already");
    std::os::unix::fs::symlink("/nowhere/at/all", &path).unwrap();
    instead(&desk, &etcd).arg("--out").arg(&path).run().await.expect(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_bucket_fails_the_copy_stands_and_the_exit_code_tells() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(700, 32 << 10, Values::Random);
    for (operation, code) in [("UploadPart", 4), ("CompleteMultipartUpload", 4)] {
        let front = Front::start(s3.endpoint(), move |asked, _| match asked.operation() {
            failing if failing == operation => Fault::Refuse(503, "ServiceUnavailable"),
            _ => Fault::Pass,
        });
        let front = s3.behind(&front.await);
        let path = desk.path("copy");
        let run = desk.snapshot(&etcd, &front).words("--stall-timeout 2s").arg("--out").arg(&path);
        let done = run.run().await.expect(code);
        assert_eq!(row(&done)["outcome"], "saved", "{operation}: {}", done.err);
        desk.open(&path, "one.txt", "db");
        std::fs::remove_file(&path).unwrap();
        assert_eq!((objects(&s3).len(), super::unfinished(&s3)), (0, 0), "{operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_copy_fails_the_bucket_has_it_and_the_exit_code_tells() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(100, 1000, Values::Compressible);
    let nowhere = desk.path("no/such/folder/copy");
    let refused = desk.snapshot(&etcd, &s3).arg("--out").arg(&nowhere).run().await.expect(3);
    refused.says("no/such/folder/copy");
    assert_eq!(objects(&s3), Vec::<String>::new(), "noticed before anything was sent");
    let folder = desk.snapshot(&etcd, &s3).arg("--out").arg(desk.folder.path());
    folder.run().await.expect(2).says("is a folder");
    // A leftover of a run that died.
    let full = desk.path("full");
    std::os::unix::fs::symlink("/dev/full", desk.path("full.part")).unwrap();
    let done = desk.snapshot(&etcd, &s3).arg("--out").arg(&full).run().await.expect(0);
    assert_eq!(row(&done)["outcome"], "stored", "the leftover was replaced, not written to");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_after_the_bucket_has_it_is_told_as_half() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let folder = desk.path("gone");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("copy");
    let front = Front::start(s3.endpoint(), move |asked, _| {
        if asked.method == "PUT" && asked.path.contains("/data-") {
            // The disk goes away in the middle.
            let _ = std::fs::remove_dir_all(&folder);
        }
        Fault::Pass
    });
    let front = s3.behind(&front.await);
    let done = desk.snapshot(&etcd, &front).arg("--out").arg(&path).run().await.expect(5);
    assert_eq!(row(&done)["outcome"], "stored");
    done.says("cannot write").says("the backup is in the bucket all the same");
}
