//! One download of an image for its digests, resumed where the server lets us.

use std::time::Duration;

use ::url::Url;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode};

use super::SourceError;
use super::digest::{Digests, Hashers};
use super::error::Cause;
use super::probe::{Probe, SILENCE, Silent, answer, content_range, ranges, text};
use super::url::shown;

/// How often a broken download is taken up again.
const RESUMES: u32 = 4;

/// How far a download is, and what it is held to.
struct Progress<'a> {
    url: &'a Url,
    expected: u64,
    got: u64,
    etag: Option<String>,
    resumable: bool,
}

impl Probe {
    /// Downloads `url` once and returns what its bytes add up to. Exactly `expect_bytes` must
    /// come; `seen` is told how many came so far. A download that breaks is resumed a few times
    /// if the server knows ranges and still has the same content.
    ///
    /// # Errors
    /// The server cannot be asked, sends less or more, or stands still for 60 s.
    pub async fn digest_url(
        &self,
        url: &Url,
        expect_bytes: u64,
        seen: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Digests, SourceError> {
        let hashers = Hashers::start();
        let mut at = Progress { url, expected: expect_bytes, got: 0, etag: None, resumable: false };
        let mut broken = None;
        for resume in 0..=RESUMES {
            if let Some(error) = broken.take() {
                if !at.resumable {
                    return Err(error);
                }
                self.clock.sleep(Duration::from_secs(1 << (resume - 1))).await;
                match self.again(&at).await {
                    Ok(response) => broken = self.pump(&mut at, response, &hashers, seen).await?,
                    Err(Again::Never(error)) => return Err(error),
                    Err(Again::Later(cause)) => broken = Some(at.cut(Some(cause))),
                    Err(Again::Unable) => return Err(error),
                }
            } else {
                let response = self.first(&mut at).await?;
                broken = self.pump(&mut at, response, &hashers, seen).await?;
            }
            if broken.is_none() {
                return hashers.finish().await;
            }
        }
        Err(broken.unwrap_or_else(|| at.cut(None)))
    }

    async fn first(&self, at: &mut Progress<'_>) -> Result<Response, SourceError> {
        let response = self.follow(Method::GET, at.url, &HeaderMap::new()).await?.response;
        if response.status() != StatusCode::OK {
            return Err(answer("GET", at.url, response.status()));
        }
        let headers = response.headers();
        if let Some(length) = text(headers, header::CONTENT_LENGTH).and_then(|t| t.parse().ok()) {
            at.same_length(length)?;
        }
        at.etag = text(headers, header::ETAG);
        at.resumable = text(headers, header::ACCEPT_RANGES).is_some_and(|t| t == "bytes");
        Ok(response)
    }

    async fn again(&self, at: &Progress<'_>) -> Result<Response, Again> {
        let mut headers = ranges(at.got, None);
        let strong = at.etag.as_deref().filter(|etag| !etag.starts_with("W/"));
        if let Some(etag) = strong.and_then(|etag| HeaderValue::from_str(etag).ok()) {
            headers.insert(header::IF_RANGE, etag);
        }
        let arrived = self.follow(Method::GET, at.url, &headers).await;
        let response = arrived.map_err(|e| Again::Later(e.into()))?.response;
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Again::Later(answer("GET", at.url, status).into()));
        }
        if status != StatusCode::PARTIAL_CONTENT {
            return Err(Again::Unable);
        }
        let headers = response.headers();
        match content_range(headers) {
            Some((first, total)) if first == at.got => {
                total.map_or(Ok(()), |t| at.same_length(t)).map_err(Again::Never)?;
            }
            _ => return Err(Again::Unable),
        }
        if text(headers, header::ETAG) != at.etag {
            let what = "its ETag is another one".to_owned();
            return Err(Again::Never(SourceError::Changed { url: shown(at.url), what }));
        }
        Ok(response)
    }

    /// Reads one answer to its end. `Ok(Some(_))` is an end that came too early.
    async fn pump(
        &self,
        at: &mut Progress<'_>,
        mut response: Response,
        hashers: &Hashers,
        seen: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Option<SourceError>, SourceError> {
        loop {
            match self.piece(&mut response).await {
                Ok(Some(piece)) => {
                    at.got += piece.len() as u64;
                    if at.got > at.expected {
                        return Err(at.changed(format!("more than {} bytes came", at.expected)));
                    }
                    hashers.feed(piece).await?;
                    seen(at.got);
                }
                Ok(None) if at.got == at.expected => return Ok(None),
                Ok(None) => return Ok(Some(at.cut(None))),
                Err(cause) => return Ok(Some(at.cut(Some(cause)))),
            }
        }
    }
}

/// Why a download cannot be taken up.
enum Again {
    /// Not now.
    Later(Cause),
    /// The server does not continue where it stopped.
    Unable,
    /// It is not the same file any more.
    Never(SourceError),
}

impl Progress<'_> {
    fn cut(&self, cause: Option<Cause>) -> SourceError {
        let (url, got, expected) = (shown(self.url), self.got, self.expected);
        if cause.as_ref().is_some_and(|cause| cause.is::<Silent>()) {
            return SourceError::Stalled { url, got, expected, seconds: SILENCE.as_secs() };
        }
        SourceError::Cut { url, got, expected, source: cause }
    }

    fn changed(&self, what: String) -> SourceError {
        SourceError::Changed { url: shown(self.url), what }
    }

    fn same_length(&self, length: u64) -> Result<(), SourceError> {
        if length == self.expected {
            return Ok(());
        }
        Err(self.changed(format!("it had {} bytes and now has {length}", self.expected)))
    }
}
