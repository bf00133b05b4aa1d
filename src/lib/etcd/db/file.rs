//! The file itself: opened, its two meta pages weighed, read by position.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Damage;
use super::page::Meta;

/// Something that can be read by position, as a file can.
pub trait ReadAt: Send + Sync {
    /// Fills `buffer` from byte `at` on.
    ///
    /// # Errors
    /// What the system says; an end before the buffer is full is one.
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, at)
    }
}

impl ReadAt for Vec<u8> {
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = start.checked_add(buffer.len()).and_then(|end| self.get(start..end));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// An etcd database file, opened for reading. It is never mapped and never written.
pub struct Db {
    source: Box<dyn ReadAt>,
    len: u64,
    meta: Meta,
    metas: [Result<Meta, &'static str>; 2],
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("len", &self.len)
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database at `path`. A trailer behind its pages does not matter.
    ///
    /// # Errors
    /// It cannot be read, is no database, or is cut off.
    pub fn open(path: &Path) -> Result<Self, Damage> {
        let unreadable = |source| Damage::Unreadable { at: 0, source };
        Self::from_file(File::open(path).map_err(unreadable)?)
    }

    /// The same from a file that is open already.
    ///
    /// # Errors
    /// See [`Db::open`].
    pub fn from_file(file: File) -> Result<Self, Damage> {
        let len = file.metadata().map_err(|source| Damage::Unreadable { at: 0, source })?.len();
        Self::from_source(Box::new(file), len)
    }

    /// The same from bytes in memory.
    ///
    /// # Errors
    /// See [`Db::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Damage> {
        let len = bytes.len() as u64;
        Self::from_source(Box::new(bytes), len)
    }

    fn from_source(source: Box<dyn ReadAt>, len: u64) -> Result<Self, Damage> {
        let first = meta_at(&*source, len, 0)?;
        let second = match first {
            Ok(meta) => meta_at(&*source, len, u64::from(meta.page_size))?,
            // The first page is gone, and with it the page size: the second one says it itself.
            Err(_) => second_meta(&*source, len)?,
        };
        let newest = first.into_iter().chain(second).max_by_key(|meta| meta.txid);
        let meta = newest.ok_or_else(|| Damage::NotADatabase(first.err().unwrap_or_default()))?;
        if meta.bytes() > len {
            return Err(Damage::Cut { needs: meta.bytes(), has: len });
        }
        Ok(Self { source, len, meta, metas: [first, second] })
    }

    /// Bytes of the file, whatever is behind its pages included.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Never: a database has at least its meta pages.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The meta page that counts.
    pub(in crate::etcd) const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What is wrong with one of the two meta pages, and which.
    pub(super) fn torn(&self) -> Option<(u64, &'static str)> {
        let [first, second] = self.metas;
        first.err().map(|why| (0, why)).or_else(|| second.err().map(|why| (1, why)))
    }

    pub(in crate::etcd) fn read(&self, buffer: &mut [u8], at: u64) -> Result<(), Damage> {
        let read = self.source.read_exact_at(buffer, at);
        read.map_err(|source| Damage::Unreadable { at, source })
    }
}

/// The meta page at byte `at`; only a failing disk is an error.
fn meta_at(source: &dyn ReadAt, len: u64, at: u64) -> Result<Result<Meta, &'static str>, Damage> {
    let mut head = [0; 128];
    if len < at + head.len() as u64 {
        return Ok(Err("it is shorter than its meta pages"));
    }
    let read = source.read_exact_at(&mut head, at);
    read.map_err(|source| Damage::Unreadable { at, source })?;
    Ok(Meta::read(&head))
}

fn second_meta(source: &dyn ReadAt, len: u64) -> Result<Result<Meta, &'static str>, Damage> {
    for page_size in (12..=16).map(|bits| 1_u64 << bits) {
        if let Ok(meta) = meta_at(source, len, page_size)?
            && u64::from(meta.page_size) == page_size
        {
            return Ok(Ok(meta));
        }
    }
    Ok(Err("neither meta page is one"))
}
