//! Where a restore is made before it is swapped in.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::backup::Error;

/// A folder for one restore, which is emptied before and removed after.
///
/// It has one fixed name, so that what a killed run left is cleared by the next one
/// (gardener/etcd-backup-restore#287), and a lock inside, so that two runs do not meet.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
    gone: bool,
    _lock: File,
}

impl Staging {
    /// Takes the folder.
    ///
    /// # Errors
    /// It cannot be made, or another run has it.
    pub fn take(path: &Path) -> Result<Self, Error> {
        let made = DirBuilder::new().mode(0o700).recursive(false).create(path);
        match made {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::file("create", path, error)),
        }
        let lock = path.join("lock");
        let create =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&lock);
        let file = create.map_err(|error| Error::file("create", &lock, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::declined(
                    format!("another restore is at work in {}", path.display()),
                    "wait until it has ended",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", &lock, error)),
        }
        let staging = Self { path: path.to_owned(), gone: false, _lock: file };
        staging.empty().map_err(|error| Error::file("empty", path, error))?;
        Ok(staging)
    }

    /// A path inside of it.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn empty(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() == "lock" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes it, and says whether that worked.
    ///
    /// # Errors
    /// Something of it is left.
    pub fn remove(mut self) -> Result<(), Error> {
        self.gone = true;
        fs::remove_dir_all(&self.path).map_err(|error| Error::file("remove", &self.path, error))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.gone {
            // The run has failed already, and the next one clears what is left.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_cleared_and_a_running_one_is_not_disturbed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".etcd.capvco-restore");
        fs::create_dir_all(path.join("data/member")).unwrap();
        fs::write(path.join("staged.db"), "half").unwrap();
        let staging = Staging::take(&path).unwrap();
        assert!(!staging.at("data").exists() && !staging.at("staged.db").exists());
        let second = Staging::take(&path).unwrap_err();
        assert!(second.to_string().contains("another restore is at work"), "{second}");
        fs::write(staging.at("staged.db"), "x").unwrap();
        drop(staging);
        assert!(!path.exists());
        Staging::take(&path).unwrap().remove().unwrap();
        assert!(!path.exists());
    }
}
