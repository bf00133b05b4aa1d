//! `capvco-imageresolve` against an embedded cloud.

use std::time::{Duration, Instant};

use capvco::sim::rules::SizeUnit;
use capvco::sim::world::Status::{Created, Creating, Error};
use capvco::sim::{Sim, World};
use serde_json::json;

use crate::support::cloud::{cloud, own_image};
use crate::support::program::{Done, finish, imageresolve};

const BE: &str = "be-mac-dc01-001";
const NL: &str = "nl-rmd-dc01-001";
const QT: &str = "qt-gen-dc01-003";

/// `k8s-v1.36.4` everywhere, under different ids; more in the first location.
fn world() -> World {
    let mut world = World::small();
    let images = [
        (BE, 7, "k8s-v1.36.4", Created),
        (NL, 8, "k8s-v1.36.4", Created),
        (QT, 7, "k8s-v1.36.4", Created),
        (BE, 9, "k8s-v1.36.10-r2", Created),
        (BE, 10, "k8s-v1.36.11", Creating),
        (BE, 11, "broken", Error),
        (BE, 12, "twice", Created),
        (BE, 13, "twice", Created),
    ];
    for (at, id, name, status) in images {
        let image = own_image(&world, id, name, status);
        world.site(at).images.push(image);
    }
    let mut public = own_image(&world, 14, "k8s-v1.36.4", Created);
    (public.public, public.customer_id) = (true, String::new());
    world.site(BE).images.push(public);
    world
}

async fn resolve(sim: &Sim, words: &str) -> Done {
    imageresolve().on(sim).words(words).run().await
}

#[tokio::test]
async fn scripts_get_ids_in_the_order_asked() {
    let sim = cloud("resolve-scripts", world()).await;
    let name = "-name k8s-v1.36.4 -locations";
    let table = [
        (format!("{name} {NL},{BE} -output id"), "8\n7\n".to_owned()),
        (format!("{name} {BE} -output env"), "VCO_IMAGE_ID=7\n".into()),
        (format!("{name} {BE},{QT} -output env"), "VCO_IMAGE_ID=7\n".into()),
        (format!("{name} all -output id"), "7\n8\n7\n".into()),
        (format!("{name} {BE} -output id -public"), "14\n".into()),
        (format!("-prefix k8s-v1.36 -newest -locations {BE} -output id"), "9\n".into()),
        (format!("-match k8s-*.4 -locations {BE},{NL} -output id"), "7\n8\n".into()),
        (format!("-name twice -newest -locations {BE} -output id"), "13\n".into()),
        (
            format!("{name} {NL},{BE} -output env -sites"),
            format!(
                "GEO_SITE1_IMAGE_ID=8\nGEO_SITE1_LOCATION={NL}\n\
                 GEO_SITE2_IMAGE_ID=7\nGEO_SITE2_LOCATION={BE}\n"
            ),
        ),
    ];
    for (words, want) in table {
        let done = resolve(&sim, &words).await.expect(0);
        assert_eq!((done.out, done.err), (want, String::new()), "{words}");
    }
}

#[tokio::test]
async fn json_rows_hold_what_was_promised() {
    let sim = cloud("resolve-json", world()).await;
    let row = json!({
        "location": BE, "image_id": 7, "name": "k8s-v1.36.4", "public": false,
        "status": "CREATED", "bytes": 3 << 20,
    });
    let words = format!("-name k8s-v1.36.4 -locations {BE}");
    let done = resolve(&sim, &format!("{words} -output json")).await.expect(0);
    assert_eq!(done.json(), json!({ "results": [row] }));
    let done = resolve(&sim, &format!("{words} -output ndjson")).await.expect(0);
    assert_eq!(done.json(), row);
    let done = resolve(&sim, &words).await.expect(0);
    assert!(done.out.contains("3.0 MiB") && done.out.lines().count() == 2, "{}", done.out);
    // A size in GiB is no number of bytes.
    sim.world(|w| w.rules.size_unit = SizeUnit::Gib);
    let done = resolve(&sim, &format!("{words} -output json")).await.expect(0);
    assert_eq!(done.json()["results"][0]["bytes"], json!(null));
}

#[tokio::test]
async fn nothing_is_picked_silently() {
    let sim = cloud("resolve-misses", world()).await;
    let table = [
        ("-name k8s-v1.36.5", "no usable image is called \"k8s-v1.36.5\""),
        ("-name k8s-v1.36.5", "near misses: k8s-v1.36.4"),
        ("-name k8s-v1.36.11", "not CREATED: k8s-v1.36.11 (id 10, own, CREATING)"),
        ("-name broken", "broken (id 11, own, ERROR)"),
        ("-name twice", "2 usable images are called \"twice\": twice (id 12"),
        ("-prefix k8s-v1", "-newest"),
        ("-match *nothing*", "-list shows what there is"),
    ];
    for (words, want) in table {
        for output in ["table", "id", "env"] {
            let words = format!("{words} -locations {BE} -output {output}");
            let done = resolve(&sim, &words).await.expect(1).says(want);
            assert!(output == "table" || done.out.is_empty(), "{words}: {}", done.out);
        }
    }
}

#[tokio::test]
async fn half_an_answer_is_not_taken_for_a_whole_one() {
    let sim = cloud("resolve-half", world()).await;
    let words = format!("-name k8s-v1.36.10-r2 -locations {BE},{NL} -output");
    for output in ["id", "env", "env -sites"] {
        let done = resolve(&sim, &format!("{words} {output}")).await.expect(1);
        assert_eq!(done.out, "", "{output}");
    }
    let done = resolve(&sim, &format!("{words} json")).await.expect(1).says(NL);
    let rows = &done.json()["results"];
    assert_eq!((&rows[0]["image_id"], &rows[1]["image_id"]), (&json!(9), &json!(null)));
    assert!(rows[1]["error"].as_str().unwrap().contains("no usable image"));
    let words = format!("-name k8s-v1.36.4 -locations {BE},{NL} -output env");
    let done = resolve(&sim, &words).await.expect(2).says("hint: say -sites");
    assert_eq!(done.out, "");
}

