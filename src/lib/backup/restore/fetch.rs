//! From where it is into a file: fetched, decrypted, decompressed, hashed and written at the
//! same time, a bounded part of it in memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use super::find::{Data, Found};
use super::place::free;
use crate::backup::Error;
use crate::disk;
use crate::etcd::db::{TRAILER, Trailer, has_trailer, judge};
use crate::progress::{Progress, Step};
use crate::report::size;
use crate::s3::Bucket;
use crate::snapshot::kind::Kind;
use crate::snapshot::pack::{Found as Layers, Unpacker};
use crate::snapshot::pipe::{self, Feed};
use crate::snapshot::seal::Identities;

/// How many pieces of a download wait for the decryption.
const PIECES: usize = 16;
/// How much is decrypted and written at once, and how many of these wait for the disk.
const STEP: usize = 256 << 10;
const STEPS: usize = 8;
/// What a database of unknown size leaves free, where there is so much.
const LEFT_FREE: u64 = 64 << 20;
/// The item that progress is told of.
pub const ITEM: &str = "restore";

/// A database in a file, without a trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// In bytes.
    pub size: u64,
    /// Of these bytes.
    pub sha256: [u8; 32],
    /// What etcd said of them.
    pub trailer: Trailer,
    /// The layers that were around it.
    pub layers: Layers,
}

/// Writes the database into a new file at `into`.
///
/// # Errors
/// What was found is damaged or of another kind, the other side fails, or the disk does.
pub async fn fetch(
    found: &Found,
    with: &Identities,
    into: &Path,
    progress: &Arc<dyn Progress>,
) -> Result<Fetched, Error> {
    let most = Most::of(found, free(disk::folder_of(into))?);
    let file = out(into).map_err(|error| Error::file("create", into, error))?;
    let (name, with, into) = (found.name.clone(), with.clone(), into.to_owned());
    match (&found.data, &found.bucket) {
        (Data::Object { key, version, size }, Some(bucket)) => {
            let (feed, input) = pipe::reader(PIECES);
            let thread = spawn_blocking(move || unpack(input, &with, &name, (file, &into), most));
            let object = (key.as_str(), version.as_deref(), *size);
            let downloaded = download(bucket, object, feed, progress.as_ref()).await;
            let unpacked = joined(thread).await;
            // Whose failure was first: a reader that went away says itself why.
            downloaded.and(unpacked)
        }
        (Data::File { path, size }, _) => {
            let reader = File::open(path).map_err(|error| Error::file("read", path, error))?;
            let reader = Counted::new(reader, Some(*size), Arc::clone(progress));
            joined(spawn_blocking(move || unpack(reader, &with, &name, (file, &into), most))).await
        }
        _ => {
            let reader = Counted::new(io::stdin(), None, Arc::clone(progress));
            joined(spawn_blocking(move || unpack(reader, &with, &name, (file, &into), most))).await
        }
    }
}

/// The file to write to: new, or one that is there for this.
fn out(path: &Path) -> io::Result<File> {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(no_link).open(path)
}

/// How much may come out of what is packed, of which a little can become more than any disk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Most {
    /// What its manifest says, and a trailer.
    Said(u64),
    /// Nothing is said of it: what there is room for, with some left for others.
    Free(u64),
}

impl Most {
    fn of(found: &Found, free: u64) -> Self {
        match &found.manifest {
            Some(manifest) => Self::Said(manifest.db.size),
            None => Self::Free(free - LEFT_FREE.min(free / 20)),
        }
    }

    const fn bytes(self) -> u64 {
        match self {
            Self::Said(bytes) => bytes.saturating_add(TRAILER),
            Self::Free(bytes) => bytes,
        }
    }

    fn exceeded(self, name: &str, into: &Path) -> Error {
        match self {
            Self::Said(bytes) => Error::declined(
                format!(
                    "{name} is damaged: more came than the {bytes} bytes that its manifest says"
                ),
                "take another backup: `capvco-backup list` shows them",
            ),
            Self::Free(bytes) => Error::declined(
                format!(
                    "there is too little room at {}: {name} has more than {}",
                    disk::folder_of(into).display(),
                    size(bytes)
                ),
                "make room there, or name another place",
            ),
        }
    }
}

