//! A hundred machines in a cloud where every fifth call goes wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use capvco::sim::World;
use serde_json::json;

use super::faults::{Draw, FLAGS, said_by, say, seed, until_counted};
use super::stage::{Manager, Stage, is_provisioned};

const MACHINES: usize = 100;
/// Every fifth machine has a disk of its own.
const WITH_DISKS: usize = 5;
/// More calls than it takes to make and delete them all.
const CALLS: usize = 12_000;
const PATIENCE: Duration = Duration::from_mins(12);

const KINDS: [&str; 12] = [
    "429",
    "500",
    "500-after",
    "503",
    "503-after",
    "kill-before",
    "kill-after",
    "lost-reply",
    "hang",
    "html-400",
    "success-false",
    "stale-list",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes; `make faults` runs it"]
async fn a_hundred_machines_come_and_go_though_every_fifth_call_goes_wrong() {
    let (begun, seed) = (Instant::now(), seed());
    let mut stage = Stage::idle("manager-storm", World::small()).await;
    stage.patience = PATIENCE;
    let mut draw = Draw(seed);
    for nth in 1..=CALLS {
        if draw.below(5) == 0 {
            let kind = KINDS[draw.below(KINDS.len())];
            stage.sim.fault(format!("*#{nth}={kind}").parse().unwrap());
        }
    }
    let said = Arc::default();
    let flags = format!("{FLAGS} --cloud-read-timeout 2s");
    let kubeconfig = stage.plane.kubeconfig();
    let start =
        || Manager::start(&kubeconfig, &stage.namespace, &stage.sim, &flags, Arc::clone(&said));
    let running = start();
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    let names: Vec<String> = (1..=MACHINES).map(|number| format!("w-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let disks = json!([{"name": "data", "sizeGiB": 10}]);
        let disks = if number % WITH_DISKS == 0 { json!({"dataDisks": disks}) } else { json!({}) };
        stage.machine("c", name, false, disks).await;
    }
    // In the midst of it, another manager takes over.
    while stage.calls("createVirtualMachine") < MACHINES / 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(running);
    let _running = start();
    for name in &names {
        stage.until("VCOMachine", name, is_provisioned).await;
    }
    let wanted = [
        ("vms", MACHINES),
        ("disks", MACHINES / WITH_DISKS),
        ("pools", 1),
        ("balancers", 1),
        ("groups", 0),
    ];
    until_counted(&stage, wanted.into(), PATIENCE).await;
    let up = begun.elapsed().as_secs_f64();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.all_gone("c", &names).await;
    let journal = stage.sim.journal();
    let wrong = journal.iter().filter(|one| one.fault.is_some()).count();
    let calls = journal.len();
    say(&format!(
        "storm: {MACHINES} machines, {calls} calls, {wrong} of them went wrong, seed {seed}; all \
         up after {up:.0} s, gone after {:.0} s",
        begun.elapsed().as_secs_f64()
    ));
    assert!(calls < CALLS && wrong * 6 > calls, "{wrong} of {calls}: {}", said_by(&said));
}
