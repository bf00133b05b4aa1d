//! A control plane and a worker.

use super::stage::{Stage, Wish};
use crate::support::together;

#[tokio::test(flavor = "multi_thread")]
async fn a_base_cluster_comes_to_running_and_goes_without_a_trace() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-base").await;
    stage.apply("base", Wish::default());
    stage.is_available("base", 2).await;
    stage.runs_as_nodes("base").await;
    stage.delete("base").await;
    stage.nothing_left().await;
}
