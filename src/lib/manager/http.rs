//! What the kubelet and Prometheus ask: `/healthz` and `/readyz`, `/metrics` and the log's level.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::serve::{IncomingStream, Listener};
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::door::{self, From};
use super::metrics::Metrics;

/// Whether the manager could work.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
}

impl Health {
    /// Everything that is there has been heard of once.
    pub fn is_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }
}

/// `/healthz` and `/readyz`.
pub fn health(state: Arc<Health>) -> Router {
    let ready = |State(health): State<Arc<Health>>| async move {
        if health.ready.load(Ordering::Relaxed) {
            (StatusCode::OK, "ok")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "the caches are not filled yet")
        }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(state)
}

/// How much is logged, and the way to change that.
pub trait Loudness: Send + Sync {
    /// The finest level that is logged.
    fn finest(&self) -> Level;

    /// Logs this level and coarser ones from now on.
    fn set_finest(&self, finest: Level);
}

/// `/metrics`, and the level of the logs. Where nobody guards them, only who comes from the same
/// machine (in a pod: through `kubectl port-forward` or `exec`, which the API server allows or not)
/// may change the level, because the finer ones cost time and show names and addresses.
pub fn diagnostics(
    metrics: Arc<Metrics>,
    logs: Arc<dyn Loudness>,
    guard: Option<Client>,
) -> Router {
    let guarded = guard.is_some();
    let show = |State(metrics): State<Arc<Metrics>>| async move {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        ([(header::CONTENT_TYPE, kind)], metrics.text())
    };
    let level = get(level).put(set_level).with_state((logs, guarded));
    let routes =
        Router::new().route("/metrics", get(show)).with_state(metrics).route("/log-level", level);
    match guard {
        Some(client) => routes.layer(from_fn_with_state(client, door::guard)),
        None => routes,
    }
}

/// The dial of the logs, and whether somebody guards it.
type Dial = (Arc<dyn Loudness>, bool);

async fn level(State((logs, _)): State<Dial>) -> String {
    format!("{}\n", logs.finest().as_str().to_ascii_lowercase())
}

async fn set_level(
    State((logs, guarded)): State<Dial>,
    ConnectInfo(From(from)): ConnectInfo<From>,
    wanted: String,
) -> (StatusCode, String) {
    if !guarded && !from.ip().to_canonical().is_loopback() {
        let why = "the level is changed from the machine itself: use kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, why.to_owned());
    }
    let Some(finest) = named(wanted.trim()) else {
        let why = "write one of error, warn, info, debug and trace\n";
        return (StatusCode::BAD_REQUEST, why.to_owned());
    };
    logs.set_finest(finest);
    tracing::warn!(finest = wanted.trim(), "the level of the logs was changed");
    (StatusCode::OK, format!("{}\n", wanted.trim()))
}

/// The level of this name.
fn named(text: &str) -> Option<Level> {
    Some(match text {
        "error" => Level::ERROR,
        "warn" => Level::WARN,
        "info" => Level::INFO,
        "debug" => Level::DEBUG,
        "trace" => Level::TRACE,
        _ => return None,
    })
}

/// Serves until it is stopped.
pub async fn serve<L>(listener: L, routes: Router, stop: CancellationToken)
where
    L: Listener<Addr = SocketAddr>,
    From: for<'a> Connected<IncomingStream<'a, L>>,
{
    let routes = routes.into_make_service_with_connect_info::<From>();
    tokio::select! {
        served = axum::serve(listener, routes).into_future() => {
            if let Err(error) = served {
                tracing::error!(%error, "the server of health and metrics stopped");
            }
        }
        () = stop.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Wheel(Mutex<Level>);

    impl Loudness for Wheel {
        fn finest(&self) -> Level {
            *self.0.lock().unwrap()
        }

        fn set_finest(&self, finest: Level) {
            *self.0.lock().unwrap() = finest;
        }
    }

    #[tokio::test]
    async fn the_level_is_changed_from_the_machine_itself_and_by_name() {
        for (from, guarded, wanted, status, level) in [
            ("127.0.0.1:9", false, "debug\n", StatusCode::OK, Level::DEBUG),
            ("[::1]:9", false, "trace", StatusCode::OK, Level::TRACE),
            ("[::ffff:127.0.0.1]:9", false, "error", StatusCode::OK, Level::ERROR),
            ("10.0.0.1:9", false, "debug", StatusCode::FORBIDDEN, Level::INFO),
            ("10.0.0.1:9", true, "debug", StatusCode::OK, Level::DEBUG),
            ("127.0.0.1:9", false, "loud", StatusCode::BAD_REQUEST, Level::INFO),
        ] {
            let dial = Arc::new(Wheel(Mutex::new(Level::INFO)));
            let state = State((Arc::clone(&dial) as Arc<dyn Loudness>, guarded));
            let from = ConnectInfo(From(from.parse().unwrap()));
            let (answer, _) = set_level(state, from, wanted.to_owned()).await;
            assert_eq!((answer, dial.finest()), (status, level), "{from:?} {wanted}");
        }
    }
}
