//! `clusterctl move`: a cluster changes hands, and nothing changes in the cloud.

use std::collections::BTreeSet;

use capvco::release::{self, Release};

use super::stage::{Management, Stage, Wish};
use crate::support::peers::capi::Clusterctl;
use crate::support::together;

const VERSION: &str = "v0.1.0";

fn clusterctl() -> Clusterctl {
    let image = "registry.example/capvco".parse().unwrap();
    let release = Release::new(&image, VERSION.parse().unwrap());
    let components = release::components(&release).unwrap();
    Clusterctl::new(VERSION, &components, &release::metadata().unwrap())
}

/// The machines of the cloud: number and status.
fn machines(stage: &Stage) -> BTreeSet<(u64, String)> {
    stage.sim.world(|world| {
        let all = world.cloudspaces.iter().flat_map(|space| &space.vms);
        all.map(|vm| (vm.vm_id, vm.status.clone())).collect()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_to_another_management_cluster_and_back_untouched() {
    if together::took_place() {
        return;
    }
    let clusterctl = clusterctl();
    let (here, there) = std::thread::scope(|scope| {
        let init = || Management::with_clusterctl(&clusterctl, VERSION);
        let there = scope.spawn(init);
        (init(), there.join().unwrap())
    });
    let here = Stage::new_at("clusters-moved", here).await;
    here.apply("m", Wish::default());
    here.is_available("m", 2).await;
    here.can_move().await;
    let before = machines(&here);

    let there = here.moved_to(&clusterctl, there);
    there.is_available("m", 2).await;
    assert!(here.get("Cluster", "m").await.is_null(), "it is there alone");
    there.runs_as_nodes("m").await;
    assert_eq!(machines(&there), before);

    there.can_move().await;
    let back = there.moved_to(&clusterctl, here.management);
    back.is_available("m", 2).await;
    back.runs_as_nodes("m").await;
    assert_eq!(machines(&back), before);

    back.delete("m").await;
    here.nothing_left().await;
}
