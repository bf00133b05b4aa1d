//! What the kubelet and Prometheus ask: `/healthz` and `/readyz`, `/metrics` and the log's level.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

/// `/metrics`.
pub fn diagnostics(metrics: Arc<Metrics>) -> Router {
    let show = |State(metrics): State<Arc<Metrics>>| async move {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        ([(header::CONTENT_TYPE, kind)], metrics.text())
    };
    Router::new().route("/metrics", get(show)).with_state(metrics)
}

/// Binds the address, so that a port that is taken is known before anything is started.
///
/// # Errors
/// The address cannot be had.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until it is stopped.
pub async fn serve(listener: TcpListener, routes: Router, stop: CancellationToken) {
    tokio::select! {
        served = axum::serve(listener, routes).into_future() => {
            if let Err(error) = served {
                tracing::error!(%error, "the server of health and metrics stopped");
            }
        }
        () = stop.cancelled() => {}
    }
}
