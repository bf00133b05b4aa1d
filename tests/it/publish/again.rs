//! The same name again: unchanged, joined, explained, and two runs at once.

use std::time::Duration;

use capvco::sim::World;
use capvco::sim::world::{Image, Status};

use super::{
    BE, NAME, NL, QT, calls, image, imagepublish, images, md5, only, other_image, publish,
    publishing, results, server, sha256, slow_cloud,
};
use crate::support::cloud::{cloud, own_image};
use crate::support::program::{Done, Program};

#[tokio::test]
async fn what_is_there_is_left_alone() {
    let sim = cloud("publish-unchanged", World::small()).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE},{NL},{BE} -sha256 {} -output json", sha256(&image()));
    let first = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    let asked = server.asked().len();
    let again = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&again), format!("{BE}:unchanged {NL}:unchanged"));
    let id = |done: &Done| done.json()["results"][0]["image_id"].clone();
    assert_eq!(id(&again), id(&first));
    let later = server.asked().split_off(asked);
    let whole = later.iter().filter(|a| a.method == "GET" && a.range.is_none());
    assert_eq!(whole.filter(|a| a.path == "/k8s.qcow2").count(), 0, "no download to find that out");
    assert_eq!(calls(&sim, "POST", "/vm-images"), 2);
}

#[tokio::test]
async fn other_content_under_the_name_is_refused() {
    let sim = cloud("publish-different", World::small()).await;
    let server = server(&[]).await;
    let sum = |bytes: &[u8]| format!("-locations {BE} -sha256 {}", sha256(bytes));
    publish(&sim, &server, "/k8s.qcow2", &sum(&image())).await.expect(0);
    let id = only(&sim, BE).image_id;
    let done = publish(&sim, &server, "/other.qcow2", &sum(&other_image())).await.expect(3);
    done.says("other content").says("-replace to put this image in its place");
    assert_eq!(only(&sim, BE).image_id, id);
}

#[tokio::test]
async fn an_image_known_by_its_md5_is_recognised_by_its_sha256() {
    let sim = cloud("publish-crosswise", World::small()).await;
    let server = server(&[]).await;
    let by_md5 = format!("-locations {BE} -md5 {}", md5(&image()));
    publish(&sim, &server, "/k8s.qcow2", &by_md5).await.expect(0);
    let by_sha = format!("-locations {BE} -output json -sha256 {}", sha256(&image()));
    let done = publish(&sim, &server, "/k8s.qcow2", &by_sha).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:unchanged"), "one download tells");
    let other = format!("-locations {BE} -sha256 {}", sha256(&other_image()));
    publish(&sim, &server, "/other.qcow2", &other).await.expect(3).says("other content");
}

#[tokio::test]
async fn an_image_without_a_mark_is_taken_as_it_is_unless_a_checksum_was_given() {
    let mut world = World::small();
    let image_7 = own_image(&world, 7, NAME, Status::Created);
    world.site(BE).images.push(image_7);
    let sim = cloud("publish-unmarked", world).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -output json");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:unchanged"));
    done.says("its content could not be compared");
    let given = format!("-locations {BE} -sha256 {}", sha256(&image()));
    publish(&sim, &server, "/k8s.qcow2", &given).await.expect(3).says("cannot be enforced");
    let replace = format!("-locations {BE} -replace");
    let done = publish(&sim, &server, "/k8s.qcow2", &replace).await.expect(3);
    done.says("carries no mark of this program");
    assert_eq!(only(&sim, BE).image_id, 7);
}

#[tokio::test]
async fn an_import_under_way_is_joined() {
    let sim = slow_cloud("publish-joined", Duration::from_secs(2)).await;
    let server = server(&[]).await;
    publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE} -no-wait")).await.expect(0);
    let more = format!("-locations {BE} -output json");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:joined"));
    assert_eq!(done.json()["results"][0]["image_id"], only(&sim, BE).image_id);
    assert_eq!(calls(&sim, "POST", "/vm-images"), 1);
}

