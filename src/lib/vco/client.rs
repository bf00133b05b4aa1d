//! One way for every call: limiter, token, exchange, judgement, and again if that is right.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::watch;
use tracing::Instrument as _;
use url::Url;

use super::auth::{Auth, Credential};
use super::call::{Body, Call, Method, Reply};
use super::config::{self, Config};
use super::error::{Error, Kind};
use super::judge::{self, Raw, Trouble};
use super::limit::Limits;
use super::retry::{self, Failure, Next, Situation};
use super::transport::{Http, Patience, Request};
use super::watch::{Outcome, Watch};
use super::{blank, wire};
use crate::clock::Clock;
use crate::id::CustomerId;

/// A portal, as one user sees it. Clones share the token, the limiters and the connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    base: Url,
    portal: String,
    http: Arc<Http>,
    auth: Auth,
    limits: Arc<Limits>,
    watch: Option<Arc<dyn Watch>>,
    clock: Arc<dyn Clock>,
    read_timeout: Duration,
    write_timeout: Duration,
    retry_for: Duration,
    customer: Option<CustomerId>,
    reached: AtomicBool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("portal", &self.inner.portal).finish_non_exhaustive()
    }
}

/// How a call has gone so far.
#[derive(Debug, Default, Clone, Copy)]
struct Course {
    tries: u32,
    /// In exchanges and pauses; waiting for our own limiter apart.
    spent: Duration,
    renewed: bool,
}

