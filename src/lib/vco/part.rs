//! A stretch of a file on its way to the cloud: read as it is sent, never held as a whole.

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom, Take};
use tokio::sync::watch;

/// What is read, and held, at once.
const CHUNK: usize = 128 * 1024;

/// A stretch of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart {
    /// The file.
    pub path: PathBuf,
    /// Where the part starts, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub len: u64,
}

/// The file could not be read, or ended early.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read at byte {at}", path.display())]
pub(crate) struct Unreadable {
    path: PathBuf,
    at: u64,
    source: std::io::Error,
}

/// A part's bytes, and how many of them have been read so far.
pub(crate) struct Opened<S> {
    pub bytes: S,
    pub sent: watch::Receiver<u64>,
}

impl FilePart {
    fn unreadable(&self, at: u64, source: std::io::Error) -> Unreadable {
        Unreadable { path: self.path.clone(), at: self.offset + at, source }
    }

    /// Opens the part from its start.
    pub(crate) async fn open(
        &self,
    ) -> Result<Opened<impl Stream<Item = Result<Bytes, Unreadable>> + use<>>, Unreadable> {
        let file = self.file().await.map_err(|error| self.unreadable(0, error))?;
        let (count, sent) = watch::channel(0);
        let reader = Reader { part: self.clone(), file: file.take(self.len), count };
        Ok(Opened { bytes: stream::try_unfold(reader, Reader::next), sent })
    }

    async fn file(&self) -> std::io::Result<File> {
        let mut file = File::open(&self.path).await?;
        file.set_max_buf_size(CHUNK);
        file.seek(SeekFrom::Start(self.offset)).await?;
        Ok(file)
    }
}

struct Reader {
    part: FilePart,
    file: Take<File>,
    count: watch::Sender<u64>,
}

impl Reader {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Unreadable> {
        let done = *self.count.borrow();
        if done == self.part.len {
            return Ok(None);
        }
        let mut chunk = BytesMut::with_capacity(CHUNK);
        let read = self.file.read_buf(&mut chunk).await;
        let read = read.map_err(|error| self.part.unreadable(done, error))?;
        if read == 0 {
            let early = std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was sent",
            );
            return Err(self.part.unreadable(done, early));
        }
        self.count.send_modify(|count| *count += read as u64);
        Ok(Some((chunk.freeze(), self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use std::io::Write as _;

    async fn read(part: &FilePart) -> Result<Vec<u8>, Unreadable> {
        let opened = part.open().await?;
        let mut bytes = Box::pin(opened.bytes);
        let mut all = Vec::new();
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk?;
            assert!(chunk.len() <= CHUNK);
            all.extend_from_slice(&chunk);
            assert_eq!(*opened.sent.borrow(), all.len() as u64);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_part_is_its_bytes_and_can_be_read_again() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        file.write_all(&bytes).unwrap();
        for (offset, len) in [(0, 0), (0, 300_000), (7, 131_072), (299_999, 1)] {
            let part = FilePart { path: file.path().to_owned(), offset, len };
            let (from, to) =
                (usize::try_from(offset).unwrap(), usize::try_from(offset + len).unwrap());
            for _ in 0..2 {
                assert_eq!(read(&part).await.unwrap(), &bytes[from..to], "{offset} {len}");
            }
        }
        let beyond = FilePart { path: file.path().to_owned(), offset: 299_999, len: 2 };
        let error = read(&beyond).await.unwrap_err();
        assert!(error.to_string().ends_with("cannot be read at byte 300000"), "{error}");
        let missing = FilePart { path: "/nowhere".into(), offset: 0, len: 2 };
        assert!(read(&missing).await.is_err());
    }
}
