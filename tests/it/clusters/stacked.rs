//! Clusters with etcd inside, each machine with a network of its own: rollouts watched by a
//! client and by etcd's own list of members, crashes, and control planes taken away.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use capvco::sim::VmAt;
use serde_json::{Value, json};

use super::stage::{AT, IMAGE, Stage, Wish, condition};
use crate::support::peers::tool;
use crate::support::together;

const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

impl Stage {
    /// The machines of a cluster in the cloud: their names, and where they are.
    fn vms(&self) -> Vec<(String, VmAt)> {
        self.sim.world(|world| {
            let spaces = world.cloudspaces.iter();
            let all = spaces.flat_map(|space| space.vms.iter().map(move |vm| (space, vm)));
            let up = all.filter(|(_, vm)| vm.status == "RUNNING");
            up.map(|(space, vm)| {
                let (cloudspace_id, vm_id) = (space.cloudspace_id.clone(), vm.vm_id);
                (vm.name.clone(), VmAt { location: AT.to_owned(), cloudspace_id, vm_id })
            })
            .collect()
        })
    }

    /// On how many hosts the members of the one anti-affinity group are.
    fn apart(&self) -> usize {
        self.sim.world(|world| {
            let space = &world.cloudspaces[0];
            let [group] = &space.groups[..] else { panic!("{:?}", space.groups) };
            let hosts = group.members.iter().map(|id| space.vm(*id).unwrap().stack_id);
            hosts.collect::<BTreeSet<_>>().len()
        })
    }

    /// The names of a cluster's control planes.
    async fn control_planes(&self, cluster: &str) -> Vec<String> {
        let all = self.machines(cluster).await;
        let ours = all.iter().filter(|one| !one["metadata"]["labels"][CONTROL_PLANE].is_null());
        ours.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// What etcd says, asked on one machine, in JSON; null if it does not answer.
fn etcdctl(stage: &Stage, at: &VmAt, args: &[&str]) -> Value {
    let Ok(way) = stage.nodes.way_in(at, 2379) else { return Value::Null };
    let keys = stage.nodes.disk(at).join("etc/kubernetes/pki/etcd");
    let key = |name: &str| keys.join(name).display().to_string();
    let mut command = std::process::Command::new(tool("etcdctl"));
    command.arg(format!("--endpoints=https://{way}")).args(args);
    command.arg("--write-out=json").arg("--command-timeout=5s");
    command.arg(format!("--cacert={}", key("ca.crt")));
    command.arg(format!("--cert={}", key("healthcheck-client.crt")));
    command.arg(format!("--key={}", key("healthcheck-client.key")));
    let said = command.output().unwrap();
    serde_json::from_slice(&said.stdout).unwrap_or_default()
}

/// Etcd's voters by name, as the first machine that answers lists them.
fn voters(stage: &Stage) -> Option<BTreeSet<String>> {
    stage.vms().iter().find_map(|(_, at)| {
        let said = etcdctl(stage, at, &["member", "list"]);
        let all = said["members"].as_array()?;
        let voting = all.iter().filter(|one| one["isLearner"] != true);
        Some(voting.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
    })
}

/// The machine whose etcd leads.
fn leader(stage: &Stage) -> Option<(String, VmAt)> {
    stage.vms().into_iter().find(|(_, at)| {
        let said = etcdctl(stage, at, &["endpoint", "status"]);
        let status = &said[0]["Status"];
        !status.is_null() && status["leader"] == status["header"]["member_id"]
    })
}

/// A client that asks the cluster every 100 ms, with a new connection each time.
struct Client {
    asked: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Client {
    async fn start(stage: &Stage, cluster: &str) -> Self {
        let object = stage.get("Cluster", cluster).await;
        let endpoint = &object["spec"]["controlPlaneEndpoint"];
        let (host, port) = (endpoint["host"].as_str().unwrap(), &endpoint["port"]);
        let url = format!("https://{host}:{port}/readyz");
        let counts = [Arc::<AtomicU64>::default(), Arc::default()];
        let [asked, failed] = counts.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        crate::support::raw::install_tls();
        tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let client = reqwest::Client::builder()
                    .danger_accept_invalid_certs(true)
                    .timeout(Duration::from_secs(2))
                    .build()
                    .unwrap();
                let said = client.get(&url).send().await;
                counts[0].fetch_add(1, Ordering::Relaxed);
                if !said.is_ok_and(|said| said.status() == 200) {
                    counts[1].fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(Duration::from_millis(100).saturating_sub(begun.elapsed()))
                    .await;
            }
        });
        Self { asked, failed, stop }
    }

    /// How often it asked, and in vain.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        (self.asked.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_control_planes_with_etcd_inside_are_replaced_without_losing_quorum() {
    if together::took_place() {
        return;
    }
    let stage = Stage::full("clusters-stacked").await;
    let wish = Wish { control_planes: 3, workers: 2, ..Wish::default() };
    stage.apply_changed("s", wish, |what, object| {
        if what == "VCOCluster/s" {
            object["spec"]["antiAffinity"] = json!({"controlPlane": true});
        }
    });
    stage.is_available("s", 5).await;
    stage.runs_as_nodes("s").await;
    let members = voters(&stage).unwrap();
    assert_eq!(members, stage.control_planes("s").await.into_iter().collect());
    assert_eq!(stage.apart(), 3, "each control plane on a host of its own");

    stage.put(&[json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachineTemplate",
        "metadata": {"name": "s-larger", "namespace": stage.namespace},
        "spec": {"template": {"spec": {
            "imageId": IMAGE, "vcpus": 4, "memoryMiB": 8192, "bootDiskGiB": 20,
        }}},
    })]);
    let client = Client::start(&stage, "s").await;
    let to = json!({"spec": {"machineTemplate": {"spec": {"infrastructureRef": {
        "name": "s-larger",
    }}}}});
    stage.patch("KubeadmControlPlane", "s", to).await;
    let mut seen = BTreeSet::new();
    stage
        .until("all control planes are new, and their etcd members with them", async |stage| {
            let Some(now) = voters(stage) else { return false };
            seen.insert(now.len());
            let machines = stage.control_planes("s").await;
            let kcp = stage.get("KubeadmControlPlane", "s").await;
            machines.iter().all(|name| !members.contains(name))
                && machines.len() == 3
                && now == machines.into_iter().collect()
                && kcp["status"]["upToDateReplicas"] == 3
        })
        .await;
    assert_eq!(stage.apart(), 3, "and so are the new ones");
    let (asked, failed) = client.end();
    stage.note(&format!("asked every 100 ms: {asked} times, {failed} in vain; members {seen:?}"));
    assert!(seen.iter().all(|voters| (3..=4).contains(voters)), "{seen:?}");
    assert!(asked > 100 && failed * 100 <= asked, "{failed} of {asked} polls failed");

