//! An image that is not there yet: the published command line, what is told to the cloud, and
//! what is printed.

use std::time::{Duration, Instant};

use capvco::sim::World;
use capvco::sim::rules::CreateReply;

use super::{
    BE, NAME, NL, QT, calls, image, imagepublish, images, md5, only, publish, results, server,
    sha256, slow_cloud,
};
use crate::support::cloud::cloud;

#[tokio::test]
async fn the_published_command_line_works_to_the_letter() {
    let sim = slow_cloud("publish-letter", Duration::from_millis(300)).await;
    let server = server(&[]).await;
    let url = server.url("/k8s.qcow2").to_string();
    let done = imagepublish()
        .on(&sim)
        .words("-url")
        .arg(&url)
        .words("-name k8s-v1.35.8 -locations qt-gen-dc01-003")
        .run()
        .await
        .expect(0);
    let id = only(&sim, QT).image_id;
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.out);
    assert!(lines[0].starts_with("LOCATION"), "{}", done.out);
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[..3], [QT, "created", &id.to_string()], "{}", done.out);
    assert!(images(&sim, BE).is_empty() && images(&sim, NL).is_empty());
}

#[tokio::test]
async fn all_locations_get_it_and_the_rows_are_documented() {
    let sim = cloud("publish-all", World::small()).await;
    let server = server(&[]).await;
    let done = publish(&sim, &server, "/k8s.qcow2", "-locations all -output json").await.expect(0);
    assert_eq!(results(&done), format!("{BE}:created {NL}:created {QT}:created"));
    for row in done.json()["results"].as_array().unwrap() {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        let mut sorted: Vec<_> = keys.iter().map(|key| key.as_str()).collect();
        sorted.sort_unstable();
        assert_eq!(sorted, ["bytes", "image_id", "location", "result", "seconds"]);
        let at = row["location"].as_str().unwrap();
        assert_eq!(row["image_id"], only(&sim, at).image_id);
        assert_eq!(row["bytes"], image().len());
        assert!(row["seconds"].as_f64().unwrap() < 30.0);
    }
    let lines = publish(&sim, &server, "/k8s.qcow2", "-locations all -output ndjson").await;
    let lines = lines.expect(0);
    assert_eq!(lines.out.lines().count(), 3);
    for line in lines.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["result"], "unchanged");
    }
}

#[tokio::test]
async fn the_cloud_is_told_what_was_asked_or_what_fits_a_node() {
    let sim = cloud("publish-told", World::small()).await;
    let server = server(&[]).await;
    publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE}")).await.expect(0);
    let plain = only(&sim, BE);
    let told = (plain.memory, plain.boot_disk_size, plain.os_type, plain.os_name, plain.boot_type);
    let fitting = (2048, 10, "Linux".into(), "Linux - other".into(), "uefi".into());
    assert_eq!(told, fitting, "10 GiB is what the image's header says");
    assert!(plain.tags.starts_with("capvco/image;run="), "{}", plain.tags);

    let asked = "-memory 4096 -boot-disk-size 30 -boot-type bios -tags nightly --os-type=linux";
    let words = format!("-locations {NL} {asked}");
    let url = server.url("/k8s.qcow2");
    let with_space = super::program(&sim)
        .words(&format!("-url {url} -name {NAME} {words} -os-name"))
        .arg("Ubuntu server 20.04");
    with_space.run().await.expect(0);
    let image = only(&sim, NL);
    assert_eq!((image.memory, image.boot_disk_size), (4096, 30));
    assert_eq!((image.boot_type.as_str(), image.os_name.as_str()), ("bios", "Ubuntu server 20.04"));
    assert!(image.tags.ends_with(" nightly"), "{}", image.tags);
}

#[tokio::test]
async fn whatever_the_reply_of_a_create_holds_the_image_is_found() {
    use CreateReply::{BareId, IdObject, Nothing, Success, Text};
    let server = server(&[]).await;
    for reply in [IdObject, BareId, Nothing, Text, Success] {
        let mut world = World::small();
        world.rules.create_reply = reply;
        let sim = cloud("publish-reply", world).await;
        let more = format!("-locations {BE} -output json");
        let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
        let id = done.json()["results"][0]["image_id"].clone();
        assert_eq!(id, only(&sim, BE).image_id, "{reply:?}");
        assert_eq!(calls(&sim, "POST", "/vm-images"), 1, "{reply:?}");
    }
}

