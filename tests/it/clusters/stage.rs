//! A management cluster with all its managers, a namespace in it, and a cloud for one test.

use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use capvco::sim::node::Nodes;
use capvco::sim::world::{Cloudspace, Vm};
use capvco::sim::{Sim, VmAt, World};
use capvco::{release, yaml};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use serde_json::{Value, json};

use crate::support::cloud::cloud;
use crate::support::peers::capi::{Clusterctl, Managers};
use crate::support::peers::kube::KubePlane;
use crate::support::peers::tool;
use crate::support::program::capvco;

/// Where the clusters are.
pub const AT: &str = "be-mac-dc01-001";
/// The image that every location has.
pub const IMAGE: u64 = 100;
/// The Secret that clusters name.
pub const CREDENTIALS: &str = "credentials";
/// Longer than anything takes here, on a machine that does much else.
const PATIENCE: Duration = Duration::from_mins(4);

/// What the manifest of a base cluster leaves open.
#[derive(Clone, Copy)]
pub struct Wish {
    pub control_planes: u64,
    pub workers: u64,
    pub version: &'static str,
}

impl Default for Wish {
    fn default() -> Self {
        Self { control_planes: 1, workers: 1, version: "v1.36.3" }
    }
}

/// A management cluster as it is in life, but for our manager.
pub struct Management {
    pub plane: KubePlane,
    pub managers: Managers,
}

impl Management {
    /// One of its own.
    pub fn start() -> Self {
        let plane = KubePlane::start().with_controller_manager();
        let managers = Managers::start(&plane);
        plane.put(&release::definitions());
        plane.put(&release::policies());
        Self { plane, managers }
    }

    /// One of its own, on which `clusterctl init` was run. It stays until the run ends.
    pub fn with_clusterctl(clusterctl: &Clusterctl, version: &str) -> &'static Self {
        let plane = KubePlane::start().with_controller_manager();
        Clusterctl::prepare(&plane);
        let provider = format!("vco:{version}");
        let kubeconfig = plane.kubeconfig();
        clusterctl.run(&["init", "--infrastructure", &provider], Some(&kubeconfig)).expect(0);
        let managers = Managers::start(&plane);
        Box::leak(Box::new(Self { plane, managers }.left()))
    }

    /// One for all tests of the run, each in a namespace of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Management> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().left())
    }

    /// It ends with the run, not before.
    fn left(self) -> Self {
        self.plane.leave();
        self.managers.leave();
        self
    }

    /// The objects of a kind in a namespace.
    pub fn api(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Secret" | "Namespace" => ("", "v1"),
            "KubeadmControlPlane" => ("controlplane.cluster.x-k8s.io", "v1beta2"),
            "KubeadmConfig" => ("bootstrap.cluster.x-k8s.io", "v1beta2"),
            kind if kind.starts_with("VCO") => ("infrastructure.cluster.x-k8s.io", "v1beta1"),
            _ => ("cluster.x-k8s.io", "v1beta2"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.plane.client(), namespace, &resource)
    }
}

/// A manager of ours at work in a namespace.
pub struct Ours {
    process: Child,
    said: Arc<Mutex<String>>,
}

impl Ours {
    pub fn start(management: &Management, namespace: &str, sim: &Sim) -> Self {
        let mut manager = capvco()
            .words("manager --health-addr= --diagnostics-address= --sync-period 10s -vv")
            .words("--namespace")
            .arg(namespace)
            .arg("--kubeconfig")
            .arg(management.plane.kubeconfig())
            .env("VCO_PORTAL_URL", sim.portal_url())
            .env("VCO_IAM_REFRESH_URL", sim.iam_refresh_url());
        let mut process = manager.spawn();
        let said = Arc::<Mutex<String>>::default();
        let (mut stderr, hears) = (process.stderr.take().unwrap(), Arc::clone(&said));
        // A manager whose words nobody takes would stand still.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                hears.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { process, said }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        if std::thread::panicking() {
            let said = self.said.lock().unwrap();
            let lines: Vec<_> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(40)..].join("\n");
            let _ = writeln!(std::io::stderr(), "our manager said last:\n{last}");
        }
    }
}

/// A cloud whose machines have numbers that those of no other test have: in one management cluster
/// Cluster API finds the Machine of a Node by its provider id, in whatever namespace.
async fn cloud_of_its_own(test: &str, mut world: World) -> Sim {
    static CLOUDS: AtomicU64 = AtomicU64::new(0);
    let nth = CLOUDS.fetch_add(1, Ordering::Relaxed);
    for site in &mut world.locations {
        site.next_vm_id += 1000 * nth;
    }
    cloud(test, world).await
}

