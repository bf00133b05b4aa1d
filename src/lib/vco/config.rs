//! What a client needs to know: where the portal is, who we are, and how patient to be.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::error::{Error, Kind};
use super::limit::Limiters;
use super::watch::Watch;
use crate::id::CustomerId;

/// The base path of the API (vco-api.md section 0, SW).
pub const API_PATH: &str = "/api/1";

/// Where the token comes from.
#[derive(Debug, Clone)]
pub enum TokenSource {
    /// The token itself (from the environment or stdin: the caller reads those).
    Inline(SecretString),
    /// A file that holds the token; read again when the token is about to expire or was
    /// refused, so that another program may keep it fresh.
    File(PathBuf),
}

/// How many requests to start in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    /// No limit of our own.
    Off,
    /// At most `calls` in any `window`.
    Per {
        /// Calls, at least 1.
        calls: u32,
        /// The stretch of time, more than zero.
        window: Duration,
    },
}

/// The back-end's figures: 20 requests in 5 s per user (vco-api.md 12.7, G8D).
pub const BACK_END: RateLimit = RateLimit::Per { calls: 20, window: Duration::from_secs(5) };

/// Why a text is no rate limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rate limit {0:?} is neither \"off\" nor CALLS/SECONDS such as 20/5")]
pub struct BadRateLimit(String);

impl FromStr for RateLimit {
    type Err = BadRateLimit;

    fn from_str(text: &str) -> Result<Self, BadRateLimit> {
        let bad = || BadRateLimit(text.chars().take(80).collect());
        if text == "off" {
            return Ok(Self::Off);
        }
        let (calls, seconds) = text.split_once('/').ok_or_else(bad)?;
        let calls: u32 = calls.parse().map_err(|_| bad())?;
        let seconds: f64 = seconds.parse().map_err(|_| bad())?;
        let window = Duration::try_from_secs_f64(seconds).map_err(|_| bad())?;
        if calls == 0 || window.is_zero() || window > Duration::from_hours(1) {
            return Err(bad());
        }
        Ok(Self::Per { calls, window })
    }
}

/// Everything that shapes a client.
#[derive(Debug, Clone)]
pub struct Config {
    /// The portal's address as the user wrote it; checked by `Client::new`.
    pub portal: String,
    /// Where tokens are refreshed; without it derived from `GET /me`'s `iam_domain`.
    pub iam_refresh: Option<String>,
    /// Certificates (PEM) to trust beside the bundled and the system's ones.
    pub ca_file: Option<PathBuf>,
    /// Where the token comes from.
    pub token: TokenSource,
    /// The customer; without it discovered through `GET /me`.
    pub customer: Option<CustomerId>,
    /// The `User-Agent`, with version.
    pub user_agent: String,
    /// How long one try of a reading call may take.
    pub read_timeout: Duration,
    /// How long one try of a changing call may take: writes are slow and synchronous
    /// (vco-api.md 12.7, PC: at least 300 s).
    pub write_timeout: Duration,
    /// Our own limit on calls; `None`: the back-end's figures for each location, none for the
    /// portal until it complains.
    pub rate_limit: Option<RateLimit>,
    /// How long the tries of one call and the pauses between them may take altogether; waiting
    /// for our own limit does not count, and of uploading a part only the pauses do.
    pub retry_for: Duration,
    /// Where clients of the same user meet to share their limits; without it, only a client's
    /// own clones share them. A process with several clients gives all of them the same one.
    pub limiters: Option<Limiters>,
    /// Who is told of every exchange.
    pub watch: Option<Arc<dyn Watch>>,
}

impl Config {
    /// The defaults, for this portal and token.
    #[must_use]
    pub fn new(portal: impl Into<String>, token: TokenSource) -> Self {
        Self {
            portal: portal.into(),
            iam_refresh: None,
            ca_file: None,
            token,
            customer: None,
            user_agent: concat!("capvco/", env!("CARGO_PKG_VERSION")).to_owned(),
            read_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_mins(5),
            rate_limit: None,
            retry_for: Duration::from_mins(2),
            limiters: None,
            watch: None,
        }
    }
}

