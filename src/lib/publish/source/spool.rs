//! Keeps an image that comes through a pipe, because an upload needs its length, its digest and
//! any part of it again.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::SourceError;

const BUFFER_BYTES: usize = 1 << 20;

/// A temporary file that only its owner can read, and that is gone when this is dropped; where
/// the system allows it, it has no name, so that even a run that is killed leaves nothing.
#[derive(Debug)]
pub struct Spooled {
    place: Place,
    bytes: u64,
}

#[derive(Debug)]
enum Place {
    Named(NamedTempFile),
    /// Removed already, and reached through its open file as long as that is held.
    Nameless {
        _held: File,
        path: PathBuf,
    },
}

impl Place {
    /// A new file in `dir`.
    fn new(dir: &Path) -> std::io::Result<Self> {
        // tempfile creates its files with mode 0600.
        let create =
            || tempfile::Builder::new().prefix("capvco-").suffix(".image").tempfile_in(dir);
        // Not every file system lets a removed file be opened again: one that may be lost shows.
        match nameless(create()?) {
            Some(_) => Ok(nameless(create()?).map_or_else(|| create().map(Self::Named), Ok)?),
            None => create().map(Self::Named),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Named(file) => file.path(),
            Self::Nameless { path, .. } => path,
        }
    }
}

/// The same file without its name; `None`, and no file, where it cannot be opened then.
#[cfg(target_os = "linux")]
fn nameless(file: NamedTempFile) -> Option<Place> {
    use std::os::fd::AsRawFd as _;
    let (held, name) = file.into_parts();
    let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    name.close().ok()?;
    File::open(&path).ok()?;
    Some(Place::Nameless { _held: held, path })
}

#[cfg(not(target_os = "linux"))]
fn nameless(_file: NamedTempFile) -> Option<Place> {
    None
}

impl Spooled {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// How many bytes came.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Writes all of `input` to a temporary file in `dir`, else in the system's folder (`TMPDIR`).
///
/// # Errors
/// [`SourceError::Spool`] names the folder; nothing is left in it.
pub async fn spool(
    input: impl AsyncRead + Unpin,
    dir: Option<&Path>,
) -> Result<Spooled, SourceError> {
    let dir = dir.map_or_else(tempfile::env::temp_dir, Path::to_owned);
    let failed = |source| SourceError::Spool { dir: dir.clone(), written: 0, source };
    let place = Place::new(&dir).map_err(failed)?;
    let sink = File::options().write(true).open(place.path()).map_err(failed)?;
    let bytes = pour(input, tokio::fs::File::from_std(sink), &dir).await?;
    Ok(Spooled { place, bytes })
}

async fn pour(
    mut input: impl AsyncRead + Unpin,
    mut sink: tokio::fs::File,
    dir: &Path,
) -> Result<u64, SourceError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut written = 0;
    loop {
        let got = input.read(&mut buffer).await.map_err(|e| SourceError::Input(written, e))?;
        // The last write of a tokio file is only known to have worked after a flush.
        let put = if got == 0 { sink.flush().await } else { sink.write_all(&buffer[..got]).await };
        put.map_err(|source| SourceError::Spool { dir: dir.to_owned(), written, source })?;
        if got == 0 {
            return Ok(written);
        }
        written += got as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    #[tokio::test]
    async fn what_came_is_kept_for_its_owner_only_and_then_gone() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = vec![42; 3 * BUFFER_BYTES + 5];
        let kept = spool(&bytes[..], Some(dir.path())).await.unwrap();
        assert_eq!(kept.bytes(), bytes.len() as u64);
        assert_eq!(std::fs::read(kept.path()).unwrap(), bytes);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(kept.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        #[cfg(target_os = "linux")]
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name");
        drop(kept);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let create = tempfile::Builder::new().tempfile_in(dir.path()).unwrap();
        let named = Spooled { place: Place::Named(create), bytes: 0 };
        assert!(named.path().is_file());
        drop(named);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_missing_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let none = dir.path().join("none");
        let error = spool(&b"x"[..], Some(&none)).await.unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        assert!(error.hints()[0].contains("TMPDIR"));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_full_disk_is_one_clear_error() {
        let full = tokio::fs::OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let error = pour(&vec![1; 5 << 20][..], full, Path::new("/spool")).await.unwrap_err();
        let SourceError::Spool { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("/spool"), "{error}");
        assert!(error.hints()[0].contains("more room"));
    }

    #[tokio::test]
    async fn a_broken_pipe_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let broken = tokio_test_reader();
        let error = spool(broken, Some(dir.path())).await.unwrap_err();
        assert!(error.to_string().contains("standard input (after 3 bytes)"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// Three bytes, then an error.
    fn tokio_test_reader() -> impl AsyncRead + Unpin {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let pieces = [Ok(bytes::Bytes::from("abc")), Err(broken)];
        tokio_util::io::StreamReader::new(futures_util::stream::iter(pieces))
    }
}