/// Everything that a test of whole clusters needs.
pub struct Stage {
    pub management: &'static Management,
    pub namespace: String,
    ours: Option<Ours>,
    pub nodes: Arc<Nodes>,
    pub sim: Arc<Sim>,
    before: Value,
    begun: Instant,
}

impl Stage {
    /// A namespace with credentials, a cloud whose machines become nodes, and our manager.
    pub async fn new(test: &str) -> Self {
        Self::new_in(test, World::small()).await
    }

    /// The same in a cloud that others use, too.
    pub async fn new_in(test: &str, world: World) -> Self {
        let management = tokio::task::spawn_blocking(Management::shared).await.unwrap();
        Self::with(test, world, management).await
    }

    /// The same in another management cluster than that of all.
    pub async fn new_at(test: &str, management: &'static Management) -> Self {
        Self::with(test, World::small(), management).await
    }

    async fn with(test: &str, world: World, management: &'static Management) -> Self {
        let sim = Arc::new(cloud_of_its_own(test, world).await);
        let tools = tool("kubeadm");
        let nodes = Arc::new(Nodes::quick(&sim, tools.parent()).await.unwrap());
        Self::on(management, management.plane.namespace(), sim, nodes).with_credentials()
    }

    /// The same, with machines that have a network of their own and etcd inside.
    pub async fn full(test: &str) -> Self {
        let management = tokio::task::spawn_blocking(Management::shared).await.unwrap();
        let mut world = World::small();
        // While one of three is replaced there are four.
        world.locations.iter_mut().for_each(|site| site.stacks = 4);
        let sim = Arc::new(cloud_of_its_own(test, world).await);
        let nodes = Arc::new(Nodes::full(&sim, tool("kubeadm").parent()).unwrap());
        Self::on(management, management.plane.namespace(), sim, nodes).with_credentials()
    }

    /// Another namespace with a manager of its own, on the same cloud.
    pub fn beside(&self) -> Self {
        let namespace = self.management.plane.namespace();
        let (sim, nodes) = (Arc::clone(&self.sim), Arc::clone(&self.nodes));
        Self::on(self.management, namespace, sim, nodes).with_credentials()
    }

    fn on(
        management: &'static Management,
        namespace: String,
        sim: Arc<Sim>,
        nodes: Arc<Nodes>,
    ) -> Self {
        let before = sim.world(|world| world.inventory());
        let ours = Ours::start(management, &namespace, &sim);
        let begun = Instant::now();
        Self { management, namespace, ours: Some(ours), nodes, sim, before, begun }
    }

    /// Kills our manager, as a node that dies does, and starts another.
    pub fn restart(&mut self) {
        self.ours = None;
        self.ours = Some(Ours::start(self.management, &self.namespace, &self.sim));
    }

    /// Gives our namespace what a cluster names as its credentials; a move takes them along.
    fn with_credentials(self) -> Self {
        self.put_token(&self.sim.token());
        self
    }

    /// Writes the Secret that a cluster names, with this token.
    pub fn put_token(&self, token: &str) {
        let mut secret = self.secret(CREDENTIALS, &json!({"token": token}));
        secret["metadata"]["labels"] = json!({"clusterctl.cluster.x-k8s.io/move": ""});
        self.put(&[secret]);
    }

    /// Waits for what `clusterctl move` asks of every machine: a node.
    pub async fn can_move(&self) {
        self.until("every machine has a node", async |stage| {
            let all = stage.all("Machine").await;
            all.iter().all(|machine| !machine["status"]["nodeRef"]["name"].is_null())
        })
        .await;
    }

