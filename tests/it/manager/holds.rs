//! Whoever is paused, looked after by somebody else, or on the move, is left alone.

use std::time::Duration;

use capvco::sim::World;
use serde_json::{Value, json};

use super::stage::{AT, IMAGE, Stage, condition, is_provisioned};

const PAUSED: &str = "cluster.x-k8s.io/paused";
const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
const FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// Long enough for a manager to do what it must not do.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

fn writes(stage: &Stage) -> usize {
    stage.sim.journal().iter().filter(|one| one.method != "GET").count()
}

async fn pause(stage: &Stage, paused: bool) {
    stage.patch("Cluster", "c", json!({"spec": {"paused": paused}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_cluster_stands_still_and_then_catches_up() {
    let stage = Stage::new("manager-pause", World::small()).await;
    stage.small(json!({})).await;
    pause(&stage, true).await;
    for (kind, name) in [("VCOCluster", "c"), ("VCOMachine", "c-1")] {
        let said = stage.until_said(kind, name, ("Paused", "True", "Paused")).await;
        assert!(said["status"]["conditions"].to_string().contains("Cluster spec.paused"));
    }
    let before = writes(&stage);
    stage.machine("c", "c-2", true, json!({})).await;
    stage.delete("VCOMachine", "c-1").await;
    a_while().await;
    assert_eq!(writes(&stage), before);
    assert!(stage.get("VCOMachine", "c-2").await["metadata"]["finalizers"].is_null());
    assert!(is_provisioned(&stage.get("VCOMachine", "c-1").await));

    pause(&stage, false).await;
    stage.until_gone("VCOMachine", "c-1").await;
    stage.running("c-2").await;
    for (kind, name) in [("VCOCluster", "c"), ("VCOMachine", "c-2")] {
        stage.until_said(kind, name, ("Paused", "False", "NotPaused")).await;
    }
    pause(&stage, true).await;
    stage.until_said("VCOCluster", "c", ("Paused", "True", "Paused")).await;
    stage.delete("VCOCluster", "c").await;
    stage.delete("VCOMachine", "c-2").await;
    let before = writes(&stage);
    a_while().await;
    assert_eq!(writes(&stage), before);
    pause(&stage, false).await;
    stage.until_gone("VCOCluster", "c").await;
    stage.all_as_before();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_annotation_pauses_whatever_its_value() {
    let stage = Stage::new("manager-pause-one", World::small()).await;
    stage.small(json!({})).await;
    for (kind, name) in [("VCOCluster", "c"), ("VCOMachine", "c-1")] {
        stage.annotate(kind, name, PAUSED, json!("false")).await;
        let said = stage.until_said(kind, name, ("Paused", "True", "Paused")).await;
        let text = said["status"]["conditions"].to_string();
        assert!(text.contains(&format!("{kind} has the {PAUSED} annotation")), "{text}");
    }
    stage.delete("VCOMachine", "c-1").await;
    stage.delete("VCOCluster", "c").await;
    let before = writes(&stage);
    a_while().await;
    assert_eq!(writes(&stage), before);
    for (kind, name) in [("VCOCluster", "c"), ("VCOMachine", "c-1")] {
        stage.annotate(kind, name, PAUSED, Value::Null).await;
    }
    stage.until_gone("VCOCluster", "c").await;
    stage.all_as_before();
}

/// Since when an object is ready or not.
fn since(object: &Value) -> Value {
    let all = object["status"]["conditions"].as_array().unwrap();
    let ready = all.iter().find(|one| one["type"] == "Ready").unwrap();
    json!([ready["status"], ready["lastTransitionTime"]])
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_come_back_after_a_pause() {
    let stage = Stage::new("manager-finalizers", World::small()).await;
    stage.small(json!({})).await;
    pause(&stage, true).await;
    let all = [("VCOCluster", "c"), ("VCOMachine", "c-1")];
    let mut owners = Vec::new();
    for (kind, name) in all {
        let said = stage.until_said(kind, name, ("Paused", "True", "Paused")).await;
        owners.push((said["metadata"]["ownerReferences"].clone(), since(&said)));
        let none = json!({"metadata": {"finalizers": null, "ownerReferences": null}});
        stage.patch(kind, name, none).await;
    }
    let before = writes(&stage);
    a_while().await;
    pause(&stage, false).await;
    for ((kind, name), (owners, ready_since)) in all.into_iter().zip(owners) {
        // Cluster API brings these back.
        stage.patch(kind, name, json!({"metadata": {"ownerReferences": owners}})).await;
        let held = |object: &Value| object["metadata"]["finalizers"].as_array().is_some();
        let object = stage.until(kind, name, held).await;
        assert_eq!(since(&object), ready_since, "{kind} was ready all the time");
    }
    assert_eq!(writes(&stage), before);
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_looks_after_is_not_touched() {
    let stage = Stage::idle("manager-managed", World::small()).await;
    for (name, part) in [("by-label", "labels"), ("by-annotation", "annotations")] {
        stage.cluster(name, json!({})).await;
        let mark = json!({"metadata": {part: {MANAGED_BY: "terraform"}}});
        stage.patch("VCOCluster", name, mark).await;
    }
    let mut stage = stage;
    stage.start();
    // By then the manager has passed over all.
    stage.cluster("ours", json!({})).await;
    stage.provisioned("ours").await;
    for name in ["by-label", "by-annotation"] {
        let object = stage.get("VCOCluster", name).await;
        assert!(object["status"].is_null() && object["metadata"]["finalizers"].is_null());
        stage.delete("VCOCluster", name).await;
        stage.until_gone("VCOCluster", name).await;
    }
    stage.all_gone("ours", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_come_in_a_network_that_somebody_else_looks_after() {
    const ID: &str = "vco.infrastructure.cluster.x-k8s.io/cluster-id";
    let mut stage = Stage::idle("manager-managed-machines", World::small()).await;
    let space = stage.sim.world(|world| {
        let (space, vm) = world.add_vm(AT, IMAGE, "web");
        assert!(world.cloudspace(&space).unwrap().vm(vm).is_some());
        space
    });
    let pointer = format!("/acme_1/cloudspaces/{space}");
    let sim = std::sync::Arc::clone(&stage.sim);
    let record = || sim.world(|world| world.record(&pointer).unwrap());
    let before = record();
    let bucket = json!({
        "s3": {"endpoint": "http://127.0.0.1:9", "bucket": "backups"},
        "secretRef": {"name": "credentials"},
    });
    stage.cluster("c", json!({"cloudspaceId": space, "backup": bucket})).await;
    let mark = json!({MANAGED_BY: "terraform", ID: "00112233445566ff"});
    stage.patch("VCOCluster", "c", json!({"metadata": {"annotations": mark}})).await;
    let endpoint = json!({"host": "203.0.113.7", "port": 6443});
    stage.patch("VCOCluster", "c", json!({"spec": {"controlPlaneEndpoint": endpoint}})).await;
    stage.patch_status("VCOCluster", "c", json!({"initialization": {"provisioned": true}})).await;
    let network = stage.get("VCOCluster", "c").await;
    stage.start_with("--diagnostics-address= -vv");
    stage.machine("c", "c-1", true, json!({})).await;
    let waits = ("Ready", "False", "WaitingForClusterInfrastructureReady");
    stage.until_said("VCOMachine", "c-1", waits).await;
    stage.provisioned("c").await;
    stage.running("c-1").await;
    for operation in ["createCloudspace", "createCloudspacesServerPool", "createLoadBalancer"] {
        assert_eq!(stage.calls(operation), 0, "{operation}");
    }
    stage.delete("VCOMachine", "c-1").await;
    stage.until_gone("VCOMachine", "c-1").await;
    assert_eq!(stage.get("VCOCluster", "c").await, network, "not even its status is written");
    stage.delete("VCOCluster", "c").await;
    stage.until_gone("VCOCluster", "c").await;
    // Who looks after the network removes the group with it.
    stage.sim.world(|world| world.cloudspace_mut(&space).unwrap().groups.clear());
    assert_eq!(record(), before);
}

/// What `clusterctl move` makes of an object elsewhere: no status, no finalizer, other owners.
async fn moved(to: &Stage, kind: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let annotations = object["metadata"]["annotations"].clone();
    if kind == "VCOCluster" {
        to.cluster(name, object["spec"].clone()).await;
    } else {
        to.machine("c", name, true, object["spec"].clone()).await;
    }
    to.patch(kind, name, json!({"metadata": {"annotations": annotations}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_loses_the_status_and_nothing_else() {
    let mut from = Stage::new("manager-move", World::small()).await;
    let disks = json!({"dataDisks": [{"name": "etcd", "sizeGiB": 5}]});
    from.cluster("c", json!({})).await;
    from.provisioned("c").await;
    from.machine("c", "c-1", true, disks).await;
    let vm = from.running("c-1").await;
    from.until_said("VCOMachine", "c-1", ("LoadBalancerMember", "True", "Member")).await;
    let all = [("VCOCluster", "c"), ("VCOMachine", "c-1")];
    let mut to = from.beside();
    let before = writes(&from);
    pause(&from, true).await;
    for (kind, name) in all {
        let object = from.until_said(kind, name, ("Paused", "True", "Paused")).await;
        moved(&to, kind, &object).await;
    }
    // Here the Cluster is gone before what belongs to it, as it may be.
    from.delete("Cluster", "c").await;
    from.until_gone("Cluster", "c").await;
    for (kind, name) in all {
        from.annotate(kind, name, FOR_MOVE, json!("")).await;
        from.delete(kind, name).await;
    }
    a_while().await;
    for (kind, name) in all {
        assert!(!from.get(kind, name).await.is_null());
        from.patch(kind, name, json!({"metadata": {"finalizers": null}})).await;
        from.until_gone(kind, name).await;
    }
    from.kill();
    assert_eq!(writes(&from), before);

    to.start();
    to.provisioned("c").await;
    assert_eq!(to.running("c-1").await, vm);
    let machine = to.get("VCOMachine", "c-1").await;
    assert_eq!(condition(&machine, "DisksAttached").0, "True");
    assert!(machine["status"]["addresses"].as_array().unwrap().len() >= 2);
    assert_eq!(writes(&from), before);
    for (what, times) in [("createVirtualMachine", 1), ("createCloudspace", 1), ("createDisk", 1)] {
        assert_eq!(to.calls(what), times, "{what}");
    }
    to.delete("VCOMachine", "c-1").await;
    to.until_gone("VCOMachine", "c-1").await;
    to.delete("VCOCluster", "c").await;
    to.until_gone("VCOCluster", "c").await;
    from.all_as_before();
}
