//! One error type: which call, about what, what the store said, after how many tries.

use std::fmt;
use std::time::Duration;

use super::codes;
use crate::fault::{Class, Fault};

/// What went wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A setting of ours is wrong; nothing was sent.
    Setting,
    /// No credentials were found, or those found cannot be used.
    Credentials,
    /// The host's name does not resolve.
    Name,
    /// No connection: refused, unreachable, or not made in time.
    Connect,
    /// The TLS handshake failed: most often a certificate we do not trust.
    Tls,
    /// Nothing moved for as long as the stall timeout allows.
    Stalled,
    /// So little moved that it would take for ever.
    Slow,
    /// The connection broke before the reply was complete.
    Lost,
    /// The store answered with this status and code, not 2xx. A HEAD has no body and so no code.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The code of the S3 API, such as `NoSuchBucket`.
        code: Option<String>,
    },
    /// A reply that cannot be understood, or no store at all.
    Garbled,
    /// A body that is not as long as it said, or changed while it was read.
    Damaged,
    /// A list that does not come to its end.
    Incomplete,
    /// More bytes than an upload of this part size may have.
    TooLong,
    /// Stopped by another failure of the same upload.
    Stopped,
    /// Something that cannot happen happened in this program.
    Bug,
}

/// A failed call of object storage.
///
/// `Display` is one sentence with operation, target, what happened and, where there was more
/// than one try, how many and for how long. It never holds a secret.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    operation: &'static str,
    target: String,
    kind: Kind,
    message: Option<String>,
    request_id: Option<String>,
    reply: Option<String>,
    tries: u32,
    spent: Duration,
    doubtful: bool,
    left: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(super) fn new(operation: &'static str, target: impl Into<String>, kind: Kind) -> Self {
        Self(Box::new(Inner {
            operation,
            target: target.into(),
            kind,
            message: None,
            request_id: None,
            reply: None,
            tries: 1,
            spent: Duration::ZERO,
            doubtful: false,
            left: Vec::new(),
            source: None,
        }))
    }

    pub(super) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = Some(message.into());
        self
    }

    pub(super) fn with_request_id(mut self, id: Option<String>) -> Self {
        self.0.request_id = id;
        self
    }

    /// A 2xx reply that the SDK could not read, for whoever may.
    pub(super) fn with_reply(mut self, reply: Option<String>) -> Self {
        self.0.reply = reply;
        self
    }

    pub(super) fn reply(&self) -> Option<&str> {
        self.0.reply.as_deref()
    }

    pub(super) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(super) fn after(mut self, tries: u32, spent: Duration) -> Self {
        self.0.tries = tries;
        self.0.spent = spent;
        self
    }

    pub(super) fn doubtful(mut self, doubtful: bool) -> Self {
        self.0.doubtful = doubtful;
        self
    }

    pub(super) fn with_left(mut self, what: String) -> Self {
        self.0.left.push(what);
        self
    }

    /// Whether the store may have done it all the same: the reply to one of the tries was lost,
    /// or says nothing.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.0.doubtful
    }

    /// What may be in the bucket although the call failed.
    #[must_use]
    pub fn left(&self) -> &[String] {
        &self.0.left
    }

    /// The operation in words, such as `store the object`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// What the call was about, such as `s3://backups/k8s/manifest.json`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.0.target
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// The S3 API's code, such as `AccessDenied`, where the store named one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match &self.0.kind {
            Kind::Refused { code, .. } => code.as_deref(),
            _ => None,
        }
    }

    /// The status of the reply, if it was not 2xx.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.0.kind {
            Kind::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the store knows us and says no.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        match &self.0.kind {
            Kind::Refused { code: Some(code), .. } => {
                matches!(code.as_str(), "AccessDenied" | "AllAccessDisabled" | "Forbidden")
            }
            Kind::Refused { status, code: None } => *status == 403,
            _ => false,
        }
    }

    /// Whether the store does not have such a call.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self.0.kind, Kind::Refused { status: 501 | 405, .. })
            || matches!(self.code(), Some("NotImplemented" | "MethodNotAllowed"))
    }

    /// The store's own sentence (or ours where it said nothing), clipped.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// How often the call was tried.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.0.tries
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { operation, target, kind, message, request_id, tries, spent, .. } = &*self.0;
        write!(f, "cannot {operation}")?;
        if !target.is_empty() {
            let (open, close) = if *kind == Kind::Setting { (" ", "") } else { (" (", ")") };
            write!(f, "{open}{target}{close}")?;
        }
        f.write_str(": ")?;
        match (what(kind), message) {
            (Some(what), Some(message)) => write!(f, "{what}: {message}")?,
            (Some(what), None) => f.write_str(&what)?,
            (None, message) => f.write_str(message.as_deref().unwrap_or("no reason known"))?,
        }
        if let Some(id) = request_id {
            write!(f, " [request {id}]")?;
        }
        if *tries > 1 {
            write!(f, ", after {tries} tries in {:.1} s", spent.as_secs_f64())?;
        }
        Ok(())
    }
}

