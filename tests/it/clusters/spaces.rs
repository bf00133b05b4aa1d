//! Namespaces: the same name twice, and one that goes with everything in it.

use capvco::sim::world::Vm;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::Value;

use super::stage::{AT, Stage, Wish};
use crate::support::together;

/// The names of the machines that a cloud has, by cloudspace.
fn machines(stage: &Stage) -> Vec<Vec<String>> {
    stage.sim.world(|world| {
        let running = |vm: &&Vm| vm.status == "RUNNING";
        let machines = |vms: &[Vm]| -> Vec<String> {
            vms.iter().filter(running).map(|vm| vm.hostname.clone()).collect()
        };
        let all = world.cloudspaces.iter().map(|space| machines(&space.vms));
        all.filter(|machines| !machines.is_empty()).collect()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_of_one_name_live_side_by_side_and_a_namespace_goes_at_once() {
    if together::took_place() {
        return;
    }
    let one = Stage::new("clusters-spaces").await;
    let other = one.beside();
    for stage in [&one, &other] {
        stage.apply("twin", Wish::default());
    }
    one.is_available("twin", 2).await;
    other.is_available("twin", 2).await;
    assert_eq!(machines(&one).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2], "at {AT}");
    one.runs_as_nodes("twin").await;
    other.runs_as_nodes("twin").await;

    // Everything is deleted at once, credentials included, in no order.
    let client: Client = one.management.plane.client();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    namespaces.delete(&one.namespace, &DeleteParams::default()).await.unwrap();
    one.until("the namespace is gone", async |one| {
        namespaces.get_opt(&one.namespace).await.unwrap().is_none()
    })
    .await;
    assert_eq!(machines(&one).iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    let left: Value = other.get("Cluster", "twin").await;
    assert!(left["metadata"]["deletionTimestamp"].is_null());
    other.is_available("twin", 2).await;

    other.delete("twin").await;
    other.nothing_left().await;
}
