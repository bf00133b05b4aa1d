//! What the calls about a cluster's parts send, and what they make of odd replies.

use super::*;

use capvco::id::{CloudspaceId, DiskId, HostId, LoadBalancerId, ServerPoolId, VmId};
use capvco::vco::{NewCloudspace, NewDisk, NewLoadBalancer, NewVm};
use serde_json::{Value, json as object};

fn space() -> CloudspaceId {
    "YmUtMTox".parse().expect("be-1:1 in base64")
}

const CS: &str = "/cloudspaces/YmUtMTox";

/// A reply that every call can read.
const GOOD: &str = r#"{"cloudspace_id": "YmUtMTox", "vm_id": 7, "disk_id": 9, "id": "x",
    "serverpool_id": "p", "host_id": "h", "loadbalancer_id": "l", "success": true, "result": [],
    "vms": [], "ip_addresses": [], "locations": [{"location": "be-1", "status": "OK"}]}"#;

fn new_vm() -> NewVm {
    let userdata = object!({"runcmd": ["echo \u{fc}"], "ssh_pwauth": false});
    NewVm {
        name: "cp-1".to_owned(),
        hostname: "cp-1".to_owned(),
        description: "capvco/x/machine/cp-1".to_owned(),
        image_id: ImageId(5),
        disk_size: 20,
        vcpus: 2,
        memory: 4096,
        private_ip: None,
        userdata: userdata.as_object().expect("it is an object").clone(),
    }
}

fn new_cloudspace() -> NewCloudspace {
    NewCloudspace {
        name: "capvco-x-web".to_owned(),
        location: at(),
        private_network: Some("192.168.104.0/24".to_owned()),
        local_domain: None,
        external_network_id: Some(3),
    }
}

fn new_balancer() -> NewLoadBalancer {
    NewLoadBalancer {
        name: "capvco-x-api".to_owned(),
        description: "capvco/x/api/web".to_owned(),
        kind: "TCP".to_owned(),
        port: 6443,
        ip: Some("185.1.2.3/24".to_owned()),
        pool: pool(),
        target_port: 6443,
    }
}

fn new_disk() -> NewDisk {
    NewDisk {
        name: "cp-1-etcd".to_owned(),
        description: "capvco/x/disk/cp-1-etcd".to_owned(),
        size: 10,
        iops: Some(3000),
        kind: "DATA".to_owned(),
        vm_id: Some(VmId(7)),
        raid_level: None,
    }
}

fn pool() -> ServerPoolId {
    "p".parse().expect("it is an id")
}

/// The requests so far: method, path below the customer, and query.
fn sent(server: &Server) -> Vec<String> {
    let asked = server.asked();
    let line = |asked: &server::Asked| {
        let path = asked.path.trim_start_matches("/api/1/customers/acme_1").replace(CS, "{CS}");
        let mark = if asked.query.is_empty() { "" } else { "?" };
        format!("{} {path}{mark}{}", asked.method, asked.query)
    };
    asked.iter().map(line).collect()
}

fn body(server: &Server, number: usize) -> Value {
    serde_json::from_slice(&server.asked()[number].body).expect("it is JSON")
}

