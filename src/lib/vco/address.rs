//! Addresses as the cloud writes them: external ones with a prefix length, free ones in a list
//! of texts.

use serde_json::Value;

use super::wire;

/// An address without its prefix length: external addresses come with `/len`, and a slash would
/// break a path (vco-api.md 4.3, 5.5, PU, OVPN).
#[must_use]
pub fn bare(address: &str) -> &str {
    address.split_once('/').map_or(address, |(bare, _)| bare).trim()
}

/// An address in a field, bare; `None` where there is none yet: the word `Undefined` stands for
/// that (vco-api.md 5.5, G8S).
pub(super) fn field(row: &Value, key: &str) -> Option<String> {
    let text = wire::text(row, key)?;
    let bare = bare(&text);
    let known = !bare.is_empty() && !bare.eq_ignore_ascii_case("undefined");
    known.then(|| bare.to_owned())
}

/// A list of texts under `ip_addresses`, `result` or `data`, or bare; `None` if there is none.
pub(super) fn list(reply: &Value) -> Option<Vec<String>> {
    let found = match reply {
        Value::Array(_) => reply,
        _ => ["ip_addresses", "result", "data"].iter().find_map(|key| reply.get(*key))?,
    };
    match found {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => {
            Some(items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_lose_their_length_and_undefined_is_none() {
        for (text, address) in [
            (json!("185.1.2.3/24"), Some("185.1.2.3")),
            (json!("185.1.2.3"), Some("185.1.2.3")),
            (json!("2001:db8::1/64"), Some("2001:db8::1")),
            (json!("Undefined"), None),
            (json!("undefined/24"), None),
            (json!(""), None),
            (json!("/24"), None),
            (json!(null), None),
            (json!({}), None),
        ] {
            assert_eq!(field(&json!({"ip": text}), "ip").as_deref(), address, "{text}");
        }
        assert_eq!(field(&json!({}), "ip"), None);
    }

    #[test]
    fn free_addresses_come_in_envelopes() {
        for (reply, count) in [
            (json!({"ip_addresses": ["185.1.2.3/24", null, 4]}), Some(1)),
            (json!({"result": ["a", "b"]}), Some(2)),
            (json!(["a"]), Some(1)),
            (json!({"ip_addresses": null}), Some(0)),
            (json!({"ip_addresses": 4}), None),
            (json!({}), None),
            (json!(null), None),
        ] {
            assert_eq!(list(&reply).map(|list| list.len()), count, "{reply}");
        }
    }
}
