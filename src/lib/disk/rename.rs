//! Names that change at once, or not at all.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Gives a file another name, unless something has that already.
///
/// # Errors
/// Something has it; or neither the kernel nor the file system can do so.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rename_or_link(|| renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE), from, to)
}

fn rename_or_link(
    rename: impl FnOnce() -> Result<(), Errno>,
    from: &Path,
    to: &Path,
) -> io::Result<()> {
    match rename() {
        Ok(()) => Ok(()),
        Err(error @ (Errno::EXIST | Errno::NOENT | Errno::NOSPC)) => Err(error.into()),
        // An older kernel or file system; most that cannot do the one can do the other.
        Err(_) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
    }
}

/// Lets two files or folders change their names with each other, so that at no moment either name
/// is without one.
///
/// # Errors
/// The kernel or the file system cannot do so, or one is not there.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_that_is_taken_stays_with_whom_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("1"), folder.path().join("2"));
        // As it is, and where the kernel or the file system knows no such flag.
        for unknown in [None, Some(Errno::INVAL), Some(Errno::NOSYS), Some(Errno::PERM)] {
            let moved = || match unknown {
                Some(error) => rename_or_link(|| Err(error), &one, &other),
                None => rename_new(&one, &other),
            };
            fs::write(&one, "1").unwrap();
            fs::write(&other, "2").unwrap();
            let taken = moved().unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists, "{unknown:?}");
            assert_eq!(fs::read(&other).unwrap(), b"2");
            fs::remove_file(&other).unwrap();
            moved().unwrap();
            assert_eq!(fs::read(&other).unwrap(), b"1");
            assert!(!one.exists(), "{unknown:?}");
        }
    }

    #[test]
    fn two_folders_change_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("1"), folder.path().join("2"));
        fs::create_dir_all(one.join("a")).unwrap();
        fs::create_dir_all(other.join("b")).unwrap();
        exchange(&one, &other).unwrap();
        assert!(one.join("b").exists() && other.join("a").exists());
        assert!(exchange(&one, &folder.path().join("3")).is_err());
        assert!(one.join("b").exists());
    }
}
