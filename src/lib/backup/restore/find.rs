//! Which data is meant, and whether the keys at hand open it: all that is known before any of
//! it is fetched.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::request::{Source, Which};
use super::twin::hinted;
use crate::backup::choice::{Looked, contested, look, place, say_whose};
use crate::backup::wording::moment;
use crate::backup::{Error, Target};
use crate::clock::Clock;
use crate::fault::{Class, Fault as _};
use crate::s3::{Bucket, Version};
use crate::snapshot::catalog::{Entry, Place as Shown, Record};
use crate::snapshot::kind::Kind;
use crate::snapshot::layout::{ClusterId, Layout};
use crate::snapshot::manifest::Manifest;
use crate::snapshot::seal::{HEADER, Identities, Opens, try_header};

/// The most of a header that is fetched: one of hundreds of recipients.
const LONGEST_HEADER: u64 = 1 << 20;

/// Data that was found.
#[derive(Debug)]
pub struct Found {
    /// For sentences: `backup 20261130T060000Z`, `object KEY`, `file PATH` or `stdin`.
    pub name: String,
    /// Where it is.
    pub data: Data,
    /// What is said of it, if anything is.
    pub manifest: Option<Manifest>,
    /// The node's keys that belong to it.
    pub pki: Option<Version>,
    /// The newest good backup of the same cluster that has keys of its node, where this one has
    /// none.
    pub keys_in: Option<String>,
    /// The bucket that all of it is in.
    pub bucket: Option<Bucket>,
    /// What the user should know of the choice.
    pub remarks: Vec<String>,
    /// The same backup for other keys, the newest first, where none was named.
    pub twins: Vec<Found>,
}

/// Where data is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A version of an object.
    Object {
        /// Its key.
        key: String,
        /// Which version.
        version: Option<String>,
        /// In bytes, as stored.
        size: u64,
    },
    /// A file.
    File {
        /// Where.
        path: PathBuf,
        /// In bytes.
        size: u64,
    },
    /// Standard input.
    Stdin,
}

impl Data {
    /// How many bytes there are to read, where that is known.
    #[must_use]
    pub const fn size(&self) -> Option<u64> {
        match self {
            Self::Object { size, .. } | Self::File { size, .. } => Some(*size),
            Self::Stdin => None,
        }
    }
}

impl Found {
    pub(super) fn bare(name: String, data: Data) -> Self {
        let remarks = Vec::new();
        Self {
            name,
            data,
            manifest: None,
            pki: None,
            keys_in: None,
            bucket: None,
            remarks,
            twins: Vec::new(),
        }
    }
}

/// Finds what is meant.
///
/// # Errors
/// It is not there, or it cannot be told which one is meant.
pub async fn find(source: &Source, clock: Arc<dyn Clock>) -> Result<Found, Error> {
    match source {
        Source::Stdin => Ok(Found::bare("stdin".to_owned(), Data::Stdin)),
        Source::File(path) => file(path),
        Source::Bucket { target, cluster, which } => {
            in_bucket(target, *cluster, which, clock).await
        }
    }
}

fn file(path: &Path) -> Result<Found, Error> {
    let facts = std::fs::metadata(path).map_err(|error| match error.kind() {
        // As with every other file that is named in vain.
        ErrorKind::NotFound => {
            Error::asked(format!("there is no file {}", path.display()), "look at --from")
        }
        _ => Error::file("read", path, error),
    })?;
    if facts.is_dir() {
        return Err(Error::asked(
            format!("{} is a folder", path.display()),
            "name the snapshot's file; the database of a data directory is member/snap/db",
        ));
    }
    if !facts.is_file() {
        return Err(Error::asked(
            format!("{} is no regular file", path.display()),
            "what comes through a pipe is read from stdin: `COMMAND | capvco-backup restore --from -`",
        ));
    }
    let data = Data::File { path: path.to_owned(), size: facts.len() };
    Ok(Found::bare(format!("file {}", path.display()), data))
}

