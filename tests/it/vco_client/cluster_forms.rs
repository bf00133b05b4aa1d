//! A cluster's parts through the client, against the embedded cloud: made and taken down again
//! in the order that the cloud asks for, in every odd form of a reply.

use super::embedded::{customer_of, first};
use super::*;
use crate::support::cloud::{cloud, own_image};

use capvco::id::{CloudspaceId, VmId};
use capvco::sim::world::Status;
use capvco::sim::{Rules, World};
use capvco::vco::{NewCloudspace, NewDisk, NewLoadBalancer, NewVm};

fn world() -> World {
    let mut world = World::small();
    let image = own_image(&world, 200, "k8s", Status::Created);
    world.locations[0].images.push(image);
    world
}

/// Asks until the state is the wanted one.
async fn until(wanted: &str, state: impl AsyncFn() -> Option<String>) {
    let mut last = None;
    for _ in 0..200 {
        last = state().await;
        if last.as_deref() == Some(wanted) {
            return;
        }
    }
    panic!("{last:?} is not {wanted}");
}

async fn cloudspace(customer: &Customer) -> CloudspaceId {
    let subnet = customer.free_subnets(1).await.unwrap().remove(0);
    let network = customer.external_networks(&first()).await.unwrap()[0].id;
    let new = NewCloudspace {
        name: "capvco-x-web".to_owned(),
        location: first(),
        private_network: Some(subnet.clone()),
        local_domain: None,
        external_network_id: network,
    };
    let id = customer.create_cloudspace(&new).await.unwrap();
    until("DEPLOYED", async || customer.cloudspace(&id).await.unwrap().status).await;
    let space = customer.cloudspace(&id).await.unwrap();
    assert_eq!((space.private_network, space.external_network_id), (Some(subnet), network));
    assert!(!space.external_ip.unwrap().contains('/'));
    assert_eq!(customer.cloudspaces(&first()).await.unwrap()[0].id, id);
    id
}

async fn machine(customer: &Customer, cs: &CloudspaceId) -> VmId {
    let userdata = serde_json::json!({"ssh_pwauth": false, "runcmd": ["true"]});
    let new = NewVm {
        name: "cp-1".to_owned(),
        hostname: "cp-1".to_owned(),
        description: "capvco/x/machine/cp-1".to_owned(),
        image_id: ImageId(200),
        disk_size: 20,
        vcpus: 2,
        memory: 4096,
        private_ip: None,
        userdata: userdata.as_object().unwrap().clone(),
    };
    let vm = customer.create_vm(cs, &new).await.unwrap();
    let state = async || customer.vm(cs, vm).await.unwrap().status;
    until("HALTED", state).await;
    customer.create_anti_affinity_group(cs, "capvco-x-cp", -1).await.unwrap();
    customer.join_anti_affinity_group(cs, "capvco-x-cp", vm).await.unwrap();
    let members = customer.anti_affinity_group_members(cs, "capvco-x-cp").await.unwrap();
    assert_eq!(members, [vm]);
    customer.start_vm(cs, vm).await.unwrap();
    until("RUNNING", state).await;
    let detail = customer.vm(cs, vm).await.unwrap();
    assert_eq!(detail.description.as_deref(), Some("capvco/x/machine/cp-1"));
    assert_eq!(detail.anti_affinity_groups, ["capvco-x-cp"]);
    assert_eq!((detail.memory, detail.vcpus), (Some(4096), Some(2)));
    let listed = customer.vms(cs).await.unwrap();
    assert_eq!((listed.len(), listed[0].id), (1, vm));
    assert!(listed[0].nics[0].ip.is_some() && listed[0].reference_id.is_some());
    vm
}