#[tokio::test]
async fn two_runs_at_once_end_with_one_image() {
    let server = server(&[]).await;
    for (test, unique) in [("publish-race", false), ("publish-race-unique", true)] {
        let mut world = World::small();
        // Both look before either has made anything.
        world.rules.write_latency = Duration::from_secs(2);
        world.rules.import_time = Duration::from_secs(1);
        world.rules.unique_names = unique;
        let sim = cloud(test, world).await;
        let more = format!("-locations {BE},{NL} -output json");
        let run = || publishing(&sim, &server, "/k8s.qcow2", &more).run();
        let (one, two) = tokio::join!(run(), run());
        let (one, two) = (one.expect(0), two.expect(0));
        assert_eq!(calls(&sim, "POST", "/vm-images"), 4, "both tried in both locations");
        for (index, at) in [BE, NL].into_iter().enumerate() {
            let image = only(&sim, at);
            let rows = [&one, &two].map(|done| done.json()["results"][index].clone());
            let mut words = rows.each_ref().map(|row| row["result"].as_str().unwrap().to_owned());
            words.sort_unstable();
            assert_eq!(words, ["created", "joined"], "unique: {unique}");
            assert!(rows.iter().all(|row| row["image_id"] == image.image_id), "{rows:?}");
        }
    }
}

#[tokio::test]
async fn a_loser_that_is_ready_first_waits_for_the_winner() {
    let mut world = World::small();
    world.site(BE).import_time = Some(Duration::from_secs(4));
    let sim = cloud("publish-race-loser", world).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -output json");
    let run = || publishing(&sim, &server, "/k8s.qcow2", &more);
    let second_is_quick = async {
        while images(&sim, BE).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sim.world(|world| world.site(BE).import_time = Some(Duration::from_millis(100)));
    };
    let ((first, second), ()) = tokio::join!(race(&sim, run(), run()), second_is_quick);
    assert_eq!(results(&first.expect(0)), format!("{BE}:created"));
    assert_eq!(results(&second.expect(0)), format!("{BE}:joined"));
    assert_eq!(only(&sim, BE).image_id, 101, "the lowest id wins");
    assert_eq!(calls(&sim, "DELETE", "/102"), 1);
}

#[tokio::test]
async fn a_winner_that_goes_away_is_replaced_by_ours() {
    let sim = slow_cloud("publish-race-gone", Duration::from_secs(1)).await;
    let server = server(&[]).await;
    let run = imagepublish().on(&sim).env("VCO_RATE_LIMIT", "off").words(&format!(
        "-url {} -name {NAME} -locations {BE} -output json -poll-interval 3s",
        server.url("/k8s.qcow2")
    ));
    let other_run = async {
        while images(&sim, BE).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // An image of another run that came before, of the same content.
        let ours = images(&sim, BE)[0].tags.clone();
        let (_, content) = ours.split_once(";bytes").unwrap();
        let tags = format!("capvco/image;run=c0ffee;bytes{content}");
        sim.world(|world| {
            let first = Image { tags, ..own_image(world, 99, NAME, Status::Created) };
            world.site(BE).images.push(first);
        });
        while calls(&sim, "DELETE", "/101") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sim.world(|world| world.site(BE).images.retain(|image| image.image_id != 99));
    };
    let (done, ()) = tokio::join!(run.run(), other_run);
    assert_eq!(results(&done.expect(0)), format!("{BE}:created"));
    only(&sim, BE);
}

/// Two runs, the second of which starts when the first has looked and before that has made
/// anything; returns them in this order.
async fn race(sim: &capvco::sim::Sim, first: Program, second: Program) -> (Done, Done) {
    sim.world(|world| world.rules.write_latency = Duration::from_secs(2));
    let late = async {
        while calls(sim, "GET", "/vm-images") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        second.run().await
    };
    tokio::join!(first.run(), late)
}

#[tokio::test]
async fn where_the_winner_fails_the_other_stands() {
    let mut world = World::small();
    world.rules.import_time = Duration::from_secs(1);
    world.site(BE).imports_fail = true;
    let sim = cloud("publish-race-heir", world).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -output json");
    let run = || publishing(&sim, &server, "/k8s.qcow2", &more);
    let only_the_first_fails = async {
        while images(&sim, BE).first().is_none_or(|i| i.status != Status::Error) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sim.world(|world| world.site(BE).imports_fail = false);
    };
    let ((first, second), ()) = tokio::join!(race(&sim, run(), run()), only_the_first_fails);
    first.expect(1).says("the import failed: image 101");
    assert_eq!(results(&second.expect(0)), format!("{BE}:created"));
    assert_eq!(only(&sim, BE).image_id, 102);
}

