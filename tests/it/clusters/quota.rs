//! What a customer may use is used up when a cluster comes, and later it is not.

use std::time::Duration;

use capvco::sim::world::Allowance;

use super::stage::{AT, Stage, Wish, condition, reason};
use crate::support::together;

/// From now on the customer may use so many CPUs.
fn allow(stage: &Stage, max_cpu_capacity: u64) {
    let (customer_id, location) = (stage.sim.customer().to_owned(), AT.to_owned());
    let most = Allowance { customer_id, location, max_cpu_capacity, ..Allowance::default() };
    stage.sim.world(|world| world.allowances = vec![most]);
}

/// How many machines there are in the cloud.
fn vms(stage: &Stage) -> usize {
    stage.sim.world(|world| world.cloudspaces.iter().flat_map(|space| &space.vms).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_met_a_quota_goes_on_by_itself_once_that_is_raised() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-quota").await;
    allow(&stage, 1);
    stage.apply("l", Wish::default());
    let says = async |stage: &Stage| {
        let all = stage.machines("l").await;
        let met = all.iter().filter(|one| {
            let kind = "InfrastructureReady";
            condition(one, kind) == "False" && reason(one, kind) == "QuotaExceeded"
        });
        met.count() == 1
    };
    stage.until("a Machine says that the quota is exceeded", says).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let message = stage.all("VCOMachine").await[0]["status"]["conditions"].to_string();
    assert!(message.contains("lacks 1 vCPU"), "what is missing is said, and stays: {message}");
    assert_eq!(vms(&stage), 0);
    let journal = stage.sim.journal();
    let tries = journal.iter().filter(|one| one.operation == "createVirtualMachine").count();
    assert!(tries <= 10, "{tries} tries: more than Cluster API's own changes give reason for");

    // Enough for the control plane, not for the worker.
    allow(&stage, 3);
    let first = async |stage: &Stage| vms(stage) == 1 && says(stage).await;
    stage.until("the control plane has come, and the worker meets the quota", first).await;
    allow(&stage, 4);
    stage.is_available("l", 2).await;
    stage.runs_as_nodes("l").await;

    stage.delete("l").await;
    stage.nothing_left().await;
}
