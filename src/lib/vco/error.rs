//! One error type: which call, about what, what went wrong, after how many tries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::hint;
use crate::fault::{Class, Fault};

/// What went wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A setting of ours is wrong; nothing was sent.
    Setting,
    /// The token is missing, unreadable or expired and could not be renewed.
    Token,
    /// The token names no customer.
    NoCustomer,
    /// A local file (the one to upload) cannot be read or changed under way.
    File,
    /// The host's name does not resolve.
    Name,
    /// No connection: refused, unreachable, or not made in time.
    Connect,
    /// The TLS handshake failed: most often a certificate we do not trust.
    Tls,
    /// No reply in time.
    Timeout,
    /// The connection broke before the reply was complete.
    Lost,
    /// The cloud answered with this status, not 2xx.
    Status(u16),
    /// The cloud answered 2xx and `success: false`.
    Refused,
    /// What answers is not the portal's API: a page, or a redirect.
    NotTheApi,
    /// A 2xx reply that cannot be understood: cut, empty, a page, or of another shape.
    Garbled,
    /// A list that does not vouch for the location asked about.
    Incomplete,
    /// It is deleted, as its state or the list of the deleted says.
    Gone,
    /// Something that cannot happen happened in this program.
    Bug,
}

/// A failed call of the cloud's API.
///
/// `Display` is one sentence with operation, target, what happened and, where there was more
/// than one try, how many and for how long. It never holds a secret. Several who wait for one call
/// share its error.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    operation: &'static str,
    target: String,
    kind: Kind,
    message: Option<String>,
    errorcode: Option<String>,
    retry_after: Option<Duration>,
    tries: u32,
    spent: Duration,
    outcome_unknown: bool,
    place: Option<String>,
    advice: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(operation: &'static str, target: impl Into<String>, kind: Kind) -> Self {
        Self(Box::new(Inner {
            operation,
            target: target.into(),
            kind,
            message: None,
            errorcode: None,
            retry_after: None,
            tries: 1,
            spent: Duration::ZERO,
            outcome_unknown: false,
            place: None,
            advice: None,
            source: None,
        }))
    }

    pub(crate) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = Some(message.into());
        self
    }

    pub(crate) fn with_errorcode(mut self, code: Option<String>) -> Self {
        self.0.errorcode = code;
        self
    }

    pub(crate) fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait;
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    pub(crate) fn after(mut self, tries: u32, spent: Duration) -> Self {
        self.0.tries = tries;
        self.0.spent = spent;
        self
    }

    pub(crate) fn with_outcome_unknown(mut self, unknown: bool) -> Self {
        self.0.outcome_unknown = unknown;
        self
    }

    /// Where nobody could be reached, as `scheme://host:port`.
    pub(crate) fn with_place(mut self, place: Option<String>) -> Self {
        self.0.place = place;
        self
    }

    /// A hint that only the caller can give; it stands for the one of the status.
    pub(crate) fn with_advice(mut self, advice: Option<String>) -> Self {
        self.0.advice = advice;
        self
    }

    /// The operation in words, such as `create the image`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// What the call was about, such as `location be-1, image k8s`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.0.target
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What the caller knew to do about it.
    pub(super) fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }

    /// Whether it came of another call, in which the other side failed.
    fn other_side_failed(&self) -> bool {
        let cause = self.0.source.as_ref().and_then(|source| source.downcast_ref::<Self>());
        // An IAM that answers nonsense is most likely no IAM.
        cause.is_some_and(|cause| cause.kind() != Kind::Garbled && cause.class().is_other_side())
    }

    /// The status of the reply, if it was not 2xx.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.0.kind {
            Kind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The cloud's own sentence (or ours where it said nothing), clipped, without secrets.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// The cloud's reference for its support (vco-api.md 12.6, EX).
    #[must_use]
    pub fn errorcode(&self) -> Option<&str> {
        self.0.errorcode.as_deref()
    }

    /// How long the cloud asked us to wait, where it did and that was too long for us.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How often the call was tried.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.0.tries
    }

    /// How long the tries took together, waiting for our own limiter apart.
    #[must_use]
    pub fn spent(&self) -> Duration {
        self.0.spent
    }

    /// What happened, in words that are the same from try to try: where nobody was reached, and
    /// what the cloud or the connection said.
    #[must_use]
    pub fn happened(&self) -> String {
        match (what(self.kind(), self.0.place.as_deref()), self.message()) {
            (Some(what), Some(message)) => format!("{what}: {message}"),
            (Some(what), None) => what,
            (None, message) => message.unwrap_or("no reason known").to_owned(),
        }
    }

    /// The write may or may not have happened: look before repeating it.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        self.0.outcome_unknown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { operation, target, kind, errorcode, tries, spent, .. } = &*self.0;
        write!(f, "cannot {operation}")?;
        if !target.is_empty() {
            let (open, close) = if *kind == Kind::Setting { (" ", "") } else { (" (", ")") };
            write!(f, "{open}{target}{close}")?;
        }
        write!(f, ": {}", self.happened())?;
        if let Some(code) = errorcode {
            write!(f, " [errorcode {code}]")?;
        }
        if *tries > 1 {
            write!(f, ", after {tries} tries in {:.1} s", spent.as_secs_f64())?;
        }
        Ok(())
    }
}

