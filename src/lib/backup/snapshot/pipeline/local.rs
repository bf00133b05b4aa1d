//! A copy on this machine: readable for its owner alone from the first byte on, under a name of
//! its own until it is whole.

use std::io::{self, Write as _};
use std::path::Path;

use crate::disk::Draft;

/// A file that is being written; dropped unfinished, nothing of it stays.
#[derive(Debug)]
pub struct LocalFile(Draft);

impl LocalFile {
    /// Begins to write what will be `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        Draft::create(path).map(Self)
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Everything was written: puts it on the disk, and then into its place.
    pub fn finish(self) -> io::Result<()> {
        self.0.replace()
    }
}
