//! A client of our own S3 server, as far as the cloud itself needs one.

use std::fmt::Write as _;

use jiff::Timestamp;
use reqwest::Method;

use super::record::Pair;
use super::sign::{self, Unsigned};
use crate::clock::{Clock as _, System};

/// A server, and the keys to all of it.
#[derive(Debug, Clone)]
pub(super) struct S3 {
    pub(super) client: reqwest::Client,
    pub(super) port: u16,
    pub(super) root: Pair,
}

/// What it answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The error's code, in S3's words.
    pub(super) fn code(&self) -> String {
        text(&self.body, "Code").unwrap_or_else(|| self.status.to_string())
    }
}

/// One request; path and query are percent-encoded.
#[derive(Debug, Default)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: String,
}

/// A percent-encoded word: all but RFC 3986's unreserved characters.
pub(super) fn encode(word: &str) -> String {
    word.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// The path of an object.
pub(super) fn object(bucket: &str, key: &str) -> String {
    let steps: Vec<String> = key.split('/').map(encode).collect();
    format!("/{bucket}/{}", steps.join("/"))
}

/// The real time, which the server's clock shows even where the cloud's is stepped.
pub(super) fn now() -> Timestamp {
    let seconds = System::new().unix();
    Timestamp::from_millisecond(millis(seconds)).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "a time of our century in milliseconds")]
fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

impl S3 {
    /// Sends a request; an error is a sentence about not having been answered.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Answer, String> {
        let Ask { method, path, query, headers, body } = ask;
        let time = now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut signed = vec![
            ("host".to_owned(), format!("127.0.0.1:{}", self.port)),
            ("x-amz-content-sha256".to_owned(), sign::hash(body.as_bytes())),
            ("x-amz-date".to_owned(), time),
        ];
        signed
            .extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        signed.sort();
        let unsigned = Unsigned {
            method,
            path: &path,
            query: &query,
            headers: &signed,
            region: super::REGION,
        };
        let authorization = sign::authorization(&unsigned, &self.root);
        let verb: Method = method.parse().unwrap_or(Method::GET);
        let query = if query.is_empty() { query } else { format!("?{query}") };
        let url = format!("http://127.0.0.1:{}{path}{query}", self.port);
        let mut request = self.client.request(verb, url).header("authorization", authorization);
        for (name, value) in signed.iter().filter(|(name, _)| name != "host") {
            request = request.header(name, value);
        }
        let failed = |error: reqwest::Error| format!("S3 does not answer: {error}");
        let response = request.body(body).send().await.map_err(failed)?;
        let status = response.status().as_u16();
        Ok(Answer { status, body: response.text().await.map_err(failed)? })
    }

    /// The same, where anything but success is an error.
    pub(super) async fn must(&self, ask: Ask<'_>) -> Result<Answer, String> {
        let what = format!("{} {}?{}", ask.method, ask.path, ask.query);
        let answer = self.ask(ask).await?;
        if answer.is_ok() { Ok(answer) } else { Err(format!("{what}: {}", answer.code())) }
    }

    /// The names of all buckets.
    pub(super) async fn buckets(&self) -> Result<Vec<String>, String> {
        let ask = Ask { method: "GET", path: "/".into(), ..Ask::default() };
        let answer = self.must(ask).await?;
        let rows = blocks(&answer.body, "Bucket");
        Ok(rows.into_iter().filter_map(|row| text(row, "Name")).collect())
    }

    /// Makes a bucket.
    pub(super) async fn create_bucket(&self, name: &str, locking: bool) -> Result<Answer, String> {
        let lock = [("x-amz-bucket-object-lock-enabled", "true")];
        let headers = if locking { &lock[..] } else { &[] };
        let path = format!("/{}", encode(name));
        self.ask(Ask { method: "PUT", path, headers, ..Ask::default() }).await
    }

    /// Sets a bucket's policy, or takes it away.
    pub(super) async fn set_policy(
        &self,
        name: &str,
        policy: Option<String>,
    ) -> Result<(), String> {
        let (path, query) = (format!("/{}", encode(name)), "policy=".to_owned());
        let ask = match policy {
            Some(body) => Ask { method: "PUT", path, query, body, ..Ask::default() },
            None => Ask { method: "DELETE", path, query, ..Ask::default() },
        };
        self.must(ask).await.map(|_| ())
    }

    /// Makes a user of versitygw: `role` is `user`, who may do only what a policy says, or
    /// `admin`, who may do everything.
    pub(super) async fn create_user(&self, pair: &Pair, role: &str) -> Result<(), String> {
        let Pair { access_key, secret } = pair;
        let body = format!(
            "<Account><Access>{access_key}</Access><Secret>{secret}</Secret><Role>{role}</Role>\
             </Account>"
        );
        let ask = Ask { method: "PATCH", path: "/create-user".into(), body, ..Ask::default() };
        self.must(ask).await.map(|_| ())
    }

    /// Takes a user away.
    pub(super) async fn delete_user(&self, access_key: &str) -> Result<(), String> {
        let query = format!("access={}", encode(access_key));
        let ask = Ask { method: "PATCH", path: "/delete-user".into(), query, ..Ask::default() };
        self.must(ask).await.map(|_| ())
    }
}

/// The insides of every element of this name, in order. Good for what S3 answers: no element
/// that we read holds another of its own name.
pub(super) fn blocks<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    let mut found = Vec::new();
    while let Some((_, after)) = rest.split_once(&open)
        && let Some((inside, after)) = after.split_once(&close)
    {
        found.push(inside);
        rest = after;
    }
    found
}

/// The text of the first element of this name.
pub(super) fn text(xml: &str, name: &str) -> Option<String> {
    let inside = blocks(xml, name).into_iter().next()?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'")];
    let text = plain.iter().fold(inside.to_owned(), |text, (name, c)| text.replace(name, c));
    Some(text.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let xml = "<R><Bucket><Name>a</Name></Bucket><Bucket><Name>b&amp;&lt;</Name></Bucket></R>";
        let names: Vec<_> = blocks(xml, "Bucket").iter().map(|b| text(b, "Name")).collect();
        assert_eq!(names, [Some("a".to_owned()), Some("b&<".to_owned())]);
        assert_eq!(text(xml, "Code"), None);
        assert_eq!(blocks("<A><B></A>", "B"), [""; 0]);
    }

    #[test]
    fn paths_are_encoded_by_step() {
        assert_eq!(object("b", "a b/c+d/é"), "/b/a%20b/c%2Bd/%C3%A9");
    }
}
