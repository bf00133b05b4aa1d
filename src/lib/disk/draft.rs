//! A file that gets its name when it is whole.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{create, folder_of, may_be_replaced, rename_new, sync_folder_of};

/// What the name of every draft ends with.
const END: &str = ".part";
/// Random bytes in the name of a draft.
const RANDOM: usize = 6;
/// The most bytes of the file's own name in that of its draft: both must fit a file system.
const LONGEST: usize = 200;

/// A file under a name of its own beside the one that it will have: its owner's alone, and
/// removed where it is dropped unfinished.
///
/// It is locked for as long as it is written, so that two that make the same file do not meet,
/// and so that the next one can tell what a killed one has left, and removes that.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    part: PathBuf,
    file: Option<File>,
    mode: u32,
    placed: bool,
}

impl Draft {
    /// Begins what will be `path`.
    ///
    /// # Errors
    /// What is there is no regular file, or nothing can be made beside it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        may_be_replaced(path)?;
        let start = start_of(name);
        sweep(folder_of(path), &start);
        loop {
            let mut random = [0; RANDOM];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            let mut part = start.clone();
            part.push(format!("{}{END}", hex::encode(random)));
            let part = path.with_file_name(part);
            let file = create(&part)?;
            file.lock()?;
            // Another one may have taken it for a leftover before it was locked.
            if file.metadata()?.nlink() > 0 {
                let path = path.to_owned();
                return Ok(Self { path, part, file: Some(file), mode: 0o600, placed: false });
            }
        }
    }

    /// Its name for now.
    #[must_use]
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// The permissions that it will have when it is whole, whatever the process' mask is.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Puts what was written on the disk and closes the file: many may wait for their place.
    ///
    /// # Errors
    /// The disk's own.
    pub fn close(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        if self.mode != 0o600 {
            file.set_permissions(Permissions::from_mode(self.mode))?;
        }
        file.sync_all()
    }

    /// Gives it its name, in place of the regular file that may have it.
    ///
    /// # Errors
    /// The disk's own; or something else is there now.
    pub fn replace(mut self) -> io::Result<()> {
        self.end()?;
        may_be_replaced(&self.path)?;
        fs::rename(&self.part, &self.path)?;
        self.done()
    }

    /// Gives it its name, if nothing has it.
    ///
    /// # Errors
    /// The disk's own; or something is there now.
    pub fn place(mut self) -> io::Result<()> {
        self.end()?;
        rename_new(&self.part, &self.path)?;
        self.done()
    }

    /// As [`Draft::close`], but the lock is held until it has its name.
    fn end(&mut self) -> io::Result<()> {
        let Some(held) = self.file.as_ref().map(File::try_clone).transpose()? else {
            return Ok(());
        };
        self.close()?;
        self.file = Some(held);
        Ok(())
    }

    fn done(mut self) -> io::Result<()> {
        self.placed = true;
        sync_folder_of(&self.path)
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::Error::other("it is closed")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.placed {
            // Nobody is left who could be told.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// How the names of all drafts of a file begin.
fn start_of(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut start = OsString::from(".");
    start.push(OsStr::from_bytes(&bytes[..bytes.len().min(LONGEST)]));
    start.push(".");
    start
}

/// Removes what killed runs have left; what cannot be removed is in nobody's way.
fn sweep(folder: &Path, start: &OsStr) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_draft(&entry.file_name(), start)) {
        let path = entry.path();
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        if !facts.is_file() || facts.uid() != rustix::process::geteuid().as_raw() {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            continue;
        }
        let _ = fs::remove_file(&path);
    }
}

fn is_draft(name: &OsStr, start: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(start.as_bytes());
    let random = rest.and_then(|rest| rest.strip_suffix(END.as_bytes()));
    random.is_some_and(|text| text.len() == 2 * RANDOM && text.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn written(path: &Path, text: &str) -> Draft {
        let mut draft = Draft::create(path).unwrap();
        draft.write_all(text.as_bytes()).unwrap();
        draft
    }

    #[test]
    fn a_file_is_its_owners_alone_and_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.age");
        fs::write(&path, "before").unwrap();
        let draft = written(&path, "after");
        assert_eq!(mode(draft.part()), 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        drop(draft);
        assert_eq!(names(folder.path()), ["snapshot.age"], "given up, nothing of it stays");
        written(&path, "after").replace().unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"after".to_vec(), 0o600));
        written(&path, "for all").with_mode(0o644).replace().unwrap();
        assert_eq!(mode(&path), 0o644);
        let taken = written(&path, "no").place().unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"for all");
        written(&folder.path().join("new"), "new").place().unwrap();
        assert_eq!(names(folder.path()), ["new", "snapshot.age"]);
    }

    #[test]
    fn two_that_make_the_same_file_do_not_meet_and_what_a_killed_one_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let left = folder.path().join(".x.00112233aabb.part");
        let others = [".x.part", ".x.0011.part", ".y.00112233aabb.part", ".x.zz112233aabb.part"];
        fs::write(&left, "half").unwrap();
        for name in others {
            fs::write(folder.path().join(name), "of somebody else").unwrap();
        }
        let (mut one, two) = (written(&path, "one"), written(&path, "two"));
        assert!(!left.exists());
        assert_ne!(one.part(), two.part());
        two.replace().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        one.write_all(b", the later").unwrap();
        one.replace().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one, the later");
        let mut all: Vec<&str> = others.to_vec();
        all.push("x");
        all.sort_unstable();
        assert_eq!(names(folder.path()), all);
    }

    #[test]
    fn what_is_no_regular_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(Draft::create(&path).is_err());
        fs::remove_file(&path).unwrap();
        // Or it appears meanwhile.
        let draft = written(&path, "x");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(draft.replace().is_err());
        assert_eq!(names(folder.path()), ["x"]);
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        for path in [folder.path().join("no/such/folder/x"), "/".into()] {
            assert!(Draft::create(&path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_name_may_be_as_long_as_a_file_system_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x".repeat(255));
        written(&path, "x").replace().unwrap();
        assert_eq!(names(folder.path()).len(), 1);
    }
}
