//! The manager: what Cluster API asks of an infrastructure provider, done.
//!
//! **May enter:** the ground, `vco`, `resolve`, `template`, `api`; `s3` and `snapshot` where the
//! newest backup is looked for. `kube::Client` only where
//! objects are read, written or watched. **To add a kind:** a folder with `observe`, `plan`,
//! `act`, `status`; a [`controller::Controller`]; a store and a watch here.
//!
//! **Invariants**
//! - A pass looks, decides, and changes one thing at most; then it comes back and looks again. So
//!   a manager may be killed between any two steps (contract, 10).
//! - Identity is in specs, annotations and marks in the cloud, never in a status alone.
//! - Trouble with the cloud never makes something look broken that runs.
//! - Nothing is written that is there already.
//! - Only the holder of the Lease works, and it stops before the Lease can be taken.

mod apply;
mod backoff;
mod cluster;
mod context;
mod controller;
mod counted;
mod denied;
mod door;
mod doubt;
mod error;
mod events;
mod http;
mod lease;
mod machine;
mod machine_template;
mod mark;
mod memory;
mod metrics;
mod queue;
mod request;
mod step;
mod survey;
mod tenant;
mod watch;
mod words;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::USER_AGENT;
use k8s_openapi::api::core::v1::Secret;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::limit::ConcurrencyLimitLayer;

pub use error::Error;
pub use http::Loudness;
pub use lease::Times;
pub use metrics::sample as sample_of_metrics;
pub use request::{Cloud, Diagnostics, Election, Request};

pub use crate::vco::RateLimit;

use cluster::Clusters;
use cluster::backup::Backups;
use context::{Context, Stores};
use controller::work;
use counted::Counting;
use door::Secure;
use http::Health;
use lease::Candidate;
use machine::Machines;
use machine_template::Templates;
use metrics::Metrics;
use queue::{Key, Queue};
use watch::{Heard, Known, follow, follow_names};

use crate::api::contract::{Cluster, Machine, label};
use crate::api::names::{CLUSTER_NAME_LABEL, WATCH_FILTER_LABEL};
use crate::api::{VCOCluster, VCOMachine, VCOMachineTemplate};
use crate::clock::Clock;

/// How long what has begun may take to end when the manager is told to stop; a pod is killed
/// after 10 s (contract, 9.5).
const GRACE: Duration = Duration::from_secs(8);

/// Who we are to the API server.
const WE: &str = concat!("capvco/", env!("CARGO_PKG_VERSION"));

/// Requests to the API server at once. Each is a connection with buffers and keys of its own, and
/// passes of many locations would open hundreds; the answers take milliseconds.
const REQUESTS: usize = 16;

/// A name for this instance that no other one has, in the Lease and in events.
#[must_use]
pub fn identity(host: Option<&str>) -> String {
    let number = getrandom::u32().unwrap_or_default();
    format!("{}_{number:08x}", host.unwrap_or("capvco"))
}

/// What fills the stores.
struct Writers {
    clusters: Writer<Cluster>,
    machines: Writer<Machine>,
    vco_clusters: Writer<VCOCluster>,
    vco_machines: Writer<VCOMachine>,
    templates: Writer<VCOMachineTemplate>,
}

