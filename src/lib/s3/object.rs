//! One object: looking at it, and deleting it.

use super::call::{self, Call};
use super::client::Bucket;
use super::error::{Error, Kind};
use super::lock::{self, Hold, Mode, Retention};
use super::put::etag;
use super::versions::Version;

/// What the store says of an object version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// In bytes.
    pub size: u64,
    /// Where the bucket has versions.
    pub version_id: Option<String>,
    /// The entity tag, without quotes.
    pub etag: Option<String>,
    /// When it was stored, in seconds since 1970.
    pub modified: Option<u64>,
    /// A checksum that the store keeps, as `crc32c:…` or `sha256:…`.
    pub checksum: Option<String>,
    /// `x-amz-meta-…`, without that prefix.
    pub metadata: Vec<(String, String)>,
    /// Mode and end (seconds since 1970) of the lock, if the store shows one.
    pub lock: Option<(Mode, u64)>,
}

/// What became of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// The version is not there (any more).
    Gone,
    /// It is locked: the normal case of a young backup, no error.
    Locked {
        /// Until when, in seconds since 1970, where that can be read.
        until: Option<u64>,
        /// Whether a legal hold is on it.
        hold: bool,
    },
}

/// Answers of "it is not there"; a HEAD's has no code, and a delete marker's is 405.
pub(super) fn is_absent(error: &Error) -> bool {
    match error.code() {
        Some("NoSuchBucket") => false,
        Some("NoSuchKey" | "NoSuchVersion" | "NotFound" | "MethodNotAllowed") => true,
        _ => matches!(error.status(), Some(404 | 405)),
    }
}

