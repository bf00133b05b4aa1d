//! Scripted faults over real HTTP: what the client sees, what was done, what the journal keeps.

use std::time::Duration;

use capvco::sim::world::{Image, Status};
use capvco::sim::{Pace, Sim, World};
use serde_json::{Value, json};

use crate::support::raw::{Raw, read};

/// A cloud with an image of ours, number 101, and this fault.
async fn cloud(fault: &str) -> (Sim, Raw) {
    let sim = Sim::start(World::small(), Pace::Auto).await.unwrap();
    let image = Image { name: "k8s".into(), customer_id: "acme_1".into(), ..Image::default() };
    sim.world(|w| w.site("be-mac-dc01-001").add_image(image));
    sim.fault(fault.parse().unwrap());
    let raw = Raw::new(&sim);
    (sim, raw)
}

fn deleted(sim: &Sim) -> bool {
    let status = |w: &mut World| w.site("be-mac-dc01-001").image(101).map(|i| i.status);
    sim.world(status) == Some(Status::Destroyed)
}

const DELETE: &str = "{L}/101?permanently=true";

#[tokio::test]
async fn a_status_is_told_and_done_or_not() {
    for (kind, status, done) in [
        ("429:7", 429, false),
        ("401", 401, false),
        ("403", 403, false),
        ("409", 409, false),
        ("500", 500, false),
        ("503", 503, false),
        ("500-after", 500, true),
        ("html-400", 400, false),
        ("html-page", 502, false),
        ("success-false", 200, false),
        ("location-error", 503, false),
    ] {
        let (sim, raw) = cloud(&format!("deleteCustomerImage={kind}")).await;
        let (got, _) = raw.call("DELETE", DELETE).await;
        assert_eq!((got, deleted(&sim)), (status, done), "{kind}");
        let journal = sim.journal();
        assert_eq!(journal[0].fault.as_deref(), Some(kind.replace("page", "page:502")).as_deref());
        let decided = if done { (200, json!({"success": true})) } else { (status, Value::Null) };
        if kind != "location-error" {
            assert_eq!((journal[0].status, journal[0].response_body.clone()), decided, "{kind}");
        }
        // The second call is as if nothing had been.
        assert_eq!(raw.call("DELETE", DELETE).await.0, if done { 404 } else { 200 }, "{kind}");
    }
}

#[tokio::test]
async fn a_reply_is_lost_before_or_after_it_was_done() {
    for (kind, done) in [("kill-before", false), ("kill-after", true), ("lost-reply", true)] {
        let (sim, raw) = cloud(&format!("deleteCustomerImage={kind}")).await;
        assert!(raw.request("DELETE", DELETE).send().await.is_err(), "{kind}");
        assert_eq!(deleted(&sim), done, "{kind}");
        assert_eq!(sim.journal()[0].status, if done { 200 } else { 0 }, "{kind}");
    }
}

#[tokio::test]
async fn a_call_hangs_until_the_client_gives_up() {
    for (kind, done) in [("hang", false), ("hang-after", true)] {
        let (sim, raw) = cloud(&format!("deleteCustomerImage={kind}")).await;
        let request = raw.request("DELETE", DELETE).timeout(Duration::from_millis(300));
        assert!(request.send().await.unwrap_err().is_timeout(), "{kind}");
        assert_eq!(deleted(&sim), done, "{kind}");
        sim.stop().await;
    }
}

#[tokio::test]
async fn a_slow_write_goes_on_when_its_client_left() {
    let (sim, raw) = cloud("getImage=500").await;
    sim.world(|w| w.rules.write_latency = Duration::from_millis(400));
    let request = raw.request("DELETE", DELETE).timeout(Duration::from_millis(100));
    assert!(request.send().await.is_err());
    assert!(!deleted(&sim));
    capvco::clock::pause(Duration::from_millis(600)).await;
    assert!(deleted(&sim));
    assert_eq!(sim.journal()[0].status, 200);
}

#[tokio::test]
async fn replies_are_distorted_and_the_journal_is_not() {
    for kind in ["nulls", "extra-keys", "ids-as-text", "floats"] {
        let (sim, raw) = cloud(&format!("getImage={kind}")).await;
        let got = raw.get("{L}/101").await;
        match kind {
            "nulls" => assert_eq!((&got["memory"], &got["name"]), (&Value::Null, &json!("k8s"))),
            "extra-keys" => assert!(got["is_freemium"].is_object()),
            "ids-as-text" => assert_eq!(got["image_id"], "101"),
            _ => assert!(got["image_id"].is_f64()),
        }
        assert_eq!(sim.journal()[0].response_body["image_id"], 101);
        assert_ne!(sim.journal()[0].response_body, got);
    }
}

#[tokio::test]
async fn rules_distort_every_reply() {
    let (sim, raw) = cloud("getImage#9=500").await;
    sim.world(|w| {
        w.rules.nulls = true;
        w.rules.extra_keys = true;
        w.rules.ids_as_text = true;
    });
    let row = raw.get("{L}").await["result"][1].clone();
    assert_eq!((&row["image_id"], &row["size"]), (&json!("101"), &Value::Null));
    assert!(row["is_freemium"].is_object());
}

#[tokio::test]
async fn a_reply_ends_in_the_middle() {
    let (_sim, raw) = cloud("getImage=cut-json").await;
    let (status, body) = raw.call("GET", "{L}/101").await;
    assert_eq!(status, 200);
    assert!(body.as_str().unwrap().starts_with('{'), "it is no JSON any more");
}

#[tokio::test]
async fn a_list_is_older_than_the_last_write() {
    let (_sim, raw) = cloud("listCustomerImages=stale-list").await;
    raw.call("DELETE", DELETE).await;
    let rows = |list: Value| list["result"].as_array().unwrap().len();
    assert_eq!(rows(raw.get("{L}").await), 2);
    assert_eq!(rows(raw.get("{L}").await), 1);
}

#[tokio::test]
async fn a_list_over_all_locations_lacks_the_one_in_error() {
    let (_sim, raw) = cloud("recycleBin@be-mac-dc01-001=location-error").await;
    raw.call("DELETE", "{L}/101").await;
    let bin = raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["locations"][0]["status"], "ERROR");
    assert_eq!(bin["result"]["images"], json!([]));
    assert_eq!(raw.get("{C}/recycle-bin").await["result"]["images"][0]["image_id"], 101);
}

#[tokio::test]
async fn the_iam_has_faults_too() {
    let (sim, raw) = cloud("refresh=500").await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let refresh = || http.get(sim.iam_refresh_url()).bearer_auth(&raw.token).send();
    assert_eq!(read(refresh().await.unwrap()).await.0, 500);
    assert_eq!(read(refresh().await.unwrap()).await.0, 200);
}
