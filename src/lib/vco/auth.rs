//! The token: where it comes from, when it is renewed, and how (vco-api.md 1.1).
//!
//! It is renewed 60 s before it expires and when the portal refuses it: first from its file, if
//! another program has put a new one there, else at the IAM. One renewal at a time; whoever
//! waited uses what the other one got.

use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use url::Url;

use super::call::{Body, Expect, Method};
use super::config::{self, Config, TokenSource};
use super::error::{Error, Kind};
use super::hint;
use super::judge::{self, Raw, Trouble};
use super::jwt::{self, Claims};
use super::retry::{self, Next, Situation};
use super::transport::{Http, Patience, Request};
use super::watch::{Outcome, Watch};
use super::{blank, wire};
use crate::clock::Clock;

/// How long before its end a token is renewed (PC).
const MARGIN: f64 = 60.0;

/// How long after a renewal, failed or not, the next one is tried for a token that still holds.
const PAUSE: Duration = Duration::from_secs(15);

/// The longest token file that is read, in bytes.
const LONGEST_TOKEN: u64 = 1 << 20;

/// Where an IAM renews tokens (vco-api.md 1.1, PU and PC).
const REFRESH_PATH: &str = "/v1/oauth/jwt/refresh";

/// Keeps the token.
pub struct Auth {
    source: TokenSource,
    portal: Url,
    http: Arc<Http>,
    clock: Arc<dyn Clock>,
    patience: Patience,
    budget: Duration,
    watch: Option<Arc<dyn Watch>>,
    iam: Mutex<Option<Url>>,
    state: tokio::sync::Mutex<State>,
    /// What the token in use says of itself, for those who may not wait for a renewal.
    claims: Mutex<Option<Claims>>,
    /// The newest token that the IAM gave.
    given_by_iam: watch::Sender<Option<SecretString>>,
}

#[derive(Default)]
struct State {
    held: Option<Credential>,
    not_before: Duration,
}

/// A token as it was when a call was sent.
#[derive(Clone)]
pub struct Credential {
    pub token: SecretString,
    claims: Claims,
    serial: u64,
}

impl Credential {
    fn same_as(&self, token: &SecretString) -> bool {
        self.token.expose_secret() == token.expose_secret()
    }
}

impl Auth {
    pub fn new(
        config: &Config,
        portal: Url,
        http: Arc<Http>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let iam = config.iam_refresh.as_deref().map(config::iam_refresh).transpose()?;
        Ok(Self {
            source: config.token.clone(),
            portal,
            http,
            clock,
            patience: Patience { reply: config.read_timeout, stall: config.read_timeout },
            budget: config.retry_for,
            watch: config.watch.clone(),
            iam: Mutex::new(iam),
            state: tokio::sync::Mutex::default(),
            claims: Mutex::default(),
            given_by_iam: watch::Sender::new(None),
        })
    }

    /// The token to send now.
    pub async fn credential(&self) -> Result<Credential, Error> {
        let mut state = self.state.lock().await;
        let held = match &state.held {
            Some(held) => held.clone(),
            None => self.adopt(&mut state, self.given()?),
        };
        let left = self.left(&held);
        if left > MARGIN || (left > 0.0 && self.clock.elapsed() < state.not_before) {
            return Ok(held);
        }
        match self.renew(&mut state, &held).await {
            Ok(renewed) => Ok(renewed),
            Err(error) if left > 0.0 => {
                tracing::warn!(target: "capvco::vco", error = %crate::fault::chain(&error),
                    "the token expires in {left:.0} s and could not be renewed");
                Ok(held)
            }
            Err(error) => Err(expired(-left, error)),
        }
    }