/// Runs until it is told to stop.
///
/// # Errors
/// It cannot be set up, or the Lease was lost.
pub async fn run(
    request: Request,
    clock: Arc<dyn Clock>,
    logs: Arc<dyn Loudness>,
    stop: &CancellationToken,
) -> Result<(), Error> {
    request.cloud.check(&clock)?;
    let config = access(&request).await?;
    tracing::info!(server = %config.cluster_url, "the API server");
    let (health, metrics) = (Arc::new(Health::default()), Metrics::new());
    // Whoever holds the Lease does not wait in one line with those who work.
    let lease_client = client(config.clone(), 1, &metrics)?;
    let client = client(config, REQUESTS, &metrics)?;
    let mut servers = JoinSet::new();
    if let Some(address) = request.health {
        let routes = http::health(Arc::clone(&health));
        servers.spawn(http::serve(listen(address).await?, routes, stop.clone()));
    }
    if let Some(Diagnostics { address, insecure }) = request.diagnostics {
        let listener = listen(address).await?;
        let guard = (!insecure).then(|| client.clone());
        let routes = http::diagnostics(Arc::clone(&metrics), logs, guard);
        if insecure {
            servers.spawn(http::serve(listener, routes, stop.clone()));
        } else {
            let doing = "make a certificate for diagnostics".to_owned();
            let secure = Secure::new(listener, Arc::clone(&clock));
            let secure = secure.map_err(|source| Error::Setup { doing, source })?;
            servers.spawn(http::serve(secure, routes, stop.clone()));
        }
    }
    let election = request.election.clone();
    let identity = request.identity.clone();
    let (stores, writers) = stores();
    let (other, counted) = (Arc::clone(&clock), Arc::clone(&metrics));
    let context = Arc::new(Context::new(client, request, stores, other, counted));
    let mut watches = watches(&context, writers);
    let ready = async {
        context.clusters.ready().await;
        context.machines.ready().await;
        context.vco_clusters.ready().await;
        context.vco_machines.ready().await;
        context.templates.ready().await;
    };
    if stop.run_until_cancelled(ready).await.is_none() {
        return Ok(());
    }
    health.is_ready();
    tracing::info!("the caches are filled");
    let outcome = match election {
        None => lead(&context, stop, std::future::pending()).await,
        Some(Election { namespace, name, times }) => {
            let place = (namespace.as_str(), name.as_str());
            let mut candidate = Candidate::new(lease_client, place, identity, times, clock);
            if stop.run_until_cancelled(candidate.acquire()).await.is_none() {
                return Ok(());
            }
            tracing::info!(lease = candidate.name(), "leading");
            let outcome = lead(&context, stop, candidate.hold()).await;
            if outcome.is_ok() {
                candidate.release().await;
            }
            outcome
        }
    };
    watches.shutdown().await;
    servers.shutdown().await;
    outcome
}

/// Works until it is told to stop, or until the Lease is lost.
async fn lead(
    context: &Arc<Context>,
    stop: &CancellationToken,
    lost: impl Future<Output = Error>,
) -> Result<(), Error> {
    context.metrics.leads(true);
    context.begin();
    let mut workers = JoinSet::new();
    workers.spawn(work::<Clusters>(Arc::clone(context), stop.clone()));
    workers.spawn(work::<Backups>(Arc::clone(context), stop.clone()));
    workers.spawn(work::<Machines>(Arc::clone(context), stop.clone()));
    workers.spawn(work::<Templates>(Arc::clone(context), stop.clone()));
    let ended = async {
        stop.cancelled().await;
        let all = async { while workers.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = context.clock.sleep(GRACE) => {}
        }
    };
    let outcome = tokio::select! {
        () = ended => Ok(()),
        error = lost => Err(error),
    };
    // This ends what they are at, in the middle if need be: nobody works when the Lease is given up.
    workers.shutdown().await;
    context.metrics.leads(false);
    outcome
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let doing = || format!("listen on {address}");
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.map_err(|source| Error::Setup { doing: doing(), source: source.into() })?;
    tracing::info!(%address, "listening");
    Ok(listener)
}

fn setup<E>(doing: &str) -> impl FnOnce(E) -> Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let doing = doing.to_owned();
    move |source| Error::Setup { doing, source: source.into() }
}

/// Where the API server is, and who we are.
async fn access(request: &Request) -> Result<kube::Config, Error> {
    let mut config = match &request.kubeconfig {
        Some(path) => {
            let doing = format!("use the kubeconfig {}", path.display());
            let file = Kubeconfig::read_from(path).map_err(setup(&doing))?;
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(file, &options).await;
            config.map_err(setup(&doing))?
        }
        None => kube::Config::incluster()
            .map_err(setup("find the API server of the cluster that this runs in"))?,
    };
    // Audit logs and metrics of the API server then tell who it was.
    config.headers.push((USER_AGENT, HeaderValue::from_static(WE)));
    // A call to the API server has a deadline; watches have one of their own.
    config.read_timeout = Some(Duration::from_secs(295));
    config.connect_timeout = Some(Duration::from_secs(10));
    Ok(config)
}