async fn in_bucket(
    target: &Target,
    cluster: Option<u64>,
    which: &Which,
    clock: Arc<dyn Clock>,
) -> Result<Found, Error> {
    let layout = Layout::new(&target.prefix);
    let of_key = match which {
        Which::Object { key, .. } => layout.parse(key).map(|address| address.cluster.0),
        _ => None,
    };
    let looked = match (look(target, cluster.or(of_key), Arc::clone(&clock)).await, which) {
        // Who may not list may still read what he knows the name of.
        (Err(error), Which::Object { key, version })
            if error.class() == Class::Auth && key.contains('/') =>
        {
            let bucket = target.open(clock).await?;
            let remark =
                format!("the backups could not be listed: {}", crate::fault::chain(&error));
            let mut found = object(&bucket, &layout, key, version.as_deref()).await?;
            found.remarks.push(remark);
            return Ok(found);
        }
        (looked, _) => looked?,
    };
    match choose(&looked, which)? {
        Some((entry, record)) => {
            let mut found = of_record(&looked, entry, record)?;
            if matches!(which, Which::Newest | Which::At(_)) {
                found.remarks.extend(passed_over(&looked, entry));
                found.twins = twins(&looked, entry, record);
            }
            Ok(found)
        }
        None => match which {
            Which::Object { key, version } => {
                object(&looked.bucket, &looked.layout, key, version.as_deref()).await
            }
            _ => Err(nothing(&looked, which)),
        },
    }
}

/// The record that is meant, if there is one.
fn choose<'a>(looked: &'a Looked, which: &Which) -> Result<Option<(&'a Entry, &'a Record)>, Error> {
    match which {
        Which::Newest => newest(looked, |_| true),
        Which::At(time) => newest(looked, |entry| entry.time() <= *time),
        Which::Version(id) => Ok(one(looked, |record| has_version(record, id))),
        Which::Object { key, version } => {
            match one(looked, |record| has_key(record, key, version.as_deref())) {
                Some(found) => Ok(Some(found)),
                None => by_name(looked, key, version.as_deref()),
            }
        }
    }
}

/// The newest good backup that fits, of the only cluster that there is.
fn newest(
    looked: &Looked,
    fits: impl Fn(&Entry) -> bool,
) -> Result<Option<(&Entry, &Record)>, Error> {
    let mut found = Vec::new();
    for cluster in looked.catalog.clusters() {
        let good = looked.catalog.of(cluster).filter(|entry| fits(entry)).find_map(|entry| {
            let (record, _) = entry.good()?;
            Some((entry, record))
        });
        found.extend(good);
    }
    match found[..] {
        [] => Ok(None),
        [found] => Ok(Some(found)),
        _ => {
            let entries: Vec<&Entry> = found.iter().map(|(entry, _)| *entry).collect();
            let (count, place) = (found.len(), looked.place());
            Err(Error::Declined {
                what: format!("there are backups of {count} clusters in {place}"),
                hints: say_whose(&entries),
            })
        }
    }
}

fn all(looked: &Looked) -> impl Iterator<Item = (&Entry, &Record)> {
    let entries = looked.catalog.entries.iter();
    entries.flat_map(|entry| entry.records.iter().map(move |record| (entry, record)))
}

/// The best record that fits: good ones come first within a folder.
fn one(looked: &Looked, fits: impl Fn(&Record) -> bool) -> Option<(&Entry, &Record)> {
    let found = all(looked).filter(|(_, record)| fits(record));
    found.min_by_key(|(_, record)| !record.is_good())
}

fn has_version(record: &Record, id: &str) -> bool {
    let objects = [Some(&record.version), record.data.as_ref(), record.pki.as_ref()];
    objects.into_iter().flatten().any(|object| object.version_id.as_deref() == Some(id))
}

fn has_key(record: &Record, key: &str, version: Option<&str>) -> bool {
    let objects = [Some(&record.version), record.data.as_ref()];
    objects.into_iter().flatten().any(|object| {
        object.key == key && version.is_none_or(|id| object.version_id.as_deref() == Some(id))
    })
}

fn by_name<'a>(
    looked: &'a Looked,
    name: &str,
    version: Option<&str>,
) -> Result<Option<(&'a Entry, &'a Record)>, Error> {
    if name.contains('/') {
        return Ok(None);
    }
    let [entry] = looked.named(&[name.to_owned()])?[..] else { return Ok(None) };
    let fitting =
        entry.records.iter().find(|record| version.is_none_or(|id| has_version(record, id)));
    Ok(fitting.map(|record| (entry, record)))
}

fn of_record(looked: &Looked, entry: &Entry, record: &Record) -> Result<Found, Error> {
    let name = format!("backup {}", entry.slot);
    let (Ok(manifest), Some(data)) = (&record.found, &record.data) else {
        let why = record.trouble().unwrap_or_else(|| "it is not whole".to_owned());
        return Err(Error::declined(
            format!("{name} is not good: {why}"),
            "`capvco-backup list --all-versions` shows what else there is; data without a \
             manifest is restored by its key: --object KEY",
        ));
    };
    Ok(Found {
        remarks: remarks(looked, entry, record),
        name,
        data: Data::Object {
            key: data.key.clone(),
            version: data.version_id.clone(),
            size: data.size,
        },
        manifest: Some(manifest.clone()),
        pki: record.pki.clone(),
        keys_in: keys_in(looked, entry).filter(|_| record.pki.is_none()),
        bucket: Some(looked.bucket.clone()),
        twins: Vec::new(),
    })
}