impl Bucket {
    /// Looks at an object version, the newest without one; `None` where there is none.
    pub async fn head(&self, key: &str, version: Option<&str>) -> Result<Option<Head>, Error> {
        let call = Call::new("look at the object", self.at(key));
        let request = self.client().head_object().bucket(self.name()).key(key);
        let request = request
            .set_version_id(version.map(str::to_owned))
            .checksum_mode(aws_sdk_s3::types::ChecksumMode::Enabled);
        let sent = self.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        let reply = match sent.await {
            Ok(reply) => reply,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let lock = reply.object_lock_mode().and_then(|mode| {
            let until = reply.object_lock_retain_until_date()?;
            Some((Mode::read(mode.as_str())?, lock::unix(until)?))
        });
        let crc32c = reply.checksum_crc32_c().map(|sum| format!("crc32c:{sum}"));
        let sha256 = || reply.checksum_sha256().map(|sum| format!("sha256:{sum}"));
        let mut metadata: Vec<_> =
            reply.metadata().into_iter().flatten().map(|(n, v)| (n.clone(), v.clone())).collect();
        metadata.sort();
        Ok(Some(Head {
            size: reply.content_length().and_then(|len| u64::try_from(len).ok()).unwrap_or(0),
            version_id: reply.version_id().map(str::to_owned),
            etag: etag(reply.e_tag()),
            modified: reply.last_modified().and_then(lock::unix),
            checksum: crc32c.or_else(sha256),
            metadata,
            lock,
        }))
    }

    /// A whole small object; `None` where there is none.
    ///
    /// # Errors
    /// [`Kind::Damaged`] where it is longer than `max` bytes.
    pub async fn get_small(
        &self,
        key: &str,
        version: Option<&str>,
        max: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut body = match self.get(key, version, None).await {
            Ok(body) => body,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if body.size() > max {
            let why = format!("it has {} bytes, more than {max}", body.size());
            let call = Call::new("read the object", self.at(key));
            return Err(call.error(Kind::Damaged).with_message(why));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(bytes))
    }

    /// A whole small object as a list has told of it; `None` where there is none any more.
    ///
    /// # Errors
    /// [`Kind::Damaged`] where it does not come with the size that the list says.
    pub async fn get_listed(&self, version: &Version) -> Result<Option<Vec<u8>>, Error> {
        let Version { key, version_id, size, .. } = version;
        let bytes = self.get_small(key, version_id.as_deref(), *size).await?;
        match bytes {
            Some(bytes) if bytes.len() as u64 != *size => {
                let why = format!("{} bytes came, and the list says {size}", bytes.len());
                let call = Call::new("read the object", self.at(key));
                Err(call.error(Kind::Damaged).with_message(why))
            }
            bytes => Ok(bytes),
        }
    }

    /// Deletes a version for good. Without a version id a bucket with versions only hides the
    /// object behind a marker, and counts nothing as freed: give one wherever there is one.
    ///
    /// A lock is never bypassed.
    pub async fn delete(&self, key: &str, version: Option<&str>) -> Result<Deleted, Error> {
        let call = Call::new("delete the object", self.at(key));
        let request = self.client().delete_object().bucket(self.name()).key(key);
        let request = request.set_version_id(version.map(str::to_owned));
        let sent = self.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        match sent.await {
            Ok(_) => Ok(Deleted::Gone),
            Err(error) if is_absent(&error) => Ok(Deleted::Gone),
            // Stores say "denied" as a rule and do not say why: the lock is looked at.
            Err(error) if matches!(error.status(), Some(400 | 403 | 409 | 423)) => {
                self.why_not_deleted(key, version, error).await
            }
            Err(error) => Err(error),
        }
    }

    async fn why_not_deleted(
        &self,
        key: &str,
        version: Option<&str>,
        error: Error,
    ) -> Result<Deleted, Error> {
        let hold = matches!(self.legal_hold(key, version).await, Ok(Hold::On));
        match self.retention(key, version).await {
            Ok(Retention::Locked { until, .. }) if hold || self.is_ahead(until).await => {
                Ok(Deleted::Locked { until: Some(until), hold })
            }
            _ if hold => Ok(Deleted::Locked { until: None, hold }),
            // The key may not look, or the store does not show a default that it enforces.
            Ok(Retention::Unreadable(_)) if says_locked(&error) => {
                Ok(Deleted::Locked { until: None, hold })
            }
            Ok(Retention::None) if says_locked(&error) => Ok(Deleted::Locked { until: None, hold }),
            _ => Err(error),
        }
    }

    async fn is_ahead(&self, until: u64) -> bool {
        let now = self.server_time().await.unwrap_or_else(|_| self.clock().unix());
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit easily")]
        let until = until as f64;
        until > now - 1.0
    }
}

/// Whether the store itself speaks of a lock (AWS: "Access Denied because object protected by
/// object lock."; versitygw `ObjectLocked`; SeaweedFS and radosgw in their messages).
fn says_locked(error: &Error) -> bool {
    let message = error.message().unwrap_or_default().to_ascii_lowercase();
    error.code() == Some("ObjectLocked")
        || ["object lock", "locked", "retention", "legal hold", "worm"]
            .iter()
            .any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: Option<&str>) -> Error {
        Error::new("x", "y", Kind::Refused { status, code: code.map(str::to_owned) })
    }

    #[test]
    fn absence_is_told_from_other_refusals() {
        for (status, code, absent) in [
            (404, None, true),
            (404, Some("NoSuchKey"), true),
            (404, Some("NoSuchVersion"), true),
            (405, None, true),
            (404, Some("NoSuchBucket"), false),
            (403, None, false),
            (400, Some("InvalidArgument"), false),
        ] {
            assert_eq!(is_absent(&refused(status, code)), absent, "{status} {code:?}");
        }
    }

    #[test]
    fn a_lock_is_heard_in_what_stores_say() {
        for (code, message, locked) in [
            ("AccessDenied", "Access Denied because object protected by object lock.", true),
            ("ObjectLocked", "", true),
            ("AccessDenied", "Object is under WORM", true),
            ("AccessDenied", "Access Denied", false),
        ] {
            let error = refused(403, Some(code)).with_message(message);
            assert_eq!(says_locked(&error), locked, "{code} {message}");
        }
    }
}
