//! The embedded cloud's images over real HTTP: create, list, read, delete, restore.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use capvco::sim::rules::{CreateReply, FailedImport};
use capvco::sim::{Exchange, Pace, Sim, World};
use serde_json::{Value, json};

use crate::support::raw::Raw;

const CREATE: &str = "memory=512&boot_disk_size=5&boot_type=uefi&os_name=Linux%20-%20other\
                      &os_type=Linux";

/// A server whose `/good` is an image of seven bytes.
async fn image_server() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("an address");
    let routes = Router::new().route("/good", get(|| async { "content" }));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    addr
}

fn create(addr: SocketAddr, path: &str, more: &str) -> String {
    format!("{{L}}?name=k8s&url=http://{addr}{path}&{CREATE}{more}")
}

async fn status(raw: &Raw, id: &Value) -> Value {
    raw.get(&format!("{{L}}/{id}")).await["status"].clone()
}

#[tokio::test]
async fn an_image_is_imported_on_the_worlds_clock() {
    let addr = image_server().await;
    let (pace, _) = Pace::stepped();
    let sim = Sim::start(World::small(), pace).await.unwrap();
    sim.world(|w| w.rules.import_time = Duration::from_mins(1));
    let raw = Raw::new(&sim);
    let (code, reply) = raw.call("POST", &create(addr, "/good", "")).await;
    assert_eq!((code, &reply), (200, &json!({"image_id": 101})));
    assert_eq!(status(&raw, &reply["image_id"]).await, "CREATING");
    sim.advance(Duration::from_secs(59)).await;
    assert_eq!(status(&raw, &reply["image_id"]).await, "CREATING");
    assert_eq!(raw.call("DELETE", "{L}/101?permanently=true").await.0, 403);
    sim.advance(Duration::from_secs(1)).await;
    let list = raw.get("{L}").await;
    let rows = list["result"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "the public one and ours");
    assert_eq!((&rows[1]["status"], &rows[1]["size"]), (&json!("CREATED"), &json!(7)));
    assert_eq!(raw.call("DELETE", "{L}/100").await.0, 405);
    sim.stop().await;
}

#[tokio::test]
async fn what_cannot_be_imported_is_refused_or_fails() {
    let addr = image_server().await;
    for (path, more, code, becomes) in [
        ("/good", "&md5_sum=9A0364B9E99BB480DD25E1F0284C8555", 200, "CREATED"),
        ("/good", "&md5_sum=00000000000000000000000000000000", 200, "ERROR"),
        ("/missing", "", 400, ""),
    ] {
        let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
        let raw = Raw::new(&sim);
        let (got, reply) = raw.call("POST", &create(addr, path, more)).await;
        assert_eq!(got, code, "{path}{more}: {reply}");
        if code == 200 {
            assert_eq!(status(&raw, &reply["image_id"]).await, becomes, "{path}{more}");
        }
    }
}

#[tokio::test]
async fn a_failed_import_ends_as_the_rule_says() {
    let addr = image_server().await;
    for (rule, code, becomes) in [
        (FailedImport::Error, 200, "ERROR"),
        (FailedImport::StaysCreating, 200, "CREATING"),
        (FailedImport::Vanishes, 404, ""),
    ] {
        let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
        sim.world(|w| {
            w.rules.failed_import = rule;
            w.site("be-mac-dc01-001").imports_fail = true;
        });
        let raw = Raw::new(&sim);
        raw.call("POST", &create(addr, "/good", "")).await;
        let (got, image) = raw.call("GET", "{L}/101").await;
        assert_eq!(got, code, "{rule:?}");
        assert_eq!(image["status"].as_str().unwrap_or_default(), becomes, "{rule:?}");
    }
}

#[tokio::test]
async fn create_answers_in_the_form_of_the_rule() {
    let addr = image_server().await;
    for (rule, want) in [
        (CreateReply::IdObject, json!({"image_id": 101})),
        (CreateReply::BareId, json!(101)),
        (CreateReply::Nothing, Value::Null),
        (CreateReply::Text, json!("The image is being created")),
        (CreateReply::Success, json!({"success": true})),
    ] {
        let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
        sim.world(|w| w.rules.create_reply = rule);
        let raw = Raw::new(&sim);
        assert_eq!(raw.call("POST", &create(addr, "/good", "")).await, (200, want));
    }
}

#[tokio::test]
async fn the_recycle_bin_gives_back() {
    let addr = image_server().await;
    let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
    let raw = Raw::new(&sim);
    raw.call("POST", &create(addr, "/good", "")).await;
    assert_eq!(raw.get("{L}/101").await["status"], "CREATED");
    assert_eq!(raw.call("DELETE", "{L}/101").await, (200, json!({"success": true})));
    assert_eq!(raw.call("GET", "{L}/101").await.0, 404);
    let bin = raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["result"]["images"][0]["image_name"], "k8s");
    assert_eq!(bin["locations"][0], json!({"location": "be-mac-dc01-001", "status": "OK"}));
    assert_eq!(raw.call("PUT", "{L}/101/restore").await.0, 200);
    sim.world(|w| w.add_vm("be-mac-dc01-001", 101, "node-1"));
    assert_eq!(raw.call("DELETE", "{L}/101?permanently=true").await.0, 409);
    let spaces = raw.get("{C}/cloudspaces?locations=be-mac-dc01-001").await;
    let space = spaces["result"][0]["cloudspace_id"].as_str().unwrap();
    let vms = raw.get(&format!("{{C}}/cloudspaces/{space}/vms")).await;
    assert_eq!(vms["result"][0]["image_id"], 101);
}

#[tokio::test]
async fn a_wrong_request_is_refused_and_recorded() {
    let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
    let mut raw = Raw::unrecorded(&sim);
    for (method, path, code) in [
        ("GET", "/nothing", 400),
        ("GET", "{L}?name=x", 400),
        ("POST", "{L}?name=x", 400),
        ("GET", "{L}/seven", 400),
        ("GET", "/customers/other_1/locations", 404),
        ("GET", "/customers/acme_1/locations/nowhere/vm-images", 403),
        ("GET", "{L}/9999", 404),
    ] {
        assert_eq!(raw.wrong(method, path).await.0, code, "{method} {path}");
    }
    raw.token = sim.mint_token(sim.unix() - 1.0, true);
    assert_eq!(raw.wrong("GET", "/me").await.0, 401);
    let journal = sim.journal();
    assert!(journal.iter().all(|e| e.deliberate));
    let problems: Vec<&Exchange> = journal.iter().filter(|e| !e.problems.is_empty()).collect();
    assert_eq!(problems.len(), 4, "{problems:#?}");
    assert_eq!(journal.last().unwrap().operation, "getCurrentUserInfo");
}
