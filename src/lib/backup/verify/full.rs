//! The whole look: fetched once, hashed as stored beside being opened, and read as a database.
//!
//! The database goes into a file without a name, which the system removes with this process; the
//! checks of its structure need to jump around in it.

use std::fs::File;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::Request;
use super::report::Checks;
use crate::backup::Error;

use crate::backup::fetch::{Fetched, Full, fetch, hash, joined};
use crate::backup::restore::free;
use crate::etcd::db::{Damage, Db, Summary};
use crate::fault::chain;
use crate::progress::Progress;
use crate::report::size;
use crate::s3::Bucket;
use crate::snapshot::archive::{Archive, Entry as ArchiveEntry};
use crate::snapshot::catalog::Entry;
use crate::snapshot::kind::Kind;
use crate::snapshot::manifest::{Compression, Content, Encryption, Manifest};
use crate::snapshot::pack::{Found, Unpacker};
use crate::snapshot::pipe::PipeReader;
use crate::snapshot::seal::Identities;

/// Fetches a backup and looks at all of it.
pub async fn check(
    bucket: &Bucket,
    entry: &Entry,
    request: &Request,
    progress: &dyn Progress,
    checks: &mut Checks,
) -> Result<(), Error> {
    let Some((record, manifest)) = entry.good() else { return Ok(()) };
    let identities = request.identities.clone().unwrap_or_default();
    let name = entry.slot.to_string();
    let told = (progress, name.as_str());
    if let Some(version) = &record.data {
        let staging = request.staging.clone().unwrap_or_else(tempfile::env::temp_dir);
        progress.say(&format!(
            "{}: {} of database go into a file without a name in {}",
            entry.slot,
            size(manifest.db.size),
            staging.display()
        ));
        let keys = identities.clone();
        let most = room(manifest, &staging)?;
        let open = move |from| database(from, &keys, &staging, most);
        let fetched = fetch(bucket, version, open, told).await?;
        about_data(fetched, manifest, checks).await?;
    }
    if let (Some(version), Some(pki)) = (&record.pki, &manifest.pki) {
        let open = move |from| Ok(archive(from, &identities));
        let fetched = fetch(bucket, version, open, told).await?;
        checks.judged("pki sum", held_against(&fetched.stored, &pki.content));
        match fetched.opened {
            Ok(detail) => checks.good("pki contents", detail),
            Err(error) => {
                checks.closed("pki contents", &error.encrypted_to(&manifest.recipients));
            }
        }
    }
    Ok(())
}

/// The bytes of the database, if there is room for them.
fn room(manifest: &Manifest, staging: &Path) -> Result<u64, Error> {
    // A place that cannot be looked at cannot be written to either, which says it better.
    let (needed, free) = (manifest.db.size, free(staging).unwrap_or(u64::MAX));
    if needed <= free {
        return Ok(needed);
    }
    Err(Error::declined(
        format!(
            "there is too little room at {}: {} are needed, {} are free",
            staging.display(),
            size(needed),
            size(free)
        ),
        "name another place with --staging DIR",
    ))
}

/// What was found inside, and the database in a file without a name.
struct Unpacked {
    found: Found,
    content: Content,
    file: File,
}

fn database(
    from: PipeReader,
    identities: &Identities,
    staging: &PathBuf,
    most: u64,
) -> Result<Result<Unpacked, crate::snapshot::Error>, Error> {
    let unwritten = |error| Error::file("write a temporary file in", staging, error);
    let mut file = tempfile::tempfile_in(staging).map_err(unwritten)?;
    let unpacker = Unpacker::new(from, identities, "the data")
        .and_then(|unpacker| unpacker.must_hold(Kind::EtcdDb, "the data"));
    let unpacker = match unpacker {
        Ok(unpacker) => unpacker,
        Err(error) => return Ok(Err(error)),
    };
    let found = unpacker.found();
    match hash(unpacker, &mut file, most) {
        Ok(content) => Ok(Ok(Unpacked { found, content, file })),
        Err(error) => match error.downcast::<Full>() {
            Ok(Full(error)) => Err(unwritten(error)),
            Err(error) => Ok(Err(crate::snapshot::Error::of_reading("the data", error))),
        },
    }
}

