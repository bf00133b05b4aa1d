//! One object, decrypted and encrypted to others while it streams from the bucket into the bucket.
//!
//! What is inside is opened to the end beside it: only if it is what the manifest of the original
//! says does the new object come into being.

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::Job;
use super::apply::Broken;
use crate::backup::Error;
use crate::backup::fetch::{STEP, fetch, hash};
use crate::backup::snapshot::pipeline::{Bound, Cutter, Packed, Undelivered, deliver, queue};
use crate::s3::{Stored, Version};
use crate::snapshot::archive::Archive;
use crate::snapshot::kind::Kind;
use crate::snapshot::manifest::Content;
use crate::snapshot::pack::{Unpacker, unsealed};
use crate::snapshot::pipe::{self, Feed, PipeReader};
use crate::snapshot::seal::{Identities, Recipients, Sealer};

/// Pieces between the two threads.
const PIECES: usize = 8;

/// What must be inside.
#[derive(Debug, Clone)]
pub enum Inside {
    /// This database.
    Database(Content),
    /// An archive of a node's keys.
    Keys,
}

/// An object of the original.
pub struct Source<'a> {
    /// Where it is.
    pub version: &'a Version,
    /// Its bytes as stored.
    pub content: &'a Content,
    /// What must be inside.
    pub inside: Inside,
}

impl Job<'_> {
    /// Makes `bound` of `source`, encrypted to the new recipients; nothing is left of it where
    /// that fails.
    pub(super) async fn reseal(
        &self,
        source: Source<'_>,
        bound: Bound,
    ) -> Result<(Stored, Content), Broken> {
        let key = bound.key.clone();
        let (whole, known) = oneshot::channel();
        let (delivery, parts) = queue(bound, source.version.size, known);
        let cutter = Cutter::new(None, Some(parts));
        let made = async {
            let made = self.cancel.run_until_cancelled(self.make(&source, cutter)).await;
            let made = made.unwrap_or(Err(Error::Interrupted("while a backup was encrypted anew")));
            // Dropped unsent it has the upload aborted.
            made.inspect(|_| {
                // A delivery that has failed meanwhile does not listen.
                let _ = whole.send(());
            })
        };
        let delivered = Box::pin(deliver(delivery, self.clock.as_ref(), self.cancel));
        let (made, delivered) = tokio::join!(made, delivered);
        let doing = format!("cannot store {key}");
        match (made, delivered) {
            (Ok(content), Ok(stored)) => Ok((stored, content)),
            (_, Err(Undelivered { error: Some(error), left })) => {
                Err(Broken { error: Error::doing(doing)(error), left })
            }
            (Err(error), Err(Undelivered { left, .. })) => Err(Broken { error, left }),
            (Err(error), Ok(_)) => Err(Broken { error, left: Vec::new() }),
            (Ok(_), Err(Undelivered { left, .. })) => {
                let error = Error::Interrupted("while a backup was encrypted anew");
                Err(Broken { error, left })
            }
        }
    }

    async fn make(&self, source: &Source<'_>, cutter: Cutter) -> Result<Content, Error> {
        let Source { version, content, inside } = source;
        let (keys, to) = (self.identities.clone(), self.request.recipients.clone());
        let inside = inside.clone();
        let open = move |from| reencrypt(from, &keys, &to, cutter, inside);
        let fetched = fetch(self.bucket, version, open, self.told).await?;
        let doing = format!("cannot encrypt {} anew", version.key);
        let packed = fetched.opened.map_err(Error::doing(doing))?;
        if fetched.stored != **content {
            return Err(not_as_said(&version.key));
        }
        Ok(Content { size: packed.size, sha256: hex::encode(packed.sha256) })
    }
}

fn not_as_said(what: &str) -> Error {
    Error::failed(
        format!("{what} is not what its manifest says"),
        "`capvco-backup verify` shows what is wrong with it; take a new backup",
    )
}

type Made = Result<Result<Packed, crate::snapshot::Error>, Error>;

fn reencrypt(
    from: PipeReader,
    identities: &Identities,
    to: &Recipients,
    cutter: Cutter,
    inside: Inside,
) -> Made {
    let to_bucket = match Sealer::new(cutter, to) {
        Ok(to_bucket) => to_bucket,
        Err(error) => return Ok(Err(error)),
    };
    let inner = match unsealed(from, identities, "the backup") {
        Ok((_, inner)) => inner,
        Err(error) => return Ok(Err(error)),
    };
    let (feed, reader) = pipe::reader(PIECES);
    let (checked, written) = std::thread::scope(|scope| {
        let checking = scope.spawn(move || check(reader, inside));
        let written = seal(inner, to_bucket, feed);
        (checking.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug)), written)
    });
    match (checked, written) {
        (Ok(()), Ok(packed)) => Ok(Ok(packed)),
        // What is inside was found wrong, and so nobody took the rest.
        (Err(wrong), Err(error)) if is_gone(&error) => wrong.told(),
        (Err(wrong), Ok(_)) => wrong.told(),
        (_, Err(error)) => Ok(Err(crate::snapshot::Error::of_reading("the backup", error))),
    }
}

/// Why what is inside is not what it should be.
enum Wrong {
    /// Something else, and whole.
    Other,
    /// It cannot be read.
    Unreadable(crate::snapshot::Error),
}

impl From<crate::snapshot::Error> for Wrong {
    fn from(error: crate::snapshot::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl Wrong {
    fn told(self) -> Made {
        match self {
            Self::Other => Err(not_as_said("the data inside")),
            Self::Unreadable(error) => Ok(Err(error)),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<pipe::Gone>)
}

/// Encrypts all of `inner`, and shows it to who checks it.
fn seal(
    mut inner: Box<dyn io::Read + Send>,
    mut sealer: Sealer<Cutter>,
    feed: Feed,
) -> io::Result<Packed> {
    let mut buffer = vec![0; STEP];
    loop {
        let taken = match inner.read(&mut buffer) {
            Ok(0) => break,
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        sealer.write_all(&buffer[..taken])?;
        feed.send_blocking(Bytes::copy_from_slice(&buffer[..taken])).map_err(io::Error::other)?;
    }
    feed.finish_blocking();
    sealer.finish()?.finish()
}

/// Whether what is inside is what it should be.
fn check(reader: PipeReader, inside: Inside) -> Result<(), Wrong> {
    let name = "the data inside";
    let unpacker = Unpacker::new(reader, &Identities::default(), name)?;
    match inside {
        Inside::Keys => Ok(Archive::read(unpacker, name).map(|_| ())?),
        Inside::Database(said) => {
            let unpacker = unpacker.must_hold(Kind::EtcdDb, name)?;
            let found = hash(unpacker, &mut io::sink(), said.size);
            let found = found.map_err(|error| crate::snapshot::Error::of_reading(name, error))?;
            if found == said { Ok(()) } else { Err(Wrong::Other) }
        }
    }
}
