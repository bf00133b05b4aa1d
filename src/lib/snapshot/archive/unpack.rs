//! Reading an archive whole, and writing it where nothing is in the way.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretBox};
use tar::EntryType;

use super::{LARGEST, MOST_ENTRIES, local, read_up_to};
use crate::snapshot::error::Error;

/// An archive, read whole and found harmless; nothing of it is on disk yet.
#[derive(Debug)]
pub struct Archive {
    entries: Vec<Entry>,
}

/// A file or a folder of an archive.
#[derive(Debug)]
pub struct Entry {
    /// Its path, relative and without steps up.
    pub path: PathBuf,
    /// Its permissions, at most 0777.
    pub mode: u32,
    /// When it was changed, in seconds since 1970.
    pub modified: u64,
    /// A file's bytes; none for a folder.
    content: Option<SecretBox<Vec<u8>>>,
}

impl Entry {
    /// A file's length; none for a folder.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.content.as_ref().map(|content| content.expose_secret().len() as u64)
    }
}

impl Archive {
    /// Reads an archive until the end of `input`, which must be a good one. `name` is for errors.
    ///
    /// # Errors
    /// [`Error::Archive`] if it is no tar, or holds something other than harmless files and
    /// folders; as [`Error::of_reading`] if `input` fails.
    pub fn read(input: impl Read, name: &str) -> Result<Self, Error> {
        let mut archive = tar::Archive::new(Keeping { input, failed: None });
        let entries = collect(&mut archive, name);
        let mut rest = archive.into_inner();
        // Behind the archive's end comes padding, and the end of what is around it.
        let drained = if entries.is_ok() { io::copy(&mut rest, &mut io::sink()) } else { Ok(0) };
        if let Some(failed) = rest.failed {
            return Err(Error::of_reading(name, failed));
        }
        drained.map_err(|error| bad(name, &error.to_string()))?;
        let entries = entries?;
        if entries.is_empty() {
            return Err(bad(name, "there is nothing in it"));
        }
        Ok(Self { entries })
    }

    /// What is in it, in the order in which it was packed.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Writes it all below `folder`, which may exist, and gives the paths of the files written.
    ///
    /// Nothing is overwritten and no link is followed below `folder`: a file that is there with
    /// the same content stays, and one with another content stops everything before the first
    /// write. Files are 0600 from the beginning, and get their own permissions when whole.
    ///
    /// # Errors
    /// [`Error::InTheWay`], [`Error::Local`].
    pub fn unpack(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let missing = self.missing(folder)?;
        make_folder(folder)?;
        for entry in &self.entries {
            let path = folder.join(&entry.path);
            let inside = if entry.content.is_some() { path.parent() } else { Some(path.as_path()) };
            make_folder(inside.unwrap_or(folder))?;
            if let Some(content) = entry.content.as_ref().filter(|_| missing.contains(&path)) {
                write(&path, content.expose_secret(), entry.mode | 0o600)?;
            }
        }
        // Folders last: one that may not be written to must have its files first.
        for entry in self.entries.iter().rev().filter(|entry| entry.content.is_none()) {
            let path = folder.join(&entry.path);
            if missing.contains(&path) {
                let mode = fs::Permissions::from_mode(entry.mode | 0o700);
                fs::set_permissions(&path, mode)
                    .map_err(|e| local("set permissions of", &path, e))?;
            }
        }
        Ok(missing.into_iter().filter(|path| path.is_file()).collect())
    }

    /// What is not there yet.
    fn missing(&self, folder: &Path) -> Result<BTreeSet<PathBuf>, Error> {
        let mut missing = BTreeSet::new();
        for entry in &self.entries {
            let path = folder.join(&entry.path);
            no_link_above(folder, &entry.path)?;
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missing.insert(path);
                }
                Err(source) => return Err(local("read", &path, source)),
                Ok(facts) if entry.is_there(&path, &facts)? => {}
                Ok(_) => return Err(Error::InTheWay { path: path.display().to_string() }),
            }
        }
        Ok(missing)
    }
}

impl Entry {
    fn is_there(&self, path: &Path, facts: &fs::Metadata) -> Result<bool, Error> {
        let Some(content) = &self.content else { return Ok(facts.is_dir()) };
        let content = content.expose_secret();
        if !facts.is_file() || facts.len() != content.len() as u64 {
            return Ok(false);
        }
        let there = read_up_to(path, LARGEST).map_err(|source| local("read", path, source))?;
        Ok(there.is_some_and(|there| there.expose_secret() == content))
    }
}

fn no_link_above(folder: &Path, path: &Path) -> Result<(), Error> {
    let mut at = folder.to_owned();
    for step in path.parent().into_iter().flat_map(Path::components) {
        at.push(step);
        match fs::symlink_metadata(&at) {
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => return Err(Error::InTheWay { path: at.display().to_string() }),
            Err(_) => break,
        }
    }
    Ok(())
}

fn make_folder(path: &Path) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| local("make the folder", path, source))
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()
    };
    write().map_err(|source| local("write", path, source))
}

fn collect<R: Read>(
    archive: &mut tar::Archive<Keeping<R>>,
    name: &str,
) -> Result<Vec<Entry>, Error> {
    let failed = |error: io::Error| unread(&error, name);
    let mut entries = Vec::new();
    let mut left = LARGEST;
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        let path = harmless(&path, name)?;
        let content = match entry.header().entry_type() {
            EntryType::Directory => None,
            EntryType::Regular => Some(body(&mut entry, &mut left, name)?),
            _ => {
                let shown = path.to_string_lossy();
                return Err(bad(name, &format!("{shown:?} is neither file nor folder")));
            }
        };
        if entries.len() >= MOST_ENTRIES {
            return Err(bad(name, "there are more than 10000 files in it"));
        }
        let header = entry.header();
        let mode = header.mode().map_err(failed)? & 0o777;
        entries.push(Entry { path, mode, modified: header.mtime().unwrap_or(0), content });
    }
    Ok(entries)
}

fn body(entry: &mut impl Read, left: &mut u64, name: &str) -> Result<SecretBox<Vec<u8>>, Error> {
    let mut content = Vec::new();
    entry.take(*left + 1).read_to_end(&mut content).map_err(|error| unread(&error, name))?;
    *left = left
        .checked_sub(content.len() as u64)
        .ok_or_else(|| bad(name, "its files have more than 64 MiB"))?;
    Ok(SecretBox::new(Box::new(content)))
}

/// The path without `.`; refused if it leaves the folder that it will be put in.
fn harmless(path: &Path, name: &str) -> Result<PathBuf, Error> {
    let steps: Option<PathBuf> = path
        .components()
        .filter(|step| !matches!(step, Component::CurDir))
        .map(|step| matches!(step, Component::Normal(_)).then_some(step))
        .collect();
    let steps = steps.filter(|steps| !steps.as_os_str().is_empty());
    // Quoted and escaped: whoever made it may have meant a terminal.
    let shown = path.to_string_lossy();
    steps.ok_or_else(|| bad(name, &format!("{shown:?} leads out of its folder")))
}

fn bad(name: &str, what: &str) -> Error {
    Error::Archive { name: name.to_owned(), what: what.to_owned() }
}

fn unread(error: &io::Error, name: &str) -> Error {
    bad(name, &format!("it is no good tar archive ({error})"))
}

/// Keeps its input's failure, which tar would bury in one of its own.
struct Keeping<R> {
    input: R,
    failed: Option<io::Error>,
}

impl<R: Read> Read for Keeping<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer).map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                self.failed = Some(error);
            }
            kind.into()
        })
    }
}
