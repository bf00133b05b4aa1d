//! Three control planes on three hosts, and workers apart from each other, too.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::stage::{Stage, Wish};
use crate::support::together;

/// The machines of a cluster in the cloud, by number: control planes, or workers.
async fn vms(stage: &Stage, cluster: &str, control_plane: bool) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for machine in stage.machines(cluster).await {
        let labels = &machine["metadata"]["labels"];
        if labels["cluster.x-k8s.io/control-plane"].is_null() != control_plane {
            let ours = stage.get("VCOMachine", machine["metadata"]["name"].as_str().unwrap()).await;
            found.insert(ours["status"]["vmId"].as_u64().unwrap());
        }
    }
    found
}

/// The anti-affinity groups of the cloudspace: who is in them, and on how many hosts that is.
fn groups(stage: &Stage) -> Vec<(String, BTreeSet<u64>, usize)> {
    stage.sim.world(|world| {
        let space = &world.cloudspaces[0];
        let host = |id: &u64| space.vm(*id).unwrap().stack_id;
        let all = space.groups.iter().map(|group| {
            let hosts: BTreeSet<u64> = group.members.iter().map(host).collect();
            let name = group.group_id.splitn(3, '-').last().unwrap().to_owned();
            (name, group.members.iter().copied().collect(), hosts.len())
        });
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    })
}

/// The machines whose addresses are in the one pool of the cloudspace.
fn pooled(stage: &Stage) -> BTreeSet<u64> {
    stage.sim.world(|world| {
        let space = &world.cloudspaces[0];
        let [pool] = &space.pools[..] else { panic!("{:?}", space.pools) };
        let behind: Vec<_> = space.balancers.iter().map(|one| &one.serverpool_id).collect();
        assert_eq!(behind, [&pool.serverpool_id], "the load balancer is before that pool");
        let whose = |address: &String| {
            let mut all = space.vms.iter().filter(|vm| vm.status != "DESTROYED");
            all.find(|vm| vm.private_ip == *address).unwrap().vm_id
        };
        pool.hosts.iter().map(|host| whose(&host.address)).collect()
    })
}

async fn until_pooled(stage: &Stage, wanted: &BTreeSet<u64>) {
    let what = format!("the pool holds {wanted:?}");
    stage.until(&what, async |stage| pooled(stage) == *wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_control_planes_and_two_workers_are_kept_apart_and_one_control_plane_remains() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-ha").await;
    let apart = |what: &str, object: &mut Value| match what {
        "VCOCluster/a" => object["spec"]["antiAffinity"] = json!({"controlPlane": true}),
        "VCOMachineTemplate/a-workers" => {
            object["spec"]["template"]["spec"]["antiAffinityGroup"] = json!("workers");
        }
        _ => {}
    };
    let wish = Wish { control_planes: 3, workers: 2, ..Wish::default() };
    stage.apply_changed("a", wish, apart);
    stage.is_available("a", 5).await;
    stage.runs_as_nodes("a").await;
    let (planes, workers) = (vms(&stage, "a", true).await, vms(&stage, "a", false).await);
    assert_eq!((planes.len(), workers.len()), (3, 2));
    let wanted =
        [("control-plane".to_owned(), planes.clone(), 3), ("workers".to_owned(), workers, 2)];
    assert_eq!(groups(&stage), wanted);
    until_pooled(&stage, &planes).await;

    stage.patch("KubeadmControlPlane", "a", json!({"spec": {"replicas": 1}})).await;
    stage.is_available("a", 3).await;
    stage.runs_as_nodes("a").await;
    let left = vms(&stage, "a", true).await;
    assert!(left.len() == 1 && left.is_subset(&planes), "{left:?} of {planes:?}");
    until_pooled(&stage, &left).await;
    assert_eq!(groups(&stage)[0], ("control-plane".to_owned(), left, 1));

    stage.delete("a").await;
    stage.nothing_left().await;
}
