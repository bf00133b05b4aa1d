//! The real peers start, answer, and do what tests of backups count on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};

use crate::support::peers::etcd::{Cluster, Etcd, LINES, etcdutl, initial_cluster};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::{BUCKET, Moto, S3, Seaweed, Versitygw};
use crate::support::peers::tls::Tls;
use crate::support::peers::{clean, run, tool};

fn message_of(failing: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(failing)).expect_err("it should have failed");
    panic.downcast_ref::<String>().expect("the message is formatted").clone()
}

#[test]
fn a_missing_tool_says_how_to_get_it() {
    let missing =
        [("etcdctl-2.0", "etcd"), ("age-2", "age"), ("kubectl-2", "kube"), ("capi-2", "capi")];
    for (name, group) in missing {
        let said = message_of(|| drop(tool(name)));
        assert!(said.ends_with(&format!("run scripts/test-tools {group}")), "{said}");
    }
}

#[test]
fn the_tools_of_kubernetes_and_of_cluster_api_fit_each_other() {
    let says = |name: &str, args: &[&str]| run(clean(tool(name)).args(args)).expect(0).out;
    let line = says("kube-apiserver", &["--version"]);
    let line = line.trim().rsplit_once('.').map_or(line.as_str(), |(line, _)| line);
    let line = line.trim_start_matches("Kubernetes ").to_owned() + ".";
    let kubeadm = says("kubeadm", &["version", "--output=short"]);
    assert!(kubeadm.starts_with(&line), "{kubeadm} is none of {line}");
    let manager = says("kube-controller-manager", &["--version"]);
    assert!(manager.contains(&line), "{manager} is none of {line}");

    let clusterctl = says("clusterctl", &["version", "--output=short"]);
    for part in ["cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm"] {
        let repository = tool("cluster-api").join(part).join(clusterctl.trim());
        assert!(repository.join("metadata.yaml").is_file(), "{}", repository.display());
    }
    assert_eq!(std::fs::read_dir(tool("cert-manager-crds")).unwrap().count(), 6);
}

#[test]
fn a_peer_that_does_not_start_shows_its_log() {
    let said = message_of(|| drop(Etcd::builder().arg("--frobnicate").start()));
    assert!(said.contains("before it was ready") && said.contains("frobnicate"), "{said}");
}

