//! Whose clock the cloud's own processes run on.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Stepped, System};

/// How the cloud's time passes.
#[derive(Debug, Clone)]
pub enum Pace {
    /// Real time: for people, demos and benches.
    Auto,
    /// The test's time: nothing that takes time gets on until the test moves the clock.
    Stepped(Arc<Stepped>),
}

impl Pace {
    /// A stepped pace that starts at a fixed moment in 2026, with its clock.
    #[must_use]
    pub fn stepped() -> (Self, Arc<Stepped>) {
        let clock = Stepped::at(1_790_000_000.0);
        (Self::Stepped(Arc::clone(&clock)), clock)
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Auto => System::shared(),
            Self::Stepped(clock) => Arc::<Stepped>::clone(clock),
        }
    }

    pub(super) fn is_stepped(&self) -> bool {
        matches!(self, Self::Stepped(_))
    }

    pub(super) fn advance(&self, by: Duration) {
        if let Self::Stepped(clock) = self {
            clock.advance(by);
        }
    }
}
