//! What the cloud does not let a tenant do: his calls that it refused last.
//!
//! It is known from the calls of machines, too, and shown on the clusters that use the
//! credentials.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::metrics::Metrics;
use super::words;
use crate::fault::{Class, Fault as _};
use crate::vco::{self, Outcome, Watch};

/// Why a call was refused: a condition's reason and message.
pub type Why = (&'static str, String);

/// The calls that the cloud refuses a tenant, and those that it does not any more.
#[derive(Debug)]
pub struct Denied {
    metrics: Arc<Metrics>,
    calls: Mutex<BTreeMap<&'static str, Why>>,
}

impl Denied {
    /// Nothing was refused yet; every call is counted.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { metrics, calls: Mutex::default() })
    }

    fn calls(&self) -> MutexGuard<'_, BTreeMap<&'static str, Why>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call failed like this; whether it was for want of a right.
    pub fn note(&self, error: &vco::Error) -> bool {
        let denied = error.class() == Class::Auth;
        if denied {
            let why = (words::reason(error), words::of(error));
            self.calls().insert(error.operation(), why);
        }
        denied
    }

    /// Something that is refused, if anything is.
    #[must_use]
    pub fn any(&self) -> Option<Why> {
        self.calls().values().next().cloned()
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
            self.calls().remove(operation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vco::Kind;

    #[test]
    fn a_call_is_refused_until_it_is_let_in() {
        let denied = Denied::new(Metrics::new());
        let error = |operation, status| vco::Error::new(operation, "x", Kind::Status(status));
        assert!(!denied.note(&error("list VMs", 503)) && denied.any().is_none());
        assert!(denied.note(&error("create the VM", 403)));
        let (reason, message) = denied.any().unwrap();
        assert_eq!((reason, message.as_str()), ("AccessDenied", "cannot create the VM (x): 403"));
        let called = |operation| {
            denied.called(operation, Outcome::Status(200), Duration::ZERO, Duration::ZERO);
        };
        called("list VMs");
        assert!(denied.any().is_some());
        called("create the VM");
        assert!(denied.any().is_none());
    }
}
