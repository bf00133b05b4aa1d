//! Does what was decided: the only file of a restore that writes anything.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::etcdutl;
use super::fetch::{Fetched, ITEM, fetch};
use super::find::{Data, Found};
use super::place::{Now, is_live};
use super::plan::{DataDir, cannot};
use super::request::{Engine, Request};
use super::staging::Staging;
use super::twin::hinted;
use crate::backup::Error;
use crate::disk::{self, Draft};
use crate::etcd::db::{Db, Summary, Trailer};
use crate::etcd::restore::{Prepared, prepare, write};
use crate::progress::{Progress, Step};
use crate::s3::Version;
use crate::snapshot::archive::{Archive, Unpacked};
use crate::snapshot::kind::Kind;
use crate::snapshot::pack::Unpacker;
use crate::snapshot::seal::Identities;

/// A database that was fetched and held to everything that is said of it.
#[derive(Debug)]
pub struct Verified {
    /// What came.
    pub fetched: Fetched,
    /// What is in it.
    pub summary: Summary,
    /// What proves it.
    pub proven: Vec<String>,
    /// What could not be checked.
    pub unproven: Vec<String>,
}

/// Fetches the database into `into` and verifies it.
///
/// # Errors
/// It cannot be had, or it is not what it should be.
pub async fn verified(
    found: &Found,
    request: &Request,
    into: &Path,
    progress: &Arc<dyn Progress>,
) -> Result<Verified, Error> {
    let with = request.identities.clone().unwrap_or_default();
    let fetched = fetch(found, &with, into, progress).await;
    let fetched = fetched.map_err(|error| hinted(found, error))?;
    let (proven, unproven) = trusted(found, &fetched, request.skip_hash_check)?;
    progress.update(ITEM, Step::state("verifying"));
    let path = into.to_owned();
    let read = spawn_blocking(move || {
        let db = Db::open(&path)?;
        // What no page needs may be behind them, but then it is no snapshot's.
        db.summary()
    });
    let summary = read.await.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
    let summary = summary.map_err(Error::doing(cannot(found)))?;
    as_said(found, &summary)?;
    Ok(Verified { fetched, summary, proven, unproven })
}

/// Holds what came to the sums that are known of it.
fn trusted(
    found: &Found,
    fetched: &Fetched,
    skip: bool,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let (mut proven, mut unproven) = (Vec::new(), Vec::new());
    if let Some(manifest) = &found.manifest {
        let sum = hex::encode(fetched.sha256);
        if (fetched.size, &sum) != (manifest.db.size, &manifest.db.sha256) {
            return Err(Error::declined(
                format!(
                    "{} is damaged: {} bytes with SHA-256 {sum} came, its manifest says {} and {}",
                    found.name, fetched.size, manifest.db.size, manifest.db.sha256
                ),
                "take another backup: `capvco-backup list` shows them",
            ));
        }
        proven.push("the manifest's SHA-256".to_owned());
    }
    match fetched.trailer {
        Trailer::Fits(_) => proven.push("etcd's own SHA-256".to_owned()),
        Trailer::Wrong => {
            return Err(Error::declined(
                format!("{} is damaged: its data does not fit the SHA-256 behind it", found.name),
                "fetch it again, or take another snapshot",
            ));
        }
        Trailer::Blank => {
            return Err(Error::declined(
                format!(
                    "{} was never written to its end: zeros are where etcd's SHA-256 belongs",
                    found.name
                ),
                "it was copied while it was being written, or the disk was full: take another one",
            ));
        }
        Trailer::Absent => {}
    }
    if fetched.layers.sealed {
        proven.push("age".to_owned());
    }
    if proven.is_empty() {
        if !skip {
            return Err(Error::declined(
                format!(
                    "{} carries no SHA-256: it is a copied database, or its end was cut off",
                    found.name
                ),
                "if it is a copied member/snap/db of an etcd that was stopped: --skip-hash-check",
            ));
        }
        unproven.push("nothing proves that these are the bytes that etcd wrote".to_owned());
    }
    Ok((proven, unproven))
}

fn as_said(found: &Found, summary: &Summary) -> Result<(), Error> {
    let Some(manifest) = &found.manifest else { return Ok(()) };
    if manifest.revision == summary.revision {
        return Ok(());
    }
    Err(Error::declined(
        format!(
            "{} is of revision {}, its manifest says {}",
            found.name, summary.revision, manifest.revision
        ),
        "take another backup: `capvco-backup list` shows them",
    ))
}

/// A data directory in its place.
#[derive(Debug)]
pub struct Placed {
    /// What was verified.
    pub verified: Verified,
    /// What was written.
    pub prepared: Prepared,
    /// Where the old data is.
    pub aside: Option<PathBuf>,
    /// What could not be removed.
    pub left: Option<String>,
}

