//! Objectspaces as a whole.

use std::time::Duration;

use capvco::sim::world::Customer;
use serde_json::json;

use super::*;

const NEW: &str = "{C}/objectspaces?name=backups&location=be-mac-dc01-001";

#[tokio::test]
async fn an_objectspace_comes_and_goes() {
    let sim = Sim::start(world(), Pace::Auto).await.unwrap();
    let raw = Raw::new(&sim);
    let (status, made) = raw.call("POST", NEW).await;
    assert_eq!(status, 200, "{made}");
    let id = made["objectspace_id"].as_str().unwrap().to_owned();
    let list = raw.get("{C}/objectspaces").await;
    assert_eq!(
        (list["result"][0]["status"].as_str(), &list["locations"][0]["status"]),
        (Some("DEPLOYED"), &json!("OK"))
    );
    let place = Place { sim, raw, id, home: tempfile::tempdir().unwrap() };
    assert_eq!(place.get("").await["objectspace_name"], "backups");
    let root = place.root().await;
    root.s5cmd(&["mb", "s3://made-by-s3"]).expect(0);
    assert_eq!(column(&place.get("/buckets").await, "bucket_name"), ["made-by-s3"]);

    place.ok("DELETE", "").await;
    assert!(std::net::TcpStream::connect(root.endpoint().trim_start_matches("http://")).is_err());
    assert_eq!(place.call("DELETE", "").await.0, 404);
    assert_eq!(place.call("GET", "").await.0, 404);
    let bin = place.raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["result"]["objectspaces"][0]["objectspace_id"], place.id.as_str());
    let deleted = place.raw.get("{C}/objectspaces?only_deleted=true").await;
    assert_eq!(deleted["result"][0]["status"], "DELETED");
    place.ok("PUT", "/restore").await;
    assert_eq!(place.call("PUT", "/restore").await.0, 400);
    place.root().await.s5cmd(&["ls", "s3://made-by-s3"]).expect(0);
    place.ok("DELETE", "?permanently=true").await;
    assert_eq!(place.call("DELETE", "?permanently=true").await.0, 404);
    assert!(place.sim.s3_url(&place.id).await.is_err());
}

#[tokio::test]
async fn what_may_not_be_made_is_refused() {
    let sim = Sim::start(world(), Pace::Auto).await.unwrap();
    let raw = Raw::new(&sim);
    sim.world(|w| w.rules.unique_names = true);
    assert_eq!(raw.call("POST", NEW).await.0, 200);
    assert_eq!(raw.call("POST", NEW).await.0, 409);
    assert_eq!(raw.call("POST", &NEW.replace("backups", "%20")).await.0, 400);
    assert_eq!(raw.call("POST", &NEW.replace(HERE, "nowhere")).await.0, 403);
    sim.world(|w| w.site(HERE).down = true);
    assert_eq!(raw.call("POST", &NEW.replace("backups", "more")).await.0, 503);
    let list = raw.get("{C}/objectspaces").await;
    assert_eq!((&list["result"], &list["locations"][0]["status"]), (&json!([]), &json!("ERROR")));
    let (status, said) = raw.wrong("POST", "{C}/objectspaces?name=x").await;
    assert_eq!(status, 400, "{said}");
}

#[tokio::test]
async fn an_objectspace_of_others_is_not_there() {
    let place = Place::new().await;
    let other = Customer { customer_id: "other_1".into(), name: "Other".into() };
    place.sim.world(|w| w.customers.push(other));
    let path = place.path("").replace("{C}", "/customers/other_1");
    assert_eq!(place.raw.call("GET", &path).await.0, 404);
    assert_eq!(place.raw.get("/customers/other_1/objectspaces").await["result"], json!([]));
}

#[tokio::test]
async fn an_objectspace_is_deployed_when_its_time_has_come() {
    let sim = Sim::start(world(), Pace::stepped().0).await.unwrap();
    let raw = Raw::new(&sim);
    sim.world(|w| w.rules.objectspace_time = Duration::from_mins(1));
    let made = raw.call("POST", NEW).await.1;
    let id = made["objectspace_id"].as_str().unwrap().to_owned();
    let place = Place { sim, raw, id, home: tempfile::tempdir().unwrap() };
    assert_eq!(place.get("").await["status"], "DEPLOYING");
    assert_eq!(place.call("POST", "/buckets/etcd").await.0, 400);
    place.sim.advance(Duration::from_mins(1)).await;
    assert_eq!(place.get("").await["status"], "DEPLOYED");
    place.ok("POST", "/buckets/etcd").await;
}

