//! Snapshots: of every line, whole; and damaged in every way, refused.

use std::sync::Arc;
use std::time::Duration;

use capvco::clock::{Clock, Stepped};
use capvco::etcd::receive::Malformed;
use capvco::etcd::{Access, Client, Error, Kind, SnapshotStream};
use capvco::fault::{Class, Fault as _};
use sha2::{Digest as _, Sha256};

use super::{client, told};
use crate::support::liar::{Act, Liar, whole};
use crate::support::peers::etcd::{Etcd, LINES, etcdutl};
use crate::support::peers::fill::Values;

const IDLE: Duration = Duration::from_secs(30);

/// All bytes of a snapshot, or why there are none.
async fn take(mut stream: SnapshotStream) -> Result<Vec<u8>, Error> {
    let mut data = Vec::new();
    while let Some(bytes) = stream.next().await? {
        data.extend_from_slice(&bytes);
        assert!(stream.total().is_some_and(|total| total >= data.len() as u64));
    }
    assert_eq!(stream.total(), Some(data.len() as u64));
    assert_eq!(stream.digest(), Some(Sha256::digest(&data).into()));
    Ok(data)
}

async fn snapshot(endpoint: &str) -> Result<Vec<u8>, Error> {
    take(client(endpoint).await?.snapshot(IDLE).await?).await
}

