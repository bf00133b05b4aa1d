//! A call as the rest of the room describes it: what, about what, and how it may be treated.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;

use super::error::{Error, Kind};
use super::part::FilePart;
use super::query::{self, Query};
use super::wire;
use crate::id::Location;

/// HTTP's verbs, as far as the API uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates or acts.
    Post,
    /// Changes.
    Put,
    /// Deletes.
    Delete,
}

impl Method {
    /// Whether a server may expect a body.
    pub const fn may_have_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }

    /// As HTTP writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// What a 2xx reply must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// JSON; anything else is a garbled reply.
    Json,
    /// Anything but a web page, nothing included.
    Anything,
}

/// What travels in a call's body.
pub enum Body<'a> {
    /// Nothing: the rule, also for writes (vco-api.md 12.1).
    Empty,
    /// A JSON document.
    Json(Value),
    /// A stretch of a file; the function hears how many of its bytes have been sent.
    Part(&'a FilePart, &'a (dyn Fn(u64) + Send + Sync)),
}

/// One call of the API.
pub struct Call<'a> {
    pub operation: &'static str,
    pub target: String,
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub body: Body<'a>,
    /// The back-end whose limits it counts against.
    pub at: Option<Location>,
    /// Whether carrying it out twice does no harm.
    pub repeatable: bool,
    pub expect: Expect,
    /// The `X-Fields` mask, where a reply may carry what we do not want to hold.
    pub mask: Option<&'static str>,
}

impl<'a> Call<'a> {
    /// A call that reads JSON; `operation` completes "cannot …".
    pub fn read(operation: &'static str, path: &[&str]) -> Self {
        Self {
            operation,
            target: String::new(),
            method: Method::Get,
            path: query::path(path),
            query: Query::default(),
            body: Body::Empty,
            at: None,
            repeatable: true,
            expect: Expect::Json,
            mask: None,
        }
    }

    /// A call that changes something and may not be repeated, unless it deletes.
    pub fn change(method: Method, operation: &'static str, path: &[&str]) -> Self {
        Self {
            method,
            repeatable: method == Method::Delete,
            expect: Expect::Anything,
            ..Self::read(operation, path)
        }
    }

    /// Names what it is about.
    pub fn about(mut self, target: impl Into<String>) -> Self {
        self.target = target.into();
        self
    }

    /// Counts it against a location's limits.
    pub fn at(mut self, location: &Location) -> Self {
        self.at = Some(location.clone());
        self
    }

    /// Adds a parameter.
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.query = self.query.with(name, value);
        self
    }

    /// Says that carrying it out twice does no harm.
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Says that the reply must be JSON.
    pub fn expect_json(mut self) -> Self {
        self.expect = Expect::Json;
        self
    }

    /// Asks for these fields only (vco-api.md 12.5).
    pub fn mask(mut self, fields: &'static str) -> Self {
        self.mask = Some(fields);
        self
    }

    /// Fails where a name in the path would lead elsewhere: URLs know no way to write an empty
    /// step, `.` or `..` (WHATWG URL, "double-dot path segment", `%2e` included).
    pub fn leads_where_it_says(&self) -> Result<(), Error> {
        let bad = |step: &&str| matches!(*step, "" | "." | "..");
        let Some(step) = self.path.split('/').skip(1).find(bad) else { return Ok(()) };
        let why = format!("a name cannot be {step:?}");
        Err(Error::new(self.operation, self.target.clone(), Kind::Setting).with_message(why))
    }

    /// Gives it a body.
    pub fn body(mut self, body: Body<'a>) -> Self {
        self.body = body;
        self
    }
}

/// A 2xx reply.
#[derive(Debug)]
pub struct Reply {
    pub operation: &'static str,
    pub target: String,
    pub etag: Option<String>,
    pub body: Vec<u8>,
    /// The body as JSON; null if it is none and none was expected.
    pub json: Value,
}

impl Reply {
    /// The rows of the list that the reply is.
    pub fn rows(&self, key: &str) -> Result<Vec<&Value>, Error> {
        wire::rows(&self.json, key).ok_or_else(|| self.garbled("it holds no list"))
    }

    /// What a create's reply names under one of these keys, `result` and a bare text included.
    ///
    /// # Errors
    /// [`Kind::Garbled`], the outcome unknown: it was accepted, so something may be there that
    /// nobody knows the name of.
    pub fn created<T: FromStr>(&self, keys: &[&str]) -> Result<T, Error> {
        let named = wire::created_text(&self.json, keys);
        named.and_then(|name| name.parse().ok()).ok_or_else(|| {
            self.garbled("it does not name what was made").with_outcome_unknown(true)
        })
    }

    /// An error about the reply's content.
    pub fn garbled(&self, why: &str) -> Error {
        let message = format!("{why}: {}", wire::excerpt(&self.body));
        Error::new(self.operation, self.target.clone(), Kind::Garbled).with_message(message)
    }

    /// Fails unless the reply vouches for a location (vco-api.md 12.4: a location in error
    /// presumably drops its items).
    pub fn vouched(&self, location: &Location) -> Result<(), Error> {
        let why = match wire::vouches(&self.json, location.as_str()) {
            wire::Vouch::Ok => return Ok(()),
            wire::Vouch::Not(status) => format!("{location} is in state {status:?}"),
            wire::Vouch::Silent => format!("it does not say how {location} is"),
        };
        let kind = Kind::Incomplete;
        Err(Error::new(self.operation, self.target.clone(), kind).with_message(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_create_that_names_nothing_has_an_unknown_outcome() {
        let reply = |json: Value| Reply {
            operation: "create it",
            target: String::new(),
            etag: None,
            body: json.to_string().into_bytes(),
            json,
        };
        for (body, named) in [
            (json!({"vm_id": 7}), Some(7)),
            (json!({"id": "7"}), Some(7)),
            (json!({"result": {"vm_id": "7"}}), Some(7)),
            (json!("7"), Some(7)),
            (json!(7), Some(7)),
            (json!({"success": true}), None),
            (json!({"vm_id": null}), None),
            (json!(null), None),
            (json!(true), None),
            (json!([]), None),
        ] {
            match reply(body.clone()).created::<u64>(&["vm_id", "id"]) {
                Ok(id) => assert_eq!(Some(id), named, "{body}"),
                Err(error) => assert!(error.outcome_unknown() && named.is_none(), "{body}"),
            }
        }
    }

    #[test]
    fn a_name_that_would_lead_elsewhere_is_not_sent() {
        for (name, good) in [("a", true), ("a/../b", true), ("...", true), ("é", true)] {
            assert_eq!(Call::read("x", &["c", name]).leads_where_it_says().is_ok(), good);
        }
        for name in ["", ".", ".."] {
            let error = Call::read("read the bucket", &["c", name]).leads_where_it_says();
            assert!(error.unwrap_err().to_string().contains(&format!("{name:?}")));
        }
    }
}