/// Whether a URL's host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Checks the portal's address and appends the API's base path where it is missing.
pub(crate) fn portal(text: &str) -> Result<Url, Error> {
    let mut url = web_address(text, "portal URL")?;
    match url.path().trim_end_matches('/') {
        "" | API_PATH => url.set_path(API_PATH),
        _ => return Err(refuse("portal URL", text, "has a path other than /api/1")),
    }
    Ok(url)
}

/// Checks the address at which tokens are refreshed.
pub(crate) fn iam_refresh(text: &str) -> Result<Url, Error> {
    web_address(text, "IAM refresh URL")
}

fn web_address(text: &str, what: &'static str) -> Result<Url, Error> {
    if text.trim().is_empty() {
        return Err(refuse(what, text, "is empty"));
    }
    let url = Url::parse(text.trim()).map_err(|e| match e {
        url::ParseError::RelativeUrlWithoutBase => refuse(what, text, "has no scheme"),
        _ => refuse(what, text, "is no URL"),
    })?;
    if !matches!(url.scheme(), "https" | "http") {
        // `portal.example.com:8443` parses as a scheme with a path.
        return Err(refuse(what, text, "has no scheme https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The text holds a password: it is not repeated.
        return Err(refuse(what, "", "holds a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse(what, "", "holds a query or fragment"));
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(refuse(what, text, "is http: a token travels over https only"));
    }
    Ok(url)
}

fn refuse(what: &'static str, text: &str, why: &str) -> Error {
    let shown: String = text.chars().take(120).collect();
    let target = if shown.is_empty() { what.to_owned() } else { format!("{what} {shown:?}") };
    Error::new("use", target, Kind::Setting).with_message(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_are_checked_and_completed() {
        for (text, base) in [
            ("https://try.whitesky.cloud", "https://try.whitesky.cloud/api/1"),
            ("https://try.whitesky.cloud/", "https://try.whitesky.cloud/api/1"),
            (" https://try.whitesky.cloud/api/1/ ", "https://try.whitesky.cloud/api/1"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/api/1"),
            ("http://[::1]:8080/api/1", "http://[::1]:8080/api/1"),
            ("http://localhost:1", "http://localhost:1/api/1"),
        ] {
            assert_eq!(portal(text).unwrap().as_str(), base, "{text}");
        }
    }

    #[test]
    fn wrong_portals_are_usage_errors_that_say_why() {
        for (text, why) in [
            ("", "is empty"),
            ("try.whitesky.cloud", "has no scheme"),
            ("try.whitesky.cloud:443", "has no scheme"),
            ("ftp://try.whitesky.cloud", "has no scheme https"),
            ("https://", "is no URL"),
            ("https://try.whitesky.cloud/portal", "has a path other than /api/1"),
            ("https://try.whitesky.cloud/api/2", "has a path other than /api/1"),
            ("http://try.whitesky.cloud", "is http"),
            ("https://u:hunter2@try.whitesky.cloud", "holds a user name or password"),
            ("https://try.whitesky.cloud/?x=hunter2", "holds a query"),
        ] {
            let error = portal(text).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(why), "{text}: {said}");
            assert!(!said.contains("hunter2"), "{said}");
            assert_eq!(crate::fault::Fault::class(&error), crate::fault::Class::Usage);
        }
    }

    #[test]
    fn rate_limits_parse() {
        let per = |calls, ms| Ok(RateLimit::Per { calls, window: Duration::from_millis(ms) });
        assert_eq!("off".parse(), Ok(RateLimit::Off));
        assert_eq!("20/5".parse::<RateLimit>(), per(20, 5000));
        assert_eq!("1/0.5".parse::<RateLimit>(), per(1, 500));
        for bad in
            ["", "20", "0/5", "5/0", "x/5", "5/x", "-1/5", "5/-1", "5/inf", "5/1e300", "5/nan"]
        {
            assert!(bad.parse::<RateLimit>().is_err(), "{bad}");
        }
    }
}
