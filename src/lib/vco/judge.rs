//! What a reply means: pure, so that it can be read as a table.

use std::time::Duration;

use serde_json::Value;

use super::call::Expect;
use super::error::Kind;
use super::retry::{self, Failure};
use super::wire;

/// A reply as it came.
#[derive(Debug, Default)]
pub struct Raw {
    pub status: u16,
    pub etag: Option<String>,
    pub retry_after: Option<String>,
    pub location: Option<String>,
    pub body: Vec<u8>,
}

/// A failed try.
#[derive(Debug)]
pub struct Trouble {
    pub kind: Kind,
    pub failure: Failure,
    pub message: Option<String>,
    pub errorcode: Option<String>,
    pub retry_after: Option<Duration>,
    /// Whom it could not reach, as `scheme://host:port`.
    pub place: Option<String>,
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Trouble {
    /// A trouble that has only a kind and perhaps a sentence.
    pub fn new(kind: Kind, failure: Failure, message: Option<String>) -> Self {
        Self {
            kind,
            failure,
            message,
            errorcode: None,
            retry_after: None,
            place: None,
            source: None,
        }
    }
}

/// Judges a reply: its JSON (null where there is none and none is expected), or the trouble.
///
/// `reached` says whether the API answered this client before: a page instead of a reply is a
/// wrong address if not, and a hiccup on the way if so. `now` is in seconds since 1970.
pub fn judge(raw: &Raw, expect: Expect, reached: bool, now: f64) -> Result<Value, Trouble> {
    match raw.status {
        200..300 => accepted(raw, expect, reached),
        300..400 => Err(redirect(raw)),
        _ => Err(refused(raw, reached, now)),
    }
}

fn accepted(raw: &Raw, expect: Expect, reached: bool) -> Result<Value, Trouble> {
    let page = wire::is_html(&raw.body);
    let json = match (wire::json(&raw.body), expect) {
        (Ok(json), _) => json,
        (Err(_), Expect::Anything) if !page => Value::Null,
        (Err(why), _) if page && !reached => {
            return Err(Trouble::new(Kind::NotTheApi, Failure::Final, Some(why)));
        }
        (Err(why), _) => {
            return Err(Trouble::new(Kind::Garbled, Failure::Garbled, Some(why)));
        }
    };
    if wire::says_failure(&json) {
        let mut trouble = Trouble::new(Kind::Refused, Failure::Final, wire::failure(&raw.body));
        trouble.errorcode = wire::errorcode(&raw.body);
        return Err(trouble);
    }
    Ok(json)
}

fn redirect(raw: &Raw) -> Trouble {
    let to = raw.location.as_deref().map_or("somewhere else".to_owned(), super::blank::url);
    let message = format!("it redirects to {to} (HTTP {}), which is not followed", raw.status);
    Trouble::new(Kind::NotTheApi, Failure::Final, Some(message))
}

fn refused(raw: &Raw, reached: bool, now: f64) -> Trouble {
    let page = wire::is_html(&raw.body);
    if page && matches!(raw.status, 404 | 405 | 410) {
        // Somebody on the way does not know the path: that says nothing about the object.
        let message = format!("HTTP {} with a web page: {}", raw.status, wire::excerpt(&raw.body));
        let (kind, failure) = if reached {
            (Kind::Garbled, Failure::Garbled)
        } else {
            (Kind::NotTheApi, Failure::Final)
        };
        return Trouble::new(kind, failure, Some(message));
    }
    let failure = match raw.status {
        400 if page => Failure::BarePage,
        429 => Failure::Throttled,
        408 | 502..=504 => Failure::Unavailable,
        500.. => Failure::ServerError,
        _ => Failure::Final,
    };
    Trouble {
        errorcode: wire::errorcode(&raw.body),
        retry_after: raw.retry_after.as_deref().and_then(|text| retry::retry_after(text, now)),
        ..Trouble::new(Kind::Status(raw.status), failure, wire::failure(&raw.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Expect::{Anything, Json};

    const PAGE: &str = "<html><head><title>400 Bad Request</title></head></html>";

    fn raw(status: u16, body: &str) -> Raw {
        Raw { status, body: body.as_bytes().to_vec(), ..Raw::default() }
    }

    #[test]
    fn what_is_accepted() {
        for (status, expect, body, json) in [
            (200, Json, r#"{"a": 1}"#, serde_json::json!({"a": 1})),
            (201, Json, "[]", serde_json::json!([])),
            (204, Anything, "", Value::Null),
            (200, Anything, "42", serde_json::json!(42)),
            (200, Anything, "created", Value::Null),
            (299, Anything, r#"{"success": true}"#, serde_json::json!({"success": true})),
        ] {
            let judged = judge(&raw(status, body), expect, false, 0.0);
            assert_eq!(judged.unwrap(), json, "{status} {body}");
        }
    }

    #[test]
    fn what_is_trouble() {
        use Failure::*;
        let status = Kind::Status;
        for (code, expect, reached, body, kind, failure) in [
            (200, Json, false, "", Kind::Garbled, Garbled),
            (200, Json, false, r#"{"result": ["#, Kind::Garbled, Garbled),
            (200, Json, false, PAGE, Kind::NotTheApi, Final),
            (200, Json, true, PAGE, Kind::Garbled, Garbled),
            (200, Anything, true, PAGE, Kind::Garbled, Garbled),
            (200, Anything, true, r#"{"success": false}"#, Kind::Refused, Final),
            (302, Json, true, "", Kind::NotTheApi, Final),
            (404, Json, false, PAGE, Kind::NotTheApi, Final),
            (404, Json, true, PAGE, Kind::Garbled, Garbled),
            (404, Json, false, "{}", status(404), Final),
            (400, Json, true, PAGE, status(400), BarePage),
            (400, Json, true, r#"{"message": "no"}"#, status(400), Final),
            (401, Json, true, "", status(401), Final),
            (408, Json, true, "", status(408), Unavailable),
            (409, Json, true, "", status(409), Final),
            (429, Json, true, PAGE, status(429), Throttled),
            (500, Json, true, "", status(500), ServerError),
            (501, Json, true, "", status(501), ServerError),
            (502, Json, false, PAGE, status(502), Unavailable),
            (503, Json, true, "", status(503), Unavailable),
        ] {
            let trouble = judge(&raw(code, body), expect, reached, 0.0).unwrap_err();
            assert_eq!((trouble.kind, trouble.failure), (kind, failure), "{code} {body}");
        }
    }

    #[test]
    fn a_redirect_names_where_to_without_its_query() {
        let mut reply = raw(301, "");
        reply.location = Some("https://other.example/login?token=hunter2".to_owned());
        let trouble = judge(&reply, Json, true, 0.0).unwrap_err();
        let message = trouble.message.unwrap();
        assert!(message.contains("https://other.example/login"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[test]
    fn a_429_carries_its_wait() {
        let mut reply = raw(429, r#"{"message": "slow down", "errorcode": "a-1"}"#);
        reply.retry_after = Some("7".to_owned());
        let trouble = judge(&reply, Json, true, 0.0).unwrap_err();
        assert_eq!(trouble.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(trouble.message.as_deref(), Some("slow down"));
        assert_eq!(trouble.errorcode.as_deref(), Some("a-1"));
    }
}
