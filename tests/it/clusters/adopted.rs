//! A cluster in a cloudspace that was there before it and stays after it.

use capvco::sim::world::Vm;
use serde_json::json;

use super::stage::{AT, IMAGE, Stage, Wish};
use crate::support::neighbours::{inhabited, their_space, theirs};
use crate::support::together;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_an_adopted_cloudspace_leaves_everything_of_others_as_it_was() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new_in("clusters-adopted", inhabited(AT, IMAGE)).await;
    let (space, before) = (their_space(&stage.sim), theirs(&stage.sim, AT));
    stage.apply_changed("g", Wish::default(), |what, object| {
        if what == "VCOCluster/g" {
            object["spec"]["cloudspace"] = json!({"adopt": {"id": space}});
        }
    });
    stage.is_available("g", 2).await;
    stage.runs_as_nodes("g").await;
    let spaces = stage.sim.world(|world| {
        let running = |vms: &[_]| vms.iter().filter(|vm: &&Vm| vm.status == "RUNNING").count();
        let all = world.cloudspaces.iter();
        all.map(|one| (one.cloudspace_id.clone(), running(&one.vms))).collect::<Vec<_>>()
    });
    assert_eq!(spaces, [(space, 3)], "theirs and ours are in the one that was there");
    assert_eq!(theirs(&stage.sim, AT), before);

    stage.delete("g").await;
    assert_eq!(theirs(&stage.sim, AT), before);
    stage.nothing_left().await;
}
