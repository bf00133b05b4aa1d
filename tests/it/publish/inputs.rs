//! Wrong inputs: all told at once, before anything is sent.

use capvco::sim::World;

use super::{
    BE, NAME, NL, calls, image, imagepublish, images, md5, other_image, program, publish, server,
    sha256,
};
use crate::support::cloud::cloud;
use crate::support::scripted::{Answer, End, Scripted};

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once() {
    let sim = cloud("publish-inputs", World::small()).await;
    let server = server(&[]).await;
    let url = server.url("/nothing.qcow2");
    let words = format!("-url {url} -locations {BE},nowhere-1,nowhere-2 -md5 xyz -os-name");
    let done = program(&sim).words(&words).arg("BeOS").words("-name").arg("two words").run().await;
    let done = done.expect(3);
    for text in ["holds ' '", "404", "nowhere-1", "nowhere-2", "-md5 is not 32 hex digits"] {
        assert!(done.err.contains(text), "{text}: {}", done.err);
    }
    done.says("there are: be-mac-dc01-001, nl-rmd-dc01-001, qt-gen-dc01-003");
    let wrong_sums =
        format!("-sha256 {} -locations {BE},nowhere-1 -os-name BeOS", sha256(&other_image()));
    let done = publish(&sim, &server, "/k8s.qcow2", &wrong_sums).await.expect(3);
    done.says("has the SHA-256").says("nowhere-1").says("-os-name \"BeOS\" is unknown");
    assert_eq!(calls(&sim, "POST", ""), 0);
}

#[tokio::test]
async fn bad_names_are_one_clear_error_each() {
    let sim = cloud("publish-names", World::small()).await;
    let server = server(&[]).await;
    let url = server.url("/k8s.qcow2");
    let long = "x".repeat(200);
    for name in ["two words", "quo\"te", "it's", "ünïcode", &long, ""] {
        let words = format!("-url {url} -locations {BE} -name");
        let done = program(&sim).words(&words).arg(name).run().await.expect(2);
        assert_eq!(done.err.matches("error: ").count(), 1, "{name}: {}", done.err);
        assert_eq!(done.out, "");
    }
    assert_eq!(calls(&sim, "POST", ""), 0);
}

#[tokio::test]
async fn bad_locations_are_refused() {
    let mut world = World::small();
    world.site(NL).storage_only = true;
    let sim = cloud("publish-places", world).await;
    let server = server(&[]).await;
    for (at, code, text) in [
        ("nowhere", 3, "location nowhere is none of this customer's"),
        (NL, 3, "only stores data"),
        (",", 2, "names no location"),
        ("all,be-mac-dc01-001", 2, "names all and others"),
    ] {
        let done = publish(&sim, &server, "/k8s.qcow2", &format!("-locations {at}")).await;
        done.expect(code).says(text);
    }
    let done = publish(&sim, &server, "/k8s.qcow2", "-locations all").await.expect(0);
    done.says("only stores data and can host no VM; it is left out");
    assert_eq!(images(&sim, NL).len(), 0);
}

#[tokio::test]
async fn as_many_locations_at_once_as_one_likes() {
    let sim = cloud("publish-parallel", World::small()).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -parallel {}", usize::MAX);
    publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
}

#[tokio::test]
async fn bad_urls_are_refused_before_anything_is_sent() {
    let sim = cloud("publish-urls", World::small()).await;
    let server = Scripted::start(|asked, _| match asked.path.as_str() {
        "/loop" => Answer::redirect("/loop"),
        "/length" => Answer::ok(image()).without("Content-Length"),
        "/html" => Answer::file(asked, b"<!DOCTYPE html><html><body>not found</body></html>"),
        "/cut" if asked.method == "GET" => Answer::ok(image()).cut(100, End::Close),
        "/cut" => Answer::ok(image()),
        "/reset" => Answer::ok(image()).cut(0, End::Reset),
        _ => Answer::status("404 Not Found").with("Content-Length", 0),
    })
    .await;
    for (path, codes, text) in [
        ("/none", &[3][..], "404"),
        ("/loop", &[3], "circle"),
        ("/length", &[3], "without Content-Length"),
        ("/html", &[3], "cannot be published"),
        ("/cut", &[3, 4], "/cut"),
        ("/reset", &[3, 4], "/reset"),
    ] {
        let done = publish(&sim, &server, path, &format!("-locations {BE}")).await;
        assert!(codes.contains(&done.code), "{path}: {} {}", done.code, done.err);
        assert_eq!(done.err.matches("error: ").count(), 1, "{path}: {}", done.err);
        done.says(text);
    }
    assert_eq!(calls(&sim, "POST", ""), 0);
}

#[tokio::test]
async fn a_wrong_sha256_of_a_url_is_found_by_one_download() {
    let sim = cloud("publish-wrong-sha", World::small()).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -sha256 {}", sha256(&other_image()));
    publish(&sim, &server, "/k8s.qcow2", &more).await.expect(3).says("has the SHA-256");
    let stale = super::server(&[("/k8s.qcow2.sha256", sha256(&other_image()))]).await;
    let more = format!("-locations {BE}");
    publish(&sim, &stale, "/k8s.qcow2", &more).await.expect(3).says("k8s.qcow2.sha256 says");
    let both = format!("-locations {BE} -sha256 {} -md5 {}", sha256(&image()), md5(&other_image()));
    publish(&sim, &server, "/k8s.qcow2", &both).await.expect(3).says("has the MD5");
    assert_eq!(calls(&sim, "POST", ""), 0);
}

