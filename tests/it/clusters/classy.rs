//! A cluster of a `ClusterClass`, created and changed.

use serde_json::json;

use super::stage::{IMAGE, Stage};
use crate::support::together;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_a_class_is_created_and_changed_through_its_variables() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-class").await;
    stage.put(&stage.keys("k"));
    stage.apply_text(&stage.filled(include_str!("class.yaml"), "k"));
    stage.is_available("k", 2).await;
    stage.runs_as_nodes("k").await;

    let variables = json!([{"name": "workerVcpus", "value": 4}]);
    stage.patch("Cluster", "k", json!({"spec": {"topology": {"variables": variables}}})).await;
    let larger = async |stage: &Stage| {
        stage.sim.world(|world| {
            let vms = world.cloudspaces.iter().flat_map(|space| &space.vms);
            let running = vms.filter(|vm| vm.status == "RUNNING" && vm.image_id == IMAGE);
            let mut vcpus: Vec<u64> = running.map(|vm| vm.vcpus).collect();
            vcpus.sort_unstable();
            vcpus == [2, 4]
        })
    };
    stage.until("the worker is larger, the control plane as it was", larger).await;
    stage.is_available("k", 2).await;

    stage.delete("k").await;
    stage.nothing_left().await;
}
