//! URLs of images, good and bad, as a probe sees them.

use std::sync::Arc;
use std::time::Duration;

use capvco::clock::{self, Stepped};
use capvco::fault::{Class, Fault, chain};
use capvco::publish::image::Format;
use capvco::publish::source::{Probe, SourceError, UrlFacts};

use crate::support::images::qcow2;
use crate::support::scripted::{Answer, Asked, End, Scripted};

pub fn probe() -> Probe {
    Probe::new("capvco-test/1", None, clock::System::shared()).unwrap()
}

async fn check(server: &Scripted, path: &str) -> Result<UrlFacts, SourceError> {
    probe().check_url(&server.url(path)).await
}

#[tokio::test]
async fn an_honest_server_needs_two_requests() {
    let server =
        Scripted::start(|asked, _| Answer::file(asked, &qcow2(3 << 30)).with("ETag", "\"abc\""))
            .await;
    let facts = check(&server, "/k8s.qcow2?sig=1").await.unwrap();
    assert_eq!((facts.format, facts.virtual_bytes), (Format::Qcow2, Some(3 << 30)));
    assert_eq!((facts.bytes, facts.redirects), (qcow2(0).len() as u64, 0));
    assert_eq!(facts.etag.as_deref(), Some("\"abc\""));
    assert_eq!(facts.warnings, Vec::<String>::new());
    let asked = server.asked();
    assert_eq!(asked.iter().map(|a| a.method.as_str()).collect::<Vec<_>>(), ["HEAD", "GET"]);
    assert_eq!(asked[1].range, Some((0, Some(65_535))));
    assert_eq!(asked[0].header("user-agent"), Some("capvco-test/1"));
    assert!(asked.iter().all(|a| a.header("authorization").is_none()));
}

