//! Packing what is there: folders whole, links followed, and told what was left out.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use secrecy::ExposeSecret as _;
use tar::{Builder, EntryType, Header};

use super::{LARGEST, local, read_up_to};
use crate::snapshot::error::Error;

/// What was packed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// How many files.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// What was left out, and why.
    pub remarks: Vec<String>,
}

/// Packs files and folders (with all that is in them) into `output`, by their whole path without
/// the slash at its beginning.
///
/// # Errors
/// [`Error::Local`] if one of `paths`, or a file below it, cannot be read; [`Error::Archive`] if
/// it is more than [`LARGEST`]; [`Error::Write`] if `output` fails.
pub fn pack<W: Write>(paths: &[PathBuf], output: W) -> Result<(Packed, W), Error> {
    let mut packing =
        Packing { to: Builder::new(output), seen: BTreeSet::new(), done: Packed::default() };
    for path in paths {
        packing.add(path, &mut Vec::new())?;
    }
    let output = packing.to.into_inner().map_err(unwritten)?;
    Ok((packing.done, output))
}

struct Packing<W: Write> {
    to: Builder<W>,
    seen: BTreeSet<PathBuf>,
    done: Packed,
}

impl<W: Write> Packing<W> {
    /// Adds `path`; `above` are the real folders that it lies in, so that a ring of links ends.
    fn add(&mut self, path: &Path, above: &mut Vec<PathBuf>) -> Result<(), Error> {
        if !self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        let facts = match fs::metadata(path) {
            Ok(facts) => facts,
            Err(_) if !above.is_empty() && path.is_symlink() => {
                self.leave_out(path, "its link leads nowhere");
                return Ok(());
            }
            Err(source) => return Err(local("read", path, source)),
        };
        if facts.is_dir() {
            self.add_folder(path, &facts, above)
        } else if facts.is_file() {
            self.add_file(path, &facts)
        } else {
            let kind = facts.file_type();
            let what = if kind.is_socket() { "it is a socket" } else { "it is no file" };
            self.leave_out(path, what);
            Ok(())
        }
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        self.done.remarks.push(format!("{} was left out: {why}", path.display()));
    }

    fn add_folder(
        &mut self,
        path: &Path,
        facts: &fs::Metadata,
        above: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        let real = path.canonicalize().map_err(|source| local("read", path, source))?;
        if above.contains(&real) {
            self.leave_out(path, "it is a link to a folder that it lies in");
            return Ok(());
        }
        self.append(path, facts, EntryType::Directory, &[])?;
        let listing = fs::read_dir(path).map_err(|source| local("read", path, source))?;
        let mut inside = Vec::new();
        for entry in listing {
            inside.push(entry.map_err(|source| local("read", path, source))?.path());
        }
        inside.sort();
        above.push(real);
        for path in inside {
            self.add(&path, above)?;
        }
        above.pop();
        Ok(())
    }

    fn add_file(&mut self, path: &Path, facts: &fs::Metadata) -> Result<(), Error> {
        let left = LARGEST - self.done.bytes;
        // The length may change while it is read: what was read is what counts.
        let content = read_up_to(path, left).map_err(|source| local("read", path, source))?;
        let content = content.ok_or_else(|| {
            let what = format!("{} and what is before it have more than 64 MiB", path.display());
            Error::Archive { name: "the archive of the node's keys".to_owned(), what }
        })?;
        self.append(path, facts, EntryType::Regular, content.expose_secret())?;
        self.done.files += 1;
        self.done.bytes += content.expose_secret().len() as u64;
        Ok(())
    }

    fn append(
        &mut self,
        path: &Path,
        facts: &fs::Metadata,
        kind: EntryType,
        content: &[u8],
    ) -> Result<(), Error> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(facts.mode() & 0o7777);
        header.set_uid(facts.uid().into());
        header.set_gid(facts.gid().into());
        header.set_mtime(u64::try_from(facts.mtime()).unwrap_or(0));
        header.set_size(content.len() as u64);
        let name: PathBuf =
            path.components().filter(|c| matches!(c, Component::Normal(_))).collect();
        if name.as_os_str().is_empty() {
            return Ok(());
        }
        self.to.append_data(&mut header, name, content).map_err(unwritten)
    }
}

fn unwritten(source: io::Error) -> Error {
    Error::Write { name: "the archive of the node's keys".to_owned(), source }
}
