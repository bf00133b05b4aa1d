//! Reading replies leniently: the cloud's own description is incomplete and partly wrong
//! (vco-api.md 12.8, 13.1).
//!
//! Every function here is pure and total: no JSON, however odd, makes one panic. Ids, sizes and
//! flags come as int, float or text; anything may be null; unknown keys are ignored; lists come
//! under `result`, `data`, a name of their own, or bare (12.4).

use serde_json::Value;

use super::blank;

/// How much of a reply an error may show, in characters.
const EXCERPT: usize = 240;

/// Reads a body as JSON; the error is a sentence with an excerpt, without secrets.
pub fn json(body: &[u8]) -> Result<Value, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| {
        if is_html(body) {
            format!("it is a web page: {}", excerpt(body))
        } else if error.is_eof() {
            format!("it is JSON cut off after {} bytes: {}", body.len(), excerpt(body))
        } else {
            format!("it is no JSON: {}", excerpt(body))
        }
    })
}

/// Whether a body is a web page rather than a reply of the API.
#[must_use]
pub fn is_html(body: &[u8]) -> bool {
    let start = body.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let head: Vec<u8> = body[start..].iter().take(64).map(u8::to_ascii_lowercase).collect();
    [&b"<!doctype html"[..], b"<html", b"<head", b"<body", b"<title", b"<h1", b"<center"]
        .iter()
        .any(|tag| head.starts_with(tag))
}

/// The beginning of a body on one line, secrets blanked: of a page its title.
#[must_use]
pub fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(16 * 1024)]);
    let shown = if is_html(body) { title(&text).unwrap_or(&text) } else { &text };
    clip(&blank::text(shown))
}

fn title(page: &str) -> Option<&str> {
    let lower = page.to_ascii_lowercase();
    let start = lower.find("<title>")? + "<title>".len();
    let end = start + lower[start..].find("</title>")?;
    page.get(start..end)
}

/// One line of at most [`EXCERPT`] characters.
fn clip(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The rows of a list: under `key`, `result` or `data`, or bare. `None` if there is no list.
///
/// A null in a list's place is an empty list; rows that are no objects are left out.
#[must_use]
pub fn rows<'a>(reply: &'a Value, key: &str) -> Option<Vec<&'a Value>> {
    let list = match reply {
        Value::Array(_) => reply,
        Value::Object(fields) => [key, "result", "data"]
            .iter()
            .filter_map(|key| fields.get(*key))
            .find(|value| value.is_array() || value.is_null())?,
        _ => return None,
    };
    Some(
        list.as_array()
            .map(|rows| rows.iter().filter(|row| row.is_object()).collect())
            .unwrap_or_default(),
    )
}

/// A text field; numbers and flags are written out, an array of texts is joined by commas
/// (`tags` and `categories` come either way, vco-api.md 13.1).
#[must_use]
pub fn text(row: &Value, key: &str) -> Option<String> {
    match row.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Array(words) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// A whole number in a field: an id. Int, float without fraction, or text of either.
#[must_use]
pub fn id(row: &Value, key: &str) -> Option<u64> {
    whole(row.get(key)?)
}

/// An amount in a field (size, memory): like [`id`], but a fraction is cut off.
#[must_use]
pub fn amount(row: &Value, key: &str) -> Option<u64> {
    let value = row.get(key)?;
    whole(value).or_else(|| from_float(float(value)?.trunc()))
}

/// A time in a field, in seconds since 1970: int, float or text (vco-api.md 12.3).
#[must_use]
pub fn time(row: &Value, key: &str) -> Option<f64> {
    float(row.get(key)?).filter(|time| time.is_finite() && *time > 0.0)
}

/// A flag in a field: a JSON flag, `true`/`True`/`1` or their opposites as text or number.
#[must_use]
pub fn flag(row: &Value, key: &str) -> Option<bool> {
    match row.get(key)? {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        },
        value @ Value::Number(_) => Some(float(value)? != 0.0),
        _ => None,
    }
}

/// A whole number, as [`id`] takes it.
#[must_use]
pub fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| from_float(number.as_f64()?)),
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| from_float(text.parse().ok()?))
        }
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A float as a whole number, where it is one and small enough to be exact.
fn from_float(float: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    let whole = (0.0..=EXACT).contains(&float).then_some(float as u64)?;
    #[expect(clippy::cast_precision_loss, reason = "not above 2^53")]
    let exact = (whole as f64 - float).abs() < f64::EPSILON;
    exact.then_some(whole)
}

/// The id in a create call's reply, in whatever form: `{key: 7}`, `{"id": 7}`, either of them
/// under `result`, a bare number, a quoted one, plain text. `None` if there is none, which is
/// not an error (vco-api.md 3.1: no schema today, `{image_id}` in 2022, P4).
#[must_use]
pub fn created_id(body: &[u8], key: &str) -> Option<u64> {
    match serde_json::from_slice::<Value>(body) {
        Ok(reply) => id_in(&reply, key),
        Err(_) => std::str::from_utf8(body).ok()?.trim().trim_matches(['"', '\'']).parse().ok(),
    }
}

