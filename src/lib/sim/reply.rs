//! What goes back: status, headers, body; and how errors look.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// A reply before it becomes bytes, so that it can be journaled and distorted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    pub(super) retry_after: Option<u64>,
    pub(super) body: Payload,
}

/// A reply's body.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Payload {
    Nothing,
    Json(Value),
    Text(String),
    Html(String),
    /// A part of a JSON document.
    CutJson(String),
}

impl Reply {
    pub(super) fn new(status: u16, body: Payload) -> Self {
        Self { status, etag: None, retry_after: None, body }
    }

    pub(super) fn json(body: Value) -> Self {
        Self::new(200, Payload::Json(body))
    }

    pub(super) fn success() -> Self {
        Self::json(json!({"success": true}))
    }

    /// An error in the portal's form (vco-api.md 12.6, EX).
    pub(super) fn error(status: u16, message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self::new(status, Payload::Json(json!({ "message": message })))
    }

    /// The portal's answer to its own failures (vco-api.md 12.6, EX).
    pub(super) fn broken(status: u16) -> Self {
        let code = "5d1f2ac07be94c3d-1790000000.512";
        let message = format!("Something bad happened. Contact support and pass them \"{code}\"");
        Self::new(status, Payload::Json(json!({"message": message, "errorcode": code})))
    }

    /// The bare answer of an overstrained nginx (vco-api.md 12.7, SDK), or of a proxy.
    pub(super) fn html(status: u16, title: &str) -> Self {
        let page = format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n\
             <center><h1>{title}</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
        );
        Self::new(status, Payload::Html(page))
    }

    pub(super) fn too_many(retry_after: Option<u64>) -> Self {
        Self { retry_after, ..Self::error(429, "Too many requests") }
    }

    /// The body as the journal keeps it.
    pub(super) fn as_journaled(&self) -> Value {
        match &self.body {
            Payload::Nothing => Value::Null,
            Payload::Json(value) => value.clone(),
            Payload::Text(text) | Payload::Html(text) | Payload::CutJson(text) => {
                Value::String(text.clone())
            }
        }
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let (kind, bytes) = match self.body {
            Payload::Nothing => (None, String::new()),
            Payload::Json(value) => (Some("application/json"), format!("{value}\n")),
            Payload::CutJson(text) => (Some("application/json"), text),
            Payload::Text(text) => (Some("text/plain; charset=utf-8"), text),
            Payload::Html(text) => (Some("text/html"), text),
        };
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut set = |name: HeaderName, value: Option<String>| {
            if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
                response.headers_mut().insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, kind.map(str::to_owned));
        set(header::ETAG, self.etag);
        set(header::RETRY_AFTER, self.retry_after.map(|s| s.to_string()));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_become_responses() {
        let reply = Reply { etag: Some("\"a\"".into()), ..Reply::too_many(Some(3)) };
        assert_eq!(reply.as_journaled(), json!({"message": "Too many requests"}));
        let response = reply.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "3");
        assert_eq!(response.headers()["etag"], "\"a\"");
        assert_eq!(response.headers()["content-type"], "application/json");
        let empty = Reply::new(204, Payload::Nothing).into_response();
        assert!(!empty.headers().contains_key("content-type"));
    }
}
