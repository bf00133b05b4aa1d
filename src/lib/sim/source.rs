//! A server of image files, honest or bad: where imports come from in tests and demos.
//!
//! Each path has content and a manner, which is how the server (mis)behaves about it. Files
//! beside an image, such as its `.md5`, are pages of their own. Time here is real time.

use std::collections::HashMap;
use std::io::{self, Read, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use md5::{Digest, Md5};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::task::JoinHandle;
use tokio_util::io::ReaderStream;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::upload::hex;
use super::wire::{Door, Peer};
use crate::clock::{Clock, System};

/// What a path holds.
#[derive(Debug, Clone)]
pub enum Content {
    /// These bytes.
    Bytes(Bytes),
    /// A file, read anew for every request.
    File(PathBuf),
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Bytes(text.to_owned().into())
    }
}

impl From<PathBuf> for Content {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

/// How a path is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manner {
    /// As it should be: HEAD, GET, ranges, lengths.
    Honest,
    /// After so many redirects to itself with a counter in the query.
    Redirects(u32),
    /// With a redirect to itself, for ever.
    RedirectLoop,
    /// With a redirect to this URL.
    RedirectTo(String),
    /// With this status and a short text.
    Status(u16),
    /// Without a length, neither for HEAD nor for GET.
    NoLength,
    /// With an HTML page of status 200 in its place.
    Html,
    /// Whole as announced, but the connection ends after so many bytes.
    TruncateAt(u64),
    /// Whole as announced, but the connection is reset after so many bytes.
    ResetAt(u64),
    /// At so many bytes a second.
    Slow(u64),
    /// With 405 for HEAD.
    NoHead,
    /// With the whole content whatever range is asked for.
    NoRanges,
    /// With no reply at all.
    Hang,
}

/// One request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// `HEAD` or `GET`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The range that was asked for.
    pub range: Option<String>,
    /// Whether it carried a token, which no image's server should ever see.
    pub authorized: bool,
}

#[derive(Debug, Default)]
struct Pages {
    pages: HashMap<String, (Content, Manner)>,
    hits: Vec<Hit>,
}

type Shared = Arc<Mutex<Pages>>;

fn lock(pages: &Shared) -> MutexGuard<'_, Pages> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server of image files. Dropping it stops it.
#[must_use = "a server stops when it is dropped"]
pub struct ImageServer {
    addr: SocketAddr,
    pages: Shared,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl ImageServer {
    /// Starts a server without any page on a free loopback port.
    pub async fn start() -> Result<Self, Error> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// Starts a server without any page on this address.
    pub async fn start_at(addr: SocketAddr) -> Result<Self, Error> {
        let (stop, pages) = (CancellationToken::new(), Shared::default());
        let listen = |source| Error::Listen { addr, source };
        let door = Door::open(addr, stop.clone()).await.map_err(listen)?;
        let addr = door.addr().map_err(listen)?;
        let routes = Router::new().fallback(serve).with_state(Arc::clone(&pages));
        let serve = axum::serve(door, routes.into_make_service_with_connect_info::<Peer>());
        let stopped = stop.clone();
        let server = tokio::spawn(async move {
            tokio::select! { _ = serve.into_future() => {}, () = stopped.cancelled() => {} }
        });
        Ok(Self { addr, pages, stop, server })
    }

    /// Serves an image honestly under a path that begins with `/`; returns its URL.
    pub fn put(&self, path: &str, content: impl Into<Content>) -> String {
        self.put_with(path, content, Manner::Honest)
    }

    /// Serves a file honestly, and its MD5 beside it under the same path with `.md5`. Returns
    /// its URL and the MD5. Reads the file once, blocking.
    pub fn put_with_md5(&self, path: &str, file: PathBuf) -> Result<(String, String), Error> {
        let md5 = md5_of(&file).map_err(|source| {
            let (what, path) = ("read the image", file.clone());
            Error::File { what, path, source }
        })?;
        self.put(&format!("{path}.md5"), format!("{md5}\n").as_str());
        Ok((self.put(path, file), md5))
    }

    /// Serves content in this manner; a page that is there already is replaced.
    pub fn put_with(&self, path: &str, content: impl Into<Content>, manner: Manner) -> String {
        lock(&self.pages).pages.insert(path.to_owned(), (content.into(), manner));
        self.url(path)
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// The requests that came so far.
    #[must_use]
    pub fn hits(&self) -> Vec<Hit> {
        lock(&self.pages).hits.clone()
    }

    /// Stops serving and breaks every open connection.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // The task ends by itself now; it cannot fail.
        let _ = (&mut self.server).await;
    }
}

impl Drop for ImageServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn md5_of(path: &Path) -> io::Result<String> {
    let (mut file, mut md5) = (std::fs::File::open(path)?, Md5::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&md5.finalize())),
            n => md5.update(&buffer[..n]),
        }
    }
}

