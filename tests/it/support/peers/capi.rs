//! Cluster API's own managers as plain processes against a [`KubePlane`], and clusterctl with a
//! repository on this machine.
//!
//! What is installed is what a release installs; only where its webhooks are found differs: at a
//! port of this machine, where a release has a service in front of a pod.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capvco::yaml;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::program::Done;
use super::kube::KubePlane;
use super::{Peer, clean, get, leash, port, run, tool};

/// A manager with what it serves.
#[derive(Debug, Clone, Copy)]
struct Part {
    tool: &'static str,
    /// Its folder in the repository, which is also what clusterctl calls it.
    label: &'static str,
    /// Its manifest in that folder, before `-components.yaml`.
    manifest: &'static str,
    /// What clusterctl's configuration says of it.
    name: &'static str,
    kind: &'static str,
}

const PARTS: [Part; 3] = [
    Part {
        tool: "capi-core-manager",
        label: "cluster-api",
        manifest: "core",
        name: "cluster-api",
        kind: "CoreProvider",
    },
    Part {
        tool: "capi-bootstrap-manager",
        label: "bootstrap-kubeadm",
        manifest: "bootstrap",
        name: "kubeadm",
        kind: "BootstrapProvider",
    },
    Part {
        tool: "capi-control-plane-manager",
        label: "control-plane-kubeadm",
        manifest: "control-plane",
        name: "kubeadm",
        kind: "ControlPlaneProvider",
    },
];

impl Part {
    /// `…/cluster-api/v1.14.2/core-components.yaml`
    #[track_caller]
    fn components(self) -> PathBuf {
        // clusterctl takes the folder's name for the version, so no link may stand in between.
        let versions = tool("cluster-api").join(self.label).canonicalize().unwrap();
        let mut found = versions.read_dir().unwrap().map(|entry| entry.unwrap().path());
        let version = found.next().expect("scripts/test-tools laid one version out");
        version.join(format!("{}-components.yaml", self.manifest))
    }

    /// All that it installs.
    #[track_caller]
    fn objects(self) -> Vec<Value> {
        read(&self.components())
    }
}

/// The CRDs among `objects`, with what clusterctl adds when it installs them.
fn definitions_of(objects: &[Value]) -> Vec<Value> {
    let mut definitions = of_kind(objects, "CustomResourceDefinition");
    for definition in &mut definitions {
        definition["metadata"]["labels"]["clusterctl.cluster.x-k8s.io"] = json!("");
    }
    definitions
}

/// Those whose kind ends so.
fn of_kind(objects: &[Value], kind: &str) -> Vec<Value> {
    let is = |object: &&Value| object["kind"].as_str().is_some_and(|is| is.ends_with(kind));
    objects.iter().filter(is).cloned().collect()
}

/// The CRDs of all three without conversion: what is written as v1beta2 is read as v1beta2.
#[track_caller]
pub fn definitions() -> Vec<Value> {
    let objects: Vec<Value> = PARTS.into_iter().flat_map(Part::objects).collect();
    let mut definitions = definitions_of(&objects);
    for definition in &mut definitions {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    definitions
}

/// The three managers, with their webhooks, and with `ClusterTopology` on.
#[derive(Debug)]
pub struct Managers {
    /// Clusters, machines, their sets and health checks.
    pub core: Peer,
    /// Bootstrap data.
    pub bootstrap: Peer,
    /// Control planes.
    pub control_plane: Peer,
    folder: TempDir,
}

impl Managers {
    /// Their folder goes with the run: for managers that are never dropped.
    pub fn leave(&self) {
        leash::clear(self.folder.path());
    }

    /// Installs what they need, or leads what clusterctl has installed to them, and starts them;
    /// waits until they are ready and their webhooks answer.
    #[track_caller]
    pub fn start(plane: &KubePlane) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (theirs, ours) in [("tls.crt", "server.crt"), ("tls.key", "server.key")] {
            std::fs::copy(plane.tls().path(ours), folder.path().join(theirs)).unwrap();
        }
        let webhooks = PARTS.map(|_| port());
        let released = PARTS.map(Part::objects);
        let led = |of: &dyn Fn(&[Value]) -> Vec<Value>| {
            let each = released.iter().zip(webhooks);
            each.flat_map(|(all, port)| of(all).into_iter().map(move |one| lead(one, port, plane)))
                .collect::<Vec<Value>>()
        };
        plane.put(&led(&definitions_of));
        let mut running = PARTS.into_iter().zip(webhooks).map(|(part, webhook)| {
            let health = port();
            let args = flags(plane, folder.path(), webhook, health);
            let mut peer = Peer::new(part.tool, folder.path(), args);
            peer.spawn();
            (peer, health)
        });
        let mut running = [(); 3].map(|()| running.next().expect("there are three"));
        for (peer, health) in &mut running {
            // Which includes a look at its own webhooks.
            peer.wait(|| get(*health, "/readyz").is_some());
        }
        // Not before they answer: until then each write would be refused.
        plane.put(&led(&|objects| of_kind(objects, "WebhookConfiguration")));
        let [core, bootstrap, control_plane] = running.map(|(peer, _)| peer);
        Self { core, bootstrap, control_plane, folder }
    }
}

