//! Requests to the API server, counted by what came of them.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{Request, Response};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

use super::metrics::Metrics;

/// Counts what passes through.
#[derive(Clone)]
pub struct Counting(pub Arc<Metrics>);

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, metrics: Arc::clone(&self.0) }
    }
}

/// What passes through here is counted.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (metrics, method) = (Arc::clone(&self.metrics), request.method().clone());
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            let status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.requested(method.as_str(), status);
            answer
        }
        .boxed()
    }
}
