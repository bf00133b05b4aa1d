//! What the cloud does not let a tenant do: his calls that it refused last; and whether it answers
//! him at all.
//!
//! It is known from the calls of machines, too, and shown on the clusters that use the
//! credentials.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::metrics::Metrics;
use super::words;
use crate::fault::{Class, Fault as _};
use crate::vco::{self, Kind, Outcome, Watch};

/// After so many exchanges in a row without an answer a cloud is silent: one may get lost.
const SILENT: u32 = 2;

/// Why a call was refused: a condition's reason and message.
pub type Why = (&'static str, String);

/// The calls that the cloud refuses a tenant, and those that it does not any more.
#[derive(Debug)]
pub struct Denied {
    metrics: Arc<Metrics>,
    /// By call and location: what is refused at one may be allowed at another.
    calls: Mutex<BTreeMap<(&'static str, String), Why>>,
    /// Exchanges in a row that got no answer.
    unanswered: AtomicU32,
}

impl Denied {
    /// Nothing was refused yet; every call is counted.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { metrics, calls: Mutex::default(), unanswered: AtomicU32::new(0) })
    }

    fn calls(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String), Why>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call for something at a location failed like this; whether it was for want of a right.
    pub fn note(&self, error: &vco::Error, at: &str) -> bool {
        let denied = error.class() == Class::Auth;
        if denied {
            let why = (words::reason(error), words::of(error));
            self.calls().insert((error.operation(), at.to_owned()), why);
        }
        denied
    }

    /// Something that is refused at a location, if anything is.
    #[must_use]
    pub fn any(&self, at: &str) -> Option<Why> {
        let calls = self.calls();
        calls.iter().find(|((_, place), _)| place == at).map(|(_, why)| why.clone())
    }

    /// Whether the cloud answered none of the last calls, or answered that it cannot just now.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) >= SILENT
    }

    /// The credentials are others now.
    pub fn forget(&self) {
        self.calls().clear();
    }
}

impl Watch for Denied {
    fn called(&self, operation: &'static str, outcome: Outcome, took: Duration, waited: Duration) {
        self.metrics.called(operation, outcome, took, waited);
        if matches!(outcome, Outcome::Status(200..=299)) {
            // What is refused still is noted anew.
            self.calls().retain(|(refused, _), _| *refused != operation);
        }
        if is_no_answer(outcome) {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        } else {
            self.unanswered.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether nobody answered, or only what stands before those who could.
fn is_no_answer(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Status(status) => matches!(status, 502..=504),
        Outcome::Failed(kind) => {
            matches!(kind, Kind::Name | Kind::Connect | Kind::Tls | Kind::Timeout | Kind::Lost)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_is_silent_until_it_answers() {
        let denied = Denied::new(Metrics::new());
        let hears = |outcome| {
            denied.called("list VMs", outcome, Duration::ZERO, Duration::ZERO);
            denied.is_silent()
        };
        let (lost, busy) = (Outcome::Failed(Kind::Timeout), Outcome::Status(503));
        assert!(!hears(lost), "one reply may get lost");
        assert!(hears(busy) && hears(lost));
        for answer in [Outcome::Status(200), Outcome::Status(403), Outcome::Status(500)] {
            assert!(!hears(answer), "{answer}");
            assert!(!hears(lost) && hears(busy));
        }
    }

    #[test]
    fn a_call_is_refused_until_it_is_let_in() {
        let denied = Denied::new(Metrics::new());
        let error = |operation, status| vco::Error::new(operation, "x", Kind::Status(status));
        assert!(!denied.note(&error("list VMs", 503), "be-1") && denied.any("be-1").is_none());
        assert!(denied.note(&error("create the VM", 403), "be-1"));
        assert!(denied.any("be-2").is_none(), "another location");
        let (reason, message) = denied.any("be-1").unwrap();
        assert_eq!((reason, message.as_str()), ("AccessDenied", "cannot create the VM (x): 403"));
        let called = |operation| {
            denied.called(operation, Outcome::Status(200), Duration::ZERO, Duration::ZERO);
        };
        called("list VMs");
        assert!(denied.any("be-1").is_some());
        called("create the VM");
        assert!(denied.any("be-1").is_none());
    }
}
