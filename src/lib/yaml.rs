//! The only door to YAML.
//!
//! Behind it stands serde-saphyr (ADR 0002). What passes here is read by the rules of YAML 1.2
//! as Kubernetes tools expect them: only `true` and `false` are booleans, `012` stays text,
//! a key may not occur twice. What is written quotes every word that a YAML 1.1 reader would
//! take for something else (`yes`, `on`, `y`, `012`), because kubectl's own layer is one.
//!
//! To add a reader of a new kind of document, call [`from_str`] with the type; do not add
//! options: one dialect for the whole house is the point of the door.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::{Class, Fault};

/// A document that is no YAML, or not the YAML that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {detail}")]
pub struct Error {
    name: String,
    detail: String,
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

/// Reads all documents of a stream; empty ones are left out.
pub fn from_multiple<T: DeserializeOwned>(text: &str, name: &str) -> Result<Vec<T>, Error> {
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|e| bad(name, &e))
}

/// Writes one document, ended by a line break. `name` says what is written.
pub fn to_string<T: Serialize>(value: &T, name: &str) -> Result<String, Error> {
    serde_saphyr::to_string(value).map_err(|e| bad(name, &e))
}

fn bad(name: &str, detail: &dyn std::fmt::Display) -> Error {
    Error { name: name.to_owned(), detail: detail.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
    }

    #[test]
    fn a_stream_holds_many_documents() {
        let got: Vec<Value> = from_multiple("---\na: 1\n---\na: 2\n", "t").unwrap();
        assert_eq!(got, [json!({"a": 1}), json!({"a": 2})]);
    }
}
