//! The payload of an age file, written: the format's chunks through ring, which is twice as fast
//! as the age crate, whose header and keys these are.
//!
//! The format (C2SP, age.md, "Payload"): a key derived from the file key and a nonce of 16 bytes;
//! chunks of 64 KiB, each with ChaCha20-Poly1305; the nonce of a chunk is its number in eleven
//! bytes, and one byte that says whether it is the last. The last one may be full, and is empty
//! only where it is the only one.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::io::{self, Write};

use age::secrecy::ExposeSecret as _;
use age::secrecy::zeroize::Zeroizing;
use age::{EncryptError, Encryptor};
use age_core::format::{FileKey, Stanza};
use age_core::primitives::hkdf;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::Recipients;
use crate::snapshot::error::Error;

/// How much of the clear text is in a chunk.
const CHUNK: usize = 64 << 10;

/// What stands between the header and the first chunk.
const NONCE: usize = 16;

/// Writes chunks.
pub(super) struct Chunks<W: Write> {
    output: W,
    key: LessSafeKey,
    number: u64,
    filling: Vec<u8>,
}

impl<W: Write> Chunks<W> {
    /// Writes the header, and is ready for the payload.
    pub fn new(mut output: W, to: &Recipients) -> Result<Self, Error> {
        let (head, key) = begin(to)?;
        let failed = |source| Error::Write { name: "the age header".to_owned(), source };
        output.write_all(&head).map_err(failed)?;
        Ok(Self { output, key, number: 0, filling: Vec::with_capacity(CHUNK) })
    }

    /// Writes the last chunk and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal(true)?;
        Ok(self.output)
    }

    fn seal(&mut self, last: bool) -> io::Result<()> {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.number.to_be_bytes());
        nonce[11] = u8::from(last);
        // Even after a failed write no number is used twice.
        self.number += 1;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut self.filling);
        let tag = tag.map_err(|_| io::Error::other("a chunk is too long"))?;
        let written = self.output.write_all(&self.filling);
        self.filling.clear();
        written?;
        self.output.write_all(tag.as_ref())
    }
}

impl<W: Write> Write for Chunks<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full one waits: it may turn out to be the last.
        if self.filling.len() == CHUNK && !bytes.is_empty() {
            self.seal(false)?;
        }
        let taken = bytes.len().min(CHUNK - self.filling.len());
        self.filling.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// A header for a new file, with its nonce, and the key for its payload.
fn begin(to: &Recipients) -> Result<(Vec<u8>, LessSafeKey), Error> {
    let first = to.keys().next().ok_or(Error::NoRecipient)?;
    let overheard = Overhear { to: first, key: OnceCell::new() };
    let mut all: Vec<&dyn age::Recipient> = vec![&overheard];
    all.extend(to.keys().skip(1));
    let encryptor = Encryptor::with_recipients(all.into_iter()).map_err(|_| Error::NoRecipient)?;
    let mut head = Vec::new();
    // Dropped at once: it has written the header and the nonce, and no chunk.
    drop(encryptor.wrap_output(&mut head).map_err(|_| Error::NoRecipient)?);
    let file_key = overheard.key.into_inner().ok_or(Error::NoRecipient)?;
    let nonce = &head[head.len() - NONCE..];
    let key = Zeroizing::new(hkdf(nonce, b"payload", file_key.expose_secret()));
    let key = UnboundKey::new(&CHACHA20_POLY1305, &*key).map_err(|_| Error::NoRecipient)?;
    Ok((head, LessSafeKey::new(key)))
}

/// A recipient who keeps the file key that is told to him.
struct Overhear<'a> {
    to: &'a dyn age::Recipient,
    key: OnceCell<FileKey>,
}

impl age::Recipient for Overhear<'_> {
    fn wrap_file_key(
        &self,
        file_key: &FileKey,
    ) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        self.key.get_or_init(|| FileKey::init_with_mut(|key| *key = *file_key.expose_secret()));
        self.to.wrap_file_key(file_key)
    }
}
