//! Fetching an object: hashed as it is stored, and opened, both at the same time.

use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use super::Error;
use crate::progress::{Progress, Step};
use crate::s3::{Bucket, Version};
use crate::snapshot::manifest::Content;
use crate::snapshot::pipe::{self, Feed, PipeReader};

/// How many pieces of a download wait for a slow reader.
const PIECES: usize = 16;
/// How much is read at once.
pub const STEP: usize = 256 << 10;

/// Who is told of progress, and about which item.
pub type Told<'a> = (&'a dyn Progress, &'a str);

/// What opening comes to: something, or what is wrong with the bytes.
type Opened<T> = Result<Result<T, crate::snapshot::Error>, Error>;

/// An object, hashed as it is stored and opened at the same time.
pub struct Fetched<T> {
    /// Its bytes as stored.
    pub stored: Content,
    /// What came of opening it.
    pub opened: Result<T, crate::snapshot::Error>,
}

/// Fetches an object version once, hands it to `open` on a thread of its own, and hashes it
/// beside. What `open` makes of damage is in the result; that it cannot go on, an error.
pub async fn fetch<T: Send + 'static>(
    bucket: &Bucket,
    version: &Version,
    open: impl FnOnce(PipeReader) -> Opened<T> + Send + 'static,
    told: Told<'_>,
) -> Result<Fetched<T>, Error> {
    let (hash_feed, hash_end) = pipe::reader(PIECES);
    let (open_feed, open_end) = pipe::reader(PIECES);
    let hashing = spawn_blocking(move || hash(hash_end, &mut io::sink(), u64::MAX));
    let opening = spawn_blocking(move || open(open_end));
    download(bucket, version, [hash_feed, open_feed], told).await?;
    let doing = |error| Error::file("read", Path::new(&version.key), error);
    let stored = joined(hashing).await.map_err(doing)?;
    let opened = joined(opening).await?;
    Ok(Fetched { stored, opened })
}

/// Hands every piece to both, until both have had enough.
async fn download(
    bucket: &Bucket,
    version: &Version,
    [hash, open]: [Feed; 2],
    (progress, name): Told<'_>,
) -> Result<(), Error> {
    let doing = || Error::doing(format!("cannot fetch {}", version.key));
    let body = bucket.get(&version.key, version.version_id.as_deref(), None).await;
    let mut body = body.map_err(doing())?;
    let total = body.size();
    let (mut done, mut open) = (0, Some(open));
    while let Some(piece) = body.next().await.map_err(doing())? {
        done += piece.len() as u64;
        progress.update(name, Step::bytes("fetching", done, Some(total)));
        both(&hash, &mut open, piece).await;
    }
    hash.finish().await;
    if let Some(open) = open {
        open.finish().await;
    }
    Ok(())
}

/// Who opens may have found damage and gone; the hash is wanted all the same.
async fn both(hash: &Feed, open: &mut Option<Feed>, piece: Bytes) {
    let hashed = hash.send(piece.clone());
    let opened = async {
        match open {
            Some(feed) => feed.send(piece).await.is_ok(),
            None => false,
        }
    };
    let (_, alive) = futures_util::future::join(hashed, opened).await;
    if !alive {
        *open = None;
    }
}

/// What a thread of ours made; its bug is ours.
pub async fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.await.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()))
}

/// The length and the SHA-256 of what is read, which also goes to `to`; ends where that is more
/// than `most`: a little that is packed can become more than any disk has.
pub fn hash(mut from: impl Read, to: &mut impl Write, most: u64) -> io::Result<Content> {
    let (mut sum, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; STEP];
    loop {
        let taken = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if taken as u64 > most - length {
            length = most.saturating_add(1);
            break;
        }
        sum.update(&buffer[..taken]);
        to.write_all(&buffer[..taken])
            .map_err(|error| io::Error::new(error.kind(), Full(error)))?;
        length += taken as u64;
    }
    Ok(Content { size: length, sha256: hex::encode(sum.finalize()) })
}

/// The disk's failure, to be told from the stream's.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Full(pub io::Error);
