//! Every changing call that the manager makes, and everything that can go wrong with it.
//!
//! A journey without faults tells which calls there are, so that a new one is covered without
//! anyone remembering. Then each goes wrong in each way, in a journey of its own. It has to end
//! as if nothing had happened: one object a mark, everything Ready, and nothing left in the end.
//!
//! `make test` tries one way a call, drawn by `CAPVCO_SEED`; `make faults` tries all of them.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use capvco::sim::disk::record::Disk;
use capvco::sim::machine::record::Vm;
use capvco::sim::{Sim, World};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::kubewire::KubeWire;
use super::stage::{AT, Manager, Stage, condition, is_provisioned};

/// `--cloud-lag` is how long lists may run behind here: [`LAG`] at most.
pub const FLAGS: &str = "--diagnostics-address= -vv --sync-period 5s --cloud-write-timeout 2s \
                         --cloud-lag 4s --retry-for 10s --rate-limit off";
/// How long lists run behind where they do.
const LAG: Duration = Duration::from_secs(2);
/// Longer than a journey waits for anything.
const PATIENCE: Duration = Duration::from_secs(100);
/// So many journeys at once.
const BESIDE: usize = 6;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    /// The cloud answers like this.
    Answer(&'static str),
    /// The manager is killed when the call is on its way, and nothing was done.
    KilledBefore,
    /// It is killed when the call was carried out, before the reply.
    KilledAfter,
    /// The same, and the lists of the cloud run behind.
    KilledUnseen,
    /// It is killed with the reply in hand, before it has written anything.
    KilledUnwritten,
    /// The lists of the cloud run behind.
    Stale,
    /// The location is in error.
    Away,
}

const MISHAPS: [Mishap; 21] = [
    Mishap::KilledBefore,
    Mishap::KilledAfter,
    Mishap::KilledUnseen,
    Mishap::KilledUnwritten,
    Mishap::Stale,
    Mishap::Away,
    Mishap::Answer("404"),
    Mishap::Answer("409"),
    Mishap::Answer("429"),
    Mishap::Answer("500"),
    Mishap::Answer("500-after"),
    Mishap::Answer("503"),
    Mishap::Answer("503-after"),
    Mishap::Answer("hang"),
    Mishap::Answer("hang-after"),
    Mishap::Answer("kill-after"),
    Mishap::Answer("lost-reply"),
    Mishap::Answer("cut-json"),
    Mishap::Answer("nulls"),
    Mishap::Answer("success-false"),
    Mishap::Answer("html-400"),
];

