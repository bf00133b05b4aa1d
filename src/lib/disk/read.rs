//! Files that a user has named, read to a bound.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Opens a regular file or a pipe.
///
/// # Errors
/// It is something else, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_file() || kind.is_fifo() || kind.is_dir() {
        // A folder fails with words of its own as soon as it is read.
        return File::open(path);
    }
    Err(no_file("it is neither a file nor a pipe"))
}

/// All of a regular file or a pipe, if that is not more than `most` bytes.
///
/// # Errors
/// It is more, or something else, or cannot be read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded(&open(path)?, most)
}

/// All of a regular file, if that is not more than `most` bytes. A pipe that nobody writes to
/// would be waited for, for ever.
///
/// # Errors
/// It is more, or something else, or cannot be read.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_file() || kind.is_dir() {
        return bounded(&File::open(path)?, most);
    }
    Err(no_file("it is no regular file"))
}

fn no_file(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn bounded(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it has more than {most} bytes, which no such file has");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_has_no_end_or_no_beginning_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for read in [read, read_file] {
            assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
            assert_eq!(read(&at("link"), 5).unwrap(), b"12345");
            let large = read(&at("file"), 4).unwrap_err();
            assert!(large.to_string().contains("more than 4 bytes"), "{large}");
            let device = read(&at("zero"), 4).unwrap_err();
            assert_eq!(device.kind(), io::ErrorKind::InvalidInput, "{device}");
            assert!(read(&at("nothing"), 4).is_err());
            assert!(read(folder.path(), 4).is_err());
        }
        assert!(read_file(&at("pipe"), 4).is_err(), "it is not waited for");
        let (pipe, to) = (at("pipe"), at("pipe"));
        let writer = std::thread::spawn(move || std::fs::write(to, "abcdef"));
        assert_eq!(read(&pipe, 6).unwrap(), b"abcdef");
        writer.join().unwrap().unwrap();
    }
}
