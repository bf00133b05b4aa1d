//! The embedded cloud's doors over real HTTP: tokens, refreshes, limits, locations, masks.

use std::time::Duration;

use capvco::sim::rules::RefreshReply;
use capvco::sim::world::Customer;
use capvco::sim::{Pace, Sim, World};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::raw::{Raw, read};

async fn cloud() -> (Sim, Raw) {
    let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
    let raw = Raw::new(&sim);
    (sim, raw)
}

async fn refresh(sim: &Sim, token: &str) -> (u16, Value) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    read(http.get(sim.iam_refresh_url()).bearer_auth(token).send().await.unwrap()).await
}

#[tokio::test]
async fn an_expired_token_is_refreshed_in_every_form() {
    for (form, key) in [
        (RefreshReply::Bare, None),
        (RefreshReply::Quoted, None),
        (RefreshReply::Jwt, Some("jwt")),
        (RefreshReply::Token, Some("token")),
        (RefreshReply::AccessToken, Some("access_token")),
    ] {
        let (sim, mut raw) = cloud().await;
        sim.world(|w| w.rules.refresh_reply = form);
        sim.advance(Duration::from_secs(86_401)).await;
        assert_eq!(raw.call("GET", "/me").await.0, 401);
        let (status, body) = refresh(&sim, &raw.token).await;
        assert_eq!(status, 200);
        raw.token = key.map_or(&body, |key| &body[key]).as_str().unwrap().to_owned();
        assert_eq!(raw.get("/me").await["username"], "operator", "{form:?}");
    }
}

#[tokio::test]
async fn some_tokens_are_never_refreshed() {
    let (sim, raw) = cloud().await;
    let plain = sim.mint_token(sim.unix() + 60.0, false);
    assert_eq!(refresh(&sim, &plain).await.0, 401);
    assert_eq!(refresh(&sim, "nonsense").await.0, 400);
    sim.revoke(&raw.token);
    assert_eq!(refresh(&sim, &raw.token).await.0, 401);
    assert_eq!(raw.call("GET", "/me").await.0, 401);
}

#[tokio::test]
async fn me_lists_the_customers() {
    let (sim, raw) = cloud().await;
    let more = Customer { customer_id: "other_1".into(), name: "Other".into() };
    sim.world(|w| w.customers.push(more));
    let me = raw.get("/me").await;
    assert_eq!(me["customers"][1]["customer_id"], "other_1");
    assert_eq!(format!("http://{}", me["iam_domain"].as_str().unwrap()), sim.portal_url());
}

#[tokio::test]
async fn a_location_is_known_by_what_it_says() {
    let (sim, raw) = cloud().await;
    let here = "/customers/acme_1/locations/be-mac-dc01-001";
    sim.world(|w| w.site("be-mac-dc01-001").storage_only = true);
    assert_eq!(raw.get(here).await["storage_only"], true);
    let all = raw.get("{C}/locations").await;
    assert_eq!(all["locations"].as_array().unwrap().len(), 3);
    assert!(raw.get(&format!("{here}/capacity")).await["vcu"].is_u64());
    sim.world(|w| w.site("be-mac-dc01-001").down = true);
    assert_eq!(raw.call("GET", "{L}").await.0, 503);
    let bin = raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["locations"][0]["status"], "ERROR");
    let names = raw.get("/customers/vm-images/os-names").await;
    assert_eq!(names["result"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn the_limits_of_a_location_are_kept() {
    let (sim, raw) = cloud().await;
    sim.world(|w| w.rules.limits.on = true);
    for _ in 0..20 {
        raw.get("{L}").await;
    }
    let refused = raw.request("GET", "{L}").send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "5");
    sim.world(|w| w.rules.limits.retry_after = false);
    let refused = raw.request("GET", "{L}").send().await.unwrap();
    assert!(!refused.headers().contains_key("retry-after"));
    sim.advance(Duration::from_secs(5)).await;
    raw.get("{L}").await;
}

#[tokio::test]
async fn a_location_does_five_things_at_once() {
    let sim = Sim::start(World::small(), Pace::Auto).await.unwrap();
    sim.world(|w| {
        w.rules.limits.on = true;
        w.rules.latency = Duration::from_millis(300);
    });
    let raw = Raw::new(&sim);
    let calls = join_all((0..8).map(|_| raw.call("GET", "{L}"))).await;
    assert_eq!(calls.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(calls.iter().filter(|(status, _)| *status == 429).count(), 3);
    assert_eq!(raw.call("GET", "{L}").await.0, 200, "the five are over");
}

#[tokio::test]
async fn a_mask_leaves_what_was_asked_for() {
    let (sim, raw) = cloud().await;
    let masked = |mask: &'static str| {
        let request = raw.request("GET", "{L}").header("X-Fields", mask);
        async { read(request.send().await.unwrap()).await }
    };
    let want = json!({"result": [{"image_id": 100, "name": "Ubuntu 24.04 LTS"}]});
    assert_eq!(masked("result{image_id,name}").await, (200, want));
    assert_eq!(masked("result{").await.0, 400);
    assert_eq!(sim.journal()[0].x_fields.as_deref(), Some("result{image_id,name}"));
}

#[tokio::test]
async fn hundreds_of_connections_and_locations_are_no_matter() {
    let names: Vec<String> = (0..200).map(|n| format!("xx-{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sim = Sim::start(World::of("acme_1", &names), Pace::Auto).await.unwrap();
    sim.world(|w| w.rules.latency = Duration::from_millis(200));
    let raw = Raw::new(&sim);
    let calls = names.iter().flat_map(|name| {
        let path = format!("{{C}}/locations/{name}/vm-images");
        let raw = &raw;
        (0..2).map(move |_| {
            let path = path.clone();
            async move { raw.call("GET", &path).await.0 }
        })
    });
    let statuses = join_all(calls).await;
    assert_eq!(statuses.len(), 400);
    assert!(statuses.iter().all(|status| *status == 200));
}
