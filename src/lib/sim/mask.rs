//! The `X-Fields` header: which fields of a reply are wanted (vco-api.md 12.5); and which fields
//! the journal never holds; pure.
//!
//! A mask is a list such as `result{vm_id,name},locations`, in braces or not; `*` is everything.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the journal never holds: the secrets of S3 keys, the passwords of guests, what opens a
/// machine. The ids of keys are no secrets.
const SECRETS: &[&str] = &["secret", "secret_key", "password", "user_data", "tpm_secret"];

/// Objects of which the journal holds the keys only: user data has the secrets of a cluster.
const CLOSED: &[&str] = &["userdata", "UserDataParameters"];

/// The pairs of a query without its secrets.
pub(super) fn hidden(query: Vec<(String, String)>) -> Vec<(String, String)> {
    let hide = |(key, text): (String, String)| {
        let text = if SECRETS.contains(&key.as_str()) { "***".to_owned() } else { text };
        (key, text)
    };
    query.into_iter().map(hide).collect()
}

/// Puts stars in the place of every secret; they are text as the secret was.
pub(super) fn hide(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if SECRETS.contains(&key.as_str()) => {
                        "***".clone_into(text);
                    }
                    Value::Object(inner) if CLOSED.contains(&key.as_str()) => {
                        inner.values_mut().for_each(|value| *value = "***".into());
                    }
                    value => hide(value),
                }
            }
        }
        _ => {}
    }
}

/// The wanted keys, each with the mask of what is below it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mask {
    keys: BTreeMap<String, Mask>,
}

impl Mask {
    /// Reads a mask; the error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut rest = text.trim();
        if let Some(inner) = rest.strip_prefix('{').and_then(|r| r.strip_suffix('}')) {
            rest = inner;
        }
        let (mask, rest) = Self::list(rest, 0)?;
        if rest.is_empty() { Ok(mask) } else { Err("a brace closes that was not opened") }
    }

    fn list(mut rest: &str, depth: u8) -> Result<(Self, &str), &'static str> {
        let mut mask = Self::default();
        loop {
            let end = rest.find([',', '{', '}']).unwrap_or(rest.len());
            let key = rest[..end].trim();
            if key.is_empty() {
                return Err("a field has no name");
            }
            rest = &rest[end..];
            let mut below = Self::default();
            if let Some(inner) = rest.strip_prefix('{') {
                if depth >= 8 {
                    return Err("too deep");
                }
                let (list, after) = Self::list(inner, depth + 1)?;
                below = list;
                rest = after.strip_prefix('}').ok_or("a brace is not closed")?;
            }
            mask.keys.insert(key.to_owned(), below);
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None if rest.is_empty() || rest.starts_with('}') => return Ok((mask, rest)),
                None => return Err("a comma is missing"),
            }
        }
    }

    /// Leaves only what is wanted.
    pub(super) fn apply(&self, value: &mut Value) {
        if self.keys.is_empty() || self.keys.contains_key("*") {
            return;
        }
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(map) => {
                map.retain(|key, value| match self.keys.get(key) {
                    Some(below) => {
                        below.apply(value);
                        true
                    }
                    None => false,
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_leave_what_is_wanted() {
        let value = json!({"result": [{"a": 1, "b": {"c": 2, "d": 3}}], "locations": [1]});
        for (mask, want) in [
            ("result{a}", json!({"result": [{"a": 1}]})),
            ("{result{b{d}},locations}", json!({"result": [{"b": {"d": 3}}], "locations": [1]})),
            ("result{ a , b }", json!({"result": [{"a": 1, "b": {"c": 2, "d": 3}}]})),
            ("*", value.clone()),
            ("nothing", json!({})),
        ] {
            let mut got = value.clone();
            Mask::parse(mask).unwrap().apply(&mut got);
            assert_eq!(got, want, "{mask}");
        }
    }

    #[test]
    fn secrets_are_starred_wherever_they_are() {
        let mut value = json!({"secret": "x", "result": [{"secret_key": "x", "access_key": "k"}]});
        hide(&mut value);
        let starred =
            json!({"secret": "***", "result": [{"secret_key": "***", "access_key": "k"}]});
        assert_eq!(value, starred);
    }

    #[test]
    fn bad_masks_are_refused() {
        for bad in ["", "a{", "a{b", "a}", "a,,b", "a{b}c", "{", ","] {
            assert!(Mask::parse(bad).is_err(), "{bad}");
        }
    }
}
