//! What every exchange with the store goes through, on its way to the SDK's HTTP client: bodies
//! are paced, counted and watched for standing still; dates are noted.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::date;
use super::pace::{self, Pace};
use crate::clock::{Clock, Sleep};

/// How long a call of the SDK's own (for credentials) may stand still.
const OWN_CALLS: Duration = Duration::from_secs(10);

/// The fewest bytes of a stream that count as movement, so that a byte a second is none.
pub const LEAST: u64 = 16 << 10;

/// What a call's reply may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Kept in memory whole: no longer than so many bytes, and soon complete.
    Small(u64),
    /// An object's bytes, handed on as they come.
    Stream,
}

/// Far more than any answer about one thing has.
pub const SMALL: Reply = Reply::Small(1 << 20);

/// More than a page of a thousand of the longest keys.
pub const LIST: Reply = Reply::Small(8 << 20);

/// Nothing moved for so long.
#[derive(Debug, thiserror::Error)]
#[error("nothing moved for {} s", .0.as_secs())]
pub struct Stalled(Duration);

/// Too little moved in so long.
#[derive(Debug, thiserror::Error)]
#[error("{} bytes came in {} s", .0, .1.as_secs())]
pub struct Slow(u64, Duration);

/// More came than any such reply has.
#[derive(Debug, thiserror::Error)]
#[error("it is longer than {} MiB", .0 >> 20)]
pub struct Oversize(u64);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How far a call has come, over all its tries: sending the same bytes again achieves nothing.
#[derive(Debug)]
pub struct Achieved {
    clock: Arc<dyn Clock>,
    furthest: AtomicU64,
    at_ms: AtomicU64,
}

impl Achieved {
    /// Nothing yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let at_ms = AtomicU64::new(ms(clock.elapsed()));
        Self { clock, furthest: AtomicU64::new(0), at_ms }
    }

    /// How long nothing new has been achieved.
    pub fn idle(&self) -> Duration {
        let at = Duration::from_millis(self.at_ms.load(Ordering::Relaxed));
        self.clock.elapsed().saturating_sub(at)
    }

    fn reached(&self, position: u64) {
        if self.furthest.fetch_max(position, Ordering::Relaxed) < position {
            self.at_ms.store(ms(self.clock.elapsed()), Ordering::Relaxed);
        }
    }
}

/// One try of a call, as an extension of its request.
#[derive(Debug)]
pub struct Attempt {
    patience: Duration,
    reply: Reply,
    achieved: Arc<Achieved>,
    moved_ms: AtomicU64,
    position: AtomicU64,
}

impl Attempt {
    /// A try that may stand still for `patience`.
    pub fn new(patience: Duration, reply: Reply, achieved: Arc<Achieved>) -> Arc<Self> {
        let moved_ms = AtomicU64::new(ms(achieved.clock.elapsed()));
        Arc::new(Self { patience, reply, achieved, moved_ms, position: AtomicU64::new(0) })
    }

    /// How long all of a small reply may be waited for, or [`LEAST`] bytes of a stream.
    fn whole(&self, reply: Reply) -> Duration {
        match reply {
            Reply::Small(_) => self.patience * 4,
            Reply::Stream => self.patience,
        }
    }

    fn moved(&self, bytes: usize) {
        let position = self.position.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.achieved.reached(position);
        self.moved_ms.store(ms(self.achieved.clock.elapsed()), Ordering::Relaxed);
    }

    /// How much longer it may stand still.
    fn left(&self) -> Duration {
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        (moved + self.patience).saturating_sub(self.achieved.clock.elapsed())
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The store's time, as its last reply had it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Seconds since 1970.
    pub date: f64,
    /// When, on our clock.
    pub at: Duration,
}

/// The SDK's HTTP client, watched.
#[derive(Debug, Clone)]
pub struct Wire {
    inner: SharedHttpConnector,
    clock: Arc<dyn Clock>,
    pace: Option<Arc<Pace>>,
    seen: Arc<Mutex<Option<Seen>>>,
}

impl Wire {
    pub fn new(inner: SharedHttpConnector, clock: Arc<dyn Clock>, pace: Option<Pace>) -> Self {
        Self { inner, clock, pace: pace.map(Arc::new), seen: Arc::default() }
    }

    /// The store's time in its last reply.
    pub fn seen(&self) -> Option<Seen> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, response: &HttpResponse) {
        if let Some(date) = response.headers().get("date").and_then(date::read) {
            let seen = Seen { date, at: self.clock.elapsed() };
            *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        }
    }

    fn outgoing(&self, body: SdkBody, attempt: &Arc<Attempt>) -> SdkBody {
        match body.content_length() {
            Some(0) | None => body,
            Some(len) => SdkBody::from_body_1_x(Outgoing {
                inner: body,
                rest: Bytes::new(),
                left: len,
                wait: Waiting::default(),
                wire: self.clone(),
                attempt: attempt.clone(),
            }),
        }
    }

    fn incoming(&self, body: SdkBody, reply: Reply, attempt: Arc<Attempt>) -> SdkBody {
        SdkBody::from_body_1_x(Incoming {
            inner: body,
            reply,
            taken: 0,
            waited: Duration::ZERO,
            asked: None,
            stall: Waiting::default(),
            wait: Waiting::default(),
            wire: self.clone(),
            attempt,
        })
    }

