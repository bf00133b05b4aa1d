//! Makes the copy: data, keys, manifest, each read back before it is believed.

use bytes::Bytes;

use super::Job;
use super::reseal::{Inside, Source};
use crate::backup::Error;
use crate::backup::fetch::fetch;
use crate::backup::snapshot::locked::{LockSeen, Need, read_back};
use crate::backup::snapshot::pipeline::Bound;
use crate::backup::snapshot::place::Place;
use crate::backup::wording::at;
use crate::fault::chain;
use crate::s3::{Deleted, Put, Version};
use crate::snapshot::catalog::{Entry, Record};
use crate::snapshot::layout::{Part, Slot, Stored, Unique};
use crate::snapshot::manifest::{
    Compression, Content, Encryption, LARGEST, Lock, Manifest, Pki, Rekeyed,
};

/// What came of an original.
pub struct Copied {
    /// The copy's manifest.
    pub manifest: Manifest,
    /// Its lock.
    pub lock: LockSeen,
}

/// A failure, and what it left in the bucket.
pub struct Broken {
    /// Why.
    pub error: Error,
    /// Objects that could not be removed.
    pub left: Vec<String>,
}

/// The copy on its way.
struct Copy<'a> {
    job: &'a Job<'a>,
    place: Place,
    need: Need,
    stored: Vec<(String, Option<String>)>,
    /// What is, or may be, there beside that.
    left: Vec<String>,
}

impl Job<'_> {
    /// Makes a copy of a good backup, encrypted to the new recipients.
    pub(super) async fn copy(&self, entry: &Entry, record: &Record) -> Result<Copied, Broken> {
        let nothing = |error| Broken { error, left: Vec::new() };
        let mut copy = self.begin(entry).await.map_err(nothing)?;
        match copy.finish(entry, record).await {
            Ok(copied) => Ok(copied),
            Err(error) => {
                let left = copy.undo().await;
                Err(Broken { error, left })
            }
        }
    }

    async fn begin(&self, entry: &Entry) -> Result<Copy<'_>, Error> {
        let random = |error: getrandom::Error| Error::failed(error.to_string(), "");
        let unique = Unique::random().map_err(random)?;
        let place = Place {
            bucket: self.bucket.clone(),
            layout: self.layout.clone(),
            cluster: entry.cluster,
            slot: Slot::run(entry.slot.time(), unique),
            unique,
        };
        let now = place.now().await?;
        let asked = self.settled.until(now);
        let now = at(now).as_second().unsigned_abs();
        let need = Need { asked, locked: self.settled.must_be_locked, now };
        Ok(Copy { job: self, place, need, stored: Vec::new(), left: Vec::new() })
    }
}

/// A manifest that nobody could read is never written.
fn checked(manifest: Manifest) -> Result<Manifest, Error> {
    let hint = "give at most 100 recipients";
    manifest.checked().map_err(|flaw| {
        Error::declined(format!("the copy's manifest could not be read again: {flaw}"), hint)
    })
}