#[tokio::test]
async fn two_runs_of_different_content_do_not_both_win() {
    let sim = slow_cloud("publish-race-clash", Duration::from_millis(500)).await;
    let server = server(&[]).await;
    let run = |path: &str, bytes: &[u8]| {
        let more = format!("-locations {BE} -sha256 {} -output json", sha256(bytes));
        publishing(&sim, &server, path, &more)
    };
    let one = run("/k8s.qcow2", &image());
    let two = run("/other.qcow2", &other_image());
    let (first, second) = race(&sim, one, two).await;
    first.expect(0);
    second
        .expect(1)
        .says("another run published other content as image 101")
        .says("ours was removed");
    assert!(only(&sim, BE).tags.contains(&sha256(&image())));
}

#[tokio::test]
async fn a_joined_import_that_fails_is_not_ours_to_remove() {
    let sim = slow_cloud("publish-join-fails", Duration::from_secs(2)).await;
    sim.world(|world| world.site(BE).imports_fail = true);
    let server = server(&[]).await;
    publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE} -no-wait")).await.expect(0);
    let done = publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE}")).await.expect(1);
    done.says("the import that was joined failed: image 101 is ERROR")
        .says("-replace makes a new one");
    assert_eq!(calls(&sim, "DELETE", ""), 0);
}

/// A published image, then changed by hand.
async fn published(
    test: &str,
    change: impl FnOnce(&mut Image),
) -> (capvco::sim::Sim, super::Scripted) {
    let sim = cloud(test, World::small()).await;
    let server = server(&[("/k8s.qcow2.sha256", sha256(&image()))]).await;
    publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE}")).await.expect(0);
    let id = only(&sim, BE).image_id;
    sim.world(|world| change(world.site(BE).images.iter_mut().find(|i| i.image_id == id).unwrap()));
    (sim, server)
}

#[tokio::test]
async fn a_failed_or_binned_one_is_explained_and_replaced_on_request() {
    for (test, status, text) in [
        ("publish-was-error", Status::Error, "is ERROR and not usable"),
        ("publish-was-disabled", Status::Disabled, "is DISABLED and not usable"),
        ("publish-was-binned", Status::Deleted, "lies in the recycle bin"),
    ] {
        let (sim, server) = published(test, |image| image.status = status).await;
        let old = images(&sim, BE)[0].image_id;
        let more = format!("-locations {BE} -output json");
        let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(3).says(text);
        let row = done.json()["results"][0].clone();
        assert_eq!(row["result"], "failed");
        assert!(row["hint"].as_str().unwrap().contains("-replace"), "{row}");
        let done =
            publish(&sim, &server, "/k8s.qcow2", &format!("{more} -replace")).await.expect(0);
        assert_eq!(results(&done), format!("{BE}:replaced"), "{status}");
        assert_ne!(only(&sim, BE).image_id, old);
    }
}

#[tokio::test]
async fn twins_of_ours_are_folded_and_anything_else_is_ambiguous() {
    let (sim, server) = published("publish-twins", |_| {}).await;
    let kept = only(&sim, BE);
    sim.world(|world| world.site(BE).add_image(kept.clone()));
    let more = format!("-locations {BE} -output json");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:unchanged"));
    assert_eq!(only(&sim, BE).image_id, kept.image_id, "the lowest id stays");
    let foreign = Image { tags: "somebody's".to_owned(), ..kept.clone() };
    let foreign = sim.world(|world| world.site(BE).add_image(foreign));
    let text = format!("images {}, {foreign} all have the name", kept.image_id);
    publish(&sim, &server, "/k8s.qcow2", &more).await.expect(3).says(&text);
    assert_eq!(images(&sim, BE).len(), 2, "neither was touched");
}

#[tokio::test]
async fn a_public_image_of_the_name_is_the_portals_and_none_of_ours() {
    let mut world = World::small();
    let mut public = own_image(&world, 7, NAME, Status::Created);
    (public.public, public.customer_id) = (true, String::new());
    world.site(QT).images.push(public);
    let sim = cloud("publish-public", world).await;
    let server = server(&[]).await;
    let more = format!("-locations {QT} -output json");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&done), format!("{QT}:created"));
}