fn what(kind: &Kind) -> Option<String> {
    let text = match kind {
        Kind::Setting | Kind::Credentials | Kind::Bug => return None,
        Kind::Name => "the host's name cannot be resolved",
        Kind::Connect => "no connection",
        Kind::Tls => "no secure connection",
        Kind::Stalled => "nothing moved any more",
        Kind::Slow => "the reply comes too slowly",
        Kind::Lost => "the connection broke before the reply was complete",
        Kind::Garbled => "the reply cannot be understood",
        Kind::Damaged => "what came is not whole",
        Kind::Incomplete => "the list does not come to its end",
        Kind::TooLong => "there is more than the parts can hold",
        Kind::Stopped => "another part failed",
        Kind::Refused { status, code } => return Some(codes::sentence(*status, code.as_deref())),
    };
    Some(text.to_owned())
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match &self.0.kind {
            Kind::Setting => Class::Usage,
            Kind::Credentials => Class::Auth,
            Kind::Tls => Class::Refused,
            Kind::Bug => Class::Bug,
            Kind::TooLong => Class::Invalid,
            Kind::Refused { status, code } => codes::class(*status, code.as_deref()),
            Kind::Name
            | Kind::Connect
            | Kind::Stalled
            | Kind::Slow
            | Kind::Lost
            | Kind::Garbled
            | Kind::Damaged
            | Kind::Incomplete
            | Kind::Stopped => Class::Transient,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match &self.0.kind {
            Kind::Refused { status, code } => codes::hint(*status, code.as_deref()),
            kind => own_hint(kind),
        };
        hint.map(str::to_owned).into_iter().collect()
    }
}

fn own_hint(kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Credentials => {
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (an env file for the timer or pod), \
             or AWS_PROFILE, or any other way of AWS's default chain."
        }
        Kind::Name => {
            "Check the host in --s3-endpoint and this machine's DNS; stores of one's own mostly \
             want path style (--s3-path-style on), or the bucket's name becomes part of the \
             host's."
        }
        Kind::Connect => {
            "Check host and port of --s3-endpoint, and firewalls on the way; behind a proxy set \
             HTTPS_PROXY (and NO_PROXY for what it does not reach)."
        }
        Kind::Tls => {
            "If the store's certificate comes from an authority of your own, give that \
             authority's certificate with --s3-ca-file; else check scheme, host and port of \
             --s3-endpoint and this machine's clock."
        }
        Kind::Stalled | Kind::Slow => {
            "The store or the way to it stands still; --stall-timeout gives it more time."
        }
        Kind::Garbled => {
            "Check --s3-endpoint: what answers there may be a proxy or a web page, not S3."
        }
        Kind::Incomplete => "The store pages its lists wrongly: its maker should know.",
        Kind::TooLong => "Give a larger --part-size.",
        Kind::Setting
        | Kind::Lost
        | Kind::Damaged
        | Kind::Stopped
        | Kind::Refused { .. }
        | Kind::Bug => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Kind {
        Kind::Refused { status, code: Some(code.to_owned()) }
    }

    #[test]
    fn an_error_is_one_sentence() {
        let error = Error::new("store the object", "s3://b/k", refused(503, "SlowDown"))
            .with_message("Please reduce your request rate.")
            .with_request_id(Some("4442587FB7D0A2F9".to_owned()))
            .after(8, Duration::from_millis(12_340));
        assert_eq!(
            error.to_string(),
            "cannot store the object (s3://b/k): too many calls (SlowDown): Please reduce your \
             request rate. [request 4442587FB7D0A2F9], after 8 tries in 12.3 s"
        );
        let error = Error::new("list versions", "s3://b/", Kind::Stalled);
        assert_eq!(error.to_string(), "cannot list versions (s3://b/): nothing moved any more");
        let error = Error::new("use", "CA file x", Kind::Setting).with_message("it is empty");
        assert_eq!(error.to_string(), "cannot use CA file x: it is empty");
    }

    #[test]
    fn kinds_have_classes_and_most_have_hints() {
        for (kind, class, word) in [
            (Kind::Setting, Class::Usage, None),
            (Kind::Credentials, Class::Auth, Some("AWS_ACCESS_KEY_ID")),
            (Kind::Name, Class::Transient, Some("--s3-path-style on")),
            (Kind::Connect, Class::Transient, Some("HTTPS_PROXY")),
            (Kind::Tls, Class::Refused, Some("--s3-ca-file")),
            (Kind::Stalled, Class::Transient, Some("--stall-timeout")),
            (Kind::Slow, Class::Transient, Some("--stall-timeout")),
            (Kind::Lost, Class::Transient, None),
            (Kind::Garbled, Class::Transient, Some("--s3-endpoint")),
            (Kind::Incomplete, Class::Transient, Some("pages")),
            (Kind::TooLong, Class::Invalid, Some("--part-size")),
            (refused(403, "AccessDenied"), Class::Auth, Some("policy")),
        ] {
            let error = Error::new("x", "y", kind.clone());
            assert_eq!(error.class(), class, "{kind:?}");
            let hints = error.hints().join(" ");
            assert_eq!(hints.is_empty(), word.is_none(), "{kind:?}: {hints}");
            assert!(hints.contains(word.unwrap_or_default()), "{kind:?}: {hints}");
        }
    }
}
