//! A snapshot on its way from a member to us.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::Streaming;

use super::error::{Error, Kind};
use super::receive::{Event, Malformed, Receiver};
use super::{trouble, wire};
use crate::clock::Clock;

/// One message of a snapshot as it came, not judged yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// How many bytes of data the member says remain after this.
    pub remaining: u64,
    /// Data, or the checksum.
    pub blob: Bytes,
}

/// The messages of a snapshot as they come.
///
/// Whoever takes them apart from a [`SnapshotStream`], to compute the checksum on another thread,
/// has to hand each to a [`Receiver`] and to end that when there are no more.
#[derive(Debug)]
pub struct Messages {
    stream: Streaming<wire::SnapshotResponse>,
    url: String,
    idle: Duration,
    clock: Arc<dyn Clock>,
}

impl Messages {
    /// The next message, or none after the stream's orderly end.
    ///
    /// Only the time spent in here counts as idle: a caller may take as long as it likes between
    /// two calls, and the member waits meanwhile.
    ///
    /// # Errors
    /// The connection broke, or nothing came for the idle time.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        let message = tokio::select! {
            // What is there already is taken even if the clock jumped.
            biased;
            message = self.stream.message() => message,
            () = self.clock.sleep(self.idle) => return Err(self.error(Kind::Stalled(self.idle))),
        };
        let message = message
            .map_err(|status| trouble::of_status(SnapshotStream::OPERATION, &self.url, &status))?;
        Ok(message.map(|message| Chunk { remaining: message.remaining_bytes, blob: message.blob }))
    }

    fn malformed(&self, malformed: Malformed) -> Error {
        self.error(Kind::Malformed(malformed))
    }

    fn error(&self, kind: Kind) -> Error {
        Error::new(SnapshotStream::OPERATION, &self.url, kind)
    }
}

/// A snapshot as it comes, checked all the way.
#[derive(Debug)]
pub struct SnapshotStream {
    messages: Messages,
    receiver: Receiver,
}

impl SnapshotStream {
    pub(super) const OPERATION: &str = "take a snapshot of etcd";

    pub(super) fn new(
        stream: Streaming<wire::SnapshotResponse>,
        url: String,
        idle: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let messages = Messages { stream, url, idle, clock };
        Self { messages, receiver: Receiver::new() }
    }

    /// The next bytes of the database; none only after the SHA-256 was found right and the stream
    /// ended well.
    ///
    /// # Errors
    /// As [`Messages::next`], or the stream breaks the protocol's rules.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(Chunk { remaining, blob }) = self.messages.next().await? {
            match self.receiver.feed(remaining, &blob) {
                Ok(Event::Data) => return Ok(Some(blob)),
                Ok(Event::Complete) => {}
                Err(malformed) => return Err(self.messages.malformed(malformed)),
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
