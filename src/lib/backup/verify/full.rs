//! The whole look: fetched once, hashed as stored beside being opened, and read as a database.
//!
//! The database goes into a file without a name, which the system removes with this process; the
//! checks of its structure need to jump around in it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use super::Request;
use super::report::Checks;
use crate::backup::Error;
use crate::etcd::db::{Damage, Db, Summary};
use crate::fault::chain;
use crate::progress::{Progress, Step};
use crate::report::size;
use crate::s3::{Bucket, Version};
use crate::snapshot::archive::{Archive, Entry as ArchiveEntry};
use crate::snapshot::catalog::Entry;
use crate::snapshot::kind::Kind;
use crate::snapshot::manifest::{Compression, Content, Encryption, Manifest};
use crate::snapshot::pack::{Found, Unpacker};
use crate::snapshot::pipe::{self, Feed, PipeReader};
use crate::snapshot::seal::Identities;

/// How many pieces of a download wait for a slow reader.
const PIECES: usize = 16;
/// How much is unpacked at once.
const STEP: usize = 256 << 10;

/// Fetches a backup and looks at all of it.
pub async fn check(
    bucket: &Bucket,
    entry: &Entry,
    request: &Request,
    progress: &dyn Progress,
    checks: &mut Checks,
) -> Result<(), Error> {
    let Some((record, manifest)) = entry.good() else { return Ok(()) };
    let identities = request.identities.clone().unwrap_or_default();
    if let Some(version) = &record.data {
        let staging = request.staging.clone().unwrap_or_else(tempfile::env::temp_dir);
        progress.say(&format!(
            "{}: {} of database go into a file without a name in {}",
            entry.slot,
            size(manifest.db.size),
            staging.display()
        ));
        let keys = identities.clone();
        let open = move |from| database(from, &keys, &staging);
        let fetched = fetch(bucket, version, open, (progress, entry)).await?;
        about_data(fetched, manifest, checks).await?;
    }
    if let (Some(version), Some(pki)) = (&record.pki, &manifest.pki) {
        let open = move |from| Ok(archive(from, &identities));
        let fetched = fetch(bucket, version, open, (progress, entry)).await?;
        checks.judged("pki sum", held_against(&fetched.stored, &pki.content));
        checks.judged("pki contents", fetched.opened.map_err(|error| chain(&error)));
    }
    Ok(())
}

/// An object, hashed as it is stored and opened at the same time.
struct Fetched<T> {
    stored: Content,
    opened: Result<T, crate::snapshot::Error>,
}

async fn fetch<T: Send + 'static>(
    bucket: &Bucket,
    version: &Version,
    open: impl FnOnce(PipeReader) -> Result<Result<T, crate::snapshot::Error>, Error> + Send + 'static,
    (progress, entry): (&dyn Progress, &Entry),
) -> Result<Fetched<T>, Error> {
    let (hash_feed, hash_end) = pipe::reader(PIECES);
    let (open_feed, open_end) = pipe::reader(PIECES);
    let hashing = spawn_blocking(move || hash(hash_end, &mut io::sink()));
    let opening = spawn_blocking(move || open(open_end));
    download(bucket, version, [hash_feed, open_feed], (progress, entry)).await?;
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
    (progress, entry): (&dyn Progress, &Entry),
) -> Result<(), Error> {
    let doing = || Error::doing(format!("cannot fetch {}", version.key));
    let body = bucket.get(&version.key, version.version_id.as_deref(), None).await;
    let mut body = body.map_err(doing())?;
    let (name, total) = (entry.slot.to_string(), body.size());
    let (mut done, mut open) = (0, Some(open));
    while let Some(piece) = body.next().await.map_err(doing())? {
        done += piece.len() as u64;
        progress.update(&name, Step::bytes("fetching", done, Some(total)));
        both(&hash, &mut open, piece).await;
    }
    hash.finish().await;
    if let Some(open) = open {
        open.finish().await;
    }
    progress.update(&name, Step::state("verifying"));
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

async fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.await.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()))
}

