//! The client against the embedded cloud: everything that a cluster is made of, made and unmade.

use super::embedded::{customer_of, first};
use super::*;
use crate::support::cloud::cloud;

use capvco::id::{CloudspaceId, VmId};
use capvco::sim::{Sim, World};
use capvco::vco::{NewCloudspace, NewDisk, NewLoadBalancer, NewVm, bare};
use serde_json::{Map, json as object};

async fn space(customer: &Customer) -> CloudspaceId {
    let private_network = customer.free_subnets(1).await.unwrap().pop();
    let new = NewCloudspace {
        name: "capvco-x-web".to_owned(),
        location: first(),
        private_network,
        local_domain: None,
        external_network_id: None,
    };
    let id = customer.create_cloudspace(&new).await.unwrap();
    let made = customer.cloudspace(&id).await.unwrap();
    assert_eq!(made.status.as_deref(), Some("DEPLOYED"));
    assert!(made.external_ip.is_some_and(|ip| ip.starts_with("127.")));
    id
}

fn machine(name: &str, userdata: Map<String, serde_json::Value>) -> NewVm {
    NewVm {
        name: name.to_owned(),
        hostname: name.to_owned(),
        description: format!("capvco/x/machine/{name}"),
        image_id: ImageId(100),
        disk_size: 20,
        vcpus: 2,
        memory: 4096,
        private_ip: None,
        userdata,
    }
}

async fn ingress(customer: &Customer, cs: &CloudspaceId, address: &str) {
    let pool = customer.create_server_pool(cs, "capvco-x-api", "mark").await.unwrap();
    let host = customer.add_host(cs, &pool, address).await.unwrap();
    let new = NewLoadBalancer {
        name: "capvco-x-api".to_owned(),
        description: "mark".to_owned(),
        kind: "TCP".to_owned(),
        port: 6443,
        ip: customer.cloudspace(cs).await.unwrap().external_ip,
        pool: pool.clone(),
        target_port: 6443,
    };
    let id = customer.create_load_balancer(cs, &new).await.unwrap();
    let seen = customer.load_balancer(cs, &id).await.unwrap();
    assert_eq!((seen.port, seen.pool.as_ref(), seen.ip), (Some(6443), Some(&pool), new.ip));
    assert_eq!(customer.load_balancers(cs).await.unwrap().len(), 1);
    let hosts = customer.server_pool(cs, &pool).await.unwrap().hosts;
    assert_eq!((hosts.len(), &hosts[0]), (1, &host));
    assert_eq!(customer.server_pools(cs).await.unwrap().len(), 1);
    for _ in 0..2 {
        customer.remove_host(cs, &pool, &host.id).await.unwrap();
        customer.delete_load_balancer(cs, &id).await.unwrap();
        customer.delete_server_pool(cs, &pool).await.unwrap();
    }
}

async fn parts(customer: &Customer, cs: &CloudspaceId, vm: VmId) {
    let new = NewDisk {
        name: "cp-1-etcd".to_owned(),
        description: "capvco/x/disk/cp-1-etcd".to_owned(),
        size: 5,
        iops: None,
        kind: "DATA".to_owned(),
        vm_id: None,
        raid_level: None,
    };
    let disk = customer.create_disk(&first(), &new).await.unwrap();
    for _ in 0..2 {
        customer.attach_disk(cs, vm, disk).await.unwrap();
    }
    let disks = customer.disks(&first()).await.unwrap();
    let mine = disks.iter().find(|d| d.id == disk).unwrap();
    assert_eq!((mine.vm_id, mine.cloudspace_id.as_ref()), (Some(vm), Some(cs)));
    assert_eq!(customer.vm(cs, vm).await.unwrap().disks.len(), 2);
    let network = customer.external_networks(&first()).await.unwrap()[0].id.unwrap();
    let ip = customer.external_addresses(&first(), network).await.unwrap().remove(0);
    customer.attach_external_nic(cs, vm, network, bare(&ip)).await.unwrap();
    assert_eq!(customer.external_nics(cs, vm).await.unwrap()[0].ip.as_deref(), Some(bare(&ip)));
    for _ in 0..2 {
        customer.detach_external_nic(cs, vm, network, &ip).await.unwrap();
        customer.detach_disk(cs, vm, disk).await.unwrap();
    }
    for _ in 0..2 {
        customer.delete_disk(&first(), disk).await.unwrap();
    }
}

#[tokio::test]
async fn a_cluster_comes_and_goes_without_a_trace() {
    let sim: Sim = cloud("vco_cluster", World::small()).await;
    let customer = customer_of(&sim).await;
    let before = sim.world(|world| world.inventory());
    let cs = space(&customer).await;
    customer.create_cloudspace_note(&cs, "title", "content").await.unwrap();
    assert_eq!(customer.cloudspace_notes(&cs).await.unwrap().len(), 1);
    customer.create_anti_affinity_group(&cs, "capvco-x-cp", -1).await.unwrap();
    let userdata = object!({"ssh_pwauth": false, "runcmd": ["kubeadm join"]});
    let new = machine("cp-1", userdata.as_object().cloned().unwrap());
    let vm = customer.create_vm(&cs, &new).await.unwrap();
    customer.join_anti_affinity_group(&cs, "capvco-x-cp", vm).await.unwrap();
    customer.start_vm(&cs, vm).await.unwrap();
    let members = customer.anti_affinity_group_members(&cs, "capvco-x-cp").await.unwrap();
    assert_eq!(members, [vm]);
    let seen = customer.vm(&cs, vm).await.unwrap();
    assert_eq!((seen.status.as_deref(), seen.vcpus), (Some("RUNNING"), Some(2)));
    assert_eq!(seen.anti_affinity_groups, ["capvco-x-cp"]);
    let told = sim.world(|w| w.cloudspace(cs.as_str()).unwrap().vm(vm.0).unwrap().userdata.clone());
    assert_eq!(told.given, new.userdata);
    let listed = customer.vms(&cs).await.unwrap();
    let ip = listed[0].nics[0].ip.clone().unwrap();
    assert!(ip.ends_with(".254"), "{ip}");
    parts(&customer, &cs, vm).await;
    ingress(&customer, &cs, &ip).await;
    assert!(customer.port_forwards(&cs).await.unwrap().is_empty());
    customer.stop_vm(&cs, vm, true).await.unwrap();
    for _ in 0..2 {
        customer.delete_vm(&cs, vm).await.unwrap();
    }
    assert_eq!(customer.vm(&cs, vm).await.unwrap_err().class(), Class::NotFound);
    for _ in 0..2 {
        customer.delete_anti_affinity_group(&cs, "capvco-x-cp").await.unwrap();
        customer.delete_cloudspace(&cs).await.unwrap();
    }
    assert_eq!(customer.cloudspace(&cs).await.unwrap_err().class(), Class::NotFound);
    assert_eq!(sim.world(|world| world.inventory()), before);
}
