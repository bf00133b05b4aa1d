//! What others have in a cloudspace stays as it is, to the byte.

use capvco::sim::World;
use capvco::sim::world::{Disk, Forward, Pool};
use serde_json::{Value, json};

use super::stage::{AT, IMAGE, Stage, condition, is_provisioned};
use crate::support::neighbours::{THEIRS, inhabited, their_space, theirs};

async fn adopted(test: &str, adopt: impl Fn(&str) -> Value) {
    let stage = Stage::new(test, inhabited(AT, IMAGE)).await;
    let space = their_space(&stage.sim);
    let before = theirs(&stage.sim, AT);
    let vm = stage.small(json!({"cloudspace": {"adopt": adopt(&space)}})).await;
    assert_eq!(stage.space("c").await, space);
    assert!(stage.sim.world(|world| world.cloudspace(&space).unwrap().vm(vm).is_some()));
    assert_eq!(theirs(&stage.sim, AT), before);
    stage.all_gone("c", &["c-1"]).await;
    assert_eq!(theirs(&stage.sim, AT), before);
    assert_eq!(stage.calls("createCloudspace") + stage.calls("deleteCloudspace"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloudspace_adopted_by_its_id_is_left_as_it_was() {
    adopted("manager-adopt-id", |space| json!({"id": space})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloudspace_adopted_by_its_name_is_left_as_it_was() {
    adopted("manager-adopt-name", |_| json!({"name": THEIRS})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_of_somebody_elses_that_has_the_name_is_not_taken_nor_touched() {
    let mut world = inhabited(AT, IMAGE);
    world.cloudspaces[0].vms[0].name = "c-1".into();
    let stage = Stage::new("manager-name-taken", world).await;
    let before = theirs(&stage.sim, AT);
    stage.cluster("c", json!({"cloudspace": {"adopt": {"name": THEIRS}}})).await;
    stage.provisioned("c").await;
    stage.machine("c", "c-1", true, json!({})).await;
    stage.until_said("VCOMachine", "c-1", ("Ready", "False", "NameTaken")).await;
    assert_eq!(stage.calls("createVirtualMachine"), 0);
    stage.all_gone("c", &["c-1"]).await;
    assert_eq!(theirs(&stage.sim, AT), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_somebody_elses_listens_nothing_is_made() {
    let mut stage = Stage::new("manager-port-taken", inhabited(AT, IMAGE)).await;
    let before = theirs(&stage.sim, AT);
    let adopt = json!({"cloudspace": {"adopt": {"name": THEIRS}}});
    stage.cluster("c", adopt.clone()).await;
    stage.provisioned("c").await;
    stage.cluster("d", adopt).await;
    let what = ("APILoadBalancerReady", "False", "PortTaken");
    let said = stage.until_said("VCOCluster", "d", what).await;
    assert!(said["status"]["conditions"].to_string().contains("has port 6443 already"));
    assert_eq!(stage.calls("createLoadBalancer"), 1, "the cloud was not asked for a second one");
    stage.delete("VCOCluster", "c").await;
    stage.until_gone("VCOCluster", "c").await;
    // It would be looked at again in a minute.
    stage.kill();
    stage.start();
    stage.provisioned("d").await;
    stage.all_gone("d", &[]).await;
    assert_eq!(theirs(&stage.sim, AT), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_whose_mark_somebody_took_away_is_left_alone_and_told_of() {
    let stage = Stage::new("manager-unmarked", inhabited(AT, IMAGE)).await;
    let space = their_space(&stage.sim);
    let vm = stage.small(json!({"cloudspace": {"adopt": {"id": space}}})).await;
    stage.sim.world(|world| {
        let vms = &mut world.cloudspace_mut(&space).unwrap().vms;
        vms.iter_mut().find(|one| one.vm_id == vm).unwrap().description = "mine now".into();
    });
    stage.delete("VCOMachine", "c-1").await;
    stage.until_gone("VCOMachine", "c-1").await;
    assert!(stage.events("c-1").await.contains(&"LeftAlone".to_owned()));
    let left = stage.sim.world(|world| world.cloudspace(&space).unwrap().vm(vm).cloned());
    assert_eq!(left.unwrap().status, "RUNNING");
    stage.sim.world(|world| {
        world.cloudspace_mut(&space).unwrap().vms.retain(|one| one.vm_id != vm);
        world.site(AT).disks.retain(|one| one.vm_id != vm);
    });
    stage.all_gone("c", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_site_names_another_cluster_is_held_with_its_vm() {
    let stage = Stage::new("manager-other-site", World::small()).await;
    let vm = stage.small(json!({})).await;
    let (space, key) = (stage.space("c").await, "vco.infrastructure.cluster.x-k8s.io/site");
    let machine = stage.get("VCOMachine", "c-1").await;
    let site = machine["metadata"]["annotations"][key].as_str().unwrap().to_owned();
    let mut other: Value = serde_json::from_str(&site).unwrap();
    other["clusterId"] = json!("0123456789abcdef");
    stage.annotate("VCOMachine", "c-1", key, json!(other.to_string())).await;
    stage.delete("VCOMachine", "c-1").await;
    let what = ("Deleting", "True", "DeletionBlocked");
    let said = stage.until_said("VCOMachine", "c-1", what).await;
    assert!(said["status"]["conditions"].to_string().contains("names cluster 0123456789abcdef"));
    assert!(stage.sim.world(|world| world.cloudspace(&space).unwrap().vm(vm).is_some()));
    stage.annotate("VCOMachine", "c-1", key, json!(site)).await;
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloudspace_that_is_gone_does_not_hold_its_machines() {
    let stage = Stage::new("manager-space-gone", World::small()).await;
    let vm = stage.small(json!({})).await;
    let space = stage.space("c").await;
    stage.sim.world(|world| {
        world.cloudspaces.retain(|one| one.cloudspace_id != space);
        world.site(AT).disks.retain(|one| one.vm_id != vm);
    });
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_one_name_never_meet() {
    let mut one = Stage::new("manager-one-name", World::small()).await;
    let mut other = one.beside();
    other.start();
    let (vm, twin) = tokio::join!(one.small(json!({})), other.small(json!({})));
    let (space, there) = (one.space("c").await, other.space("c").await);
    assert!(space != there && vm != twin);
    let pointer = format!("/acme_1/cloudspaces/{there}");
    let record = || one.sim.world(|world| world.record(&pointer).unwrap());
    let before = record();
    one.delete("VCOMachine", "c-1").await;
    one.until_gone("VCOMachine", "c-1").await;
    one.delete("VCOCluster", "c").await;
    one.until_gone("VCOCluster", "c").await;
    assert_eq!(record(), before);
    assert_eq!(other.running("c-1").await, twin);
    one.kill();
    other.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_somebody_elses_on_a_vm_of_ours_is_detached_and_kept() {
    let stage = Stage::new("manager-csi", World::small()).await;
    let vm = stage.small(json!({})).await;
    let disk = stage.sim.world(|world| {
        world.site(AT).add_disk(Disk {
            customer_id: "acme_1".into(),
            name: "pvc-1".into(),
            description: "csi".into(),
            vm_id: vm,
            order: 3,
            status: "ASSIGNED".into(),
            ..Disk::default()
        })
    });
    stage.delete("VCOMachine", "c-1").await;
    stage.until_gone("VCOMachine", "c-1").await;
    let kept = stage.sim.world(|world| world.site(AT).disk(disk).unwrap().clone());
    assert_eq!((kept.status.as_str(), kept.vm_id), ("CREATED", 0));
    assert_eq!((kept.name.as_str(), kept.description.as_str()), ("pvc-1", "csi"));
    stage.sim.world(|world| world.site(AT).disks.retain(|one| one.disk_id != disk));
    stage.all_gone("c", &[]).await;
}

/// A cluster without machines in whose cloudspace others have made a pool and a port forward.
async fn with_leftovers(test: &str, policy: Value) -> (Stage, String) {
    let stage = Stage::new(test, World::small()).await;
    stage.cluster("c", json!({"cloudspace": {"leftovers": policy}})).await;
    stage.provisioned("c").await;
    let space = stage.space("c").await;
    stage.sim.world(|world| {
        let space = world.cloudspace_mut(&space).unwrap();
        let (id, name) = ("ccm".to_owned(), "k8s-web".to_owned());
        space.pools.push(Pool { serverpool_id: id, name, ..Pool::default() });
        space.forwards.push(Forward {
            portforward_id: "pf-ccm".into(),
            protocol: "tcp".into(),
            local_port: 80,
            public_port: 80,
            ..Forward::default()
        });
    });
    stage.delete("VCOCluster", "c").await;
    (stage, space)
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_named_until_somebody_removes_them() {
    let (stage, space) = with_leftovers("manager-report", json!("Report")).await;
    let what = ("Deleting", "True", "ForeignThingsLeft");
    let said = stage.until_said("VCOCluster", "c", what).await;
    assert_eq!(condition(&said, "Ready"), ("False", "ForeignThingsLeft"));
    let text = said["status"]["conditions"].to_string();
    assert!(text.contains("server pool ccm k8s-web") && text.contains("pf-ccm"), "{text}");
    assert!(is_provisioned(&said));
    stage.sim.world(|world| {
        let space = world.cloudspace_mut(&space).unwrap();
        space.pools.clear();
        space.forwards.clear();
    });
    stage.until_gone("VCOCluster", "c").await;
    stage.all_as_before();
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_removed_where_the_cluster_says_so() {
    let (stage, _) = with_leftovers("manager-remove", json!("Remove")).await;
    stage.until_gone("VCOCluster", "c").await;
    stage.all_as_before();
    let events = stage.events("c").await;
    assert_eq!(events.iter().filter(|reason| *reason == "LeftoverRemoved").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_cluster_changes_nothing_of_the_original() {
    let stage = Stage::new("manager-copy", World::small()).await;
    stage.small(json!({})).await;
    let original = stage.get("VCOCluster", "c").await;
    let things = |stage: &Stage| stage.sim.world(|world| world.inventory());
    let before = things(&stage);
    // As a backup brings it back under another name.
    let id = "vco.infrastructure.cluster.x-k8s.io/cluster-id";
    let same = json!({id: original["metadata"]["annotations"][id]});
    stage.cluster_with("d", original["spec"].clone(), same).await;
    let said = stage.until_said("VCOCluster", "d", ("Ready", "False", "ClusterIdTaken")).await;
    assert!(said["status"]["conditions"].to_string().contains(&format!("{}/c", stage.namespace)));
    stage.delete("VCOCluster", "d").await;
    stage.until_gone("VCOCluster", "d").await;
    assert_eq!(things(&stage), before);
    assert_eq!(condition(&stage.get("VCOCluster", "c").await, "Ready").0, "True");
    stage.delete("Cluster", "d").await;
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_managers_without_a_lease_make_one_network_a_cluster() {
    let stage = Stage::new("manager-two", World::small()).await;
    let _other = stage.another("--diagnostics-address= --sync-period 5s");
    let names = ["c1", "c2", "c3", "c4", "c5", "c6"];
    for name in names {
        stage.cluster(name, json!({})).await;
    }
    for name in names {
        stage.provisioned(name).await;
    }
    let spaces = stage
        .sim
        .world(|world| world.cloudspaces.iter().filter(|space| space.status == "DEPLOYED").count());
    assert_eq!(spaces, names.len());
    for name in names {
        stage.delete("Cluster", name).await;
        stage.delete("VCOCluster", name).await;
    }
    for name in names {
        stage.until_gone("VCOCluster", name).await;
    }
    stage.all_as_before();
}