#[tokio::test]
async fn a_listing_shows_everything() {
    let sim = cloud("resolve-list", world()).await;
    let done = resolve(&sim, &format!("-list -locations {BE}")).await.expect(0);
    assert_eq!(done.out.lines().count(), 1 + 8, "{}", done.out);
    assert!(done.out.contains("CREATING") && done.out.contains("ERROR"), "{}", done.out);
    let words = format!("-list -match k8s-* -locations {NL},{BE} -output ndjson");
    let done = resolve(&sim, &words).await.expect(0);
    assert_eq!(done.out.lines().count(), 5, "{}", done.out);
    assert!(done.out.starts_with(&format!("{{\"location\":\"{NL}\"")), "{}", done.out);
}

#[tokio::test]
async fn every_failure_has_its_exit_code() {
    let sim = cloud("resolve-failures", world()).await;
    let name = "-retry-for 1s -name k8s-v1.36.4 -locations";
    resolve(&sim, &format!("{name} be-mac-dc01-002")).await.expect(3).says("near misses: be-mac");
    resolve(&sim, &format!("{name} zz")).await.expect(3).says("the customer has no location zz");
    resolve(&sim, &format!("{name} {BE},{BE}")).await.expect(2).says("given twice");
    resolve(&sim, "-name x").await.expect(2).says("--locations");
    resolve(&sim, &format!("-match [ -locations {BE}")).await.expect(2).says("patterns know");
    let bare = || imageresolve().words(name).arg(BE);
    bare().run().await.expect(2);
    bare().on(&sim).env("VCO_TOKEN", "not-a-token").run().await.expect(3);

    sim.world(|w| w.site(NL).down = true);
    let done = resolve(&sim, &format!("{name} {BE},{NL} -output json")).await.expect(4);
    assert_eq!(done.json()["results"][0]["image_id"], 7);
    assert!(done.json()["results"][1]["error"].is_string());
    let one = format!("-retry-for 1s -name k8s-v1.36.10 -locations {BE},{NL}");
    resolve(&sim, &one).await.expect(1);
    sim.world(|w| w.site(NL).down = false);

    for fault in ["cut-json*9", "html-page*9", "success-false*9"] {
        sim.fault(format!("listCustomerImages={fault}").parse().unwrap());
        let done = resolve(&sim, &format!("{name} {BE} -output id")).await;
        assert!(matches!(done.code, 1 | 3 | 4) && done.out.is_empty(), "{fault}: {done:?}");
        assert!(done.err.starts_with("error: "), "{fault}: {done:?}");
        sim.no_faults();
    }
}

#[tokio::test]
async fn odd_replies_are_read() {
    let sim = cloud("resolve-odd", world()).await;
    for fault in ["nulls", "extra-keys", "ids-as-text", "floats"] {
        sim.fault(format!("listCustomerImages={fault}").parse().unwrap());
        let words = format!("-name k8s-v1.36.10-r2 -locations {BE} -output id");
        assert_eq!(resolve(&sim, &words).await.expect(0).out, "9\n", "{fault}");
        sim.no_faults();
    }
}

#[tokio::test]
async fn locations_that_host_no_machines_are_left_out_of_all() {
    let sim = cloud("resolve-storage", world()).await;
    sim.world(|w| w.site(NL).storage_only = true);
    let done = resolve(&sim, "-name k8s-v1.36.4 -locations all -output env").await.expect(0);
    assert_eq!(done.out, "VCO_IMAGE_ID=7\n");
    done.says("nl-rmd-dc01-001 cannot host machines");
    let all: Vec<String> = sim.world(|w| w.locations.iter().map(|l| l.location.clone()).collect());
    sim.world(|w| all.iter().for_each(|at| w.site(at).storage_only = true));
    resolve(&sim, "-name k8s-v1.36.4 -locations all")
        .await
        .expect(3)
        .says("no location that can host");
}

#[tokio::test]
async fn all_locations_are_asked_at_once() {
    let names: Vec<String> = (0..20).map(|n| format!("be-{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::of("acme_1", &names);
    for at in &names {
        let image = own_image(&world, 7, "k8s", Created);
        world.site(at).images.push(image);
    }
    world.rules.latency = Duration::from_millis(400);
    let sim = cloud("resolve-at-once", world).await;
    let start = Instant::now();
    let done = resolve(&sim, "-name k8s -locations all -output id").await.expect(0);
    let spent = start.elapsed();
    assert_eq!(done.out, "7\n".repeat(20));
    assert!(spent < Duration::from_millis(400 * 4), "{spent:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupted_run_says_so() {
    let sim = cloud("resolve-interrupt", world()).await;
    sim.fault("listCustomerImages=hang*9".parse().unwrap());
    let words = format!("-name k8s-v1.36.4 -locations {BE} -output id");
    let child = imageresolve().on(&sim).words(&words).spawn();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let pid = child.id().to_string();
    let kill = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(kill.success());
    let done = finish(child).await.expect(1).says("interrupted");
    assert_eq!(done.out, "");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let sim = cloud("resolve-closed", world()).await;
    let words = format!("-list -locations {BE}");
    let mut child = imageresolve().on(&sim).words(&words).spawn();
    drop(child.stdout.take());
    finish(child).await.expect(0);
}
