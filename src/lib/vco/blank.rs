//! Takes secrets out of whatever is to be shown: logs, excerpts, error sentences.

use serde_json::Value;

/// What stands in a secret's place.
pub const BLANK: &str = "***";

/// Keys whose value is never shown, in lower case; in JSON the whole value below them goes.
const SECRET: [&str; 16] = [
    "access_key",
    "access_token",
    "authorization",
    "id_token",
    "jwt",
    "key",
    "os_accounts",
    "password",
    "refresh_token",
    "secret",
    "secret_key",
    "token",
    "tpm_secret",
    "user_data",
    "userdata",
    "userdataparameters",
];

/// Whether the value under this key is a secret.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('-', "_");
    SECRET.contains(&key.as_str())
        || ["_password", "_secret", "_token", "_key"].iter().any(|end| key.ends_with(end))
}

/// JSON with every secret blanked.
#[must_use]
pub fn json(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                let hidden = is_secret(key) && !value.is_null();
                (key.clone(), if hidden { BLANK.into() } else { json(value) })
            })
            .collect(),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::String(text) => Value::String(words(text)),
        other => other.clone(),
    }
}

/// A body with secrets blanked, whether or not it is (whole) JSON.
#[must_use]
pub fn text(body: &str) -> String {
    match serde_json::from_str::<Value>(body) {
        // Only rewritten where something is hidden, so that the rest is shown as it came.
        Ok(value) if json(&value) != value => json(&value).to_string(),
        Ok(_) => body.to_owned(),
        Err(_) => words(&pairs(body)),
    }
}

/// A query parameter's value as it may be shown.
#[must_use]
pub fn parameter(name: &str, value: &str) -> String {
    if is_secret(name) {
        BLANK.to_owned()
    } else if name == "url" {
        url(value)
    } else {
        words(value)
    }
}

/// A URL without user, password, query and fragment: any of them may grant access.
#[must_use]
pub fn url(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return BLANK.to_owned() };
    let had_query = url.query().is_some();
    // Both fail only for URLs that cannot hold a user at all.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    if had_query { format!("{url}?{BLANK}") } else { url.to_string() }
}

/// Blanks the values of `"key": "value"` and `key=value` in a text that is no whole JSON.
fn pairs(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find([':', '=']) {
        let (before, after) = rest.split_at(at);
        let word_end = before.trim_end().trim_end_matches(['"', '\'']);
        let key_start = word_end.rfind(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)));
        let key = &word_end[key_start.map_or(0, |i| i + char_len(word_end, i))..];
        shown.push_str(before);
        shown.push_str(&after[..1]);
        rest = &after[1..];
        if is_secret(key) {
            shown.push_str(BLANK);
            rest = after_value(rest);
        }
    }
    shown + rest
}

fn char_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// What follows the value at the start of `text`. A nested value hides all that follows it.
fn after_value(text: &str) -> &str {
    let value = text.trim_start();
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let mut escaped = false;
            let end = value[1..].find(|c| {
                let ends = c == quote && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or("", |end| &value[end + 2..])
        }
        Some('{' | '[') | None => "",
        Some(_) => {
            // `Authorization: Bearer x` is one value.
            let bare = value.strip_prefix("Bearer ").or(value.strip_prefix("bearer "));
            let value = bare.unwrap_or(value);
            &value[value.find([',', '&', '}', ' ', '\n', ';', '<']).unwrap_or(value.len())..]
        }
    }
}

/// Blanks what looks like a token (three dotted base64url parts, the first a JSON object's).
fn words(text: &str) -> String {
    let token = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("eyJ") {
        let (before, found) = rest.split_at(at);
        let end = found.find(|c| !token(c)).unwrap_or(found.len());
        shown.push_str(before);
        shown.push_str(if found[..end].len() > 20 { BLANK } else { &found[..end] });
        rest = &found[end..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_blanked_wherever_they_stand() {
        for body in [
            r#"{"password": "hunter2"}"#,
            r#"{"Password":"hunter2","a":1}"#,
            r#"{"result":[{"os_accounts":[{"login":"user","password":"hunter2"}]}]}"#,
            r#"{"userdata":{"users":["hunter2"]}}"#,
            r#"{"user_data":"hunter2"}"#,
            r#"{"access_key":"hunter2","secret_key":"hunter2"}"#,
            r#"{"s3_secret":"hunter2"}"#,
            r#"{"secret": "hunter2", "cut": "#,
            r#"{"secret": "hun\"ter2 hunter2", "cut": "#,
            r#"{"os_accounts": [{"login": "x", "hunter2": "#,
            "jwt=hunter2&x=1",
            "Authorization: Bearer hunter2",
            "token = hunter2",
            "prefix eyJhbGciOiJFUzM4NCJ9.eyJodW50ZXIyIjoxfQ.hunter2 suffix",
            r#"{"message": "bad token eyJhbGciOiJFUzM4NCJ9.eyJodW50ZXIyIjoxfQ.hunter2"}"#,
        ] {
            let shown = text(body);
            assert!(!shown.contains("hunter2"), "{body} -> {shown}");
            assert!(shown.contains(BLANK), "{shown}");
        }
    }

    #[test]
    fn the_rest_is_shown_as_it_came() {
        for body in [
            r#"{"message": "no such image",  "image_id": 7}"#,
            "502 Bad Gateway: upstream=a",
            r#"{"result": [{"name": "a", "#,
            "eyJ short",
            r#"{"password": null}"#,
        ] {
            assert_eq!(text(body), body);
        }
    }

    #[test]
    fn parameters_and_urls() {
        for (name, value, shown) in [
            ("name", "k8s", "k8s"),
            ("password", "hunter2", "***"),
            ("user_data", "hunter2", "***"),
            ("tpm_secret", "hunter2", "***"),
            ("url", "https://u:hunter2@h/k8s.qcow2?sig=hunter2#f", "https://h/k8s.qcow2?***"),
            ("url", "https://h/k8s.qcow2", "https://h/k8s.qcow2"),
            ("url", "hunter2", "***"),
        ] {
            assert_eq!(parameter(name, value), shown);
        }
    }

    proptest! {
        #[test]
        fn a_password_never_shows(secret in "[a-z0-9]{12,20}", cut in 0_usize..40) {
            let whole = format!(r#"{{"a": "b", "password": "{secret}", "tail": "0123456789"}}"#);
            let body = &whole[..whole.len() - cut.min(24)];
            prop_assert!(!text(body).contains(&secret));
        }

        #[test]
        fn no_text_makes_it_panic(body in ".{0,200}", odd in "[a-z:=\"'{}\\[\\] \\\\é]{0,60}") {
            let _ = (text(&body), text(&odd), parameter("url", &body), url(&odd));
        }
    }
}
