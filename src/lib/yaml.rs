//! The only door to YAML.
//!
//! Behind it stands serde-saphyr (ADR 0002). What passes here is read by the rules of YAML 1.2
//! as Kubernetes tools expect them: only `true` and `false` are booleans, `012` stays text,
//! a key may not occur twice. What is written quotes every word that a YAML 1.1 reader would
//! take for something else (`yes`, `on`, `y`, `012`), because kubectl's own layer is one.
//!
//! To add a reader of a new kind of document, call [`from_str`] with the type; do not add
//! options: one dialect for the whole house is the point of the door. The one exception is
//! [`from_str_1_1`], for documents that are handed on to a reader of YAML 1.1.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fault::{Class, Fault};

/// A document that is no YAML, or not the YAML that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {detail}")]
pub struct Error {
    name: String,
    detail: String,
    line: Option<u64>,
}

impl Error {
    /// Where in the document, counted from 1: for those who may not show the rest, which quotes
    /// the document.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.line
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        Class::Usage
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
    }
}

/// Reads one document. `name` says where the text came from; errors begin with it.
pub fn from_str<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|e| bad(name, &e))
}

/// Reads one document whose last reader is one of YAML 1.1, such as cloud-init: what that takes
/// for a boolean is one here, too. Handed on as text, a bare `no` would count as true there.
/// Quoted words stay text, and so do `y` and `n`, as in Python's reader.
pub fn from_str_1_1(text: &str, name: &str) -> Result<Value, Error> {
    let strict: Value = from_str(text, name)?;
    let lax = serde_saphyr::options! {
        strict_booleans: false,
        leading_zero_numbers_as_strings: true,
    };
    let lax = serde_saphyr::from_str_with_options(text, lax).map_err(|e| bad(name, &e))?;
    Ok(booleans(strict, lax))
}

/// `strict` with those of the `lax` reading's booleans that Python would see.
fn booleans(strict: Value, lax: Value) -> Value {
    match (strict, lax) {
        (Value::String(word), Value::Bool(flag)) => match word.to_ascii_lowercase().as_str() {
            "yes" | "no" | "on" | "off" => Value::Bool(flag),
            _ => Value::String(word),
        },
        (Value::Array(strict), Value::Array(lax)) if strict.len() == lax.len() => {
            strict.into_iter().zip(lax).map(|(strict, lax)| booleans(strict, lax)).collect()
        }
        (Value::Object(strict), Value::Object(mut lax)) => strict
            .into_iter()
            .map(|(key, value)| match lax.remove(&key) {
                Some(lax) => (key, booleans(value, lax)),
                None => (key, value),
            })
            .collect(),
        (strict, _) => strict,
    }
}

/// Reads all documents of a stream; empty ones are left out.
pub fn from_multiple<T: DeserializeOwned>(text: &str, name: &str) -> Result<Vec<T>, Error> {
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|e| bad(name, &e))
}

/// Writes one document, ended by a line break. `name` says what is written.
pub fn to_string<T: Serialize>(value: &T, name: &str) -> Result<String, Error> {
    serde_saphyr::to_string(value).map_err(|e| Error {
        name: name.to_owned(),
        detail: e.to_string(),
        line: None,
    })
}

fn bad(name: &str, error: &serde_saphyr::Error) -> Error {
    let line = error.location().map(|location| location.line());
    Error { name: name.to_owned(), detail: error.to_string(), line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_are_read_by_the_rules_of_yaml_1_2() {
        for (text, want) in [
            ("yes", json!("yes")),
            ("on", json!("on")),
            ("true", json!(true)),
            ("012", json!("012")),
            ("12", json!(12)),
            ("1.5", json!(1.5)),
            ("null", Value::Null),
            ("'true'", json!("true")),
        ] {
            let got: Value = from_str(&format!("k: {text}\n"), "t").unwrap();
            assert_eq!(got["k"], want, "{text}");
        }
    }

    #[test]
    fn what_a_yaml_1_1_reader_would_misread_is_quoted() {
        for word in ["yes", "no", "on", "off", "y", "n", "012", "1e3", "null", "~", "0x1f", ""] {
            let text = to_string(&json!({ "k": word }), "t").unwrap();
            let scalar = text.trim().strip_prefix("k: ").unwrap_or_else(|| panic!("{text:?}"));
            assert!(scalar.starts_with(['"', '\'']), "{word}: {text}");
            assert_eq!(from_str::<Value>(&text, "t").unwrap()["k"], json!(word));
        }
    }

    #[test]
    fn errors_name_the_document_and_the_place() {
        let twice = from_str::<Value>("a: 1\nb: 2\na: 3\n", "world.yaml").unwrap_err().to_string();
        assert!(twice.starts_with("world.yaml: ") && twice.contains('3'), "{twice}");
        let broken = from_str::<Value>("a: [1, 2\n", "x").unwrap_err();
        assert_eq!(broken.class(), Class::Usage);
        let at: Result<Value, _> = from_str("a: 1\nb: 2\na: 3\n", "x");
        assert_eq!(at.unwrap_err().line(), Some(3));
    }

    #[test]
    fn booleans_for_a_reader_of_yaml_1_1() {
        for (text, want) in [
            ("no", json!(false)),
            ("Off", json!(false)),
            ("YES", json!(true)),
            ("true", json!(true)),
            ("'no'", json!("no")),
            ("\"yes\"", json!("yes")),
            ("y", json!("y")),
            ("N", json!("N")),
            ("0640", json!("0640")),
            ("'0640'", json!("0640")),
            ("[no, 'no', {on: off}]", json!([false, "no", {"on": false}])),
            ("|\n  no\n", json!("no\n")),
        ] {
            let got = from_str_1_1(&format!("k: {text}\n"), "t").unwrap();
            assert_eq!(got["k"], want, "{text}");
        }
    }

    #[test]
    fn a_stream_holds_many_documents() {
        let got: Vec<Value> = from_multiple("---\na: 1\n---\na: 2\n", "t").unwrap();
        assert_eq!(got, [json!({"a": 1}), json!({"a": 2})]);
    }
}
