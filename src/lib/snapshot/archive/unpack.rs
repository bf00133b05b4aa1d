//! Reading an archive whole, and writing it where nothing is in the way.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretBox};
use tar::EntryType;

use super::{LARGEST, MOST_ENTRIES, local, read_up_to};
use crate::disk::Draft;
use crate::snapshot::error::Error;

/// The longest name of a file that Linux takes.
const LONGEST_NAME: u64 = 4096;
/// The most of what POSIX lets stand before an entry.
const LONGEST_PAX: u64 = 64 << 10;
/// What stands in an archive beside the bytes of its files: for each a header, its padding, and
/// what its name takes where that is long; and the end.
const BESIDE_FILES: u64 = MOST_ENTRIES as u64 * 2048 + (1 << 20);

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
        let mut archive = tar::Archive::new(Bounded::new(input));
        let entries = collect(&mut archive, name);
        let mut rest = archive.into_inner();
        // Behind the archive's end comes padding, and the end of what is around it.
        let drained = if entries.is_ok() { io::copy(&mut rest, &mut io::sink()) } else { Ok(0) };
        if rest.is_over() {
            return Err(bad(name, "there is more in it than any node has"));
        }
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

    /// The paths of its files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = self.entries.iter().filter(|entry| entry.content.is_some());
        files.map(|entry| entry.path.as_path())
    }

    /// Writes it all below `folder`, which may exist.
    ///
    /// Nothing is overwritten and no link is followed below `folder`: a file that is there with
    /// the same content stays, and one with another content stops everything before the first
    /// write. Every file is written under a name of its own first; only when all are whole do
    /// they get their names, so that a full disk leaves nothing.
    ///
    /// # Errors
    /// [`Error::InTheWay`], [`Error::Local`]: nothing of it is there then. [`Error::Left`]: what
    /// is said there.
    pub fn unpack(&self, folder: &Path) -> Result<Unpacked, Error> {
        let missing = self.missing(folder)?;
        let mut done = Unpacked::default();
        match self.write(folder, &missing, &mut done) {
            Ok(()) => Ok(done),
            Err(error) => match done.undo() {
                left if left.is_empty() => Err(error),
                left => Err(Error::Left { paths: shown(&left), source: Box::new(error) }),
            },
        }
    }

    fn write(
        &self,
        folder: &Path,
        missing: &BTreeSet<PathBuf>,
        done: &mut Unpacked,
    ) -> Result<(), Error> {
        done.make_folder(folder)?;
        let mut drafts = Vec::new();
        for entry in &self.entries {
            let path = folder.join(&entry.path);
            let inside = if entry.content.is_some() { path.parent() } else { Some(path.as_path()) };
            done.make_folder(inside.unwrap_or(folder))?;
            if let Some(content) = entry.content.as_ref().filter(|_| missing.contains(&path)) {
                let draft = draft(&path, content.expose_secret(), entry.mode | 0o600);
                drafts.push((draft.map_err(|source| local("write", &path, source))?, path));
            }
        }
        for (draft, path) in drafts {
            draft.place().map_err(|source| local("write", &path, source))?;
            done.files.push(path);
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
        Ok(())
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

fn draft(path: &Path, content: &[u8], mode: u32) -> io::Result<Draft> {
    let mut draft = Draft::create(path)?.with_mode(mode);
    draft.write_all(content)?;
    draft.close()?;
    Ok(draft)
}

/// What an archive has become on the disk.
#[derive(Debug, Default)]
pub struct Unpacked {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Unpacked {
    /// The files that are new.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Makes a folder and those above it, and remembers them.
    fn make_folder(&mut self, path: &Path) -> Result<(), Error> {
        let missing = path.ancestors().filter(|above| !above.as_os_str().is_empty());
        let missing: Vec<&Path> = missing.take_while(|above| !above.is_dir()).collect();
        for folder in missing.into_iter().rev() {
            let made = fs::DirBuilder::new().mode(0o700).create(folder);
            made.map_err(|source| local("make the folder", folder, source))?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    /// Removes again what is new, and says what could not be.
    #[must_use]
    pub fn undo(self) -> Vec<PathBuf> {
        let is_left = |removed: io::Result<()>| {
            removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
        };
        let files = self.files.into_iter().filter(|path| is_left(fs::remove_file(path)));
        let mut left: Vec<PathBuf> = files.collect();
        let folders = self.folders.into_iter().rev();
        left.extend(folders.filter(|path| is_left(fs::remove_dir(path))));
        left
    }
}

fn shown(paths: &[PathBuf]) -> String {
    let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    all.join(", ")
}

/// The entries as they stand in the tar. Long names stand in entries of their own, which are read
/// here: the `tar` crate would read them to their end, wherever that is.
fn collect<R: Read>(
    archive: &mut tar::Archive<Bounded<R>>,
    name: &str,
) -> Result<Vec<Entry>, Error> {
    let failed = |error: io::Error| unread(&error, name);
    let (mut entries, mut names) = (Vec::new(), Names::default());
    let (mut left, mut long) = (LARGEST, None);
    for (count, entry) in archive.entries().map_err(failed)?.raw(true).enumerate() {
        let mut entry = entry.map_err(failed)?;
        // Each may have one of its own for its name.
        if count >= 2 * MOST_ENTRIES || entries.len() >= MOST_ENTRIES {
            return Err(bad(name, "there are more than 10000 files in it"));
        }
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() {
            long = Some(long_name(&mut entry, name)?);
            continue;
        }
        if kind.is_pax_local_extensions() {
            long = pax_name(&mut entry, name)?.or(long);
            continue;
        }
        if kind.is_pax_global_extensions() {
            continue;
        }
        let path = match long.take() {
            Some(path) => path,
            None => entry.path().map_err(failed)?.into_owned(),
        };
        let path = harmless(&path, name)?;
        let content = match kind {
            EntryType::Directory => None,
            EntryType::Regular => Some(body(&mut entry, &mut left, name)?),
            _ => {
                let shown = path.to_string_lossy();
                return Err(bad(name, &format!("{shown:?} is neither file nor folder")));
            }
        };
        names.take(&path, content.is_some(), name)?;
        let header = entry.header();
        let mode = header.mode().map_err(failed)? & 0o777;
        entries.push(Entry { path, mode, modified: header.mtime().unwrap_or(0), content });
    }
    Ok(entries)
}

/// The names of an archive: none may stand for two things.
#[derive(Default)]
struct Names {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Names {
    fn take(&mut self, path: &Path, is_file: bool, name: &str) -> Result<(), Error> {
        let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        self.folders.extend(above.map(Path::to_owned));
        let new = if is_file {
            self.files.insert(path.to_owned())
        } else {
            self.folders.insert(path.to_owned());
            true
        };
        let twice = path
            .ancestors()
            .find(|path| self.files.contains(*path) && self.folders.contains(*path));
        match twice.or((!new).then_some(path)) {
            Some(path) => {
                let shown = path.to_string_lossy();
                Err(bad(name, &format!("{shown:?} is in it twice")))
            }
            None => Ok(()),
        }
    }
}

/// All of a small entry.
fn small(entry: &mut impl Read, most: u64, what: &str, name: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    entry.take(most + 1).read_to_end(&mut bytes).map_err(|error| unread(&error, name))?;
    if bytes.len() as u64 > most {
        return Err(bad(name, &format!("{what} in it has more than {most} bytes")));
    }
    Ok(bytes)
}

fn long_name(entry: &mut impl Read, name: &str) -> Result<PathBuf, Error> {
    let mut bytes = small(entry, LONGEST_NAME, "a name", name)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(OsString::from_vec(bytes).into())
}

/// The name among what POSIX lets stand before an entry.
fn pax_name(entry: &mut impl Read, name: &str) -> Result<Option<PathBuf>, Error> {
    let bytes = small(entry, LONGEST_PAX, "a header", name)?;
    let mut found = None;
    for extension in tar::PaxExtensions::new(&bytes) {
        let extension = extension.map_err(|error| unread(&error, name))?;
        match extension.key_bytes() {
            b"path" => found = Some(OsString::from_vec(extension.value_bytes().to_vec()).into()),
            // It stands for the size in the entry itself, which is what is gone by here.
            b"size" => return Err(bad(name, "it has an entry of a size that no key file has")),
            _ => {}
        }
    }
    Ok(found)
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

/// Ends where no archive of a node goes on, and keeps its input's failure, which tar would bury in
/// one of its own.
struct Bounded<R> {
    input: R,
    left: u64,
    failed: Option<io::Error>,
}

impl<R> Bounded<R> {
    fn new(input: R) -> Self {
        Self { input, left: LARGEST + BESIDE_FILES, failed: None }
    }

    const fn is_over(&self) -> bool {
        self.left == 0
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_over() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        match self.input.read(&mut buffer[..most]) {
            Ok(taken) => {
                self.left -= taken as u64;
                Ok(taken)
            }
            Err(error) => {
                let kind = error.kind();
                if kind != io::ErrorKind::Interrupted {
                    self.failed = Some(error);
                }
                Err(kind.into())
            }
        }
    }
}
