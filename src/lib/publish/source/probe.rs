//! Looks at an image's URL the way the cloud will: HEAD first, then GET (vco-api.md 3.2, G8S).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::url::Url;
use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Method, Response, StatusCode};

use super::SourceError;
use super::error::Cause;
use super::sidecar::{self, Sidecars};
use super::url::{beside, file_name, redirect, shown, usable};
use crate::clock::Clock;
use crate::publish::image::{self, Alien, Format, Unfit};
use crate::vco;

/// Redirects that are followed; a release download link usually needs one or two.
const MAX_REDIRECTS: u8 = 5;
/// How long a server may say nothing, before and within an answer.
pub(super) const SILENCE: Duration = Duration::from_mins(1);
const CONNECT: Duration = Duration::from_secs(10);
/// The largest list of checksums that is read.
const MAX_SIDECAR_BYTES: usize = 1 << 20;

/// What is known of an image at a URL.
#[derive(Debug, Clone)]
pub struct UrlFacts {
    /// How long it is, in bytes.
    pub bytes: u64,
    /// Where the redirects end; the URL itself where there are none.
    pub final_url: Url,
    /// How many redirects there are.
    pub redirects: u8,
    /// What its first bytes are.
    pub format: Format,
    /// The size of the disk inside, in bytes, where the format tells it.
    pub virtual_bytes: Option<u64>,
    /// The server's own mark of this content.
    pub etag: Option<String>,
    /// What should be said about it, one sentence each.
    pub warnings: Vec<String>,
}

/// A client for images' servers, which never carries the cloud's token.
#[derive(Debug, Clone)]
pub struct Probe {
    client: reqwest::Client,
    pub(super) clock: Arc<dyn Clock>,
}

/// An answer, and where it came from.
pub(super) struct Arrived {
    pub response: Response,
    pub url: Url,
    pub redirects: u8,
}

/// Something small did not come as a whole within [`SILENCE`], although it kept coming.
#[derive(Debug, thiserror::Error)]
#[error("it did not come within {} s", SILENCE.as_secs())]
struct Slow;

/// Nothing came for [`SILENCE`].
#[derive(Debug, thiserror::Error)]
#[error("nothing came for {} s", SILENCE.as_secs())]
pub(super) struct Silent;

impl Probe {
    /// A client that trusts the usual authorities and those in `ca_file`.
    ///
    /// # Errors
    /// [`SourceError::Setup`]: the file holds no certificate, or cannot be read.
    pub fn new(
        user_agent: &str,
        ca_file: Option<&Path>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SourceError> {
        let tls = vco::tls::client_config(ca_file).map_err(|e| SourceError::Setup(e.into()))?;
        let client = reqwest::Client::builder()
            .user_agent(user_agent)
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .hickory_dns(true)
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|e| SourceError::Setup(e.into()))?;
        Ok(Self { client, clock })
    }

    /// Looks whether the cloud could import from `url`: HEAD is answered 200 with a length, after
    /// at most 5 redirects and never from https to http, and the first bytes are an image.
    ///
    /// # Errors
    /// The first thing that is wrong, or that the server could not be asked.
    pub async fn check_url(&self, url: &Url) -> Result<UrlFacts, SourceError> {
        let head = self.follow(Method::HEAD, url, &HeaderMap::new()).await?;
        let bytes = self.promised(url, &head).await?;
        let range = ranges(0, Some(image::HEAD_BYTES as u64 - 1));
        let get = self.follow(Method::GET, url, &range).await?;
        let status = get.response.status();
        if status != StatusCode::OK && status != StatusCode::PARTIAL_CONTENT {
            return Err(answer("GET", url, status));
        }
        let headers = get.response.headers().clone();
        let total = total(status, &headers).unwrap_or(bytes);
        let first = self.beginning(url, get.response, total).await?;
        let mut facts = image::examine(&first, total)
            .map_err(|unfit| SourceError::Unfit { thing: shown(url), unfit })?;
        if total != bytes {
            let what = format!("HEAD says {bytes} bytes, GET {total}");
            return Err(SourceError::Changed { url: shown(url), what });
        }
        if text(&headers, header::CONTENT_TYPE).is_some_and(|t| t.starts_with("text/html")) {
            let said = "the server calls the image text/html, though its bytes are an image";
            facts.warnings.push(said.into());
        }
        Ok(UrlFacts {
            bytes,
            final_url: head.url,
            redirects: head.redirects,
            format: facts.format,
            virtual_bytes: facts.virtual_bytes,
            etag: text(head.response.headers(), header::ETAG),
            warnings: facts.warnings,
        })
    }

