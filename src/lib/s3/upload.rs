//! A large object in parts, several under way at once.

use std::sync::Arc;

use aws_sdk_s3::operation::create_multipart_upload::builders::CreateMultipartUploadFluentBuilder;
use aws_sdk_s3::operation::upload_part::builders::UploadPartFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::call::{self, Call, LOOK_AGAIN};
use super::checksum::{Sum, may_be_about_it};
use super::client::Bucket;
use super::error::{Error, Kind};
use super::lock;
use super::put::{Put, Stored, etag};

/// The most parts an upload may have (Amazon S3 User Guide, "multipart upload limits").
const MOST_PARTS: i32 = 10_000;

/// How often an abort is repeated: parts under way when it came may arrive after it
/// (Amazon S3 API Reference, `AbortMultipartUpload`).
const MOST_ABORTS: u32 = 10;

/// An upload in parts. It has to be ended: by [`Upload::finish`], [`Upload::abort`] or
/// [`Upload::end`]; dropped without, its parts stay until somebody sweeps them.
#[derive(Debug)]
pub struct Upload {
    target: Target,
    part_size: u64,
    parallel: usize,
    next: i32,
    bytes: u64,
    done: Vec<CompletedPart>,
    under_way: JoinSet<Result<CompletedPart, Error>>,
    ended: bool,
}

#[derive(Debug, Clone)]
struct Target {
    bucket: Bucket,
    key: Arc<str>,
    id: Arc<str>,
    put: Arc<Put>,
    sum: Sum,
}

impl Bucket {
    /// Begins an upload of parts of `part_size` bytes (the last may be shorter), at most
    /// `parallel` of them under way at once, each held in memory.
    pub async fn upload(
        &self,
        key: &str,
        put: &Put,
        part_size: u64,
        parallel: usize,
    ) -> Result<Upload, Error> {
        let target = Target::begin(self, key.into(), Arc::new(put.clone())).await?;
        Ok(Upload {
            target,
            part_size,
            parallel: parallel.max(1),
            next: 1,
            bytes: 0,
            done: Vec::new(),
            under_way: JoinSet::new(),
            ended: false,
        })
    }
}

impl Target {
    /// Begins, with another sum where the store refuses the first.
    async fn begin(bucket: &Bucket, key: Arc<str>, put: Arc<Put>) -> Result<Self, Error> {
        let sum = bucket.sums().now();
        let first = match Self::begin_with(bucket, key.clone(), put.clone(), sum).await {
            Ok(target) => return Ok(target),
            Err(error) => error,
        };
        if !may_be_about_it(first.status(), first.code()) {
            return Err(first);
        }
        let Some(next) = bucket.sums().after_refusal(sum) else { return Err(first) };
        Self::begin_with(bucket, key, put, next).await.map_err(|_| {
            bucket.sums().was_not_it();
            first
        })
    }

    async fn begin_with(
        bucket: &Bucket,
        key: Arc<str>,
        put: Arc<Put>,
        sum: Sum,
    ) -> Result<Self, Error> {
        let call = Call::new("begin the upload", bucket.at(&key));
        let request = create_request(bucket, &key, &put, sum);
        let send = |try_| call::of(request.clone().customize(), try_).send();
        let (reply, tries) = match bucket.run_counted(&call, send).await {
            Ok(done) => done,
            Err(error) => return Err(Self::not_begun(bucket, &key, error).await),
        };
        let id: Option<Arc<str>> = reply.upload_id().map(Arc::from);
        let id = id.ok_or_else(|| call.error(Kind::Garbled).with_message("it names no upload"))?;
        if tries > 1
            && let Err(failed) = bucket.abort_others(&key, Some(&id)).await
        {
            tracing::debug!(%failed, "uploads whose ids were lost may be left");
        }
        Ok(Self { bucket: bucket.clone(), key, id, put, sum })
    }

    /// The error, with what may be left where replies were lost.
    async fn not_begun(bucket: &Bucket, key: &str, error: Error) -> Error {
        if !error.is_doubtful() || bucket.abort_others(key, None).await.is_ok() {
            return error;
        }
        error.with_left(format!("an unfinished upload of {key} (it may be there: no reply says)"))
    }