#[tokio::test]
async fn checksums_that_lie_beside_the_url_are_enforced() {
    let sim = cloud("publish-beside", World::small()).await;
    let (sum, sha) = (md5(&image()), sha256(&image()));
    let with_md5 = server(&[("/k8s.qcow2.md5", sum.clone())]).await;
    publish(&sim, &with_md5, "/k8s.qcow2", &format!("-locations {BE}")).await.expect(0);
    assert_eq!(only(&sim, BE).md5_sum, sum);

    let list = format!("{sha}  k8s.qcow2\n{}  other\n", "0".repeat(64));
    let with_sha = server(&[("/SHA256SUMS", list)]).await;
    publish(&sim, &with_sha, "/k8s.qcow2", &format!("-locations {NL}")).await.expect(0);
    let image = only(&sim, NL);
    assert_eq!(image.md5_sum, sum, "the MD5 of what we saw is sent");
    assert!(image.tags.contains(&sha), "{}", image.tags);
    let downloads = |server: &crate::support::scripted::Scripted| {
        let whole = |a: &&crate::support::scripted::Asked| {
            a.method == "GET" && a.path == "/k8s.qcow2" && a.range.is_none()
        };
        server.asked().iter().filter(whole).count()
    };
    assert_eq!(downloads(&with_sha), 2, "once by us, once by the cloud");

    let words = format!("-locations {QT} -sha256 {sha} -trust-checksum");
    let trusted = server_without_sums().await;
    let done = publish(&sim, &trusted, "/k8s.qcow2", &words).await.expect(0);
    done.says("warning: the SHA-256 is only recorded");
    assert_eq!(downloads(&trusted), 1, "only by the cloud");
    assert!(only(&sim, QT).tags.contains(&sha));
}

async fn server_without_sums() -> crate::support::scripted::Scripted {
    server(&[]).await
}

#[tokio::test]
async fn what_nobody_verified_is_said() {
    let sim = cloud("publish-unverified", World::small()).await;
    let server = server(&[]).await;
    let done = publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE}")).await.expect(0);
    done.says("warning: no checksum was given and none was found beside the URL");
    let sum = md5(&image());
    let more = format!("-locations {NL} -md5 {sum} -skip-url-check");
    let asked = server.asked().len();
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert!(!done.err.contains("warning"), "{}", done.err);
    assert_eq!(server.asked().len() - asked, 2, "HEAD and GET of the cloud's own");
    assert_eq!((only(&sim, NL).md5_sum, only(&sim, NL).boot_disk_size), (sum, 20));
}

#[tokio::test]
async fn a_dry_run_plans_and_sends_nothing() {
    let sim = cloud("publish-dry", World::small()).await;
    let server = server(&[]).await;
    publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE}")).await.expect(0);
    let more = "-locations all -dry-run -output json";
    let done = publish(&sim, &server, "/k8s.qcow2", more).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:planned {NL}:planned {QT}:planned"));
    let json = done.json();
    assert_eq!(json["results"][0]["image_id"], only(&sim, BE).image_id);
    assert_eq!(json["results"][1]["plan"], "create: no image has this name");
    assert!(images(&sim, NL).is_empty());
    assert_eq!(calls(&sim, "POST", ""), 1, "only the first run's");
}

#[tokio::test]
async fn without_waiting_the_import_is_submitted() {
    let sim = slow_cloud("publish-submit", Duration::from_hours(1)).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -no-wait -output json");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:submitted"));
    assert_eq!(done.json()["results"][0]["image_id"], images(&sim, BE)[0].image_id);
    let again = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&again), format!("{BE}:joined"));
    assert_eq!(images(&sim, BE).len(), 1);
}

#[tokio::test]
async fn fifty_locations_take_hardly_longer_than_one() {
    let names: Vec<String> = (0..50).map(|n| format!("loc-{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::of("acme_1", &names);
    world.rules.latency = Duration::from_millis(100);
    world.rules.import_time = Duration::from_secs(1);
    let sim = cloud("publish-fifty", world).await;
    let server = server(&[]).await;
    let begun = Instant::now();
    let done =
        publish(&sim, &server, "/k8s.qcow2", "-locations all -output ndjson").await.expect(0);
    assert_eq!(done.out.matches("\"created\"").count(), 50, "{}", done.out);
    // One after the other they would take 80 s; the bench measures the ratio.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn one_at_a_time_is_possible_and_a_reader_may_go_away() {
    let sim = slow_cloud("publish-serial", Duration::from_millis(300)).await;
    let server = server(&[]).await;
    let words = "-locations all -parallel 1 -output ndjson";
    let mut child = super::publishing(&sim, &server, "/k8s.qcow2", words).spawn();
    drop(child.stdout.take());
    crate::support::program::finish(child).await.expect(0);
    let posts: Vec<usize> = sim
        .journal()
        .iter()
        .enumerate()
        .filter(|(_, e)| e.method == "POST")
        .map(|(place, _)| place)
        .collect();
    assert!(posts[1] - posts[0] > 3 && posts[2] - posts[1] > 3, "not at once: {posts:?}");
}