    /// Collects the checksums that lie beside the image: `URL.md5`, `URL.sha256`, `URL.CHECKSUM`,
    /// and the lists `CHECKSUM`, `SHA256SUMS`, `MD5SUMS` in its folder. What is not there, or
    /// cannot be read, is absent; the latter with a warning.
    ///
    /// # Errors
    /// [`SourceError::SidecarConflict`].
    pub async fn sidecars(&self, url: &Url) -> Result<Sidecars, SourceError> {
        let name = file_name(url);
        let urls = sidecar::PLACES.map(|place| beside(url, place));
        let texts = join_all(urls.iter().map(|url| self.small_text(url))).await;
        let mut found = Sidecars::default();
        for ((place, url), text) in sidecar::PLACES.into_iter().zip(&urls).zip(texts) {
            match text {
                Ok(Some(text)) => found.take(place, &shown(url), &text, &name)?,
                Ok(None) => {}
                Err(why) => found.warnings.push(format!("{} was not read: {why}", shown(url))),
            }
        }
        Ok(found)
    }

    /// The length that the answer to HEAD promises.
    async fn promised(&self, url: &Url, head: &Arrived) -> Result<u64, SourceError> {
        let status = head.response.status();
        if status != StatusCode::OK {
            // Object stores sign a URL for one method; some servers know no HEAD at all.
            let maybe_only_head = matches!(status.as_u16(), 400 | 403 | 405 | 501);
            if maybe_only_head && self.get_works(url).await {
                return Err(SourceError::HeadRefused { url: shown(url), status: status.as_u16() });
            }
            return Err(answer("HEAD", url, status));
        }
        match text(head.response.headers(), header::CONTENT_LENGTH).and_then(|t| t.parse().ok()) {
            Some(0) => {
                let unfit = Unfit::Alien(Alien::Empty);
                Err(SourceError::Unfit { thing: shown(url), unfit })
            }
            Some(bytes) => Ok(bytes),
            None => Err(SourceError::NoLength(shown(url))),
        }
    }

    async fn get_works(&self, url: &Url) -> bool {
        let get = self.follow(Method::GET, url, &ranges(0, Some(0))).await;
        get.is_ok_and(|arrived| arrived.response.status().is_success())
    }

    /// Sends a request and follows its redirects by hand.
    pub(super) async fn follow(
        &self,
        method: Method,
        start: &Url,
        headers: &HeaderMap,
    ) -> Result<Arrived, SourceError> {
        usable(start).map_err(|why| SourceError::BadUrl { url: shown(start), why: why.into() })?;
        let mut way = vec![start.clone()];
        loop {
            let at = &way[way.len() - 1];
            let response = self.send(method.clone(), at, headers).await?;
            let redirects = u8::try_from(way.len() - 1).unwrap_or(u8::MAX);
            let moved = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            let Some(to) = text(response.headers(), header::LOCATION).filter(|_| moved) else {
                return Ok(Arrived { response, url: at.clone(), redirects });
            };
            let to = redirect(at, &to)?;
            if way.contains(&to) {
                way.push(to);
                let way = way.iter().map(shown).collect::<Vec<_>>().join(" → ");
                return Err(SourceError::RedirectLoop { url: shown(start), way });
            }
            if redirects == MAX_REDIRECTS {
                let (url, limit) = (shown(start), MAX_REDIRECTS);
                return Err(SourceError::TooManyRedirects { url, limit });
            }
            way.push(to);
        }
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
    ) -> Result<Response, SourceError> {
        let verb = if method == Method::HEAD { "HEAD" } else { "GET" };
        let failed = |source: Cause| SourceError::Network { method: verb, url: shown(url), source };
        let request = self.client.request(method, url.clone()).headers(headers.clone());
        tokio::select! {
            answer = request.send() => answer.map_err(|e| failed(e.without_url().into())),
            () = self.clock.sleep(SILENCE) => Err(failed(Silent.into())),
        }
    }