    async fn send(self, number: i32, bytes: Bytes) -> Result<CompletedPart, Error> {
        let at = format!("part {number} of {}", self.bucket.at(&self.key));
        let call = Call::new("store", at);
        let value = self.sum.of(&bytes);
        let signed = self.bucket.signs_bodies();
        let sent = self.bucket.run(&call, |try_| {
            let request = summed(self.part_request(number), self.sum, value.clone());
            let request = request.body(ByteStream::from(bytes.clone())).customize();
            let request = if signed { request } else { request.disable_payload_signing() };
            call::of(request, try_).send()
        });
        let reply = sent.await?;
        let part = CompletedPart::builder().part_number(number).set_e_tag(reply.e_tag);
        Ok(match self.sum {
            Sum::Crc32c => part.set_checksum_crc32_c(value),
            Sum::Sha256 => part.set_checksum_sha256(value),
            Sum::Md5 | Sum::None => part,
        }
        .build())
    }

    fn part_request(&self, number: i32) -> UploadPartFluentBuilder {
        let request = self.bucket.client().upload_part().bucket(self.bucket.name());
        request.key(&*self.key).upload_id(&*self.id).part_number(number)
    }

    /// Aborts until no part is left.
    async fn abort(&self) -> Result<(), Error> {
        let bucket = &self.bucket;
        for _ in 0..MOST_ABORTS {
            bucket.abort_upload(&self.key, &self.id).await?;
            if !self.has_parts().await {
                return Ok(());
            }
            bucket.clock().sleep(LOOK_AGAIN).await;
        }
        let call = Call::new("abort the upload", bucket.at(&self.key));
        Err(call.error(Kind::Incomplete).with_message("parts of it are still there"))
    }

    /// Whether the store still lists parts. Who may not look believes the abort.
    async fn has_parts(&self) -> bool {
        let call = Call::new("list the parts", self.bucket.at(&self.key)).list().tries(2);
        let request = self
            .bucket
            .client()
            .list_parts()
            .bucket(self.bucket.name())
            .key(&*self.key)
            .upload_id(&*self.id);
        let sent =
            self.bucket.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        sent.await.is_ok_and(|reply| !reply.parts().is_empty())
    }
}

impl Upload {
    /// Hands a part over; waits while as many as may be are under way. An earlier part's failure
    /// comes back here.
    pub async fn part(&mut self, bytes: Bytes) -> Result<(), Error> {
        if self.next > MOST_PARTS {
            let call = Call::new("store", self.target.bucket.at(&self.target.key));
            let why = format!("{MOST_PARTS} parts of {} bytes are full", self.part_size);
            return Err(call.error(Kind::TooLong).with_message(why));
        }
        let number = self.next;
        self.next += 1;
        self.bytes += bytes.len() as u64;
        if number == 1 && self.target.bucket.sums().is_open() {
            let part = self.first(bytes).await?;
            self.done.push(part);
            return Ok(());
        }
        while let Some(part) = self.under_way.try_join_next() {
            self.take(part)?;
        }
        while self.under_way.len() >= self.parallel {
            let Some(part) = self.under_way.join_next().await else { break };
            self.take(part)?;
        }
        self.under_way.spawn(self.target.clone().send(number, bytes));
        Ok(())
    }

    /// The first part of all shows whether the store takes our sum; it goes alone.
    async fn first(&mut self, bytes: Bytes) -> Result<CompletedPart, Error> {
        let bucket = self.target.bucket.clone();
        let first = match self.target.clone().send(1, bytes.clone()).await {
            Ok(part) => {
                bucket.sums().settle();
                return Ok(part);
            }
            Err(error) => error,
        };
        if !may_be_about_it(first.status(), first.code()) {
            return Err(first);
        }
        let Some(next) = bucket.sums().after_refusal(self.target.sum) else { return Err(first) };
        let Target { key, put, .. } = self.target.clone();
        let other = Target::begin_with(&bucket, key, put, next).await?;
        let old = std::mem::replace(&mut self.target, other);
        old.abort().await?;
        self.target.clone().send(1, bytes).await.map_err(|_| {
            bucket.sums().was_not_it();
            first
        })
    }

    fn take(
        &mut self,
        part: Result<Result<CompletedPart, Error>, tokio::task::JoinError>,
    ) -> Result<(), Error> {
        let part = part.map_err(|error| {
            let call = Call::new("store", self.target.bucket.at(&self.target.key));
            call.error(Kind::Stopped).with_source(error)
        })??;
        self.done.push(part);
        Ok(())
    }

