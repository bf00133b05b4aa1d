//! Between async and blocking code: a reader fed by tasks, and a writer that feeds them.
//!
//! Encrypting, compressing and hashing block; downloads and uploads await. Both ends hold a
//! bounded number of pieces, so a slow one stops the other. An end that is merely dropped is an
//! error on the other side: only [`Feed::finish`] is the end of the data.

use std::io::{self, Read, Write};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::sync::mpsc;

/// The async end that feeds a [`PipeReader`].
#[derive(Debug)]
pub struct Feed(mpsc::Sender<io::Result<Option<Bytes>>>);

/// The blocking end: reads what was fed.
#[derive(Debug)]
pub struct PipeReader {
    pieces: mpsc::Receiver<io::Result<Option<Bytes>>>,
    rest: Bytes,
    ended: bool,
}

/// A pipe from tasks to a blocking reader, with room for `pieces` pieces.
#[must_use]
pub fn reader(pieces: usize) -> (Feed, PipeReader) {
    let (feed, pieces) = mpsc::channel(pieces.max(1));
    (Feed(feed), PipeReader { pieces, rest: Bytes::new(), ended: false })
}

/// The reader is gone: it failed, and its own error says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads any more")]
pub struct Gone;

impl Feed {
    /// Feeds some bytes; waits while the pipe is full.
    ///
    /// # Errors
    /// [`Gone`]
    pub async fn send(&self, piece: Bytes) -> Result<(), Gone> {
        if piece.is_empty() {
            return Ok(());
        }
        self.0.send(Ok(Some(piece))).await.map_err(|_| Gone)
    }

    /// The same from a thread.
    ///
    /// # Errors
    /// [`Gone`]
    pub fn send_blocking(&self, piece: Bytes) -> Result<(), Gone> {
        if piece.is_empty() {
            return Ok(());
        }
        self.0.blocking_send(Ok(Some(piece))).map_err(|_| Gone)
    }

    /// Says from a thread that this was all.
    pub fn finish_blocking(self) {
        // A reader that is gone has said why itself.
        let _ = self.0.blocking_send(Ok(None));
    }

    /// Says that this was all.
    pub async fn finish(self) {
        // A reader that is gone has said why itself.
        let _ = self.0.send(Ok(None)).await;
    }

    /// Hands an error to the reader.
    pub async fn fail(self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) {
        let _ = self.0.send(Err(io::Error::other(error))).await;
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.ended {
            match self.pieces.blocking_recv() {
                Some(Ok(Some(piece))) => self.rest = piece,
                Some(Ok(None)) => self.ended = true,
                Some(Err(error)) => return Err(error),
                None => return Err(io::Error::other("the download was given up")),
            }
        }
        let taken = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}

/// A blocking writer that hands on pieces of one size (the last may be smaller) to tasks.
#[derive(Debug)]
pub struct PipeWriter {
    pieces: mpsc::Sender<Bytes>,
    filling: BytesMut,
    size: usize,
}

/// A pipe from a blocking writer to tasks: pieces of `size` bytes, with room for `pieces` that
/// wait. The receiver's end is the writer's drop; whether that was a good end is what the
/// writer's thread returns.
#[must_use]
pub fn writer(size: usize, pieces: usize) -> (PipeWriter, mpsc::Receiver<Bytes>) {
    let (sender, receiver) = mpsc::channel(pieces.max(1));
    let size = size.max(1);
    (PipeWriter { pieces: sender, filling: BytesMut::new(), size }, receiver)
}

impl PipeWriter {
    /// Hands on what is left, which may be nothing.
    ///
    /// # Errors
    /// The receiver is gone.
    pub fn finish(mut self) -> io::Result<()> {
        let last = self.filling.split().freeze();
        if last.is_empty() { Ok(()) } else { self.hand_on(last) }
    }

    fn hand_on(&self, piece: Bytes) -> io::Result<()> {
        self.pieces.blocking_send(piece).map_err(|_| io::Error::other(Gone))
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filling.capacity() == 0 {
            self.filling.reserve(self.size);
        }
        let taken = bytes.len().min(self.size - self.filling.len());
        self.filling.extend_from_slice(&bytes[..taken]);
        if self.filling.len() == self.size {
            let piece = self.filling.split().freeze();
            self.filling = BytesMut::new();
            self.hand_on(piece)?;
        }
        Ok(taken)
    }

    /// Does nothing: pieces keep their size.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(mut reader: PipeReader) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    }

    #[tokio::test]
    async fn what_is_fed_is_read() {
        let (feed, reader) = reader(2);
        let read = tokio::task::spawn_blocking(|| read_all(reader));
        for piece in ["ab", "", "cde", "f"] {
            feed.send(Bytes::from_static(piece.as_bytes())).await.unwrap();
        }
        feed.finish().await;
        assert_eq!(read.await.unwrap().unwrap(), b"abcdef");
    }

    #[tokio::test]
    async fn a_dropped_or_failed_feed_is_no_end() {
        let (feed, reader_end) = reader(2);
        feed.send(Bytes::from_static(b"a")).await.unwrap();
        drop(feed);
        let read = tokio::task::spawn_blocking(|| read_all(reader_end)).await.unwrap();
        assert!(read.unwrap_err().to_string().contains("given up"));

        let (feed, reader_end) = reader(2);
        feed.fail("line dead").await;
        let read = tokio::task::spawn_blocking(|| read_all(reader_end)).await.unwrap();
        assert_eq!(read.unwrap_err().to_string(), "line dead");
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_stops_the_feed() {
        let (feed, reader) = reader(1);
        drop(reader);
        assert_eq!(feed.send(Bytes::from_static(b"a")).await, Err(Gone));
    }

    #[tokio::test]
    async fn pieces_have_one_size() {
        for (length, want) in
            [(0, vec![]), (3, vec![3]), (4, vec![4]), (9, vec![4, 4, 1]), (12, vec![4, 4, 4])]
        {
            let (mut writer, mut pieces) = writer(4, 1);
            let write = tokio::task::spawn_blocking(move || {
                writer.write_all(&vec![7; length])?;
                writer.finish()
            });
            let mut got = Vec::new();
            while let Some(piece) = pieces.recv().await {
                got.push(piece.len());
            }
            write.await.unwrap().unwrap();
            assert_eq!(got, want, "{length}");
        }
        let (mut writer, pieces) = writer(1, 1);
        drop(pieces);
        let write = tokio::task::spawn_blocking(move || writer.write_all(b"abc"));
        assert!(write.await.unwrap().is_err());
    }
}