#[tokio::test]
async fn a_cloudspace_and_its_pools_are_sent_as_the_vendors_file_says() {
    let server = saying(vec![json(200, GOOD)]).await;
    let customer = customer(&server).await;
    let (cs, host): (_, HostId) = (space(), "h".parse().unwrap());
    let balancer: LoadBalancerId = "l".parse().unwrap();
    assert_eq!(customer.create_cloudspace(&new_cloudspace()).await.unwrap(), cs);
    customer.cloudspace(&cs).await.unwrap();
    customer.free_subnets(2).await.unwrap();
    customer.external_networks(&at()).await.unwrap();
    customer.external_addresses(&at(), 3).await.unwrap();
    customer.create_cloudspace_note(&cs, "t", "c").await.unwrap();
    customer.create_server_pool(&cs, "n", "capvco/x").await.unwrap();
    let added = customer.add_host(&cs, &pool(), "192.168.104.9").await.unwrap();
    assert_eq!((&added.id, added.address.as_deref()), (&host, Some("192.168.104.9")));
    customer.server_pool(&cs, &pool()).await.unwrap();
    customer.create_load_balancer(&cs, &new_balancer()).await.unwrap();
    customer.load_balancer(&cs, &balancer).await.unwrap();
    customer.delete_load_balancer(&cs, &balancer).await.unwrap();
    customer.remove_host(&cs, &pool(), &host).await.unwrap();
    customer.delete_server_pool(&cs, &pool()).await.unwrap();
    customer.delete_port_forward(&cs, &"f".parse().unwrap()).await.unwrap();
    customer.delete_cloudspace_note(&cs, "1").await.unwrap();
    customer.delete_cloudspace(&cs).await.unwrap();
    let lists = [
        customer.server_pools(&cs).await.unwrap().len(),
        customer.load_balancers(&cs).await.unwrap().len(),
        customer.port_forwards(&cs).await.unwrap().len(),
        customer.cloudspace_notes(&cs).await.unwrap().len(),
    ];
    assert_eq!(lists, [0; 4]);
    assert_eq!(
        sent(&server),
        [
            "POST /cloudspaces",
            "GET {CS}",
            "GET /cloudspaces/available-subnets?number_of_networks=2",
            "GET /locations/be-1/external-networks",
            "GET /locations/be-1/external-networks/3/ip-addresses",
            "POST {CS}/notes",
            "POST {CS}/ingress/server-pools?name=n&description=capvco%2Fx",
            "POST {CS}/ingress/server-pools/p/hosts?address=192.168.104.9",
            "GET {CS}/ingress/server-pools/p",
            "POST {CS}/ingress/load-balancers",
            "GET {CS}/ingress/load-balancers/l",
            "DELETE {CS}/ingress/load-balancers/l",
            "DELETE {CS}/ingress/server-pools/p/hosts/h",
            "DELETE {CS}/ingress/server-pools/p",
            "DELETE {CS}/portforwards/f",
            "DELETE {CS}/notes/1",
            "DELETE {CS}?permanently=true",
            "GET {CS}/ingress/server-pools",
            "GET {CS}/ingress/load-balancers",
            "GET {CS}/portforwards",
            "GET {CS}/notes",
        ]
    );
    let firewall = object!({"private": false, "external_network_id": 3});
    let space = object!({"name": "capvco-x-web", "location": "be-1", "firewall": firewall,
        "private_network": "192.168.104.0/24"});
    assert_eq!(body(&server, 0), space);
    assert_eq!(body(&server, 9)["front_end"], object!({"port": 6443, "ip_address": "185.1.2.3"}));
}

#[tokio::test]
async fn a_vm_and_its_parts_are_sent_as_the_vendors_file_says() {
    let server = saying(vec![json(200, GOOD)]).await;
    let customer = customer(&server).await;
    let (cs, vm, disk) = (space(), VmId(7), DiskId(9));
    assert_eq!(customer.create_vm(&cs, &new_vm()).await.unwrap(), vm);
    customer.create_anti_affinity_group(&cs, "g", -1).await.unwrap();
    customer.join_anti_affinity_group(&cs, "g", vm).await.unwrap();
    customer.anti_affinity_group_members(&cs, "g").await.unwrap();
    customer.start_vm(&cs, vm).await.unwrap();
    customer.vm(&cs, vm).await.unwrap();
    assert_eq!(customer.create_disk(&at(), &new_disk()).await.unwrap(), disk);
    customer.attach_disk(&cs, vm, disk).await.unwrap();
    customer.attach_external_nic(&cs, vm, 3, "185.1.2.4/24").await.unwrap();
    customer.external_nics(&cs, vm).await.unwrap();
    customer.detach_external_nic(&cs, vm, 3, "185.1.2.4/24").await.unwrap();
    customer.detach_disk(&cs, vm, disk).await.unwrap();
    customer.stop_vm(&cs, vm, true).await.unwrap();
    customer.leave_anti_affinity_group(&cs, "g", vm).await.unwrap();
    customer.delete_vm(&cs, vm).await.unwrap();
    customer.delete_disk(&at(), disk).await.unwrap();
    customer.delete_anti_affinity_group(&cs, "g").await.unwrap();
    customer.anti_affinity_groups(&cs).await.unwrap();
    customer.disks(&at()).await.unwrap();
    assert_eq!(
        sent(&server),
        [
            "POST {CS}/vms?name=cp-1&hostname=cp-1&description=capvco%2Fx%2Fmachine%2Fcp-1\
             &image_id=5&disk_size=20&vcpus=2&memory=4096&start_vm=false",
            "POST {CS}/anti-affinity-groups?group_id=g&spread=-1",
            "POST {CS}/anti-affinity-groups/g/vms?vm_id=7",
            "GET {CS}/anti-affinity-groups/g/vms",
            "POST {CS}/vms/7/start",
            "GET {CS}/vms/7",
            "POST /locations/be-1/disks?disk_name=cp-1-etcd\
             &description=capvco%2Fx%2Fdisk%2Fcp-1-etcd&disk_size=10&disk_type=DATA&iops=3000\
             &vm_id=7",
            "POST {CS}/vms/7/disks?disk_id=9",
            "POST {CS}/vms/7/external-nics?external_network_id=3\
             &external_network_ip=185.1.2.4%2F24&external_network_type=external",
            "GET {CS}/vms/7/external-nics",
            "DELETE {CS}/vms/7/external-nics/185.1.2.4?external_network_id=3\
             &external_network_type=external",
            "DELETE {CS}/vms/7/disks/9",
            "POST {CS}/vms/7/stop?force=true",
            "DELETE {CS}/anti-affinity-groups/g/vms/7",
            "DELETE {CS}/vms/7?permanently=true&detach_disks=true",
            "DELETE /locations/be-1/disks/9?permanently=true",
            "DELETE {CS}/anti-affinity-groups/g",
            "GET {CS}/anti-affinity-groups",
            "GET /locations/be-1/disks",
        ]
    );
    let userdata = object!({"userdata": {"runcmd": ["echo \u{fc}"], "ssh_pwauth": false}});
    assert_eq!(body(&server, 0), userdata);
    let mask = server.asked()[5].header("x-fields").unwrap().to_owned();
    assert!(mask.starts_with("vm_id,") && !mask.contains("os_accounts"), "{mask}");
}