#[test]
fn every_line_of_etcd_keeps_a_key() {
    for line in LINES {
        let etcd = Etcd::start_line(line);
        assert_eq!(etcd.etcdctl(&["put", "a", "b"]), "OK\n");
        assert_eq!(etcd.etcdctl(&["get", "a", "--print-value-only"]), "b\n");
        let version = etcd.etcdctl(&["endpoint", "status", "-w", "json"]);
        assert!(version.contains(&format!(r#""version":"{line}."#)), "{version}");
    }
}

#[test]
fn etcd_outlives_what_is_done_to_it() {
    let mut etcd = Etcd::start();
    etcd.etcdctl(&["put", "a", "b"]);
    etcd.pause();
    let hung = etcd.try_etcdctl(&["get", "a", "--command-timeout=300ms"]);
    assert!(hung.code != 0, "{hung:?}");
    etcd.resume();
    etcd.kill();
    etcd.restart();
    assert_eq!(etcd.etcdctl(&["get", "a", "--print-value-only"]), "b\n");
    etcd.stop();
    let gone = etcd.try_etcdctl(&["get", "a", "--command-timeout=300ms"]);
    assert!(gone.code != 0, "{gone:?}");
}

#[tokio::test]
async fn etcd_turns_away_who_shows_no_certificate() {
    let etcd = Etcd::builder().line("3.6").client_auth(&Arc::new(Tls::new())).start();
    etcd.etcdctl(&["put", "a", "b"]);
    assert_eq!(etcd.fill(3, 10, Values::Compressible), 3);
    assert_eq!(etcd.etcdctl(&["get", "/registry", "--prefix", "--keys-only"]).lines().count(), 6);
    let stranger = [&["--cert=", "--key=", "--command-timeout=2s"][..], &["get", "a"]].concat();
    let turned_away = etcd.try_etcdctl(&stranger);
    assert!(turned_away.code != 0, "{turned_away:?}");
}

#[test]
fn a_cluster_outlives_its_leader() {
    let mut cluster = Cluster::start(3);
    cluster.members[0].etcdctl(&["put", "a", "b"]);
    let leader = cluster.leader();
    cluster.members[leader].kill();
    let next = cluster.leader();
    assert_ne!(next, leader);
    let other = &cluster.members[3 - leader - next];
    let all = cluster.endpoints();
    assert_eq!(other.etcdctl(&["--endpoints", &all, "put", "a", "c"]), "OK\n");
    assert_eq!(other.etcdctl(&["get", "a", "--print-value-only"]), "c\n");
    cluster.members[leader].restart();
    assert_eq!(cluster.members[leader].etcdctl(&["get", "a", "--print-value-only"]), "c\n");
}

#[test]
fn filling_is_as_large_as_it_was_asked_for() {
    let etcd = Etcd::start();
    etcd.fill(300, 10_000, Values::Random);
    let count = ["get", "/registry/", "--prefix", "--count-only", "-w", "fields"];
    assert!(etcd.etcdctl(&count).contains("\"Count\" : 300\n"));
    let last = ["get", "/registry/pods/default/pod-0000299", "--print-value-only", "--hex"];
    let noise = etcd.etcdctl(&last);
    assert_eq!(noise.matches("\\x").count(), 10_000);
    etcd.fill(300, 10_000, Values::Compressible);
    let text = etcd.etcdctl(&["get", "/registry/pods/default/pod-0000299", "--print-value-only"]);
    assert!(text.len() == 10_001 && text.matches("\"pod-0000299\"").count() > 50, "{text}");
}

#[test]
fn restored_members_find_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot.db").display().to_string();
    let etcd = Etcd::start_line("3.6");
    etcd.etcdctl(&["put", "a", "b"]);
    etcd.etcdctl(&["snapshot", "save", &snapshot]);
    let members = ["m0", "m1", "m2"].map(|name| Etcd::builder().line("3.6").name(name));
    let cluster = initial_cluster(&members);
    let restored = members.map(|member| {
        let name = initial_cluster(std::slice::from_ref(&member));
        let name = name.split('=').next().unwrap();
        let data = folder.path().join(name);
        let mut args = vec!["snapshot", "restore", &snapshot, "--name", name];
        let (peer, data_dir) = (member.peer_url(), data.display().to_string());
        args.extend(["--initial-cluster", &cluster, "--data-dir", &data_dir]);
        args.extend(["--initial-advertise-peer-urls", &peer]);
        etcdutl("3.6", &args);
        member.data_dir(data)
    });
    let cluster = Cluster::of(restored.into());
    for member in &cluster.members {
        assert_eq!(member.etcdctl(&["get", "a", "--print-value-only"]), "b\n");
    }
}

/// Puts an object under COMPLIANCE for an hour; its version.
fn put_locked(store: &S3, key: &str) -> String {
    let until = (Timestamp::now() + 1.hour()).to_string();
    let put = ["s3api", "put-object", "--bucket", BUCKET, "--key", key, "--body", "Cargo.toml"];
    let lock = ["--object-lock-mode", "COMPLIANCE", "--object-lock-retain-until-date", &until];
    let done = store.aws(&[&put[..], &lock].concat()).expect(0);
    done.json()["VersionId"].as_str().expect("a bucket with Object Lock has versions").to_owned()
}

fn lock_holds(store: &S3) {
    let version = put_locked(store, "a/b");
    let object = ["--bucket", BUCKET, "--key", "a/b", "--version-id", &version];
    let delete = [&["s3api", "delete-object"], &object[..]].concat();
    for more in [None, Some("--bypass-governance-retention")] {
        let args: Vec<&str> = delete.iter().copied().chain(more).collect();
        store.aws(&args).expect(255).says("AccessDenied");
    }
    let head = store.aws(&[&["s3api", "head-object"], &object[..]].concat()).expect(0).json();
    assert_eq!(head["ObjectLockMode"], "COMPLIANCE");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    store.aws(&[&["s3api", "get-object"], &object[..], &[path]].concat()).expect(0);
    assert_eq!(std::fs::read(path).unwrap(), std::fs::read("Cargo.toml").unwrap());
}

#[test]
fn versitygw_holds_a_lock_and_a_user_to_what_he_may() {
    let store = Versitygw::start();
    lock_holds(&store);
    let user = store.append_only_user();
    put_locked(&user, "a/c");
    let object = ["--bucket", BUCKET, "--key", "a/c"];
    let get = [&["s3api", "get-object"], &object[..], &["/dev/null"]].concat();
    user.aws(&get).expect(255).says("AccessDenied");
    user.aws(&[&["s3api", "delete-object"], &object[..]].concat()).expect(255).says("AccessDenied");
    user.aws(&["s3api", "list-objects-v2", "--bucket", BUCKET]).expect(255).says("AccessDenied");
    let lock = ["s3api", "get-object-lock-configuration", "--bucket", BUCKET];
    user.aws(&lock).expect(255).says("AccessDenied");
    let reader = ["s3:ListBucket", "s3:GetObject", "s3:GetBucketObjectLockConfiguration"];
    store.allow(&user, BUCKET, &reader);
    let lock = user.aws(&lock).expect(0).json();
    assert_eq!(lock["ObjectLockConfiguration"]["ObjectLockEnabled"], "Enabled");
    user.aws(&["s3api", "list-objects-v2", "--bucket", BUCKET]).expect(0).json();
    user.aws(&get).expect(0);
    user.with_key("nobody", "x").aws(&get).expect(255).says("InvalidAccessKeyId");
}

#[test]
fn versitygw_keeps_objects_over_a_restart_and_speaks_tls() {
    let mut store = Versitygw::start_tls(&Arc::new(Tls::new()));
    put_locked(&store, "a/b");
    store.restart();
    let listed = store.aws(&["s3api", "list-objects-v2", "--bucket", BUCKET]).expect(0).json();
    assert_eq!(listed["Contents"][0]["Key"], "a/b");
    assert!(store.data_dir().join(BUCKET).join("a/b").is_file());
}

#[test]
fn seaweedfs_holds_a_lock() {
    lock_holds(&Seaweed::start());
}

#[test]
fn moto_holds_a_lock_and_lets_every_secret_in() {
    let store = Moto::start();
    lock_holds(&store);
    put_locked(&store.with_key("root", "wrong"), "a/c");
}
