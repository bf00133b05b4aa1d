//! The room of object storage against real stores with Object Lock, each unlike AWS in its own
//! way, and against stores that fail.

mod faults;
mod locks;
mod objects;
mod refusals;

use std::time::Duration;

use bytes::Bytes;
use capvco::clock;
use capvco::s3::{Bucket, Config, Error, Put, PutOutcome, Stored};

use crate::support::peers::s3::{BUCKET, S3};

/// The settings of a bucket of `store`, as its user.
pub fn config(store: &S3) -> Config {
    let mut config = Config::new(BUCKET);
    config.endpoint = Some(store.endpoint().to_owned());
    config.region = Some("us-east-1".to_owned());
    config.keys = Some((store.access_key().to_owned(), store.secret_key().into()));
    config.stall_timeout = Duration::from_secs(20);
    config
}

/// The bucket that each store has.
pub async fn open(store: &S3) -> Bucket {
    Bucket::open(config(store), clock::System::shared()).await.expect("the settings are good")
}

/// Bytes that no compression helps with, the same each time.
pub fn noise(len: usize) -> Bytes {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    Bytes::from((0..len.div_ceil(8)).flat_map(|_| next()).take(len).collect::<Vec<_>>())
}

/// Uploads `bytes` in parts of `part` bytes.
pub async fn upload(
    bucket: &Bucket,
    key: &str,
    put: &Put,
    bytes: &Bytes,
    part: usize,
) -> Result<Stored, Error> {
    let mut upload = bucket.upload(key, put, part as u64, 3).await?;
    let mut sent = Ok(());
    for start in (0..bytes.len()).step_by(part) {
        sent = upload.part(bytes.slice(start..bytes.len().min(start + part))).await;
        if sent.is_err() {
            break;
        }
    }
    upload.end(sent).await.map(|((), stored)| stored)
}

/// What a put stored.
#[track_caller]
pub fn stored(outcome: PutOutcome) -> Stored {
    match outcome {
        PutOutcome::Stored(stored) => stored,
        PutOutcome::AlreadyThere => panic!("it was there already"),
    }
}

/// All of an object.
pub async fn read(bucket: &Bucket, key: &str, version: Option<&str>) -> Vec<u8> {
    let mut body = bucket.get(key, version, None).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(bytes.len() as u64, body.size());
    bytes
}
