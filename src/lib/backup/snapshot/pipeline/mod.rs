//! From a member into a bucket and a file, all stages at once and nothing on a temporary disk.
//!
//! ```text
//! etcd ─► read ─► judge ─► pack ─┬─► deliver ─► bucket
//!         task    thread   thread └─► local file
//! ```
//!
//! Between the stages are short channels; the parts on their way into the bucket are the one
//! large queue ([`QUEUE`]). A bucket that stalls for as long as this queue has room is never
//! noticed by etcd, which would have to keep old pages meanwhile.

mod deliver;
mod local;
mod pool;
mod stages;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use self::deliver::{Bound, Delivery, Undelivered, deliver};
pub use self::local::LocalFile;
pub use self::stages::{Cutter, Judged, Packed, Parts};

use self::pool::Pool;
use self::stages::{Halt, Item};
use crate::backup::Error;
use crate::clock::Clock;
use crate::etcd::db::Damage;
use crate::etcd::receive::{Malformed, Receiver};
use crate::etcd::{self, Chunk, Messages};
use crate::progress::{Progress, Step};
use crate::s3::{self, Stored, part_size};
use crate::snapshot::Error as PackError;
use crate::snapshot::pack::Layers;

/// The parts between etcd and the bucket, in bytes.
pub const QUEUE: u64 = 40 << 20;

/// How much is handed on at once, in bytes: waking a thread for every message of 32 KiB costs as
/// much as compressing it.
const BATCH: usize = 512 << 10;

/// Batches between two stages.
const SHORT: usize = 2;

/// How long etcd waits for us before we say so.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name under which progress is told.
pub const ITEM: &str = "snapshot";

/// One snapshot about to be taken.
pub struct Pipeline {
    /// What the member sends.
    pub messages: Messages,
    /// What judges it.
    pub receiver: Receiver,
    /// The form in which it is stored.
    pub layers: Layers,
    /// The local copy.
    pub local: Option<LocalFile>,
    /// The bucket.
    pub bound: Option<Bound>,
}

/// A snapshot that was taken whole, and is at one place at least.
#[derive(Debug)]
pub struct Streamed {
    /// What is known of the database.
    pub judged: Judged,
    /// The stored form's length in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
    /// What became of it in the bucket.
    pub stored: Option<Result<Stored, Undelivered>>,
    /// What became of the local copy.
    pub local: Option<io::Result<()>>,
}

/// Why there is no snapshot.
#[derive(Debug)]
pub enum Cause {
    /// What has to be known of the bucket first.
    Asking(Error),
    /// The member, or the way from it.
    Etcd(etcd::Error),
    /// The member broke the protocol's rules.
    Malformed(Malformed),
    /// What the member sent is no sound database.
    Damage(Damage),
    /// It could not be compressed or encrypted.
    Pack(PackError),
    /// The bucket, or the way to it.
    Store(s3::Error),
    /// The local file.
    Local(io::Error),
    /// The user stopped it.
    Interrupted,
    /// A thread of ours died.
    Bug,
}

/// That there is no snapshot, and what is left of it in the bucket.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub cause: Cause,
    /// What is, or may be, left in the bucket.
    pub left: Vec<String>,
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        Self { cause, left: Vec::new() }
    }
}

/// Why the reading stage ended early.
enum Broken {
    Etcd(etcd::Error),
    Neighbour,
    Interrupted,
}

/// Begins a local copy, away from the async threads.
pub async fn create_local(path: &Path) -> io::Result<LocalFile> {
    let path = path.to_owned();
    blocking(move || LocalFile::create(&path))
        .await
        .unwrap_or_else(|bug| Err(io::Error::other(bug)))
}

