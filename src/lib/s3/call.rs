//! The room's one retry: a call, sent again as `retry` decides.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::client::customize::CustomizableOperation;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use super::client::Bucket;
use super::error::Error;
use super::judge;
use super::retry::{self, Next, Situation};
use super::wire::{Achieved, Attempt, LIST, Reply, SMALL};

/// What is done, to what, and how patiently.
#[derive(Debug, Clone)]
pub struct Call {
    operation: &'static str,
    target: String,
    /// How much longer than other calls the store may take for it.
    factor: u32,
    most_tries: u32,
    reply: Reply,
}

impl Call {
    /// `operation` in words, such as `store the object`; `target` such as `s3://b/k`.
    pub fn new(operation: &'static str, target: impl Into<String>) -> Self {
        let most_tries = retry::MOST_TRIES;
        Self { operation, target: target.into(), factor: 1, most_tries, reply: SMALL }
    }

    /// The store may work on it for long without a word.
    pub fn slow(self) -> Self {
        Self { factor: 5, ..self }
    }

    /// Its reply is a page of a list.
    pub fn list(self) -> Self {
        Self { reply: LIST, ..self }
    }

    /// Its reply is an object's bytes.
    pub fn stream(self) -> Self {
        Self { reply: Reply::Stream, ..self }
    }

    /// Worth no more than `tries` tries.
    pub fn tries(self, tries: u32) -> Self {
        Self { most_tries: tries, ..self }
    }

    /// An error of this call that the store has nothing to do with.
    pub fn error(&self, kind: super::error::Kind) -> Error {
        Error::new(self.operation, self.target.clone(), kind)
    }
}

/// Makes the try known to the wire.
pub fn of<T, E, B>(
    operation: CustomizableOperation<T, E, B>,
    attempt: Arc<Attempt>,
) -> CustomizableOperation<T, E, B> {
    operation.mutate_request(move |request| request.add_extension(attempt.clone()))
}

impl Bucket {
    /// Sends a call, again where that may help.
    pub(super) async fn run<T, E, F, S>(&self, call: &Call, send: F) -> Result<T, Error>
    where
        F: Fn(Arc<Attempt>) -> S,
        S: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        self.run_counted(call, send).await.map(|(done, _)| done)
    }

    /// The same, with the tries that it took.
    pub(super) async fn run_counted<T, E, F, S>(
        &self,
        call: &Call,
        send: F,
    ) -> Result<(T, u32), Error>
    where
        F: Fn(Arc<Attempt>) -> S,
        S: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let clock = self.clock();
        let (start, budget) = (clock.elapsed(), self.stall_timeout() * call.factor);
        let achieved = Arc::new(Achieved::new(clock.clone()));
        let (mut tries, mut doubtful) = (1, false);
        loop {
            let began = clock.elapsed();
            // Half of it, so that a connection that died silently is replaced in time.
            let attempt = Attempt::new(budget / 2, call.reply, achieved.clone());
            let trouble = match send(attempt).await {
                Ok(done) => {
                    tracing::debug!(
                        operation = call.operation,
                        target = call.target,
                        ms = clock.elapsed().saturating_sub(began).as_millis(),
                        "s3"
                    );
                    return Ok((done, tries));
                }
                Err(error) => judge::read(&error, clock.unix()),
            };
            doubtful |= trouble.is_doubtful();
            let next = if tries >= call.most_tries {
                Next::GiveUp
            } else {
                retry::decide(Situation {
                    failure: trouble.failure,
                    tries,
                    idle: achieved.idle(),
                    budget,
                    retry_after: trouble.retry_after,
                    jitter: jitter(),
                })
            };
            tracing::debug!(
                operation = call.operation, target = call.target, tries, ?next,
                kind = ?trouble.kind, message = trouble.message, "s3 failed"
            );
            let Next::Retry(wait) = next else {
                let spent = clock.elapsed().saturating_sub(start);
                let error = trouble.error(call.operation, &call.target);
                return Err(error.after(tries, spent).doubtful(doubtful));
            };
            clock.sleep(wait).await;
            tries += 1;
        }
    }
}

fn jitter() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

/// A pause between looks at something that takes its time.
pub const LOOK_AGAIN: Duration = Duration::from_millis(500);
