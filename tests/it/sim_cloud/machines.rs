//! Machines: made, switched, changed, deleted; interfaces, groups, and what is told of them.

use std::time::Duration;

use capvco::sim::{Pace, VmEvent};
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_machine_is_deployed_and_told_in_its_time() {
    let place = Place::at(Pace::stepped().0).await;
    place.sim.world(|w| {
        w.rules.vm_time = Duration::from_secs(20);
        w.rules.power_time = Duration::from_secs(5);
        w.rules.undefined_address = true;
    });
    let mut events = place.sim.vm_events();
    let body = json!({"userdata": {"ssh_pwauth": false, "bootcmd": ["tell nobody"]}});
    let (code, made) =
        place.send("POST", &format!("/vms?name=a&{SMALL}&data_disks=20,30"), &body).await;
    assert_eq!(code, 200, "{made}");
    let id = made["vm_id"].as_u64().unwrap();
    let path = format!("/vms/{id}");
    let list = place.get("/vms").await;
    let row = &list["result"][0];
    assert_eq!(
        (&row["status"], &row["network_interfaces"][0]["ip_address"]),
        (&json!("DEPLOYING"), &json!("Undefined"))
    );
    assert_eq!(place.call("POST", &format!("{path}/stop")).await.0, 400, "one action at a time");
    assert_eq!(events.try_next(), None);
    place.sim.advance(Duration::from_secs(20)).await;
    let Some(VmEvent::Started(machine)) = events.try_next() else { panic!("it was not started") };
    assert_eq!(machine.private_ip, "192.168.103.254");
    assert_eq!(machine.data_disks.iter().map(|d| d.size).collect::<Vec<_>>(), [20, 30]);
    assert_eq!(machine.vm.userdata.given, *body["userdata"].as_object().unwrap());
    assert_eq!(machine.vm.userdata.merged["users"][0]["name"], "user");
    let detail = place.get(&path).await;
    let password = detail["os_accounts"][0]["password"].as_str().unwrap();
    assert_eq!((detail["hostname"].as_str(), password.len() > 8), (Some("a"), true));
    place.done("POST", &format!("{path}/stop")).await;
    assert_eq!(place.status(id).await, "STOPPING");
    place.sim.advance(Duration::from_secs(5)).await;
    assert!(matches!(events.try_next(), Some(VmEvent::Stopped(at)) if at.vm_id == id));
    assert_eq!(place.status(id).await, "HALTED");
    place.done("DELETE", &format!("{path}?permanently=true")).await;
    assert!(matches!(events.try_next(), Some(VmEvent::Deleted(_))));
    for exchange in place.sim.journal() {
        let text = serde_json::to_string(&exchange).unwrap();
        assert!(!text.contains(password) && !text.contains("tell nobody"), "{text}");
    }
    assert_eq!(events.try_next(), None);
}

#[tokio::test]
async fn an_action_ends_on_time_though_nobody_calls() {
    let place = Place::new().await;
    let id = place.machine("a", "").await;
    place.sim.world(|w| w.rules.power_time = Duration::from_millis(50));
    let mut events = place.sim.vm_events();
    assert!(matches!(events.next().await, Some(VmEvent::Started(_))), "it runs already");
    place.done("POST", &format!("/vms/{id}/stop")).await;
    assert!(matches!(events.next().await, Some(VmEvent::Stopped(_))));
}

#[tokio::test]
async fn what_is_no_machine_is_refused() {
    let place = Place::new().await;
    place.machine("a", "&private_ip=192.168.103.10").await;
    place.sim.world(|w| w.site(HERE).stack_memory = 100_000);
    let query = |change: (&str, &str)| format!("name=b&{SMALL}").replace(change.0, change.1);
    for (change, more, code) in [
        (("name=b", "name=a"), "", 409),
        (("2048", "2047"), "", 400),
        (("=100", "=999"), "", 404),
        (("size=10", "size=9"), "", 400),
        (("2048", "200000"), "", 503),
        (("", ""), "&private_ip=192.168.103.10", 409),
        (("", ""), "&private_ip=192.168.104.10", 400),
        (("", ""), "&user_data=%23%21%2Fbin%2Fsh", 400),
        (("", ""), "&user_data=-%20a", 400),
        (("", ""), &format!("&data_disks={}", vec!["1"; 24].join(",")), 400),
    ] {
        let (got, why) = place.call("POST", &format!("/vms?{}{more}", query(change))).await;
        assert_eq!(got, code, "{change:?} {more}: {why}");
    }
    assert_eq!(place.get("/vms").await["result"].as_array().unwrap().len(), 1);
    let good = format!("/vms?{}&user_data=hostname%3A%20h", query(("", "")));
    place.done("POST", &good).await;
}

