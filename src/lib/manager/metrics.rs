//! What can be measured of the manager, under the names that controller-runtime's users know, and
//! ours beside them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::step::Step;
use crate::vco::{Outcome, Watch};

/// Which controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Of {
    /// The controller's name.
    pub controller: &'static str,
}

/// Which controller and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    controller: &'static str,
    result: &'static str,
}

/// Which queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Named {
    name: &'static str,
}

/// Which request to the API server and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    code: String,
    method: String,
}

/// Which call and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    operation: &'static str,
    status: String,
}

/// Which call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

/// Whose credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Whose {
    namespace: String,
    name: String,
}

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    passes: Family<Ended, Counter>,
    errors: Family<Of, Counter>,
    panics: Family<Of, Counter>,
    times: Family<Of, Histogram>,
    active: Family<Of, Gauge>,
    depth: Family<Named, Gauge>,
    adds: Family<Named, Counter>,
    waiting: Family<Named, Histogram>,
    working: Family<Named, Histogram>,
    retries: Family<Named, Counter>,
    api_requests: Family<Request, Counter>,
    leader: Gauge,
    requests: Family<Call, Counter>,
    durations: Family<Operation, Histogram>,
    waits: Family<Operation, Histogram>,
    created: Counter,
    deleted: Counter,
    expiry: Family<Whose, Gauge<f64, std::sync::atomic::AtomicU64>>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.5, 12))
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::default(),
            passes: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            times: Family::new_with_constructor(seconds),
            active: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            waiting: Family::new_with_constructor(seconds),
            working: Family::new_with_constructor(seconds),
            retries: Family::default(),
            api_requests: Family::default(),
            leader: Gauge::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds),
            waits: Family::new_with_constructor(seconds),
            created: Counter::default(),
            deleted: Counter::default(),
            expiry: Family::default(),
        };
        metrics.register();
        Arc::new(metrics)
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        let runtime = registry.sub_registry_with_prefix("controller_runtime");
        runtime.register("reconcile", "Passes over objects by result", self.passes.clone());
        runtime.register("reconcile_errors", "Passes that failed", self.errors.clone());
        runtime.register("reconcile_panics", "Passes that panicked", self.panics.clone());
        runtime.register("reconcile_time_seconds", "How long a pass takes", self.times.clone());
        runtime.register("active_workers", "Passes at this moment", self.active.clone());
        let queue = registry.sub_registry_with_prefix("workqueue");
        queue.register("depth", "Objects that are due and wait", self.depth.clone());
        queue.register("adds", "Objects that were added", self.adds.clone());
        queue.register(
            "queue_duration_seconds",
            "How long an object that is due waits",
            self.waiting.clone(),
        );
        queue.register(
            "work_duration_seconds",
            "How long an object is worked on",
            self.working.clone(),
        );
        queue.register(
            "retries",
            "Objects that come again because a pass failed",
            self.retries.clone(),
        );
        registry.register(
            "rest_client_requests",
            "Requests to the API server by outcome",
            self.api_requests.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "Whether this manager holds the lease",
            self.leader.clone(),
        );
        let ours = registry.sub_registry_with_prefix("capvco");
        ours.register("vco_requests", "Calls to the cloud by outcome", self.requests.clone());
        ours.register(
            "vco_request_duration_seconds",
            "How long a call to the cloud takes",
            self.durations.clone(),
        );
        ours.register(
            "vco_limiter_wait_seconds",
            "How long a call to the cloud waited for our own limit",
            self.waits.clone(),
        );
        ours.register("machines_created", "VMs made", self.created.clone());
        ours.register("machines_deleted", "VMs deleted", self.deleted.clone());
        ours.register(
            "credential_expiry_timestamp_seconds",
            "When a token expires, in seconds since 1970",
            self.expiry.clone(),
        );
    }

    /// A pass has begun.
    pub fn begun(&self, controller: &'static str) {
        self.active.get_or_create(&Of { controller }).inc();
    }

    /// A pass has ended with this step, or failed.
    pub fn ended(&self, controller: &'static str, step: Option<Step>, took: Duration) {
        let result = step.map_or("error", Step::result);
        self.passes.get_or_create(&Ended { controller, result }).inc();
        if step.is_none() {
            self.errors.get_or_create(&Of { controller }).inc();
        }
        self.times.get_or_create(&Of { controller }).observe(took.as_secs_f64());
        self.working.get_or_create(&Named { name: controller }).observe(took.as_secs_f64());
        self.active.get_or_create(&Of { controller }).dec();
    }

    /// A pass has panicked.
    pub fn panicked(&self, controller: &'static str) {
        self.panics.get_or_create(&Of { controller }).inc();
    }

    /// How many objects wait, and how many were ever added.
    pub fn queue(&self, name: &'static str, depth: usize, arrivals: u64) {
        self.depth.get_or_create(&Named { name }).set(i64::try_from(depth).unwrap_or(i64::MAX));
        let adds = self.adds.get_or_create(&Named { name });
        adds.inc_by(arrivals.saturating_sub(adds.get()));
    }

    /// An object has waited so long since it was due.
    pub fn waited(&self, name: &'static str, waited: Duration) {
        self.waiting.get_or_create(&Named { name }).observe(waited.as_secs_f64());
    }

    /// A pass has failed, and its object comes again.
    pub fn retries(&self, name: &'static str) {
        self.retries.get_or_create(&Named { name }).inc();
    }

    /// The API server answered a request with this status, or not at all.
    pub fn requested(&self, method: &str, status: Option<u16>) {
        // The word is client-go's.
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.to_string());
        self.api_requests.get_or_create(&Request { code, method: method.to_owned() }).inc();
    }

    /// Whether this manager holds the lease.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// A VM was made.
    pub fn made(&self) {
        self.created.inc();
    }

    /// A VM was deleted.
    pub fn deleted(&self) {
        self.deleted.inc();
    }

    /// When a cluster's token expires, in seconds since 1970.
    pub fn expires(&self, namespace: &str, name: &str, at: f64) {
        let whose = Whose { namespace: namespace.to_owned(), name: name.to_owned() };
        self.expiry.get_or_create(&whose).set(at);
    }

    /// A Secret with a token is gone.
    pub fn no_longer_expires(&self, namespace: &str, name: &str) {
        let whose = Whose { namespace: namespace.to_owned(), name: name.to_owned() };
        self.expiry.remove(&whose);
    }

    /// All of it in the text form of `OpenMetrics`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            let _ = writeln!(text, "# EOF");
        }
        text
    }
}

