//! Reading an object: in order, whole, resumed where the connection broke.

use std::ops::Range;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;

use super::call::{self, Call};
use super::client::Bucket;
use super::error::{Error, Kind};
use super::judge;
use super::put::etag;
use super::retry::MOST_TRIES;
use super::wire::LEAST;

/// An object's bytes, or a range of them.
#[derive(Debug)]
pub struct Body {
    bucket: Bucket,
    key: String,
    version: Option<String>,
    etag: Option<String>,
    /// Where in the object the first byte lies.
    start: u64,
    size: u64,
    position: u64,
    stream: Option<ByteStream>,
    /// Broken connections since [`LEAST`] bytes came without one.
    broken: u32,
    /// Bytes since the last of them.
    unbroken: u64,
}

impl Bucket {
    /// Begins to read an object version (the newest without one), or a range of it.
    pub async fn get(
        &self,
        key: &str,
        version: Option<&str>,
        range: Option<Range<u64>>,
    ) -> Result<Body, Error> {
        let (start, len) = range.map_or((0, None), |r| (r.start, Some(r.end - r.start)));
        let mut body = Body {
            bucket: self.clone(),
            key: key.to_owned(),
            version: version.map(str::to_owned),
            etag: None,
            start,
            size: 0,
            position: 0,
            stream: None,
            broken: 0,
            unbroken: 0,
        };
        let header = len.map(|len| format!("bytes={start}-{}", start + len.saturating_sub(1)));
        let reply = body.ask(header).await?;
        body.size = length(&reply);
        body.etag = etag(reply.e_tag());
        body.version = reply.version_id().map(str::to_owned).or(body.version);
        body.stream = Some(reply.body);
        match len {
            Some(len) if body.size != len => Err(body
                .error(Kind::Damaged)
                .with_message(format!("{len} bytes were asked for, {} came", body.size))),
            _ => Ok(body),
        }
    }
}

fn length(reply: &GetObjectOutput) -> u64 {
    reply.content_length().and_then(|len| u64::try_from(len).ok()).unwrap_or(0)
}

impl Body {
    /// How many bytes there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The version that is read.
    #[must_use]
    pub fn version_id(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The next bytes; `None` after the last. A broken connection is taken up again from where
    /// it broke.
    ///
    /// # Errors
    /// [`Kind::Damaged`] where there is more than there should be, or another object by now.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.stream.is_none() {
                self.resume().await?;
            }
            let Some(stream) = self.stream.as_mut() else { continue };
            match stream.next().await {
                Some(Ok(bytes)) if bytes.is_empty() => {}
                Some(Ok(bytes)) => return self.took(bytes).map(Some),
                None if self.position == self.size => return Ok(None),
                None => self.broke(None)?,
                Some(Err(error)) => self.broke(Some(&error))?,
            }
        }
    }

    fn took(&mut self, bytes: Bytes) -> Result<Bytes, Error> {
        self.unbroken += bytes.len() as u64;
        // A byte a connection is no progress.
        if self.unbroken >= LEAST {
            self.broken = 0;
        }
        self.position += bytes.len() as u64;
        if self.position > self.size {
            let why = format!("more came than the {} bytes it said", self.size);
            return Err(self.error(Kind::Damaged).with_message(why));
        }
        Ok(bytes)
    }

    /// Gives up after too many breaks without a byte in between.
    fn broke(&mut self, error: Option<&(dyn std::error::Error + 'static)>) -> Result<(), Error> {
        self.stream = None;
        self.broken += 1;
        self.unbroken = 0;
        let why = format!("it ended after {} of {} bytes", self.position, self.size);
        tracing::debug!(key = self.key, why, tries = self.broken, "s3 body broke");
        let trouble = error.map(judge::broken_body);
        let stalled =
            trouble.as_ref().is_some_and(|t| matches!(t.kind, Kind::Stalled | Kind::Slow));
        if self.broken < MOST_TRIES && !(stalled && self.broken > 1) {
            return Ok(());
        }
        let at = self.bucket.at(&self.key);
        Err(match trouble {
            Some(trouble) => trouble.error("read the object", &at),
            None => self.error(Kind::Lost).with_message(why),
        })
    }

    async fn resume(&mut self) -> Result<(), Error> {
        if self.position == self.size {
            self.stream = Some(ByteStream::default());
            return Ok(());
        }
        let first = self.start + self.position;
        let last = self.start + self.size - 1;
        let reply = match self.ask(Some(format!("bytes={first}-{last}"))).await {
            Ok(reply) => reply,
            Err(error) if error.status() == Some(412) => {
                let why = "it was replaced while it was read";
                return Err(self.error(Kind::Damaged).with_message(why));
            }
            Err(error) => return Err(error),
        };
        let wanted = format!("bytes {first}-");
        if !reply.content_range().is_some_and(|range| range.starts_with(&wanted)) {
            let why = "the store does not give the rest of an object";
            return Err(self.error(Kind::Garbled).with_message(why));
        }
        self.stream = Some(reply.body);
        Ok(())
    }

    async fn ask(&self, range: Option<String>) -> Result<GetObjectOutput, Error> {
        let call = Call::new("read the object", self.bucket.at(&self.key)).stream();
        let request = self.bucket.client().get_object().bucket(self.bucket.name());
        let request = request
            .key(&self.key)
            .set_version_id(self.version.clone())
            .set_if_match(self.etag.as_ref().map(|etag| format!("\"{etag}\"")))
            .set_range(range);
        self.bucket.run(&call, |try_| call::of(request.clone().customize(), try_).send()).await
    }

    fn error(&self, kind: Kind) -> Error {
        Call::new("read the object", self.bucket.at(&self.key)).error(kind)
    }
}
