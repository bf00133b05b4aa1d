//! Where a restore goes: looked at before anything is written.
//!
//! A live etcd holds an exclusive `flock` on its database (bbolt's `bolt_unix.go`), whatever
//! machine or container of this kernel it runs in.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::backup::Error;

/// What is at the path of a data directory now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// Nothing.
    Absent,
    /// An empty folder.
    Empty,
    /// Data of an etcd.
    Etcd,
    /// Something that is no data directory of etcd.
    Foreign,
    /// A file, or what else is no folder.
    NoFolder,
}

/// A place for a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The folder itself, links followed.
    pub path: PathBuf,
    /// What is there.
    pub now: Now,
    /// A file system is mounted at it, so that it cannot be renamed.
    pub mount_point: bool,
    /// A running etcd holds it.
    pub live: bool,
    /// Bytes that are free on its file system.
    pub free: u64,
    /// Where nothing is there: data beside it that an earlier restore has moved aside.
    pub asides: Vec<PathBuf>,
}

impl Place {
    /// Looks at `path`, which need not exist; its parent must.
    ///
    /// # Errors
    /// The parent is missing, or something cannot be looked at.
    pub fn look(path: &Path) -> Result<Self, Error> {
        let path = real(path)?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let now = now(&path)?;
        let inside = matches!(now, Now::Empty | Now::Etcd | Now::Foreign);
        let free = free(if inside { &path } else { parent })?;
        let mount_point = inside && is_mount_point(&path, parent)?;
        let live = is_live(&path)?;
        let bare = matches!(now, Now::Absent | Now::Empty);
        let asides = if bare { asides(&path, mount_point) } else { Vec::new() };
        Ok(Self { path, now, mount_point, live, free, asides })
    }

    /// Where to work: on the same file system, with one name, so that what a killed run left
    /// behind is found by the next one.
    #[must_use]
    pub fn staging(&self) -> PathBuf {
        if self.mount_point {
            return self.path.join(".capvco-restore");
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!(".{name}.capvco-restore"))
    }
}

/// The path with its parent's links followed, and its own.
fn real(path: &Path) -> Result<PathBuf, Error> {
    match fs::canonicalize(path) {
        Ok(real) => return Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(Error::file("look at", path, error)),
    }
    let Some(name) = path.file_name() else {
        return Err(Error::asked(
            format!("{} names no folder", path.display()),
            "write the whole path, such as /var/lib/etcd",
        ));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).map_err(|error| Error::file("use", parent, error))?;
    Ok(parent.join(name))
}

/// What earlier restores have moved aside, and a killed one perhaps for nothing.
fn asides(path: &Path, mount_point: bool) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = path.parent().unwrap_or(Path::new("/"));
    let (folder, start, holds) = if mount_point {
        (path, "member.bak-".to_owned(), "snap/db")
    } else {
        (beside, format!("{name}.bak-"), "member/snap/db")
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start));
    let mut all: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    all.retain(|path| path.join(holds).is_file());
    all.sort();
    all
}

fn now(path: &Path) -> Result<Now, Error> {
    let looking = |error| Error::file("look at", path, error);
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => return Ok(Now::NoFolder),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A link to nothing would be replaced, not followed.
            let link = fs::symlink_metadata(path).is_ok();
            return Ok(if link { Now::NoFolder } else { Now::Absent });
        }
        Err(error) => return Err(looking(error)),
    }
    let mut seen = Now::Empty;
    for entry in fs::read_dir(path).map_err(looking)? {
        let name = entry.map_err(looking)?.file_name();
        match name.to_str() {
            Some("member") => return Ok(Now::Etcd),
            // What an earlier run left, and what every fresh file system of ext4 has.
            Some(".capvco-restore" | "lost+found") => {}
            // Data that an earlier restore has moved aside inside of a mount point.
            Some(name) if name.starts_with("member.bak-") => {}
            _ => seen = Now::Foreign,
        }
    }
    Ok(seen)
}