/// That there is more than may come.
#[derive(Debug, thiserror::Error)]
#[error("more came than may come")]
struct TooMuch;

async fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.await.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()))
}

/// Feeds an object to the reader; ends early and well if that is gone.
async fn download(
    bucket: &Bucket,
    (key, version, size): (&str, Option<&str>, u64),
    feed: Feed,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let doing = || Error::doing(format!("cannot fetch {key}"));
    let mut done = 0;
    let mut body = match bucket.get(key, version, None).await {
        Ok(body) => body,
        Err(error) => return Err(doing()(error)),
    };
    loop {
        match body.next().await {
            Ok(Some(piece)) => {
                done += piece.len() as u64;
                progress.update(ITEM, Step::bytes("fetching", done, Some(size)));
                if feed.send(piece).await.is_err() {
                    return Ok(());
                }
            }
            Ok(None) => break,
            Err(error) => return Err(doing()(error)),
        }
    }
    feed.finish().await;
    Ok(())
}

/// A reader that tells how far it is.
struct Counted<R> {
    inner: R,
    done: u64,
    total: Option<u64>,
    progress: Arc<dyn Progress>,
}

impl<R: Read> Counted<R> {
    fn new(inner: R, total: Option<u64>, progress: Arc<dyn Progress>) -> Self {
        Self { inner, done: 0, total, progress }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.inner.read(buffer)?;
        self.done += taken as u64;
        self.progress.update(ITEM, Step::bytes("reading", self.done, self.total));
        Ok(taken)
    }
}

/// Opens the layers in this thread, and hashes and writes in another.
fn unpack(
    from: impl Read + Send + 'static,
    with: &Identities,
    name: &str,
    (file, into): (File, &Path),
    most: Most,
) -> Result<Fetched, Error> {
    let doing = || Error::doing(format!("cannot restore {name}"));
    let unpacker = Unpacker::new(from, with, name).and_then(|un| un.must_hold(Kind::EtcdDb, name));
    let mut unpacker = unpacker.map_err(doing())?;
    let layers = unpacker.found();
    let (sender, receiver) = sync_channel(STEPS);
    let (read, written) = std::thread::scope(|scope| {
        let writing = scope.spawn(move || write(&receiver, file));
        let read = read_all(&mut unpacker, &sender, most.bytes());
        drop(sender);
        (read, writing.join())
    });
    let written = written.unwrap_or_else(|bug| std::panic::resume_unwind(bug));
    let (size, sha256, trailer) = written.map_err(|error| Error::file("write", into, error))?;
    read.map_err(|error| match error.downcast::<TooMuch>() {
        Ok(TooMuch) => most.exceeded(name, into),
        Err(error) => doing()(crate::snapshot::Error::of_reading(name, error)),
    })?;
    Ok(Fetched { size, sha256, trailer, layers })
}

