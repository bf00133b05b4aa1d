//! A copy on this machine: readable for its owner alone from the first byte on, under a name of
//! its own until it is whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that is being written; dropped unfinished, nothing of it stays.
#[derive(Debug)]
pub struct LocalFile {
    path: PathBuf,
    part: PathBuf,
    file: Option<File>,
}

impl LocalFile {
    /// Begins to write what will be `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        // What an earlier run has left there may be readable for others.
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        Ok(Self { path: path.to_owned(), part, file: Some(file) })
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Everything was written: puts it on the disk, and then into its place.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_all().and_then(|()| std::fs::rename(&self.part, &self.path)).inspect_err(
                |_| {
                    // The error that matters is the one above.
                    let _ = std::fs::remove_file(&self.part);
                },
            )?;
        }
        sync_folder(&self.path)
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nobody is left who could be told.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Makes a rename last.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_copy_is_its_owners_alone_and_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.age");
        // Leftovers of an earlier run, for everybody to read.
        std::fs::write(folder.path().join("snapshot.age.part"), "old").unwrap();
        std::fs::write(&path, "before").unwrap();
        let mut file = LocalFile::create(&path).unwrap();
        file.write(b"abc").unwrap();
        let part = folder.path().join("snapshot.age.part");
        assert_eq!(std::fs::metadata(&part).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        file.write(b"def").unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "abcdef");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["snapshot.age"]);
    }

    #[test]
    fn a_copy_that_is_given_up_leaves_nothing_and_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.age");
        std::fs::write(&path, "before").unwrap();
        let mut file = LocalFile::create(&path).unwrap();
        file.write(b"abc").unwrap();
        drop(file);
        assert_eq!(names(folder.path()), ["snapshot.age"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("no/such/folder/x"), "/".into()] {
            assert!(LocalFile::create(&path).is_err(), "{path:?}");
        }
        let occupied = folder.path().join("folder");
        std::fs::create_dir(&occupied).unwrap();
        std::fs::write(occupied.join("x"), "").unwrap();
        let file = LocalFile::create(&occupied).unwrap();
        assert!(file.finish().is_err());
        assert_eq!(names(folder.path()), ["folder"], "nothing is left beside it");
    }
}