impl Pipeline {
    /// Takes the snapshot: through all stages at once, until every taker has it or has failed.
    pub async fn run(
        self,
        clock: &Arc<dyn Clock>,
        progress: &Arc<dyn Progress>,
        cancel: &CancellationToken,
    ) -> Result<Streamed, Failure> {
        let Self { mut messages, receiver, layers, local, bound } = self;
        let first = tokio::select! {
            first = messages.next() => first.map_err(Cause::Etcd)?,
            () = cancel.cancelled() => return Err(Cause::Interrupted.into()),
        };
        let total = first.as_ref().map_or(0, |chunk| chunk.remaining + chunk.blob.len() as u64);
        let (whole, known) = oneshot::channel();
        let (delivery, parts) = bound.map(|bound| queue(bound, total, known)).unzip();

        let (to_judge, judging) = mpsc::channel(SHORT);
        let (to_pack, packing) = mpsc::channel(SHORT);
        let cutter = Cutter::new(local, parts);
        let judged = blocking(move || stages::judge(receiver, judging, &to_pack));
        let packed = blocking(move || stages::pack(packing, &layers, cutter));
        let watch = Watch { clock: Arc::clone(clock), progress: Arc::clone(progress), total };
        let read = tokio::spawn(watch.read(first, messages, to_judge, cancel.clone()));
        let made = async {
            let (read, judged, packed) = tokio::join!(read, judged, packed);
            let made = sum_up(read.unwrap_or(Err(Broken::Neighbour)), judged, packed);
            if made.is_ok() {
                // A bucket that has failed meanwhile does not listen.
                let _ = whole.send(());
            }
            // Dropping `whole` unsent has an upload aborted.
            made
        };
        let delivered = async {
            match delivery {
                Some(delivery) => Some(deliver(delivery, clock.as_ref(), cancel).await),
                None => None,
            }
        };
        let (made, stored) = tokio::join!(made, delivered);
        conclude(made, stored, cancel).await
    }
}

/// Both ends of the queue before the bucket, for about `total` bytes.
pub fn queue(bound: Bound, total: u64, whole: oneshot::Receiver<()>) -> (Delivery, Parts) {
    // What does not compress grows by the frames of zstd and age.
    let most = total.saturating_add(total / 1000).saturating_add(1 << 20);
    let part_size = part_size::for_total(Some(most));
    let size = usize::try_from(part_size).unwrap_or(usize::MAX);
    let buffers = usize::try_from(QUEUE / part_size).unwrap_or(0).max(2);
    let pool = Pool::new(size, buffers);
    let (to, parts) = mpsc::channel(buffers);
    let delivery = Delivery { bound, part_size, parts, whole, pool: Arc::clone(&pool) };
    (delivery, Parts { pool, to, filling: None })
}

type Threaded<T> = Result<Result<T, Halt>, tokio::task::JoinError>;

/// What the three stages made, or what stopped the first that was not stopped by another.
fn sum_up(
    read: Result<(), Broken>,
    judged: Threaded<Judged>,
    packed: Threaded<Packed>,
) -> Result<(Judged, Packed), Option<Cause>> {
    let (Ok(judged), Ok(packed)) = (judged, packed) else { return Err(Some(Cause::Bug)) };
    match (read, judged, packed) {
        (Err(Broken::Interrupted), ..) => Err(Some(Cause::Interrupted)),
        (Err(Broken::Etcd(error)), ..) => Err(Some(Cause::Etcd(error))),
        (_, Err(halt), packed) => Err(cause(halt).or(packed.err().and_then(cause))),
        (_, _, Err(halt)) => Err(cause(halt)),
        (Err(Broken::Neighbour), ..) => Err(None),
        (Ok(()), Ok(judged), Ok(packed)) => Ok((judged, packed)),
    }
}

fn cause(halt: Halt) -> Option<Cause> {
    Some(match halt {
        Halt::Neighbour => return None,
        Halt::Malformed(malformed) => Cause::Malformed(malformed),
        Halt::Damage(damage) => Cause::Damage(damage),
        Halt::Pack(error) => Cause::Pack(error),
        Halt::Local(error) => Cause::Local(error),
    })
}

