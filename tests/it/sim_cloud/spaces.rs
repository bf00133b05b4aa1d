//! Cloudspaces: lifecycle, names, addresses, notes, quotas, lists.

use std::time::Duration;

use capvco::sim::Pace;
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_cloudspace_is_deployed_in_its_time_and_its_name_stays_taken_in_the_bin() {
    let place = Place::at(Pace::stepped().0).await;
    place.sim.world(|w| w.rules.cloudspace_time = Duration::from_secs(30));
    let create = async |name: &str| {
        let request = place.raw.request("POST", "{C}/cloudspaces").json(&space(name));
        read(request.send().await.unwrap()).await
    };
    let (code, made) = create("other").await;
    assert_eq!(code, 200, "{made}");
    let path = format!("{{C}}/cloudspaces/{}", made["cloudspace_id"].as_str().unwrap());
    assert_eq!(place.raw.get(&path).await["status"], "DEPLOYING");
    let (code, _) = place.raw.call("POST", &format!("{path}/vms?name=a&{SMALL}")).await;
    assert_eq!(code, 400, "it is not DEPLOYED");
    assert_eq!(place.raw.call("DELETE", &path).await.0, 400);
    place.sim.advance(Duration::from_secs(30)).await;
    assert_eq!(place.raw.get(&path).await["status"], "DEPLOYED");
    assert_eq!(create("other").await.0, 409);
    assert_eq!(place.raw.call("PUT", &format!("{path}/name?name=net")).await.0, 409);
    assert_eq!(place.raw.call("PUT", &format!("{path}/name?name=other")).await.0, 200);
    assert_eq!(place.raw.call("DELETE", &path).await.0, 200);
    assert_eq!(place.raw.call("GET", &path).await.0, 404);
    assert_eq!(create("other").await.0, 409, "the bin reserves the name");
    let bin = place.raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["result"]["cloudspaces"][0]["cloudspace_name"], "other");
    let all = place.raw.get("{C}/cloudspaces?include_deleted=true").await;
    assert_eq!(column(&all, "status"), ["DEPLOYED", "DELETED"]);
    assert_eq!(place.raw.call("PUT", &format!("{path}/restore")).await.0, 200);
    place.sim.advance(Duration::from_secs(30)).await;
    assert_eq!(place.raw.call("DELETE", &format!("{path}?permanently=true")).await.0, 200);
    assert_eq!(create("other").await.0, 200);
}

#[tokio::test]
async fn what_is_no_cloudspace_is_refused() {
    let place = Place::new().await;
    for (change, code) in [
        (json!({"private_network": "10.0.0.1/24"}), 400),
        (json!({"location": "nowhere"}), 403),
        (json!({"name": ""}), 400),
        (json!({"firewall": {"private": false, "external_network_id": 99}}), 404),
        (json!({"public_ip_quota": 0}), 400),
    ] {
        let mut body = space("x");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let request = place.raw.request("POST", "{C}/cloudspaces").json(&body);
        assert_eq!(read(request.send().await.unwrap()).await.0, code, "{body}");
    }
    let request = place.raw.request("POST", "{C}/cloudspaces").header("x-capvco-deliberate", "1");
    let wrong = request.json(&json!({"name": "x", "location": HERE}));
    assert_eq!(read(wrong.send().await.unwrap()).await.0, 400, "firewall is required");
    place.sim.world(|w| w.site(HERE).external_networks[0].network = "127.0.9.0/30".into());
    let last = place.raw.request("POST", "{C}/cloudspaces").json(&space("y"));
    assert_eq!(read(last.send().await.unwrap()).await.0, 200, "one address was left");
    let request = place.raw.request("POST", "{C}/cloudspaces").json(&space("z"));
    assert_eq!(read(request.send().await.unwrap()).await.0, 503, "no address is free");
}

#[tokio::test]
async fn a_cloudspace_with_machines_stays() {
    let place = Place::new().await;
    let vm = place.machine("a", "").await;
    assert_eq!(place.call("DELETE", "").await.0, 409);
    place.done("DELETE", &format!("/vms/{vm}")).await;
    place.done("DELETE", "?permanently=true").await;
    let bin = place.raw.get("{C}/recycle-bin").await;
    assert_eq!(bin["result"]["vms"], json!([]), "the bin's machines went with it");
    assert_eq!(bin["result"]["disks"], json!([]));
}

