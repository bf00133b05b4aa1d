//! Uploads that somebody began and never ended: invisible, and paid for.

use super::call::{self, Call};
use super::client::Bucket;
use super::error::{Error, Kind};
use super::lock;
use super::paging::{Marker, Next, Paging};
use super::whole::{Whole, goes_on};

/// An upload that is neither finished nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The key of the object to be.
    pub key: String,
    /// The store's id of the upload.
    pub upload_id: String,
    /// When it began, in seconds since 1970.
    pub since: u64,
}

impl Bucket {
    /// The unfinished uploads whose keys begin with `prefix`.
    pub async fn unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>, Error> {
        let call = Call::new("list unfinished uploads", self.at(prefix)).list();
        let (mut paging, mut all) = (Paging::new(), Vec::new());
        let mut at: Marker = (None, None);
        loop {
            let request = self.client().list_multipart_uploads().bucket(self.name());
            let request = request
                .prefix(prefix)
                .max_uploads(self.page())
                .set_key_marker(at.0.clone())
                .set_upload_id_marker(at.1.clone());
            let sent = self.run(&call, |try_| {
                call::of(request.clone().customize().interceptor(Whole), try_).send()
            });
            let reply = match sent.await {
                // versitygw 1.8 refuses the marker that it gave.
                Err(error) if at.1.is_some() && error.status() == Some(400) => {
                    at.1 = None;
                    continue;
                }
                reply => reply?,
            };
            let found = reply.uploads().iter().filter_map(|one| {
                Some(Unfinished {
                    key: one.key()?.to_owned(),
                    upload_id: one.upload_id()?.to_owned(),
                    since: one.initiated().and_then(lock::unix).unwrap_or(0),
                })
            });
            all.extend(found.filter(|one| {
                // Some stores ignore the prefix.
                one.key.starts_with(prefix)
                    && paging.is_new((one.key.clone(), one.upload_id.clone()))
            }));
            let next = (
                reply.next_key_marker().filter(|m| !m.is_empty()).map(str::to_owned),
                reply.next_upload_id_marker().filter(|m| !m.is_empty()).map(str::to_owned),
            );
            match paging.next(goes_on(reply.is_truncated(), &call)?, next, None) {
                Next::Page(marker) => at = marker,
                Next::Done => return Ok(all),
                Next::Stuck => return Err(call.error(Kind::Incomplete)),
            }
        }
    }

    /// Aborts an upload once; one that is not there any more is fine.
    pub async fn abort_upload(&self, key: &str, upload_id: &str) -> Result<(), Error> {
        let call = Call::new("abort the upload", self.at(key));
        let request = self.client().abort_multipart_upload().bucket(self.name());
        let request = request.key(key).upload_id(upload_id);
        let sent = self.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        match sent.await {
            Err(error) if error.code() == Some("NoSuchUpload") => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}
