//! What a failed try was: the SDK's error read once, into our words.

use std::time::Duration;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::dns::ResolveDnsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use super::codes;
use super::error::{Error, Kind};
use super::retry::{self, Failure};
use super::settings::Unusable;
use super::wire::{Oversize, Slow, Stalled};
use crate::fault::words;

/// The longest sentence of a store that is repeated, in characters.
const LONGEST: usize = 300;

/// The longest reply that is kept for a second reading, in bytes.
const LONGEST_REPLY: usize = 64 * 1024;

/// A failed try.
#[derive(Debug)]
pub struct Trouble {
    pub kind: Kind,
    pub failure: Failure,
    pub message: Option<String>,
    pub request_id: Option<String>,
    pub retry_after: Option<Duration>,
    /// A 2xx reply that the SDK could not read.
    pub reply: Option<String>,
}

impl Trouble {
    fn new(kind: Kind, failure: Failure) -> Self {
        let (message, request_id, retry_after, reply) = (None, None, None, None);
        Self { kind, failure, message, request_id, retry_after, reply }
    }

    /// Whether the store may have done it all the same.
    pub fn is_doubtful(&self) -> bool {
        // 503 is a store that has not begun.
        if matches!(self.kind, Kind::Refused { status: 503, .. }) {
            return false;
        }
        matches!(self.kind, Kind::Slow | Kind::Garbled)
            || matches!(self.failure, Failure::Lost | Failure::Stalled | Failure::Unavailable)
    }

    /// The error of a call that is not tried again.
    pub fn error(self, operation: &'static str, target: &str) -> Error {
        let mut error = Error::new(operation, target, self.kind)
            .with_request_id(self.request_id)
            .with_reply(self.reply);
        if let Some(message) = self.message {
            error = error.with_message(message);
        }
        error
    }
}

/// Reads the SDK's error; `now` is in seconds since 1970.
pub fn read<E>(error: &SdkError<E, HttpResponse>, now: f64) -> Trouble
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let SdkError::ServiceError(service) = error else {
        let (kind, failure) = without_reply(error);
        let message = says(&kind, error);
        // The last cause only: what lies between are the SDK's words for its own layers.
        return Trouble { message, ..Trouble::new(kind, failure) };
    };
    let (raw, meta) = (service.raw(), service.err().meta());
    let status = raw.status().as_u16();
    let code = meta.code().filter(|code| !code.is_empty()).map(str::to_owned);
    let failure = codes::failure(status, code.as_deref());
    if status < 300 && code.is_none() {
        let reply = raw.body().bytes().filter(|bytes| bytes.len() <= LONGEST_REPLY);
        let reply = reply.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        return Trouble { reply, ..Trouble::new(Kind::Garbled, Failure::Final) };
    }
    let header = |name: &str| raw.headers().get(name).map(str::to_owned);
    Trouble {
        message: meta.message().and_then(clipped),
        request_id: header("x-amz-request-id").and_then(|id| clipped(&id)),
        retry_after: header("retry-after").and_then(|h| retry::retry_after(&h, now)),
        ..Trouble::new(Kind::Refused { status, code }, failure)
    }
}

/// A body that broke while it was read.
pub fn broken_body(error: &(dyn std::error::Error + 'static)) -> Trouble {
    let (kind, failure) = on_the_wire(error).unwrap_or((Kind::Lost, Failure::Lost));
    let message = says(&kind, error);
    Trouble { message, ..Trouble::new(kind, failure) }
}

/// What our own watch over the wire has found.
fn on_the_wire(error: &(dyn std::error::Error + 'static)) -> Option<(Kind, Failure)> {
    if in_chain(error, <dyn std::error::Error>::is::<Stalled>) {
        Some((Kind::Stalled, Failure::Stalled))
    } else if in_chain(error, <dyn std::error::Error>::is::<Slow>) {
        // It has had more time than any stall.
        Some((Kind::Slow, Failure::Final))
    } else if in_chain(error, <dyn std::error::Error>::is::<Oversize>) {
        Some((Kind::Garbled, Failure::Garbled))
    } else {
        None
    }
}

fn without_reply<E, R>(error: &SdkError<E, R>) -> (Kind, Failure)
where
    SdkError<E, R>: std::error::Error + 'static,
{
    let any = |is: &dyn Fn(&(dyn std::error::Error + 'static)) -> bool| in_chain(error, is);
    let text = |word: &'static str| any(&move |e| e.to_string().contains(word));
    if let Some(found) = on_the_wire(error) {
        found
    } else if any(&|e| e.is::<Unusable>()) {
        (Kind::Setting, Failure::Final)
    } else if text("credential") || text("identity") {
        (Kind::Credentials, Failure::Final)
    } else if any(&|e| e.is::<ResolveDnsError>()) || text("dns error") {
        (Kind::Name, Failure::NoName)
    } else if any(&|e| e.is::<rustls::Error>()) {
        (Kind::Tls, Failure::Final)
    } else if text("(Connect)") || text("connect timeout") || text("tunnel") {
        (Kind::Connect, Failure::NotSent)
    } else {
        match error {
            SdkError::ConstructionFailure(_) => (Kind::Bug, Failure::Final),
            SdkError::ResponseError(_) if !text("body") => (Kind::Garbled, Failure::Garbled),
            _ => (Kind::Lost, Failure::Lost),
        }
    }
}

/// The innermost cause's own words.
fn says(kind: &Kind, error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut last = error;
    while let Some(next) = inner(last) {
        last = next;
    }
    let text = words(last);
    match kind {
        Kind::Credentials => Some(format!("no credentials that can be used: {}", clipped(&text)?)),
        _ => clipped(&text),
    }
}

/// Clipped, on one line, without control characters.
fn clipped(text: &str) -> Option<String> {
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// An I/O error hides the one it carries from `source`.
fn inner<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a (dyn std::error::Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(carried) => Some(carried as &'a (dyn std::error::Error + 'static)),
        None => error.source(),
    }
}

fn in_chain(
    error: &(dyn std::error::Error + 'static),
    is: impl Fn(&(dyn std::error::Error + 'static)) -> bool,
) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if is(error) {
            return true;
        }
        next = inner(error);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stores_sentence_is_one_short_line() {
        assert_eq!(clipped("a\r\nb\u{1b}[31m").as_deref(), Some("a  b [31m"));
        assert_eq!(clipped(" \n"), None);
        assert_eq!(clipped(&"x".repeat(1000)).map(|text| text.len()), Some(LONGEST));
    }

    #[test]
    fn what_an_io_error_carries_is_looked_at() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other(rustls::Error::DecryptError));
        assert!(in_chain(&error, <dyn std::error::Error>::is::<rustls::Error>));
        assert_eq!(says(&Kind::Tls, &error).as_deref(), Some("cannot decrypt peer's message"));
    }
}
