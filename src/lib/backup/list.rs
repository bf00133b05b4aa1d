//! `list`: what backups there are, and what each of them holds.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::choice::{Looked, look};
use super::held::{Kept, of_record as kept_of};
use super::wording::{at, length, locked_until, moment, or_dash, yes_or_no};
use super::{Error, Target};
use crate::clock::Clock;
use crate::report::{Remark, Report, Verdict, size};
use crate::s3::Version;
use crate::snapshot::catalog::{Entry, Place, Record};
use crate::snapshot::manifest::{Encryption, Manifest};
use crate::snapshot::seal::Identities;

/// How many backups' locks are asked for at once.
const PARALLEL: usize = 8;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the backups lie.
    pub target: Target,
    /// Only this cluster's.
    pub cluster: Option<u64>,
    /// Every version, hidden and loose ones too, instead of the best of each backup.
    pub all_versions: bool,
    /// Whose keys are to be tried by name.
    pub identities: Option<Identities>,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Everything that a restore needs is there.
    Good,
    /// The same, behind a delete marker.
    Hidden,
    /// The same, behind a newer manifest.
    Covered,
    /// There is a manifest, and something is wrong.
    Damaged,
    /// There is data and no manifest: under way, or given up.
    Unfinished,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Hidden => "hidden",
            Self::Covered => "covered",
            Self::Damaged => "damaged",
            Self::Unfinished => "unfinished",
        }
    }
}

/// One backup, or one version of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// etcd's cluster id.
    pub cluster: String,
    /// Its name: the slot's or the run's.
    pub backup: String,
    /// Whether it could be restored, and whether a plain read finds it.
    pub state: State,
    /// What is wrong with it.
    pub trouble: Option<String>,
    /// When the snapshot was asked for.
    pub taken: Option<String>,
    /// How many seconds ago.
    pub age_seconds: Option<i64>,
    /// The newest revision in it.
    pub revision: Option<i64>,
    /// Bytes of all its objects as stored.
    pub stored_size: Option<u64>,
    /// Bytes of the database.
    pub db_size: Option<u64>,
    /// The node's name.
    pub node: Option<String>,
    /// The member's version.
    pub etcd_version: Option<String>,
    /// The lock's mode, as it was read back when it was made; `none` where there is no lock.
    pub lock_mode: Option<&'static str>,
    /// The lock's end.
    pub locked_until: Option<String>,
    /// Whether a legal hold is on any of its objects now.
    pub held: Option<bool>,
    /// Whether it is encrypted.
    pub encrypted: Option<bool>,
    /// Whom to.
    pub recipients: Vec<String>,
    /// Whether one of the identities given opens it.
    pub readable: Option<bool>,
    /// Whether the node's keys are in it.
    pub pki: Option<bool>,
    /// The backup that it was made from by `rekey`.
    pub rekeyed_from: Option<String>,
    /// The object that this row is about: the manifest, or data without one.
    pub key: String,
    /// Its version.
    pub version_id: Option<String>,
}

/// All rows.
#[derive(Debug)]
pub struct ListReport {
    rows: Vec<Row>,
    several: bool,
    remarks: Vec<Remark>,
}

const HEADERS: [&str; 14] = [
    "CLUSTER",
    "BACKUP",
    "TAKEN",
    "AGE",
    "REVISION",
    "DB",
    "STORED",
    "NODE",
    "ETCD",
    "KEYS",
    "LOCKED UNTIL",
    "HELD",
    "OPENS",
    "STATE",
];

impl Report for ListReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        if self.several { &HEADERS } else { &HEADERS[1..] }
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let mut cells = vec![
            row.backup.clone(),
            or_dash(row.taken.clone()),
            or_dash(row.age_seconds.map(length)),
            or_dash(row.revision.map(|revision| revision.to_string())),
            or_dash(row.db_size.map(size)),
            or_dash(row.stored_size.map(size)),
            or_dash(row.node.clone()),
            or_dash(row.etcd_version.clone()),
            yes_or_no(row.pki).to_owned(),
            locked_until(row.locked_until.as_deref(), row.lock_mode),
            yes_or_no(row.held).to_owned(),
            opens(row).to_owned(),
            state(row),
        ];
        if self.several {
            cells.insert(0, row.cluster.clone());
        }
        cells
    }

    fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }

    fn verdict(&self) -> Verdict {
        Verdict::Done
    }
}

fn opens(row: &Row) -> &'static str {
    match (row.encrypted, row.readable) {
        (Some(false), _) => "not encrypted",
        (_, Some(true)) => "yes",
        (_, Some(false)) => "no",
        (_, None) => "-",
    }
}

fn state(row: &Row) -> String {
    let word = row.state.word();
    row.trouble.as_ref().map_or_else(|| word.to_owned(), |trouble| format!("{word}: {trouble}"))
}

/// Lists the backups of a target.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    cancel: &CancellationToken,
) -> Result<ListReport, Error> {
    let now = at(clock.unix());
    // Boxed: the futures of the S3 client are large.
    let work = Box::pin(async {
        let looked = look(&request.target, request.cluster, clock).await?;
        let kept = keeps(&looked, request.all_versions).await?;
        Ok((looked, kept))
    });
    let stopped = || Err(Error::Interrupted("while the backups were listed"));
    let (looked, kept) = cancel.run_until_cancelled(work).await.unwrap_or_else(stopped)?;
    Ok(report(&looked, kept, request, now))
}

