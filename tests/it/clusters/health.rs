//! A worker that is lost is replaced by Cluster API's health check, never by us.

use serde_json::json;

use super::stage::{Stage, Wish};
use crate::support::raw;
use crate::support::together;

/// Deletes a machine as a person does in the portal.
async fn delete_by_hand(stage: &Stage, vm_id: u64) {
    raw::install_tls();
    let space = stage.sim.world(|world| {
        let mut all = world.cloudspaces.iter();
        let its = all.find(|space| space.vms.iter().any(|vm| vm.vm_id == vm_id));
        its.unwrap().cloudspace_id.clone()
    });
    let portal = format!("{}/api/1/customers", stage.sim.portal_url());
    let customer = stage.sim.customer();
    let url = format!("{portal}/{customer}/cloudspaces/{space}/vms/{vm_id}?permanently=true");
    let asked = reqwest::Client::new().delete(url).bearer_auth(stage.sim.token());
    assert_eq!(asked.send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_deleted_by_hand_is_replaced_by_a_health_check() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-health").await;
    stage.apply("h", Wish::default());
    stage.check_health("h", &json!({"cluster.x-k8s.io/deployment-name": "h-workers"}));
    stage.is_available("h", 2).await;

    let control_plane = "cluster.x-k8s.io/control-plane";
    let all = stage.machines("h").await;
    let worker = all.iter().find(|one| one["metadata"]["labels"][control_plane].is_null()).unwrap();
    let name = worker["metadata"]["name"].as_str().unwrap();
    let id = stage.get("VCOMachine", name).await["status"]["vmId"].as_u64().unwrap();
    delete_by_hand(&stage, id).await;
    stage.note("the worker is deleted by hand");
    stage
        .until("another has taken its place", async |stage| {
            stage.get("Machine", name).await.is_null() && stage.machines("h").await.len() == 2
        })
        .await;
    stage.is_available("h", 2).await;
    stage.runs_as_nodes("h").await;

    stage.delete("h").await;
    stage.nothing_left().await;
}
