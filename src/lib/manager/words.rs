//! Errors as conditions say them: the same text for the same fault, every time.
//!
//! What differs from try to try (how often and how long it was tried, an id of the error) would
//! make every pass write the object again, and wake itself by that (contract, 1.5).

use crate::api::condition::{
    ACCESS_DENIED, CLOUD_REFUSED, CLOUD_UNREACHABLE, CREDENTIALS_REFUSED, QUOTA_EXCEEDED,
    RATE_LIMITED,
};
use crate::api::names::ABANDON_ANNOTATION;
use crate::fault::{Class, Fault as _};
use crate::vco;

/// Why a deletion does not go on, and what somebody may do who cannot wait for the cloud.
#[must_use]
pub fn or_abandon(message: &str) -> String {
    format!(
        "{message}; if it never answers again, the annotation {ABANDON_ANNOTATION}: \"true\" lets \
         this go without asking it"
    )
}

/// What is said of a cloud that is not asked any more.
pub const SILENT: &str = "the cloud answered none of the last calls";

/// The reason of a condition for an answer of the cloud.
#[must_use]
pub fn reason(error: &vco::Error) -> &'static str {
    match (error.class(), error.status()) {
        (Class::Auth, Some(403)) => ACCESS_DENIED,
        (Class::Auth, _) => CREDENTIALS_REFUSED,
        (Class::RateLimited, _) => RATE_LIMITED,
        (Class::Quota, _) => QUOTA_EXCEEDED,
        (Class::Transient | Class::Interrupted, _) => CLOUD_UNREACHABLE,
        _ => CLOUD_REFUSED,
    }
}

/// The error without its counts and ids.
#[must_use]
pub fn of(error: &vco::Error) -> String {
    let what = match (error.status(), error.message()) {
        (Some(status), Some(message)) => format!("{status}: {}", one_line(message)),
        (Some(status), None) => status.to_string(),
        (None, _) => one_line(&error.happened()),
    };
    let about = match error.target() {
        "" => String::new(),
        target => format!(" ({target})"),
    };
    format!("cannot {}{about}: {what}", error.operation())
}

/// Long texts and page breaks are for logs; numbers of a time or an id are for nobody.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().filter(|word| !is_an_id(word)).collect();
    words.join(" ").chars().take(300).collect()
}

/// Such as `"1f0c9a-1630000000.25"` (vco-api.md 12.6, EX).
fn is_an_id(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    bare.len() >= 12
        && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '-' || c == '.')
        && bare.chars().any(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vco::Kind;

    #[test]
    fn a_cloud_out_of_reach_is_named() {
        let place = Some("https://portal.example:443".to_owned());
        let error = vco::Error::new("check the token", "", Kind::Connect).with_place(place);
        assert_eq!(
            of(&error.with_message("refused").after(3, std::time::Duration::from_secs(9))),
            "cannot check the token: no connection to https://portal.example:443: refused"
        );
        let error = vco::Error::new("list VMs", "cloudspace c", Kind::Timeout);
        assert_eq!(of(&error), "cannot list VMs (cloudspace c): no reply in time");
    }

    #[test]
    fn what_differs_each_time_is_left_out() {
        for (text, want) in [
            (
                "Something bad happened. Contact support and pass them \"1f0c9a2b-1630000000.25\"",
                "Something bad happened. Contact support and pass them",
            ),
            ("quota:\n  needs 4 VCPU, 2 left", "quota: needs 4 VCPU, 2 left"),
            ("VM 10.0.0.1 deadbeef", "VM 10.0.0.1 deadbeef"),
        ] {
            assert_eq!(one_line(text), want);
        }
    }
}
