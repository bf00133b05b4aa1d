//! Tokens: made here, known here, refreshed here.
//!
//! They look like the real ones (vco-api.md 1.1, IYO: three parts, claims in the middle), but
//! are recognised by being known, not by a signature.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::reply::{Payload, Reply};
use super::rules::{RefreshReply, Rules};

/// The tokens that this cloud made.
#[derive(Debug, Default)]
pub(super) struct Keyring {
    tokens: HashMap<String, Token>,
}

#[derive(Debug, Clone, Copy)]
struct Token {
    expires: f64,
    refreshable: bool,
    revoked: bool,
}

impl Keyring {
    /// Makes a token that is good until `expires`, in seconds since 1970.
    pub(super) fn mint(&mut self, username: &str, expires: f64, refreshable: bool) -> String {
        let number = self.tokens.len() + 1;
        let mut claims = json!({
            "username": username,
            "scope": ["user:admin"],
            "iss": "itsyouonline",
            "aud": ["vco"],
            "jti": number.to_string(),
        });
        claims["exp"] = whole_seconds(expires.floor());
        if refreshable {
            claims["refresh_token"] = Value::String(format!("refresh-{number}"));
        }
        let part = |v: &Value| URL_SAFE_NO_PAD.encode(v.to_string());
        let head = part(&json!({"alg": "ES384", "typ": "JWT"}));
        let seal = URL_SAFE_NO_PAD.encode(format!("embedded cloud, token {number}"));
        let text = format!("{head}.{}.{seal}", part(&claims));
        self.tokens.insert(text.clone(), Token { expires, refreshable, revoked: false });
        text
    }

    /// From now on the token is refused, its refresh too.
    pub(super) fn revoke(&mut self, token: &str) {
        if let Some(token) = self.tokens.get_mut(token) {
            token.revoked = true;
        }
    }

    /// Why a call with this `Authorization` header is refused, if it is.
    pub(super) fn refusal(&self, header: Option<&str>, now: f64) -> Option<Reply> {
        let Some(text) = bearer(header) else {
            return Some(Reply::error(401, "Unauthorized: no bearer token"));
        };
        match self.tokens.get(text) {
            Some(token) if token.revoked => Some(Reply::error(401, "Unauthorized: token revoked")),
            Some(token) if token.expires <= now => {
                Some(Reply::error(401, "Unauthorized: token expired"))
            }
            Some(_) => None,
            None => Some(Reply::error(401, "Unauthorized: invalid token")),
        }
    }

    /// `GET /v1/oauth/jwt/refresh` with the old token, which may have expired (IYO).
    pub(super) fn refresh(
        &mut self,
        header: Option<&str>,
        now: f64,
        username: &str,
        rules: &Rules,
    ) -> Reply {
        let old = bearer(header).and_then(|text| self.tokens.get(text)).copied();
        match old {
            Some(old) if old.refreshable && !old.revoked && !rules.refresh_refused => {
                let expires = now + rules.token_lifetime.as_secs_f64();
                let token = self.mint(username, expires, true);
                in_form(rules.refresh_reply, token)
            }
            Some(_) => Reply::new(401, Payload::Text("Unauthorized".into())),
            None => Reply::new(400, Payload::Text("Bad Request".into())),
        }
    }
}

fn whole_seconds(seconds: f64) -> Value {
    // serde_json prints 3.0 for a float; a claim is an integer.
    format!("{seconds:.0}").parse::<u64>().map_or(Value::Null, Value::from)
}

fn bearer(header: Option<&str>) -> Option<&str> {
    let (scheme, token) = header?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn in_form(form: RefreshReply, token: String) -> Reply {
    match form {
        RefreshReply::Bare => Reply::new(200, Payload::Text(token)),
        RefreshReply::Quoted => Reply::json(Value::String(token)),
        RefreshReply::Jwt => Reply::json(json!({ "jwt": token })),
        RefreshReply::Token => Reply::json(json!({ "token": token })),
        RefreshReply::AccessToken => Reply::json(json!({ "access_token": token })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(keys: &Keyring, header: Option<&str>, now: f64) -> u16 {
        keys.refusal(header, now).map_or(200, |r| r.status)
    }

    #[test]
    fn tokens_are_good_until_they_expire_or_are_revoked() {
        let mut keys = Keyring::default();
        let token = keys.mint("operator", 100.0, true);
        let header = format!("Bearer {token}");
        for (header, now, want) in [
            (Some(header.as_str()), 99.0, 200),
            (Some(&format!("bearer {token}")), 99.0, 200),
            (Some(header.as_str()), 100.0, 401),
            (Some("Bearer x"), 0.0, 401),
            (Some(token.as_str()), 0.0, 401),
            (None, 0.0, 401),
        ] {
            assert_eq!(status(&keys, header, now), want, "{header:?} {now}");
        }
        keys.revoke(&token);
        assert_eq!(status(&keys, Some(&header), 0.0), 401);
    }

    #[test]
    fn claims_are_where_clients_look_for_them() {
        let token = Keyring::default().mint("operator", 1_790_000_000.7, true);
        let middle = token.split('.').nth(1).unwrap();
        let claims: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(middle).unwrap()).unwrap();
        assert_eq!(claims["exp"], json!(1_790_000_000));
        assert_eq!(claims["username"], "operator");
        assert!(claims["refresh_token"].is_string());
    }

    #[test]
    fn refreshing_has_forms_and_refusals() {
        let mut keys = Keyring::default();
        let header = format!("Bearer {}", keys.mint("operator", 1.0, true));
        let plain = format!("Bearer {}", keys.mint("operator", 1.0, false));
        let mut rules = Rules::default();
        let mut refresh =
            |header: &str, rules: &Rules| keys.refresh(Some(header), 50.0, "operator", rules);
        for (form, key) in [
            (RefreshReply::Jwt, "jwt"),
            (RefreshReply::Token, "token"),
            (RefreshReply::AccessToken, "access_token"),
        ] {
            rules.refresh_reply = form;
            assert!(refresh(&header, &rules).as_journaled()[key].is_string());
        }
        for form in [RefreshReply::Bare, RefreshReply::Quoted] {
            rules.refresh_reply = form;
            assert!(refresh(&header, &rules).as_journaled().is_string());
        }
        assert_eq!(refresh(&plain, &rules).status, 401);
        assert_eq!(refresh("Bearer x", &rules).status, 400);
        rules.refresh_refused = true;
        assert_eq!(refresh(&header, &rules).status, 401);
    }
}
