//! Writes a prepared restore into a staging folder: files 0600, folders 0700, all of it on disk
//! before the call returns.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::plan::Prepared;
use super::rewrite::{Rewritten, rewrite};
use super::{Error, snap, wal};
use crate::etcd::db::Db;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// This member's id.
    pub member_id: u64,
    /// The new cluster's id.
    pub cluster_id: u64,
    /// The revision that clients will see.
    pub revision: i64,
    /// Bytes of the database.
    pub db_bytes: u64,
    /// The files, absolute if `member_dir` was.
    pub files: Vec<PathBuf>,
}

/// Makes `member_dir` out of the database at `db_file`, which is changed and moved into it: it
/// must be a copy on the same file system, without a trailer, whose figures `prepare` was given.
///
/// # Errors
/// The database is damaged, or the disk does not take it. What was written so far stays, for the
/// caller to throw away.
pub fn write(prepared: &Prepared, db_file: &Path, member_dir: &Path) -> Result<Restored, Error> {
    let (snaps, log) = (member_dir.join("snap"), member_dir.join("wal"));
    for folder in [member_dir, &snaps, &log] {
        make_folder(folder)?;
    }
    let rewritten = rewrite(&Db::open(db_file)?, prepared)?;
    let db_bytes = rewritten.meta.bytes();
    rewrite_file(db_file, &rewritten)?;
    let db = snaps.join("db");
    fs::rename(db_file, &db).map_err(Error::write(&db))?;
    let members = snaps.join(snap::name(prepared));
    write_file(&members, &snap::file(prepared), None).map_err(Error::write(&members))?;
    let segment = log.join(wal::NAME);
    let records = wal::segment(prepared);
    write_file(&segment, &records, Some(wal::SEGMENT)).map_err(Error::write(&segment))?;
    for folder in [&snaps, &log, member_dir] {
        sync_folder(folder)?;
    }
    Ok(Restored {
        member_id: prepared.member_id,
        cluster_id: prepared.cluster_id,
        revision: prepared.revision,
        db_bytes,
        files: vec![db, members, segment],
    })
}

fn make_folder(path: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(Error::write(path))
}

fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(Error::write(path))
}

/// Pages first, then one meta page, then the other: whenever this ends, the file is the old one or
/// the new one.
fn rewrite_file(path: &Path, new: &Rewritten) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        // Behind the last page may be room that etcd reserved, or a trailer.
        file.set_len(new.at)?;
        file.write_all_at(&new.pages, new.at)?;
        file.sync_all()?;
        // bbolt writes transaction n to page n % 2, and both of a snapshot have one root.
        let mut meta = new.meta;
        for _ in 0..2 {
            meta.txid += 1;
            let page = meta.txid % 2;
            file.write_all_at(&meta.write(page), page * u64::from(meta.page_size))?;
            file.sync_all()?;
        }
        Ok(())
    };
    write().map_err(Error::write(path))
}

/// Writes a new file; where it is to be longer than its content, the rest is a hole, which etcd
/// itself falls back to where space cannot be reserved.
fn write_file(path: &Path, content: &[u8], len: Option<u64>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all_at(content, 0)?;
    if let Some(len) = len {
        file.set_len(len)?;
    }
    file.sync_all()
}