    /// The portal refused this credential: gets another one, or says why there is none.
    pub async fn refused(&self, refused: &Credential) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        match &state.held {
            // Somebody else has renewed it since.
            Some(held) if held.serial != refused.serial => Ok(()),
            _ => self.renew(&mut state, refused).await.map(|_| ()),
        }
    }

    /// What to do about a token that the portal refused for good.
    pub fn advice(&self, refused: &Credential) -> String {
        let from = match &self.source {
            TokenSource::Inline(_) => "VCO_TOKEN or stdin".to_owned(),
            TokenSource::File(path) => path.display().to_string(),
        };
        hint::refused_token(refused.claims, &from)
    }

    /// The newest token that the IAM gave; none before the first renewal.
    pub fn changes(&self) -> watch::Receiver<Option<SecretString>> {
        self.given_by_iam.subscribe()
    }

    /// When the token in use expires, in seconds since 1970; none if that cannot be read.
    pub fn expiry(&self) -> Option<f64> {
        let held = *lock(&self.claims);
        let given = || self.given().ok().map(|token| jwt::claims(token.expose_secret()));
        held.or_else(given)?.expires
    }

    /// Whether the token in use can be renewed; none if there is no token.
    pub fn renewable(&self) -> Option<bool> {
        let held = *lock(&self.claims);
        let given = || self.given().ok().map(|token| jwt::claims(token.expose_secret()));
        Some(held.or_else(given)?.renewable)
    }

    /// Whom the cloud counts our calls against; none if there is no token.
    pub fn user(&self) -> Option<String> {
        self.given().ok().map(|token| jwt::user(token.expose_secret()))
    }

    /// Remembers where tokens are renewed, from `GET /me`'s `iam_domain`, unless configured.
    pub fn learn_iam(&self, domain: &str) {
        let mut iam = lock(&self.iam);
        if iam.is_none() {
            *iam = refresh_url(domain, &self.portal);
        }
    }

    /// Seconds until it expires; for ever if that cannot be read (it is sent as it is, PC).
    fn left(&self, credential: &Credential) -> f64 {
        credential.claims.expires.map_or(f64::INFINITY, |end| end - self.clock.unix())
    }

    fn given(&self) -> Result<SecretString, Error> {
        let fail = |target: String, why: &str| {
            Error::new("use the token", target, Kind::Token).with_message(why)
        };
        match &self.source {
            TokenSource::Inline(text) => jwt::given(text.expose_secret())
                .ok_or_else(|| fail(String::new(), "it is empty or no token at all")),
            TokenSource::File(path) => {
                let target = format!("file {}", path.display());
                let text = read(path)
                    .map_err(|e| fail(target.clone(), "the file cannot be read").with_source(e))?;
                jwt::given(text.expose_secret())
                    .ok_or_else(|| fail(target, "the file is empty or holds no token"))
            }
        }
    }

    async fn renew(&self, state: &mut State, old: &Credential) -> Result<Credential, Error> {
        state.not_before = self.clock.elapsed() + PAUSE;
        if let Some(token) = self.replaced(old) {
            return Ok(self.adopt(state, token));
        }
        let token = self.refresh(old).await?;
        let renewed = self.adopt(state, token.clone());
        if self.left(&renewed) <= 0.0 {
            let error = Error::new("renew the token", "", Kind::Token);
            return Err(error.with_message("the IAM gave a token that has already expired"));
        }
        self.given_by_iam.send_replace(Some(token));
        tracing::debug!(target: "capvco::vco::auth", "the token was renewed");
        Ok(renewed)
    }

    fn adopt(&self, state: &mut State, token: SecretString) -> Credential {
        let serial = state.held.as_ref().map_or(0, |held| held.serial + 1);
        let claims = jwt::claims(token.expose_secret());
        *lock(&self.claims) = Some(claims);
        let credential = Credential { token, claims, serial };
        state.held = Some(credential.clone());
        credential
    }

    /// A token that somebody has put into the file since, if it is any good.
    fn replaced(&self, old: &Credential) -> Option<SecretString> {
        let TokenSource::File(_) = &self.source else { return None };
        let token = self.given().ok().filter(|token| !old.same_as(token))?;
        let expires = jwt::claims(token.expose_secret()).expires;
        expires.is_none_or(|end| end - self.clock.unix() > MARGIN).then_some(token)
    }

    async fn refresh(&self, old: &Credential) -> Result<SecretString, Error> {
        let url = self.refresh_address(old).await?;
        let target = format!("IAM {}", blank::url(url.as_str()));
        let raw = self.get("renew the token", &target, url, &old.token).await?;
        jwt::in_reply(&raw.body).ok_or_else(|| {
            // Not even an excerpt: whatever it is, it may be a token.
            Error::new("renew the token", target, Kind::Garbled).with_message("it holds no token")
        })
    }

    /// Configured, remembered, or asked of the portal while the token still holds.
    async fn refresh_address(&self, old: &Credential) -> Result<Url, Error> {
        let known = lock(&self.iam).clone();
        if let Some(url) = known {
            return Ok(url);
        }
        let mut me = self.portal.clone();
        me.set_path(&format!("{}/me", config::API_PATH));
        let operation = "find out where tokens are renewed";
        let raw = self.get(operation, "GET /me", me, &old.token).await?;
        let domain = wire::json(&raw.body).ok().and_then(|me| wire::text(&me, "iam_domain"));
        self.learn_iam(domain.as_deref().unwrap_or_default());
        let learnt = lock(&self.iam).clone();
        learnt.ok_or_else(|| {
            let error = Error::new(operation, "GET /me", Kind::Token);
            error.with_message("the portal names no usable iam_domain to renew tokens at")
        })
    }

    /// A small exchange outside all limits, repeated where that may help.
    async fn get(
        &self,
        operation: &'static str,
        target: &str,
        url: Url,
        token: &SecretString,
    ) -> Result<Raw, Error> {
        let begun = self.clock.elapsed();
        let mut tries = 0;
        loop {
            tries += 1;
            let asked = self.clock.elapsed();
            let outcome = self.once(url.clone(), token).await;
            if let Some(watch) = &self.watch {
                let told = match &outcome {
                    Ok(raw) => Outcome::Status(raw.status),
                    Err(trouble) => trouble.kind.into(),
                };
                let took = self.clock.elapsed().saturating_sub(asked);
                watch.called(operation, told, took, Duration::ZERO);
            }
            let trouble = match outcome {
                Ok(raw) => return Ok(raw),
                Err(trouble) => trouble,
            };
            let spent = self.clock.elapsed().saturating_sub(begun);
            let next = retry::decide(Situation {
                repeatable: true,
                failure: trouble.failure,
                tries,
                spent,
                budget: self.budget,
                retry_after: trouble.retry_after,
                reached_before: false,
                jitter: 0.5,
            });
            match next {
                Next::Retry(wait) => self.clock.sleep(wait).await,
                Next::GiveUp => return Err(explain(operation, target, trouble).after(tries, spent)),
            }
        }
    }

    async fn once(&self, url: Url, token: &SecretString) -> Result<Raw, Trouble> {
        let request = Request {
            method: Method::Get,
            url,
            token,
            mask: None,
            body: &Body::Empty,
            patience: self.patience,
        };
        let raw = self.http.exchange(request).await?;
        judge::judge(&raw, Expect::Anything, false, self.clock.unix())?;
        Ok(raw)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn explain(operation: &'static str, target: &str, trouble: Trouble) -> Error {
    let mut error = Error::new(operation, target, trouble.kind).with_place(trouble.place);
    if let Some(message) = trouble.message {
        error = error.with_message(message);
    }
    match trouble.source {
        Some(source) => error.with_source(source),
        None => error,
    }
}

fn expired(ago: f64, why: Error) -> Error {
    let message = format!("it expired {ago:.0} s ago and could not be renewed");
    Error::new("use the token", "", Kind::Token).with_message(message).with_source(why)
}

fn read(path: &Path) -> std::io::Result<SecretString> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST_TOKEN).read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}