#[tokio::test]
async fn addresses_are_given_out_and_taken_back() {
    let place = Place::new().await;
    let networks = place.raw.get(&format!("{AT}/external-networks")).await;
    let id = networks["result"][0]["external_network_id"].as_u64().unwrap();
    let one = place.raw.get(&format!("{AT}/external-networks/{id}")).await;
    assert_eq!((&one["public"], &one), (&json!(true), &networks["result"][0]));
    let path = format!("{AT}/external-networks/{id}/ip-addresses");
    let free = place.raw.get(&path).await["ip_addresses"].as_array().unwrap().clone();
    let (first, second) = (free[0].as_str().unwrap(), free[1].as_str().unwrap());
    let kind = "external_network_type=external";
    let query = format!("?external_network_id={id}&{kind}");
    let added = place.done("POST", &format!("/external-networks{query}")).await;
    assert!(added["external_network_ip"].as_str().unwrap().starts_with(&format!("{first}/")));
    let wanted = format!("/external-networks{query}&external_network_ip={second}&metric=501");
    place.done("POST", &wanted).await;
    assert_eq!(place.call("POST", &wanted).await.0, 400, "it is taken");
    let list = place.get("/external-networks").await;
    assert_eq!(column(&list, "metric"), [1, 2, 501]);
    assert_eq!(list["result"][0]["external_network_id"], id.to_string());
    let listed = list["result"][2]["external_network_ip"].as_str().unwrap().replace('/', "%2F");
    let change = format!(
        "/external-networks?external_network_id={id}&external_network_ip={second}&metric=502"
    );
    place.done("PUT", &change).await;
    assert_eq!(column(&place.get("/external-networks").await, "metric"), [1, 2, 502]);
    let remove =
        format!("/external-networks?external_network_id={id}&external_network_ip={listed}");
    place.done("DELETE", &remove).await;
    assert_eq!(place.call("DELETE", &remove).await.0, 404);
    assert_eq!(
        place.raw.get(&path).await["ip_addresses"].as_array().unwrap().len(),
        free.len() - 1
    );

    let private = place.get("/available-ip-addresses").await;
    assert_eq!(private["ip_addresses"].as_array().unwrap().len(), 253);
    let subnets = place.raw.get("{C}/cloudspaces/available-subnets?number_of_networks=2").await;
    assert_eq!(column(&subnets, "ip_address"), ["192.168.104.0/24", "192.168.105.0/24"]);
}

#[tokio::test]
async fn notes_are_kept_on_cloudspaces_machines_and_disks() {
    let place = Place::new().await;
    let vm = place.machine("a", "").await;
    let disk = place.get(&format!("/vms/{vm}")).await["boot_disk_id"].as_u64().unwrap();
    for path in [
        place.path("/notes"),
        place.path(&format!("/vms/{vm}/notes")),
        format!("{AT}/disks/{disk}/notes"),
    ] {
        let send = async |method: &str, tail: &str, title: &str| {
            let request = place.raw.request(method, &format!("{path}{tail}"));
            let request = request.json(&json!({"title": title, "content": "c"}));
            read(request.send().await.unwrap()).await.0
        };
        for _ in 0..2 {
            assert_eq!(send("POST", "", "same").await, 200, "titles may repeat");
        }
        assert_eq!(send("PUT", "/note-2", "new").await, 200);
        assert_eq!(column(&place.raw.get(&path).await, "title"), ["same", "new"]);
        assert_eq!(place.raw.call("DELETE", &format!("{path}/note-1")).await.0, 200);
        assert_eq!(place.raw.call("DELETE", &format!("{path}/note-1")).await.0, 404);
        assert_eq!(column(&place.raw.get(&path).await, "id"), ["note-2"]);
    }
}

