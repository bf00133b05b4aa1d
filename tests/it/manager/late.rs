//! Calls that the cloud carries out after everybody had given them up: what they leave is found by
//! its mark and taken away, as far as it is ours and nothing uses it.

use capvco::sim::World;
use capvco::sim::machine::record::Vm;
use capvco::sim::world::{Balancer, Cloudspace, Disk, Pool};
use serde_json::{Value, json};

use super::stage::{AT, IMAGE, Stage, condition};

fn disks() -> Value {
    json!({"dataDisks": [{"name": "etcd", "sizeGiB": 10}]})
}

/// What is in the cloud, by kind: pools, load balancers, VMs of the cloudspace, disks.
fn counts(stage: &Stage, space: &str) -> [usize; 4] {
    stage.sim.world(|world| {
        let data = |disk: &&Disk| disk.kind == "DATA" && disk.status != "DESTROYED";
        let disks = world.site(AT).disks.iter().filter(data).count();
        let space = world.cloudspace(space).unwrap();
        let living = |vm: &&Vm| vm.status != "DESTROYED";
        let vms = space.vms.iter().filter(living).count();
        [space.pools.len(), space.balancers.len(), vms, disks]
    })
}

/// The same again, as a create call does that comes too late, of what is there.
fn again(world: &mut World, space: &str, vm: u64) {
    let at = world.cloudspace_mut(space).unwrap();
    let pool = Pool { serverpool_id: "late".into(), hosts: Vec::new(), ..at.pools[0].clone() };
    let balancer = Balancer { loadbalancer_id: "late".into(), ..at.balancers[0].clone() };
    at.balancers.insert(0, balancer);
    at.pools.insert(0, pool);
    let second = at.vm(vm).unwrap().clone();
    let (private_ip, nics) = (String::new(), Vec::new());
    world.add_vm_to(space, Vm { vm_id: 0, private_ip, nics, status: "HALTED".into(), ..second });
    let ours = |disk: &&Disk| disk.description.starts_with("capvco/");
    let disk = world.site(AT).disks.iter().find(ours).unwrap().clone();
    world.site(AT).add_disk(Disk { disk_id: 0, vm_id: 0, status: "CREATED".into(), ..disk });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_twice_goes_while_the_cluster_works() {
    let mut world = World::small();
    world.rules.unique_cloud_names = false;
    let stage = Stage::new("manager-twice", world).await;
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    stage.machine("c", "c-1", true, disks()).await;
    let vm = stage.running("c-1").await;
    stage.until_said("VCOMachine", "c-1", ("LoadBalancerMember", "True", "Member")).await;
    let space = stage.space("c").await;
    let before = counts(&stage, &space);
    let object = stage.get("VCOCluster", "c").await;
    let network = object["status"]["network"].clone();
    let since = |object: &Value| {
        let all = object["status"]["conditions"].as_array().unwrap();
        all.iter().find(|one| one["type"] == "Ready").unwrap()["lastTransitionTime"].clone()
    };
    let ready_since = since(&object);
    let theirs = stage.sim.world(|world| {
        again(world, &space, vm);
        // Not ours, and left alone: another name, another mark.
        let at = world.cloudspace_mut(&space).unwrap();
        at.pools.push(Pool { serverpool_id: "ccm".into(), name: "web".into(), ..Pool::default() });
        let disk = |number| Disk {
            customer_id: "acme_1".into(),
            name: "pvc".into(),
            description: "csi".into(),
            kind: "DATA".into(),
            status: if number == 1 { "ASSIGNED".into() } else { "CREATED".into() },
            vm_id: if number == 1 { vm } else { 0 },
            order: 5,
            ..Disk::default()
        };
        [1, 2].map(|number| world.site(AT).add_disk(disk(number)))
    });
    let [pools, balancers, vms, data] = before;
    let wanted = [pools + 1, balancers, vms, data + 2];
    let begun = std::time::Instant::now();
    while counts(&stage, &space) != wanted {
        let found = counts(&stage, &space);
        assert!(begun.elapsed() < stage.patience, "{found:?}, not {wanted:?}");
        stage
            .annotate("VCOMachine", "c-1", "look", json!(begun.elapsed().as_millis().to_string()))
            .await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let object = stage.get("VCOCluster", "c").await;
    assert_eq!(object["status"]["network"], network, "what is in use stays");
    assert_eq!((condition(&object, "Ready").0, since(&object)), ("True", ready_since));
    assert_eq!(stage.running("c-1").await, vm);

    stage.sim.world(|world| {
        world.cloudspace_mut(&space).unwrap().pools.retain(|pool| pool.serverpool_id != "ccm");
        world.site(AT).disks.retain(|disk| !theirs.contains(&disk.disk_id));
    });
    stage.all_gone("c", &["c-1"]).await;
}

/// A machine comes and goes, and then a VM and a disk appear that were made for it.
async fn after_its_machine(test: &str, spec: Value) {
    let mut world = World::small();
    world.rules.unique_cloud_names = false;
    world.cloudspaces.push(Cloudspace {
        customer_id: "acme_1".into(),
        location: AT.into(),
        name: "theirs".into(),
        vms: vec![Vm {
            vm_id: 9,
            name: "web".into(),
            description: "hands off".into(),
            image_id: IMAGE,
            status: "HALTED".into(),
            ..Vm::default()
        }],
        ..Cloudspace::default()
    });
    let stage = Stage::new(test, world).await;
    stage.cluster("c", spec).await;
    stage.provisioned("c").await;
    stage.machine("c", "c-1", true, disks()).await;
    let vm = stage.running("c-1").await;
    let space = stage.space("c").await;
    let (machine, disk) = stage.sim.world(|world| {
        let ours = |disk: &&Disk| disk.description.starts_with("capvco/");
        let disk = world.site(AT).disks.iter().find(ours).unwrap().clone();
        (world.cloudspace(&space).unwrap().vm(vm).unwrap().clone(), disk)
    });
    stage.delete("VCOMachine", "c-1").await;
    stage.until_gone("VCOMachine", "c-1").await;
    stage.sim.world(|world| {
        let (private_ip, nics) = (String::new(), Vec::new());
        let status = "HALTED".into();
        world.add_vm_to(&space, Vm { vm_id: 0, private_ip, nics, status, ..machine });
        let free = Disk { disk_id: 0, vm_id: 0, status: "CREATED".into(), ..disk };
        world.site(AT).add_disk(free);
    });
    stage.delete("VCOCluster", "c").await;
    stage.until_gone("VCOCluster", "c").await;
    stage.all_as_before();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_for_a_machine_that_is_gone_goes_with_the_cluster() {
    after_its_machine("manager-late", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn and_out_of_a_cloudspace_that_was_adopted() {
    let adopt = json!({"cloudspace": {"adopt": {"name": "theirs"}}});
    after_its_machine("manager-late-adopted", adopt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_somebody_else_wrote_give_nobody_a_right() {
    let mut world = World::small();
    let (theirs, vm) = world.add_vm(AT, IMAGE, "web");
    let stage = Stage::new("manager-ids", world).await;
    let record =
        || stage.sim.world(|world| world.record(&format!("/acme_1/cloudspaces/{theirs}")).unwrap());
    let before = record();
    stage.cluster("by-id", json!({"cloudspaceId": theirs})).await;
    stage.until_said("VCOCluster", "by-id", ("Ready", "False", "InternalError")).await;
    stage.delete("VCOCluster", "by-id").await;
    stage.until_gone("VCOCluster", "by-id").await;

    stage.cluster("c", json!({"cloudspace": {"adopt": {"id": theirs}}})).await;
    stage.provisioned("c").await;
    let id = format!("vco://{AT}/{vm}");
    stage.machine("c", "c-1", false, json!({"providerID": id})).await;
    stage.until_said("VCOMachine", "c-1", ("Ready", "False", "NameTaken")).await;
    stage.delete("VCOMachine", "c-1").await;
    stage.until_gone("VCOMachine", "c-1").await;
    stage.delete("VCOCluster", "c").await;
    stage.until_gone("VCOCluster", "c").await;
    assert_eq!(record(), before);
}
