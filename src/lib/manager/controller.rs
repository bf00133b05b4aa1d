//! A kind's work: take an object, pass over it, see when it is due again.
//!
//! A location takes few calls at a time, and a pass may wait long for its turn. So each location
//! is a lane with so many passes at once, and nobody waits for another location's turn.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::backoff;
use super::context::Context;
use super::error::Error;
use super::queue::{Key, Queue};
use super::step::Step;
use crate::fault::{Fault as _, chain};

/// So many steps of one object are done in a row. Who has begun is finished before others begin: a
/// thousand that all take their first step first would keep the cloud waiting for the second one.
const IN_A_ROW: usize = 16;

/// What is done for one kind.
pub trait Controller: Send + Sync + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;

    /// Its queue.
    fn queue(context: &Context) -> &Queue;

    /// The location whose calls an object's pass waits for; objects that name none share a lane.
    fn lane(_: &Context, _: &Key) -> String {
        String::new()
    }

    /// One look at an object, and one step at most.
    fn pass(context: &Arc<Context>, key: &Key) -> impl Future<Output = Result<Step, Error>> + Send;
}

/// Works on a kind until `stop`; what has begun by then is finished.
pub async fn work<C: Controller>(context: Arc<Context>, stop: CancellationToken) {
    let failures = Failures::default();
    let mut lanes = Lanes::new(context.request.concurrency);
    let mut under_way = FuturesUnordered::new();
    let begin = |lane: String, key: Key| {
        let (context, failures, stop) = (&context, &failures, &stop);
        async move {
            context.metrics.waited(C::NAME, C::queue(context).begin(&key));
            for done in 1.. {
                let goes_on = done < IN_A_ROW && !stop.is_cancelled();
                if !one::<C>(context, &key, failures, goes_on).await {
                    break;
                }
                // What was heard meanwhile is part of the next step.
                C::queue(context).begin(&key);
            }
            lane
        }
    };
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(lane) = under_way.next() => lanes.leave(lane),
            key = C::queue(&context).take() => lanes.enter(C::lane(&context, &key), key),
        };
        let queue = C::queue(&context);
        context.metrics.queue(C::NAME, queue.depth() + lanes.waiting(), queue.arrivals());
        if let Some((lane, key)) = next {
            under_way.push(begin(lane, key));
        }
    }
    while under_way.next().await.is_some() {}
}

/// Who is at work in each lane, and who waits there.
#[derive(Debug)]
struct Lanes {
    at_once: usize,
    lanes: HashMap<String, Lane>,
}

#[derive(Debug, Default)]
struct Lane {
    busy: usize,
    waiting: VecDeque<Key>,
}

impl Lanes {
    fn new(at_once: usize) -> Self {
        Self { at_once: at_once.max(1), lanes: HashMap::new() }
    }

    /// Somebody comes: he begins, or waits for his turn.
    fn enter(&mut self, name: String, key: Key) -> Option<(String, Key)> {
        let lane = self.lanes.entry(name.clone()).or_default();
        if lane.busy >= self.at_once {
            lane.waiting.push_back(key);
            return None;
        }
        lane.busy += 1;
        Some((name, key))
    }

    /// Somebody has ended: who begins in his place.
    fn leave(&mut self, name: String) -> Option<(String, Key)> {
        let lane = self.lanes.get_mut(&name)?;
        if let Some(key) = lane.waiting.pop_front() {
            return Some((name, key));
        }
        lane.busy -= 1;
        if lane.busy == 0 {
            self.lanes.remove(&name);
        }
        None
    }

    fn waiting(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).sum()
    }
}

/// How often each object has failed in a row, and until when its pause lasts. Changes of an object
/// have it tried during the pause too: such tries do not make the pause longer.
#[derive(Default)]
struct Failures {
    counts: Mutex<HashMap<Key, (u32, Duration)>>,
}

impl Failures {
    /// It has failed now; how often that makes in a row, and how long it pauses.
    fn failed(
        &self,
        key: &Key,
        now: Duration,
        pause: impl FnOnce(u32) -> Duration,
    ) -> (u32, Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, until) = counts.entry(key.clone()).or_default();
        if *count == 0 || now >= *until {
            *count = count.saturating_add(1);
        }
        let wait = pause(*count);
        *until = now.saturating_add(wait);
        (*count, wait)
    }

    fn passed(&self, key: &Key) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// A step of an object; whether the next one is to follow, for which it is kept only if it `goes_on`.
async fn one<C: Controller>(
    context: &Arc<Context>,
    key: &Key,
    failures: &Failures,
    goes_on: bool,
) -> bool {
    let queue = C::queue(context);
    let span = tracing::info_span!("pass", kind = C::NAME, object = %key);
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
    let again = goes_on && matches!(outcome, Ok(Step::Changed));
    if !again {
        queue.done(key);
    }
    let _entered = span.enter();
    match outcome {
        Ok(step) => {
            tracing::debug!(?step, "done");
            failures.passed(key);
            match step {
                Step::Changed if again => {}
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
            context.metrics.retries(C::NAME);
            let pause = |count| backoff::pause(error.class(), count, error.retry_after(), sample());
            let (count, wait) = failures.failed(key, context.clock.elapsed(), pause);
            tracing::warn!(
                error = chain(&error),
                failures = count,
                wait_s = wait.as_secs(),
                "failed"
            );
            queue.add_after(key.clone(), wait);
        }
    }
    again
}

/// A sample from 0 to 1; half where the machine gives no randomness.
pub fn sample() -> f64 {
    getrandom::u32().map_or(0.5, |sample| f64::from(sample) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("n", name)
    }

    #[test]
    fn tries_within_a_pause_do_not_make_it_longer() {
        let failures = Failures::default();
        let secs = Duration::from_secs;
        let fails = |now| failures.failed(&key("a"), secs(now), |count| secs(10) * count);
        assert_eq!(fails(0), (1, secs(10)));
        assert_eq!(fails(3), (1, secs(10)));
        assert_eq!(fails(13), (2, secs(20)));
        failures.passed(&key("a"));
        assert_eq!(fails(14), (1, secs(10)));
    }

    #[test]
    fn nobody_waits_for_another_lanes_turn() {
        let mut lanes = Lanes::new(2);
        let begins = |next: Option<(String, Key)>| next.map(|(_, key)| key.name);
        for (lane, name, at_once) in
            [("a", "a1", true), ("a", "a2", true), ("a", "a3", false), ("a", "a4", false)]
        {
            let begun = begins(lanes.enter(lane.to_owned(), key(name)));
            assert_eq!(begun, at_once.then(|| name.to_owned()), "{name}");
        }
        assert_eq!(begins(lanes.enter("b".into(), key("b1"))).as_deref(), Some("b1"));
        assert_eq!(lanes.waiting(), 2);
        // Who has come first begins first.
        assert_eq!(begins(lanes.leave("b".into())), None);
        assert_eq!(begins(lanes.leave("a".into())).as_deref(), Some("a3"));
        assert_eq!(begins(lanes.enter("a".into(), key("a5"))), None);
        assert_eq!(begins(lanes.leave("a".into())).as_deref(), Some("a4"));
        assert_eq!(begins(lanes.leave("a".into())).as_deref(), Some("a5"));
        for _ in 0..2 {
            assert_eq!(begins(lanes.leave("a".into())), None);
        }
        assert!(lanes.lanes.is_empty(), "an empty lane is forgotten");
    }
}
