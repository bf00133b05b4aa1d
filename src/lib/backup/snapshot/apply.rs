//! Makes the backup: the only part of the verb that changes anything.
//!
//! The order is data, keys, manifest; each with its lock, each read back. Whatever fails before
//! the manifest is written leaves no backup, and what it leaves in the bucket is removed or, where
//! a lock keeps it, listed.

use bytes::Bytes;
use jiff::Timestamp;

use super::locked::{LockSeen, Need, read_back};
use super::pipeline::{self, Bound, Cause, Failure, Pipeline, Streamed};
use super::place::{Found, Place};
use super::report::{Outcome, Row, SnapshotReport};
use super::turn::{self, Turn};
use super::{Job, pki, time};
use crate::backup::Error;
use crate::backup::wording::moment;
use crate::etcd::db::Damage;
use crate::etcd::{Client, Status};
use crate::fault::{Class, chain};
use crate::progress::Step;
use crate::report::Verdict;
use crate::s3::{self, Deleted, Mode, Put, PutOutcome, Stored};
use crate::snapshot::layout::{self, ClusterId, Part};
use crate::snapshot::manifest::{
    Compression, Content, Data, Encryption, Flaw, Lock, Manifest, Pki, Raft,
};

/// What is left of an attempt: objects that belong to no backup.
#[derive(Debug, Default)]
struct Orphans {
    objects: Vec<(String, Option<String>)>,
    /// What may be there as well. Where that is the manifest, the objects are not orphans at all,
    /// and stay.
    doubtful: Vec<String>,
}

/// A manifest that nobody could read is never written.
fn unreadable(flaw: &Flaw) -> Error {
    Error::declined(
        format!("the backup's manifest could not be read again: {flaw}"),
        "what it is made of are the node's name (--node), the recipients and the files of the node \
         (--pki-dir, --include-pki=false)",
    )
}

