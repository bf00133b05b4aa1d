//! How often things are tried: who fails rests, and nothing is done again at once.

use std::time::Duration;

use capvco::sim::World;
use serde_json::json;

use super::stage::{Stage, world_of_one_processor};

const SHORT: &str = "--diagnostics-address= -vv --cloud-lag 3s";

#[tokio::test(flavor = "multi_thread")]
async fn who_fails_rests_before_he_tries_again() {
    let mut stage = Stage::idle("manager-rests-failing", world_of_one_processor()).await;
    stage.start_with(SHORT);
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    stage.machine("c", "c-1", true, json!({})).await;
    stage.until_said("VCOMachine", "c-1", ("Ready", "False", "QuotaExceeded")).await;
    let tries = stage.calls("createVirtualMachine");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let more = stage.calls("createVirtualMachine") - tries;
    assert!(more <= 1, "{more} tries in 10 s, and the first pause is 15 s");
    stage.sim.world(|world| world.allowances.clear());
    stage.running("c-1").await;
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_does_not_repeat_itself_while_lists_run_behind() {
    let stage = Stage::new("manager-lagging", World::small()).await;
    stage.small(json!({})).await;
    stage.delete("VCOMachine", "c-1").await;
    stage.until_gone("VCOMachine", "c-1").await;
    stage.sim.fault("*=stale-list*inf".parse().unwrap());
    stage.delete("VCOCluster", "c").await;
    stage.until_gone("VCOCluster", "c").await;
    stage.sim.no_faults();
    stage.all_as_before();
    for what in ["deleteLoadBalancer", "deleteServerPool", "deleteCloudspaceAntiAffinityGroup"] {
        assert_eq!(stage.calls(what), 1, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_machines_make_their_group_once() {
    let mut world = World::small();
    world.rules.unique_cloud_names = true;
    let stage = Stage::new("manager-group", world).await;
    stage.cluster("c", json!({})).await;
    stage.sim.fault("addCloudspaceAntiAffinityGroup=slow:1500".parse().unwrap());
    stage.provisioned("c").await;
    let names = ["c-1", "c-2", "c-3"];
    for name in names {
        stage.machine("c", name, true, json!({})).await;
    }
    for name in names {
        stage.running(name).await;
    }
    assert_eq!(stage.calls("addCloudspaceAntiAffinityGroup"), 1);
    let refused = |status: u16| (400..500).contains(&status);
    let refused: Vec<_> =
        stage.sim.journal().into_iter().filter(|one| refused(one.status)).collect();
    assert!(refused.is_empty(), "{refused:?}");
    stage.all_gone("c", &names).await;
}
