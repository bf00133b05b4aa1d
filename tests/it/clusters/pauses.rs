//! Our manager dies again and again while a cluster comes, and a paused cluster stays as it is.

use std::time::Duration;

use serde_json::json;

use super::stage::{Stage, Wish};
use crate::support::together;

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_may_die_at_any_time_and_a_paused_cluster_waits() {
    if together::took_place() {
        return;
    }
    let mut stage = Stage::new("clusters-pauses").await;
    stage.apply("d", Wish::default());
    for seconds in [1, 2, 2, 3, 3] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        stage.restart();
    }
    stage.is_available("d", 2).await;
    stage.runs_as_nodes("d").await;

    let paused = |paused: bool| json!({"spec": {"paused": paused}});
    let vms = |stage: &Stage| {
        stage.sim.world(|world| world.cloudspaces.iter().flat_map(|space| &space.vms).count())
    };
    stage.patch("Cluster", "d", paused(true)).await;
    stage.patch("MachineDeployment", "d-workers", json!({"spec": {"replicas": 2}})).await;
    stage.restart();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(vms(&stage), 2, "nothing is made for a paused cluster, nor was anything double");
    stage.patch("Cluster", "d", paused(false)).await;
    stage.is_available("d", 3).await;

    stage.delete("d").await;
    stage.nothing_left().await;
}
