//! The mechanics of one exchange over HTTP: no policy, no retry, no reading.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use url::Url;

use super::call::{Body, Method};
use super::config::{self, Config};
use super::error::{Error, Kind};
use super::judge::{Raw, Trouble};
use super::part::{FilePart, Unreadable};
use super::retry::Failure;
use super::tls;
use crate::clock::Clock;

/// How long connecting may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection that idles longer may have been closed by the other side just as we use it,
/// and a write lost that way has an unknown outcome.
const IDLE: Duration = Duration::from_secs(20);

/// The longest reply that is read, in bytes.
const LONGEST_REPLY: usize = 16 * 1024 * 1024;

/// Sends requests.
#[derive(Debug)]
pub struct Http {
    client: reqwest::Client,
    clock: Arc<dyn Clock>,
}

/// One request.
pub struct Request<'a> {
    pub method: Method,
    pub url: Url,
    pub token: &'a SecretString,
    pub mask: Option<&'static str>,
    pub body: &'a Body<'a>,
    /// How long the reply may take, or, for a part, how long nothing may move.
    pub patience: Patience,
}

/// How long to wait for a reply.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the whole exchange; for a part: from its last byte to the reply.
    pub reply: Duration,
    /// How long the sending of a part may stand still.
    pub stall: Duration,
}

impl Http {
    /// A client for this portal. It follows no redirect, so that the token stays where it is.
    pub fn new(config: &Config, portal: &Url, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client_config(config.ca_file.as_deref())?)
            .user_agent(&config.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .hickory_dns(true);
        if config::is_loopback(portal) {
            // As other programs do: what runs on this machine is not reached through a proxy.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| {
            Error::new("set up HTTP", "", Kind::Setting)
                .with_message("the user agent or a proxy setting is not usable")
                .with_source(error)
        })?;
        Ok(Self { client, clock })
    }

    /// Sends a request and reads the whole reply.
    pub async fn exchange(&self, request: Request<'_>) -> Result<Raw, Trouble> {
        let patience = request.patience;
        let place = place(&request.url);
        let headers = headers(request.token, request.mask)?;
        let method = match request.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Delete => reqwest::Method::DELETE,
        };
        let builder = self.client.request(method, request.url).headers(headers);
        let done = match request.body {
            Body::Empty => {
                let builder = if request.method.may_have_body() {
                    // Left out for an empty body otherwise, and some servers insist on it.
                    builder.header(CONTENT_LENGTH, 0)
                } else {
                    builder
                };
                self.in_time(reply_to(builder), patience.reply).await
            }
            Body::Json(document) => {
                self.in_time(reply_to(builder.json(document)), patience.reply).await
            }
            Body::Part(part, sent) => {
                let (builder, moved) = with_part(builder, part).await?;
                self.while_moving(reply_to(builder), moved, part.len, *sent, patience).await
            }
        };
        let done = done.unwrap_or_else(|waited| {
            let message = format!("waited {} s", waited.as_secs_f64());
            Err(Trouble::new(Kind::Timeout, Failure::TimedOut, Some(message)))
        });
        done.map_err(|trouble| Trouble { place, ..trouble })
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = T>,
        limit: Duration,
    ) -> Result<T, Duration> {
        tokio::select! {
            done = work => Ok(done),
            () = self.clock.sleep(limit) => Err(limit),
        }
    }

    /// Like [`Self::in_time`], but the time starts anew whenever bytes have moved: a part may
    /// take as long as its line needs.
    async fn while_moving<T>(
        &self,
        work: impl Future<Output = T>,
        mut moved: watch::Receiver<u64>,
        len: u64,
        sent: &(dyn Fn(u64) + Send + Sync),
        patience: Patience,
    ) -> Result<T, Duration> {
        let mut work = pin!(work);
        loop {
            let all = *moved.borrow_and_update();
            sent(all);
            let limit = if all < len { patience.stall } else { patience.reply };
            tokio::select! {
                done = &mut work => return Ok(done),
                Ok(()) = moved.changed() => {}
                () = self.clock.sleep(limit) => return Err(limit),
            }
        }
    }
}