fn flags(plane: &KubePlane, folder: &Path, webhook: u16, health: u16) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", plane.kubeconfig().display()),
        "--leader-elect=false".to_owned(),
        format!("--webhook-cert-dir={}", folder.display()),
        format!("--webhook-port={webhook}"),
        format!("--diagnostics-address=127.0.0.1:{}", port()),
        "--insecure-diagnostics".to_owned(),
        format!("--health-addr=127.0.0.1:{health}"),
        "--feature-gates=ClusterTopology=true".to_owned(),
    ]
}

/// The object with each service in it replaced by a port of this machine.
fn lead(mut object: Value, port: u16, plane: &KubePlane) -> Value {
    let authority = BASE64_STANDARD.encode(plane.tls().pem("ca.crt"));
    let lead = |client: &mut Value| {
        let path = client["service"]["path"].as_str().expect("a release has services");
        let url = format!("https://127.0.0.1:{port}{path}");
        // null takes away what was there before, when it is merged.
        *client = json!({"service": null, "url": url, "caBundle": authority});
    };
    if let Some(hooks) = object["webhooks"].as_array_mut() {
        for hook in hooks {
            lead(&mut hook["clientConfig"]);
        }
    } else {
        lead(&mut object["spec"]["conversion"]["webhook"]["clientConfig"]);
    }
    object
}

/// clusterctl, with a repository that has the three managers and a provider of ours.
#[derive(Debug)]
pub struct Clusterctl {
    folder: TempDir,
    version: String,
}

impl Clusterctl {
    /// With the version `v0.1.0`, say, of our provider: the texts of its
    /// `infrastructure-components.yaml` and `metadata.yaml`.
    #[track_caller]
    pub fn new(version: &str, components: &str, metadata: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let new = Self { folder, version: version.to_owned() };
        std::fs::create_dir_all(new.release()).unwrap();
        new.add("infrastructure-components.yaml", components);
        new.add("metadata.yaml", metadata);
        let mut providers: Vec<Value> = PARTS
            .into_iter()
            .map(|part| json!({"name": part.name, "type": part.kind, "url": part.components()}))
            .collect();
        let ours = new.release().join("infrastructure-components.yaml");
        providers.push(json!({"name": "vco", "type": "InfrastructureProvider", "url": ours}));
        let config = json!({"providers": providers}).to_string();
        std::fs::write(new.folder.path().join("clusterctl.yaml"), config).unwrap();
        new
    }

    /// Adds a file to our release: `cluster-template.yaml`.
    pub fn add(&self, name: &str, text: &str) {
        std::fs::write(self.release().join(name), text).unwrap();
    }

    /// Gives a cluster the CRDs of cert-manager, which clusterctl would fetch where they are
    /// missing.
    #[track_caller]
    pub fn prepare(plane: &KubePlane) {
        let files = tool("cert-manager-crds").read_dir().unwrap();
        let objects: Vec<Value> = files.flat_map(|file| read(&file.unwrap().path())).collect();
        plane.put(&objects);
    }

    /// Runs it, with a cluster or without.
    #[track_caller]
    pub fn run(&self, args: &[&str], kubeconfig: Option<&Path>) -> Done {
        let mut command = clean(tool("clusterctl"));
        command.env("HOME", self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path());
        command.env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        // Where there is none it must not find that of who runs the tests.
        command.env("KUBECONFIG", kubeconfig.unwrap_or_else(|| Path::new("/dev/null")));
        command.arg("--config").arg(self.folder.path().join("clusterctl.yaml"));
        run(command.args(args))
    }

    fn release(&self) -> PathBuf {
        self.folder.path().join("infrastructure-vco").join(&self.version)
    }
}

#[track_caller]
fn read(path: &Path) -> Vec<Value> {
    let name = path.display().to_string();
    yaml::from_multiple(&std::fs::read_to_string(path).unwrap(), &name).unwrap()
}
