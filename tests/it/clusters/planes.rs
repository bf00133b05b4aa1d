//! Several control planes: added, replaced one at a time, and taken away.

use serde_json::json;

use super::stage::{IMAGE, Stage, Wish};
use crate::support::together;

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_grow_to_three_and_are_replaced_by_those_of_a_new_template() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-planes").await;
    stage.apply("p", Wish { workers: 1, ..Wish::default() });
    stage.is_available("p", 2).await;
    let scale = json!({"spec": {"replicas": 3}});
    stage.patch("KubeadmControlPlane", "p", scale).await;
    stage.is_available("p", 4).await;
    stage.runs_as_nodes("p").await;

    stage.put(&[json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachineTemplate",
        "metadata": {"name": "p-larger", "namespace": stage.namespace},
        "spec": {"template": {"spec": {
            "imageId": IMAGE, "vcpus": 4, "memoryMiB": 8192, "bootDiskGiB": 20,
        }}},
    })]);
    let to = json!({"spec": {"machineTemplate": {"spec": {"infrastructureRef": {
        "name": "p-larger",
    }}}}});
    stage.patch("KubeadmControlPlane", "p", to).await;
    let larger = async |stage: &Stage| {
        stage.sim.world(|world| {
            let vms = world.cloudspaces.iter().flat_map(|space| &space.vms);
            let mut vcpus: Vec<u64> =
                vms.filter(|vm| vm.status == "RUNNING").map(|vm| vm.vcpus).collect();
            vcpus.sort_unstable();
            vcpus == [2, 4, 4, 4]
        })
    };
    stage.until("all control planes are larger", larger).await;
    stage.is_available("p", 4).await;

    stage.delete("p").await;
    stage.nothing_left().await;
}
