//! Folders that go with us, and what is left of those whose owner was killed.
//!
//! A folder in use holds a file that its owner has locked; the system lets the lock go when the
//! owner ends, however that comes. So whoever makes a new one can tell, and removes the others.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::Error;

/// The locked file.
const IN_USE: &str = "in-use";

/// A folder for us alone, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: TempDir,
    /// Held for as long as we are there.
    _lock: File,
}

impl Scratch {
    /// Makes one below the system's folder for such things, and removes those of the same sort
    /// whose owner is no more.
    ///
    /// # Errors
    /// [`Error::File`]: the folder cannot be made.
    pub(super) fn new(prefix: &'static str) -> Result<Self, Error> {
        let below = tempfile::env::temp_dir();
        sweep(&below, prefix);
        Self::below(&below, prefix).map_err(|source| Error::File {
            what: "make a directory below",
            path: below,
            source,
        })
    }

    fn below(below: &Path, prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(below)?;
        // Under another name until it is locked, or somebody who sweeps would be quicker.
        let (young, file) = (folder.path().join("in-use.new"), folder.path().join(IN_USE));
        let lock = File::create_new(&young)?;
        lock.lock()?;
        std::fs::rename(young, file)?;
        Ok(Self { folder, _lock: lock })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders that nobody uses any more. What cannot be read is another user's.
fn sweep(below: &Path, prefix: &str) {
    for folder in folders(below, prefix).unwrap_or_default() {
        let Ok(file) = File::open(folder.join(IN_USE)) else { continue };
        if file.try_lock().is_ok() {
            // What is left of it goes next time.
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

fn folders(below: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let ours = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix);
        // A link is not followed: it may lead anywhere.
        (is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir())).then(|| entry.path())
    };
    Ok(std::fs::read_dir(below)?.filter_map(ours).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_uses_is_swept() {
        let below = tempfile::tempdir().unwrap();
        let used = Scratch::below(below.path(), "sim-").unwrap();
        let left = Scratch::below(below.path(), "sim-").unwrap();
        let other = Scratch::below(below.path(), "else-").unwrap();
        std::fs::create_dir(below.path().join("sim-anybody")).unwrap();
        std::fs::write(left.path().join("big"), "x").unwrap();
        // As if its owner had been killed: the lock goes, the folder stays.
        let Scratch { folder, _lock: lock } = left;
        let dead = folder.keep();
        drop(lock);
        let Scratch { folder: foreign, _lock: lock } = other;
        let foreign = foreign.keep();
        drop(lock);
        sweep(below.path(), "sim-");
        assert!(!dead.exists(), "nobody uses it");
        assert!(used.path().exists() && foreign.exists());
        assert!(below.path().join("sim-anybody").exists(), "it may be about to be locked");
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
