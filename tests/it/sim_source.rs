//! The embedded image server over real HTTP, and what the cloud's import makes of it.

use std::time::{Duration, Instant};

use capvco::sim::source::{ImageServer, Manner};
use capvco::sim::{Pace, Sim, World};

use crate::support::raw::{Raw, install_tls};

const BYTES: usize = 400_000;

fn content() -> Vec<u8> {
    vec![b'x'; BYTES]
}

fn http() -> reqwest::Client {
    install_tls();
    let builder = reqwest::Client::builder().no_proxy();
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

#[tokio::test]
async fn an_honest_page_has_lengths_and_ranges() {
    let server = ImageServer::start().await.unwrap();
    let url = server.put("/a", content());
    let head = http().head(&url).send().await.unwrap();
    assert_eq!(head.headers()["content-length"], "400000");
    let part = http().get(&url).header("range", "bytes=10-19").send().await.unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(part.headers()["content-range"], "bytes 10-19/400000");
    assert_eq!(part.bytes().await.unwrap().len(), 10);
    let beyond = http().get(&url).header("range", "bytes=400000-").send().await.unwrap();
    assert_eq!(beyond.status(), 416);
    assert_eq!(http().get(server.url("/b")).send().await.unwrap().status(), 404);
    let hits = server.hits();
    assert_eq!((hits.len(), hits[1].range.as_deref()), (4, Some("bytes=10-19")));
    server.stop().await;
}

#[tokio::test]
async fn a_file_and_its_checksum_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, "content").unwrap();
    let server = ImageServer::start().await.unwrap();
    let (url, md5) = server.put_with_md5("/a", path).unwrap();
    assert_eq!(md5, "9a0364b9e99bb480dd25e1f0284c8555");
    let text = |url: String| async { http().get(url).send().await.unwrap().text().await.unwrap() };
    assert_eq!(text(format!("{url}.md5")).await.trim(), md5);
    assert_eq!(text(url).await, "content");
    assert!(server.put_with_md5("/b", dir.path().join("b")).is_err());
}

#[tokio::test]
async fn bad_manners_are_bad() {
    let server = ImageServer::start().await.unwrap();
    for (manner, head, get, bytes) in [
        (Manner::NoHead, 405, 200, Some(BYTES)),
        (Manner::NoLength, 200, 200, Some(BYTES)),
        (Manner::RedirectLoop, 302, 302, Some(10)),
        (Manner::Status(503), 503, 503, Some(8)),
        (Manner::TruncateAt(1000), 200, 200, None),
        (Manner::ResetAt(1000), 200, 200, None),
    ] {
        let url = server.put_with("/a", content(), manner.clone());
        let answer = http().head(&url).send().await.unwrap();
        assert_eq!(answer.status(), head, "{manner:?}");
        let has_length = answer.headers().contains_key("content-length");
        assert_eq!(has_length, manner != Manner::NoLength, "{manner:?}");
        let answer = http().get(&url).send().await.unwrap();
        assert_eq!(answer.status(), get, "{manner:?}");
        let got = answer.bytes().await.ok().map(|b| b.len());
        assert_eq!(got, bytes, "{manner:?}");
    }
}

#[tokio::test]
async fn redirects_are_counted() {
    let server = ImageServer::start().await.unwrap();
    let mut url = server.put_with("/a", content(), Manner::Redirects(2));
    for _ in 0..2 {
        let answer = http().get(&url).send().await.unwrap();
        assert_eq!(answer.status(), 302);
        url = server.url(answer.headers()["location"].to_str().unwrap());
    }
    assert_eq!(http().get(&url).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_slow_page_is_slow() {
    let server = ImageServer::start().await.unwrap();
    let url = server.put_with("/a", vec![0; 10_000], Manner::Slow(20_000));
    let start = Instant::now();
    http().get(&url).send().await.unwrap().bytes().await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn the_import_refuses_what_the_back_end_refuses() {
    let server = ImageServer::start().await.unwrap();
    for (manner, redirects, code, becomes) in [
        (Manner::Honest, 0, 200, "CREATED"),
        (Manner::NoHead, 0, 400, ""),
        (Manner::NoLength, 0, 400, ""),
        (Manner::Status(404), 0, 400, ""),
        (Manner::Redirects(2), 0, 400, ""),
        (Manner::Redirects(2), 2, 200, "CREATED"),
        (Manner::RedirectLoop, 5, 400, ""),
        (Manner::TruncateAt(1000), 0, 200, "ERROR"),
        (Manner::ResetAt(1000), 0, 200, "ERROR"),
    ] {
        let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
        sim.world(|w| w.rules.redirects = redirects);
        let raw = Raw::new(&sim);
        let url = server.put_with("/a", content(), manner.clone());
        let create = format!(
            "{{L}}?name=k8s&url={url}&memory=512&boot_disk_size=5&boot_type=uefi\
             &os_name=Linux%20-%20other&os_type=Linux"
        );
        assert_eq!(raw.call("POST", &create).await.0, code, "{manner:?}");
        if code == 200 {
            assert_eq!(raw.get("{L}/101").await["status"], becomes, "{manner:?}");
        }
    }
}
