//! A kind's workers: take an object, pass over it, see when it is due again.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::backoff;
use super::context::Context;
use super::error::Error;
use super::queue::{Key, Queue};
use super::step::Step;
use crate::fault::{Fault as _, chain};

/// What is done for one kind.
pub trait Controller: Send + Sync + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;

    /// Its queue.
    fn queue(context: &Context) -> &Queue;

    /// One look at an object, and one step at most.
    fn pass(context: &Arc<Context>, key: &Key) -> impl Future<Output = Result<Step, Error>> + Send;
}

/// Works on a kind until `stop`; what has begun by then is finished.
pub async fn work<C: Controller>(context: Arc<Context>, stop: CancellationToken) {
    let failures = Failures::default();
    let workers = (0..context.request.concurrency.max(1)).map(|_| async {
        loop {
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                key = C::queue(&context).take() => key,
            };
            one::<C>(&context, &key, &failures).await;
        }
    });
    join_all(workers).await;
}

/// How often each object has failed in a row.
#[derive(Default)]
struct Failures {
    counts: Mutex<HashMap<Key, u32>>,
}

impl Failures {
    fn failed(&self, key: &Key) -> u32 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    fn passed(&self, key: &Key) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

async fn one<C: Controller>(context: &Arc<Context>, key: &Key, failures: &Failures) {
    let queue = C::queue(context);
    let span = tracing::info_span!("pass", kind = C::NAME, object = %key);
    context.metrics.depth(C::NAME, queue.depth());
    context.metrics.begun(C::NAME);
    let begun = context.clock.elapsed();
    // One object whose pass panics must not stop the others (contract, 11).
    let outcome = AssertUnwindSafe(C::pass(context, key)).catch_unwind().instrument(span.clone());
    let outcome = outcome.await.unwrap_or_else(|_| {
        context.metrics.panicked(C::NAME);
        Err(Error::Panicked(key.to_string()))
    });
    let took = context.clock.elapsed().saturating_sub(begun);
    context.metrics.ended(C::NAME, outcome.as_ref().ok().copied(), took);
    queue.done(key);
    let _entered = span.enter();
    match outcome {
        Ok(step) => {
            tracing::debug!(?step, "done");
            failures.passed(key);
            match step {
                Step::Changed => queue.add(key.clone()),
                Step::After(time) => queue.add_after(key.clone(), backoff::spread(time, sample())),
                Step::Settled | Step::Waits => {
                    let time = backoff::spread(context.request.sync_period, sample());
                    queue.add_after(key.clone(), time);
                }
                Step::Over => {}
            }
        }
        Err(error) => {
            let count = failures.failed(key);
            let wait = backoff::pause(error.class(), count, error.retry_after(), sample());
            tracing::warn!(
                error = chain(&error),
                failures = count,
                wait_s = wait.as_secs(),
                "failed"
            );
            queue.add_after(key.clone(), wait);
        }
    }
}

/// A sample from 0 to 1; half where the machine gives no randomness.
pub fn sample() -> f64 {
    getrandom::u32().map_or(0.5, |sample| f64::from(sample) / f64::from(u32::MAX))
}