impl Copy<'_> {
    async fn finish(&mut self, entry: &Entry, record: &Record) -> Result<Copied, Error> {
        let (Ok(original), Some(data)) = (&record.found, &record.data) else {
            return Err(Error::failed("the original is not good any more", ""));
        };
        let mut manifest = self.described(entry, original).await?;
        let inside = Inside::Database(original.db.clone());
        let source = Source { version: data, content: &original.data.content, inside };
        let packed = original.data.compression != Compression::None;
        let stored = Stored { unique: self.place.unique, packed, sealed: true };
        let (key, version_id, content) = self.carry(source, Part::Data(stored)).await?;
        (manifest.data.key, manifest.data.version_id, manifest.data.content) =
            (key, version_id, content);
        if let (Some(pki), Some(version)) = (&original.pki, &record.pki) {
            let source = Source { version, content: &pki.content, inside: Inside::Keys };
            let stored = Stored { packed: true, ..stored };
            let (key, version_id, content) = self.carry(source, Part::Pki(stored)).await?;
            manifest.pki = Some(Pki { key, version_id, content, paths: pki.paths.clone() });
        }
        self.publish(manifest).await
    }

    /// The copy's manifest, as far as it is known before anything is stored.
    async fn described(&self, entry: &Entry, original: &Manifest) -> Result<Manifest, Error> {
        let mut manifest = original.clone();
        manifest.slot = self.place.slot.clone();
        manifest.data.encryption = Encryption::Age;
        manifest.recipients = self.job.request.recipients.texts().to_vec();
        manifest.tool.clone_from(&self.job.request.tool);
        manifest.pki = None;
        manifest.lock = None;
        let at = at(self.place.now().await?);
        manifest.rekeyed = Some(Rekeyed { from: entry.slot.clone(), at });
        checked(manifest)
    }

    /// Makes one object, and reads it back whole.
    async fn carry(
        &mut self,
        source: Source<'_>,
        part: Part,
    ) -> Result<(String, Option<String>, Content), Error> {
        let key = self.place.key(part);
        let put = Put {
            lock: self.need.asked,
            content_type: Some("application/octet-stream".to_owned()),
            ..Put::default()
        };
        let bound = Bound { bucket: self.place.bucket.clone(), key: key.clone(), put };
        let (stored, content) = self.job.reseal(source, bound).await.map_err(|broken| {
            self.left.extend(broken.left);
            broken.error
        })?;
        self.stored.push((key.clone(), stored.version_id.clone()));
        self.reread(&key, stored.version_id.clone(), &content).await?;
        Ok((key, stored.version_id, content))
    }

    async fn reread(
        &self,
        key: &str,
        version_id: Option<String>,
        content: &Content,
    ) -> Result<(), Error> {
        let version = Version {
            key: key.to_owned(),
            version_id,
            latest: true,
            size: content.size,
            modified: 0,
            marker: false,
        };
        let nothing = |_| Ok(Ok(()));
        let read = fetch(&self.place.bucket, &version, nothing, self.job.told);
        let stopped = Err(Error::Interrupted("while a backup was encrypted anew"));
        let read = self.job.cancel.run_until_cancelled(read).await.unwrap_or(stopped)?;
        if read.stored == *content {
            return Ok(());
        }
        Err(Error::failed(format!("{key} reads back as other bytes than were stored"), ""))
    }

    /// The manifest makes it a backup. It is read back too, and so is its lock.
    async fn publish(&mut self, mut manifest: Manifest) -> Result<Copied, Error> {
        let mut lock = LockSeen::NotNeeded;
        for (key, version) in &self.stored {
            lock = lock.and(self.lock_of(key, version.as_deref()).await?);
        }
        if let LockSeen::Held(mode, until) = lock {
            manifest.lock = Some(Lock::until(mode, until));
        }
        let key = self.place.key(Part::Manifest);
        let put = Put {
            lock: self.need.asked,
            content_type: Some("application/json".to_owned()),
            ..Put::default()
        };
        let manifest = checked(manifest)?;
        let bytes = manifest.to_json();
        let put = self.place.bucket.put_unique(&key, Bytes::from(bytes.clone()), &put).await;
        let put = put.map_err(|error| {
            if !error.left().is_empty() {
                // With its manifest they are a backup.
                self.left.extend(std::mem::take(&mut self.stored).into_iter().map(|(key, _)| key));
                self.left.extend_from_slice(error.left());
            }
            Error::doing(format!("cannot store {key}"))(error)
        });
        let version = put?.version_id;
        self.stored.insert(0, (key.clone(), version.clone()));
        let id = version.as_deref();
        let read = self.place.bucket.get_small(&key, id, LARGEST as u64).await;
        if read.map_err(Error::doing(format!("cannot read {key} back")))? != Some(bytes) {
            return Err(Error::failed(format!("{key} reads back as other bytes"), ""));
        }
        let lock = lock.and(self.lock_of(&key, id).await?);
        Ok(Copied { manifest, lock })
    }

    async fn lock_of(&self, key: &str, version: Option<&str>) -> Result<LockSeen, Error> {
        read_back(&self.place.bucket, key, version, self.need).await
    }

    /// Removes what was stored; gives what could not be removed.
    async fn undo(&self) -> Vec<String> {
        let mut left = self.left.clone();
        for (key, version) in &self.stored {
            match self.place.bucket.delete(key, version.as_deref()).await {
                Ok(Deleted::Gone) => {}
                Ok(Deleted::Locked { .. }) => left.push(format!("{key} (locked)")),
                Err(error) => left.push(format!("{key} ({})", chain(&error))),
            }
        }
        left
    }
}
