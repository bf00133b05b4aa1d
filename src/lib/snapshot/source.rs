//! Readers that look ahead, and that tell their own errors from those of a decoder above them.

use std::io::{self, Cursor, Read};

use super::error::Damage;
use super::kind::ENOUGH;

/// A reader whose first bytes were looked at and are read again.
pub(super) type Source<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// The first [`ENOUGH`] bytes, and a reader that begins with them again.
pub(super) fn peek<R: Read>(mut input: R) -> io::Result<(Vec<u8>, Source<R>)> {
    let mut first = Vec::with_capacity(ENOUGH);
    (&mut input).take(ENOUGH as u64).read_to_end(&mut first)?;
    Ok((first.clone(), Cursor::new(first).chain(input)))
}

/// Marks every error of the reader inside, so that a decoder's own error can be told from it.
pub(super) struct Marked<R>(pub R);

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Mark(io::Error);

impl<R: Read> Read for Marked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, Mark(error)),
        })
    }
}

/// The error of the reader inside, or the decoder's own.
pub(super) fn original(error: io::Error) -> Result<io::Error, io::Error> {
    match error.downcast::<Mark>() {
        Ok(Mark(original)) => Ok(original),
        Err(own) => Err(own),
    }
}

/// The error of the reader inside, or the decoder's own as damage.
pub(super) fn unmark(error: io::Error, damage: impl FnOnce(&io::Error) -> Damage) -> io::Error {
    original(error).unwrap_or_else(|own| io::Error::new(io::ErrorKind::InvalidData, damage(&own)))
}
