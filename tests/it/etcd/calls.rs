//! What members of every line say about themselves.

use capvco::etcd::{AlarmKind, Kind};

use super::{client, told};
use crate::support::peers::etcd::{Cluster, Etcd, LINES};

#[tokio::test]
async fn every_line_tells_of_itself_and_of_its_keys() {
    for line in LINES {
        let etcd = Etcd::start_line(line);
        let client = client(&etcd.endpoint()).await.unwrap();
        let written = client.put("/a", "1").await.unwrap();
        client.put("/b", "2").await.unwrap();
        let last = client.put("/a", "3").await.unwrap();
        assert_eq!(last, written + 2, "{line}");

        let status = client.status().await.unwrap();
        assert!(status.version.starts_with(line), "{line}: {status:?}");
        let storage = status.storage_version.as_deref();
        match line {
            "3.4" | "3.5" => assert_eq!(storage, None, "{line}"),
            _ => assert!(storage.is_some_and(|storage| storage.starts_with(line)), "{status:?}"),
        }
        assert_eq!(status.revision, last, "{line}");
        assert_eq!(status.leader, status.member_id, "{line}: one member leads itself");
        assert!(status.raft_applied_index > 0 && status.raft_term > 0, "{line}: {status:?}");
        assert!(status.db_size >= status.db_size_in_use && status.db_size_in_use > 0, "{line}");
        assert!(!status.is_learner && status.errors.is_empty(), "{line}: {status:?}");

        let members = client.members().await.unwrap();
        assert_eq!(members.len(), 1, "{line}");
        assert_eq!((members[0].id, members[0].name.as_str()), (status.member_id, etcd.name()));
        assert_eq!(members[0].client_urls, [etcd.endpoint()], "{line}");
        assert_eq!(members[0].peer_urls, [etcd.peer_url()], "{line}");

        assert_eq!(client.get("/a").await.unwrap().as_deref(), Some(&b"3"[..]), "{line}");
        assert_eq!(client.get("/c").await.unwrap(), None, "{line}");
        assert_eq!(client.count_keys(0).await.unwrap(), 2, "{line}");
        assert_eq!(client.count_keys(written).await.unwrap(), 1, "{line}");

        let latest = client.hash_kv(0).await.unwrap();
        let early = client.hash_kv(written).await.unwrap();
        assert_eq!(latest, client.hash_kv(last).await.unwrap(), "{line}");
        assert_eq!((latest.revision, early.revision), (last, written), "{line}");
        assert_ne!(latest.hash, early.hash, "{line}");

        let future = client.hash_kv(last + 100).await.unwrap_err();
        assert_eq!(future.kind(), Kind::Answer, "{line}");
        assert!(told(&future).contains("future revision"), "{line}: {}", told(&future));
    }
}

#[tokio::test]
async fn alarms_are_told_by_member_and_kind() {
    let etcd = Etcd::builder().arg("--quota-backend-bytes=65536").start();
    let client = client(&etcd.endpoint()).await.unwrap();
    assert_eq!(client.alarms().await.unwrap(), []);
    let mut refused = None;
    for number in 0..2000 {
        if let Err(error) = client.put(format!("/k{number}"), vec![b'x'; 16 << 10]).await {
            refused = Some(error);
            break;
        }
    }
    assert!(told(&refused.unwrap()).contains("database space exceeded"));
    let alarms = client.alarms().await.unwrap();
    let status = client.status().await.unwrap();
    assert_eq!(alarms.len(), 1);
    assert_eq!((alarms[0].member_id, alarms[0].kind), (status.member_id, AlarmKind::Nospace));
    assert!(status.errors.iter().any(|error| error.contains("NOSPACE")), "{status:?}");
}

#[tokio::test]
async fn a_member_that_has_lost_the_others_is_still_asked() {
    let mut cluster = Cluster::start(3);
    let client = client(&cluster.members[0].endpoint()).await.unwrap();
    assert_eq!(client.members().await.unwrap().len(), 3);
    cluster.members[1].kill();
    cluster.members[2].kill();
    let lost = loop {
        let status = client.status().await.unwrap();
        if status.leader == 0 {
            break status;
        }
        tokio::task::yield_now().await;
    };
    assert!(lost.errors.iter().any(|error| error.contains("no leader")), "{lost:?}");
    assert_eq!(client.members().await.unwrap().len(), 3);
}

#[tokio::test]
async fn who_may_not_is_told_about_etcds_users() {
    let etcd = Etcd::start();
    etcd.etcdctl(&["user", "add", "root:hunter2"]);
    etcd.etcdctl(&["user", "grant-role", "root", "root"]);
    etcd.etcdctl(&["auth", "enable"]);
    let client = client(&etcd.endpoint()).await.unwrap();
    let error = client.put("/a", "1").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Permission, "{}", told(&error));
    let idle = std::time::Duration::from_secs(30);
    let error = match client.snapshot(idle).await {
        Ok(mut stream) => stream.next().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), Kind::Permission, "{}", told(&error));
}