/// Makes the data directory beside its place and swaps it in.
///
/// # Errors
/// Nothing has changed then.
pub async fn data_dir(
    found: &Found,
    request: &Request,
    dir: &DataDir,
    progress: &Arc<dyn Progress>,
    keys: impl FnOnce() -> Result<Option<Unpacked>, Error>,
) -> Result<Placed, Error> {
    let staging = Staging::take(&dir.place.staging())?;
    let staged = staging.at("staged.db");
    let verified = verified(found, request, &staged, progress).await?;
    let prepared = prepare(&dir.member.plan, &verified.summary);
    let prepared = prepared.map_err(Error::doing(cannot(found)))?;
    let made = staging.at("data");
    progress.update(ITEM, Step::state("writing"));
    engine(dir, &prepared, &staged, &made).await?;
    let keys = keys()?;
    let aside = with_keys(keys, still_free(dir).and_then(|()| swap(dir, &made)))?;
    let left = staging.remove().err().map(|error| crate::fault::chain(&error));
    Ok(Placed { verified, prepared, aside, left })
}

/// The kubelet may have started an etcd again in the meantime.
fn still_free(dir: &DataDir) -> Result<(), Error> {
    if !is_live(&dir.place.path)? {
        return Ok(());
    }
    Err(Error::declined(
        format!("an etcd has been started on {} meanwhile", dir.place.path.display()),
        "stop it, and move its manifest away so that it stays so",
    ))
}

/// The keys of a restore that has failed are removed again.
fn with_keys<T>(keys: Option<Unpacked>, done: Result<T, Error>) -> Result<T, Error> {
    done.map_err(|error| match keys.map(Unpacked::undo).unwrap_or_default() {
        left if left.is_empty() => error,
        left => error.leaving(&left),
    })
}

async fn engine(
    dir: &DataDir,
    prepared: &Prepared,
    staged: &Path,
    made: &Path,
) -> Result<(), Error> {
    match &dir.engine {
        Engine::Native => {
            let folder = DirBuilder::new().mode(0o700).create(made);
            folder.map_err(|error| Error::file("create", made, error))?;
            let (prepared, staged) = (prepared.clone(), staged.to_owned());
            let member = made.join("member");
            let written = spawn_blocking(move || write(&prepared, &staged, &member));
            let written = written.await;
            let written = written.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
            written.map_err(Error::doing("cannot make the data directory"))?;
        }
        Engine::Etcdutl(tool) => {
            etcdutl::restore(tool, &dir.member.plan, staged, made).await?;
            fs::remove_file(staged).map_err(|error| Error::file("remove", staged, error))?;
        }
    }
    Ok(())
}

/// Moves the old data aside and the new into its place; gives where the old is.
fn swap(dir: &DataDir, made: &Path) -> Result<Option<PathBuf>, Error> {
    let place = &dir.place;
    let (from, to) = if place.mount_point {
        (made.join("member"), place.path.join("member"))
    } else {
        (made.to_owned(), place.path.clone())
    };
    own_as(&place.path, made).map_err(|error| Error::file("hand over", made, error))?;
    let aside = if let Some(wanted) = &dir.aside {
        let aside = unused(wanted);
        change_places(&from, &to, &aside)?;
        Some(aside)
    } else {
        let empty = place.now == Now::Empty && !place.mount_point;
        let aside = clear_empty(&place.path, empty)?;
        put(&from, &to, aside.as_deref())?;
        aside
    };
    let parent = to.parent().unwrap_or(Path::new("/"));
    let synced = File::open(parent).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::file("write", parent, error))?;
    Ok(aside)
}

/// Puts the new data in its place and the old aside, in one moment where the kernel and the file
/// system can do so: what finds no data begins an empty cluster.
fn change_places(new: &Path, place: &Path, aside: &Path) -> Result<(), Error> {
    // What is in the staging folder is cleared by the next run: the old data must never be there.
    if fs::rename(new, aside).is_ok() {
        if disk::exchange(aside, place).is_ok() {
            return Ok(());
        }
        let back = fs::rename(aside, new);
        back.map_err(|error| Error::file("rename", aside, error))?;
    }
    fs::rename(place, aside).map_err(|error| Error::file("move aside", place, error))?;
    put(new, place, Some(aside))
}

/// Puts the new data in its place; where that fails, what was moved aside comes back.
fn put(new: &Path, place: &Path, aside: Option<&Path>) -> Result<(), Error> {
    fs::rename(new, place).map_err(|error| {
        if let Some(aside) = aside {
            // Should even this fail, the error names the place.
            let _ = fs::rename(aside, place);
        }
        Error::file("put the new data at", place, error)
    })
}