fn id_in(reply: &Value, key: &str) -> Option<u64> {
    match reply {
        Value::Object(fields) => id(reply, key)
            .or_else(|| id(reply, "id"))
            .or_else(|| ["result", "data"].iter().find_map(|k| id_in(fields.get(*k)?, key))),
        // The reader's own limit on depth bounds this recursion.
        Value::Array(items) if items.len() == 1 => id_in(&items[0], key),
        _ => whole(reply),
    }
}

/// The same for ids that are text; the first of `keys` that the reply has counts.
#[must_use]
pub fn created_text(reply: &Value, keys: &[&str]) -> Option<String> {
    match reply {
        Value::Object(fields) => {
            keys.iter().find_map(|key| text(reply, key).filter(|text| !text.is_empty())).or_else(
                || ["result", "data"].iter().find_map(|k| created_text(fields.get(*k)?, keys)),
            )
        }
        Value::String(text) => Some(text.clone()),
        Value::Number(_) => whole(reply).map(|number| number.to_string()),
        Value::Array(_) | Value::Bool(_) | Value::Null => None,
    }
}

/// Whether a 2xx reply says that the call failed all the same (vco-api.md 12.6).
#[must_use]
pub fn says_failure(reply: &Value) -> bool {
    reply.get("success").is_some() && flag(reply, "success") == Some(false)
}

/// The cloud's sentence in a failure's body: `message`, with what `errors` adds; else an
/// excerpt. Clipped, without secrets; `None` for an empty body.
#[must_use]
pub fn failure(body: &[u8]) -> Option<String> {
    let Ok(reply) = serde_json::from_slice::<Value>(body) else {
        return Some(excerpt(body)).filter(|text| !text.is_empty());
    };
    let message = ["message", "error_description", "error", "detail", "msg"]
        .iter()
        .find_map(|key| text(&reply, key).filter(|text| !text.is_empty()));
    let errors = reply.get("errors").filter(|errors| has_content(errors)).map(ToString::to_string);
    match (message, errors) {
        (Some(message), Some(errors)) => Some(clip(&blank::text(&format!("{message}: {errors}")))),
        (Some(text), None) | (None, Some(text)) => Some(clip(&blank::text(&text))),
        (None, None) => Some(excerpt(body)).filter(|_| has_content(&reply)),
    }
}

fn has_content(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// The reference for the cloud's support in a failure's body (vco-api.md 12.6, EX).
#[must_use]
pub fn errorcode(body: &[u8]) -> Option<String> {
    let reply: Value = serde_json::from_slice(body).ok()?;
    text(&reply, "errorcode").filter(|code| !code.is_empty()).map(|code| clip(&blank::text(&code)))
}

/// The `ETag` of an uploaded part: from the header, else from the body as text, quoted text or
/// JSON (vco-api.md 3.2: undeclared). Quotes around it are taken off.
#[must_use]
pub fn etag(header: Option<&str>, body: &[u8]) -> Option<String> {
    let found = header.map(str::to_owned).or_else(|| match serde_json::from_slice(body) {
        Ok(Value::String(text)) => Some(text),
        Ok(reply @ Value::Object(_)) => etag_in(&reply),
        Ok(Value::Number(number)) => Some(number.to_string()),
        Ok(_) => None,
        Err(_) if is_html(body) => None,
        Err(_) => std::str::from_utf8(body).ok().map(str::to_owned),
    })?;
    let bare = found.trim().trim_start_matches("W/").trim_matches('"').trim();
    let usable =
        !bare.is_empty() && bare.len() <= 256 && bare.chars().all(|c| c.is_ascii_graphic());
    usable.then(|| bare.to_owned())
}

fn etag_in(reply: &Value) -> Option<String> {
    ["etag", "ETag", "Etag", "e_tag"]
        .iter()
        .find_map(|key| text(reply, key))
        .or_else(|| etag_in(reply.get("result")?))
}

/// What a multi-location list says about one of its locations (vco-api.md 12.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vouch {
    /// The list is complete for the location.
    Ok,
    /// The location is in this state, not OK.
    Not(String),
    /// The list does not speak of the location.
    Silent,
}