#[tokio::test]
async fn a_machine_is_switched_and_resized_as_its_state_allows() {
    let place = Place::new().await;
    let id = place.machine("a", "&start_vm=false").await;
    let step =
        async |method: &str, tail: &str| place.call(method, &format!("/vms/{id}{tail}")).await.0;
    for (method, tail, code, status) in [
        ("POST", "/pause", 400, "HALTED"),
        ("PUT", "/size?memory=1024", 200, "HALTED"),
        ("POST", "/start", 200, "RUNNING"),
        ("POST", "/start", 200, "RUNNING"),
        ("PUT", "/size?vcpus=4", 200, "RUNNING"),
        ("PUT", "/size?vcpus=1", 400, "RUNNING"),
        ("POST", "/pause", 200, "PAUSED"),
        ("POST", "/reboot", 400, "PAUSED"),
        ("POST", "/resume", 200, "RUNNING"),
        ("POST", "/reboot", 200, "RUNNING"),
        ("POST", "/reset", 200, "RUNNING"),
        ("POST", "/stop?force=true", 200, "HALTED"),
        ("PUT", "/name?name=b", 200, "HALTED"),
        ("PUT", "/description?description=mine", 200, "HALTED"),
    ] {
        assert_eq!(step(method, tail).await, code, "{method} {tail}");
        assert_eq!(place.status(id).await, status, "{method} {tail}");
    }
    let detail = place.get(&format!("/vms/{id}")).await;
    assert_eq!((&detail["name"], &detail["description"]), (&json!("b"), &json!("mine")));
    assert_eq!((&detail["vcpus"], &detail["memory"]), (&json!(4), &json!(1024)));
    assert_eq!(place.call("GET", "/vms/9999").await.0, 404);
}

#[tokio::test]
async fn what_goes_with_a_machine_and_what_stays() {
    let place = Place::new().await;
    let (kept, gone) =
        (place.machine("a", "&data_disks=5").await, place.machine("b", "&data_disks=5").await);
    let pool = place.done("POST", "/ingress/server-pools?name=p").await["id"].clone();
    let pool = format!("/ingress/server-pools/{}", pool.as_str().unwrap());
    place.done("POST", &format!("{pool}/hosts?address=192.168.103.253")).await;
    place
        .done(
            "POST",
            &format!("/portforwards?local_port=22&public_port=22&protocol=tcp&vm_id={gone}"),
        )
        .await;
    place.done("POST", &format!("/vms/{gone}/external-nics?external_network_id=5")).await;
    place.done("POST", "/anti-affinity-groups?group_id=g&spread=3").await;
    place.done("POST", &format!("/anti-affinity-groups/g/vms?vm_id={gone}")).await;

    place.done("DELETE", &format!("/vms/{kept}?permanently=true&detach_disks=true")).await;
    let left = place.raw.get(&format!("{AT}/disks")).await;
    let left: Vec<_> = column(&left, "vm_id").into_iter().zip(column(&left, "status")).collect();
    assert_eq!(left[0], (Value::Null, json!("CREATED")), "the data disk was detached");
    assert_eq!(left.len(), 3);

    place.done("DELETE", &format!("/vms/{gone}")).await;
    assert_eq!(place.call("GET", &format!("/vms/{gone}")).await.0, 404);
    assert_eq!(column(&place.get("/vms?include_deleted=true").await, "status"), ["DELETED"]);
    assert_eq!(place.get("/portforwards").await["result"], json!([]));
    assert_eq!(place.get(&format!("{pool}/hosts")).await["result"].as_array().unwrap().len(), 1);
    let bin = place.raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["result"]["vms"][0]["vm_id"], gone);
    assert_eq!(bin["result"]["disks"].as_array().unwrap().len(), 2);

    assert_eq!(
        place.call("POST", &format!("/vms?name=b&{SMALL}")).await.0,
        409,
        "its name is reserved"
    );
    place.done("PUT", &format!("/vms/{gone}/restore?reason=why")).await;
    assert_eq!(place.status(gone).await, "HALTED");
    assert_eq!(
        place.get(&format!("/vms/{gone}/disks")).await["result"].as_array().unwrap().len(),
        2
    );
    assert_eq!(place.get(&format!("/vms/{gone}/external-nics")).await["result"], json!([]));
    place.sim.world(|w| w.rules.gone_status = 400);
    place.done("DELETE", &format!("/vms/{gone}?permanently=true")).await;
    assert_eq!(place.call("GET", &format!("/vms/{gone}")).await.0, 400);
    assert_eq!(place.get("/anti-affinity-groups/g/vms").await["vms"], json!([]));
}