/// Whom a URL reaches, the port included.
fn place(url: &Url) -> Option<String> {
    let port = url.port_or_known_default()?;
    Some(format!("{}://{}:{port}", url.scheme(), url.host_str()?))
}

fn headers(token: &SecretString, mask: Option<&'static str>) -> Result<HeaderMap, Trouble> {
    let mut bearer =
        HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).map_err(|_| {
            let message = "the token holds a character that no token has".to_owned();
            Trouble::new(Kind::Token, Failure::Final, Some(message))
        })?;
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(mask) = mask {
        headers.insert("X-Fields", HeaderValue::from_static(mask));
    }
    Ok(headers)
}

async fn with_part(
    builder: reqwest::RequestBuilder,
    part: &FilePart,
) -> Result<(reqwest::RequestBuilder, watch::Receiver<u64>), Trouble> {
    let opened = part.open().await.map_err(unreadable)?;
    let builder = builder
        .header(CONTENT_TYPE, "application/octet-stream")
        .header(CONTENT_LENGTH, part.len)
        .body(reqwest::Body::wrap_stream(opened.bytes));
    Ok((builder, opened.sent))
}

fn unreadable(error: Unreadable) -> Trouble {
    let message = "the file cannot be read".to_owned();
    let trouble = Trouble::new(Kind::File, Failure::Final, Some(message));
    Trouble { source: Some(Box::new(error)), ..trouble }
}

async fn reply_to(builder: reqwest::RequestBuilder) -> Result<Raw, Trouble> {
    let mut reply = builder.send().await.map_err(trouble)?;
    let text = |name: &str| Some(reply.headers().get(name)?.to_str().ok()?.to_owned());
    let mut raw = Raw {
        status: reply.status().as_u16(),
        etag: text("etag"),
        retry_after: text("retry-after"),
        location: text("location"),
        body: Vec::new(),
    };
    while let Some(chunk) = reply.chunk().await.map_err(trouble)? {
        if raw.body.len() + chunk.len() > LONGEST_REPLY {
            let message = Some(format!("it is longer than {LONGEST_REPLY} bytes"));
            return Err(Trouble::new(Kind::Garbled, Failure::Garbled, message));
        }
        raw.body.extend_from_slice(&chunk);
    }
    Ok(raw)
}

/// What a broken exchange was. The URL is taken out of the error: its query may hold secrets.
fn trouble(error: reqwest::Error) -> Trouble {
    let error = error.without_url();
    let (kind, failure) = classify(&error);
    let message = why_no_connection(&error).map(str::to_owned);
    Trouble { source: Some(Box::new(error)), ..Trouble::new(kind, failure, message) }
}

fn why_no_connection(error: &reqwest::Error) -> Option<&'static str> {
    if !error.is_connect() {
        None
    } else if in_chain(error, |e| e.to_string().contains("tunnel")) {
        Some("the proxy does not let us through")
    } else if in_chain(error, speaks_no_tls) {
        Some("this port seems to speak plain http")
    } else {
        None
    }
}

fn speaks_no_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        error.downcast_ref(),
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType))
    )
}

fn classify(error: &reqwest::Error) -> (Kind, Failure) {
    if error.is_builder() {
        (Kind::Bug, Failure::Final)
    } else if in_chain(error, <dyn std::error::Error>::is::<Unreadable>) {
        (Kind::File, Failure::Final)
    } else if !error.is_connect() {
        (Kind::Lost, Failure::Lost)
    } else if in_chain(error, <dyn std::error::Error>::is::<rustls::Error>) {
        (Kind::Tls, Failure::Final)
    } else if in_chain(error, |e| e.to_string().contains("dns error")) {
        (Kind::Name, Failure::NoName)
    } else {
        (Kind::Connect, Failure::NotSent)
    }
}

/// Whether any error in the chain is such; an I/O error hides the one it carries from
/// `source`, so that one is asked as well.
fn in_chain(
    error: &(dyn std::error::Error + 'static),
    is: impl Fn(&(dyn std::error::Error + 'static)) -> bool + Copy,
) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let carried = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if is(error) || carried.is_some_and(|carried| in_chain(carried, is)) {
            return true;
        }
        next = error.source();
    }
    false
}