/// The length and the SHA-256 of what is read, which also goes to `to`.
fn hash(mut from: impl Read, to: &mut impl Write) -> io::Result<Content> {
    let (mut sum, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; STEP];
    loop {
        let taken = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
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
struct Full(io::Error);

/// What was found inside, and the database in a file without a name.
struct Unpacked {
    found: Found,
    content: Content,
    file: File,
}

fn database(
    from: PipeReader,
    identities: &Identities,
    staging: &PathBuf,
) -> Result<Result<Unpacked, crate::snapshot::Error>, Error> {
    let unwritten = |error| Error::file("write a temporary file in", staging, error);
    let mut file = tempfile::tempfile_in(staging).map_err(unwritten)?;
    let unpacker = Unpacker::new(from, identities, "the data")
        .and_then(|unpacker| unpacker.must_hold(Kind::EtcdDb, "the data"));
    let unpacker = match unpacker {
        Ok(unpacker) => unpacker,
        Err(error) => return Ok(Err(error)),
    };
    let found = unpacker.found();
    match hash(unpacker, &mut file) {
        Ok(content) => Ok(Ok(Unpacked { found, content, file })),
        Err(error) => match error.downcast::<Full>() {
            Ok(Full(error)) => Err(unwritten(error)),
            Err(error) => Ok(Err(crate::snapshot::Error::of_reading("the data", error))),
        },
    }
}

fn archive(from: PipeReader, identities: &Identities) -> Result<String, crate::snapshot::Error> {
    let name = "the node's keys";
    let archive = Archive::read(Unpacker::new(from, identities, name)?, name)?;
    let sizes: Vec<u64> = archive.entries().iter().filter_map(ArchiveEntry::size).collect();
    Ok(format!("{} files, {}", sizes.len(), size(sizes.iter().sum())))
}

fn held_against(found: &Content, said: &Content) -> Result<String, String> {
    if found.size != said.size {
        Err(format!("{} bytes came instead of {}", found.size, said.size))
    } else if found.sha256 != said.sha256 {
        Err("its SHA-256 is not the manifest's".to_owned())
    } else {
        Ok(format!("{}, SHA-256 {}", size(found.size), &found.sha256[..16]))
    }
}

async fn about_data(
    fetched: Fetched<Unpacked>,
    manifest: &Manifest,
    checks: &mut Checks,
) -> Result<(), Error> {
    checks.judged("sum", held_against(&fetched.stored, &manifest.data.content));
    let unpacked = match fetched.opened {
        Ok(unpacked) => unpacked,
        Err(error) => {
            checks.bad("opened", chain(&error.encrypted_to(&manifest.recipients)));
            return Ok(());
        }
    };
    checks.judged("opened", as_said(unpacked.found, manifest));
    checks.judged("database sum", held_against(&unpacked.content, &manifest.db));
    let file = unpacked.file;
    match joined(spawn_blocking(move || read(file))).await {
        Ok((pages, summary)) => {
            checks.good("structure", format!("{pages} pages in use"));
            checks.judged("contents", contents(&summary, manifest));
        }
        Err(Damage::Unreadable { source, .. }) => {
            return Err(Error::file("read", Path::new("the temporary file"), source));
        }
        Err(damage) => checks.bad("structure", chain(&damage)),
    }
    Ok(())
}

fn as_said(found: Found, manifest: &Manifest) -> Result<String, String> {
    let words = |sealed: bool, packed: bool| {
        let sealed = if sealed { "encrypted" } else { "not encrypted" };
        let packed = if packed { "compressed" } else { "not compressed" };
        format!("{sealed}, {packed}")
    };
    let sealed = manifest.data.encryption == Encryption::Age;
    let packed = manifest.data.compression == Compression::Zstd;
    let is = words(found.sealed, found.packed);
    if (found.sealed, found.packed) == (sealed, packed) {
        Ok(is)
    } else {
        Err(format!("it is {is}; its manifest says {}", words(sealed, packed)))
    }
}

fn read(file: File) -> Result<(u64, Summary), Damage> {
    let db = Db::from_file(file)?;
    let checked = db.check()?;
    Ok((checked.used, db.summary()?))
}

fn contents(summary: &Summary, manifest: &Manifest) -> Result<String, String> {
    if summary.revision != manifest.revision {
        return Err(format!("revision {} instead of {}", summary.revision, manifest.revision));
    }
    let version = summary.storage_version.map(|version| version.to_string());
    if version != manifest.storage_version {
        let named =
            |version: Option<&String>| version.cloned().unwrap_or_else(|| "none".to_owned());
        let (is, said) = (named(version.as_ref()), named(manifest.storage_version.as_ref()));
        return Err(format!("storage version {is} instead of {said}"));
    }
    let Summary { revision, hash, live_keys, total_entries, .. } = summary;
    Ok(format!("revision {revision}, hash {hash:08x}, {live_keys} keys, {total_entries} entries"))
}