#[tokio::test]
async fn quotas_are_told_and_held() {
    let place = Place::new().await;
    place.machine("a", "").await;
    let body = json!({"locations": [{"name": HERE, "resources": {
        "max_cpu_capacity": 3, "max_vdisk_capacity": 0, "max_memory_capacity": 0,
        "max_public_ips": 0, "max_iops": 0,
    }}], "resource_limit_message": "call us"});
    let request = place.raw.request("PUT", "{C}/quota").json(&body);
    assert_eq!(read(request.send().await.unwrap()).await.0, 200);
    let told = place.raw.get("{C}/quota").await;
    assert_eq!(told["locations"][0]["resources"]["max_cpu_capacity"], 3);
    let (code, why) = place.call("POST", &format!("/vms?name=b&{SMALL}")).await;
    assert_eq!(code, 400);
    assert!(why["message"].as_str().unwrap().contains("1 vCPU"), "{why}");
    let used = place.raw.get("{C}/locations/consumption").await;
    let row = &used["result"][0];
    assert_eq!(
        (&row["total_vcpu"], &row["used_vcpu"], &row["used_mu"]),
        (&json!(3), &json!(2), &json!(2))
    );
    place.done("PUT", "/quota?memory_quota=3.5").await;
    assert_eq!(place.get("").await["resource_limits"]["memory_quota"], 3.5);
    place.sim.world(|w| w.allowances.clear());
    let (code, why) = place.call("POST", &format!("/vms?name=b&{SMALL}")).await;
    assert_eq!((code, why["message"].as_str().unwrap().contains("512 MiB")), (400, true), "{why}");
}

#[tokio::test]
async fn lists_lag_behind_or_leave_out_a_location() {
    let place = Place::new().await;
    let vm = place.machine("a", "").await;
    let lists: [(&str, String, &str); 4] = [
        ("listCloudspaceVirtualMachines", place.path("/vms"), "name"),
        ("listDisksVirtualMachine", place.path(&format!("/vms/{vm}/disks")), "disk_name"),
        ("listDisks", format!("{AT}/disks"), "disk_name"),
        ("getDiskNotes", format!("{AT}/disks/102/notes"), "title"),
    ];
    for (operation, path, field) in lists {
        let before = place.raw.get(&path).await;
        match operation {
            "listCloudspaceVirtualMachines" => drop(place.machine("b", "").await),
            "getDiskNotes" => {
                let note = json!({"title": "t", "content": "c"});
                let request = place.raw.request("POST", &path).json(&note);
                assert_eq!(read(request.send().await.unwrap()).await.0, 200);
            }
            _ => {
                let query = format!("disk_name=d&description=d&disk_size=1&vm_id={vm}");
                let made = place.raw.call("POST", &format!("{AT}/disks?{query}")).await;
                assert_eq!(made.0, 200, "{made:?}");
                if operation == "listDisksVirtualMachine" {
                    place.done("DELETE", &format!("/vms/{vm}/disks/{}", made.1["disk_id"])).await;
                    place
                        .done("POST", &format!("/vms/{vm}/disks?disk_id={}", made.1["disk_id"]))
                        .await;
                }
            }
        }
        place.sim.fault(format!("{operation}=stale-list").parse().unwrap());
        let late = place.raw.get(&path).await;
        assert_eq!(late, before, "{operation}");
        assert_eq!(
            column(&place.raw.get(&path).await, field).len(),
            column(&before, field).len() + 1
        );
    }
    place.sim.fault(format!("*@{HERE}=location-error*2").parse().unwrap());
    let spaces = place.raw.get("{C}/cloudspaces").await;
    assert_eq!(
        (&spaces["result"], &spaces["locations"][0]["status"]),
        (&json!([]), &json!("ERROR"))
    );
    assert_eq!(place.call("GET", "").await.0, 503);
    place.sim.fault(format!("createCloudspace@{HERE}=500-after").parse().unwrap());
    let request = place.raw.request("POST", "{C}/cloudspaces").json(&space("late"));
    assert_eq!(read(request.send().await.unwrap()).await.0, 500, "the location is the body's");
    assert_eq!(column(&place.raw.get("{C}/cloudspaces").await, "name"), ["net", "late"]);
}
