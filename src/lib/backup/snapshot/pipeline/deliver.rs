//! The way into the bucket: one put where one part is all, an upload in parts where it is not.
//!
//! The object appears only after everything in it was found good; until then an upload can be
//! aborted, and is, on every way out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::pool::Pool;
use crate::clock::Clock;
use crate::s3::{self, Bucket, Put, Stored, Upload};

/// How many parts are under way at once: what a distant server needs to be kept busy.
pub const PARALLEL: usize = 4;

/// How long an abort may take: a server that is gone does not get the whole stall time again.
const ABORT: Duration = Duration::from_secs(15);

/// Where the data goes.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The bucket.
    pub bucket: Bucket,
    /// The object.
    pub key: String,
    /// Its lock and the like.
    pub put: Put,
}

/// The data did not get there.
#[derive(Debug)]
pub struct Undelivered {
    /// Why; none where something else went wrong.
    pub error: Option<s3::Error>,
    /// What is, or may be, left in the bucket.
    pub left: Vec<String>,
}

impl Undelivered {
    fn of(error: Option<s3::Error>, upload: Option<String>) -> Self {
        let mut left = error.as_ref().map(|error| error.left().to_vec()).unwrap_or_default();
        left.extend(upload.map(|id| format!("an unfinished upload ({id})")));
        Self { error, left }
    }
}

/// Everything that [`deliver`] needs to see.
pub struct Delivery {
    /// Where it goes.
    pub bound: Bound,
    /// The length of a part.
    pub part_size: u64,
    /// Full parts, and the last one.
    pub parts: mpsc::Receiver<Bytes>,
    /// Says that all that came is good; closed where it is not.
    pub whole: oneshot::Receiver<()>,
    /// Where the parts' buffers come from.
    pub pool: Arc<Pool>,
}

/// What has to be undone where it goes wrong.
enum Begun {
    Nothing,
    Asked(JoinHandle<Result<Upload, s3::Error>>),
    Upload(Upload),
}

/// Takes parts until there are no more, and makes an object of them once they are known to be
/// whole and good.
pub async fn deliver(
    delivery: Delivery,
    clock: &dyn Clock,
    stop: &CancellationToken,
) -> Result<Stored, Undelivered> {
    let Delivery { bound, part_size, mut parts, whole, pool } = delivery;
    let mut begun = Begun::Nothing;
    let sent = tokio::select! {
        sent = send(&bound, part_size, &mut parts, &mut begun) => sent.map_err(Some),
        () = stop.cancelled() => Err(None),
    };
    // Whoever fills the next part need not wait for this one any more.
    let sent = match sent {
        Ok(last) => match whole.await {
            Ok(()) => {
                let ended = end(&bound, last, begun).await;
                pool.close();
                return ended.map_err(|error| Undelivered::of(Some(error), None));
            }
            Err(_) => None,
        },
        Err(error) => error,
    };
    drop(parts);
    pool.close();
    Err(Undelivered::of(sent, undo(begun, clock).await))
}

/// Sends all parts; gives the only one back where it is alone, unsent.
async fn send(
    bound: &Bound,
    part_size: u64,
    parts: &mut mpsc::Receiver<Bytes>,
    begun: &mut Begun,
) -> Result<Option<Bytes>, s3::Error> {
    let Some(first) = parts.recv().await else { return Ok(None) };
    let Some(second) = parts.recv().await else { return Ok(Some(first)) };
    begin(bound, part_size, begun).await?;
    let Begun::Upload(upload) = begun else { return Ok(None) };
    upload.part(first).await?;
    upload.part(second).await?;
    while let Some(part) = parts.recv().await {
        upload.part(part).await?;
    }
    Ok(None)
}

/// Begins the upload in a task of its own, so that an upload that the server has begun is known
/// even if we stop waiting for its answer.
async fn begin(bound: &Bound, part_size: u64, begun: &mut Begun) -> Result<(), s3::Error> {
    let Bound { bucket, key, put } = bound.clone();
    let asked = tokio::spawn(async move { bucket.upload(&key, &put, part_size, PARALLEL).await });
    *begun = Begun::Asked(asked);
    if let Begun::Asked(asked) = begun
        && let Ok(answer) = asked.await
    {
        *begun = Begun::Nothing;
        *begun = Begun::Upload(answer?);
    }
    Ok(())
}

async fn end(bound: &Bound, last: Option<Bytes>, begun: Begun) -> Result<Stored, s3::Error> {
    if let Begun::Upload(upload) = begun {
        return upload.finish().await;
    }
    bound.bucket.put_unique(&bound.key, last.unwrap_or_default(), &bound.put).await
}

/// Aborts what was begun; gives its id where that failed.
async fn undo(begun: Begun, clock: &dyn Clock) -> Option<String> {
    let upload = match begun {
        Begun::Nothing => return None,
        Begun::Upload(upload) => upload,
        Begun::Asked(asked) => tokio::select! {
            answer = asked => answer.ok()?.ok()?,
            () = clock.sleep(ABORT) => return Some("unknown".to_owned()),
        },
    };
    let id = upload.id().to_owned();
    tokio::select! {
        aborted = upload.abort() => aborted.is_err().then_some(id),
        () = clock.sleep(ABORT) => Some(id),
    }
}
