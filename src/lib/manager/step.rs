//! What a pass over an object came to.

use std::time::Duration;

/// The closed set of what a pass may come to; failures are errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All is as it should be; look again when the regular time has come.
    Settled,
    /// Something was changed: look again at once.
    Changed,
    /// Something is on its way that no watch tells of: look again after this time.
    After(Duration),
    /// Somebody else has to do something, and a watch will tell.
    Waits,
    /// The object is gone, or nothing of ours.
    Over,
}

impl Step {
    /// The word for it in metrics; those that controller-runtime has.
    #[must_use]
    pub fn result(self) -> &'static str {
        match self {
            Self::Settled | Self::Waits | Self::Over => "success",
            Self::Changed => "requeue",
            Self::After(_) => "requeue_after",
        }
    }
}