impl Job<'_> {
    /// The manifest, as far as it is known before anything is sent; figures are made up.
    fn draft(&self, place: &Place, started: Timestamp) -> Manifest {
        let (status, layers) = (self.status(), &self.request.layers);
        let unknown = || Content { size: 1, sha256: "0".repeat(64) };
        let paths = &self.pki.paths;
        let sealed = layout::Stored { unique: place.unique, packed: true, sealed: true };
        let to = layers.recipients.as_ref();
        Manifest {
            cluster: place.cluster,
            member: ClusterId(status.member_id),
            node: self.observed.node.clone(),
            slot: place.slot.clone(),
            started,
            finished: started,
            etcd_version: status.version.clone(),
            storage_version: status.storage_version.clone(),
            revision: status.revision,
            raft: Raft { index: status.raft_applied_index, term: Some(status.raft_term) },
            db: unknown(),
            data: Data {
                key: place.key(Part::Data(self.stored_as(place))),
                version_id: None,
                content: unknown(),
                compression: layers.level.map_or(Compression::None, |_| Compression::Zstd),
                encryption: to.map_or(Encryption::None, |_| Encryption::Age),
            },
            pki: (!paths.is_empty()).then(|| Pki {
                key: place.key(Part::Pki(sealed)),
                version_id: None,
                content: unknown(),
                paths: paths.iter().map(|path| path.display().to_string()).collect(),
            }),
            recipients: to.map(|to| to.texts().to_vec()).unwrap_or_default(),
            lock: None,
            tool: self.request.tool.clone(),
            rekeyed: None,
        }
    }

    /// Whether the manifest of this backup could be read again.
    pub fn check(&self) -> Result<(), Error> {
        let Some(place) = &self.place else { return Ok(()) };
        self.draft(place, place.slot.time()).checked().map(drop).map_err(|flaw| unreadable(&flaw))
    }

    /// Makes the backup, or finds it made.
    pub async fn apply(&self) -> Result<SnapshotReport, Error> {
        let Some(place) = &self.place else { return self.make(None, None).await };
        if !place.slot.is_shared() {
            return self.make(Some(place), None).await;
        }
        match turn::wait(self, place).await? {
            Turn::Done(manifest, lock) => Ok(self.made_by_another(&manifest, &lock)),
            Turn::Make { instead } => {
                let made = tokio::select! {
                    made = self.make(Some(place), instead) => made,
                    never = turn::keep(self, place) => match never {},
                };
                // Also after success: should the backup be spoilt, the next run need not wait.
                turn::give_back(self, place).await;
                made
            }
        }
    }

    async fn make(
        &self,
        place: Option<&Place>,
        instead: Option<String>,
    ) -> Result<SnapshotReport, Error> {
        let keys = pki::pack(&self.pki.paths, &self.request.layers).await?;
        let left_out = keys.as_ref().map(|keys| keys.remarks.clone()).unwrap_or_default();
        let started = self.now(place).await?;
        let streamed = match self.stream(place).await {
            Ok(streamed) => streamed,
            Err(failure) => return self.gave_up(failure),
        };
        let mut report = match (place, streamed.stored.as_ref()) {
            (Some(place), Some(Ok(stored))) => {
                let attempt = Attempt { job: self, place, started, stored, streamed: &streamed };
                attempt.finish(keys.as_ref(), instead).await
            }
            _ => SnapshotReport::new(self.row(Outcome::Saved, &streamed)),
        };
        let in_bucket = matches!(streamed.stored, Some(Ok(_)));
        if let Some(Err(undelivered)) = streamed.stored {
            report = report.left(undelivered.left);
            if let Some(error) = undelivered.error {
                report = report.failed_by(&error);
            }
        }
        report = report.warned(left_out);
        report = report.warned(streamed.judged.db.is_err().then(|| UNCLEAR.to_owned()));
        Ok(match (&self.request.out, streamed.local) {
            (Some(path), Some(Err(error))) => {
                let failed = report.failed_by(&Error::file("write", path, error));
                if in_bucket { failed.half() } else { failed }
            }
            (Some(path), Some(Ok(()))) => {
                let report = report.saved_at(path);
                if place.is_none() { self.save_keys(report, keys, path).await } else { report }
            }
            _ => report,
        })
    }

    /// Where there is no bucket, the keys go into a file beside the database's.
    async fn save_keys(
        &self,
        report: SnapshotReport,
        keys: Option<pki::Packed>,
        path: &std::path::Path,
    ) -> SnapshotReport {
        let Some(keys) = keys else { return report };
        match pki::save(keys, path).await {
            Ok(path) => report.keys_saved_at(&path),
            Err(error) => report.failed_by(&error),
        }
    }

    async fn stream(&self, place: Option<&Place>) -> Result<Streamed, Failure> {
        let local = match &self.request.out {
            None => None,
            Some(path) => Some(pipeline::create_local(path).await.map_err(Cause::Local)?),
        };
        let bound = match place {
            None => None,
            Some(place) => Some(Bound {
                bucket: place.bucket.clone(),
                key: place.key(Part::Data(self.stored_as(place))),
                put: self.put(place, "application/octet-stream").await.map_err(Cause::Asking)?,
            }),
        };
        let stream = self.client().snapshot(self.request.idle_timeout).await;
        let (messages, receiver) = stream.map_err(Cause::Etcd)?.split();
        let layers = self.request.layers.clone();
        let pipeline = Pipeline { messages, receiver, layers, local, bound };
        pipeline.run(&self.clock, &self.progress, self.cancel).await
    }

    /// What became of the snapshot that there is none of.
    fn gave_up(&self, failure: Failure) -> Result<SnapshotReport, Error> {
        let error = self.why_not(failure.cause);
        if failure.left.is_empty() {
            return Err(error);
        }
        let status = self.status();
        let row = Row {
            backup: self.place.as_ref().map(|place| place.slot.to_string()),
            member: Some(format!("{:016x}", status.member_id)),
            endpoint: Some(self.client().url().to_owned()),
            ..Row::new(Outcome::Failed, ClusterId(status.cluster_id), &self.observed.node)
        };
        let report = SnapshotReport::new(row).failed_by(&error).left(failure.left);
        Ok(report.hinted("`capvco-backup prune` removes it when it is a day old and not locked"))
    }

    fn why_not(&self, cause: Cause) -> Error {
        let doing = "no backup was made";
        match cause {
            Cause::Asking(error) => error,
            Cause::Etcd(error) => Error::doing(doing)(error),
            Cause::Malformed(malformed) => Error::doing(doing)(self.client().malformed(malformed)),
            Cause::Damage(damage) => damaged(self.client(), damage),
            Cause::Pack(error) => Error::doing(doing)(error),
            Cause::Store(error) => Error::doing(doing)(error),
            Cause::Local(error) => match &self.request.out {
                Some(path) => Error::file("write", path, error),
                None => Error::failed(error.to_string(), ""),
            },
            Cause::Interrupted => Error::Interrupted("before the backup was whole"),
            Cause::Bug => Error::failed("a thread of this program has died", "please report it"),
        }
    }

    fn row(&self, outcome: Outcome, streamed: &Streamed) -> Row {
        let status = self.status();
        let facts = Facts::of(streamed, status);
        let recipients = self.request.layers.recipients.as_ref();
        Row {
            backup: self.place.as_ref().map(|place| place.slot.to_string()),
            member: Some(format!("{:016x}", status.member_id)),
            endpoint: Some(self.client().url().to_owned()),
            etcd_version: Some(status.version.clone()),
            storage_version: facts.storage_version,
            revision: Some(facts.revision),
            db_size: Some(facts.size),
            db_sha256: Some(hex::encode(streamed.judged.sha256)),
            stored_size: Some(streamed.size),
            data_size: Some(streamed.size),
            data_sha256: Some(hex::encode(streamed.sha256)),
            recipients: recipients.map(|to| to.texts().to_vec()).unwrap_or_default(),
            ..Row::new(outcome, ClusterId(status.cluster_id), &self.observed.node)
        }
    }

    fn made_by_another(&self, manifest: &Manifest, lock: &LockSeen) -> SnapshotReport {
        let report = SnapshotReport::new(Row::of(Outcome::AlreadyMade, manifest));
        self.judge_lock(report, lock)
    }

    /// Says what a lock that is not as it should be means.
    fn judge_lock(&self, report: SnapshotReport, lock: &LockSeen) -> SnapshotReport {
        match lock {
            LockSeen::NotNeeded | LockSeen::Held(..) => report,
            LockSeen::Less(why) => report
                .failed(Verdict::LeftBehind, format!("the backup is stored, but {why}"))
                .hinted(
                    "whoever gets this key can delete it; `capvco-backup check` shows what the \
                     bucket and the key can do",
                ),
            LockSeen::Unreadable(why) if self.request.lock_unverified_ok => {
                report.warned([format!("the lock cannot be read back ({why})")])
            }
            LockSeen::Unreadable(why) => report
                .failed(
                    Verdict::LeftBehind,
                    format!("the backup is stored, but its lock cannot be read back ({why})"),
                )
                .hinted(
                    "let this key read locks (s3:GetObject, s3:GetObjectRetention), or be content \
                     with --lock-unverified-ok",
                ),
        }
    }

    pub(super) async fn put(&self, place: &Place, content_type: &str) -> Result<Put, Error> {
        Ok(Put {
            lock: self.need(place).await?.asked,
            content_type: Some(content_type.to_owned()),
            ..Put::default()
        })
    }

    fn stored_as(&self, place: &Place) -> layout::Stored {
        let layers = &self.request.layers;
        let (packed, sealed) = (layers.level.is_some(), layers.recipients.is_some());
        layout::Stored { unique: place.unique, packed, sealed }
    }

    async fn now(&self, place: Option<&Place>) -> Result<Timestamp, Error> {
        Ok(time(match place {
            Some(place) => place.now().await?,
            None => self.clock.unix(),
        }))
    }
}