/// Reads in steps; a writer that is gone has an error of its own.
fn read_all(from: &mut impl Read, to: &SyncSender<Vec<u8>>, mut left: u64) -> io::Result<()> {
    loop {
        let mut step = vec![0; STEP];
        let mut filled = 0;
        while filled < STEP {
            match from.read(&mut step[filled..]) {
                Ok(0) => break,
                Ok(taken) => filled += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let last = filled < STEP;
        step.truncate(filled);
        left = left.checked_sub(filled as u64).ok_or_else(|| io::Error::other(TooMuch))?;
        if to.send(step).is_err() || last {
            return Ok(());
        }
    }
}

type Written = (u64, [u8; 32], Trailer);

fn write(steps: &Receiver<Vec<u8>>, file: File) -> io::Result<Written> {
    let mut out = Held { file, hasher: Sha256::new(), last: Vec::new(), size: 0 };
    while let Ok(step) = steps.recv() {
        out.take(&step)?;
    }
    out.finish()
}

/// Hashes and writes everything but the last bytes, which may be a trailer.
struct Held {
    file: File,
    hasher: Sha256,
    last: Vec<u8>,
    size: u64,
}

impl Held {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let keep = usize::try_from(TRAILER).unwrap_or(usize::MAX);
        let from_held = (self.last.len() + bytes.len()).saturating_sub(keep).min(self.last.len());
        let rest = self.last.split_off(from_held);
        let out = std::mem::replace(&mut self.last, rest);
        self.put(&out)?;
        let from_bytes = bytes.len().saturating_sub(keep - self.last.len().min(keep));
        self.put(&bytes[..from_bytes])?;
        self.last.extend_from_slice(&bytes[from_bytes..]);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn finish(mut self) -> io::Result<Written> {
        let held = std::mem::take(&mut self.last);
        let said: Option<[u8; 32]> = held[..].try_into().ok();
        let said = said.filter(|_| has_trailer(self.size + TRAILER));
        if said.is_none() {
            self.put(&held)?;
        }
        let sha256 = self.hasher.finalize().into();
        let trailer = said.map_or(Trailer::Absent, |said| judge(&said, &sha256));
        Ok((self.size, sha256, trailer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8], cuts: usize) -> (Written, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = File::create_new(&path).unwrap();
        let (sender, receiver) = sync_channel(bytes.len() / cuts + 2);
        for step in bytes.chunks(cuts) {
            sender.send(step.to_vec()).unwrap();
        }
        drop(sender);
        (write(&receiver, file).unwrap(), std::fs::read(&path).unwrap())
    }

    #[test]
    fn no_more_is_written_than_may_come() {
        for (bytes, most, fits) in
            [(0, 0, true), (9, 9, true), (9, 8, false), (3 * STEP, 2 * STEP, false)]
        {
            let (sender, receiver) = sync_channel(8);
            let read = read_all(&mut io::repeat(7).take(bytes as u64), &sender, most as u64);
            assert_eq!(read.is_ok(), fits, "{bytes} of {most}");
            drop(sender);
            let came: usize = receiver.iter().map(|step| step.len()).sum();
            assert!(came <= most, "{came} of {most}");
        }
        let found = super::super::find::Found::bare("x".to_owned(), Data::Stdin);
        for (free, most) in [(0, 0), (10 << 20, 10 << 20), (1 << 40, (1 << 40) - LEFT_FREE)] {
            let Most::Free(bytes) = Most::of(&found, free) else { panic!("no manifest") };
            assert!(bytes <= most && bytes >= most / 20 * 19, "{bytes} of {free}");
        }
    }

    #[test]
    fn a_trailer_is_told_from_data_however_the_stream_is_cut() {
        let data: Vec<u8> = (0..8192_u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
        let sum: [u8; 32] = Sha256::digest(&data).into();
        let with = |tail: &[u8]| [&data[..], tail].concat();
        let mut wrong = sum;
        wrong[7] ^= 1;
        for cuts in [1, 31, 32, 33, 100, 8192, 100_000] {
            for (bytes, trailer) in [
                (with(&sum), Trailer::Fits(sum)),
                (with(&wrong), Trailer::Wrong),
                (with(&[0; 32]), Trailer::Blank),
                (data.clone(), Trailer::Absent),
            ] {
                let ((size, sha256, found), file) = written(&bytes, cuts);
                assert_eq!((size, found), (8192, trailer.clone()), "{cuts}");
                assert_eq!((sha256, &file), (sum, &data), "{cuts} {trailer:?}");
            }
        }
        for odd in [0, 1, 31, 40, 8192 + 31] {
            let bytes = with(&sum)[..odd].to_vec();
            let ((size, _, found), file) = written(&bytes, 10);
            assert_eq!((size, found, file), (odd as u64, Trailer::Absent, bytes));
        }
    }
}
