//! A snapshot on its way from a member to us.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tonic::Streaming;

use super::error::{Error, Kind};
use super::receive::{Event, Malformed, Receiver};
use super::{trouble, wire};
use crate::clock::{self, Clock};

/// One message of a snapshot as it came, not judged yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// How many bytes of data the member says remain after this.
    pub remaining: u64,
    /// Data, or the checksum.
    pub blob: Bytes,
}

/// How much is handed on at once, in bytes: waking a thread for every message of 32 KiB costs as
/// much as compressing it.
const BATCH: usize = 256 << 10;

/// How long the reader lets the kernel gather before it reads on. Otherwise it wakes for every
/// few KiB, and takes the processor from the member that makes them: a tenth of all our work.
const GATHER: Duration = Duration::from_micros(300);

/// Batches that wait to be taken; behind them the member waits.
const READ_AHEAD: usize = 2;

/// The messages of a snapshot as they come, read by a thread of its own.
///
/// Whoever takes them apart from a [`SnapshotStream`], to compute the checksum on another thread,
/// has to hand each to a [`Receiver`] and to end that when there are no more.
#[derive(Debug)]
pub struct Messages {
    from: mpsc::Receiver<Result<Option<Vec<Chunk>>, Error>>,
    url: String,
}

impl Messages {
    /// The next messages, or none after the stream's orderly end.
    ///
    /// A caller may take as long as it likes between two calls, and the member waits meanwhile.
    ///
    /// # Errors
    /// The connection broke, or nothing came for the idle time.
    pub async fn next(&mut self) -> Result<Option<Vec<Chunk>>, Error> {
        match self.from.recv().await {
            Some(read) => read,
            None => Err(self.error(Kind::Lost)),
        }
    }

    fn malformed(&self, malformed: Malformed) -> Error {
        self.error(Kind::Malformed(malformed))
    }

    fn error(&self, kind: Kind) -> Error {
        Error::new(SnapshotStream::OPERATION, &self.url, kind)
    }
}

