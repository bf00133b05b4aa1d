//! Locations that are looked at side by side, of which one may be silent.
//!
//! Wrong inputs are to be told before anything is sent, so all locations are waited for; but one
//! that hangs must not keep the others. Each look is a task of its own: what is still out when
//! nothing has come in for a while stays a promise, which the location's own lane waits for.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::clock::Clock;
use crate::fault::Class;
use crate::id::Location;
use crate::publish::error::Problem;

/// How long nothing may come in before those that are still out are left to their own lanes.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A look that is under way; it goes on whether or not anybody waits for it.
pub type Late<T> = Shared<BoxFuture<'static, Result<T, Problem>>>;

/// What is known of a location when the others are ready.
#[derive(Debug, Clone)]
pub enum Lane<T: Clone> {
    /// What was seen.
    Seen(T),
    /// Why it could not be looked at.
    Failed(Problem),
    /// It has not answered yet.
    Late(Late<T>),
}

/// Starts to look at a location.
pub fn start<T, F>(look: F) -> Late<T>
where
    T: Clone + Send + Sync + 'static,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let task = tokio::spawn(look);
    let bug =
        |error| Problem::new(Class::Bug, format!("a look at the location broke off: {error}"));
    task.map(move |done| done.unwrap_or_else(|error| Err(bug(error)))).boxed().shared()
}

/// Waits for all; where some are in and nothing more comes for `patience`, the rest is late.
/// Without `patience` everything is waited for.
pub async fn gather<T>(
    looks: Vec<(Location, Late<T>)>,
    clock: &dyn Clock,
    patience: Option<Duration>,
) -> Vec<(Location, Lane<T>)>
where
    T: Clone + Send + Sync + 'static,
{
    let mut coming: FuturesUnordered<_> = looks.iter().map(|(_, look)| look.clone()).collect();
    let mut some = false;
    while !coming.is_empty() {
        let Some(patience) = patience.filter(|_| some) else {
            some |= matches!(coming.next().await, Some(Ok(_)));
            continue;
        };
        tokio::select! {
            biased;
            _ = coming.next() => {}
            () = clock.sleep(patience) => break,
        }
    }
    let lane = |look: Late<T>| match look.peek() {
        Some(Ok(seen)) => Lane::Seen(seen.clone()),
        Some(Err(problem)) => Lane::Failed(problem.clone()),
        None => Lane::Late(look),
    };
    looks.into_iter().map(|(at, look)| (at, lane(look))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stepped;

    fn at(name: &str) -> Location {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn a_silent_location_is_late_and_the_others_go_on() {
        let clock = Stepped::at(0.0);
        let silent = std::future::pending();
        let looks = vec![
            (at("a"), start(async { Ok(1) })),
            (at("b"), start(silent)),
            (at("c"), start(async { Err(Problem::refused("no")) })),
        ];
        let gathering = tokio::spawn({
            let clock = clock.clone();
            async move { gather(looks, &*clock, Some(PATIENCE)).await }
        });
        while !gathering.is_finished() {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(1));
        }
        let lanes = gathering.await.unwrap();
        assert!(matches!(lanes[0], (_, Lane::Seen(1))));
        assert!(matches!(lanes[1], (_, Lane::Late(_))));
        assert!(matches!(lanes[2], (_, Lane::Failed(_))));
    }

    #[tokio::test]
    async fn while_nobody_has_answered_there_is_nothing_to_go_on_with() {
        let clock = Stepped::at(0.0);
        let slow = clock.sleep(Duration::from_mins(1)).map(|()| Ok(7));
        let looks = vec![(at("a"), start(slow))];
        let gathering = tokio::spawn({
            let clock = clock.clone();
            async move { gather(looks, &*clock, Some(PATIENCE)).await }
        });
        clock.advance(Duration::from_secs(30));
        tokio::task::yield_now().await;
        assert!(!gathering.is_finished());
        clock.advance(Duration::from_secs(30));
        assert!(matches!(gathering.await.unwrap()[0], (_, Lane::Seen(7))));
    }
}