async fn disk_and_nic(customer: &Customer, cs: &CloudspaceId, vm: VmId) {
    let new = NewDisk {
        name: "cp-1-etcd".to_owned(),
        description: "capvco/x/disk/cp-1-etcd".to_owned(),
        size: 10,
        iops: None,
        kind: "DATA".to_owned(),
        vm_id: None,
        raid_level: None,
    };
    let disk = customer.create_disk(&first(), &new).await.unwrap();
    for _ in 0..2 {
        customer.attach_disk(cs, vm, disk).await.unwrap();
    }
    let detail = customer.vm(cs, vm).await.unwrap();
    let attached = detail.disks.iter().find(|one| one.id == disk).unwrap();
    assert_eq!(attached.description.as_deref(), Some("capvco/x/disk/cp-1-etcd"));
    let network = customer.external_networks(&first()).await.unwrap()[0].id.unwrap();
    let free = customer.external_addresses(&first(), network).await.unwrap();
    let ip = capvco::vco::bare(&free[0]);
    customer.attach_external_nic(cs, vm, network, &free[0]).await.unwrap();
    let nics = customer.external_nics(cs, vm).await.unwrap();
    assert!(nics.iter().any(|nic| nic.ip.as_deref() == Some(ip)), "{nics:?}");
    for _ in 0..2 {
        customer.detach_external_nic(cs, vm, network, &free[0]).await.unwrap();
    }
    for _ in 0..2 {
        customer.detach_disk(cs, vm, disk).await.unwrap();
    }
    let all = customer.disks(&first()).await.unwrap();
    assert_eq!(all.iter().find(|one| one.id == disk).unwrap().vm_id, None);
    for _ in 0..2 {
        customer.delete_disk(&first(), disk).await.unwrap();
    }
}

async fn ingress(customer: &Customer, cs: &CloudspaceId) {
    let pool = customer.create_server_pool(cs, "capvco-x-api", "capvco/x/api/web").await.unwrap();
    let host = customer.add_host(cs, &pool, "192.168.104.9").await.unwrap();
    let read = customer.server_pool(cs, &pool).await.unwrap();
    assert_eq!(read.hosts, std::slice::from_ref(&host));
    let new = NewLoadBalancer {
        name: "capvco-x-api".to_owned(),
        description: "capvco/x/api/web".to_owned(),
        kind: "TCP".to_owned(),
        port: 6443,
        ip: None,
        pool: pool.clone(),
        target_port: 6443,
    };
    let id = customer.create_load_balancer(cs, &new).await.unwrap();
    let read = customer.load_balancer(cs, &id).await.unwrap();
    assert_eq!((read.port, read.pool.as_ref()), (Some(6443), Some(&pool)));
    assert_eq!(customer.load_balancers(cs).await.unwrap()[0].id, id);
    for _ in 0..2 {
        customer.delete_load_balancer(cs, &id).await.unwrap();
        customer.remove_host(cs, &pool, &host.id).await.unwrap();
    }
    for _ in 0..2 {
        customer.delete_server_pool(cs, &pool).await.unwrap();
    }
    assert_eq!(customer.server_pools(cs).await.unwrap(), []);
    assert_eq!(customer.port_forwards(cs).await.unwrap(), []);
}

#[tokio::test]
async fn a_cluster_is_made_and_taken_down_in_every_form() {
    type Odd = fn(&mut Rules);
    let forms: [Odd; 4] = [
        |_| (),
        |rules| rules.extra_keys = true,
        |rules| rules.ids_as_text = true,
        |rules| rules.numbers_as_floats = true,
    ];
    for odd in forms {
        let sim = cloud("vco_cluster_forms", world()).await;
        let customer = customer_of(&sim).await;
        sim.world(|world| odd(&mut world.rules));
        let cs = cloudspace(&customer).await;
        let vm = machine(&customer, &cs).await;
        disk_and_nic(&customer, &cs, vm).await;
        ingress(&customer, &cs).await;
        let error = customer.delete_cloudspace(&cs).await.unwrap_err();
        assert_eq!(error.class(), Class::Conflict, "a VM is in it: {error}");
        for _ in 0..2 {
            customer.delete_vm(&cs, vm).await.unwrap();
        }
        assert_eq!(customer.vm(&cs, vm).await.unwrap_err().class(), Class::NotFound);
        for _ in 0..2 {
            customer.delete_anti_affinity_group(&cs, "capvco-x-cp").await.unwrap();
        }
        for _ in 0..2 {
            customer.delete_cloudspace(&cs).await.unwrap();
        }
        assert_eq!(customer.cloudspace(&cs).await.unwrap_err().class(), Class::NotFound);
        assert_eq!(customer.cloudspaces(&first()).await.unwrap(), []);
        sim.stop().await;
    }
}
