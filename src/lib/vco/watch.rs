//! Being told of every exchange with the cloud: for metrics.

use std::fmt;
use std::time::Duration;

use super::error::Kind;

/// Hears of every exchange, so of every try of a call. It is called in the midst of calls: it
/// must be quick and may not block.
pub trait Watch: fmt::Debug + Send + Sync {
    /// An exchange is over. `operation` is the call in words, one of a fixed set; `took` is the
    /// exchange itself, `waited` what our own limits made it wait before.
    fn called(&self, operation: &'static str, outcome: Outcome, took: Duration, waited: Duration);
}

/// How an exchange ended. `Display` is one word, of a fixed set: a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With this status, whose reply was understood.
    Status(u16),
    /// Without a reply that could be understood, or with `success: false`.
    Failed(Kind),
}

impl From<Kind> for Outcome {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Status(status) => Self::Status(status),
            kind => Self::Failed(kind),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Status(status) | Self::Failed(Kind::Status(status)) => {
                return write!(f, "{status}");
            }
            Self::Failed(Kind::Name) => "name",
            Self::Failed(Kind::Connect) => "connect",
            Self::Failed(Kind::Tls) => "tls",
            Self::Failed(Kind::Timeout) => "timeout",
            Self::Failed(Kind::Lost) => "lost",
            Self::Failed(Kind::Refused) => "refused",
            Self::Failed(Kind::NotTheApi) => "not_the_api",
            Self::Failed(Kind::Garbled) => "garbled",
            // The others do not come of an exchange.
            Self::Failed(_) => "failed",
        };
        f.write_str(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_one_word() {
        for (kind, word) in [
            (Kind::Status(429), "429"),
            (Kind::Refused, "refused"),
            (Kind::Timeout, "timeout"),
            (Kind::NotTheApi, "not_the_api"),
            (Kind::File, "failed"),
        ] {
            assert_eq!(Outcome::from(kind).to_string(), word);
        }
        assert_eq!(Outcome::Status(200).to_string(), "200");
    }
}