/// What is served once everything was counted once: for the reference.
#[must_use]
pub fn sample() -> String {
    let metrics = Metrics::new();
    metrics.begun("vcomachine");
    metrics.ended("vcomachine", None, Duration::ZERO);
    metrics.panicked("vcomachine");
    metrics.queue("vcomachine", 0, 1);
    metrics.waited("vcomachine", Duration::ZERO);
    metrics.retries("vcomachine");
    metrics.requested("GET", Some(200));
    metrics.called("create the VM", Outcome::Status(200), Duration::ZERO, Duration::ZERO);
    metrics.expires("namespace", "name", 0.0);
    metrics.text()
}

impl Watch for Metrics {
    fn called(&self, operation: &'static str, outcome: Outcome, took: Duration, waited: Duration) {
        self.requests.get_or_create(&Call { operation, status: outcome.to_string() }).inc();
        self.durations.get_or_create(&Operation { operation }).observe(took.as_secs_f64());
        self.waits.get_or_create(&Operation { operation }).observe(waited.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_that_users_know() {
        let metrics = Metrics::new();
        metrics.begun("vcomachine");
        metrics.ended("vcomachine", Some(Step::Settled), Duration::from_millis(3));
        metrics.begun("vcomachine");
        metrics.ended("vcomachine", None, Duration::ZERO);
        metrics.queue("vcomachine", 3, 6);
        metrics.queue("vcomachine", 4, 9);
        metrics.waited("vcomachine", Duration::from_secs(1));
        metrics.retries("vcomachine");
        metrics.requested("PATCH", Some(409));
        metrics.requested("GET", None);
        metrics.called(
            "create the VM",
            Outcome::Status(503),
            Duration::from_secs(1),
            Duration::ZERO,
        );
        let text = metrics.text();
        for line in [
            r#"controller_runtime_reconcile_total{controller="vcomachine",result="success"} 1"#,
            r#"controller_runtime_reconcile_total{controller="vcomachine",result="error"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="vcomachine"} 1"#,
            r#"controller_runtime_active_workers{controller="vcomachine"} 0"#,
            r#"controller_runtime_reconcile_time_seconds_count{controller="vcomachine"} 2"#,
            r#"workqueue_depth{name="vcomachine"} 4"#,
            r#"workqueue_adds_total{name="vcomachine"} 9"#,
            r#"workqueue_queue_duration_seconds_count{name="vcomachine"} 1"#,
            r#"workqueue_work_duration_seconds_count{name="vcomachine"} 2"#,
            r#"workqueue_retries_total{name="vcomachine"} 1"#,
            r#"rest_client_requests_total{code="409",method="PATCH"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="GET"} 1"#,
            r#"capvco_vco_requests_total{operation="create the VM",status="503"} 1"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