    /// The first bytes of the image; the connection is dropped with the rest unread.
    async fn beginning(
        &self,
        url: &Url,
        mut response: Response,
        total: u64,
    ) -> Result<Vec<u8>, SourceError> {
        let want = usize::try_from(total).unwrap_or(usize::MAX).min(image::HEAD_BYTES);
        let mut first = Vec::with_capacity(want);
        let cut = |got: usize, source| SourceError::Cut {
            url: shown(url),
            got: got as u64,
            expected: total,
            source,
        };
        // Not one silence, but all of them together: this is little.
        let mut late = self.clock.sleep(SILENCE);
        while first.len() < want {
            let piece = tokio::select! {
                biased;
                piece = self.piece(&mut response) => piece,
                () = &mut late => Err(Slow.into()),
            };
            match piece {
                Ok(Some(piece)) => first.extend_from_slice(&piece),
                Ok(None) => return Err(cut(first.len(), None)),
                Err(source) => return Err(cut(first.len(), Some(source))),
            }
        }
        first.truncate(want);
        Ok(first)
    }

    /// The next piece of an answer's body, or `None` at its end.
    pub(super) async fn piece(&self, response: &mut Response) -> Result<Option<Bytes>, Cause> {
        tokio::select! {
            piece = response.chunk() => piece.map_err(|e| e.without_url().into()),
            () = self.clock.sleep(SILENCE) => Err(Silent.into()),
        }
    }

    /// A small text, or `None` where there is none; the error says why it cannot be told.
    async fn small_text(&self, url: &Url) -> Result<Option<String>, String> {
        tokio::select! {
            biased;
            text = self.whole_text(url) => text,
            () = self.clock.sleep(SILENCE) => Err(Slow.to_string()),
        }
    }

    async fn whole_text(&self, url: &Url) -> Result<Option<String>, String> {
        let arrived = self.follow(Method::GET, url, &HeaderMap::new()).await;
        let mut response = arrived.map_err(|e| crate::fault::chain(&e))?.response;
        match response.status() {
            status if status.is_success() => {}
            status if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                return Ok(None);
            }
            status => return Err(format!("the server answered {}", status.as_u16())),
        }
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut response).await.map_err(|e| e.to_string())? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_SIDECAR_BYTES {
                return Err("it is too long for a checksum file".into());
            }
        }
        Ok(Some(String::from_utf8_lossy(&body).into_owned()))
    }
}

pub(super) fn answer(method: &'static str, url: &Url, status: StatusCode) -> SourceError {
    SourceError::Answer { method, url: shown(url), status: status.as_u16() }
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// A `Range` header from `first` to `last`, or to the end.
pub(super) fn ranges(first: u64, last: Option<u64>) -> HeaderMap {
    let last = last.map(|n| n.to_string()).unwrap_or_default();
    let value = header::HeaderValue::from_str(&format!("bytes={first}-{last}"));
    value.into_iter().map(|value| (header::RANGE, value)).collect()
}

/// First byte and whole length that `Content-Range: bytes 0-9/100` tells.
pub(super) fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let value = text(headers, header::CONTENT_RANGE)?;
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
}

/// The whole length of the image, as an answer to GET tells it.
fn total(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    if status == StatusCode::PARTIAL_CONTENT {
        content_range(headers)?.1
    } else {
        text(headers, header::CONTENT_LENGTH)?.parse().ok()
    }
}
