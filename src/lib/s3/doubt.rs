//! After a lost reply: the store is asked what it did, so that nothing is stored twice, and
//! nothing that is stored is called missing.

use bytes::Bytes;

use super::client::Bucket;
use super::error::{Error, Kind};
use super::put::{Put, PutOutcome, Stored};

impl Bucket {
    /// Stores an object under a key that nobody else uses: once, however many replies are lost.
    ///
    /// # Errors
    /// One with [`Error::left`] where the store may have it all the same.
    pub async fn put_unique(&self, key: &str, bytes: Bytes, put: &Put) -> Result<Stored, Error> {
        let size = bytes.len() as u64;
        let once = Put { only_if_absent: true, ..put.clone() };
        let mut outcome = self.put(key, bytes.clone(), &once).await;
        if outcome.as_ref().is_err_and(Error::is_unsupported) {
            outcome = self.put(key, bytes, put).await;
        }
        match outcome {
            Ok(PutOutcome::Stored(stored)) => Ok(stored),
            Ok(PutOutcome::AlreadyThere) => self.ours(key, size).await,
            Err(error) => self.after_doubt(key, size, error).await,
        }
    }

    /// What stands at a key that only we use: the reply to an earlier try was lost.
    async fn ours(&self, key: &str, size: u64) -> Result<Stored, Error> {
        match self.head(key, None).await {
            Ok(Some(head)) if head.size != size => {
                let why = format!("it has {} bytes instead of {size}", head.size);
                Err(Error::new("store the object", self.at(key), Kind::Damaged).with_message(why))
            }
            Ok(Some(head)) => Ok(Stored { version_id: head.version_id, etag: head.etag }),
            // A key that may only write: that it is there was just said.
            _ => Ok(Stored { version_id: None, etag: None }),
        }
    }

    /// The object, if it is there as long as it should be after all; else `error`, with what may
    /// be left.
    pub(super) async fn after_doubt(
        &self,
        key: &str,
        size: u64,
        error: Error,
    ) -> Result<Stored, Error> {
        if !error.is_doubtful() {
            return Err(error);
        }
        match self.head(key, None).await {
            Ok(Some(head)) if head.size == size => {
                Ok(Stored { version_id: head.version_id, etag: head.etag })
            }
            Ok(Some(_)) => Err(error.with_left(format!("{key}, of another length"))),
            Ok(None) => Err(error),
            Err(_) => Err(error.with_left(format!("{key} (it may be there: no reply says)"))),
        }
    }

    /// Aborts the uploads of a key that nobody else uses, but for `keep`: their ids were in
    /// replies that were lost.
    pub(super) async fn abort_others(&self, key: &str, keep: Option<&str>) -> Result<(), Error> {
        for upload in self.unfinished(key).await? {
            if upload.key == key && Some(upload.upload_id.as_str()) != keep {
                self.abort_upload(key, &upload.upload_id).await?;
            }
        }
        Ok(())
    }
}