/// A client with so many requests at once; a watch that has begun is none of them.
fn client(config: kube::Config, at_once: usize, metrics: &Arc<Metrics>) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config);
    let builder = builder.map_err(setup("make a client of the API server"))?;
    let limit = ConcurrencyLimitLayer::new(at_once);
    Ok(builder.with_layer(&limit).with_layer(&Counting(Arc::clone(metrics))).build())
}

fn stores() -> (Stores, Writers) {
    let (clusters, write_clusters) = Known::new();
    let (machines, write_machines) = Known::new();
    let (vco_clusters, write_vco_clusters) = Known::new();
    let (vco_machines, write_vco_machines) = Known::new();
    let (templates, write_templates) = Known::new();
    let writers = Writers {
        clusters: write_clusters,
        machines: write_machines,
        vco_clusters: write_vco_clusters,
        vco_machines: write_vco_machines,
        templates: write_templates,
    };
    (Stores { clusters, machines, vco_clusters, vco_machines, templates }, writers)
}

/// Follows every kind, and puts into the queues whom a change concerns.
fn watches(context: &Arc<Context>, writers: Writers) -> JoinSet<()> {
    let mut set = JoinSet::new();
    let mut config = watcher::Config::default();
    // Only what is worked on has to have the label. A Cluster or Machine without it is read all
    // the same: it may be paused, or be going.
    let (at, core) = (Arc::clone(context), config.clone());
    set.spawn(follow(at.all(), core.clone(), writers.clusters, {
        let at = Arc::clone(&at);
        move |cluster: &Cluster, _| cluster_changed(&at, cluster)
    }));
    set.spawn(follow(at.all(), core, writers.machines, {
        let at = Arc::clone(&at);
        move |machine: &Machine, _| machine_changed(&at, machine)
    }));
    if let Some(filter) = &context.request.watch_filter {
        config = config.labels(&format!("{WATCH_FILTER_LABEL}={filter}"));
    }
    let with = || (Arc::clone(context), config.clone());
    let (at, config) = with();
    set.spawn(follow(at.all(), config, writers.vco_clusters, {
        let at = Arc::clone(&at);
        move |cluster: &VCOCluster, heard| {
            let own = at.vco_clusters.is_own(cluster, heard);
            vco_cluster_changed(&at, cluster, own);
        }
    }));
    let (at, config) = with();
    set.spawn(follow(at.all(), config, writers.vco_machines, {
        let at = Arc::clone(&at);
        move |machine: &VCOMachine, heard| {
            let own = at.vco_machines.is_own(machine, heard);
            vco_machine_changed(&at, machine, own);
        }
    }));
    let (at, config) = with();
    set.spawn(follow(at.all(), config, writers.templates, {
        let at = Arc::clone(&at);
        move |template: &VCOMachineTemplate, _| add(&at.queues.templates, template)
    }));
    let at = Arc::clone(context);
    // Secrets are users' and bear no labels of ours.
    set.spawn(follow_names(at.all::<PartialObjectMeta<Secret>>(), watcher::Config::default(), {
        let at = Arc::clone(&at);
        move |secret, heard| {
            if let Some(key) = secret_key(secret) {
                let version = secret.metadata.resource_version.as_deref();
                secret_changed(&at, &key, version.filter(|_| heard != Heard::Gone));
            }
        }
    }));
    set
}

fn secret_key(secret: &PartialObjectMeta<Secret>) -> Option<Key> {
    let meta = &secret.metadata;
    Some(Key::new(meta.namespace.clone()?, meta.name.clone()?))
}

fn add<K: kube::Resource>(queue: &Queue, object: &K) {
    if let Some(key) = Key::of(object) {
        queue.add(key);
    }
}