async fn serve(
    State(pages): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response<Body> {
    let page = note(&pages, &request);
    let head = request.method() == Method::HEAD;
    if !head && request.method() != Method::GET {
        return plain(405, "only HEAD and GET");
    }
    let Some((content, manner)) = page else { return plain(404, "no such image") };
    match &manner {
        Manner::Status(status) => plain(*status, "not now"),
        Manner::NoHead if head => plain(405, "no HEAD"),
        Manner::Hang => std::future::pending().await,
        Manner::RedirectLoop => redirect(request.uri().path()),
        Manner::RedirectTo(url) => redirect(url),
        Manner::Redirects(most) if hops(&request) < *most => {
            redirect(&format!("{}?hop={}", request.uri().path(), hops(&request) + 1))
        }
        Manner::Html => {
            let page = "<!DOCTYPE html><html><body>Please sign in</body></html>";
            let mut response = plain(200, page);
            set(response.headers_mut(), header::CONTENT_TYPE, "text/html; charset=utf-8");
            response
        }
        _ => send(content, &manner, &peer, request.headers(), head)
            .await
            .unwrap_or_else(|error| plain(500, &error.to_string())),
    }
}

fn note(pages: &Shared, request: &Request) -> Option<(Content, Manner)> {
    let text = |name| request.headers().get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    let mut pages = lock(pages);
    pages.hits.push(Hit {
        method: request.method().to_string(),
        path: request.uri().to_string(),
        range: text(header::RANGE).map(str::to_owned),
        authorized: request.headers().contains_key(header::AUTHORIZATION),
    });
    pages.pages.get(request.uri().path()).cloned()
}

fn hops(request: &Request) -> u32 {
    let query = request.uri().query().unwrap_or_default();
    query.strip_prefix("hop=").and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn plain(status: u16, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    response
}

fn redirect(to: &str) -> Response<Body> {
    let mut response = plain(302, "elsewhere");
    set(response.headers_mut(), header::LOCATION, to);
    response
}

fn set(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The first and the last byte that a `Range` header asks for, of `whole`; none where it asks
/// for nothing that makes sense.
fn range(header: Option<&HeaderValue>, whole: u64) -> Option<(u64, u64)> {
    let spec = header?.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = spec.split_once('-')?;
    match (first.parse::<u64>().ok(), last.parse::<u64>().ok()) {
        (Some(first), None) if last.is_empty() => Some((first, whole.saturating_sub(1))),
        (Some(first), Some(last)) if first <= last => {
            Some((first, last.min(whole.saturating_sub(1))))
        }
        (None, Some(last)) if first.is_empty() => {
            Some((whole.saturating_sub(last), whole.saturating_sub(1)))
        }
        _ => None,
    }
}

async fn send(
    content: Content,
    manner: &Manner,
    peer: &Peer,
    asked: &HeaderMap,
    head: bool,
) -> io::Result<Response<Body>> {
    let whole = match &content {
        Content::Bytes(bytes) => bytes.len() as u64,
        Content::File(path) => tokio::fs::metadata(path).await?.len(),
    };
    let wanted = asked.get(header::RANGE).filter(|_| *manner != Manner::NoRanges);
    let part = range(wanted, whole);
    if part.is_some_and(|(first, _)| first >= whole) {
        let mut response = plain(416, "no such range");
        set(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{whole}"));
        return Ok(response);
    }
    let (first, last) = part.unwrap_or((0, whole.saturating_sub(1)));
    let length = if whole == 0 { 0 } else { last - first + 1 };
    let chunks = read(content, first, length).await?;
    let body = if head {
        Body::from_stream(stream::empty::<io::Result<Bytes>>())
    } else {
        Body::from_stream(mannered(chunks, manner, peer.clone()))
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    set(headers, header::CONTENT_TYPE, "application/octet-stream");
    if *manner != Manner::NoLength {
        set(headers, header::CONTENT_LENGTH, &length.to_string());
    }
    if *manner != Manner::NoRanges {
        set(headers, header::ACCEPT_RANGES, "bytes");
    }
    if part.is_some() {
        let text = format!("bytes {first}-{last}/{whole}");
        set(headers, header::CONTENT_RANGE, &text);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

type Chunks = stream::BoxStream<'static, io::Result<Bytes>>;

async fn read(content: Content, first: u64, length: u64) -> io::Result<Chunks> {
    Ok(match content {
        Content::Bytes(bytes) => {
            let cut = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
            let part = bytes.slice(cut(first)..cut(first + length));
            stream::iter(pieces(part).into_iter().map(Ok)).boxed()
        }
        Content::File(path) => {
            let mut file = tokio::fs::File::open(path).await?;
            file.seek(SeekFrom::Start(first)).await?;
            ReaderStream::with_capacity(file.take(length), 256 << 10).boxed()
        }
    })
}

fn pieces(mut bytes: Bytes) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        pieces.push(bytes.split_to(bytes.len().min(256 << 10)));
    }
    pieces
}

/// The content as the manner has it delivered.
fn mannered(
    chunks: Chunks,
    manner: &Manner,
    peer: Peer,
) -> impl Stream<Item = io::Result<Bytes>> + use<> {
    let (most, resets) = match manner {
        Manner::TruncateAt(most) => (Some(*most), false),
        Manner::ResetAt(most) => (Some(*most), true),
        _ => (None, false),
    };
    let pace = if let Manner::Slow(rate) = manner { Some((*rate).max(1)) } else { None };
    let clock = Arc::new(System::new());
    stream::unfold((chunks, 0u64, peer), move |(mut chunks, sent, peer)| {
        let clock = Arc::clone(&clock);
        async move {
            let mut chunk = match chunks.next().await? {
                Ok(chunk) => chunk,
                Err(error) => return Some((Err(error), (chunks, sent, peer))),
            };
            let left = most.map_or(u64::MAX, |most| most - sent);
            if left == 0 {
                // What was sent before must have left the house.
                clock.sleep(Duration::from_millis(50)).await;
                if resets {
                    peer.reset();
                } else {
                    peer.close();
                }
                return Some((Err(io::ErrorKind::UnexpectedEof.into()), (chunks, sent, peer)));
            }
            // At a slow pace, ten small pieces a second.
            let piece = pace.map_or(left, |rate: u64| left.min(rate.div_ceil(10)));
            if (chunk.len() as u64) > piece {
                let rest = chunk.split_off(usize::try_from(piece).unwrap_or(usize::MAX));
                chunks = stream::iter([Ok(rest)]).chain(chunks).boxed();
            }
            let sent = sent + chunk.len() as u64;
            if let Some(rate) = pace {
                let due = Duration::from_millis(sent.saturating_mul(1000) / rate);
                clock.sleep(due.saturating_sub(clock.elapsed())).await;
            }
            Some((Ok(chunk), (chunks, sent, peer)))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, want) in [
            ("bytes=0-9", Some((0, 9))),
            ("bytes=90-", Some((90, 99))),
            ("bytes=90-200", Some((90, 99))),
            ("bytes=-10", Some((90, 99))),
            ("bytes=200-", Some((200, 99))),
            ("bytes=9-0", None),
            ("bytes=a-b", None),
            ("rows=0-9", None),
        ] {
            assert_eq!(range(Some(&HeaderValue::from_static(text)), 100), want, "{text}");
        }
        assert_eq!(range(None, 100), None);
    }

    #[tokio::test]
    async fn content_ends_where_the_manner_says() {
        for (manner, want) in [
            (Manner::Honest, 600_000),
            (Manner::TruncateAt(300_000), 300_000),
            (Manner::ResetAt(10), 10),
        ] {
            let peer = Peer::alone();
            let chunks = read(vec![7; 600_000].into(), 0, 600_000).await.unwrap();
            let all: Vec<_> = mannered(chunks, &manner, peer.clone())
                .take_while(|c| std::future::ready(c.is_ok()))
                .collect()
                .await;
            let bytes: usize = all.into_iter().map(|c| c.unwrap().len()).sum();
            assert_eq!(bytes, want, "{manner:?}");
            assert_eq!(peer.is_cut(), manner != Manner::Honest);
        }
    }
}
