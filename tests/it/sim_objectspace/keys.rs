//! Keys to a bucket may do what their kind may, and the S3 server sees to it.

use capvco::sim::rules::KeyRights;

use super::*;

/// What a key may do: list, get, put, delete a version.
fn powers(s3: &S3, place: &Place, version: &str) -> [bool; 4] {
    let file = place.file("new", "new");
    let put = s3.s5cmd(&["cp", &file, "s3://etcd/new"]).code == 0;
    let get = s3.s5cmd(&["cat", "s3://etcd/there"]).code == 0;
    let list = s3.s5cmd(&["ls", "s3://etcd/"]).code == 0;
    let delete = s3.s5cmd(&["rm", "--version-id", version, "s3://etcd/there"]).code == 0;
    [list, get, put, delete]
}

/// A bucket with an object of two versions; the id of the older one.
async fn furnish(place: &Place) -> String {
    place.ok("POST", "/buckets/etcd?enable_locking=true").await;
    let root = place.root().await;
    for content in ["old", "new"] {
        root.s5cmd(&["cp", &place.file("there", content), "s3://etcd/there"]).expect(0);
    }
    let versions =
        root.aws(&["s3api", "list-object-versions", "--bucket", "etcd"]).expect(0).json();
    let versions = versions["Versions"].as_array().unwrap();
    let old = versions.iter().find(|v| v["IsLatest"] == false).unwrap();
    old["VersionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_kind_of_key_may_do_its_own() {
    for (rights, r, w, rw) in [
        (
            KeyRights::Usual,
            [true, true, false, false],
            [false, false, true, false],
            [true, true, true, true],
        ),
        (
            KeyRights::Canned,
            [false, true, false, false],
            [false, false, true, false],
            [true, true, true, true],
        ),
    ] {
        let place = Place::new().await;
        place.sim.world(|w| w.rules.key_rights = rights);
        let version = furnish(&place).await;
        for (kind, may) in [("r", r), ("w", w), ("rw", rw)] {
            let key = place.key("etcd", kind, kind).await;
            assert_eq!(powers(&key, &place, &version), may, "{rights:?} {kind}");
        }
    }
}

#[tokio::test]
async fn a_key_opens_one_bucket_and_can_be_changed_and_taken_away() {
    let place = Place::new().await;
    let version = furnish(&place).await;
    place.ok("POST", "/buckets/other").await;
    let key = place.key("etcd", "k", "r").await;
    key.s5cmd(&["ls", "s3://other/"]).expect(1).says("AccessDenied");
    key.s5cmd(&["mb", "s3://third"]).expect(1);

    let path = "/buckets/etcd/access-management";
    let again = format!("{path}?access_name=k&access_type=r");
    assert_eq!(place.call("POST", &again).await.0, 409);
    assert_eq!(column(&place.get(path).await, "secret_key"), [key.secret_key()]);
    place.ok("PUT", &format!("{path}/k?access_type=w")).await;
    assert_eq!(powers(&key, &place, &version), [false, false, true, false]);
    assert_eq!(column(&place.get(path).await, "access_type"), ["w"]);
    place.ok("DELETE", &format!("{path}/k")).await;
    assert_eq!(powers(&key, &place, &version), [false; 4]);
    for (method, rest) in [("PUT", "/k?access_type=w"), ("DELETE", "/k")] {
        assert_eq!(place.call(method, &format!("{path}{rest}")).await.0, 404);
    }
    assert!(place.record().bucket("etcd").unwrap().keys.is_empty());
    let wrong = place.path(&format!("{path}?access_name=x&access_type=all"));
    assert_eq!(place.raw.wrong("POST", &wrong).await.0, 400);
}

#[tokio::test]
async fn the_lock_keeps_the_schedules_key_from_destroying_anything() {
    let place = Place::new().await;
    furnish(&place).await;
    let key = place.key("etcd", "schedule", "rw").await;
    let file = place.file("locked", "precious");
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24);
    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let put = ["s3api", "put-object", "--bucket", "etcd", "--key", "locked", "--body", &file];
    let lock = ["--object-lock-mode", "GOVERNANCE", "--object-lock-retain-until-date", &until];
    let made = key.aws(&[&put[..], &lock[..]].concat()).expect(0).json();
    let version = made["VersionId"].as_str().unwrap();
    let delete = ["delete-object", "--bucket", "etcd", "--key", "locked", "--version-id", version];
    let delete = [&["s3api"], &delete[..], &["--bypass-governance-retention"]].concat();
    let refused = key.aws(&delete).says("AccessDenied");
    assert_ne!(refused.code, 0);
    let what = ["get-object-retention", "--bucket", "etcd", "--key", "locked"];
    let kept = key.aws(&[&["s3api"], &what[..]].concat()).expect(0).json();
    assert_eq!(kept["Retention"]["Mode"], "GOVERNANCE");
}
