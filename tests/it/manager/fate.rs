//! What becomes of VMs without us, and who is in the pool before the API.

use capvco::sim::World;
use serde_json::{Value, json};

use super::stage::{AT, Stage, condition, is_provisioned};

/// Somebody sets the state of a VM.
fn set(stage: &Stage, space: &str, vm: u64, word: &str) {
    stage.sim.world(|world| {
        let vms = &mut world.cloudspace_mut(space).unwrap().vms;
        vms.iter_mut().find(|one| one.vm_id == vm).unwrap().status = word.into();
    });
}

/// Somebody deletes a VM for good, with its disks.
fn destroy(stage: &Stage, space: &str, vm: u64) {
    set(stage, space, vm, "DESTROYED");
    stage.sim.world(|world| {
        for disk in &mut world.site(AT).disks {
            if disk.vm_id == vm {
                disk.status = "DESTROYED".into();
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_vanished_is_told_of_and_never_made_again() {
    let stage = Stage::new("manager-vanished", World::small()).await;
    let vm = stage.small(json!({})).await;
    destroy(&stage, &stage.space("c").await, vm);
    let what = ("Ready", "False", "VMNotFound");
    let said = stage.until_said("VCOMachine", "c-1", what).await;
    assert_eq!(condition(&said, "VMProvisioned"), ("False", "VMNotFound"));
    assert_eq!(said["status"]["vmState"], "GONE");
    assert!(is_provisioned(&said), "that is said once and stays");
    stage.annotate("VCOMachine", "c-1", "look", json!("again")).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(stage.calls("createVirtualMachine"), 1);
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_was_halted_is_told_of_and_left_so() {
    let stage = Stage::new("manager-halted", World::small()).await;
    let vm = stage.small(json!({})).await;
    let (space, starts) = (stage.space("c").await, stage.calls("startVirtualMachine"));
    set(&stage, &space, vm, "HALTED");
    stage.until_said("VCOMachine", "c-1", ("Ready", "False", "VMNotRunning")).await;
    assert_eq!(stage.calls("startVirtualMachine"), starts);
    set(&stage, &space, vm, "RUNNING");
    // Up to a minute later, if nothing happens to it.
    stage.annotate("VCOMachine", "c-1", "look", json!("again")).await;
    stage.running("c-1").await;
    stage.all_gone("c", &["c-1"]).await;
}

async fn becomes_node(stage: &Stage, name: &str) {
    stage.patch_status("Machine", name, json!({"nodeRef": {"name": name}})).await;
}

async fn until_members(stage: &Stage, members: &[&String]) {
    let mut wanted: Vec<_> = members.iter().map(|one| (*one).clone()).collect();
    wanted.sort();
    let fits = |cluster: &Value| cluster["status"]["network"]["members"] == json!(wanted);
    let cluster = stage.until("VCOCluster", "c", fits).await;
    let space = cluster["spec"]["cloudspaceId"].as_str().unwrap();
    let mut there = stage.sim.world(|world| {
        let hosts = &world.cloudspace(space).unwrap().pools[0].hosts;
        hosts.iter().map(|host| host.address.clone()).collect::<Vec<_>>()
    });
    there.sort();
    assert_eq!(there, wanted);
}

async fn address(stage: &Stage, name: &str) -> String {
    let machine = stage.get("VCOMachine", name).await;
    let all = machine["status"]["addresses"].as_array().unwrap();
    let internal = all.iter().find(|one| one["type"] == "InternalIP").unwrap();
    internal["address"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_holds_who_lives_and_is_never_empty() {
    let stage = Stage::new("manager-members", World::small()).await;
    let vm_1 = stage.small(json!({})).await;
    let one = address(&stage, "c-1").await;
    until_members(&stage, &[&one]).await;
    becomes_node(&stage, "c-1").await;
    for name in ["c-2", "c-3"] {
        stage.machine("c", name, true, json!({})).await;
    }
    stage.machine("c", "c-w", false, json!({})).await;
    stage.running("c-2").await;
    let vm_3 = stage.running("c-3").await;
    stage.running("c-w").await;
    let (two, three) = (address(&stage, "c-2").await, address(&stage, "c-3").await);
    // Who has not become a Node may not answer yet.
    until_members(&stage, &[&one]).await;
    becomes_node(&stage, "c-2").await;
    until_members(&stage, &[&one, &two]).await;
    becomes_node(&stage, "c-3").await;
    until_members(&stage, &[&one, &two, &three]).await;
    let said = ("LoadBalancerMember", "True", "Member");
    stage.until_said("VCOMachine", "c-3", said).await;

    // Its Machine is being drained; its VM runs on for minutes.
    let hold = json!({"metadata": {"finalizers": ["example.com/drain"]}});
    stage.patch("Machine", "c-2", hold).await;
    stage.delete("Machine", "c-2").await;
    until_members(&stage, &[&one, &three]).await;
    assert_eq!(stage.get("VCOMachine", "c-2").await["status"]["vmState"], "RUNNING");

    let space = stage.space("c").await;
    set(&stage, &space, vm_3, "HALTED");
    until_members(&stage, &[&one]).await;
    set(&stage, &space, vm_1, "HALTED");
    stage.until_said("VCOMachine", "c-1", ("Ready", "False", "VMNotRunning")).await;
    until_members(&stage, &[&one]).await;
    stage.all_gone("c", &["c-1", "c-2", "c-3", "c-w"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_leaves_the_pool_before_its_vm_goes() {
    let stage = Stage::new("manager-leaves", World::small()).await;
    stage.small(json!({})).await;
    stage.machine("c", "c-2", true, json!({})).await;
    stage.running("c-2").await;
    for name in ["c-1", "c-2"] {
        becomes_node(&stage, name).await;
    }
    let (one, two) = (address(&stage, "c-1").await, address(&stage, "c-2").await);
    until_members(&stage, &[&one, &two]).await;
    stage.delete("VCOMachine", "c-2").await;
    stage.until_gone("VCOMachine", "c-2").await;
    let journal = stage.sim.journal();
    let at = |operation: &str| journal.iter().position(|one| one.operation == operation);
    let left = at("removeHostFromServerPool").expect("it left the pool");
    assert!(left < at("deleteVirtualMachine").expect("its VM was deleted"));
    until_members(&stage, &[&one]).await;
    stage.all_gone("c", &["c-1"]).await;
}
