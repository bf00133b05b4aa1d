//! The second object: a node's keys, encryption configuration and manifests.

use std::os::unix::fs::PermissionsExt as _;

use super::{for_people, from_bucket, from_file, names, restored};
use crate::backup::snapshot::{Desk, named, row};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::s3::Versitygw;
use crate::support::program::backup;

const PLANTED: &str = "planted-private-key";

fn node(desk: &Desk) {
    for folder in ["manifests", "pki/etcd"] {
        std::fs::create_dir_all(desk.path(folder)).unwrap();
    }
    for (name, mode) in [("ca.key", 0o600), ("ca.crt", 0o644), ("etcd/ca.key", 0o600)] {
        let path = desk.path("pki").join(name);
        std::fs::write(&path, PLANTED).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nodes_keys_come_back_with_their_modes_and_never_over_others() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start_line("3.6"));
    node(&desk);
    let taken = || {
        let snapshot = desk.snapshot(&etcd, &s3).env("CAPVCO_BACKUP_PKI_DIR", desk.path("pki"));
        snapshot.words("--include-pki")
    };
    taken().run().await.expect(0);
    let into = desk.path("back");
    let done = from_bucket(&desk, &s3).arg("--pki").arg(&into).run().await;
    assert!(!format!("{}{}", done.out, done.err).contains(PLANTED));
    restored(done);
    let below = into.join(desk.path("pki").strip_prefix("/").unwrap());
    for (name, mode) in [("ca.key", 0o600), ("ca.crt", 0o644), ("etcd/ca.key", 0o600)] {
        let path = below.join(name);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), PLANTED);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    // Again is nothing new; another content stops everything, the database too.
    let again = restored(from_bucket(&desk, &s3).arg("--pki").arg(&into).run().await);
    assert_eq!(again["pkiFiles"], 3);
    std::fs::write(below.join("ca.key"), "another").unwrap();
    let data_dir = desk.path("place/etcd");
    std::fs::create_dir(desk.path("place")).unwrap();
    let both = from_bucket(&desk, &s3).arg("--pki").arg(&into).arg("--data-dir").arg(&data_dir);
    both.run().await.expect(3).says("ca.key is there already, and it is another one");
    assert_eq!(names(&desk.path("place")), Vec::<String>::new());
    // A local copy of them.
    let here = taken().env("CAPVCO_BACKUP_S3_BUCKET", "").env("CAPVCO_BACKUP_LOCK", "");
    let here = here.env("CAPVCO_BACKUP_LOCK_FOR", "").arg("--out").arg(desk.path("copy"));
    let here = row(&here.run().await.expect(0));
    let local = std::path::PathBuf::from(here["pkiKey"].as_str().unwrap());
    let again = desk.path("again");
    let page = for_people(backup(), &desk).arg("--from").arg(&local).arg("--pki").arg(&again);
    let page = page.run().await.expect(0).out;
    for part in ["3 files below ", "copy what is below ", "/ca.key /"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(names(&again), names(&into));
    // The other half of the backup is named, whichever way round.
    let (half, other) = (desk.path("copy"), desk.path("other"));
    let wrong = from_file(&desk, &half).arg("--pki").arg(&other).run().await.expect(2);
    wrong.says("is a database of etcd, not a tar archive").says("copy.pki.tar.zst.age");
    let wrong = from_file(&desk, &local).arg("--db").arg(&other).run().await.expect(2);
    wrong.says("is a tar archive, not a database").says("--pki DIR; the database is ");
    assert!(!other.exists());
    let both = from_file(&desk, &local).arg("--pki").arg(&again).arg("--db").arg(desk.path("x"));
    both.run().await.expect(2).says("not both");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_were_changed_or_are_not_there_are_told() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start_line("3.6"));
    desk.snapshot(&etcd, &s3).run().await.expect(0);
    let into = desk.path("back");
    let none = from_bucket(&desk, &s3).arg("--pki").arg(&into).run().await.expect(3);
    none.says("has no keys of its node").says("--include-pki");
    node(&desk);
    let taken = desk.snapshot(&etcd, &s3).env("CAPVCO_BACKUP_PKI_DIR", desk.path("pki"));
    let taken = row(&taken.words("--include-pki").run().await.expect(0));
    let name = taken["backup"].as_str().unwrap();
    // A newer one without keys: the hint names the one that has them.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    desk.snapshot(&etcd, &s3).run().await.expect(0);
    let none = from_bucket(&desk, &s3).arg("--pki").arg(&into).run().await.expect(3);
    none.says("has no keys of its node").says(&format!("--object {name} --pki"));
    let stranger = Desk::new();
    let wrong = from_bucket(&desk, &s3).env("CAPVCO_BACKUP_IDENTITY", stranger.path("one.txt"));
    let wrong = wrong.arg("--object").arg(name).arg("--pki").arg(&into).run().await.expect(3);
    assert!(wrong.err.contains(&desk.recipients[0]), "{}", wrong.err);
    let key = named(&s3, "pki-").remove(0);
    let mut sealed = std::fs::read(desk.fetch(&s3, &key)).unwrap();
    let end = sealed.len() - 9;
    sealed[end] ^= 1;
    let bad = desk.path("bad.age");
    std::fs::write(&bad, &sealed).unwrap();
    from_file(&desk, &bad)
        .arg("--pki")
        .arg(&into)
        .run()
        .await
        .expect(3)
        .says("does not authenticate");
    assert!(!into.exists());
}