#[tokio::test]
async fn interfaces_come_and_go() {
    let place = Place::new().await;
    let id = place.machine("a", "").await;
    let free = place.raw.get(&format!("{AT}/external-networks/5/ip-addresses")).await;
    let ip = free["ip_addresses"][3].as_str().unwrap();
    let nics = format!("/vms/{id}/external-nics");
    place.done("POST", &format!("{nics}?external_network_id=5&external_network_ip={ip}")).await;
    assert_eq!(
        place
            .call("POST", &format!("{nics}?external_network_id=5&external_network_ip={ip}"))
            .await
            .0,
        400
    );
    let list = place.get(&nics).await;
    assert_eq!(list["result"][0]["nic_type"], "EXTERNAL");
    assert!(list["result"][0]["ip_address"].as_str().unwrap().starts_with(&format!("{ip}/")));
    assert_eq!(place.get(&format!("{nics}/{ip}")).await, list["result"][0]);
    let seen = place.get("/vms").await["result"][0]["network_interfaces"].clone();
    assert_eq!(
        (&seen[0]["external_network_type"], &seen[1]["external_network_type"]),
        (&json!("bridge"), &json!("EXTERNAL"))
    );
    let other = place.sim.world(|w| w.add_cloudspace("acme_1", HERE, "b", "10.1.0.0/24"));
    place.done("POST", &format!("{nics}?external_network_id=-1&external_network_type=cloudspace&external_cloudspace_id={other}")).await;
    assert_eq!(column(&place.get(&nics).await, "network_id"), [json!(5), json!(-1)]);
    let query = "external_network_id=5&external_network_type=external";
    place.done("DELETE", &format!("{nics}/{ip}?{query}")).await;
    assert_eq!(place.call("DELETE", &format!("{nics}/{ip}?{query}")).await.0, 404);
}

#[tokio::test]
async fn a_group_spreads_its_members_when_they_start() {
    let place = Place::new().await;
    place.done("POST", "/anti-affinity-groups?group_id=g&spread=3").await;
    assert_eq!(place.call("POST", "/anti-affinity-groups?group_id=g&spread=3").await.0, 409);
    assert_eq!(place.get("/anti-affinity-groups/g").await["status"], "INCOMPLETE");
    for name in ["a", "b", "c"] {
        let id = place.machine(name, "&start_vm=false").await;
        place.done("POST", &format!("/anti-affinity-groups/g/vms?vm_id={id}")).await;
        place.done("POST", &format!("/vms/{id}/start")).await;
        let groups = place.get(&format!("/vms/{id}")).await["anti_affinity_group_ids"].clone();
        assert_eq!(groups, json!(["g"]));
    }
    let mut stacks = column(&place.get("/vms").await, "stack_id");
    stacks.sort_by_key(Value::as_u64);
    assert_eq!(stacks, [1, 2, 3]);
    let members = place.get("/anti-affinity-groups/g/vms").await;
    assert_eq!(members["vms"][0]["status"], "RUNNING");
    let first = members["vms"][0]["vm_id"].clone();
    place.done("PUT", "/anti-affinity-groups/g?spread=2").await;
    assert_eq!(place.get("/anti-affinity-groups").await["result"][0]["status"], "COMPLETE");
    place.done("DELETE", &format!("/anti-affinity-groups/g/vms/{first}")).await;
    place.done("DELETE", "/anti-affinity-groups/g").await;
    assert_eq!(place.call("GET", "/anti-affinity-groups/g").await.0, 404);
}

#[tokio::test]
async fn a_mask_keeps_passwords_out_of_a_reply() {
    let place = Place::new().await;
    let id = place.machine("a", "").await;
    let request = place.request("GET", &format!("/vms/{id}")).header("x-fields", "vm_id,name");
    let (code, body) = read(request.send().await.unwrap()).await;
    assert_eq!((code, body), (200, json!({"vm_id": id, "name": "a"})));
}
