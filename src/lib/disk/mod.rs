//! Files of this machine: read to a bound, made for their owner alone, put into place whole.
//!
//! **What may enter:** what every room does with files, whatever is in them: no formats, no
//! words for users.
//!
//! **Invariants:** nothing is read without a bound, because a device has no end and a pipe may
//! have no beginning ([`open`], [`read()`], [`read_file`]); nothing with secrets in it is ever open
//! to others ([`create`]); what others wait for gets its name when it is whole, and never takes
//! the place of what is no regular file ([`Draft`]).
//!
//! **To add one more** way of using files, add a file here and its function to the list below.

mod draft;
mod read;
mod rename;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

pub use draft::Draft;
pub use read::{open, read, read_file};
pub use rename::{exchange, rename_new};

/// Makes everything that this process creates from now on its owner's alone, unless it is given
/// other permissions by name.
pub fn keep_private() {
    use rustix::fs::Mode;
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// A new file that is its owner's alone from its first byte on.
///
/// # Errors
/// There is something of this name, or it cannot be made.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Whether a file may be put there: where nothing is, or in place of a regular file.
///
/// # Errors
/// Something else is there: a device, a pipe, a link, a folder.
pub fn may_be_replaced(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = match std::fs::symlink_metadata(path) {
        Ok(facts) => facts.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("{what} is there, and only a regular file is replaced"),
    ))
}

/// Makes a change of names in the folder of `path` last.
///
/// # Errors
/// The disk's own.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// The folder that `path` is in.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_a_regular_file_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (path, what) in [
            (at("file"), None),
            (at("nothing"), None),
            (at("folder"), Some("a folder is there")),
            (at("link"), Some("a symbolic link is there")),
            (at("dangling"), Some("a symbolic link is there")),
            (at("pipe"), Some("a pipe is there")),
            (at("socket"), Some("a socket is there")),
            ("/dev/null".into(), Some("a device is there")),
        ] {
            let said = may_be_replaced(&path).err().map(|error| error.to_string());
            assert_eq!(said.is_some(), what.is_some(), "{path:?}: {said:?}");
            assert!(said.unwrap_or_default().starts_with(what.unwrap_or_default()), "{path:?}");
        }
    }
}