/// Reads the messages that `call` asks for, on a thread with nothing else to do: connection and
/// reader take turns there. On threads that are shared they would wake each other, and wait for
/// each other's locks, for every few KiB.
///
/// # Errors
/// As `call`, or there is no thread.
pub(super) async fn read<C, F>(
    url: String,
    idle: Duration,
    clock: Arc<dyn Clock>,
    call: C,
) -> Result<SnapshotStream, Error>
where
    C: FnOnce() -> F + Send + 'static,
    F: Future<Output = Result<Streaming<wire::SnapshotResponse>, Error>>,
{
    let (to, from) = mpsc::channel(READ_AHEAD);
    let (tell, begun) = oneshot::channel();
    let reader = Reader { url: url.clone(), idle, clock };
    let no_thread = |error: io::Error| {
        Error::new(SnapshotStream::OPERATION, &url, Kind::Setting)
            .with_message("this machine gives no thread to read it")
            .with_source(error)
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let work = move || runtime.block_on(reader.run(call, tell, to));
    std::thread::Builder::new().name("etcd-snapshot".into()).spawn(work).map_err(no_thread)?;
    let messages = Messages { from, url };
    match begun.await {
        Ok(Ok(())) => Ok(SnapshotStream::new(messages)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(messages.error(Kind::Lost)),
    }
}

struct Reader {
    url: String,
    idle: Duration,
    clock: Arc<dyn Clock>,
}

impl Reader {
    async fn run<C, F>(
        self,
        call: C,
        mut tell: oneshot::Sender<Result<(), Error>>,
        to: mpsc::Sender<Result<Option<Vec<Chunk>>, Error>>,
    ) where
        C: FnOnce() -> F,
        F: Future<Output = Result<Streaming<wire::SnapshotResponse>, Error>>,
    {
        let stream = tokio::select! {
            stream = call() => stream,
            () = self.clock.sleep(self.idle) => Err(self.stalled()),
            // Nobody waits for it any more.
            () = tell.closed() => return,
        };
        let (begun, stream) = match stream {
            Ok(stream) => (Ok(()), Some(stream)),
            Err(error) => (Err(error), None),
        };
        let heard = tell.send(begun).is_ok();
        if let Some(stream) = stream.filter(|_| heard) {
            let ended = tokio::select! {
                ended = self.pump(stream, &to) => ended,
                () = to.closed() => return,
            };
            let _ = to.send(ended.map(|()| None)).await;
        }
    }

    async fn pump(
        &self,
        mut stream: Streaming<wire::SnapshotResponse>,
        to: &mpsc::Sender<Result<Option<Vec<Chunk>>, Error>>,
    ) -> Result<(), Error> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let ended = loop {
            match self.message(&mut stream).await {
                Ok(Some(chunk)) => {
                    bytes += chunk.blob.len();
                    batch.push(chunk);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            // Blank messages are a failure that is to be seen soon, however many they are.
            if bytes >= BATCH || batch.len() >= BATCH >> 10 {
                bytes = 0;
                // Nobody takes it only where `run` ends as well.
                let _ = to.send(Ok(Some(std::mem::take(&mut batch)))).await;
            }
        };
        if !batch.is_empty() {
            let _ = to.send(Ok(Some(batch))).await;
        }
        ended
    }

    /// Only the time spent in here counts as idle, not that in which others make room.
    async fn message(
        &self,
        stream: &mut Streaming<wire::SnapshotResponse>,
    ) -> Result<Option<Chunk>, Error> {
        // What is there already is taken even if the clock jumped.
        let there = stream.message().now_or_never();
        let message = if let Some(message) = there {
            message
        } else {
            clock::nap(GATHER);
            tokio::select! {
                biased;
                message = stream.message() => message,
                () = self.clock.sleep(self.idle) => return Err(self.stalled()),
            }
        };
        let message = message
            .map_err(|status| trouble::of_status(SnapshotStream::OPERATION, &self.url, &status))?;
        Ok(message.map(|message| Chunk { remaining: message.remaining_bytes, blob: message.blob }))
    }

    fn stalled(&self) -> Error {
        Error::new(SnapshotStream::OPERATION, &self.url, Kind::Stalled(self.idle))
    }
}

/// A snapshot as it comes, checked all the way.
#[derive(Debug)]
pub struct SnapshotStream {
    messages: Messages,
    taken: std::vec::IntoIter<Chunk>,
    receiver: Receiver,
}

impl SnapshotStream {
    pub(super) const OPERATION: &str = "take a snapshot of etcd";

    fn new(messages: Messages) -> Self {
        Self { messages, taken: Vec::new().into_iter(), receiver: Receiver::new() }
    }

    /// The next bytes of the database; none only after the SHA-256 was found right and the stream
    /// ended well.
    ///
    /// # Errors
    /// As [`Messages::next`], or the stream breaks the protocol's rules.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            for Chunk { remaining, blob } in self.taken.by_ref() {
                match self.receiver.feed(remaining, &blob) {
                    Ok(Event::Data) => return Ok(Some(blob)),
                    Ok(Event::Complete) => {}
                    Err(malformed) => return Err(self.messages.malformed(malformed)),
                }
            }
            match self.messages.next().await? {
                Some(batch) => self.taken = batch.into_iter(),
                None => break,
            }
        }
        match self.receiver.end() {
            Ok(_) => Ok(None),
            Err(malformed) => Err(self.messages.malformed(malformed)),
        }
    }

    /// The size of the database in bytes, without the checksum; known after the first bytes.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.receiver.total()
    }

    /// The SHA-256 of all bytes; known when there are no more.
    #[must_use]
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.receiver.digest()
    }

    /// The messages and what judges them, for a caller that computes on another thread.
    #[must_use]
    pub fn split(self) -> (Messages, Receiver) {
        (self.messages, self.receiver)
    }
}