    /// How long bytes have to wait for their turn, if at all.
    fn turn(&self, bytes: usize) -> Option<Sleep> {
        let pace = self.pace.as_ref()?;
        let wait = pace.draw(bytes, self.clock.elapsed());
        (!wait.is_zero()).then(|| self.clock.sleep(wait))
    }

    fn chunk(&self) -> usize {
        self.pace.as_ref().map_or(pace::CHUNK, |pace| pace.chunk())
    }
}

impl HttpClient for Wire {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Wire {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        let attempt = request.extension::<Arc<Attempt>>().cloned().unwrap_or_else(|| {
            Attempt::new(OWN_CALLS, SMALL, Arc::new(Achieved::new(self.clock.clone())))
        });
        let body = self.outgoing(request.take_body(), &attempt);
        *request.body_mut() = body;
        let (work, wire) = (self.inner.call(request), self.clone());
        HttpConnectorFuture::new(async move {
            let mut response = while_moving(work, &attempt, &*wire.clock).await?;
            wire.note(&response);
            // The SDK keeps a refusal whole, whatever was asked for.
            let reply = if response.status().is_success() { attempt.reply } else { SMALL };
            let body = wire.incoming(response.take_body(), reply, attempt);
            *response.body_mut() = body;
            Ok(response)
        })
    }
}

/// The reply, or an error once nothing has moved for too long.
async fn while_moving(
    mut work: HttpConnectorFuture,
    attempt: &Attempt,
    clock: &dyn Clock,
) -> Result<HttpResponse, ConnectorError> {
    loop {
        let left = attempt.left();
        if left.is_zero() {
            return Err(ConnectorError::timeout(Stalled(attempt.patience).into()));
        }
        tokio::select! {
            done = &mut work => return done,
            () = clock.sleep(left) => {}
        }
    }
}

/// A sleep that a body may hold: bodies have to be `Sync`.
#[derive(Default)]
struct Waiting(Option<Mutex<Sleep>>);

impl Waiting {
    fn set(&mut self, sleep: Option<Sleep>) {
        self.0 = sleep.map(Mutex::new);
    }

    /// Ready where nothing is waited for, or not any more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.0 {
            let sleep = sleep.get_mut().unwrap_or_else(PoisonError::into_inner);
            ready!(sleep.as_mut().poll(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

/// A body on its way to the store, in chunks.
struct Outgoing {
    inner: SdkBody,
    rest: Bytes,
    left: u64,
    wait: Waiting,
    wire: Wire,
    attempt: Arc<Attempt>,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        ready!(this.wait.poll(cx));
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
            }
        }
        let chunk = this.rest.split_to(this.wire.chunk().min(this.rest.len()));
        this.left = this.left.saturating_sub(chunk.len() as u64);
        this.attempt.moved(chunk.len());
        this.wait.set(this.wire.turn(chunk.len()));
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A body on its way from the store.
struct Incoming {
    inner: SdkBody,
    reply: Reply,
    /// Bytes so far; of a stream those since the time last began anew.
    taken: u64,
    /// How long they were waited for.
    waited: Duration,
    /// When the bytes that are waited for now were asked for.
    asked: Option<Duration>,
    stall: Waiting,
    wait: Waiting,
    wire: Wire,
    attempt: Arc<Attempt>,
}

impl Incoming {
    /// Ready where the store has had its time. It runs only while bytes are asked for: whoever
    /// reads slowly is not kept waiting.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.asked.is_none() {
            let left = self.attempt.whole(self.reply).saturating_sub(self.waited);
            self.asked = Some(self.wire.clock.elapsed());
            self.stall.set(Some(self.wire.clock.sleep(left.min(self.attempt.patience))));
        }
        self.stall.poll(cx)
    }

    fn stop_waiting(&mut self) {
        self.stall.set(None);
        if let Some(asked) = self.asked.take() {
            self.waited += self.wire.clock.elapsed().saturating_sub(asked);
        }
    }

    fn given_up(&mut self) -> BoxError {
        self.stop_waiting();
        if self.taken > 0 && self.waited >= self.attempt.whole(self.reply) {
            Slow(self.taken, self.waited).into()
        } else {
            Stalled(self.attempt.patience).into()
        }
    }

    fn took(&mut self, bytes: usize) -> Result<(), Oversize> {
        self.attempt.moved(bytes);
        self.taken += bytes as u64;
        if self.reply == Reply::Stream && self.taken >= LEAST {
            (self.taken, self.waited) = (0, Duration::ZERO);
        }
        self.fits(0)
    }

    /// Whether what came, and what is announced, may be kept.
    fn fits(&self, announced: u64) -> Result<(), Oversize> {
        match self.reply {
            Reply::Small(most) if self.taken.saturating_add(announced) > most => {
                Err(Oversize(most))
            }
            _ => Ok(()),
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        ready!(this.wait.poll(cx));
        if let Err(error) = this.fits(Body::size_hint(&this.inner).lower()) {
            return Poll::Ready(Some(Err(error.into())));
        }
        let Poll::Ready(next) = Pin::new(&mut this.inner).poll_frame(cx) else {
            ready!(this.poll_patience(cx));
            return Poll::Ready(Some(Err(this.given_up())));
        };
        this.stop_waiting();
        if let Some(data) = next.as_ref().and_then(|n| n.as_ref().ok()?.data_ref()) {
            let bytes = data.len();
            if let Err(error) = this.took(bytes) {
                return Poll::Ready(Some(Err(error.into())));
            }
            this.wait.set(this.wire.turn(bytes));
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.inner)
    }
}