/// `/5` redirects to `/4` and so on; `/0` is the image.
fn stairs(asked: &Asked) -> Answer {
    match asked.path.trim_start_matches('/').parse::<u32>() {
        Ok(0) => Answer::file(asked, &qcow2(1 << 30)),
        // Every second one is relative.
        Ok(n) if n % 2 == 0 => Answer::redirect(&format!("{}", n - 1)),
        Ok(n) => Answer::redirect(&format!("http://{}/{}", asked.header("host").unwrap(), n - 1)),
        Err(_) => Answer::status("404 Not Found"),
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_six_are_not() {
    let server = Scripted::start(|asked, _| stairs(asked)).await;
    let facts = check(&server, "/5").await.unwrap();
    assert_eq!((facts.redirects, facts.final_url), (5, server.url("/0")));
    let error = check(&server, "/6").await.unwrap_err();
    assert!(matches!(error, SourceError::TooManyRedirects { limit: 5, .. }), "{error}");
}

/// What one path answers, for the table below.
fn bad(asked: &Asked) -> Answer {
    let image = qcow2(1 << 30);
    let head = asked.method == "HEAD";
    match asked.path.as_str() {
        "/404" => Answer::status("404 Not Found").with("Content-Length", 0),
        "/503" => Answer::status("503 Service Unavailable").with("Content-Length", 0),
        "/loop" => Answer::redirect("/round"),
        "/round" => Answer::redirect("/loop"),
        "/nowhere" => Answer::redirect("ftp://x.test/a"),
        "/to-user" => Answer::redirect("https://bob:geheim@x.test/a"),
        "/no-length" => Answer::file(asked, &image).without("Content-Length"),
        "/204" => Answer::status("204 No Content"),
        "/html" => Answer::ok("<!DOCTYPE html><title>Sign in</title>"),
        "/gzip" => Answer::ok([&b"\x1f\x8b\x08"[..], &[0; 600]].concat()),
        "/empty" => Answer::ok(""),
        "/cut" if !head => Answer::file(asked, &image).cut(1000, End::Close),
        "/reset" if !head => Answer::file(asked, &image).cut(1000, End::Reset),
        "/signed" if head => Answer::status("403 Forbidden").with("Content-Length", 0),
        "/no-head" if head => Answer::status("405 Method Not Allowed").with("Content-Length", 0),
        "/private" => Answer::status("403 Forbidden").with("Content-Length", 0),
        "/other-length" if head => Answer::ok(vec![0; 77]),
        "/backing" => {
            let mut image = image;
            image[8..16].copy_from_slice(&512_u64.to_be_bytes());
            image[16..20].copy_from_slice(&4_u32.to_be_bytes());
            image[512..516].copy_from_slice(b"base");
            Answer::file(asked, &image)
        }
        _ => Answer::file(asked, &image),
    }
}

#[tokio::test]
async fn every_bad_url_has_one_clear_error() {
    let server = Scripted::start(|asked, _| bad(asked)).await;
    let table = [
        ("/404", Class::NotFound, "was answered 404"),
        ("/503", Class::Transient, "was answered 503"),
        ("/loop", Class::Refused, "redirects in a circle"),
        ("/nowhere", Class::Refused, "neither http nor https"),
        ("/to-user", Class::Refused, "user or password"),
        ("/no-length", Class::Refused, "without Content-Length"),
        ("/204", Class::Refused, "was answered 204"),
        ("/html", Class::Refused, "it is an HTML page"),
        ("/gzip", Class::Refused, "compressed with gzip"),
        ("/empty", Class::Refused, "it is empty"),
        ("/cut", Class::Transient, "ended after 1000 of"),
        ("/reset", Class::Transient, "ended after "),
        ("/signed", Class::Refused, "was answered 403, though GET works"),
        ("/no-head", Class::Refused, "was answered 405, though GET works"),
        ("/private", Class::Refused, "was answered 403"),
        ("/other-length", Class::Refused, "HEAD says 77 bytes, GET"),
        ("/backing", Class::Refused, "backing file \"base\""),
    ];
    for (path, class, words) in table {
        let error = check(&server, path).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains(words), "{path}: {text}");
        assert_eq!(error.class(), class, "{path}: {text}");
        assert!(!text.contains("geheim"), "{text}");
    }
}

#[tokio::test]
async fn a_presigned_url_explains_itself_and_keeps_its_signature() {
    let server = Scripted::start(|asked, _| match asked.method.as_str() {
        "HEAD" => Answer::status("403 Forbidden").with("Content-Length", 0),
        _ => Answer::file(asked, &qcow2(1 << 30)),
    })
    .await;
    let error = check(&server, "/a.qcow2?X-Amz-Signature=geheim").await.unwrap_err();
    assert!(error.to_string().contains("?X-Amz-Signature=…"), "{error}");
    assert!(error.hints()[0].contains("presigned"), "{:?}", error.hints());
}

#[tokio::test]
async fn a_server_that_ignores_ranges_is_left_early() {
    let server = Scripted::start(|asked, _| {
        let mut large = qcow2(1 << 30);
        large.resize(256 << 20, 0);
        Answer::file(&Asked { range: None, ..asked.clone() }, &large)
    })
    .await;
    let facts = check(&server, "/large").await.unwrap();
    assert_eq!(facts.bytes, 256 << 20);
}

#[tokio::test]
async fn an_image_called_a_page_is_only_worth_a_word() {
    let server = Scripted::start(|asked, _| {
        Answer::file(asked, &qcow2(1 << 30)).with("Content-Type", "text/html; charset=utf-8")
    })
    .await;
    let facts = check(&server, "/a").await.unwrap();
    assert!(facts.warnings[0].contains("text/html"), "{:?}", facts.warnings);
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for_for_ever() {
    let server = Scripted::start(|_, _| Answer::silence()).await;
    let clock = Stepped::at(0.0);
    let probe = Probe::new("t/1", None, Arc::clone(&clock) as Arc<dyn clock::Clock>).unwrap();
    let url = server.url("/a");
    let asked = tokio::spawn(async move { probe.check_url(&url).await });
    while server.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(61));
    let error = asked.await.unwrap().unwrap_err();
    assert_eq!(error.class(), Class::Transient);
    assert!(chain(&error).contains("nothing came for 60 s"), "{}", chain(&error));
}

/// Promises `length` bytes to every request, and sends one whenever the clock has moved on 20 s.
async fn dripping(clock: Arc<Stepped>, length: usize) -> url::Url {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let clock = Arc::clone(&clock);
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked).await;
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                let mut going = stream.write_all(head.as_bytes()).await;
                while !asked.starts_with(b"HEAD") && going.is_ok() {
                    clock::Clock::sleep(&*clock, Duration::from_secs(20)).await;
                    going = stream.write_all(b"Q").await;
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_server_that_drips_is_not_waited_for_for_ever() {
    let clock = Stepped::at(0.0);
    let url = dripping(Arc::clone(&clock), 100_000).await;
    let probe = Probe::new("t/1", None, Arc::clone(&clock) as Arc<dyn clock::Clock>).unwrap();
    let look = async { tokio::join!(probe.check_url(&url), probe.sidecars(&url)) };
    let time = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            clock.advance(Duration::from_secs(20));
        }
    };
    let (facts, beside) = tokio::select! { seen = look => seen, () = time => unreachable!() };
    let error = facts.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
    assert!(chain(&error).contains("did not come within 60 s"), "{}", chain(&error));
    let warnings = beside.unwrap().warnings;
    assert_eq!(warnings.len(), 6, "{warnings:?}");
    assert!(warnings[0].contains("did not come within 60 s"), "{warnings:?}");
}

#[tokio::test]
async fn nobody_there_is_the_other_sides_failure() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/a?k=geheim", free.local_addr().unwrap()).parse().unwrap();
    drop(free);
    let error = probe().check_url(&url).await.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
    assert!(!chain(&error).contains("geheim"), "{}", chain(&error));
}

#[test]
fn a_file_without_certificates_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let clock = clock::System::shared();
    assert!(Probe::new("t/1", Some(file.path()), clock).is_err());
}