/// The newest good backup of the same cluster that has keys of its node.
fn keys_in(looked: &Looked, entry: &Entry) -> Option<String> {
    let has = |other: &&Entry| other.good().is_some_and(|(record, _)| record.pki.is_some());
    looked.catalog.of(entry.cluster).find(has).map(|other| other.slot.to_string())
}

/// What `rekey` has made of the same snapshot, or made this one of.
fn twins(looked: &Looked, entry: &Entry, record: &Record) -> Vec<Found> {
    let Ok(ours) = &record.found else { return Vec::new() };
    let others = looked.catalog.of(entry.cluster).filter(|other| other.slot != entry.slot);
    let good = others.filter_map(|other| {
        let (record, manifest) = other.good()?;
        let same = manifest.db == ours.db && manifest.started == ours.started;
        same.then(|| of_record(looked, other, record).ok()).flatten()
    });
    good.collect()
}

fn remarks(looked: &Looked, entry: &Entry, record: &Record) -> Vec<String> {
    let slot = &entry.slot;
    let mut remarks: Vec<String> = contested(entry).into_iter().collect();
    if let Some(original) = looked.catalog.original_of(entry) {
        let original = &original.slot;
        remarks
            .push(format!("{slot} is a copy that `rekey` made of {original}, which is there, too"));
    }
    remarks.extend(match record.place {
        Shown::Shown => Vec::new(),
        Shown::Covered => vec![format!("a newer manifest stands before that of {slot}")],
        Shown::Hidden => vec![format!(
            "somebody has hidden {slot} behind a delete marker; it is whole all the same"
        )],
    });
    remarks
}

/// Newer backups that are not good.
fn passed_over(looked: &Looked, entry: &Entry) -> Vec<String> {
    let mut all = Vec::new();
    let newer = looked.catalog.of(entry.cluster).take_while(|other| other.slot != entry.slot);
    for other in newer.filter(|other| other.good().is_none() && !other.records.is_empty()) {
        let why = other.records.iter().find_map(Record::trouble).unwrap_or_default();
        all.push(format!("{} is newer and was passed over: {why}", other.slot));
    }
    all
}

/// An object that no manifest speaks of.
async fn object(
    bucket: &Bucket,
    layout: &Layout,
    key: &str,
    version: Option<&str>,
) -> Result<Found, Error> {
    let head = bucket.head(key, version).await;
    let head = head.map_err(Error::doing(format!("cannot look at {key}")))?;
    let Some(head) = head else {
        let which = version.map(|id| format!(" of version {id}")).unwrap_or_default();
        return Err(Error::not_found(
            format!(
                "there is no object {key}{which}, and no backup of that name, in {}",
                place(bucket, layout)
            ),
            "`capvco-backup list --all-versions` shows names, keys and versions",
        ));
    };
    let data = Data::Object {
        key: key.to_owned(),
        version: head.version_id.or_else(|| version.map(str::to_owned)),
        size: head.size,
    };
    let mut found = Found::bare(format!("object {key}"), data);
    found.bucket = Some(bucket.clone());
    Ok(found)
}

fn nothing(looked: &Looked, which: &Which) -> Error {
    let what = match which {
        Which::At(time) => format!("good backup that was taken at {} or before", moment(*time)),
        Which::Version(id) => format!("backup with an object of version {id}"),
        Which::Newest | Which::Object { .. } => "good backup".to_owned(),
    };
    // The oldest stands last, also of one second.
    let good = looked.catalog.entries.iter().rev().filter(|entry| entry.good().is_some());
    if let (Which::At(_), Some(first)) = (which, good.min_by_key(|entry| entry.time())) {
        let (name, taken) = (&first.slot, moment(first.time()));
        let hint = "a backup counts by the moment of its snapshot, not by its name; --object NAME \
                    takes one by its name";
        let what = format!("{}: the earliest is {name}, taken at {taken}", looked.no(&what));
        return Error::not_found(what, hint);
    }
    Error::not_found(
        looked.no(&what),
        "`capvco-backup list --all-versions` shows what there is; check --s3-prefix and --cluster",
    )
}

