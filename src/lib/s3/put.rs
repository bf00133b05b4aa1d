//! A whole object in one request.

use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ChecksumAlgorithm;
use bytes::Bytes;

use super::call::{self, Call};
use super::checksum::{Sum, may_be_about_it};
use super::client::Bucket;
use super::error::Error;
use super::lock::{self, Mode};

/// How an object is to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Put {
    /// The lock asked for: mode, and until when in seconds since 1970 (by the *store's* clock).
    pub lock: Option<(Mode, u64)>,
    /// `If-None-Match: *`: only where there is no such object yet.
    pub only_if_absent: bool,
    /// The media type.
    pub content_type: Option<String>,
    /// `x-amz-meta-…`.
    pub metadata: Vec<(String, String)>,
}

/// An object that the store says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The version made, where the bucket has versions.
    pub version_id: Option<String>,
    /// The entity tag, without quotes.
    pub etag: Option<String>,
}

/// What became of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is stored.
    Stored(Stored),
    /// [`Put::only_if_absent`] was asked for and there is one. After a lost reply it may be our
    /// own: look whose it is.
    AlreadyThere,
}

pub(super) fn etag(tag: Option<&str>) -> Option<String> {
    tag.map(|tag| tag.trim_matches('"').to_owned()).filter(|tag| !tag.is_empty())
}

impl Bucket {
    /// Stores an object; its checksum travels as a header.
    ///
    /// Stores that ignore `If-None-Match` (radosgw 16) answer as if it had not been there.
    pub async fn put(&self, key: &str, bytes: Bytes, put: &Put) -> Result<PutOutcome, Error> {
        let sum = self.sums().now();
        let first = match self.put_with(key, &bytes, put, sum).await {
            Ok(done) => {
                self.sums().settle();
                return Ok(done);
            }
            Err(error) => error,
        };
        if !may_be_about_it(first.status(), first.code()) {
            return Err(first);
        }
        let Some(next) = self.sums().after_refusal(sum) else { return Err(first) };
        self.put_with(key, &bytes, put, next).await.map_err(|_| {
            self.sums().was_not_it();
            first
        })
    }

    async fn put_with(
        &self,
        key: &str,
        bytes: &Bytes,
        put: &Put,
        sum: Sum,
    ) -> Result<PutOutcome, Error> {
        let call = Call::new("store the object", self.at(key));
        let (value, signed) = (sum.of(bytes), self.signs_bodies());
        let sent = self.run(&call, |try_| {
            let request = summed(self.put_request(key, put), sum, value.clone());
            let request = request.body(ByteStream::from(bytes.clone())).customize();
            let request = if signed { request } else { request.disable_payload_signing() };
            call::of(request, try_).send()
        });
        match sent.await {
            Ok(reply) => Ok(PutOutcome::Stored(Stored {
                version_id: reply.version_id().map(str::to_owned),
                etag: etag(reply.e_tag()),
            })),
            Err(error) if put.only_if_absent && error.status() == Some(412) => {
                Ok(PutOutcome::AlreadyThere)
            }
            Err(error) => Err(error),
        }
    }

    fn put_request(&self, key: &str, put: &Put) -> PutObjectFluentBuilder {
        let mut request = self.client().put_object().bucket(self.name()).key(key);
        if let Some((mode, until)) = put.lock {
            request = request
                .object_lock_mode(mode.of_object())
                .object_lock_retain_until_date(lock::date(until));
        }
        if put.only_if_absent {
            request = request.if_none_match("*");
        }
        for (name, value) in &put.metadata {
            request = request.metadata(name, value);
        }
        request.set_content_type(put.content_type.clone())
    }
}

/// With the algorithm's name beside it: moto takes a locked object for nothing less.
fn summed(
    request: PutObjectFluentBuilder,
    sum: Sum,
    value: Option<String>,
) -> PutObjectFluentBuilder {
    match sum {
        Sum::Crc32c => {
            request.checksum_algorithm(ChecksumAlgorithm::Crc32C).set_checksum_crc32_c(value)
        }
        Sum::Sha256 => {
            request.checksum_algorithm(ChecksumAlgorithm::Sha256).set_checksum_sha256(value)
        }
        Sum::Md5 | Sum::None => request.set_content_md5(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_lose_their_quotes() {
        for (tag, plain) in [
            (Some("\"abc-2\""), Some("abc-2")),
            (Some("abc"), Some("abc")),
            (Some("\"\""), None),
            (None, None),
        ] {
            assert_eq!(etag(tag).as_deref(), plain);
        }
    }
}