/// Puts the local copy into its place, or says what went wrong first.
async fn conclude(
    made: Result<(Judged, Packed), Option<Cause>>,
    stored: Option<Result<Stored, Undelivered>>,
    cancel: &CancellationToken,
) -> Result<Streamed, Failure> {
    let (judged, Packed { size, sha256, local }) = match made {
        Ok(made) => made,
        Err(cause) => {
            let (error, left) = match stored {
                Some(Err(Undelivered { error, left })) => (error, left),
                _ => (None, Vec::new()),
            };
            // With nobody left to take the data, the stages only say that nobody did.
            let cause = cause.or(error.map(Cause::Store)).unwrap_or_else(|| {
                if cancel.is_cancelled() { Cause::Interrupted } else { Cause::Bug }
            });
            return Err(Failure { cause, left });
        }
    };
    let local = match local {
        None => None,
        Some(Err(error)) => Some(Err(error)),
        Some(Ok(file)) => Some(
            blocking(move || file.finish()).await.unwrap_or_else(|bug| Err(io::Error::other(bug))),
        ),
    };
    match (stored, local) {
        // It is nowhere.
        (Some(Err(Undelivered { error, left })), None | Some(Err(_))) => {
            Err(Failure { cause: error.map_or(Cause::Interrupted, Cause::Store), left })
        }
        (stored, local) => Ok(Streamed { judged, size, sha256, stored, local }),
    }
}

async fn blocking<T, F>(work: F) -> Result<T, tokio::task::JoinError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    tokio::task::spawn_blocking(work).await
}

/// Looks after the reading stage.
struct Watch {
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    total: u64,
}

impl Watch {
    async fn read(
        self,
        first: Option<Chunk>,
        mut messages: Messages,
        to: mpsc::Sender<Item<Chunk>>,
        cancel: CancellationToken,
    ) -> Result<(), Broken> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut next = first;
        while let Some(chunk) = next {
            bytes += chunk.blob.len();
            let left = chunk.remaining;
            batch.push(chunk);
            // Blank messages are a failure that is to be seen soon, however many they are.
            if bytes >= BATCH || batch.len() >= BATCH >> 10 {
                self.tell(left);
                self.hand_on(Item::Pieces(std::mem::take(&mut batch)), &to, &cancel).await?;
                bytes = 0;
            }
            next = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Broken::Interrupted),
                () = to.closed() => return Err(Broken::Neighbour),
                next = messages.next() => next.map_err(Broken::Etcd)?,
            };
        }
        self.tell(0);
        self.hand_on(Item::Pieces(batch), &to, &cancel).await?;
        self.hand_on(Item::End, &to, &cancel).await?;
        self.progress.update(ITEM, Step::state("storing the rest"));
        Ok(())
    }

    fn tell(&self, left: u64) {
        let done = self.total.saturating_sub(left);
        self.progress.update(ITEM, Step::bytes("streaming", done, Some(self.total)));
    }

    /// Hands on, and says so where that takes long: from then on etcd waits for the bucket.
    async fn hand_on(
        &self,
        item: Item<Chunk>,
        to: &mpsc::Sender<Item<Chunk>>,
        cancel: &CancellationToken,
    ) -> Result<(), Broken> {
        let mut waited = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Broken::Interrupted),
                room = to.reserve() => {
                    room.map_err(|_| Broken::Neighbour)?.send(item);
                    if !waited.is_zero() {
                        self.progress.say("etcd goes on: what is stored was taken");
                    }
                    return Ok(());
                }
                () = self.clock.sleep(PATIENCE) => {
                    waited += PATIENCE;
                    if waited == PATIENCE {
                        self.progress.warn(&format!(
                            "etcd has to wait: nothing was taken for {} s, and the queue of {} MiB \
                             is full",
                            PATIENCE.as_secs(),
                            QUEUE >> 20,
                        ));
                    }
                }
            }
        }
    }
}
