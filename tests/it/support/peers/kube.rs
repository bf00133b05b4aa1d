//! Kubernetes' own API server on an etcd of its own, and its controllers if they are wanted.
//!
//! There is no kubelet, no scheduler and no container: objects, admission, garbage collection and
//! the deletion of namespaces are real, pods never run.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capvco::release;
use futures_util::future::join_all;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::program::Done;
use super::etcd::Etcd;
use super::tls::Tls;
use super::{Peer, capi, clean, leash, port, run, tool};

const POLICY: &str = "audit-policy.json";
const AUDIT: &str = "audit.log";

/// A management cluster without machines.
#[derive(Debug)]
pub struct KubePlane {
    // In this order they end: who is served goes before who serves.
    controllers: Option<Peer>,
    api: Peer,
    etcd: Etcd,
    tls: Tls,
    port: u16,
    folder: TempDir,
}

impl KubePlane {
    /// Starts one that nobody else has, empty but for what Kubernetes itself brings.
    #[track_caller]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tls = Tls::with_user("admin", "system:masters");
        let etcd = Etcd::start();
        let port = port();
        let key = rcgen::KeyPair::generate().unwrap();
        secret(&folder.path().join("sa.key"), &key.serialize_pem());
        secret(&folder.path().join("sa.pub"), &key.public_key_pem());
        secret(&folder.path().join(POLICY), &policy().to_string());
        let args = flags(folder.path(), &tls, &etcd, port);
        let mut api = Peer::new("kube-apiserver", folder.path(), args);
        api.spawn();
        let mut plane = Self { controllers: None, api, etcd, tls, port, folder };
        secret(&plane.kubeconfig(), &plane.access().to_string());
        plane.wait();
        plane
    }

    /// Lets the garbage collector and the controllers of namespaces and service accounts run.
    /// Without them nothing that is owned goes with its owner, and no namespace ends.
    #[track_caller]
    pub fn with_controller_manager(mut self) -> Self {
        let wanted = "garbage-collector-controller,namespace-controller,serviceaccount-controller";
        let args = vec![
            format!("--kubeconfig={}", self.kubeconfig().display()),
            format!("--controllers={wanted}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let mut controllers = Peer::new("kube-controller-manager", self.folder.path(), args);
        controllers.spawn();
        // It serves nothing that could be asked; what it makes is the sign that it works.
        let account = ["get", "serviceaccount", "default", "--namespace=default"];
        controllers.wait(|| self.kubectl(&account).code == 0);
        self.controllers = Some(controllers);
        self
    }

    /// One for the whole run, with the CRDs of Cluster API (no webhooks, no managers) and all that
    /// ours has for admission. Whoever uses it stays in a [namespace](Self::namespace) of its own.
    #[track_caller]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<KubePlane> = OnceLock::new();
        SHARED.get_or_init(|| {
            let plane = Self::start();
            plane.leave();
            plane.put(&capi::definitions());
            plane.put(&release::definitions());
            plane.put(&release::policies());
            plane
        })
    }

    /// Its folders go with the run: for one that is never dropped.
    pub fn leave(&self) {
        for folder in [self.folder.path(), self.tls.folder(), self.etcd.folder()] {
            leash::clear(folder);
        }
    }

    /// Where it is: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A file with all that an administrator needs, for nobody else to read.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Its authority, and the certificates that it signed.
    pub fn tls(&self) -> &Tls {
        &self.tls
    }

    /// The end of the API server's log.
    pub fn log(&self) -> String {
        self.api.log()
    }

    /// Whatever was written so far, or was to be, in the order in which it was answered: the API
    /// server's own record, with `verb`, `userAgent`, `objectRef` and more.
    pub fn writes(&self) -> Vec<Value> {
        let said = std::fs::read_to_string(self.folder.path().join(AUDIT)).unwrap_or_default();
        // The last line may not be whole yet.
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The processes by name, with their ids.
    pub fn processes(&self) -> Vec<(&'static str, u32)> {
        let controllers = self.controllers.as_ref().and_then(Peer::id);
        let named = [
            ("kube-apiserver", self.api.id()),
            ("etcd", self.etcd.id()),
            ("kube-controller-manager", controllers),
        ];
        named.into_iter().filter_map(|(name, id)| Some((name, id?))).collect()
    }

    /// An administrator's client. It belongs to the runtime of the test that asks for it.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).expect("the configuration is ours")
    }

    /// The same yet to be changed: a user to impersonate, time limits.
    pub fn config(&self) -> Config {
        let authority = BASE64_STANDARD.decode(body_of(&self.tls.pem("ca.crt"))).unwrap();
        let mut config = Config::new(self.url().parse().expect("it is a URL"));
        config.root_cert = Some(vec![authority]);
        config.auth_info.client_certificate = Some(self.tls.arg("client.crt"));
        config.auth_info.client_key = Some(self.tls.arg("client.key"));
        config
    }

    /// Runs `kubectl` against it as its administrator.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> Done {
        let mut command = clean(tool("kubectl"));
        command.env("HOME", self.folder.path()).env("KUBECONFIG", self.kubeconfig());
        run(command.args(args))
    }

    /// Makes a namespace that nobody has, and gives its name.
    #[track_caller]
    pub fn namespace(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{number}-{:04x}", std::process::id() & 0xffff);
        self.put(&[json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        })]);
        name
    }

    /// Makes objects, or merges them into those that are there; CRDs are served after that.
    /// All at once, so that none may need another.
    #[track_caller]
    pub fn put(&self, objects: &[Value]) {
        self.ask(async |client| {
            join_all(objects.iter().map(|object| put(&client, object))).await;
        });
    }

    /// Runs something with a client, in place; the test may be within a runtime or not.
    #[track_caller]
    pub fn ask<T: Send>(&self, work: impl AsyncFnOnce(Client) -> T + Send) -> T {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(async { work(self.client()).await })
            });
            asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    #[track_caller]
    fn wait(&mut self) {
        let (config, api) = (self.config(), &mut self.api);
        std::thread::scope(|scope| {
            let waited = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.unwrap();
                let client = runtime.block_on(async { Client::try_from(config) }).unwrap();
                let ready = async || {
                    let asked = axum::http::Request::get("/readyz").body(Vec::new()).unwrap();
                    let asked = client.request_text(asked);
                    let answered = tokio::time::timeout(Duration::from_secs(2), asked).await;
                    matches!(answered, Ok(Ok(said)) if said == "ok")
                };
                api.wait(|| runtime.block_on(ready()));
            });
            waited.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    fn access(&self) -> Value {
        let data = |name: &str| BASE64_STANDARD.encode(self.tls.pem(name));
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url(), "certificate-authority-data": data("ca.crt"),
            }}],
            "users": [{"name": "admin", "user": {
                "client-certificate-data": data("client.crt"),
                "client-key-data": data("client.key"),
            }}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        })
    }
}

