//! Local images: looked at, read once for their digests, and watched for changes.

use std::fs::{File, Metadata};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::task::spawn_blocking;

use super::SourceError;
use super::digest::{Digests, Hashers};
use crate::publish::image::partitions::{self, Raw};
use crate::publish::image::{self, Firmware, Format, Unfit, qcow2};

/// One read of a digest pass; large enough to keep a disk busy, small enough for any cache.
const READ_BYTES: usize = 1 << 20;

/// What is known of a local image.
#[derive(Debug, Clone)]
pub struct FileFacts {
    /// Where it is.
    pub path: PathBuf,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// What its first bytes are.
    pub format: Format,
    /// The size of the disk inside, in bytes, where the format tells it.
    pub virtual_bytes: Option<u64>,
    /// What can boot it; `None` where the partition table could not be read.
    pub firmware: Option<Firmware>,
    /// To notice a change later.
    pub stamp: Stamp,
    /// What should be said about it, one sentence each.
    pub warnings: Vec<String>,
}

/// Tells whether a file is still the one that was looked at: size, time of change and identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    identity: (u64, u64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self { bytes: meta.len(), modified: meta.modified().ok(), identity: identity(meta) }
    }

    /// Whether the file at `path` is unchanged; a file that cannot be looked at is not.
    pub async fn still(&self, path: &Path) -> bool {
        tokio::fs::metadata(path).await.is_ok_and(|meta| Self::of(&meta) == *self)
    }
}