/// The address at which `iam_domain` renews tokens. A portal on this machine may name an IAM
/// on this machine, which then speaks http like the portal; all others speak https.
fn refresh_url(domain: &str, portal: &Url) -> Option<Url> {
    let domain = domain.trim().trim_end_matches('/');
    let bare = domain.strip_prefix("https://").unwrap_or(domain);
    let host_only = !bare.is_empty() && !bare.contains(['/', '?', '#', '@', '\\']);
    let url = host_only.then(|| Url::parse(&format!("https://{bare}{REFRESH_PATH}")).ok())??;
    if portal.scheme() == "http" && config::is_loopback(&url) {
        return Url::parse(&format!("http://{bare}{REFRESH_PATH}")).ok();
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_iam_is_a_host_and_https() {
        let portal = Url::parse("https://portal.example/api/1").unwrap();
        let local = Url::parse("http://127.0.0.1:9/api/1").unwrap();
        let path = REFRESH_PATH;
        for (domain, from, url) in [
            ("iam.example", &portal, Some(format!("https://iam.example{path}"))),
            ("iam.example:8443", &portal, Some(format!("https://iam.example:8443{path}"))),
            (" https://iam.example/ ", &portal, Some(format!("https://iam.example{path}"))),
            ("127.0.0.1:7", &local, Some(format!("http://127.0.0.1:7{path}"))),
            ("127.0.0.1:7", &portal, Some(format!("https://127.0.0.1:7{path}"))),
            ("iam.example", &local, Some(format!("https://iam.example{path}"))),
            ("", &portal, None),
            ("http://iam.example", &portal, None),
            ("iam.example/x", &portal, None),
            ("u@iam.example", &portal, None),
            ("iam.example?x", &portal, None),
            ("a b", &portal, None),
        ] {
            let found = refresh_url(domain, from).map(String::from);
            assert_eq!(found, url, "{domain}");
        }
    }
}