#[tokio::test]
async fn reset_keys_work_and_the_old_ones_do_not() {
    let place = Place::new().await;
    let old = place.root().await;
    old.s5cmd(&["mb", "s3://b"]).expect(1).says("InvalidBucketName");
    old.s5cmd(&["mb", "s3://bucket"]).expect(0);
    let new = place.ok("PUT", "/reset").await;
    let text = |key: &str| new[key].as_str().unwrap().to_owned();
    let new = place.s3(&text("access_key"), &text("secret_key")).await;
    new.s5cmd(&["ls", "s3://bucket"]).expect(0);
    old.s5cmd(&["ls", "s3://bucket"]).expect(1);
    assert_eq!(place.get("").await["access_key"], new.access_key());
}

#[tokio::test]
async fn cloudspaces_are_linked_within_a_location_and_without_overlap() {
    let place = Place::new().await;
    let customer = place.sim.customer().to_owned();
    let space = |location: &str, network: &str| {
        place.sim.world(|w| w.add_cloudspace(&customer, location, "net", network))
    };
    let (one, same) = (space(HERE, ""), space(HERE, "192.168.103.128/25"));
    let (apart, far) = (space(HERE, "10.0.0.0/24"), space("nl-rmd-dc01-001", "10.1.0.0/24"));
    let links = |id: &str| format!("{{C}}/cloudspaces/{id}/objectspaces");
    let link = |id: &str| format!("{}?objectspace_id={}", links(id), place.id);
    for (cloudspace, status) in
        [(&one, 200), (&one, 409), (&same, 400), (&apart, 200), (&far, 400), (&"x".into(), 404)]
    {
        assert_eq!(place.raw.call("POST", &link(cloudspace)).await.0, status, "{cloudspace}");
    }
    let seen = place.raw.get(&links(&apart)).await;
    assert_eq!(seen["result"][0]["ip_address"], "10.0.0.254");
    let detail = place.get("").await;
    assert_eq!(detail["cloudspaces"][0]["ip_address"], "192.168.103.254");
    place.sim.world(|w| w.rules.reachable_addresses = true);
    let url = place.sim.s3_url(&place.id).await.unwrap();
    let seen = place.raw.get(&links(&apart)).await;
    let address = seen["result"][0]["ip_address"].as_str().unwrap();
    assert_eq!(format!("http://{address}"), url);
    assert_eq!(place.raw.call("DELETE", &link(&apart)).await.0, 200);
    assert_eq!(place.raw.call("DELETE", &link(&apart)).await.0, 404);
    assert_eq!(place.raw.get(&links(&apart)).await["result"], json!([]));
}

#[tokio::test]
async fn a_published_objectspace_has_a_domain_and_a_cloudspace() {
    let sim = Sim::start(world(), Pace::Auto).await.unwrap();
    let raw = Raw::new(&sim);
    let through = json!({"subnet": "10.0.7.0/24", "external_network": 5});
    for (cloudspace, want) in [(json!({}), 400), (through, 200)] {
        let body = json!({"domain": "s3.example.com", "cloudspace": cloudspace});
        let (status, made) = read(raw.request("POST", NEW).json(&body).send().await.unwrap()).await;
        assert_eq!(status, want, "{made}");
        if status == 200 {
            let id = made["objectspace_id"].as_str().unwrap();
            let detail = raw.get(&format!("{{C}}/objectspaces/{id}")).await;
            assert_eq!(detail["domain"], "s3.example.com");
            assert_eq!(detail["cloudspaces"][0]["ip_address"], "10.0.7.254");
        }
    }
}

#[tokio::test]
async fn notes_are_kept() {
    let place = Place::new().await;
    let note = |content: &str| json!({"title": "mark", "content": content});
    assert_eq!(place.send("POST", "/notes", &note("a")).await.0, 200);
    assert_eq!(place.send("POST", "/notes", &note("b")).await.0, 200);
    let ids = column(&place.get("/notes").await, "id");
    let path = format!("/notes/{}", ids[0]);
    assert_eq!(place.send("PUT", &path, &note("c")).await.0, 200);
    assert_eq!(column(&place.get("/notes").await, "content"), ["c", "b"]);
    place.ok("DELETE", &path).await;
    assert_eq!(place.call("DELETE", &path).await.0, 404);
    assert_eq!(column(&place.get("/notes").await, "content"), ["b"]);
}

#[tokio::test]
async fn the_journal_holds_no_secret() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/etcd").await;
    let key = place.key("etcd", "k", "rw").await;
    place.ok("PUT", "/reset").await;
    place.get("/buckets/etcd/access-management").await;
    let root = place.root().await;
    let journal = format!("{:?}", place.sim.journal());
    assert!(journal.contains("***") && journal.contains(key.access_key()));
    for secret in [key.secret_key(), root.secret_key()] {
        assert!(secret.len() >= 40 && !journal.contains(secret));
    }
}