/// What is to be recorded: all that would change something.
fn policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}],
    })
}

fn flags(folder: &Path, tls: &Tls, etcd: &Etcd, port: u16) -> Vec<String> {
    let account = folder.join("sa").display().to_string();
    vec![
        format!("--etcd-servers={}", etcd.endpoint()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", folder.display()),
        format!("--tls-cert-file={}", tls.arg("server.crt")),
        format!("--tls-private-key-file={}", tls.arg("server.key")),
        format!("--client-ca-file={}", tls.arg("ca.crt")),
        format!("--service-account-key-file={account}.pub"),
        format!("--service-account-signing-key-file={account}.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        // No controller makes the account that each pod would be given.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        // It would not take a loopback address for an endpoint.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--audit-policy-file={}", folder.join(POLICY).display()),
        format!("--audit-log-path={}", folder.join(AUDIT).display()),
    ]
}

fn secret(path: &Path, text: &str) {
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).unwrap();
}

/// What lies between the lines of a PEM file with one block.
fn body_of(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with("-----")).collect()
}

async fn put(client: &Client, object: &Value) {
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("it is an object");
    let of_type = object.types.clone().expect("it has a kind");
    let name = object.metadata.name.clone().expect("it has a name");
    let resource = ApiResource::from_gvk(&(&of_type).try_into().expect("its version is one"));
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let merged = api.patch(&name, &PatchParams::default(), &Patch::Merge(&object)).await;
            merged.unwrap_or_else(|e| panic!("{} {name}: {e}", of_type.kind));
        }
        made => drop(made.unwrap_or_else(|e| panic!("{} {name}: {e}", of_type.kind))),
    }
    if of_type.kind == "CustomResourceDefinition" {
        served(client, &object.data["spec"]).await;
    }
}

/// Waits until the kind that a CRD describes can be asked for.
async fn served(client: &Client, spec: &Value) {
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let versions = spec["versions"].as_array().expect("it has versions");
    let stored = versions.iter().find(|version| version["storage"] == true);
    let version = text(&stored.expect("one is stored")["name"]);
    let path = format!("/apis/{group}/{version}/{plural}?limit=1");
    for _ in 0..600 {
        let asked = axum::http::Request::get(&path).body(Vec::new()).unwrap();
        // What is served may be discovered a little later only, and managers end without it.
        if client.request_text(asked).await.is_ok() && discovered(client, group, plural).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{plural}.{group} is not served after half a minute");
}

/// Whether a kind is among those that the API server tells of in one list.
async fn discovered(client: &Client, group: &str, plural: &str) -> bool {
    let list = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let asked = axum::http::Request::get("/apis").header("Accept", list).body(Vec::new());
    let Ok(told) = client.request::<Value>(asked.unwrap()).await else { return false };
    let groups = told["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = groups.iter().filter(|one| one["metadata"]["name"] == group);
    let versions = ours.flat_map(|one| one["versions"].as_array().into_iter().flatten());
    let mut kinds = versions.flat_map(|one| one["resources"].as_array().into_iter().flatten());
    kinds.any(|kind| kind["resource"] == plural)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("it is text")
}
