//! Downloads for their digests, and checksums beside images.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use capvco::clock::{self, Stepped};
use capvco::fault::{Class, Fault, chain};
use capvco::publish::source::{Digests, Probe, Sidecars, SourceError};

use crate::source_url::probe;
use crate::support::scripted::{Answer, Asked, End, Scripted};

/// Three megabytes that repeat nowhere.
fn body() -> Vec<u8> {
    (0..3_u32 << 18).flat_map(u32::to_be_bytes).collect()
}

const BODY: u64 = 3 << 20;

/// A clock of which a second passes every few milliseconds, as long as the test lasts.
fn hurried() -> Arc<Stepped> {
    let clock = Stepped::at(0.0);
    let ticking = Arc::downgrade(&clock);
    tokio::spawn(async move {
        while let Some(clock) = ticking.upgrade() {
            clock.advance(Duration::from_secs(1));
            drop(clock);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    clock
}

async fn digest(server: &Scripted, path: &str) -> Result<Digests, SourceError> {
    let probe = Probe::new("t/1", None, hurried()).unwrap();
    probe.digest_url(&server.url(path), BODY, &|_| ()).await
}

/// What md5sum and sha256sum say of it.
fn known() -> Digests {
    let sha256 = "62251a7dc6cd62da02e9b6d5c904dc20e43e25f21c85122d35e92653bce08553";
    Digests { md5: Some("1e119af345bf1cece6dd0a00370b5c4a".into()), sha256: Some(sha256.into()) }
}

#[tokio::test]
async fn one_download_gives_both_digests() {
    let server = Scripted::start(|asked, _| match asked.path.as_str() {
        "/a" => Answer::redirect("/b"),
        _ => Answer::file(asked, &body()),
    })
    .await;
    let seen = AtomicU64::new(0);
    let tell = |n| seen.store(n, Ordering::Relaxed);
    let got = probe().digest_url(&server.url("/a"), BODY, &tell).await.unwrap();
    assert_eq!((got, seen.load(Ordering::Relaxed)), (known(), BODY));
}

#[tokio::test]
async fn a_broken_download_is_taken_up_where_it_stopped() {
    let server = Scripted::start(|asked, before| {
        let whole = Answer::file(asked, &body()).with("ETag", "\"1\"");
        match before {
            0 => whole.cut(1_000_000, End::Close),
            1 => whole.cut(500_000, End::Reset),
            2 => Answer::status("503 Service Unavailable").with("Content-Length", 0),
            _ => whole,
        }
    })
    .await;
    assert_eq!(digest(&server, "/a").await.unwrap(), known());
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[1].range, Some((1_000_000, None)));
    assert_eq!(asked[1].header("if-range"), Some("\"1\""));
}

fn unusual(asked: &Asked, before: usize) -> Answer {
    let whole = || Answer::file(asked, &body());
    match (asked.path.as_str(), before) {
        ("/404", _) => Answer::status("404 Not Found").with("Content-Length", 0),
        ("/always-cut", _) => whole().cut(100_000, End::Close),
        ("/no-ranges", 0) => whole().cut(7, End::Close).without("Accept-Ranges"),
        ("/ranges-forgotten" | "/grown", 0) => whole().cut(7, End::Close),
        ("/ranges-forgotten", _) => Answer::ok(body()),
        ("/new-etag", 0) => whole().cut(7, End::Close).with("ETag", "\"1\""),
        ("/new-etag", _) => whole().with("ETag", "\"2\""),
        ("/grown", _) => Answer::file(asked, &[body(), vec![0]].concat()),
        ("/longer", _) => Answer::ok([body(), vec![0]].concat()),
        ("/endless", _) => Answer::ok([body(), vec![0]].concat()).without("Content-Length"),
        ("/short", _) => Answer::ok(&body()[..1000]).without("Content-Length"),
        ("/stall", _) => whole().cut(1000, End::Hang).without("Accept-Ranges"),
        _ => whole(),
    }
}

#[tokio::test]
async fn a_download_that_is_not_whole_is_never_digested() {
    let server = Scripted::start(unusual).await;
    let table = [
        ("/404", Class::NotFound, "was answered 404"),
        ("/always-cut", Class::Transient, "ended after 500000 of 3145728 bytes"),
        ("/no-ranges", Class::Transient, "ended after 7 of 3145728 bytes"),
        ("/ranges-forgotten", Class::Transient, "ended after 7 of"),
        ("/new-etag", Class::Refused, "its ETag is another one"),
        ("/grown", Class::Refused, "it had 3145728 bytes and now has 3145729"),
        ("/longer", Class::Refused, "it had 3145728 bytes and now has 3145729"),
        ("/endless", Class::Refused, "more than 3145728 bytes came"),
        ("/short", Class::Transient, "ended after 1000 of"),
        ("/stall", Class::Transient, "stood still for 60 s after 1000 of 3145728 bytes"),
    ];
    for (path, class, words) in table {
        let error = digest(&server, path).await.unwrap_err();
        assert!(chain(&error).contains(words), "{path}: {}", chain(&error));
        assert_eq!(error.class(), class, "{path}");
    }
    assert_eq!(server.asked().iter().filter(|a| a.path == "/always-cut").count(), 5);
}

const M: &str = "900150983cd24fb0d6963f7d28e17f72";
const S: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

async fn sidecars(
    files: &'static [(&'static str, &'static str)],
) -> (Result<Sidecars, SourceError>, Vec<Asked>) {
    let server =
        Scripted::start(move |asked, _| match files.iter().find(|(path, _)| *path == asked.path) {
            Some((_, "500")) => Answer::status("500 Oops").with("Content-Length", 0),
            Some((_, "huge")) => Answer::ok(vec![b'a'; 2 << 20]),
            Some((_, "cut")) => Answer::ok(M).cut(5, End::Reset),
            Some((_, text)) => Answer::ok(text.replace('M', M).replace('S', S)),
            None => Answer::status("404 Not Found").with("Content-Length", 0),
        })
        .await;
    let found = probe().sidecars(&server.url("/d/k8s.qcow2?sig=x")).await;
    (found, server.asked())
}

#[tokio::test]
async fn checksums_beside_the_image_are_found() {
    let (none, asked) = sidecars(&[]).await;
    assert_eq!(none.unwrap(), Sidecars::default());
    let mut paths: Vec<_> = asked.into_iter().map(|a| a.path).collect();
    paths.sort();
    let want = [
        "CHECKSUM",
        "MD5SUMS",
        "SHA256SUMS",
        "k8s.qcow2.CHECKSUM",
        "k8s.qcow2.md5",
        "k8s.qcow2.sha256",
    ];
    assert_eq!(paths, want.map(|name| format!("/d/{name}")));

    let files = &[("/d/k8s.qcow2.md5", "M\n"), ("/d/SHA256SUMS", "S *other\nS  k8s.qcow2\n")];
    let found = sidecars(files).await.0.unwrap();
    let (md5, sha256) = (found.md5.unwrap(), found.sha256.unwrap());
    assert_eq!((md5.hex.as_str(), sha256.hex.as_str()), (M, S));
    assert!(md5.from.ends_with("/d/k8s.qcow2.md5") && sha256.from.ends_with("/d/SHA256SUMS"));
}

#[tokio::test]
async fn checksums_that_cannot_be_trusted_are_said() {
    let conflict =
        &[("/d/k8s.qcow2.md5", "M"), ("/d/MD5SUMS", "00000000000000000000000000000000  k8s.qcow2")];
    let error = sidecars(conflict).await.0.unwrap_err();
    assert_eq!(error.class(), Class::Refused);
    assert!(error.to_string().contains("different MD5 checksums"), "{error}");

    let odd = &[
        ("/d/k8s.qcow2.md5", "<html>soft 404</html>"),
        ("/d/k8s.qcow2.sha256", "500"),
        ("/d/SHA256SUMS", "huge"),
        ("/d/MD5SUMS", "cut"),
        ("/d/CHECKSUM", "SHA256 (k8s.qcow2) = S"),
    ];
    let found = sidecars(odd).await.0.unwrap();
    assert_eq!(found.sha256.unwrap().hex, S);
    assert_eq!(found.md5, None);
    let said = found.warnings.join("\n");
    for words in [
        "is a web page",
        "the server answered 500",
        "too long for a checksum",
        "MD5SUMS was not read",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[tokio::test]
async fn progress_is_told_while_it_is_made() {
    static TOLD_EARLY: AtomicBool = AtomicBool::new(false);
    let server = Scripted::start(|asked, _| Answer::file(asked, &body())).await;
    let tell = |n: u64| {
        if n < BODY {
            TOLD_EARLY.store(true, Ordering::Relaxed);
        }
    };
    let probe = Probe::new("t/1", None, clock::System::shared()).unwrap();
    probe.digest_url(&server.url("/a"), BODY, &tell).await.unwrap();
    assert!(TOLD_EARLY.load(Ordering::Relaxed));
}
