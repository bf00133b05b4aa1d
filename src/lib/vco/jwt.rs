//! What a token says of itself, and the token in a refresh's reply: pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::wire;

/// What we read from a token; anything may be missing (vco-api.md 1.1).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Claims {
    /// Whether it is a JWT at all: three parts, the middle one JSON.
    pub is_jwt: bool,
    /// When it expires, in seconds since 1970.
    pub expires: Option<f64>,
    /// Whether it carries the claim that makes it renewable (IYO, SDK); false if unreadable.
    pub renewable: bool,
}

/// Reads a token's claims; a token that cannot be read has none (and is sent as it is, PC).
#[must_use]
pub fn claims(token: &str) -> Claims {
    payload(token)
        .map(|claims| Claims {
            is_jwt: true,
            expires: wire::time(&claims, "exp"),
            renewable: wire::text(&claims, "refresh_token").is_some_and(|text| !text.is_empty()),
        })
        .unwrap_or_default()
}

/// Whom the cloud counts a token's calls against: the user it names and who says so, else the
/// token itself, as a digest. Nothing is checked: it only decides who shares our limits.
#[must_use]
pub fn user(token: &str) -> String {
    let named = payload(token).and_then(|claims| {
        let text = |key: &&str| wire::text(&claims, key).filter(|text| !text.is_empty());
        let name = ["username", "globalid", "sub"].iter().find_map(text)?;
        Some(format!("{} at {}", name, text(&"iss").unwrap_or_default()))
    });
    named.unwrap_or_else(|| hex::encode(Sha256::digest(token)))
}

fn payload(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The token in what a user or a file gave: without white space around it, a `Bearer` before
/// it, or quotes. `None` if nothing usable is left.
#[must_use]
pub fn given(text: &str) -> Option<SecretString> {
    let bare = text.trim().trim_matches('"').trim();
    let bare = match bare.split_once(char::is_whitespace) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => bare,
    };
    let usable =
        !bare.is_empty() && bare.chars().all(|c| c.is_ascii_graphic() && !"<>\"{}".contains(c));
    usable.then(|| SecretString::from(bare.to_owned()))
}

/// The token in a refresh's reply: bare, quoted, or JSON with `jwt`, `token` or `access_token`
/// (vco-api.md 1.1, PU and PC).
#[must_use]
pub fn in_reply(body: &[u8]) -> Option<SecretString> {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(Value::String(text)) => text,
        Ok(reply) => ["jwt", "token", "access_token", "id_token"]
            .iter()
            .find_map(|key| wire::text(&reply, key))
            .or_else(|| wire::text(reply.get("result")?, "jwt"))?,
        Err(_) => std::str::from_utf8(body).ok()?.to_owned(),
    };
    let token = given(&text)?;
    let parts = secrecy::ExposeSecret::expose_secret(&token).split('.').count();
    (parts == 3).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use secrecy::ExposeSecret;

    fn token(claims: &str) -> String {
        format!("eyJhbGciOiJFUzM4NCJ9.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn claims_are_read_where_they_can_be() {
        for (claims_text, expires, renewable) in [
            (r#"{"exp": 1700000000}"#, Some(1_700_000_000.0), false),
            (r#"{"exp": "1700000000", "refresh_token": "x"}"#, Some(1_700_000_000.0), true),
            (r#"{"exp": 1700000000.5}"#, Some(1_700_000_000.5), false),
            (r#"{"exp": null, "refresh_token": ""}"#, None, false),
            (r#"{"exp": "soon"}"#, None, false),
            ("[]", None, false),
        ] {
            let read = Claims { is_jwt: true, expires, renewable };
            assert_eq!(claims(&token(claims_text)), read, "{claims_text}");
        }
        for odd in ["", "opaque", "a.b", "a.b.c.d", "a.!.c", "..", "é.é.é"] {
            assert_eq!(claims(odd), Claims::default(), "{odd}");
        }
        let padded = format!("{}==.s", token(r#"{"exp":5}"#).rsplit_once('.').unwrap().0);
        assert_eq!(claims(&padded).expires, Some(5.0));
    }

    #[test]
    fn a_user_stays_one_whatever_the_token() {
        let of = |claims: &str| user(&token(claims));
        let alice = of(r#"{"username": "alice", "iss": "iam", "exp": 1}"#);
        assert_eq!(of(r#"{"username": "alice", "iss": "iam", "exp": 2}"#), alice);
        for other in [
            r#"{"username": "bob", "iss": "iam"}"#,
            r#"{"username": "alice", "iss": "other"}"#,
            r#"{"globalid": "org", "iss": "iam"}"#,
            r#"{"username": "", "exp": 1}"#,
            "{}",
        ] {
            assert_ne!(of(other), alice, "{other}");
        }
        assert_eq!(user("opaque"), user("opaque"));
        assert_ne!(user("opaque"), user("other"));
        assert!(!user("opaque").contains("opaque"));
    }

    #[test]
    fn every_reply_form_holds_the_token() {
        for (body, found) in [
            ("a.b.c", Some("a.b.c")),
            ("  a.b.c\n", Some("a.b.c")),
            ("\"a.b.c\"", Some("a.b.c")),
            ("Bearer a.b.c", Some("a.b.c")),
            (r#"{"jwt": "a.b.c"}"#, Some("a.b.c")),
            (r#"{"token": "a.b.c"}"#, Some("a.b.c")),
            (r#"{"access_token": "a.b.c", "token_type": "bearer"}"#, Some("a.b.c")),
            (r#"{"jwt": null, "token": "a.b.c"}"#, Some("a.b.c")),
            ("", None),
            ("null", None),
            ("{}", None),
            ("a.b", None),
            ("<html>a.b.c</html>", None),
            ("<!doctype html><p>a.b.c", None),
            (r#"{"jwt": "not a token"}"#, None),
        ] {
            let token = in_reply(body.as_bytes());
            let token = token.as_ref().map(ExposeSecret::expose_secret);
            assert_eq!(token, found, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (claims(&text), given(&text), in_reply(&bytes), claims(&token(&text)));
        }
    }
}