#[tokio::test]
async fn snapshots_of_every_line_come_whole_and_etcds_own_tool_restores_them() {
    for line in LINES {
        let etcd = Etcd::start_line(line);
        let revision = etcd.fill(500, 2048, Values::Compressible);
        let mut data = snapshot(&etcd.endpoint()).await.unwrap();
        assert_eq!(data.len() % 4096, 0, "{line}: pages and nothing else");

        // etcd's tool wants the checksum at the end, and compares it.
        let digest = Sha256::digest(&data);
        data.extend_from_slice(&digest);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("snapshot.db");
        std::fs::write(&file, data).unwrap();
        let file = file.to_str().unwrap();
        let newer = if line == "3.4" { "3.5" } else { line };
        let status = etcdutl(newer, &["snapshot", "status", file, "-w", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["revision"], revision, "{line}: {status}");
        let restored = folder.path().join("restored");
        etcdutl(newer, &["snapshot", "restore", file, "--data-dir", restored.to_str().unwrap()]);
    }
}

#[tokio::test]
async fn a_healthy_liar_is_believed() {
    for (data, size) in [(vec![1; 8192], 4096), (vec![2; 100_000], 32_768), (vec![3; 1], 1)] {
        let liar = Liar::start(whole(&data, size)).await;
        assert_eq!(snapshot(&liar.endpoint()).await.unwrap(), data);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_the_rules_is_refused_and_worth_another_member() {
    let data = vec![7_u8; 8192];
    let sum = Sha256::digest(&data).to_vec();
    let first = || Act::Send(4096, data[..4096].to_vec());
    let rest = || Act::Send(0, data[4096..].to_vec());
    let mut wrong = sum.clone();
    wrong[31] ^= 1;
    for (acts, malformed) in [
        (vec![], Malformed::NeverBegan),
        (vec![first()], Malformed::Early { left: 4096 }),
        (vec![first(), rest()], Malformed::NoTrailer),
        (vec![first(), Act::Send(4096, vec![])], Malformed::Blank { left: 4096 }),
        (vec![first(), Act::Blanks(4096)], Malformed::Blank { left: 4096 }),
        (vec![first(), Act::Send(1, vec![7; 4096])], Malformed::Remainder { wanted: 0, said: 1 }),
        (vec![first(), Act::Send(0, vec![7; 4097])], Malformed::TooMuch { left: 4096, got: 4097 }),
        (vec![first(), rest(), Act::Send(0, wrong)], Malformed::Digest),
        (vec![first(), rest(), Act::Send(0, sum[1..].to_vec())], Malformed::TrailerLength(31)),
        (vec![first(), rest(), Act::Send(0, sum.clone()), rest()], Malformed::Extra),
        (vec![Act::Send(u64::MAX, vec![7; 4096])], Malformed::Size),
    ] {
        let liar = Liar::start(acts).await;
        let error = snapshot(&liar.endpoint()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Malformed(malformed), "{}", told(&error));
        assert_eq!(error.class(), Class::Transient);
        assert!(error.hints()[0].contains("another member"));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_no_snapshot() {
    let data = vec![7_u8; 8192];
    let sum = Sha256::digest(&data).to_vec();
    let begun = vec![Act::Send(4096, data[..4096].to_vec())];
    let all = [&begun[..], &[Act::Send(0, data[4096..].to_vec()), Act::Send(0, sum)]].concat();
    let with = |acts: &[Act], act| [acts, &[act]].concat();
    let refused = "etcdserver: the member is stopping";
    for (acts, kind) in [
        (with(&begun, Act::Reset), Kind::Lost),
        (with(&begun, Act::Drop), Kind::Lost),
        (with(&begun, Act::Status(14, refused)), Kind::Unavailable),
        (with(&begun, Act::Status(13, "panic")), Kind::Answer),
        (with(&begun, Act::Raw(vec![0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff])), Kind::Answer),
        (with(&begun, Act::Raw(vec![9; 64])), Kind::Answer),
        // Even after everything came, the end has to be a good one.
        (with(&all, Act::Reset), Kind::Lost),
        (with(&all, Act::Drop), Kind::Lost),
        (with(&all, Act::Status(13, "panic")), Kind::Answer),
        (vec![Act::Status(12, "unknown service")], Kind::Unknown),
        (vec![Act::Status(7, "etcdserver: permission denied")], Kind::Permission),
    ] {
        let liar = Liar::start(acts.clone()).await;
        let error = snapshot(&liar.endpoint()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{acts:?}: {}", told(&error));
    }
}

#[tokio::test]
async fn a_member_that_hangs_is_given_up_after_the_idle_time_and_not_before() {
    for acts in [vec![Act::Hang], vec![Act::Send(4096, vec![7; 4096]), Act::Hang]] {
        let liar = Liar::start(acts.clone()).await;
        let clock = Stepped::at(0.0);
        let endpoint = liar.endpoint();
        let shared: Arc<dyn Clock> = clock.clone();
        let client = Client::connect(&Access::to(&[&endpoint]), &endpoint, shared).await.unwrap();
        let mut stream = client.snapshot(IDLE).await.unwrap();
        if acts.len() == 2 {
            assert_eq!(stream.next().await.unwrap().unwrap().len(), 4096);
        }
        clock.advance(IDLE * 10);
        let waiting = tokio::spawn(async move { stream.next().await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished(), "time before the wait does not count");
        clock.advance(IDLE);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Stalled(IDLE), "{}", told(&error));
        assert_eq!(error.class(), Class::Transient);
    }
}

#[tokio::test]
async fn a_member_killed_on_the_way_is_no_snapshot() {
    let mut etcd = Etcd::start();
    etcd.fill(1000, 32 << 10, Values::Random);
    let client = client(&etcd.endpoint()).await.unwrap();
    let mut stream = client.snapshot(IDLE).await.unwrap();
    stream.next().await.unwrap().unwrap();
    etcd.kill();
    let error = take(stream).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Lost, "{}", told(&error));
    assert_eq!(error.class(), Class::Transient);
}

#[tokio::test]
async fn a_reader_that_pauses_gets_all_of_it_all_the_same() {
    let etcd = Etcd::start();
    etcd.fill(600, 32 << 10, Values::Random);
    let client = client(&etcd.endpoint()).await.unwrap();
    let (mut messages, mut receiver) = client.snapshot(IDLE).await.unwrap().split();
    let mut count = 0_u32;
    while let Some(chunk) = messages.next().await.unwrap() {
        receiver.feed(chunk.remaining, &chunk.blob).unwrap();
        count += 1;
        if count == 10 {
            // The member waits in the middle of it, and answers other calls meanwhile.
            assert!(client.status().await.unwrap().db_size > 0);
        }
    }
    receiver.end().unwrap();
    assert!(count > 500, "{count}");
}