/// Our part of a Cluster, and our machines of it: a pause, or that it may begin.
fn cluster_changed(context: &Context, cluster: &Cluster) {
    let namespace = cluster.metadata.namespace.clone().unwrap_or_default();
    if let Some(ours) = cluster.vco_cluster() {
        context.queues.clusters.add(Key::new(namespace.as_str(), ours));
    }
    if let Some(name) = &cluster.metadata.name {
        machines_of(context, &namespace, name);
    }
}

fn machines_of(context: &Context, namespace: &str, cluster: &str) {
    let of = |machine: &VCOMachine| {
        machine.metadata.namespace.as_deref() == Some(namespace)
            && label(&machine.metadata, CLUSTER_NAME_LABEL) == Some(cluster)
    };
    for machine in context.vco_machines.find(of) {
        add(&context.queues.machines, &*machine);
    }
}

/// Our part of a Machine; and the cluster, whose pool depends on the machine's health.
fn machine_changed(context: &Context, machine: &Machine) {
    let namespace = machine.metadata.namespace.clone().unwrap_or_default();
    if let Some(ours) = machine.vco_machine() {
        context.queues.machines.add(Key::new(namespace.as_str(), ours));
    }
    if let (true, Some(cluster)) = (machine.is_control_plane(), machine.cluster_name()) {
        network_of(context, &namespace, cluster);
    }
}

/// The network of the Cluster of this name.
fn network_of(context: &Context, namespace: &str, cluster: &str) {
    let found = context.clusters.get(&Key::new(namespace, cluster));
    if let Some(name) = found.as_deref().and_then(Cluster::vco_cluster) {
        context.queues.clusters.add(Key::new(namespace, name));
    }
}

/// The cluster itself, unless it is what we wrote of it, and its machines.
fn vco_cluster_changed(context: &Context, cluster: &VCOCluster, own: bool) {
    if !own {
        add(&context.queues.clusters, cluster);
        add(&context.queues.backups, cluster);
    }
    let namespace = cluster.namespace().unwrap_or_default();
    if let Some(name) = label(&cluster.metadata, CLUSTER_NAME_LABEL) {
        machines_of(context, &namespace, name);
    }
}

/// The machine itself, unless it is what we wrote of it, and its cluster: for the pool, and for a
/// deletion that waits for machines.
fn vco_machine_changed(context: &Context, machine: &VCOMachine, own: bool) {
    if !own {
        add(&context.queues.machines, machine);
    }
    let namespace = machine.namespace().unwrap_or_default();
    if let Some(cluster) = label(&machine.metadata, CLUSTER_NAME_LABEL) {
        network_of(context, &namespace, cluster);
    }
}

/// Who uses a Secret that has changed, or has no version any more and is gone, looks again.
fn secret_changed(context: &Context, secret: &Key, version: Option<&str>) {
    let here =
        |cluster: &VCOCluster| cluster.metadata.namespace.as_deref() == Some(&secret.namespace);
    let reads_backups = |cluster: &VCOCluster| {
        let named = cluster.spec.backup.as_ref().map(|backup| &backup.secret_ref.name);
        here(cluster) && named == Some(&secret.name)
    };
    for cluster in context.vco_clusters.find(reads_backups) {
        if let Some(uid) = cluster.uid() {
            context.cluster_facts.note(&uid, |facts| facts.backup = None);
        }
        add(&context.queues.backups, &*cluster);
    }
    let concerned = |cluster: &VCOCluster| {
        here(cluster) && cluster.spec.credential_secret_ref.name == secret.name
    };
    let users = context.vco_clusters.find(concerned);
    if users.is_empty() {
        return;
    }
    match version {
        Some(version) => context.tenants.changed(secret, version),
        None => context.tenants.gone(secret),
    }
    for cluster in users {
        if let Some(uid) = cluster.uid() {
            context.cluster_facts.note(&uid, |facts| {
                // It may be another Secret of the same name, which nobody holds.
                (facts.settled, facts.held) = (None, None);
            });
        }
        vco_cluster_changed(context, &cluster, false);
    }
}
