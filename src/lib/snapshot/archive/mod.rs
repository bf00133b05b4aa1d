//! The second object of a backup: a node's keys, encryption config and manifests, as a tar.
//!
//! Small by nature, so an archive is read whole before anything is believed or written: the last
//! chunk of the encryption above it must have been authenticated, every path must be harmless,
//! and nothing may be in the way. Links are followed when packing, so that no archive of ours
//! holds one; when unpacking, anything but files and folders is refused.

mod pack;
#[cfg(test)]
mod tests;
mod unpack;

use std::io::{self, Read as _};
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretBox};

pub use pack::{Packed, pack};
pub use unpack::{Archive, Entry, Unpacked};

use super::error::Error;
use crate::disk;

/// The most bytes of an archive's files together; a node has about 0.1 MB.
pub const LARGEST: u64 = 64 << 20;
/// The most files and folders of an archive.
const MOST_ENTRIES: usize = 10_000;

/// The file's bytes, if there are not more than `most`.
fn read_up_to(path: &Path, most: u64) -> io::Result<Option<SecretBox<Vec<u8>>>> {
    let mut content = Vec::new();
    disk::open(path)?.take(most.saturating_add(1)).read_to_end(&mut content)?;
    let content = SecretBox::new(Box::new(content));
    Ok((content.expose_secret().len() as u64 <= most).then_some(content))
}

fn local(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Local { doing, path: path.display().to_string(), source }
}
