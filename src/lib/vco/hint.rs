//! What a user should do about a failed call.

use super::error::{Error, Kind};
use super::jwt::Claims;

/// Sentences that say what to do next, most useful first.
pub fn of(error: &Error) -> Vec<String> {
    let mut hints: Vec<String> = match error.advice() {
        Some(advice) => vec![advice.to_owned()],
        None => by_kind(error).into_iter().map(str::to_owned).collect(),
    };
    if let Some(wait) = error.retry_after() {
        hints.insert(
            0,
            format!("The cloud asks to wait {} s before the next call.", wait.as_secs()),
        );
    }
    if error.outcome_unknown() {
        hints.push(
            "It is not known whether the cloud carried this out: look before you repeat it."
                .to_owned(),
        );
    }
    hints
}

/// What to do about a token that the portal refuses; `from` is where it came from.
pub fn refused_token(claims: Claims, from: &str) -> String {
    let why = match claims {
        Claims { is_jwt: false, .. } => {
            "it is no JWT (which has three parts with dots between them), so that nothing is known \
             of its expiry"
        }
        Claims { expires: None, .. } => "it does not say when it expires, so it may have",
        Claims { expires: Some(_), .. } => {
            "it is not expired, but it may be revoked, belong to another portal, or be a browser \
             session's token"
        }
    };
    format!(
        "The portal refuses the token from {from}: {why}; copy one from the portal's menu \"COPY \
         JWT\"."
    )
}

/// What to do about a customer that the portal does not know or does not let us see.
pub fn other_customers(asked: &str, known: &[&str]) -> Option<String> {
    if known.contains(&asked) {
        return None;
    }
    Some(match known {
        [] => format!("The token's user belongs to no customer, so not to {asked} either."),
        known => format!(
            "The token's user does not belong to customer {asked} but to {}: check --customer \
             (VCO_CUSTOMER_ID).",
            known.join(", ")
        ),
    })
}

fn by_kind(error: &Error) -> Vec<&'static str> {
    match error.kind() {
        Kind::Setting => by_setting(error),
        Kind::Token => by_token(error.message().unwrap_or_default()),
        Kind::NoCustomer => vec![
            "The token's user belongs to no customer: use another token, or name the customer \
             with --customer or VCO_CUSTOMER_ID.",
        ],
        Kind::Name => vec![
            "Check the host's name in --portal-url (VCO_PORTAL_URL) and this machine's DNS; behind \
             a proxy set HTTPS_PROXY.",
        ],
        Kind::Connect => vec![
            "Check host and port of --portal-url (VCO_PORTAL_URL), and firewalls on the way; \
             behind a proxy set HTTPS_PROXY (and NO_PROXY for what it does not reach).",
        ],
        Kind::Tls if error.message().is_some_and(|why| why.contains("plain http")) => {
            vec!["Check scheme and port of --portal-url (VCO_PORTAL_URL)."]
        }
        Kind::Tls => vec![
            "If the portal's certificate comes from an authority of your own, give that \
             authority's certificate with --ca-file; else check the host's name and this \
             machine's clock.",
        ],
        Kind::NotTheApi => vec![
            "Check --portal-url (VCO_PORTAL_URL): it is the address of the portal itself, such as \
             https://try.whitesky.cloud.",
        ],
        // Of a write that got no reply nobody knows what became; a read changes nothing.
        Kind::Timeout if error.outcome_unknown() => {
            vec!["The cloud's writes are slow: --cloud-write-timeout gives it more time."]
        }
        Kind::Timeout => vec![
            "A read should be answered at once: the location or the portal may be in trouble; \
             --cloud-read-timeout gives it more time.",
        ],
        Kind::Incomplete => {
            vec!["A location is in trouble and cannot be asked just now: try again later."]
        }
        Kind::Status(status) => by_status(status),
        Kind::Refused | Kind::Garbled | Kind::Lost | Kind::Gone | Kind::File | Kind::Bug => {
            Vec::new()
        }
    }
}

fn by_setting(error: &Error) -> Vec<&'static str> {
    if error.target().starts_with("portal") {
        vec!["Write it as https://HOST, without path; VCO_PORTAL_URL or --portal-url."]
    } else if error.target().starts_with("IAM") {
        vec!["Write it as https://IAM-HOST/v1/oauth/jwt/refresh."]
    } else if error.target().starts_with("customer") {
        vec!["Choose one with --customer or VCO_CUSTOMER_ID."]
    } else {
        Vec::new()
    }
}