/// Whether a multi-location list vouches for `location`.
#[must_use]
pub fn vouches(reply: &Value, location: &str) -> Vouch {
    let stated = rows(&reply["locations"], "locations")
        .unwrap_or_default()
        .into_iter()
        .find(|row| text(row, "location").as_deref() == Some(location))
        .map(|row| text(row, "status").unwrap_or_default());
    match stated {
        Some(status) if status.eq_ignore_ascii_case("ok") => Vouch::Ok,
        Some(status) => Vouch::Not(status),
        None => Vouch::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn bodies_that_are_no_json_are_explained() {
        for (body, why) in [
            ("", "it is empty"),
            (" \n", "it is empty"),
            (r#"{"result": [{"image_id": 4"#, "it is JSON cut off after 26 bytes: {\"result\""),
            ("<html><head><title>502 Bad Gateway</title>", "it is a web page: 502 Bad Gateway"),
            ("<!DOCTYPE html><p>hi", "it is a web page: <!DOCTYPE html><p>hi"),
            ("upstream timed out", "it is no JSON: upstream timed out"),
            (r#"{"password": "hunter2", "#, "JSON cut off"),
        ] {
            let said = super::json(body.as_bytes()).unwrap_err();
            assert!(said.starts_with(why) || said.contains(why), "{body}: {said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn excerpts_are_short_and_one_line() {
        let long = "x\n".repeat(5000);
        let shown = excerpt(long.as_bytes());
        assert_eq!(shown.chars().count(), EXCERPT + 1);
        assert!(!shown.contains('\n'));
    }

    #[test]
    fn lists_come_in_envelopes() {
        let a = json!({"n": 1});
        for (reply, count) in [
            (json!({"result": [a, a]}), Some(2)),
            (json!({"data": [a], "pagination": {"count": 1}}), Some(1)),
            (json!({"locations": [a]}), Some(1)),
            (json!([a, null, 4, "x"]), Some(1)),
            (json!({"result": null}), Some(0)),
            (json!({"result": {}, "data": [a]}), Some(1)),
            (json!({"result": 4}), None),
            (json!({}), None),
            (json!("x"), None),
            (json!(null), None),
        ] {
            assert_eq!(rows(&reply, "locations").map(|rows| rows.len()), count, "{reply}");
        }
    }

    #[test]
    fn numbers_come_as_int_float_or_text() {
        for (value, as_id, as_amount) in [
            (json!(7), Some(7), Some(7)),
            (json!(7.0), Some(7), Some(7)),
            (json!(7.5), None, Some(7)),
            (json!("7"), Some(7), Some(7)),
            (json!(" 7.0 "), Some(7), Some(7)),
            (json!("7.9"), None, Some(7)),
            (json!(u64::MAX), Some(u64::MAX), Some(u64::MAX)),
            (json!(1e300), None, None),
            (json!(-1), None, None),
            (json!("nan"), None, None),
            (json!("inf"), None, None),
            (json!(""), None, None),
            (json!(null), None, None),
            (json!([7]), None, None),
            (json!(true), None, None),
        ] {
            let row = json!({"k": value});
            assert_eq!(id(&row, "k"), as_id, "{row}");
            assert_eq!(amount(&row, "k"), as_amount, "{row}");
        }
        assert_eq!(id(&json!({}), "k"), None);
        assert_eq!(time(&json!({"t": "1700000000.5"}), "t"), Some(1_700_000_000.5));
        assert_eq!(time(&json!({"t": 0}), "t"), None);
    }

    #[test]
    fn texts_and_flags() {
        for (value, as_text, as_flag) in [
            (json!("a"), Some("a"), None),
            (json!(4), Some("4"), Some(true)),
            (json!(0), Some("0"), Some(false)),
            (json!(["a", "b", null]), Some("a,b"), None),
            (json!("True"), Some("True"), Some(true)),
            (json!(false), Some("false"), Some(false)),
            (json!(null), None, None),
            (json!({}), None, None),
        ] {
            let row = json!({"k": value});
            assert_eq!(text(&row, "k").as_deref(), as_text, "{row}");
            assert_eq!(flag(&row, "k"), as_flag, "{row}");
        }
    }

    #[test]
    fn a_create_replies_with_an_id_in_any_form_or_none() {
        for (body, found) in [
            (r#"{"image_id": 7}"#, Some(7)),
            (r#"{"image_id": "7"}"#, Some(7)),
            (r#"{"id": 7.0}"#, Some(7)),
            (r#"{"result": {"image_id": 7}}"#, Some(7)),
            (r#"{"result": 7}"#, Some(7)),
            (r#"[{"image_id": 7}]"#, Some(7)),
            ("7", Some(7)),
            ("\"7\"", Some(7)),
            ("'7'\n", Some(7)),
            ("", None),
            ("null", None),
            ("true", None),
            ("OK", None),
            (r#"{"success": true}"#, None),
            (r#"{"image_id": null}"#, None),
            ("<html>7</html>", None),
        ] {
            assert_eq!(created_id(body.as_bytes(), "image_id"), found, "{body}");
        }
    }

    #[test]
    fn success_false_is_a_failure() {
        for (reply, failed) in [
            (json!({"success": false}), true),
            (json!({"success": "false"}), true),
            (json!({"success": true}), false),
            (json!({"success": null}), false),
            (json!({}), false),
            (json!([false]), false),
        ] {
            assert_eq!(says_failure(&reply), failed, "{reply}");
        }
    }

    #[test]
    fn the_clouds_sentence_is_found() {
        for (body, sentence) in [
            (r#"{"message": "no such image"}"#, Some("no such image")),
            (
                r#"{"message": "Input payload validation failed", "errors": {"name": "missing"}}"#,
                Some(r#"Input payload validation failed: {"name":"missing"}"#),
            ),
            (r#"{"error": "boom"}"#, Some("boom")),
            (r#"{"errors": ["a"]}"#, Some(r#"["a"]"#)),
            (r#"{"status": "bad"}"#, Some(r#"{"status": "bad"}"#)),
            (r#"{"message": null}"#, Some(r#"{"message": null}"#)),
            ("<html><title>400 Bad Request</title>", Some("400 Bad Request")),
            ("plain", Some("plain")),
            ("{}", None),
            ("", None),
        ] {
            assert_eq!(failure(body.as_bytes()).as_deref(), sentence, "{body}");
        }
        let body = br#"{"message": "m", "errorcode": "5f-1616.5"}"#;
        assert_eq!(errorcode(body).as_deref(), Some("5f-1616.5"));
    }

    #[test]
    fn an_etag_is_in_the_header_or_the_body() {
        for (header, body, found) in [
            (Some("\"ab-2\""), "", Some("ab-2")),
            (Some("W/\"ab\""), "\"other\"", Some("ab")),
            (None, "ab", Some("ab")),
            (None, "\"ab\"", Some("ab")),
            (None, r#""\"ab\"""#, Some("ab")),
            (None, r#"{"etag": "ab"}"#, Some("ab")),
            (None, r#"{"result": {"ETag": "\"ab\""}}"#, Some("ab")),
            (None, "123", Some("123")),
            (None, "", None),
            (None, "null", None),
            (None, r#"{"success": true}"#, None),
            (None, "<html>x", None),
            (None, "two words", None),
        ] {
            assert_eq!(etag(header, body.as_bytes()).as_deref(), found, "{header:?} {body}");
        }
    }

    #[test]
    fn only_a_location_that_is_ok_is_vouched_for() {
        let reply = json!({"locations": [{"location": "a", "status": "OK"},
            {"location": "b", "status": "Error"}, {"location": "c", "status": null}]});
        assert_eq!(vouches(&reply, "a"), Vouch::Ok);
        assert_eq!(vouches(&reply, "b"), Vouch::Not("Error".to_owned()));
        assert_eq!(vouches(&reply, "c"), Vouch::Not(String::new()));
        assert_eq!(vouches(&reply, "d"), Vouch::Silent);
        for odd in [json!({"locations": null}), json!({}), json!([]), json!(3)] {
            assert_eq!(vouches(&odd, "a"), Vouch::Silent, "{odd}");
        }
    }

    /// Any JSON value, with the keys the readers look for.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            "[0-9.eE+-]{0,20}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("result".to_owned()),
            Just("data".to_owned()),
            Just("id".to_owned()),
            Just("k".to_owned()),
            Just("success".to_owned()),
            Just("message".to_owned()),
            Just("errors".to_owned()),
            Just("locations".to_owned()),
            ".{0,4}",
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map(key.clone(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_json_makes_a_reader_panic(value in any_json()) {
            let body = value.to_string();
            let _ = rows(&value, "k");
            let _ = (text(&value, "k"), id(&value, "k"), amount(&value, "k"), flag(&value, "k"));
            let _ = (time(&value, "k"), vouches(&value, "x"), says_failure(&value));
            let _ = (created_id(body.as_bytes(), "k"), etag(None, body.as_bytes()));
            let _ = errorcode(body.as_bytes());
            if let Some(sentence) = failure(body.as_bytes()) {
                prop_assert!(sentence.chars().count() <= EXCERPT + 1);
            }
            // Cut in the middle, at any byte: an error or, by luck, another value, never a panic.
            for end in 0..body.len().min(200) {
                let _ = super::json(&body.as_bytes()[..end]);
            }
        }

        #[test]
        fn no_bytes_make_a_reader_panic(body in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = (super::json(&body), failure(&body), created_id(&body, "k"), etag(None, &body));
            prop_assert!(excerpt(&body).chars().count() <= EXCERPT + 1);
        }

        #[test]
        fn ids_survive_every_form(n in 0_u64..1_000_000_000_000) {
            let float = format!("{n}.0");
            let forms = [json!(n), json!(n.to_string()), json!(float), serde_json::from_str(&float).unwrap()];
            for form in forms {
                prop_assert_eq!(id(&json!({"k": form}), "k"), Some(n));
            }
        }
    }
}
