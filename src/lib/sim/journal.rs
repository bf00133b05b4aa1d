//! Every exchange, in memory and on request in a file of JSON lines.
//!
//! A line has the keys that the traffic checker reads, and some for people: the operation, the
//! location, what was wrong with the request, and the fault that distorted the reply. The reply
//! is the one that the cloud made *before* a scripted fault distorted it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use super::error::Error;

/// So many exchanges are kept in memory; older ones are only in the file.
const KEPT: usize = 50_000;

/// One request and its reply.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Exchange {
    /// `GET`, `POST` …
    pub method: String,
    /// As it was sent, still percent-encoded.
    pub path: String,
    /// Decoded pairs, in order.
    pub query: Vec<(String, String)>,
    /// Parsed JSON, else the text; null where there was none, or only raw bytes.
    pub request_body: Value,
    /// What the cloud decided; 499 where the client went away before that, 0 where a fault let
    /// nothing be decided.
    pub status: u16,
    /// Parsed JSON, else the text; null where there was none.
    pub response_body: Value,
    /// Whether the request was marked as wrong on purpose.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deliberate: bool,
    /// The vendor's operation id; empty where none fits.
    pub operation: String,
    /// The location that the path names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// What is wrong with the request; empty where nothing is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The scripted fault that befell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The `X-Fields` mask that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_fields: Option<String>,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Seconds on the cloud's clock when the request came.
    pub started: f64,
    /// Seconds on the cloud's clock when the reply was made.
    pub ended: f64,
}

impl Exchange {
    /// The first value of a query parameter.
    #[must_use]
    pub fn param(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    kept: VecDeque<Exchange>,
    file: Option<File>,
}

impl Journal {
    pub(super) fn record(&self, exchange: Exchange) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &mut inner.file
            && let Ok(mut line) = serde_json::to_vec(&exchange)
        {
            line.push(b'\n');
            // One write a line keeps lines of several clouds on one file whole.
            if let Err(error) = file.write_all(&line).and_then(|()| file.flush()) {
                tracing::warn!(target: "capvco::sim", %error, "the traffic file lost a line");
            }
        }
        if inner.kept.len() >= KEPT {
            inner.kept.pop_front();
        }
        inner.kept.push_back(exchange);
    }

    pub(super) fn all(&self) -> Vec<Exchange> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.kept.iter().cloned().collect()
    }

    /// From now on appends every exchange to the file, which is made if it is missing.
    pub(super) fn write_to(&self, path: &Path) -> Result<(), Error> {
        let mut options = OpenOptions::new();
        // The URLs of images are in it, and a presigned one is a key.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = options.create(true).append(true).open(path);
        let what = "write the traffic file";
        let file = opened.map_err(|source| Error::File { what, path: path.to_owned(), source })?;
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_the_checker_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("traffic.jsonl");
        let journal = Journal::default();
        journal.write_to(&path).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
        }
        let query = vec![("name".to_owned(), "x y".to_owned())];
        journal.record(Exchange { method: "GET".into(), query, ..Exchange::default() });
        journal.record(Exchange { deliberate: true, ..Exchange::default() });
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["query"], serde_json::json!([["name", "x y"]]));
        for key in ["method", "path", "query", "request_body", "status", "response_body"] {
            assert!(lines[0].get(key).is_some(), "{key}");
        }
        assert_eq!(lines[1]["deliberate"], true);
        assert!(journal.write_to(dir.path()).is_err());
        assert_eq!(journal.all()[0].param("name"), Some("x y"));
    }
}