    /// How many bytes were handed over.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The store's id of the upload.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.target.id
    }

    /// Waits for all parts and makes the object of them. Where it fails the upload is aborted.
    pub async fn finish(mut self) -> Result<Stored, Error> {
        let mut finished = self.complete().await;
        if let Err(error) = finished {
            let stopped = self.stop().await;
            finished = Err(match stopped {
                Ok(()) => error,
                Err(_) => error.with_left(format!("an unfinished upload ({})", self.id())),
            });
        }
        self.ended = true;
        finished
    }

    /// Ends it either way: finishes where `outcome` is good, aborts where it is not.
    ///
    /// # Errors
    /// That of `outcome`, or the failure to finish.
    pub async fn end<T, E: From<Error>>(self, outcome: Result<T, E>) -> Result<(T, Stored), E> {
        match outcome {
            Ok(value) => Ok((value, self.finish().await?)),
            Err(error) => {
                let (id, at) = (self.target.id.clone(), self.target.bucket.at(&self.target.key));
                if let Err(failed) = self.abort().await {
                    tracing::warn!(%failed, upload = &*id, at, "the upload could not be aborted");
                }
                Err(error)
            }
        }
    }

    /// Stops what is under way and aborts, repeatedly, until the store has no part left.
    pub async fn abort(mut self) -> Result<(), Error> {
        let stopped = self.stop().await;
        self.ended = true;
        stopped
    }

    async fn stop(&mut self) -> Result<(), Error> {
        self.under_way.shutdown().await;
        self.target.abort().await
    }

    async fn complete(&mut self) -> Result<Stored, Error> {
        if self.next == 1 {
            // An object of no bytes has one part of no bytes.
            self.part(Bytes::new()).await?;
        }
        while let Some(part) = self.under_way.join_next().await {
            self.take(part)?;
        }
        self.done.sort_by_key(|part| part.part_number);
        let parts = CompletedMultipartUpload::builder().set_parts(Some(self.done.clone())).build();
        let Target { bucket, key, id, put, .. } = &self.target;
        let call = Call::new("finish the upload", bucket.at(key)).slow();
        let mut request = bucket.client().complete_multipart_upload().bucket(bucket.name());
        request = request.key(&**key).upload_id(&**id).multipart_upload(parts);
        if put.only_if_absent {
            request = request.if_none_match("*");
        }
        let sent = bucket.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        match sent.await {
            Ok(reply) => Ok(Stored {
                version_id: reply.version_id().map(str::to_owned),
                etag: etag(reply.e_tag()),
            }),
            // An earlier try may have worked, and only its reply was lost.
            Err(error) => bucket.after_doubt(key, self.bytes, error).await,
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.ended {
            let at = self.target.bucket.at(&self.target.key);
            tracing::warn!(upload = &*self.target.id, at, "an upload was left unfinished");
        }
    }
}

fn create_request(
    bucket: &Bucket,
    key: &str,
    put: &Put,
    sum: Sum,
) -> CreateMultipartUploadFluentBuilder {
    let mut request = bucket.client().create_multipart_upload().bucket(bucket.name()).key(key);
    if let Some((mode, until)) = put.lock {
        request = request
            .object_lock_mode(mode.of_object())
            .object_lock_retain_until_date(lock::date(until));
    }
    for (name, value) in &put.metadata {
        request = request.metadata(name, value);
    }
    let algorithm = match sum {
        Sum::Crc32c => Some(ChecksumAlgorithm::Crc32C),
        Sum::Sha256 => Some(ChecksumAlgorithm::Sha256),
        Sum::Md5 | Sum::None => None,
    };
    request.set_content_type(put.content_type.clone()).set_checksum_algorithm(algorithm)
}

fn summed(
    request: UploadPartFluentBuilder,
    sum: Sum,
    value: Option<String>,
) -> UploadPartFluentBuilder {
    match sum {
        Sum::Crc32c => request.set_checksum_crc32_c(value),
        Sum::Sha256 => request.set_checksum_sha256(value),
        Sum::Md5 | Sum::None => request.set_content_md5(value),
    }
}