    stage.patch("KubeadmControlPlane", "s", json!({"spec": {"replicas": 1}})).await;
    stage.is_available("s", 3).await;
    assert_eq!(voters(&stage).unwrap().len(), 1);
    stage.delete("s").await;
    stage.nothing_left().await;
}

/// Crashes a control plane of three, and waits until another is in its place.
async fn is_replaced_after_a_crash(test: &str, leads: bool) {
    let stage = Stage::full(test).await;
    stage.apply("r", Wish { control_planes: 3, workers: 0, ..Wish::default() });
    stage.check_health("r", &json!({CONTROL_PLANE: ""}));
    stage.is_available("r", 3).await;
    let (leader, its) = leader(&stage).unwrap();
    let (name, at) = if leads {
        (leader, its)
    } else {
        stage.vms().into_iter().find(|(name, _)| *name != leader).unwrap()
    };
    assert!(stage.nodes.crash(&at));
    stage.note(&format!("{name} has crashed"));
    stage
        .until("another has taken its place", async |stage| {
            let now = stage.control_planes("r").await;
            now.len() == 3
                && !now.contains(&name)
                && voters(stage).is_some_and(|voters| voters == now.into_iter().collect())
        })
        .await;
    stage.is_available("r", 3).await;
    let well = async |stage: &Stage| {
        let kcp = stage.get("KubeadmControlPlane", "r").await;
        condition(&kcp, "EtcdClusterHealthy") == "True"
    };
    stage.until("etcd is well", well).await;
    stage.delete("r").await;
    stage.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_crashes_is_replaced() {
    if together::took_place() {
        return;
    }
    is_replaced_after_a_crash("clusters-follower", false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; `make faults` runs it"]
async fn a_control_plane_whose_etcd_leads_and_that_crashes_is_replaced() {
    is_replaced_after_a_crash("clusters-leader", true).await;
}