impl Mishap {
    fn name(self) -> String {
        match self {
            Self::Answer(kind) => kind.to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// What the cloud does to the call.
    fn kind(self) -> &'static str {
        match self {
            Self::Answer(kind) => kind,
            Self::KilledBefore => "hang",
            Self::KilledAfter | Self::KilledUnseen => "hang-after",
            Self::KilledUnwritten | Self::Stale | Self::Away => "slow:400",
        }
    }
}

/// One changing call: the vendor's operation, and the how manieth one of it.
type Call = (String, usize);

/// One journey's mishap.
#[derive(Debug, Clone)]
struct Case {
    call: Call,
    mishap: Mishap,
}

impl Case {
    fn name(&self) -> String {
        format!("{}#{}={}", self.call.0, self.call.1, self.mishap.name())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_mishap_leaves_anything_double_broken_or_behind() {
    let begun = Instant::now();
    let whole = std::env::var("CAPVCO_FAULTS").is_ok_and(|wanted| wanted == "all");
    let seed = seed();
    let calls = calls().await;
    assert!(calls.len() > 20, "{calls:?}");
    let mut draw = Draw(seed);
    let mut cases = Vec::new();
    for call in &calls {
        if whole {
            cases.extend(MISHAPS.map(|mishap| Case { call: call.clone(), mishap }));
        } else {
            let mishap = MISHAPS[draw.below(MISHAPS.len())];
            cases.push(Case { call: call.clone(), mishap });
        }
    }
    // To repeat some of them alone.
    if let Ok(only) = std::env::var("CAPVCO_FAULTS_ONLY") {
        cases.retain(|case| only.split(',').any(|part| case.name().contains(part)));
    }
    let failed = run_all(&cases).await;
    say(&format!(
        "faults: {} calls, {} cases, {} failed, seed {seed}, {:.0} s",
        calls.len(),
        cases.len(),
        failed.len(),
        begun.elapsed().as_secs_f64()
    ));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_twice_goes_with_its_machine() {
    let (stage, said) = (stage("faults-twice", 0).await, Arc::default());
    let _manager = manager(&stage, &stage.plane.kubeconfig(), &said);
    stage.cluster("c", json!({})).await;
    let cluster = stage.provisioned("c").await;
    let disks = json!([{"name": "etcd", "sizeGiB": 10}]);
    stage.machine("c", "c-1", true, json!({"dataDisks": disks})).await;
    stage.until("VCOMachine", "c-1", is_provisioned).await;
    // As a create call does that was carried out long after everybody had given it up.
    let space = cluster["spec"]["cloudspaceId"].as_str().unwrap();
    stage.sim.world(|world| {
        let vm = world.cloudspace(space).unwrap().vms[0].clone();
        let second = Vm { vm_id: 0, private_ip: String::new(), nics: Vec::new(), ..vm };
        world.add_vm_to(space, second);
        let ours = |disk: &&Disk| disk.description.starts_with("capvco/");
        let disk = world.site(AT).disks.iter().find(ours).unwrap().clone();
        let second = Disk { disk_id: 0, vm_id: 0, status: "CREATED".into(), ..disk };
        world.site(AT).add_disk(second);
    });
    stage.all_gone("c", &["c-1"]).await;
}

/// What chance begins with.
pub fn seed() -> u64 {
    std::env::var("CAPVCO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Every changing call of a journey in which nothing goes wrong.
async fn calls() -> Vec<Call> {
    let (stage, said) = (stage("faults-none", 0).await, Arc::default());
    let _manager = manager(&stage, &stage.plane.kubeconfig(), &said);
    journey(&stage).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for exchange in stage.sim.journal() {
        // Two machines may both make their group; the second one is refused, or comes too late.
        let done = exchange.status < 400;
        if done && exchange.method != "GET" && exchange.operation != "refresh" {
            *counts.entry(exchange.operation).or_default() += 1;
        }
    }
    let each = |(operation, count): (String, usize)| {
        (1..=count).map(move |nth| (operation.clone(), nth)).collect::<Vec<_>>()
    };
    counts.into_iter().flat_map(each).collect()
}

/// Runs cases side by side; what went wrong with those that failed.
async fn run_all(cases: &[Case]) -> Vec<String> {
    let places = Arc::new(Semaphore::new(BESIDE));
    let running = cases.iter().enumerate().map(|(number, case)| {
        let (places, case) = (Arc::clone(&places), case.clone());
        let said: Arc<Mutex<String>> = Arc::default();
        let heard = Arc::clone(&said);
        let name = case.name();
        let begun = tokio::spawn(async move {
            let _place = places.acquire().await.unwrap();
            run(number, &case, &heard).await;
        });
        (name, said, begun)
    });
    let mut failed = Vec::new();
    for (name, said, begun) in running.collect::<Vec<_>>() {
        let Err(panic) = begun.await else { continue };
        let why = panic.try_into_panic().map_or_else(
            |_| "it was cancelled".to_owned(),
            |why| match why.downcast::<String>() {
                Ok(why) => *why,
                Err(why) => why.downcast_ref::<&str>().map_or("?", |why| *why).to_owned(),
            },
        );
        let log = log_of(&name);
        std::fs::write(&log, format!("{}\n{why}\n", said.lock().unwrap())).unwrap();
        failed.push(format!("{name}: {why}\n(what the manager said is in {})", log.display()));
    }
    failed
}

fn log_of(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/faults");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{name}.log"))
}

/// One journey in which something goes wrong.
async fn run(number: usize, case: &Case, said: &Arc<Mutex<String>>) {
    let begun = Instant::now();
    let stage = stage(&format!("faults-{number}"), number).await;
    let (operation, nth) = &case.call;
    let fault = format!("{operation}#{nth}={}", case.mishap.kind());
    stage.sim.fault(fault.parse().unwrap());
    let wire = KubeWire::new(stage.plane).await;
    let mut running = Some(manager(&stage, &wire.kubeconfig(), said));
    let trouble = async {
        until(|| befallen(&stage.sim)).await;
        cause(case.mishap, &stage, &wire, &mut running, said).await;
    };
    let (done, ()) = tokio::join!(journey(&stage), async {
        // A call that never comes would be a case that tries nothing.
        tokio::time::timeout(PATIENCE, trouble).await.expect("the call was never made");
    });
    let () = done;
    let took = begun.elapsed().as_secs_f64();
    if std::env::var_os("CAPVCO_FAULTS_TIMES").is_some() {
        say(&format!("{took:6.1} s {}", case.name()));
        std::fs::write(log_of(&case.name()), &*said.lock().unwrap()).unwrap();
    }
}

/// What happens once the call has come.
async fn cause(
    mishap: Mishap,
    stage: &Stage,
    wire: &KubeWire,
    running: &mut Option<Manager>,
    said: &Arc<Mutex<String>>,
) {
    let restart = |running: &mut Option<Manager>| {
        *running = None;
        said.lock().unwrap().push_str("--- killed ---\n");
        *running = Some(manager(stage, &wire.kubeconfig(), said));
    };
    match mishap {
        Mishap::Answer(_) => {}
        Mishap::KilledBefore | Mishap::KilledAfter => restart(running),
        Mishap::KilledUnseen => {
            stage.sim.fault("*=stale-list*inf".parse().unwrap());
            restart(running);
            tokio::time::sleep(LAG).await;
            stage.sim.no_faults();
        }
        Mishap::KilledUnwritten => {
            wire.open(false);
            tokio::time::sleep(Duration::from_millis(700)).await;
            *running = None;
            wire.open(true);
            restart(running);
        }
        Mishap::Stale | Mishap::Away => {
            let (at, kind) = match mishap {
                Mishap::Stale => (String::new(), "stale-list"),
                _ => (format!("@{AT}"), "location-error"),
            };
            stage.sim.fault(format!("*{at}={kind}*inf").parse().unwrap());
            tokio::time::sleep(LAG).await;
            stage.sim.no_faults();
        }
    }
}

/// Whether the mishap's fault has befallen its call.
fn befallen(sim: &Sim) -> bool {
    sim.journal().iter().any(|exchange| exchange.fault.is_some())
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A cloud and a namespace. What nobody knows of the real cloud is one way here and the other
/// way there: whether names are unique, and how what is gone is answered (vco-api.md 13.3, 6).
async fn stage(test: &str, number: usize) -> Stage {
    let mut world = World::small();
    world.rules.unique_cloud_names = number % 2 == 1;
    world.rules.gone_status = if number % 4 < 2 { 404 } else { 400 };
    let mut stage = Stage::idle(test, world).await;
    stage.patience = PATIENCE;
    stage
}

fn manager(stage: &Stage, kubeconfig: &std::path::Path, said: &Arc<Mutex<String>>) -> Manager {
    Manager::start(kubeconfig, &stage.namespace, &stage.sim, FLAGS, Arc::clone(said))
}

/// A cluster with everything comes, is whole, and goes.
async fn journey(stage: &Stage) {
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    let disks = json!([{"name": "etcd", "sizeGiB": 10}]);
    stage.machine("c", "c-1", true, json!({"dataDisks": disks})).await;
    stage.machine("c", "c-2", true, json!({})).await;
    let network = stage.sim.world(|world| {
        world.site(AT).external_networks.first().map(|network| network.external_network_id)
    });
    let nics = json!([{"externalNetworkId": network.unwrap()}]);
    stage.machine("c", "w-1", false, json!({"externalNICs": nics})).await;
    let ready = |object: &Value| is_provisioned(object) && condition(object, "Ready").0 == "True";
    for machine in ["c-1", "c-2", "w-1"] {
        stage.until("VCOMachine", machine, ready).await;
    }
    let whole = |object: &Value| {
        let members = object["status"]["network"]["members"].as_array().map_or(0, Vec::len);
        ready(object) && members == 2
    };
    stage.until("VCOCluster", "c", whole).await;
    let wanted = [("vms", 3), ("disks", 1), ("pools", 1), ("balancers", 1), ("groups", 1)];
    until_counted(stage, wanted.into(), Duration::from_secs(20)).await;
    stage.delete("VCOMachine", "c-2").await;
    stage.until_gone("VCOMachine", "c-2").await;
    stage.all_gone("c", &["c-1", "w-1"]).await;
}

/// Waits until there is one cloudspace with so many things of each kind: a second one may be there
/// for a moment.
pub async fn until_counted(
    stage: &Stage,
    wanted: HashMap<&'static str, usize>,
    patience: Duration,
) {
    let (begun, wanted) = (Instant::now(), (1, wanted));
    loop {
        let found = stage.sim.world(|world| things(&world.inventory()));
        if found == wanted {
            return;
        }
        assert!(begun.elapsed() < patience, "not one a mark: {found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How many cloudspaces there are, and how many things of each kind that carry a mark.
fn things(inventory: &Value) -> (usize, HashMap<&'static str, usize>) {
    let customer = &inventory["acme_1"];
    let count = |things: &Value| things.as_object().map_or(0, serde_json::Map::len);
    let spaces = customer["cloudspaces"].as_object().unwrap();
    let mut found = HashMap::new();
    for kind in ["vms", "pools", "balancers", "groups"] {
        found.insert(kind, spaces.values().map(|space| count(&space[kind])).sum());
    }
    let disks = customer["locations"][AT]["disks"].as_object().unwrap();
    let marked = |disk: &&Value| {
        disk["description"].as_str().is_some_and(|text| text.starts_with("capvco/"))
    };
    found.insert("disks", disks.values().filter(marked).count());
    (spaces.len(), found)
}

/// The end of what managers said.
pub fn said_by(said: &Mutex<String>) -> String {
    let said = said.lock().unwrap();
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("warning")).collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

pub fn say(line: &str) {
    // Around the test runner, which keeps what a good test says to itself.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Numbers that are the same for the same seed (`SplitMix64`).
pub struct Draw(pub u64);

impl Draw {
    /// A number below this one.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}