fn archive(from: PipeReader, identities: &Identities) -> Result<String, crate::snapshot::Error> {
    let name = "the node's keys";
    let archive = Archive::read(Unpacker::new(from, identities, name)?, name)?;
    let sizes: Vec<u64> = archive.entries().iter().filter_map(ArchiveEntry::size).collect();
    Ok(format!("{} files, {}", sizes.len(), size(sizes.iter().sum())))
}

fn held_against(found: &Content, said: &Content) -> Result<String, String> {
    if found.size > said.size {
        Err(format!("more than {} bytes came", said.size))
    } else if found.size != said.size {
        Err(format!("{} bytes came instead of {}", found.size, said.size))
    } else if found.sha256 != said.sha256 {
        Err("its SHA-256 is not the manifest's".to_owned())
    } else {
        Ok(format!("{}, SHA-256 {}", size(found.size), &found.sha256[..16]))
    }
}

async fn about_data(
    fetched: Fetched<Unpacked>,
    manifest: &Manifest,
    checks: &mut Checks,
) -> Result<(), Error> {
    checks.judged("sum", held_against(&fetched.stored, &manifest.data.content));
    let unpacked = match fetched.opened {
        Ok(unpacked) => unpacked,
        Err(error) => {
            checks.closed("opened", &error.encrypted_to(&manifest.recipients));
            return Ok(());
        }
    };
    checks.judged("opened", as_said(unpacked.found, manifest));
    checks.judged("database sum", held_against(&unpacked.content, &manifest.db));
    let file = unpacked.file;
    match joined(spawn_blocking(move || read(file))).await {
        Ok((pages, summary)) => {
            checks.good("structure", format!("{pages} pages in use"));
            checks.judged("contents", contents(&summary, manifest));
        }
        Err(Damage::Unreadable { source, .. }) => {
            return Err(Error::file("read", Path::new("the temporary file"), source));
        }
        Err(damage) => checks.bad("structure", chain(&damage)),
    }
    Ok(())
}

fn as_said(found: Found, manifest: &Manifest) -> Result<String, String> {
    let words = |sealed: bool, packed: bool| {
        let sealed = if sealed { "encrypted" } else { "not encrypted" };
        let packed = if packed { "compressed" } else { "not compressed" };
        format!("{sealed}, {packed}")
    };
    let sealed = manifest.data.encryption == Encryption::Age;
    let packed = manifest.data.compression == Compression::Zstd;
    let is = words(found.sealed, found.packed);
    if (found.sealed, found.packed) == (sealed, packed) {
        Ok(is)
    } else {
        Err(format!("it is {is}; its manifest says {}", words(sealed, packed)))
    }
}

fn read(file: File) -> Result<(u64, Summary), Damage> {
    let db = Db::from_file(file)?;
    let checked = db.check()?;
    Ok((checked.used, db.summary()?))
}

fn contents(summary: &Summary, manifest: &Manifest) -> Result<String, String> {
    if summary.revision != manifest.revision {
        return Err(format!("revision {} instead of {}", summary.revision, manifest.revision));
    }
    let version = summary.storage_version.map(|version| version.to_string());
    if version != manifest.storage_version {
        let named =
            |version: Option<&String>| version.cloned().unwrap_or_else(|| "none".to_owned());
        let (is, said) = (named(version.as_ref()), named(manifest.storage_version.as_ref()));
        return Err(format!("storage version {is} instead of {said}"));
    }
    let Summary { revision, hash, live_keys, total_entries, .. } = summary;
    Ok(format!("revision {revision}, hash {hash:08x}, {live_keys} keys, {total_entries} entries"))
}