/// What was found, or the newest of its twins that a key opens.
///
/// # Errors
/// It is of another kind, or no key opens it, or it cannot be read.
pub async fn opened(mut found: Found, with: &Identities) -> Result<Found, Error> {
    let tried = try_keys(&found, with).await.map_err(|error| hinted(&found, error))?;
    let Tried::WrongKey = tried else { return Ok(found) };
    for mut twin in std::mem::take(&mut found.twins) {
        if matches!(try_keys(&twin, with).await, Ok(Tried::Fits)) {
            twin.remarks.push(format!(
                "{} is the newest, and no identity given opens it; {} is the same backup for \
                 other keys, and is taken",
                found.name, twin.name
            ));
            return Ok(twin);
        }
    }
    Err(wrong_key(&found, with))
}

/// What came of trying keys.
enum Tried {
    /// One fits, or none is needed.
    Fits,
    /// None fits.
    WrongKey,
}

/// Looks at the first bytes, and tries the keys on them.
async fn try_keys(found: &Found, with: &Identities) -> Result<Tried, Error> {
    let mut wanted = HEADER as u64;
    loop {
        let first = first_bytes(found, wanted).await?;
        let Some(first) = first else { return Ok(Tried::Fits) };
        let kind = Kind::of(&first);
        let whole = found.data.size().is_some_and(|size| size <= first.len() as u64);
        match kind {
            Kind::EtcdDb | Kind::Zstd => return Ok(Tried::Fits),
            Kind::Age | Kind::ArmoredAge => {}
            found_kind => return Err(wrong_kind(found, found_kind)),
        }
        let opens = opens(found, &first, with)?;
        match opens {
            Opens::Yes => return Ok(Tried::Fits),
            Opens::No => return Ok(Tried::WrongKey),
            Opens::NeedMore if whole || wanted >= LONGEST_HEADER => {
                let error = crate::snapshot::Error::BadHeader { name: found.name.clone() };
                return Err(cannot_open(found)(error));
            }
            Opens::NeedMore => wanted = LONGEST_HEADER,
        }
    }
}

fn cannot_open(found: &Found) -> impl FnOnce(crate::snapshot::Error) -> Error {
    Error::doing(format!("cannot open {}", found.name))
}

fn opens(found: &Found, first: &[u8], with: &Identities) -> Result<Opens, Error> {
    if with.is_empty() {
        let error = crate::snapshot::Error::NoIdentity { name: found.name.clone() };
        return Err(cannot_open(found)(error));
    }
    try_header(first, with, &found.name).map_err(cannot_open(found))
}

fn wrong_kind(of: &Found, found: Kind) -> Error {
    let (name, wanted) = (of.name.clone(), Kind::EtcdDb);
    let error = crate::snapshot::Error::WrongKind { name, found, wanted };
    if of.bucket.is_none() {
        return cannot_open(of)(error);
    }
    // Nobody chose this object by a wrong name: what is stored there has changed.
    Error::Doing {
        doing: format!("cannot open {}", of.name),
        source: Box::new(error),
        class: Class::Failed,
        hints: vec![
            "it is damaged, or was never a backup: `capvco-backup list` shows what there is".into(),
        ],
    }
}

fn wrong_key(found: &Found, with: &Identities) -> Error {
    let recipients = found.manifest.as_ref().map(|manifest| manifest.recipients.clone());
    let (name, identities) = (found.name.clone(), with.len());
    let recipients = recipients.unwrap_or_default();
    cannot_open(found)(crate::snapshot::Error::WrongKey { name, identities, recipients })
}

/// The first bytes; none of standard input, which is read only once.
async fn first_bytes(found: &Found, wanted: u64) -> Result<Option<Vec<u8>>, Error> {
    match (&found.data, &found.bucket) {
        (Data::Object { size: 0, .. }, _) => Ok(Some(Vec::new())),
        (Data::Object { key, version, size }, Some(bucket)) => {
            let doing = || Error::doing(format!("cannot read the beginning of {key}"));
            let range = Some(0..wanted.min(*size));
            let mut body = bucket.get(key, version.as_deref(), range).await.map_err(doing())?;
            let mut first = Vec::new();
            while let Some(piece) = body.next().await.map_err(doing())? {
                first.extend_from_slice(&piece);
            }
            Ok(Some(first))
        }
        (Data::File { path, .. }, _) => {
            let read = || {
                let mut first = Vec::new();
                File::open(path)?.take(wanted).read_to_end(&mut first)?;
                Ok(Some(first))
            };
            read().map_err(|error| Error::file("read", path, error))
        }
        _ => Ok(None),
    }
}

/// The cluster of a backup, for sentences.
#[must_use]
pub fn cluster(found: &Found) -> Option<ClusterId> {
    found.manifest.as_ref().map(|manifest| manifest.cluster)
}
