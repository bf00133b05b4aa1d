//! Where a restore is made before it is swapped in.
//!
//! It has one fixed name, so that what a killed run left is cleared by the next one
//! (gardener/etcd-backup-restore#287), and a lock inside, so that two runs do not meet. What is
//! there already is only emptied if it is provably ours: somebody else may have put a link or a
//! folder there, in `/tmp` anybody.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::backup::Error;
use crate::disk;

/// The file with the lock, and what stands in it.
const LOCK: &str = "lock";
const MARK: &[u8] = b"capvco-backup restores here\n";

/// A folder for one restore, which is emptied before and removed after.
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
    /// It cannot be made, another run has it, or what is there is not ours.
    pub fn take(path: &Path) -> Result<Self, Error> {
        match DirBuilder::new().mode(0o700).recursive(false).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => ours(path)?,
            Err(error) => return Err(Error::file("create", path, error)),
        }
        let lock = lock(path)?;
        let staging = Self { path: path.to_owned(), gone: false, _lock: lock };
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
            if entry.file_name() == LOCK {
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

/// Whether what is there can only be of an earlier restore of this user.
fn ours(path: &Path) -> Result<(), Error> {
    let looking = |error| Error::file("look at", path, error);
    let facts = fs::symlink_metadata(path).map_err(looking)?;
    let why = if facts.is_symlink() {
        Some("a symbolic link")
    } else if facts.is_dir() {
        alone(&facts)
    } else {
        Some("no folder")
    };
    if let Some(why) = why {
        return Err(foreign(path, why));
    }
    let marked = fs::symlink_metadata(path.join(LOCK)).is_ok();
    // A run may have been killed between the folder and the file.
    let empty = fs::read_dir(path).map_err(looking)?.next().is_none();
    if marked || empty { Ok(()) } else { Err(foreign(path, "not marked as one of a restore")) }
}

/// Why something is not this user's alone.
fn alone(facts: &Metadata) -> Option<&'static str> {
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Some("of another user");
    }
    (facts.mode() & 0o077 != 0).then_some("open to others")
}

fn foreign(path: &Path, why: &str) -> Error {
    Error::declined(
        format!("{} is needed for the work, and what is there is {why}", path.display()),
        "look at it, and remove it if nobody needs it",
    )
}

/// Makes or finds the file, and locks it.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let made = disk::create(&path).map(|file| (file, true));
    let opened = made.or_else(|error| match error.kind() {
        ErrorKind::AlreadyExists => no_link(&path).map(|file| (file, false)),
        _ => Err(error),
    });
    let (mut file, new) = opened.map_err(|error| Error::file("create", &path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::declined(
                format!("another restore is at work in {}", folder.display()),
                "wait until it has ended",
            ));
        }
        Err(TryLockError::Error(error)) => return Err(Error::file("lock", &path, error)),
    }
    let written =
        if new { file.write_all(MARK).map(|()| true) } else { is_marked(&mut file, folder) };
    match written {
        Ok(true) => Ok(file),
        Ok(false) => Err(foreign(folder, "not marked as one of a restore")),
        Err(error) => Err(Error::file("write", &path, error)),
    }
}

fn no_link(path: &Path) -> io::Result<File> {
    // A pipe in its place must not be waited for either.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Whether it is the file that an earlier restore of this user has made.
fn is_marked(file: &mut File, folder: &Path) -> io::Result<bool> {
    let facts = file.metadata()?;
    if !facts.is_file() || facts.nlink() != 1 || alone(&facts).is_some() {
        return Ok(false);
    }
    let mut mark = Vec::new();
    file.take(MARK.len() as u64 + 1).read_to_end(&mut mark)?;
    if mark.is_empty() && fs::read_dir(folder)?.count() == 1 {
        // That one was killed right at its beginning.
        return file.write_all(MARK).map(|()| true);
    }
    Ok(mark == MARK)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::fault::{Class, Fault as _};

    #[test]
    fn what_a_killed_run_left_is_cleared_and_a_running_one_is_not_disturbed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".etcd.capvco-restore");
        let killed = Staging::take(&path).unwrap();
        fs::create_dir_all(killed.at("data/member")).unwrap();
        fs::write(killed.at("staged.db"), "half").unwrap();
        let second = Staging::take(&path).unwrap_err();
        assert!(second.to_string().contains("another restore is at work"), "{second}");
        // As after SIGKILL: the lock goes, the files stay.
        let kept = folder.path().join("kept");
        fs::rename(&path, &kept).unwrap();
        drop(killed);
        fs::rename(&kept, &path).unwrap();
        let staging = Staging::take(&path).unwrap();
        assert!(!staging.at("data").exists() && !staging.at("staged.db").exists());
        fs::write(staging.at("staged.db"), "x").unwrap();
        drop(staging);
        assert!(!path.exists());
        Staging::take(&path).unwrap().remove().unwrap();
        assert!(!path.exists());
    }

    /// What somebody may have put where a restore works; everything in it must stay.
    type Trap = fn(&Path, &Path);

    #[test]
    fn what_is_not_provably_ours_is_refused_and_left_as_it_is() {
        let private = |path: &Path, mode: u32| {
            DirBuilder::new().mode(0o700).create(path).unwrap();
            fs::write(path.join("precious"), "x").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let traps: [(Trap, &str); 7] = [
            (|path, victim| symlink(victim, path).unwrap(), "a symbolic link"),
            (|path, _| symlink("/no/such", path).unwrap(), "a symbolic link"),
            (|path, _| fs::write(path, "x").unwrap(), "no folder"),
            (|_, _| {}, "not marked as one of a restore"),
            (
                |path, _| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap(),
                "open to others",
            ),
            (|path, _| fs::write(path.join(LOCK), "x").unwrap(), "not marked as one of a restore"),
            (
                |path, victim| fs::hard_link(victim.join("precious"), path.join(LOCK)).unwrap(),
                "not marked as one of a restore",
            ),
        ];
        for (n, (trap, why)) in traps.into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let (path, victim) = (folder.path().join(".e"), folder.path().join("victim"));
            private(&victim, 0o700);
            if n > 2 {
                private(&path, 0o700);
            }
            trap(&path, &victim);
            let refused = Staging::take(&path).unwrap_err();
            assert_eq!(refused.class(), Class::Refused, "{n}: {refused}");
            assert!(refused.to_string().ends_with(why), "{n}: {refused}");
            assert!(victim.join("precious").exists(), "{n}");
            assert!(n <= 2 || path.join("precious").exists(), "{n}");
        }
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join(".e"), folder.path().join("victim"));
        fs::write(&victim, MARK).unwrap();
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        symlink(&victim, path.join(LOCK)).unwrap();
        assert!(Staging::take(&path).is_err());
        assert_eq!(fs::read(&victim).unwrap(), MARK);
    }
}
