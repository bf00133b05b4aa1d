//! One request, read and held against the table of operations.

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;

use super::check;
use super::operations::{self, Op, Operation};

/// The path below which the portal's API lies.
pub(super) const API: &str = "/api/1";
/// The IAM's one path.
pub(super) const REFRESH_PATH: &str = "/v1/oauth/jwt/refresh";

/// A request without its body.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: String,
    /// As it was sent.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) operation: Option<&'static Operation>,
    params: Vec<(&'static str, String)>,
    pub(super) problems: Vec<String>,
    pub(super) authorization: Option<String>,
    pub(super) x_fields: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) deliberate: bool,
    /// The location that the body names.
    pub(super) told: Option<String>,
}

impl Call {
    pub(super) fn read(head: &Parts) -> Self {
        let path = head.uri.path();
        let query = head.uri.query().unwrap_or_default();
        let query: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let text = |name: &str| header_text(&head.headers, name);
        let mut call = Self {
            method: head.method.to_string(),
            path: path.to_owned(),
            query,
            operation: None,
            params: Vec::new(),
            problems: Vec::new(),
            authorization: text(header::AUTHORIZATION.as_str()),
            x_fields: text("x-fields"),
            content_type: text(header::CONTENT_TYPE.as_str()),
            deliberate: text("x-capvco-deliberate").is_some_and(|v| v == "1"),
            told: None,
        };
        if !call.is_refresh() {
            call.look_up();
        }
        call
    }

    fn look_up(&mut self) {
        let Some(below) = self.path.strip_prefix(API).filter(|p| p.starts_with('/')) else {
            self.problems.push("undeclared path".into());
            return;
        };
        match operations::find(&self.method, below) {
            Err(why) => self.problems.push(why.to_owned()),
            Ok((operation, params)) => {
                let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
                self.params = params.into_iter().map(|(k, v)| (k, decode(v))).collect();
                self.operation = Some(operation);
                self.problems = check::path(&self.params);
                self.problems.extend(check::query(operation, &self.query));
            }
        }
    }

    /// Whether it is meant for the IAM.
    pub(super) fn is_refresh(&self) -> bool {
        self.path == REFRESH_PATH && self.method == "GET"
    }

    /// Whether it is meant for neither the API nor the IAM.
    pub(super) fn is_outside(&self) -> bool {
        !self.is_refresh() && !self.path.starts_with("/api/1/")
    }

    pub(super) fn is(&self, op: Op) -> bool {
        self.operation.is_some_and(|o| o.op == op)
    }

    /// The operation id, for the journal and for faults.
    pub(super) fn operation_id(&self) -> &'static str {
        let refresh = if self.is_refresh() { super::script::REFRESH } else { "" };
        self.operation.map_or(refresh, |o| o.id)
    }

    /// A parameter of the path, decoded; empty where the path has none of that name.
    pub(super) fn in_path(&self, name: &str) -> &str {
        self.params.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value)
    }

    /// The location that the call is for: named by path, query or body, or told by the id of a
    /// cloudspace or an objectspace.
    pub(super) fn location(&self) -> Option<String> {
        let named = [self.in_path("location"), self.arg("location").unwrap_or_default()];
        let ids = ["cloudspace_id", "objectspace_id"].map(|name| self.in_path(name));
        let told = || ids.into_iter().find_map(location_in);
        let named = named.into_iter().find(|l| !l.is_empty()).map(str::to_owned);
        named.or_else(|| self.told.clone()).or_else(told)
    }

    /// A number of the path; 0, which nothing has, where it is negative.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.in_path(name).parse().unwrap_or(0)
    }

    /// A query parameter.
    pub(super) fn arg(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A flag of the query.
    pub(super) fn flag(&self, name: &str, default: bool) -> bool {
        self.arg(name).map_or(default, |text| text == "true")
    }
}

/// The location in an id such as `<location>:<number>`, in base64 (vco-api.md 0.3, EX).
fn location_in(id: &str) -> Option<String> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
    text.rsplit_once(':').map(|(location, _)| location.to_owned())
}

fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn call(method: &str, uri: &str) -> Call {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("X-Capvco-Deliberate", "1").body(()).unwrap();
        Call::read(&request.into_parts().0)
    }

    #[test]
    fn requests_are_read() {
        let call =
            call("DELETE", "/api/1/customers/a%20b/locations/l/vm-images/7?permanently=true");
        assert_eq!(call.operation_id(), "deleteCustomerImage");
        assert_eq!((call.in_path("customer_id"), call.number("image_id")), ("a b", 7));
        assert!(call.flag("permanently", false) && call.deliberate && call.problems.is_empty());
    }

    #[test]
    fn a_call_tells_its_location() {
        for (uri, location) in [
            ("/customers/c/locations/l/vm-images", Some("l")),
            ("/customers/c/objectspaces?name=n&location=l", Some("l")),
            ("/customers/c/objectspaces/bDo1MDE/buckets", Some("l")),
            ("/customers/c/cloudspaces/bDoxMzAx/vms", Some("l")),
            ("/customers/c/cloudspaces/opaque/vms", None),
            ("/customers/c/objectspaces", None),
        ] {
            let call = call("GET", &format!("/api/1{uri}"));
            assert_eq!(call.location().as_deref(), location, "{uri}");
        }
    }

    #[test]
    fn wrong_requests_are_told() {
        for (method, uri, problems, outside) in [
            ("GET", "/api/1/me", 0, false),
            ("GET", "/v1/oauth/jwt/refresh", 0, false),
            ("POST", "/v1/oauth/jwt/refresh", 1, true),
            ("GET", "/me", 1, true),
            ("GET", "/api/1/you", 1, false),
            ("GET", "/api/1/me?x=1", 1, false),
            ("GET", "/api/1/customers/a/locations/l/vm-images/x", 1, false),
        ] {
            let call = call(method, uri);
            assert_eq!((call.problems.len(), call.is_outside()), (problems, outside), "{uri}");
        }
    }
}
