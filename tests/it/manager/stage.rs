//! A management cluster's namespace, a cloud, a manager between them, and the part of Cluster API.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capvco::sim::world::Allowance;
use capvco::sim::{Sim, World};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::support::cloud::cloud;
use crate::support::peers::kube::KubePlane;
use crate::support::program::capvco;

/// Where the clusters are.
pub const AT: &str = "be-mac-dc01-001";
/// The image that every location has.
pub const IMAGE: u64 = 100;
/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_mins(2);

/// A world in which the customer may have one processor, half of what a machine takes.
pub fn world_of_one_processor() -> World {
    let mut world = World::small();
    world.allowances.push(Allowance {
        customer_id: "acme_1".into(),
        location: AT.into(),
        max_cpu_capacity: 1,
        ..Allowance::default()
    });
    world
}

/// Bootstrap data as Cluster API writes them, in short.
pub const CLOUD_CONFIG: &str = "## template: jinja\n#cloud-config\n\
    write_files:\n- path: /run/kubeadm/kubeadm.yaml\n  permissions: '0640'\n  \
    content: |\n    name: '{{ ds.meta_data.local_hostname }}'\nruncmd: [kubeadm init]\n";

/// Everything that a test of the manager needs.
pub struct Stage {
    pub plane: &'static KubePlane,
    pub namespace: String,
    pub sim: Arc<Sim>,
    /// Longer than anything takes.
    pub patience: Duration,
    manager: Option<Manager>,
    said: Arc<Mutex<String>>,
    before: Value,
}

/// A manager that runs. It dies with this.
pub struct Manager(pub Child);

impl Manager {
    /// Starts one in this namespace, with more flags; what it says is kept.
    pub fn start(
        kubeconfig: &Path,
        namespace: &str,
        sim: &Sim,
        flags: &str,
        said: Arc<Mutex<String>>,
    ) -> Self {
        let quiet = ["--health-addr=", ""];
        let mut manager = capvco()
            .words("manager")
            .words(quiet[usize::from(flags.contains("--health-addr"))])
            .words(flags)
            .words("--namespace")
            .arg(namespace)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env("VCO_PORTAL_URL", sim.portal_url())
            .env("VCO_IAM_REFRESH_URL", sim.iam_refresh_url());
        let mut manager = manager.spawn();
        let mut stderr = manager.stderr.take().unwrap();
        // A manager whose words nobody takes would stand still.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                said.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self(manager)
    }
}

