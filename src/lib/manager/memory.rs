//! What passes have found out about objects, so that it is not asked again at once.
//!
//! Nothing here decides anything that could not be found out anew: after a restart it is empty.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How soon nothing is done a second time.
const PAUSE: Duration = Duration::from_secs(3);

/// Facts of one sort about objects, by their uids.
#[derive(Debug)]
pub struct Memory<F> {
    facts: Mutex<HashMap<String, F>>,
}

impl<F> Default for Memory<F> {
    fn default() -> Self {
        Self { facts: Mutex::default() }
    }
}

impl<F: Clone + Default> Memory<F> {
    fn all(&self) -> MutexGuard<'_, HashMap<String, F>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the object of this uid.
    #[must_use]
    pub fn of(&self, uid: &str) -> F {
        self.all().get(uid).cloned().unwrap_or_default()
    }

    /// Changes what is known of it.
    pub fn note(&self, uid: &str, change: impl FnOnce(&mut F)) {
        change(self.all().entry(uid.to_owned()).or_default());
    }

    /// The object is gone.
    pub fn forget(&self, uid: &str) {
        self.all().remove(uid);
    }
}

/// What was done last for an object, and how that went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deeds {
    last: Option<(String, Duration)>,
    failed: bool,
}

impl Deeds {
    /// How long until this may be done; none if it may be done now. The cloud may answer that a
    /// thing was done and show it undone for a while: whoever looks again at once would do it again
    /// and again.
    #[must_use]
    pub fn pause(&self, what: &str, now: Duration) -> Option<Duration> {
        let (last, at) = self.last.as_ref()?;
        let left = at.saturating_add(PAUSE).saturating_sub(now);
        (last == what && !left.is_zero()).then_some(left)
    }

    /// This was done now.
    pub fn done(&mut self, what: impl Into<String>, now: Duration) {
        *self = Self { last: Some((what.into(), now)), failed: false };
    }

    /// This was tried now, with that outcome.
    pub fn tried<T, E>(&mut self, what: String, outcome: &Result<T, E>, now: Duration) {
        match outcome {
            Ok(_) => self.done(what, now),
            Err(_) => self.failed = true,
        }
    }

    /// Whether the last try failed. Then that is what is said, until one succeeds: the hope that
    /// it will, and then the failure, would be two writes a try.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_kept_until_the_object_is_gone() {
        let memory = Memory::<u32>::default();
        memory.note("a", |fact| *fact += 2);
        memory.note("a", |fact| *fact += 3);
        assert_eq!((memory.of("a"), memory.of("b")), (5, 0));
        memory.forget("a");
        assert_eq!(memory.of("a"), 0);
    }

    #[test]
    fn only_the_same_thing_waits_and_only_for_a_moment() {
        let secs = Duration::from_secs;
        let mut deeds = Deeds::default();
        assert_eq!(deeds.pause("", secs(0)), None);
        deeds.done("delete 1", secs(10));
        for (what, now, left) in [
            ("delete 1", 10, Some(3)),
            ("delete 1", 12, Some(1)),
            ("delete 1", 13, None),
            ("delete 2", 10, None),
        ] {
            assert_eq!(deeds.pause(what, secs(now)), left.map(secs), "{what} {now}");
        }
        deeds.tried("delete 2".to_owned(), &Err::<(), _>(()), secs(11));
        assert!(deeds.failed() && deeds.pause("delete 2", secs(11)).is_none());
        deeds.tried("delete 2".to_owned(), &Ok::<_, ()>(()), secs(12));
        assert!(!deeds.failed() && deeds.pause("delete 2", secs(12)).is_some());
    }
}