#[tokio::test]
async fn bad_files_are_refused() {
    let sim = cloud("publish-files", World::small()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    for (path, text) in [
        (dir.path().join("missing"), "missing"),
        (file("empty", b""), "empty"),
        (file("text", b"this is no image at all, it is a text"), "cannot be published"),
        (dir.path().to_owned(), "is no regular file"),
    ] {
        let words = format!("-name {NAME} -locations {BE} -file");
        let done = program(&sim).words(&words).arg(&path).run().await.expect(3);
        assert_eq!(done.err.matches("error: ").count(), 1, "{}", done.err);
        done.says(text);
    }
    assert_eq!(calls(&sim, "POST", ""), 0);
}

#[tokio::test]
async fn what_is_cheap_to_see_is_told_before_a_file_or_stdin_is_read() {
    let sim = cloud("publish-cheap", World::small()).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.qcow2");
    std::fs::write(&path, image()).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(65 << 20).unwrap();
    let file = format!("-file {}", path.display());
    for (source, more, code, texts) in [
        (file.as_str(), "-locations nowhere -boot-disk-size 1", 3, ["nowhere", "10 GiB"]),
        (&file, "-locations nowhere -os-type Lynux", 3, ["nowhere", "-os-type"]),
        ("-file -", "-locations nowhere -os-name BeOS", 3, ["nowhere", "BeOS"]),
        (
            "-file -",
            "-locations be-mac-dc01-001 -memory 0 -boot-type x",
            2,
            ["-memory", "-boot-type"],
        ),
    ] {
        // Stdin is no image: who read it would say so. Neither would a checksum be compared.
        let sum = format!("-sha256 {}", "a".repeat(64));
        let words = format!("{source} -name {NAME} {more} {sum}");
        let done = program(&sim).words(&words).stdin("no image").run().await.expect(code);
        let done = texts.iter().fold(done, |done, text| done.says(text));
        for text in ["cannot be published", "has the SHA-256", "reading the image"] {
            assert!(!done.err.contains(text), "{words}: {}", done.err);
        }
    }
    let portal = "-portal-url http://127.0.0.1:1 -retry-for 1s";
    let words = format!("-file - -name {NAME} -locations {BE} {portal}");
    let done = program(&sim).words(&words).stdin("no image").run().await.expect(4);
    assert!(!done.err.contains("cannot be published"), "{}", done.err);
    assert!(!done.err.contains("no location"), "said once: {}", done.err);
}

#[tokio::test]
async fn an_empty_pipe_asks_for_the_command_before_it() {
    let sim = cloud("publish-empty-pipe", World::small()).await;
    let words = format!("-file - -name {NAME} -locations {BE}");
    let done = program(&sim).words(&words).stdin("").run().await.expect(3);
    let done = done.says("stdin was empty").says("did the command before the pipe fail?");
    assert!(!done.err.contains("/tmp") && !done.err.contains("/proc"), "{}", done.err);
}

#[tokio::test]
async fn files_beside_a_url_that_contradict_stop_only_a_run_without_a_checksum() {
    let sim = cloud("publish-beside", World::small()).await;
    let (good, bad) = (sha256(&image()), sha256(&other_image()));
    let files = [("/k8s.qcow2.sha256", good.clone()), ("/SHA256SUMS", format!("{bad}  k8s.qcow2"))];
    let server = super::server(&files).await;
    let more = format!("-locations {BE}");
    publish(&sim, &server, "/k8s.qcow2", &more).await.expect(3).says("give different SHA-256");
    let given = format!("{more} -sha256 {good}");
    let done = publish(&sim, &server, "/k8s.qcow2", &given).await.expect(0);
    done.says("they are ignored, and the given one is enforced");
    let stale = super::server(&[("/k8s.qcow2.md5", md5(&other_image()))]).await;
    let given = format!("-locations {NL} -md5 {}", md5(&image()));
    let done = publish(&sim, &stale, "/k8s.qcow2", &given).await.expect(0);
    let warned = done.err.find("the given one is enforced").expect("a warning");
    let sent = done.err.find(": qcow2, ").expect("the line that comes before anything is sent");
    assert!(warned < sent, "{}", done.err);
    assert_eq!(done.err.matches("the given one is enforced").count(), 1, "{}", done.err);
}

#[tokio::test]
async fn a_command_line_that_cannot_be_meant_is_usage() {
    let sim = cloud("publish-usage", World::small()).await;
    for words in [
        "-name a -locations b",
        "-url https://a/b -file c -name a -locations b",
        "-url ftp://a/b -name a -locations be-mac-dc01-001",
        "-file= -name a -locations be-mac-dc01-001",
        "-url a/b -name a -locations be-mac-dc01-001",
        "-url https://a/b -name a -locations b -timeout 5",
        "-url https://a/b -name a -locations b -output yaml",
        "-url https://a/b -name a -locations b -foo",
        "-file - --token-file - -name a -locations b",
    ] {
        let done = program(&sim).words(words).run().await.expect(2);
        assert!(done.err.starts_with("error: "), "{words}: {}", done.err);
    }
    let done = imagepublish().words("-url https://a/b -name a -locations b").run().await.expect(2);
    done.says("no portal is given");
    let help = imagepublish().words("-help").run().await.expect(0);
    assert!(help.out.contains("Examples:") && help.out.contains("Exit codes:"), "{}", help.out);
}
