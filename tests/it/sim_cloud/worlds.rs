//! Worlds from a file, and what can be asked of one.

use serde_json::json;

use super::*;

const FOREIGN: &str = r"
locations:
  - location: be-mac-dc01-001
    external_networks:
      - { external_network_id: 7, name: net, network: 127.66.1.0/28, public: true }
    disks:
      - { disk_id: 40, customer_id: acme_1, name: d, vm_id: 9, status: ASSIGNED, order: 1 }
cloudspaces:
  - customer_id: acme_1
    location: be-mac-dc01-001
    name: theirs
    vms:
      - { vm_id: 9, name: web, description: hands off }
    pools:
      - { serverpool_id: p1, name: web, hosts: [{ address: 192.168.103.254 }] }
    balancers:
      - { name: web, kind: TCP, port: 6443, serverpool_id: p1, target_port: 80 }
    forwards:
      - { protocol: tcp, local_port: 22, public_port: 22, public_ip: 127.66.1.2, vm_id: 9 }
";

#[tokio::test]
async fn a_file_describes_what_others_have() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("world.yaml");
    std::fs::write(&path, FOREIGN).unwrap();
    let sim = Sim::start(World::load(&path).unwrap(), Pace::Auto).await.unwrap();
    let raw = Raw::new(&sim);
    let spaces = raw.get("{C}/cloudspaces").await;
    assert_eq!(spaces["result"][0]["external_network_ip"], "127.66.1.2/28");
    let id = spaces["result"][0]["cloudspace_id"].as_str().unwrap().to_owned();
    let path = |tail: &str| format!("{{C}}/cloudspaces/{id}{tail}");
    let vms = raw.get(&path("/vms")).await;
    assert_eq!(vms["result"][0]["disks"], json!([40]));
    assert_eq!(vms["result"][0]["network_interfaces"][0]["ip_address"], "192.168.103.254");
    let balancers = raw.get(&path("/ingress/load-balancers")).await;
    assert_eq!(column(&balancers, "serverpool_name"), ["web"]);
    assert!(tokio::net::TcpStream::connect("127.66.1.2:6443").await.is_ok());
    assert_eq!(column(&raw.get(&path("/portforwards")).await, "vm_id"), [9]);

    std::fs::write(dir.path().join("bad.yaml"), "cloudspaces: [{vmz: []}]").unwrap();
    assert!(World::load(&dir.path().join("bad.yaml")).is_err());
}

#[tokio::test]
async fn an_inventory_is_the_same_once_all_is_gone_again() {
    let place = Place::new().await;
    let foreign = place.machine("foreign", "").await;
    let before = place.sim.world(|w| w.inventory());
    let pointer = format!("/acme_1/cloudspaces/{}/vms/{foreign}", place.id);
    let record = place.sim.world(|w| w.record(&pointer)).expect("it is there");
    let vm = place.machine("ours", "&data_disks=3").await;
    place.done("POST", "/ingress/server-pools?name=p").await;
    assert_ne!(place.sim.world(|w| w.inventory()), before);
    let pools = place.get("/ingress/server-pools").await;
    let pool = pools["result"][0]["serverpool_id"].as_str().unwrap();
    place.done("DELETE", &format!("/ingress/server-pools/{pool}")).await;
    place.done("DELETE", &format!("/vms/{vm}?permanently=true")).await;
    assert_eq!(place.sim.world(|w| w.inventory()), before);
    assert_eq!(place.sim.world(|w| w.record(&pointer)), Some(record));
    place.done("PUT", &format!("/vms/{foreign}/description?description=touched")).await;
    assert_ne!(place.sim.world(|w| w.inventory()), before);
}