    /// Moves our namespace to another management cluster, in which a manager of ours awaits it.
    pub fn moved_to(&self, clusterctl: &Clusterctl, to: &'static Management) -> Self {
        let namespace = self.namespace.clone();
        to.plane.put(&[json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        })]);
        let (from, target) = (self.management.plane.kubeconfig(), to.plane.kubeconfig());
        let target = target.to_str().unwrap();
        let args = ["move", "--to-kubeconfig", target, "-n", &namespace];
        let moved = Self::on(to, namespace.clone(), Arc::clone(&self.sim), Arc::clone(&self.nodes));
        clusterctl.run(&args, Some(&from)).expect(0);
        moved.note("moved");
        moved
    }

    fn secret(&self, name: &str, data: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": name, "namespace": self.namespace}, "stringData": data,
        })
    }

    pub fn put(&self, objects: &[Value]) {
        self.management.plane.put(objects);
    }

    /// The keys that lead to the etcd outside, which Cluster API wants before the cluster.
    pub fn keys(&self, cluster: &str) -> Vec<Value> {
        let Some(etcd) = self.nodes.etcd() else { return vec![] };
        let of_cluster = |name: &str, data: &Value| {
            let mut secret = self.secret(&format!("{cluster}-{name}"), data);
            secret["type"] = json!("cluster.x-k8s.io/secret");
            secret["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": cluster});
            secret
        };
        let client = json!({"tls.crt": etcd.certificate, "tls.key": etcd.key});
        vec![
            of_cluster("etcd", &json!({"tls.crt": etcd.authority})),
            of_cluster("apiserver-etcd-client", &client),
        ]
    }

    /// Has machines with these labels replaced whose Node is silent for 5 s.
    pub fn check_health(&self, cluster: &str, labels: &Value) {
        let silent = json!({"type": "Ready", "status": "Unknown", "timeoutSeconds": 5});
        self.put(&[json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "metadata": {"name": cluster, "namespace": self.namespace},
            "spec": {
                "clusterName": cluster,
                "selector": {"matchLabels": labels},
                "checks": {"unhealthyNodeConditions": [silent]},
            },
        })]);
    }

    /// Applies the manifest of a base cluster.
    pub fn apply(&self, cluster: &str, wish: Wish) {
        self.put(&self.keys(cluster));
        self.apply_text(&self.filled_as(include_str!("base.yaml"), cluster, wish));
    }

    /// Applies the manifest of a base cluster with changes.
    pub fn apply_changed(&self, cluster: &str, wish: Wish, change: impl Fn(&str, &mut Value)) {
        self.put(&self.keys(cluster));
        let text = self.filled_as(include_str!("base.yaml"), cluster, wish);
        let mut all: Vec<Value> = yaml::from_multiple(&text, "base.yaml").unwrap();
        for one in &mut all {
            let name = one["metadata"]["name"].as_str().unwrap().to_owned();
            let kind = one["kind"].as_str().unwrap().to_owned();
            change(&format!("{kind}/{name}"), one);
        }
        let all: Vec<String> = all.iter().map(Value::to_string).collect();
        self.apply_text(&all.join("\n---\n"));
    }

    /// A manifest with everything filled in, for one control plane and one worker.
    pub fn filled(&self, text: &str, cluster: &str) -> String {
        self.filled_as(text, cluster, Wish::default())
    }

    fn filled_as(&self, text: &str, cluster: &str, wish: Wish) -> String {
        let mut text = text.to_owned();
        // There is no kubelet that could be asked for it, but where etcd is inside.
        let known = "machine.cluster.x-k8s.io/certificates-expiry: \"2036-01-01T00:00:00Z\"";
        let expiry = if self.nodes.etcd().is_some() { known } else { "asked: the-kubelet" };
        for (name, value) in [
            ("NAME", cluster),
            ("LOCATION", AT),
            ("CONFIGURATION", &self.configuration()),
            ("EXPIRY", expiry),
            ("IMAGE", &IMAGE.to_string()),
            ("VERSION", wish.version),
            ("CONTROL_PLANES", &wish.control_planes.to_string()),
            ("WORKERS", &wish.workers.to_string()),
        ] {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        text
    }

    /// What a cluster's configuration says of etcd; where it is inside, that machines which are
    /// silent are soon taken for lost.
    fn configuration(&self) -> String {
        let Some(etcd) = self.nodes.etcd() else {
            let grace = json!({"name": "node-monitor-grace-period", "value": "20s"});
            return json!({"controllerManager": {"extraArgs": [grace]}}).to_string();
        };
        let files = "/etc/kubernetes/pki";
        let external = json!({
            "endpoints": [etcd.endpoint], "caFile": format!("{files}/etcd/ca.crt"),
            "certFile": format!("{files}/apiserver-etcd-client.crt"),
            "keyFile": format!("{files}/apiserver-etcd-client.key"),
        });
        json!({"etcd": {"external": external}}).to_string()
    }

    /// Applies a manifest as a person does.
    pub fn apply_text(&self, text: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let args = ["apply", "--server-side", "-n", &self.namespace, "-f", path];
        self.management.plane.kubectl(&args).expect(0);
    }

    /// The objects of a kind in our namespace.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.management.api(&self.namespace, kind)
    }

    /// An object as JSON; null if it is not there.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
    }

    /// All objects of a kind.
    pub async fn all(&self, kind: &str) -> Vec<Value> {
        let all = self.api(kind).list(&ListParams::default()).await.unwrap();
        all.items.into_iter().map(|one| serde_json::to_value(one).unwrap()).collect()
    }

    pub async fn patch(&self, kind: &str, name: &str, change: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        api.patch(name, &params, &Patch::Merge(change)).await.unwrap();
    }

    /// Waits until `holds`; shows what is there if it never does.
    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self).await {
            assert!(begun.elapsed() < PATIENCE, "{what}: in vain\n{}", self.picture().await);
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        self.note(what);
    }

    /// Waits until a cluster is available with so many machines, all of them running.
    pub async fn is_available(&self, cluster: &str, machines: usize) {
        let what = format!("{cluster} is available with {machines} machines");
        self.until(&what, async |stage| {
            let available = condition(&stage.get("Cluster", cluster).await, "Available") == "True";
            let phases = stage.machines(cluster).await;
            let running = phases.iter().all(|m| m["status"]["phase"] == "Running");
            available && running && phases.len() == machines
        })
        .await;
    }

    /// The Machines of a cluster.
    pub async fn machines(&self, cluster: &str) -> Vec<Value> {
        let all = self.all("Machine").await;
        all.into_iter().filter(|one| one["spec"]["clusterName"] == cluster).collect()
    }

    /// Each machine is what the cloud, its Node and Cluster API say of it.
    pub async fn runs_as_nodes(&self, cluster: &str) {
        for machine in self.machines(cluster).await {
            let name = machine["metadata"]["name"].as_str().unwrap();
            let ours = self.get("VCOMachine", name).await;
            let id = ours["status"]["vmId"].as_u64().unwrap();
            assert_eq!(machine["spec"]["providerID"], format!("vco://{AT}/{id}"));
            assert_eq!(machine["status"]["nodeRef"]["name"], name);
        }
    }

    /// Deletes a cluster and waits until nothing of it is left.
    pub async fn delete(&self, cluster: &str) {
        self.begin_to_delete(cluster).await;
        self.is_gone(cluster).await;
    }

    /// Deletes a cluster, which takes a while.
    pub async fn begin_to_delete(&self, cluster: &str) {
        self.note("deleted");
        self.api("Cluster").delete(cluster, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until nothing of a deleted cluster is left.
    pub async fn is_gone(&self, cluster: &str) {
        self.until(&format!("{cluster} is gone"), async |stage| {
            stage.get("Cluster", cluster).await.is_null()
                && stage.get("VCOCluster", cluster).await.is_null()
        })
        .await;
    }

    /// What the cloud holds now is what it shall hold in the end.
    pub fn counted_from_now(mut self) -> Self {
        self.before = self.sim.world(|world| world.inventory());
        self
    }

    /// The cloud holds what it held before the test.
    pub async fn nothing_left(&self) {
        assert!(self.all("VCOMachine").await.is_empty());
        assert_eq!(self.sim.world(|world| world.inventory()), self.before);
    }

    /// A line for who looks at times.
    pub fn note(&self, what: &str) {
        let seconds = self.begun.elapsed().as_secs_f32();
        let _ = writeln!(std::io::stderr(), "{seconds:6.1} s  {}: {what}", self.namespace);
    }

    /// What a person would look at.
    async fn picture(&self) -> String {
        let mut said = Vec::new();
        for kind in ["Cluster", "VCOCluster", "KubeadmControlPlane", "Machine", "VCOMachine"] {
            for one in self.all(kind).await {
                let (about, status) = (&one["metadata"], &one["status"]);
                let (name, deleted) = (&about["name"], &about["deletionTimestamp"]);
                said.push(format!("{kind} {name}: {}, deleted {deleted}", status["phase"]));
                let all = status["conditions"].as_array().into_iter().flatten();
                said.extend(all.filter(|on| on["status"] != "True").map(|on| {
                    let (kind, status, reason) = (&on["type"], &on["status"], &on["reason"]);
                    format!("    {kind} {status} {reason}: {}", on["message"])
                }));
            }
        }
        said.extend(self.consoles());
        said.join("\n")
    }

    /// Why machines stay dark.
    fn consoles(&self) -> Vec<String> {
        let all: Vec<_> = self.sim.world(|world| {
            let spaces = world.cloudspaces.iter();
            let all = spaces.flat_map(|space| space.vms.iter().map(move |vm| (space, vm)));
            let at = |(space, vm): (&Cloudspace, &Vm)| VmAt {
                location: space.location.clone(),
                cloudspace_id: space.cloudspace_id.clone(),
                vm_id: vm.vm_id,
            };
            all.map(|one| (one.1.name.clone(), at(one))).collect()
        });
        let console = |(name, at)| {
            let said = std::fs::read_to_string(self.nodes.disk(&at).join("console.log"));
            said.ok().map(|said| format!("{name} stays dark: {}", said.trim()))
        };
        all.into_iter().filter_map(console).collect()
    }
}

/// The status of a condition; empty if it is not there.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    in_condition(object, kind, "status")
}

/// The reason of a condition; empty if it is not there.
pub fn reason<'a>(object: &'a Value, kind: &str) -> &'a str {
    in_condition(object, kind, "reason")
}

fn in_condition<'a>(object: &'a Value, kind: &str, what: &str) -> &'a str {
    let all = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = all.iter().find(|one| one["type"] == kind);
    found.and_then(|one| one[what].as_str()).unwrap_or_default()
}
