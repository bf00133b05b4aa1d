//! What is to be looked at, and when: one queue a kind.
//!
//! An object is in the queue at most once, and is never worked on twice at the same time. What is
//! added while it is being worked on comes again afterwards, so that no change goes unseen.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;

/// An object of the kind that the queue is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The object of this name.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object; none of one without a name, which no API server sends.
    #[must_use]
    pub fn of(object: &impl kube::Resource) -> Option<Self> {
        let meta = object.meta();
        Some(Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone()?))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Default)]
struct State {
    /// By time and order of arrival.
    due: BTreeMap<(Duration, u64), Key>,
    at: HashMap<Key, (Duration, u64)>,
    /// Who is worked on, and since when it was due.
    running: HashMap<Key, Duration>,
    /// How often something was added that was not there yet, or was to come later.
    arrivals: u64,
}

impl State {
    fn schedule(&mut self, key: Key, at: Duration) {
        if let Some(&place) = self.at.get(&key) {
            if place.0 <= at {
                return;
            }
            self.due.remove(&place);
        }
        let place = (at, self.arrivals);
        self.arrivals += 1;
        self.due.insert(place, key.clone());
        self.at.insert(key, place);
    }

    /// The first that is due and not being worked on, or how long until there may be one.
    fn next(&mut self, now: Duration) -> Result<Key, Option<Duration>> {
        let found = self.due.iter().take_while(|((at, _), _)| *at <= now);
        let found = found.map(|(place, key)| (*place, key.clone()));
        let found = found.into_iter().find(|(_, key)| !self.running.contains_key(key));
        if let Some((place, key)) = found {
            self.due.remove(&place);
            self.at.remove(&key);
            self.running.insert(key.clone(), place.0);
            return Ok(key);
        }
        let later = self.due.keys().map(|(at, _)| *at).find(|at| *at > now);
        Err(later.map(|at| at.saturating_sub(now)))
    }
}

/// The objects that are to be looked at.
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
    clock: Arc<dyn Clock>,
}

impl Queue {
    /// An empty queue on this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), clock }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the object looked at now.
    pub fn add(&self, key: Key) {
        self.add_after(key, Duration::ZERO);
    }

    /// Has the object looked at after this time at the latest.
    pub fn add_after(&self, key: Key, time: Duration) {
        let at = self.clock.elapsed().saturating_add(time);
        self.state().schedule(key, at);
        self.changed.notify_one();
    }

    /// Waits for the next object; whoever gets it gives it back with [`Queue::done`].
    pub async fn take(&self) -> Key {
        loop {
            let changed = self.changed.notified();
            let next = self.state().next(self.clock.elapsed());
            match next {
                Ok(key) => {
                    // There may be another one for somebody else who waits.
                    self.changed.notify_one();
                    return key;
                }
                Err(None) => changed.await,
                Err(Some(time)) => tokio::select! {
                    () = changed => {}
                    () = self.clock.sleep(time) => {}
                },
            }
        }
    }

    /// The work on an object that was taken begins only now: what was added meanwhile is part of
    /// it. Returns how long the object has waited since it was due.
    pub fn begin(&self, key: &Key) -> Duration {
        let now = self.clock.elapsed();
        let mut state = self.state();
        if let Some(&place) = state.at.get(key)
            && place.0 <= now
        {
            state.due.remove(&place);
            state.at.remove(key);
        }
        state.running.get(key).map_or(Duration::ZERO, |due| now.saturating_sub(*due))
    }

    /// The object is no longer worked on; what was added meanwhile comes now.
    pub fn done(&self, key: &Key) {
        self.state().running.remove(key);
        self.changed.notify_one();
    }

    /// How many objects were added in all, each once until it is taken.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.state().arrivals
    }

    /// How many objects are due and wait for somebody.
    #[must_use]
    pub fn depth(&self) -> usize {
        let now = self.clock.elapsed();
        let state = self.state();
        state.due.iter().take_while(|((at, _), _)| *at <= now).count()
    }

    #[cfg(test)]
    fn running(&self) -> usize {
        self.state().running.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stepped;

    fn key(name: &str) -> Key {
        Key::new("n", name)
    }

    fn queue() -> (Arc<Stepped>, Queue) {
        let clock = Stepped::at(0.0);
        (Arc::clone(&clock), Queue::new(clock))
    }

    async fn ready(queue: &Queue) -> Option<Key> {
        tokio::select! {
            biased;
            key = queue.take() => Some(key),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn an_object_is_there_once_and_at_its_earliest_time() {
        let (clock, queue) = queue();
        queue.add_after(key("a"), Duration::from_mins(1));
        queue.add_after(key("a"), Duration::from_secs(5));
        queue.add_after(key("a"), Duration::from_secs(30));
        assert_eq!(ready(&queue).await, None);
        clock.advance(Duration::from_secs(5));
        assert_eq!(ready(&queue).await, Some(key("a")));
        queue.done(&key("a"));
        clock.advance(Duration::from_mins(10));
        assert_eq!(ready(&queue).await, None);
    }

    #[tokio::test]
    async fn what_changes_while_it_is_worked_on_comes_again_and_not_before() {
        let (_, queue) = queue();
        queue.add(key("a"));
        assert_eq!(ready(&queue).await, Some(key("a")));
        queue.add(key("a"));
        queue.add(key("b"));
        assert_eq!(ready(&queue).await, Some(key("b")));
        assert_eq!((ready(&queue).await, queue.depth(), queue.running()), (None, 1, 2));
        queue.done(&key("a"));
        assert_eq!(ready(&queue).await, Some(key("a")));
    }

    #[tokio::test]
    async fn what_came_before_the_work_began_is_part_of_it() {
        let (clock, queue) = queue();
        queue.add(key("a"));
        assert_eq!(ready(&queue).await, Some(key("a")));
        clock.advance(Duration::from_secs(2));
        queue.add(key("a"));
        assert_eq!(queue.begin(&key("a")), Duration::from_secs(2), "it was due since then");
        queue.done(&key("a"));
        assert_eq!((ready(&queue).await, queue.depth()), (None, 0));
        // What is due later stays.
        queue.add(key("a"));
        assert_eq!(ready(&queue).await, Some(key("a")));
        queue.add_after(key("a"), Duration::from_secs(5));
        queue.begin(&key("a"));
        assert_eq!(queue.state().due.len(), 1);
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let (clock, queue) = queue();
        let queue = Arc::new(queue);
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { (queue.take().await, queue.take().await) }
        });
        tokio::task::yield_now().await;
        queue.add(key("a"));
        queue.add_after(key("b"), Duration::from_secs(1));
        while queue.running() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(1));
        assert_eq!(waiting.await.unwrap(), (key("a"), key("b")));
    }

    #[tokio::test]
    async fn first_come_first_served() {
        let (_, queue) = queue();
        for name in ["c", "a", "b"] {
            queue.add(key(name));
        }
        for name in ["c", "a", "b"] {
            assert_eq!(ready(&queue).await, Some(key(name)));
        }
    }
}