/// The records that are shown of an entry.
fn shown(entry: &Entry, all: bool) -> &[Record] {
    if all { &entry.records } else { entry.records.get(..1).unwrap_or_default() }
}

/// Locks and holds of all records that are shown, in their order.
async fn keeps(looked: &Looked, all: bool) -> Result<Vec<Kept>, Error> {
    let records = looked.catalog.entries.iter().flat_map(|entry| shown(entry, all));
    let asked = records.map(|record| kept_of(&looked.bucket, record));
    stream::iter(asked).buffered(PARALLEL).try_collect().await
}

fn report(looked: &Looked, kept: Vec<Kept>, request: &Request, now: Timestamp) -> ListReport {
    let catalog = &looked.catalog;
    let (mut rows, mut kept) = (Vec::new(), kept.into_iter());
    for entry in &catalog.entries {
        for record in shown(entry, request.all_versions) {
            let row = of_record(entry, record, request, now);
            rows.push(under(row, &kept.next().unwrap_or_default()));
        }
        if request.all_versions {
            rows.extend(entry.loose.iter().map(|version| of_loose(entry, version)));
        } else if entry.records.is_empty() {
            let loose = entry.loose.first().or(entry.claims.first());
            rows.extend(loose.map(|loose| of_loose(entry, loose)));
        }
    }
    let remarks = remarks(looked, &rows, request);
    ListReport { rows, several: catalog.clusters().len() > 1, remarks }
}

fn blank(entry: &Entry, version: &Version, state: State, trouble: Option<String>) -> Row {
    Row {
        cluster: entry.cluster.to_string(),
        backup: entry.slot.to_string(),
        state,
        trouble,
        taken: None,
        age_seconds: None,
        revision: None,
        stored_size: None,
        db_size: None,
        node: None,
        etcd_version: None,
        lock_mode: None,
        locked_until: None,
        held: None,
        encrypted: None,
        recipients: Vec::new(),
        readable: None,
        pki: None,
        rekeyed_from: None,
        key: version.key.clone(),
        version_id: version.version_id.clone(),
    }
}

fn of_loose(entry: &Entry, version: &Version) -> Row {
    let row = blank(entry, version, State::Unfinished, Some("no manifest".to_owned()));
    Row { stored_size: Some(version.size), ..row }
}

fn of_record(entry: &Entry, record: &Record, request: &Request, now: Timestamp) -> Row {
    let trouble = record.trouble();
    let state = match (&trouble, record.place) {
        (Some(_), _) => State::Damaged,
        (None, Place::Shown) => State::Good,
        (None, Place::Hidden) => State::Hidden,
        (None, Place::Covered) => State::Covered,
    };
    let row = blank(entry, &record.version, state, trouble);
    let row = Row { stored_size: record.stored_size(), ..row };
    record.found.as_ref().map_or_else(|_| row.clone(), |m| described(row.clone(), m, request, now))
}

/// With what keeps it from being deleted.
fn under(row: Row, kept: &Kept) -> Row {
    Row {
        lock_mode: kept.lock.mode(),
        locked_until: kept.lock.lock().map(|lock| moment(lock.until)),
        held: kept.held,
        ..row
    }
}

fn described(row: Row, manifest: &Manifest, request: &Request, now: Timestamp) -> Row {
    let public = request.identities.as_ref().map(Identities::public);
    let pki = manifest.pki.as_ref();
    Row {
        taken: Some(moment(manifest.started)),
        age_seconds: Some(now.as_second() - manifest.started.as_second()),
        revision: Some(manifest.revision),
        db_size: Some(manifest.db.size),
        node: Some(manifest.node.clone()),
        etcd_version: Some(manifest.etcd_version.clone()),
        encrypted: Some(manifest.data.encryption != Encryption::None),
        recipients: manifest.recipients.clone(),
        readable: public.map(|public| manifest.opens_with(public)),
        pki: Some(pki.is_some()),
        rekeyed_from: manifest.rekeyed.as_ref().map(|rekeyed| rekeyed.from.to_string()),
        ..row
    }
}

fn remarks(looked: &Looked, rows: &[Row], request: &Request) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if rows.is_empty() {
        remarks.push(Remark::Warning(looked.no("backup")));
        if looked.cluster.is_some() {
            let hint = "leave --cluster out to see whose backups there are";
            remarks.push(Remark::Hint(hint.to_owned()));
        }
    }
    remarks.extend(looked.warnings().into_iter().map(Remark::Warning));
    let count = |state: State| rows.iter().filter(|row| row.state == state).count();
    if count(State::Hidden) > 0 {
        let text = "some backups are hidden behind a delete marker; they are whole, and `restore` \
                    and `verify` find them";
        remarks.push(Remark::Warning(text.to_owned()));
    }
    if count(State::Covered) > 0 && !request.all_versions {
        let text = "some manifests were written over by others, which do not count: see \
                    --all-versions";
        remarks.push(Remark::Warning(text.to_owned()));
    }
    let plain = rows.iter().filter(|row| row.encrypted == Some(false)).count();
    if plain > 0 {
        let text = format!("not encrypted: {plain} of {}; `rekey` encrypts them", rows.len());
        remarks.push(Remark::Warning(text));
    }
    remarks
}