const UNCLEAR: &str = "the database's layout does not show its revision in passing: the backup's \
                       revision is the one that the member told before it, and may be lower than \
                       the data's; `capvco-backup verify` tells";

/// A member that serves a damaged database: another one has the same data.
fn damaged(client: &Client, damage: Damage) -> Error {
    Error::Doing {
        doing: format!("no backup was made of {}", client.url()),
        source: Box::new(damage),
        class: Class::Transient,
        hints: vec!["take it from another member, and look at this one's disk".to_owned()],
    }
}

/// What is known of the database: from itself, or, where it does not show, from the member.
struct Facts {
    size: u64,
    revision: i64,
    storage_version: Option<String>,
    raft: Raft,
}

impl Facts {
    fn of(streamed: &Streamed, status: &Status) -> Self {
        match &streamed.judged.db {
            Ok(db) => Self {
                size: db.size,
                revision: db.revision,
                storage_version: db.storage_version.map(|version| version.to_string()),
                raft: Raft {
                    index: db.consistent_index.unwrap_or(status.raft_applied_index),
                    term: db.term,
                },
            },
            Err(_) => Self {
                size: streamed.judged.size,
                revision: status.revision,
                storage_version: status.storage_version.clone(),
                raft: Raft { index: status.raft_applied_index, term: Some(status.raft_term) },
            },
        }
    }
}

/// A backup whose data is in the bucket, on its way to a manifest.
struct Attempt<'a> {
    job: &'a Job<'a>,
    place: &'a Place,
    started: Timestamp,
    stored: &'a Stored,
    streamed: &'a Streamed,
}