/// An empty folder makes room; one with something that does not matter moves aside.
fn clear_empty(path: &Path, empty: bool) -> Result<Option<PathBuf>, Error> {
    if !empty || fs::remove_dir(path).is_ok() {
        return Ok(None);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = unused(&path.with_file_name(format!("{name}.bak")));
    fs::rename(path, &aside).map_err(|error| Error::file("move aside", path, error))?;
    Ok(Some(aside))
}

/// The path, or the first with a number behind it that nobody has.
fn unused(wanted: &Path) -> PathBuf {
    let name = wanted.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = (2..).map(|n| wanted.with_file_name(format!("{name}-{n}")));
    let mut all = std::iter::once(wanted.to_owned()).chain(numbered);
    all.find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_else(|| wanted.to_owned())
}

/// The owner stays who it was: an etcd that runs as a user of its own must read it.
fn own_as(old: &Path, made: &Path) -> io::Result<()> {
    let Ok(old) = fs::metadata(old) else { return Ok(()) };
    let new = fs::metadata(made)?;
    if (old.uid(), old.gid()) == (new.uid(), new.gid()) {
        return Ok(());
    }
    hand_over(made, old.uid(), old.gid())
}

fn hand_over(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            hand_over(&entry?.path(), uid, gid)?;
        }
    }
    Ok(())
}

/// Writes the database to a file that `etcdutl snapshot restore` accepts: with its SHA-256 behind
/// it.
///
/// # Errors
/// Nothing is there then.
pub async fn db_file(
    found: &Found,
    request: &Request,
    path: &Path,
    progress: &Arc<dyn Progress>,
    keys: impl FnOnce() -> Result<Option<Unpacked>, Error>,
) -> Result<Verified, Error> {
    let writing = |error| Error::file("write", path, error);
    let mut draft = Draft::create(path).map_err(writing)?;
    let verified = verified(found, request, draft.part(), progress).await?;
    let mut end = || {
        let mut file = OpenOptions::new().append(true).open(draft.part())?;
        file.write_all(&verified.fetched.sha256)?;
        draft.close()
    };
    end().map_err(writing)?;
    let keys = keys()?;
    // Not over something that appeared meanwhile.
    with_keys(keys, draft.place().map_err(writing))?;
    Ok(verified)
}

/// Fetches the node's keys and holds them in memory: they are small, and must be whole before
/// anything of them is written.
///
/// # Errors
/// They cannot be had or opened.
pub async fn keys(found: &Found, with: &Identities) -> Result<Archive, Error> {
    let sealed = sealed_keys(found).await?;
    let name = if found.pki.is_some() {
        format!("the keys of {}", found.name)
    } else {
        found.name.clone()
    };
    let with = with.clone();
    let read = spawn_blocking(move || {
        let unpacker = Unpacker::new(io::Cursor::new(sealed), &with, &name)?;
        let unpacker = unpacker.must_hold(Kind::Tar, &name)?;
        Archive::read(unpacker, &name)
    });
    let read = read.await.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
    let recipients = found.manifest.as_ref().map(|manifest| manifest.recipients.clone());
    let named = |error: crate::snapshot::Error| error.encrypted_to(&recipients.unwrap_or_default());
    let read = read.map_err(named).map_err(Error::doing("cannot open the node's keys"));
    read.map_err(|error| hinted(found, error))
}

async fn sealed_keys(found: &Found) -> Result<Vec<u8>, Error> {
    let (Some(bucket), Some(pki)) = (&found.bucket, &found.pki) else { return file_of_keys(found) };
    let doing = Error::doing(format!("cannot fetch {}", pki.key));
    let sealed = bucket.get_small(&pki.key, pki.version_id.as_deref(), LARGEST_KEYS);
    let Some(sealed) = sealed.await.map_err(doing)? else {
        return Err(Error::not_found(format!("{} is not there any more", pki.key), ""));
    };
    hold(found, pki, &sealed)?;
    Ok(sealed)
}

fn file_of_keys(found: &Found) -> Result<Vec<u8>, Error> {
    let mut sealed = Vec::new();
    let (path, read) = if let Data::File { path, .. } = &found.data {
        let file = disk::open(path);
        (path.as_path(), file.and_then(|f| f.take(LARGEST_KEYS).read_to_end(&mut sealed)))
    } else {
        let stdin = io::stdin().lock();
        (Path::new("stdin"), stdin.take(LARGEST_KEYS).read_to_end(&mut sealed))
    };
    read.map_err(|error| Error::file("read", path, error))?;
    Ok(sealed)
}

/// More than any archive of ours has, encrypted.
const LARGEST_KEYS: u64 = 80 << 20;

fn hold(found: &Found, pki: &Version, sealed: &[u8]) -> Result<(), Error> {
    use sha2::Digest as _;
    let said = found.manifest.as_ref().and_then(|manifest| manifest.pki.as_ref());
    let sum = hex::encode(sha2::Sha256::digest(sealed));
    match said {
        Some(said) if said.content.sha256 != sum => Err(Error::declined(
            format!("{} is damaged: its SHA-256 is not the manifest's", pki.key),
            "take another backup: `capvco-backup list` shows them",
        )),
        _ => Ok(()),
    }
}

/// The key of an object, for the report.
#[must_use]
pub fn object(found: &Found) -> (Option<String>, Option<String>) {
    match &found.data {
        Data::Object { key, version, .. } => (Some(key.clone()), version.clone()),
        _ => (None, None),
    }
}
