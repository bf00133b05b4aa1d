//! Workers come, go and change while their cluster runs.

use serde_json::{Value, json};

use super::stage::{IMAGE, Stage, Wish};
use crate::support::together;

/// How many CPUs the machines of a cluster's workers have in the cloud.
async fn vcpus_of_workers(stage: &Stage, cluster: &str) -> Vec<u64> {
    let control_plane = "cluster.x-k8s.io/control-plane";
    let all = stage.machines(cluster).await;
    let workers = all.iter().filter(|one| one["metadata"]["labels"][control_plane].is_null());
    let names: Vec<&str> = workers.map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    stage.sim.world(|world| {
        let vms = world.cloudspaces.iter().flat_map(|space| &space.vms);
        vms.filter(|vm| names.contains(&vm.hostname.as_str())).map(|vm| vm.vcpus).collect()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_added_taken_away_and_replaced_by_others_of_a_new_template() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-workers").await;
    stage.apply("w", Wish::default());
    stage.is_available("w", 2).await;

    let scale = |replicas: u64| json!({"spec": {"replicas": replicas}});
    stage.patch("MachineDeployment", "w-workers", scale(3)).await;
    stage.is_available("w", 4).await;
    stage.runs_as_nodes("w").await;
    stage.patch("MachineDeployment", "w-workers", scale(1)).await;
    stage.is_available("w", 2).await;
    assert_eq!(vcpus_of_workers(&stage, "w").await, [2]);

    let larger: Value = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachineTemplate",
        "metadata": {"name": "w-larger", "namespace": stage.namespace},
        "spec": {"template": {"spec": {
            "imageId": IMAGE, "vcpus": 4, "memoryMiB": 4096, "bootDiskGiB": 20,
        }}},
    });
    stage.put(&[larger]);
    let to = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "w-larger"}}}}});
    stage.patch("MachineDeployment", "w-workers", to).await;
    stage
        .until("workers are larger", async |stage| vcpus_of_workers(stage, "w").await == [4])
        .await;
    stage.is_available("w", 2).await;

    stage.delete("w").await;
    stage.nothing_left().await;
}