impl Attempt<'_> {
    async fn finish(&self, keys: Option<&pki::Packed>, instead: Option<String>) -> SnapshotReport {
        let mut orphans = Orphans::default();
        self.job.progress.update(pipeline::ITEM, Step::state("sealing"));
        let key = self.place.key(Part::Data(self.job.stored_as(self.place)));
        orphans.objects.push((key, self.stored.version_id.clone()));
        let finished = self.complete(keys, instead, &mut orphans).await;
        match finished {
            Ok(report) => report,
            Err(error) => {
                let left = self.remove(orphans).await;
                let report = SnapshotReport::new(self.job.row(Outcome::Failed, self.streamed));
                report.failed_by(&error).left(left)
            }
        }
    }

    async fn complete(
        &self,
        keys: Option<&pki::Packed>,
        instead: Option<String>,
        orphans: &mut Orphans,
    ) -> Result<SnapshotReport, Error> {
        let pki = match keys {
            Some(keys) => Some(self.put_keys(keys, orphans).await?),
            None => None,
        };
        let mut seen = LockSeen::NotNeeded;
        for (key, version) in &orphans.objects {
            seen = seen.and(self.lock_of(key, version.as_deref()).await?);
        }
        let manifest = self.manifest(pki, &seen).await?;
        let outcome = match self.put_manifest(&manifest, instead.is_some()).await {
            Err(error) => self.look_for_ours(&manifest, error, orphans).await?,
            Ok(outcome) => outcome,
        };
        let theirs = match outcome {
            PutOutcome::Stored(_) => self.reread(&manifest).await?,
            PutOutcome::AlreadyThere => self.met_another(&manifest).await?,
        };
        if let Some(report) = theirs {
            let left = self.remove(std::mem::take(orphans)).await;
            return Ok(report.warned(left.into_iter().map(|what| {
                format!("{what} is ours and of no use any more; `prune` removes it in its time")
            })));
        }
        let key = self.place.key(Part::Manifest);
        let seen = seen.and(self.lock_of(&key, None).await?);
        let report = SnapshotReport::new(Row {
            endpoint: Some(self.job.client().url().to_owned()),
            ..Row::of(Outcome::Stored, &manifest)
        });
        let report = report.warned(instead.map(|why| {
            format!("the slot had a backup that is not good ({why}); this one takes its place")
        }));
        Ok(self.job.judge_lock(report, &seen))
    }

    async fn put_keys(&self, keys: &pki::Packed, orphans: &mut Orphans) -> Result<Pki, Error> {
        let stored = layout::Stored { unique: self.place.unique, packed: true, sealed: true };
        let key = self.place.key(Part::Pki(stored));
        let put = self.job.put(self.place, "application/octet-stream").await?;
        let stored = self.place.bucket.put_unique(&key, keys.bytes.clone(), &put).await;
        let stored = stored.map_err(|error| {
            orphans.doubtful.extend_from_slice(error.left());
            Error::doing(format!("cannot store {key}"))(error)
        })?;
        let version_id = stored.version_id;
        orphans.objects.push((key.clone(), version_id.clone()));
        Ok(Pki {
            key,
            version_id,
            content: Content { size: keys.bytes.len() as u64, sha256: hex::encode(keys.sha256) },
            paths: self.job.pki.paths.iter().map(|path| path.display().to_string()).collect(),
        })
    }

    async fn lock_of(&self, key: &str, version: Option<&str>) -> Result<LockSeen, Error> {
        let need = self.job.need(self.place).await?;
        // What was asked began to run when the object was put, a while ago.
        let asked = need.asked.map(|(mode, until)| {
            let spent = need.now.saturating_sub(self.started.as_second().unsigned_abs());
            (mode, until.saturating_sub(spent + 1))
        });
        read_back(&self.place.bucket, key, version, Need { asked, ..need }).await
    }

    async fn manifest(&self, pki: Option<Pki>, seen: &LockSeen) -> Result<Manifest, Error> {
        let (job, place) = (self.job, self.place);
        let facts = Facts::of(self.streamed, job.status());
        let lock = match seen {
            LockSeen::Held(mode, until) => Some(Lock::until(*mode, *until)),
            _ => None,
        };
        let draft = job.draft(place, self.started);
        let manifest = Manifest {
            finished: job.now(Some(place)).await?.max(self.started),
            storage_version: facts.storage_version,
            revision: facts.revision,
            raft: facts.raft,
            db: Content { size: facts.size, sha256: hex::encode(self.streamed.judged.sha256) },
            data: Data {
                version_id: self.stored.version_id.clone(),
                content: Content {
                    size: self.streamed.size,
                    sha256: hex::encode(self.streamed.sha256),
                },
                ..draft.data
            },
            pki,
            lock,
            ..draft
        };
        manifest.checked().map_err(|flaw| unreadable(&flaw))
    }

    async fn put_manifest(&self, manifest: &Manifest, replace: bool) -> Result<PutOutcome, Error> {
        let key = self.place.key(Part::Manifest);
        let put = self.job.put(self.place, "application/json").await?;
        let put = Put { only_if_absent: !replace, ..put };
        let bytes = Bytes::from(manifest.to_json());
        let outcome = self.place.bucket.put(&key, bytes, &put).await;
        outcome
            .map_err(Error::doing(format!("cannot store {key}, without which there is no backup")))
    }

    /// After a failure whose reply may just have been lost: whether our manifest stands all the
    /// same.
    async fn look_for_ours(
        &self,
        ours: &Manifest,
        error: Error,
        orphans: &mut Orphans,
    ) -> Result<PutOutcome, Error> {
        let doubtful = |error: &Error| match error {
            Error::Doing { source, .. } => {
                source.downcast_ref::<s3::Error>().is_some_and(s3::Error::is_doubtful)
            }
            _ => false,
        };
        if !doubtful(&error) {
            return Err(error);
        }
        let need = Need { asked: None, ..self.job.need(self.place).await? };
        match self.place.look(need).await {
            Ok(Found::Good(found, _)) if found.data.key == ours.data.key => {
                Ok(PutOutcome::Stored(Stored { version_id: None, etag: None }))
            }
            Ok(Found::Nothing | Found::Bad(_) | Found::Good(..)) => Err(error),
            Ok(Found::Unreadable(_)) | Err(_) => {
                let key = self.place.key(Part::Manifest);
                orphans.doubtful.push(format!("{key} (it may be there: no reply says)"));
                Err(error)
            }
        }
    }

    /// Whose manifest stands, where nodes share it: a store may ignore `If-None-Match`.
    async fn reread(&self, ours: &Manifest) -> Result<Option<SnapshotReport>, Error> {
        if !self.place.slot.is_shared() {
            return Ok(None);
        }
        let need = Need { asked: None, ..self.job.need(self.place).await? };
        Ok(match self.place.look(need).await? {
            Found::Good(theirs, lock) if theirs.data.key != ours.data.key => {
                Some(self.job.made_by_another(&theirs, &lock))
            }
            _ => None,
        })
    }

    /// There is a manifest already. One that is good counts, whoever made it; one that is not
    /// gets ours on top.
    async fn met_another(&self, ours: &Manifest) -> Result<Option<SnapshotReport>, Error> {
        let need = Need { asked: None, ..self.job.need(self.place).await? };
        match self.place.look(need).await? {
            // The reply to our first try was lost.
            Found::Good(found, _) if found.data.key == ours.data.key => Ok(None),
            Found::Good(theirs, lock) => Ok(Some(self.job.made_by_another(&theirs, &lock))),
            Found::Unreadable(why) if self.job.request.lock_unverified_ok => {
                let row = self.job.row(Outcome::AlreadyMade, self.streamed);
                let told = format!("another node has made it, which this key may not read: {why}");
                Ok(Some(SnapshotReport::new(row).warned([told])))
            }
            Found::Unreadable(why) => Err(Error::failed(
                format!("another node's manifest is there, and this key may not read it: {why}"),
                "let this key read what it has written (s3:GetObject), or be content with \
                 --lock-unverified-ok",
            )),
            // Hidden by a delete marker, or no good.
            Found::Nothing | Found::Bad(_) => {
                self.put_manifest(ours, true).await?;
                Ok(None)
            }
        }
    }

    /// Removes what belongs to no backup; gives what could not be removed.
    async fn remove(&self, orphans: Orphans) -> Vec<String> {
        let manifest = self.place.key(Part::Manifest);
        let mut left = orphans.doubtful;
        if left.iter().any(|what| what.starts_with(&manifest)) {
            left.extend(orphans.objects.into_iter().map(|(key, _)| key));
            return left;
        }
        for (key, version) in orphans.objects {
            let deleted = self.place.bucket.delete(&key, version.as_deref()).await;
            match deleted {
                Ok(Deleted::Gone) => {}
                Ok(Deleted::Locked { until, .. }) => {
                    let until = until.map_or_else(
                        || "a time that it does not tell".to_owned(),
                        |until| moment(Lock::until(Mode::Governance, until).until),
                    );
                    left.push(format!("{key} (locked until {until})"));
                }
                Err(error) => {
                    tracing::debug!(error = chain(&error), key, "an orphan stays");
                    left.push(key);
                }
            }
        }
        left
    }
}