/// Sends every create once, to a server that says this; whether each outcome is unknown.
async fn creates(reply: &Answer) -> Vec<(&'static str, bool)> {
    let server = saying(vec![reply.clone()]).await;
    let mut config = config(&server);
    config.write_timeout = Duration::from_secs(20);
    let customer = client(config).customer().await.expect("it is configured");
    let (cs, vm) = (space(), VmId(7));
    let errors = [
        customer.create_cloudspace(&new_cloudspace()).await.err(),
        customer.create_vm(&cs, &new_vm()).await.err(),
        customer.create_disk(&at(), &new_disk()).await.err(),
        customer.create_server_pool(&cs, "n", "d").await.err(),
        customer.add_host(&cs, &pool(), "192.168.104.9").await.err(),
        customer.create_load_balancer(&cs, &new_balancer()).await.err(),
        customer.create_anti_affinity_group(&cs, "g", 3).await.err(),
        customer.join_anti_affinity_group(&cs, "g", vm).await.err(),
        customer.create_cloudspace_note(&cs, "t", "c").await.err(),
        customer.attach_external_nic(&cs, vm, 3, "185.1.2.4").await.err(),
        customer.start_vm(&cs, vm).await.err(),
        customer.stop_vm(&cs, vm, false).await.err(),
    ];
    let seen: Vec<_> =
        errors.iter().flatten().map(|e| (e.operation(), e.outcome_unknown())).collect();
    assert_eq!(server.asked().len(), errors.len(), "each is sent once: {seen:?}");
    seen
}