impl Drop for Manager {
    /// As a node that dies does it.
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Stage {
    /// A namespace with credentials, a cloud, and a manager that works in that namespace.
    pub async fn new(test: &str, world: World) -> Self {
        let mut stage = Self::idle(test, world).await;
        stage.start();
        stage
    }

    /// The same, and no manager yet.
    pub async fn idle(test: &str, world: World) -> Self {
        Self::on(Arc::new(cloud(test, world).await))
    }

    /// Another namespace on the same cloud, with the same user's credentials and no manager yet.
    pub fn beside(&self) -> Self {
        Self::on(Arc::clone(&self.sim))
    }

    fn on(sim: Arc<Sim>) -> Self {
        let plane = KubePlane::shared();
        let before = sim.world(|world| world.inventory());
        let stage = Self {
            plane,
            namespace: plane.namespace(),
            sim,
            patience: PATIENCE,
            manager: None,
            said: Arc::default(),
            before,
        };
        stage.put_secret("credentials", &stage.sim.token());
        stage
    }

    /// Starts a manager where none runs.
    pub fn start(&mut self) {
        self.start_with("--diagnostics-address= -vv");
    }

    /// The same with flags of the test's own.
    pub fn start_with(&mut self, flags: &str) {
        self.manager = Some(self.another(&format!("--sync-period 5s {flags}")));
    }

    /// A manager more, with these flags alone.
    pub fn another(&self, flags: &str) -> Manager {
        let (kubeconfig, said) = (self.plane.kubeconfig(), Arc::clone(&self.said));
        Manager::start(&kubeconfig, &self.namespace, &self.sim, flags, said)
    }

    /// What managers have said so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Kills the manager, as a node that dies does.
    pub fn kill(&mut self) {
        self.manager = None;
    }

    pub fn put_secret(&self, name: &str, token: &str) {
        self.plane.put(&[json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "stringData": {"token": token},
        })]);
    }

    /// The objects of a kind in our namespace.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Cluster" | "Machine" => ("cluster.x-k8s.io", "v1beta2"),
            "Secret" => ("", "v1"),
            "Event" => ("events.k8s.io", "v1"),
            "Lease" => ("coordination.k8s.io", "v1"),
            _ => ("infrastructure.cluster.x-k8s.io", "v1beta1"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.plane.client(), &self.namespace, &resource)
    }

    /// An object as JSON; null if it is not there.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
    }

    pub async fn create(&self, mut object: Value) -> Value {
        let kind = object["kind"].as_str().unwrap().to_owned();
        object["metadata"]["namespace"] = json!(self.namespace);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let made = self.api(&kind).create(&PostParams::default(), &object).await.unwrap();
        serde_json::to_value(made).unwrap()
    }

    pub async fn patch_status(&self, kind: &str, name: &str, status: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        api.patch_status(name, &params, &Patch::Merge(json!({"status": status}))).await.unwrap();
    }

    /// Merges this into an object.
    pub async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Gives an object an annotation; null takes it away.
    pub async fn annotate(&self, kind: &str, name: &str, key: &str, value: Value) {
        self.patch(kind, name, json!({"metadata": {"annotations": {key: value}}})).await;
    }

    /// Waits until an object has a condition of this status and reason.
    pub async fn until_said(&self, kind: &str, name: &str, what: (&str, &str, &str)) -> Value {
        let (about, status, reason) = what;
        self.until(kind, name, |object| condition(object, about) == (status, reason)).await
    }

    /// A cluster with its network, and one control plane machine that runs; its VM's id.
    pub async fn small(&self, spec: Value) -> u64 {
        self.cluster("c", spec).await;
        self.provisioned("c").await;
        self.machine("c", "c-1", true, json!({})).await;
        let vm = self.running("c-1").await;
        // The last that comes of itself.
        self.until_said("VCOMachine", "c-1", ("LoadBalancerMember", "True", "Member")).await;
        vm
    }

    /// Waits until a machine runs; its VM's id.
    pub async fn running(&self, name: &str) -> u64 {
        let machine = self.until("VCOMachine", name, |machine| {
            is_provisioned(machine) && condition(machine, "Ready") == ("True", "Ready")
        });
        machine.await["status"]["vmId"].as_u64().unwrap()
    }

    /// The cloudspace that a cluster is in.
    pub async fn space(&self, cluster: &str) -> String {
        self.get("VCOCluster", cluster).await["spec"]["cloudspaceId"].as_str().unwrap().to_owned()
    }

    /// The reasons of the events of an object.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let events = self.api("Event").list(&ListParams::default()).await.unwrap();
        let of_it = events.items.iter().filter(|event| event.data["regarding"]["name"] == name);
        of_it.map(|event| event.data["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until this holds of an object.
    pub async fn until(&self, kind: &str, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begun = std::time::Instant::now();
        loop {
            let object = self.get(kind, name).await;
            if holds(&object) {
                return object;
            }
            assert!(begun.elapsed() < self.patience, "{kind} {name} in vain: {object:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn until_gone(&self, kind: &str, name: &str) {
        self.until(kind, name, Value::is_null).await;
    }

    /// A Cluster with its `VCOCluster`, as far as Cluster API would have brought them.
    pub async fn cluster(&self, name: &str, spec: Value) {
        self.cluster_with(name, spec, json!({})).await;
    }

    /// The same, with annotations from the first moment.
    pub async fn cluster_with(&self, name: &str, spec: Value, annotations: Value) {
        let cluster = self
            .create(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": name},
                "spec": {
                    "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VCOCluster",
                        "name": name,
                    },
                    "controlPlaneRef": {
                        "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane",
                        "name": name,
                    },
                },
            }))
            .await;
        let mut whole = json!({"location": AT, "credentialSecretRef": {"name": "credentials"}});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        self.create(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOCluster",
            "metadata": {
                "name": name,
                "annotations": annotations,
                "labels": {"cluster.x-k8s.io/cluster-name": name},
                "ownerReferences": [owner(&cluster)],
            },
            "spec": whole,
        }))
        .await;
    }

    /// Waits for the network, and tells the Cluster of it.
    pub async fn provisioned(&self, name: &str) -> Value {
        let cluster = self.until("VCOCluster", name, is_provisioned).await;
        let done = json!({"initialization": {"infrastructureProvisioned": true}});
        self.patch_status("Cluster", name, done).await;
        cluster
    }

    /// A Machine with its `VCOMachine` and bootstrap data.
    pub async fn machine(&self, cluster: &str, name: &str, control_plane: bool, spec: Value) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": name},
            "stringData": {"value": CLOUD_CONFIG, "format": "cloud-config"},
        }))
        .await;
        let mut labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        if control_plane {
            labels["cluster.x-k8s.io/control-plane"] = json!("");
        }
        let machine = self
            .create(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": name, "labels": labels},
                "spec": {
                    "clusterName": cluster,
                    "version": "v1.36.3",
                    "bootstrap": {"dataSecretName": name},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VCOMachine",
                        "name": name,
                    },
                },
            }))
            .await;
        let mut whole = json!({"imageId": IMAGE, "vcpus": 2, "memoryMiB": 2048, "bootDiskGiB": 20});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        whole.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.create(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachine",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner(&machine)]},
            "spec": whole,
        }))
        .await;
    }

    /// Everything goes as Cluster API has it go: machines, then the network. Afterwards the cloud
    /// holds what it held before.
    pub async fn all_gone(&self, cluster: &str, machines: &[&str]) {
        for name in machines {
            self.delete("VCOMachine", name).await;
        }
        for name in machines {
            self.until_gone("VCOMachine", name).await;
        }
        self.delete("VCOCluster", cluster).await;
        self.until_gone("VCOCluster", cluster).await;
        self.all_as_before();
    }

    /// The cloud holds what it held before.
    pub fn all_as_before(&self) {
        assert_eq!(self.sim.world(|world| world.inventory()), self.before);
    }

    /// How often an operation was called.
    pub fn calls(&self, operation: &str) -> usize {
        let journal = self.sim.journal();
        journal.iter().filter(|one| one.operation == operation).count()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<_> = said.lines().collect();
            let _ = writeln!(
                std::io::stderr(),
                "the manager said last:\n{}",
                lines[lines.len().saturating_sub(60)..].join("\n")
            );
        }
    }
}

fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

/// Whether infrastructure is there.
pub fn is_provisioned(object: &Value) -> bool {
    object["status"]["initialization"]["provisioned"] == true
}

/// A condition of an object: status and reason.
pub fn condition<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let all = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = all.iter().find(|one| one["type"] == kind);
    let text = |key: &str| found.and_then(|one| one[key].as_str()).unwrap_or_default();
    (text("status"), text("reason"))
}