fn what(kind: Kind, place: Option<&str>) -> Option<String> {
    let text = match kind {
        Kind::Setting | Kind::Token | Kind::NoCustomer | Kind::File | Kind::Bug => return None,
        Kind::Name => "the host's name cannot be resolved",
        Kind::Connect => "no connection",
        Kind::Tls => "no secure connection",
        Kind::Timeout => "no reply in time",
        Kind::Lost => "the connection broke before the reply was complete",
        Kind::Status(status) => return Some(format!("HTTP {status}")),
        Kind::Refused => "the cloud says success: false",
        Kind::NotTheApi => "what answers is not the portal's API",
        Kind::Garbled => "the reply cannot be understood",
        Kind::Incomplete => "the list is incomplete",
        Kind::Gone => "it is gone",
    };
    Some(match (kind, place) {
        (Kind::Connect | Kind::Tls, Some(place)) => format!("{text} to {place}"),
        (Kind::Name, Some(place)) => format!("{text}: {place}"),
        _ => text.to_owned(),
    })
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self.0.kind {
            // A good token may yet come of it: the IAM is what failed.
            Kind::Token if self.other_side_failed() => Class::Transient,
            Kind::Setting | Kind::NotTheApi => Class::Usage,
            Kind::Token | Kind::NoCustomer => Class::Auth,
            Kind::File | Kind::Tls => Class::Refused,
            Kind::Refused => Class::Invalid,
            Kind::Gone => Class::NotFound,
            Kind::Bug => Class::Bug,
            Kind::Status(status) => class_of(status, self.message().unwrap_or_default()),
            Kind::Name
            | Kind::Connect
            | Kind::Timeout
            | Kind::Lost
            | Kind::Garbled
            | Kind::Incomplete => Class::Transient,
        }
    }

    fn hints(&self) -> Vec<String> {
        hint::of(self)
    }
}

/// What a status means (vco-api.md 12.6, G8S).
fn class_of(status: u16, message: &str) -> Class {
    match status {
        400 | 403 | 409 | 422 if is_quota(message) => Class::Quota,
        401 | 403 | 407 => Class::Auth,
        404 | 410 => Class::NotFound,
        405 | 409 | 412 | 423 => Class::Conflict,
        429 => Class::RateLimited,
        408 | 425 | 500.. => Class::Transient,
        _ => Class::Invalid,
    }
}

/// Whether a sentence is about a limit on resources (vco-api.md 5.1, 12.6: quota breaches are
/// 400 with a sentence; the class is `ResourceLimitExceededError`).
fn is_quota(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["quota", "resource limit", "resourcelimit", "limit exceeded", "limit reached"]
        .iter()
        .any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_classes() {
        for (status, message, class) in [
            (400, "name is wrong", Class::Invalid),
            (400, "Memory quota exceeded: 12 GB missing", Class::Quota),
            (400, "ResourceLimitExceededError", Class::Quota),
            (401, "", Class::Auth),
            (403, "", Class::Auth),
            (404, "", Class::NotFound),
            (405, "", Class::Conflict),
            (409, "", Class::Conflict),
            (409, "quota", Class::Quota),
            (422, "", Class::Invalid),
            (429, "", Class::RateLimited),
            (500, "quota service down", Class::Transient),
            (503, "", Class::Transient),
            (599, "", Class::Transient),
        ] {
            let error = Error::new("x", "y", Kind::Status(status)).with_message(message);
            assert_eq!(error.class(), class, "{status} {message}");
        }
    }

    #[test]
    fn a_token_that_could_not_be_renewed_is_as_bad_as_the_reason() {
        for (reason, class) in [
            (Kind::Timeout, Class::Transient),
            (Kind::Status(503), Class::Transient),
            (Kind::Status(403), Class::Auth),
            (Kind::Garbled, Class::Auth),
            (Kind::NotTheApi, Class::Auth),
        ] {
            let reason = Error::new("renew the token", "", reason);
            let error = Error::new("use the token", "", Kind::Token).with_source(reason);
            assert_eq!(error.class(), class, "{error}");
        }
    }

    #[test]
    fn an_error_is_one_sentence() {
        let error = Error::new("create the image", "location be-1, image k8s", Kind::Status(500))
            .with_message("Something bad happened")
            .with_errorcode(Some("ab-1.5".to_owned()))
            .after(3, Duration::from_millis(12_340));
        assert_eq!(
            error.to_string(),
            "cannot create the image (location be-1, image k8s): HTTP 500: Something bad happened \
             [errorcode ab-1.5], after 3 tries in 12.3 s"
        );
        let error = Error::new("list images", "location be-1", Kind::Timeout);
        assert_eq!(error.to_string(), "cannot list images (location be-1): no reply in time");
    }

    #[test]
    fn an_error_says_where_nobody_was_reached() {
        let place = "https://portal.example:443";
        for (kind, said) in [
            (Kind::Connect, "no connection to https://portal.example:443"),
            (Kind::Tls, "no secure connection to https://portal.example:443"),
            (Kind::Name, "the host's name cannot be resolved: https://portal.example:443"),
            (Kind::Timeout, "no reply in time"),
        ] {
            let error = Error::new("list images", "", kind).with_place(Some(place.to_owned()));
            assert_eq!(error.to_string(), format!("cannot list images: {said}"));
        }
    }
}