impl Client {
    /// Checks the configuration; nothing is sent yet.
    ///
    /// # Errors
    /// [`Kind::Setting`]: the portal's or the IAM's address or the CA file is not usable.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let base = config::portal(&config.portal)?;
        let http = Arc::new(Http::new(&config, &base, clock.clone())?);
        let mut root = base.clone();
        root.set_path("");
        let auth = Auth::new(&config, base.clone(), http.clone(), clock.clone())?;
        let limits = Limits::new(config.rate_limit, clock.clone());
        let limits = match (config.limiters, auth.user()) {
            (Some(shared), Some(user)) => shared.of(format!("{user} of {base}"), limits),
            _ => Arc::new(limits),
        };
        let inner = Inner {
            auth,
            portal: root.as_str().trim_end_matches('/').to_owned(),
            limits,
            watch: config.watch,
            base,
            http,
            clock,
            read_timeout: config.read_timeout,
            write_timeout: config.write_timeout,
            retry_for: config.retry_for,
            customer: config.customer,
            reached: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The portal's address, for messages.
    #[must_use]
    pub fn portal(&self) -> &str {
        &self.inner.portal
    }

    /// The newest token that the IAM gave: none before the first renewal, then each in turn, for
    /// whoever keeps it for the next start. `Debug` does not show it.
    #[must_use]
    pub fn token_changes(&self) -> watch::Receiver<Option<SecretString>> {
        self.inner.auth.changes()
    }

    /// When the token in use expires, in seconds since 1970; `None` if there is none or it does
    /// not say.
    #[must_use]
    pub fn token_expiry(&self) -> Option<f64> {
        self.inner.auth.expiry()
    }

    /// Whether the token in use carries the right to renew it (vco-api.md 1.1, IYO); `None` if
    /// there is none.
    #[must_use]
    pub fn token_is_renewable(&self) -> Option<bool> {
        self.inner.auth.renewable()
    }

    pub(super) fn configured_customer(&self) -> Option<&CustomerId> {
        self.inner.customer.as_ref()
    }

    pub(super) fn learn_iam(&self, domain: &str) {
        self.inner.auth.learn_iam(domain);
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// Sends a call, repeats it where that is right, and returns the 2xx reply.
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Reply, Error> {
        call.leads_where_it_says()?;
        let span = tracing::debug_span!(
            target: "capvco::vco", "call", operation = call.operation, target = call.target);
        async {
            let mut course = Course::default();
            let outcome = self.inner.run(&call, &mut course).await;
            log(&call, &outcome, course);
            let (raw, json) = outcome?;
            let Call { operation, target, .. } = call;
            Ok(Reply { operation, target, etag: raw.etag, body: raw.body, json })
        }
        .instrument(span)
        .await
    }
}

impl Inner {
    async fn run(&self, call: &Call<'_>, course: &mut Course) -> Result<(Raw, Value), Error> {
        loop {
            let asked = self.clock.elapsed();
            let pass = self.limits.enter(call.at.as_ref(), self.retry_for).await;
            let pass = pass.map_err(|held| left_alone(call, *course, held))?;
            let waited = self.clock.elapsed().saturating_sub(asked);
            let credential = self.auth.credential().await?;
            let begun = self.clock.elapsed();
            let outcome = self.attempt(call, &credential).await;
            drop(pass);
            let took = self.clock.elapsed().saturating_sub(begun);
            self.tell(call.operation, &outcome, took, waited);
            course.tries += 1;
            if !matches!(call.body, Body::Part(..)) {
                course.spent += took;
            }
            let trouble = match outcome {
                Ok(reply) => return Ok(reply),
                Err(trouble) => trouble,
            };
            if trouble.kind == Kind::Status(401) && !course.renewed {
                course.renewed = true;
                match self.auth.refused(&credential).await {
                    Ok(()) => continue,
                    Err(why) => {
                        let error = error(call, trouble, *course).with_source(why);
                        return Err(error.with_advice(Some(self.auth.advice(&credential))));
                    }
                }
            }
            if trouble.failure == Failure::Throttled {
                self.limits.throttled(call.at.as_ref(), begun, trouble.retry_after);
            }
            match retry::decide(self.situation(call, &trouble, *course)) {
                Next::GiveUp => {
                    let advice =
                        (trouble.kind == Kind::Status(401)).then(|| self.auth.advice(&credential));
                    return Err(error(call, trouble, *course).with_advice(advice));
                }
                Next::Retry(wait) => {
                    tracing::trace!(target: "capvco::vco", kind = ?trouble.kind,
                        wait_ms = millis(wait), "again");
                    self.clock.sleep(wait).await;
                    course.spent += wait;
                }
            }
        }
    }

    fn tell(
        &self,
        operation: &'static str,
        outcome: &Result<(Raw, Value), Trouble>,
        took: Duration,
        waited: Duration,
    ) {
        if let Some(watch) = &self.watch {
            let outcome = match outcome {
                Ok((raw, _)) => Outcome::Status(raw.status),
                Err(trouble) => trouble.kind.into(),
            };
            watch.called(operation, outcome, took, waited);
        }
    }

    async fn attempt(
        &self,
        call: &Call<'_>,
        credential: &Credential,
    ) -> Result<(Raw, Value), Trouble> {
        trace_request(call);
        let request = Request {
            method: call.method,
            url: self.url(call),
            token: &credential.token,
            mask: call.mask,
            body: &call.body,
            patience: self.patience(call),
        };
        let raw = self.http.exchange(request).await?;
        trace_reply(call, &raw);
        if raw.status != 429 {
            self.limits.passed();
        }
        let reached = self.reached.load(Ordering::Relaxed);
        if wire::json(&raw.body).is_ok_and(|reply| reply.is_object()) {
            self.reached.store(true, Ordering::Relaxed);
        }
        let json = judge::judge(&raw, call.expect, reached, self.clock.unix())?;
        Ok((raw, json))
    }

    fn url(&self, call: &Call<'_>) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{}", config::API_PATH, call.path));
        let query = call.query.encoded();
        url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        url
    }

    fn patience(&self, call: &Call<'_>) -> Patience {
        let reply = match call.method {
            Method::Get => self.read_timeout,
            Method::Post | Method::Put | Method::Delete => self.write_timeout,
        };
        Patience { reply, stall: self.read_timeout }
    }

    fn situation(&self, call: &Call<'_>, trouble: &Trouble, course: Course) -> Situation {
        Situation {
            repeatable: call.repeatable,
            failure: trouble.failure,
            tries: course.tries,
            spent: course.spent,
            budget: self.retry_for,
            retry_after: trouble.retry_after,
            reached_before: self.reached.load(Ordering::Relaxed),
            jitter: jitter(),
        }
    }
}

/// A sample from 0 to 1; half where the machine gives no randomness.
fn jitter() -> f64 {
    getrandom::u32().map_or(0.5, |sample| f64::from(sample) / f64::from(u32::MAX))
}

/// The cloud has asked to be left alone for longer than a call is tried: nothing is sent.
fn left_alone(call: &Call<'_>, course: Course, held: Duration) -> Error {
    Error::new(call.operation, call.target.clone(), Kind::Status(429))
        .with_message("the cloud has asked to be left alone for a while")
        .with_retry_after(Some(held))
        .after(course.tries.max(1), course.spent)
}

fn error(call: &Call<'_>, trouble: Trouble, course: Course) -> Error {
    let Trouble { kind, failure, message, errorcode, retry_after, place, source } = trouble;
    let mut error = Error::new(call.operation, call.target.clone(), kind)
        .with_errorcode(errorcode)
        .with_retry_after(retry_after)
        .with_place(place)
        .with_outcome_unknown(call.method != Method::Get && retry::outcome_unknown(failure))
        .after(course.tries, course.spent);
    if let Some(message) = message {
        error = error.with_message(message);
    }
    match source {
        Some(source) => error.with_source(source),
        None => error,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One line a call: what `-v` shows. The query stays out of it; it may hold secrets.
fn log(call: &Call<'_>, outcome: &Result<(Raw, Value), Error>, course: Course) {
    let status = match outcome {
        Ok((raw, _)) => raw.status.to_string(),
        Err(error) => {
            error.status().map_or_else(|| format!("{:?}", error.kind()), |s| s.to_string())
        }
    };
    tracing::debug!(
        target: "capvco::vco",
        method = call.method.name(),
        path = %format_args!("{}{}", config::API_PATH, call.path),
        status = %status,
        tries = course.tries,
        ms = millis(course.spent),
    );
}

/// What `-vv` shows, secrets blanked.
fn trace_request(call: &Call<'_>) {
    if !tracing::enabled!(target: "capvco::vco", tracing::Level::TRACE) {
        return;
    }
    let query: Vec<String> = call
        .query
        .pairs()
        .map(|(name, value)| format!("{name}={}", blank::parameter(name, value)))
        .collect();
    let body = match &call.body {
        Body::Empty => String::new(),
        Body::Json(document) => blank::json(document).to_string(),
        Body::Part(part, _) => format!("({} bytes from {})", part.len, part.offset),
    };
    tracing::trace!(target: "capvco::vco", method = call.method.name(), path = %call.path,
        query = %query.join("&"), body = %body, "request");
}

fn trace_reply(call: &Call<'_>, raw: &Raw) {
    if tracing::enabled!(target: "capvco::vco", tracing::Level::TRACE) {
        let body = blank::text(&String::from_utf8_lossy(&raw.body));
        tracing::trace!(target: "capvco::vco", method = call.method.name(), path = %call.path,
            status = raw.status, body = %body, "reply");
    }
}