fn by_token(message: &str) -> Vec<&'static str> {
    let mut hints = vec![
        "Copy a fresh token from the portal (menu \"COPY JWT\") into VCO_TOKEN or the token file.",
    ];
    if message.contains("expired") || message.contains("renew") {
        hints.push(
            "A token with scope offline_access can be renewed by itself; the address for that is \
             --iam-refresh-url (VCO_IAM_REFRESH_URL) or comes from the portal.",
        );
    }
    hints
}

fn by_status(status: u16) -> Vec<&'static str> {
    match status {
        401 => vec!["The portal refuses this token: copy one from the portal's menu \"COPY JWT\"."],
        403 => vec![
            "The token is known but may not do this: ask for a role with the right on this \
             customer or location, or check --customer.",
        ],
        429 => vec![
            "Another program may be using the same account: run fewer at once, or lower \
             --rate-limit.",
        ],
        503 => vec![
            "The back-end has no capacity or its firewall is down (that is what 503 means there): \
             try again later, or in another location.",
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn hints_say_what_to_do() {
        for (kind, word) in [
            (Kind::Token, "COPY JWT"),
            (Kind::Tls, "--ca-file"),
            (Kind::Name, "DNS"),
            (Kind::Connect, "HTTPS_PROXY"),
            (Kind::NotTheApi, "--portal-url"),
            (Kind::NoCustomer, "--customer"),
            (Kind::Timeout, "--cloud-read-timeout"),
            (Kind::Status(401), "COPY JWT"),
            (Kind::Status(403), "role"),
            (Kind::Status(429), "--rate-limit"),
            (Kind::Status(503), "no capacity"),
        ] {
            let hints = of(&Error::new("x", "y", kind));
            assert!(hints.iter().any(|hint| hint.contains(word)), "{kind:?}: {hints:?}");
        }
    }

    #[test]
    fn a_timeout_names_the_flag_of_its_kind_of_call() {
        for (write, named, other) in [
            (true, "--cloud-write-timeout", "--cloud-read-timeout"),
            (false, "--cloud-read-timeout", "--cloud-write-timeout"),
        ] {
            let hints = of(&Error::new("x", "y", Kind::Timeout).with_outcome_unknown(write));
            assert!(hints[0].contains(named) && !hints[0].contains(other), "{hints:?}");
        }
    }

    #[test]
    fn a_refused_token_is_described_as_far_as_it_is_known() {
        for (is_jwt, expires, words) in [
            (false, None, "it is no JWT (which has three parts"),
            (true, None, "does not say when it expires"),
            (true, Some(1e10), "it is not expired, but it may be revoked"),
        ] {
            let claims = Claims { is_jwt, expires, renewable: false };
            let hint = refused_token(claims, "/run/token");
            assert!(hint.contains(words), "{hint}");
            assert!(hint.contains("from /run/token:") && hint.contains("COPY JWT"), "{hint}");
        }
    }

    #[test]
    fn other_customers_are_named_where_this_one_is_not_ours() {
        for (known, words) in [
            (&["acme_1", "beta_1"][..], Some("customer nobody but to acme_1, beta_1:")),
            (&[], Some("no customer, so not to nobody")),
            (&["acme_1", "nobody"], None),
        ] {
            let hint = other_customers("nobody", known);
            assert_eq!(hint.is_some(), words.is_some(), "{hint:?}");
            assert!(hint.unwrap_or_default().contains(words.unwrap_or_default()), "{known:?}");
        }
    }

    #[test]
    fn a_port_that_speaks_plain_http_needs_no_certificate() {
        let error = Error::new("x", "y", Kind::Tls).with_message("this port speaks plain http");
        assert!(of(&error)[0].contains("scheme and port"), "{:?}", of(&error));
    }

    #[test]
    fn an_unknown_outcome_and_a_long_wait_are_said() {
        let error = Error::new("x", "y", Kind::Status(429))
            .with_retry_after(Some(Duration::from_mins(15)))
            .with_outcome_unknown(true);
        let hints = of(&error);
        assert!(hints[0].contains("900 s"), "{hints:?}");
        assert!(hints.last().unwrap().contains("look before"), "{hints:?}");
        let expired = Error::new("x", "y", Kind::Token).with_message("the token has expired");
        assert!(of(&expired)[1].contains("offline_access"));
    }
}