#[cfg(unix)]
fn identity(meta: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

#[cfg(not(unix))]
fn identity(_meta: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// Looks at the image at `path`: that it is one, how large its disk is, what can boot it.
///
/// # Errors
/// It is missing, unreadable, no regular file, or no image that can be published.
pub async fn check_file(path: &Path) -> Result<FileFacts, SourceError> {
    let path = path.to_owned();
    let look = spawn_blocking(move || look(&path)).await;
    look.map_err(|_| SourceError::Lost("looks at the file"))?
}

fn open(path: &Path) -> Result<(File, Metadata), SourceError> {
    let failed = |doing| move |source| SourceError::File { doing, path: path.to_owned(), source };
    // Looked at before it is opened, because opening a pipe waits for its writer.
    if !std::fs::metadata(path).map_err(failed("cannot find"))?.is_file() {
        return Err(SourceError::NotAFile(path.to_owned()));
    }
    let file = File::open(path).map_err(failed("cannot open"))?;
    let meta = file.metadata().map_err(failed("cannot look at"))?;
    Ok((file, meta))
}

fn look(path: &Path) -> Result<FileFacts, SourceError> {
    let (mut file, meta) = open(path)?;
    let mut head = Vec::with_capacity(image::HEAD_BYTES);
    let read = (&mut file).take(image::HEAD_BYTES as u64).read_to_end(&mut head);
    read.map_err(|source| unreadable(path, source))?;
    let unfit = |unfit| SourceError::Unfit { thing: path.display().to_string(), unfit };
    let mut facts = image::examine(&head, meta.len()).map_err(unfit)?;
    if facts.format == Format::Qcow2 {
        facts.warnings.extend(whole(&mut file, path, &head, meta.len())?);
    }
    Ok(FileFacts {
        path: path.to_owned(),
        bytes: meta.len(),
        format: facts.format,
        virtual_bytes: facts.virtual_bytes,
        firmware: boots_with(file, facts.format, &head, meta.len()),
        stamp: Stamp::of(&meta),
        warnings: facts.warnings,
    })
}

fn unreadable(path: &Path, source: std::io::Error) -> SourceError {
    SourceError::File { doing: "cannot read", path: path.to_owned(), source }
}

/// Refuses a qcow2 that has lost its end, as a download or a pipe that broke leaves it.
fn whole(
    file: &mut File,
    path: &Path,
    head: &[u8],
    bytes: u64,
) -> Result<Option<String>, SourceError> {
    let unfit = |refusal| SourceError::Unfit {
        thing: path.display().to_string(),
        unfit: Unfit::Qcow2(refusal),
    };
    let header = qcow2::read(head).map_err(unfit)?;
    let reach = qcow2::Reach::of(file, &header, bytes).map_err(|e| unreadable(path, e))?;
    reach.judge(bytes).map_err(unfit)
}

/// What can boot the image. A table that lies behind the file's end is no reason to refuse it
/// here: whether the bytes are all there is what checksums are for.
fn boots_with(file: File, format: Format, head: &[u8], bytes: u64) -> Option<Firmware> {
    let file = BufReader::new(file);
    match format {
        Format::Raw => partitions::firmware(&mut Raw::new(file, bytes)).ok(),
        Format::Qcow2 => {
            let header = qcow2::read(head).ok()?;
            partitions::firmware(&mut qcow2::Guest::new(file, header)).ok()
        }
        Format::Vmdk => None,
    }
}

/// Reads the whole file once for both digests; `seen` is told how many bytes were read so far.
///
/// # Errors
/// It cannot be read, or is not (or no longer) the file that `facts` describes.
pub async fn digest_file(
    facts: &FileFacts,
    seen: &(dyn Fn(u64) + Send + Sync),
) -> Result<Digests, SourceError> {
    let hashers = Hashers::start();
    let (told, mut heard) = tokio::sync::watch::channel(0);
    let (path, stamp) = (facts.path.clone(), facts.stamp.clone());
    let reader = spawn_blocking(move || {
        let end = read_through(&path, &stamp, |piece, so_far| {
            told.send_replace(so_far);
            hashers.feed_blocking(piece)
        });
        end.map(|()| hashers)
    });
    while heard.changed().await.is_ok() {
        let so_far = *heard.borrow_and_update();
        seen(so_far);
    }
    let hashers = reader.await.map_err(|_| SourceError::Lost("reads the file"))??;
    hashers.finish().await
}

fn read_through(
    path: &Path,
    stamp: &Stamp,
    mut each: impl FnMut(&Bytes, u64) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let (mut file, meta) = open(path)?;
    let changed = || SourceError::FileChanged(path.to_owned());
    if Stamp::of(&meta) != *stamp {
        return Err(changed());
    }
    let failed = |source| SourceError::File { doing: "cannot read", path: path.to_owned(), source };
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut so_far = 0;
    loop {
        let mut piece = Vec::with_capacity(READ_BYTES);
        let got = (&mut file).take(READ_BYTES as u64).read_to_end(&mut piece).map_err(failed)?;
        if got == 0 {
            break;
        }
        so_far += got as u64;
        each(&Bytes::from(piece), so_far)?;
    }
    let meta = std::fs::metadata(path).map_err(failed)?;
    if so_far != stamp.bytes || Stamp::of(&meta) != *stamp { Err(changed()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::fault::{Class, Fault};

    fn raw_disk(len: usize) -> Vec<u8> {
        let mut disk = vec![7; len];
        disk[446..510].fill(0);
        disk[446] = 0x80;
        disk[450] = 0x83;
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk
    }

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[tokio::test]
    async fn a_raw_disk_is_described_and_digested() {
        let file = file_of(&raw_disk(3 << 20));
        let facts = check_file(file.path()).await.unwrap();
        assert_eq!((facts.bytes, facts.format), (3 << 20, Format::Raw));
        assert_eq!((facts.virtual_bytes, facts.firmware), (Some(3 << 20), Some(Firmware::Bios)));
        let most = AtomicU64::new(0);
        let seen = |n| {
            most.fetch_max(n, Ordering::Relaxed);
        };
        let digests = digest_file(&facts, &seen).await.unwrap();
        assert_eq!(digests.md5.unwrap().len(), 32);
        assert_eq!(most.load(Ordering::Relaxed), 3 << 20);
    }

    #[tokio::test]
    async fn what_is_no_image_is_refused_in_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none.qcow2");
        let table = [
            (missing.clone(), Class::NotFound, "cannot find"),
            (dir.path().to_owned(), Class::Refused, "is no regular file"),
            (file_of(b"").into_temp_path().keep().unwrap(), Class::Refused, "it is empty"),
            (file_of(b"<html>").into_temp_path().keep().unwrap(), Class::Refused, "an HTML page"),
        ];
        for (path, class, words) in table {
            let error = check_file(&path).await.unwrap_err();
            assert_eq!(error.class(), class, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            let _ = std::fs::remove_file(path);
        }
    }

    #[tokio::test]
    async fn a_change_is_noticed() {
        let mut file = file_of(&raw_disk(1 << 20));
        let facts = check_file(file.path()).await.unwrap();
        assert!(facts.stamp.still(file.path()).await);
        file.write_all(b"more").unwrap();
        assert!(!facts.stamp.still(file.path()).await);
        let error = digest_file(&facts, &|_| ()).await.unwrap_err();
        assert!(matches!(error, SourceError::FileChanged(_)), "{error}");
        let path = file.path().to_owned();
        drop(file);
        assert!(!facts.stamp.still(&path).await);
    }
}
