//! The two stages that compute, each on a thread of its own.
//!
//! The first recomputes the checksum and reads the database as it passes by; the second
//! compresses, encrypts, and cuts the result into parts.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::local::LocalFile;
use super::pool::{Buffer, Pool};
use crate::etcd::Chunk;
use crate::etcd::db::{Damage, Passed, Passing};
use crate::etcd::receive::{Event, Malformed, Receiver};
use crate::snapshot::Error as PackError;
use crate::snapshot::pack::{Layers, Packer};

/// What travels between stages. A channel that closes without [`Item::End`] carries nothing
/// whole.
#[derive(Debug)]
pub enum Item<T> {
    /// The next pieces.
    Pieces(Vec<T>),
    /// That was all of it.
    End,
}

/// Why a stage ended early.
#[derive(Debug)]
pub enum Halt {
    /// The stage before or behind it ended; that one knows why.
    Neighbour,
    /// The member broke the protocol's rules.
    Malformed(Malformed),
    /// What the member sent is no sound database.
    Damage(Damage),
    /// Compressing or encrypting failed.
    Pack(PackError),
    /// The local copy failed, and nobody else takes the data.
    Local(io::Error),
}

/// What the first stage has found out.
#[derive(Debug)]
pub struct Judged {
    /// The database's SHA-256, which is the member's own.
    pub sha256: [u8; 32],
    /// Its length in bytes.
    pub size: u64,
    /// What the database says, unless that does not show in passing.
    pub db: Result<Passed, Damage>,
}

/// Checks every message and hands its data on.
pub fn judge(
    mut receiver: Receiver,
    mut from: mpsc::Receiver<Item<Chunk>>,
    to: &mpsc::Sender<Item<Bytes>>,
) -> Result<Judged, Halt> {
    let mut passing = Passing::new();
    loop {
        match from.blocking_recv() {
            None => return Err(Halt::Neighbour),
            Some(Item::End) => break,
            Some(Item::Pieces(chunks)) => {
                let mut good = Vec::with_capacity(chunks.len());
                for Chunk { remaining, blob } in chunks {
                    let event = receiver.feed(remaining, &blob).map_err(Halt::Malformed)?;
                    if event == Event::Data {
                        passing.feed(&blob);
                        good.push(blob);
                    }
                }
                to.blocking_send(Item::Pieces(good)).map_err(|_| Halt::Neighbour)?;
            }
        }
    }
    let sha256 = receiver.end().map_err(Halt::Malformed)?;
    let size = receiver.total().unwrap_or(0);
    let db = match passing.finish() {
        Err(damage) if !matches!(damage, Damage::Unclear(_)) => return Err(Halt::Damage(damage)),
        db => db,
    };
    to.blocking_send(Item::End).map_err(|_| Halt::Neighbour)?;
    Ok(Judged { sha256, size, db })
}

/// What the second stage has made.
#[derive(Debug)]
pub struct Packed {
    /// The stored form's length in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
    /// What became of the local copy, where there is one: it is whole, and not in its place yet.
    pub local: Option<io::Result<LocalFile>>,
}

/// Compresses and encrypts what comes and gives it to `cutter`.
pub fn pack(
    mut from: mpsc::Receiver<Item<Bytes>>,
    layers: &Layers,
    cutter: Cutter,
) -> Result<Packed, Halt> {
    let mut packer = Packer::new(cutter, layers).map_err(Halt::Pack)?;
    loop {
        match from.blocking_recv() {
            None => return Err(Halt::Neighbour),
            Some(Item::End) => break,
            Some(Item::Pieces(pieces)) => {
                for bytes in pieces {
                    packer.write_all(&bytes).map_err(stopped)?;
                }
            }
        }
    }
    let cutter = packer.finish().map_err(stopped)?;
    cutter.finish().map_err(stopped)
}

/// What is written to fails only for want of takers.
fn stopped(error: io::Error) -> Halt {
    let nobody = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Nobody>);
    if nobody { Halt::Neighbour } else { Halt::Local(error) }
}

/// Takes the stored form: hashes it, writes the local copy, and cuts parts for the bucket. One
/// of the two takers may fail without the other.
#[derive(Debug)]
pub struct Cutter {
    sha256: Sha256,
    size: u64,
    local: Option<io::Result<LocalFile>>,
    parts: Option<Parts>,
}

/// The way to the bucket.
#[derive(Debug)]
pub struct Parts {
    /// Where buffers come from.
    pub pool: Arc<Pool>,
    /// Where full ones go.
    pub to: mpsc::Sender<Bytes>,
    /// The one that is being filled.
    pub filling: Option<Buffer>,
}

impl Cutter {
    /// A cutter with these takers, at least one of them.
    pub fn new(local: Option<LocalFile>, parts: Option<Parts>) -> Self {
        Self { sha256: Sha256::new(), size: 0, local: local.map(Ok), parts }
    }

    /// Hands on the rest.
    ///
    /// # Errors
    /// Nobody takes it any more.
    pub fn finish(mut self) -> io::Result<Packed> {
        if self.parts.as_mut().is_some_and(|parts| parts.hand_on_rest().is_err()) {
            self.parts = None;
        }
        self.someone_takes()?;
        let sha256 = self.sha256.finalize().into();
        Ok(Packed { size: self.size, sha256, local: self.local })
    }

    fn someone_takes(&mut self) -> io::Result<()> {
        match (&self.parts, self.local.take()) {
            (None, None) => Err(nobody()),
            (None, Some(Err(error))) => Err(error),
            (_, local) => {
                self.local = local;
                Ok(())
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("nobody takes the data any more")]
struct Nobody;

fn nobody() -> io::Error {
    io::Error::other(Nobody)
}

impl Write for Cutter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sha256.update(bytes);
        self.size += bytes.len() as u64;
        if let Some(Ok(file)) = &mut self.local
            && let Err(error) = file.write(bytes)
        {
            self.local = Some(Err(error));
        }
        if self.parts.as_mut().is_some_and(|parts| parts.add(bytes).is_err()) {
            self.parts = None;
        }
        self.someone_takes()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Parts {
    fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut buffer = match self.filling.take() {
                Some(buffer) => buffer,
                None => self.pool.take().ok_or_else(nobody)?,
            };
            bytes = buffer.fill(bytes);
            if buffer.is_full() {
                self.hand_on(buffer)?;
            } else {
                self.filling = Some(buffer);
            }
        }
        Ok(())
    }

    fn hand_on_rest(&mut self) -> io::Result<()> {
        self.filling.take().map_or(Ok(()), |buffer| self.hand_on(buffer))
    }

    fn hand_on(&self, buffer: Buffer) -> io::Result<()> {
        self.to.blocking_send(buffer.freeze()).map_err(|_| nobody())
    }
}