fn is_mount_point(path: &Path, parent: &Path) -> Result<bool, Error> {
    let device = |path: &Path| {
        let found = fs::metadata(path).map_err(|error| Error::file("look at", path, error))?;
        Ok(found.dev())
    };
    if device(path)? != device(parent)? {
        return Ok(true);
    }
    // A folder that is mounted once more has the device of its parent.
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Ok(table.lines().any(|line| line.split(' ').nth(4).map(unescaped).as_deref() == path.to_str()))
}

/// The kernel writes blanks and the like as `\040`.
fn unescaped(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Whether a running etcd holds the directory.
///
/// # Errors
/// Its database cannot be opened.
pub fn is_live(data_dir: &Path) -> Result<bool, Error> {
    let db = data_dir.join("member/snap/db");
    let file = match File::open(&db) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(Error::file("look at", &db, error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(Error::file("look at", &db, error)),
    }
}

/// Bytes that somebody without privileges may still write there.
///
/// # Errors
/// There is no such place.
pub fn free(path: &Path) -> Result<u64, Error> {
    let found = rustix::fs::statvfs(path);
    let found = found.map_err(|error| Error::file("look at", path, error.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["empty", "data/member", "home/x", "moved/member.bak-1", "new/lost+found"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("dangling")).unwrap();
        for (name, now) in [
            ("dangling", Now::NoFolder),
            ("absent", Now::Absent),
            ("empty", Now::Empty),
            ("data", Now::Etcd),
            ("home", Now::Foreign),
            ("moved", Now::Empty),
            ("new", Now::Empty),
            ("file", Now::NoFolder),
        ] {
            let place = Place::look(&at(name)).unwrap();
            assert_eq!(place.now, now, "{name}");
            assert!(!place.live && !place.mount_point && place.free > 0, "{name}");
            let staging = place.staging();
            assert!(staging.to_str().unwrap().ends_with(&format!("/.{name}.capvco-restore")));
        }
        assert!(Place::look(&at("no/such/place")).is_err());
        assert!(Place::look(Path::new("/")).unwrap().path == Path::new("/"));
    }

    #[test]
    fn data_that_a_killed_restore_has_moved_aside_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["etcd.bak-2", "etcd.bak-1", "etcd.bakery", "other.bak-1"] {
            fs::create_dir_all(at(name).join("member/snap")).unwrap();
            fs::write(at(name).join("member/snap/db"), "x").unwrap();
        }
        fs::create_dir(at("etcd.bak-empty")).unwrap();
        let found = fs::canonicalize(folder.path()).unwrap();
        let found = ["etcd.bak-1", "etcd.bak-2"].map(|name| found.join(name));
        assert_eq!(Place::look(&at("etcd")).unwrap().asides, found);
        fs::create_dir(at("etcd")).unwrap();
        assert_eq!(Place::look(&at("etcd")).unwrap().asides, found);
        fs::create_dir(at("etcd/member")).unwrap();
        assert!(Place::look(&at("etcd")).unwrap().asides.is_empty(), "there is data");
    }

    #[test]
    fn a_link_is_followed_to_where_the_data_is() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("disk/etcd");
        fs::create_dir_all(&real).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let real = fs::canonicalize(&real).unwrap();
        assert_eq!(Place::look(&link).unwrap().path, real);
        let staging = Place::look(&link).unwrap().staging();
        assert_eq!(staging.parent(), real.parent(), "beside the data, not beside the link");
    }

    #[test]
    fn a_mounted_file_system_is_worked_in_from_inside() {
        let proc = Place::look(Path::new("/proc")).unwrap();
        assert!(proc.mount_point);
        assert_eq!(proc.staging(), Path::new("/proc/.capvco-restore"));
        assert_eq!(unescaped("/mnt/a\\040b"), "/mnt/a b");
    }

    #[test]
    fn a_locked_database_is_a_live_etcd() {
        let folder = tempfile::tempdir().unwrap();
        let snap = folder.path().join("member/snap");
        fs::create_dir_all(&snap).unwrap();
        let db = File::create(snap.join("db")).unwrap();
        assert!(!is_live(folder.path()).unwrap());
        db.lock().unwrap();
        assert!(is_live(folder.path()).unwrap());
        drop(db);
        assert!(!Place::look(folder.path()).unwrap().live);
    }
}
