//! Disks: made, attached, detached, grown, deleted, brought back.

use std::time::Duration;

use capvco::sim::Pace;
use serde_json::json;

use super::*;

async fn disk(place: &Place, more: &str) -> u64 {
    let path = format!("{AT}/disks?disk_name=d&description=mine&disk_size=10{more}");
    let (code, made) = place.raw.call("POST", &path).await;
    assert_eq!(code, 200, "{made}");
    made["disk_id"].as_u64().unwrap()
}

#[tokio::test]
async fn a_disk_is_on_one_machine_at_most() {
    let place = Place::new().await;
    let (a, b) = (place.machine("a", "").await, place.machine("b", "").await);
    let id = disk(&place, "").await;
    let (on, off) = (format!("/disks?disk_id={id}"), format!("/disks/{id}"));
    for (method, vm, tail, code) in [
        ("DELETE", a, &off, 200),
        ("POST", a, &on, 200),
        ("POST", a, &on, 200),
        ("POST", b, &on, 400),
        ("DELETE", b, &off, 200),
        ("DELETE", a, &off, 200),
        ("POST", b, &on, 200),
        ("POST", b, &"/disks?disk_id=9999".to_owned(), 404),
    ] {
        let (got, why) = place.call(method, &format!("/vms/{vm}{tail}")).await;
        assert_eq!(got, code, "{method} {vm} {tail}: {why}");
    }
    let here = place.get(&format!("/vms/{b}/disks")).await;
    assert_eq!(
        (column(&here, "disk_type"), column(&here, "order")),
        (vec![json!("BOOT"), json!("DATA")], vec![json!("0"), json!("1")])
    );
    let detail = place.raw.get(&format!("{AT}/disks/{id}")).await;
    assert_eq!((&detail["vm_id"], &detail["status"]), (&json!(b), &json!("ASSIGNED")));
    assert_eq!(detail["cloudspace_id"], place.id);
    let boot = &here["result"][0]["disk_id"];
    assert_eq!(place.call("DELETE", &format!("/vms/{b}/disks/{boot}")).await.0, 400);
}

#[tokio::test]
async fn a_machine_has_25_disks_and_one_action_at_a_time() {
    let place = Place::at(Pace::stepped().0).await;
    let vm = place.machine("a", &format!("&data_disks={}", ["1"; 22].join(","))).await;
    place.sim.world(|w| w.rules.attach_time = Duration::from_secs(3));
    let last = disk(&place, &format!("&vm_id={vm}")).await;
    let detail = place.get(&format!("/vms/{vm}")).await;
    assert_eq!(detail["status"], "ATTACHING_DISK");
    assert_eq!(place.raw.get(&format!("{AT}/disks/{last}")).await["status"], "ATTACHING");
    let more = disk(&place, "").await;
    assert_eq!(
        place.call("POST", &format!("/vms/{vm}/disks?disk_id={more}")).await.0,
        400,
        "it is busy"
    );
    place.sim.advance(Duration::from_secs(3)).await;
    assert_eq!(place.status(vm).await, "RUNNING");
    let (code, why) = place.call("POST", &format!("/vms/{vm}/disks?disk_id={more}")).await;
    assert_eq!((code, why["message"].as_str().unwrap().contains("25")), (400, true), "{why}");
}

#[tokio::test]
async fn a_disk_only_grows_and_is_deleted_twice_without_harm() {
    let place = Place::new().await;
    let vm = place.machine("a", "").await;
    let id = disk(&place, &format!("&vm_id={vm}&iops=500")).await;
    let path = format!("{AT}/disks/{id}");
    for (method, tail, code) in [
        ("PUT", "/size?disk_size=10", 400),
        ("PUT", "/size?disk_size=11", 200),
        ("PUT", "/limitio?iops=99", 400),
        ("PUT", "/limitio?iops=3000", 200),
        ("DELETE", "?detach=false", 409),
        ("DELETE", "", 200),
        ("GET", "", 404),
        ("PUT", "/restore", 200),
        ("DELETE", "?permanently=true", 200),
        ("DELETE", "?permanently=true", 200),
        ("PUT", "/restore", 404),
    ] {
        let (got, why) = place.raw.call(method, &format!("{path}{tail}")).await;
        assert_eq!(got, code, "{method} {tail}: {why}");
    }
    place.sim.world(|w| w.rules.destroyed_readable = true);
    let gone = place.raw.get(&path).await;
    assert_eq!((&gone["status"], &gone["iotune"]["iops"]), (&json!("DESTROYED"), &json!(3000)));
}