#[tokio::test]
async fn a_create_whose_reply_is_lost_is_not_repeated_and_says_so() {
    for reply in [json(500, "{}"), json(503, "{}"), Answer::Reset, cut_on_the_wire()] {
        let seen = creates(&reply).await;
        assert_eq!(seen.len(), 12, "{reply:?}");
        assert!(seen.iter().all(|(_, unknown)| *unknown), "{reply:?}: {seen:?}");
    }
    for reply in [json(400, "{}"), json(409, "{}"), json(200, r#"{"success": false}"#)] {
        let seen = creates(&reply).await;
        assert!(seen.len() == 12 && seen.iter().all(|(_, unknown)| !unknown), "{seen:?}");
    }
    // A reply that names nothing: those that are found again by a name of ours are content.
    for reply in [json(200, r#"{"success": true}"#), json(200, ""), json(204, "")] {
        let seen = creates(&reply).await;
        assert!(seen.len() == 6 && seen.iter().all(|(_, unknown)| *unknown), "{seen:?}");
    }
}

#[tokio::test]
async fn a_delete_is_repeated_and_what_is_gone_is_deleted() {
    let script = vec![json(503, "{}"), Answer::Reset, json(404, r#"{"message": "gone"}"#)];
    let (cs, vm, disk) = (space(), VmId(7), DiskId(9));
    for number in 0..8 {
        let server = saying(script.clone()).await;
        let customer = customer(&server).await;
        let outcome = match number {
            0 => customer.delete_cloudspace(&cs).await,
            1 => customer.delete_vm(&cs, vm).await,
            2 => customer.delete_disk(&at(), disk).await,
            3 => customer.detach_disk(&cs, vm, disk).await,
            4 => customer.detach_external_nic(&cs, vm, 3, "185.1.2.4").await,
            5 => customer.leave_anti_affinity_group(&cs, "g", vm).await,
            6 => customer.remove_host(&cs, &pool(), &"h".parse().unwrap()).await,
            _ => customer.delete_server_pool(&cs, &pool()).await,
        };
        outcome.unwrap();
        assert_eq!(server.asked().len(), 3, "{number}");
    }
    let server = saying(vec![json(503, "{}"), json(200, GOOD)]).await;
    customer(&server).await.attach_disk(&cs, vm, disk).await.unwrap();
    assert_eq!(server.asked().len(), 2, "attaching may be repeated");
}

/// Answers a read or a delete of the VM with 400, and the list with this.
async fn four_hundred(list: Answer) -> Server {
    Server::start(move |asked, _| {
        if asked.path.ends_with("/vms") {
            list.clone()
        } else {
            json(400, r#"{"message": "Something bad happened"}"#)
        }
    })
    .await
}

#[tokio::test]
async fn a_400_about_a_vm_is_verified_by_the_list_of_the_deleted() {
    let listed = |status: &str| {
        json(200, &format!(r#"{{"result": [{{"vm_id": 7, "status": "{status}"}}]}}"#))
    };
    for (list, class, deleted) in [
        (listed("DELETED"), Class::NotFound, true),
        (listed("DESTROYED"), Class::NotFound, true),
        (json(200, r#"{"result": [{"vm_id": 8}]}"#), Class::NotFound, true),
        (listed("RUNNING"), Class::Invalid, false),
        (json(400, "{}"), Class::Invalid, false),
        (json(503, "{}"), Class::Transient, false),
    ] {
        let server = four_hundred(list.clone()).await;
        let customer = customer(&server).await;
        let error = customer.vm(&space(), VmId(7)).await.unwrap_err();
        assert_eq!(error.class(), class, "{list:?}: {error}");
        assert_eq!(server.asked()[1].query, "include_deleted=true");
        assert_eq!(customer.delete_vm(&space(), VmId(7)).await.is_ok(), deleted, "{list:?}");
    }
}

#[tokio::test]
async fn what_is_shown_as_deleted_is_gone() {
    let server = Server::start(|asked, _| match asked.path.rsplit('/').next() {
        Some("disks") => json(
            200,
            r#"{"result": [{"disk_id": 1, "status": "DESTROYED"}, {"disk_id": "2", "vm_id": ""},
                {"disk_id": 3, "status": "TOBEDELETED"}]}"#,
        ),
        Some("vms") => {
            json(200, r#"{"result": [{"vm_id": 1, "status": "DELETED"}, {"vm_id": 2}]}"#)
        }
        Some("7") => json(200, r#"{"vm_id": 7, "status": "DESTROYED"}"#),
        _ => json(200, r#"{"cloudspace_id": "YmUtMTox", "status": "DELETED"}"#),
    })
    .await;
    let customer = customer(&server).await;
    let disks = customer.disks(&at()).await.unwrap();
    assert_eq!(disks.iter().map(|disk| disk.id).collect::<Vec<_>>(), [DiskId(2)]);
    let vms = customer.vms(&space()).await.unwrap();
    assert_eq!(vms.iter().map(|vm| vm.id).collect::<Vec<_>>(), [VmId(2)]);
    for error in [
        customer.vm(&space(), VmId(7)).await.unwrap_err(),
        customer.cloudspace(&space()).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.class()), (Kind::Gone, Class::NotFound));
        assert!(error.to_string().contains("it is gone: its state is DE"), "{error}");
    }
}

#[tokio::test]
async fn a_row_without_an_id_fails_the_list() {
    let server =
        saying(vec![json(200, r#"{"result": [{"name": "x"}], "vms": [{"name": "x"}]}"#)]).await;
    let customer = customer(&server).await;
    let cs = space();
    for error in [
        customer.vms(&cs).await.err(),
        customer.disks(&at()).await.err(),
        customer.server_pools(&cs).await.err(),
        customer.load_balancers(&cs).await.err(),
        customer.port_forwards(&cs).await.err(),
        customer.anti_affinity_groups(&cs).await.err(),
    ] {
        assert_eq!(error.unwrap().kind(), Kind::Garbled);
    }
}

#[tokio::test]
async fn the_bin_is_read_by_location() {
    let reply = r#"{"locations": [{"location": "be-1", "status": "OK"},
        {"location": "be-2", "status": "ERROR"}],
        "result": {"vms": [{"vm_id": 7, "vm_name": "cp-1", "location": "be-1"}]}}"#;
    let server = saying(vec![json(200, reply)]).await;
    let bin = customer(&server).await.recycle_bin().await.unwrap();
    assert_eq!(bin.at(&at()).unwrap().vms[0].name.as_deref(), Some("cp-1"));
    for place in ["be-2", "be-3"] {
        assert_eq!(bin.at(&place.parse().unwrap()).unwrap_err().kind(), Kind::Incomplete);
    }
}
