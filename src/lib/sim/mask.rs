//! The `X-Fields` header: which fields of a reply are wanted (vco-api.md 12.5); pure.
//!
//! A mask is a list such as `result{vm_id,name},locations`, in braces or not; `*` is everything.

use std::collections::BTreeMap;

use serde_json::Value;

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
    fn bad_masks_are_refused() {
        for bad in ["", "a{", "a{b", "a}", "a,,b", "a{b}c", "{", ","] {
            assert!(Mask::parse(bad).is_err(), "{bad}");
        }
    }
}
