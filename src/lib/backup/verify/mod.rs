//! `verify`: whether a backup is what its manifest says, without restoring it.
//!
//! Quick: the manifest, the objects' sizes and sums, their locks, and the age header against the
//! identity. Full: everything is fetched, hashed, decrypted, decompressed, and the database's
//! structure and figures are read.

mod full;
mod quick;
mod report;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use report::{Row, VerifyReport};

use self::report::Checks;
use super::choice::{Looked, look};
use super::wording::at;
use super::{Error, Target};
use crate::clock::Clock;
use crate::progress::{Progress, Step};
use crate::snapshot::catalog::Entry;
use crate::snapshot::manifest::Encryption;
use crate::snapshot::seal::Identities;

/// Which backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Of each cluster the newest that has a manifest.
    Newest,
    /// Those of these names.
    Named(Vec<String>),
    /// All that have a manifest.
    All,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the backups lie.
    pub target: Target,
    /// Only this cluster's.
    pub cluster: Option<u64>,
    /// Which of them.
    pub which: Which,
    /// Nothing is fetched but manifests and headers.
    pub quick: bool,
    /// The keys to open them with.
    pub identities: Option<Identities>,
    /// Where the database is unpacked for a full look, into a file without a name; without it,
    /// where temporary files go.
    pub staging: Option<PathBuf>,
}

/// Verifies backups one after the other.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Result<VerifyReport, Error> {
    // Boxed: the futures of the S3 client are large.
    let work = Box::pin(all(request, clock, progress));
    let stopped = || Err(Error::Interrupted("before everything was verified"));
    cancel.run_until_cancelled(work).await.unwrap_or_else(stopped)
}

async fn all(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
) -> Result<VerifyReport, Error> {
    let looked = look(&request.target, request.cluster, clock).await?;
    let chosen = choose(&looked, &request.which)?;
    if !request.quick && request.identities.is_none() {
        without_key(&chosen)?;
    }
    let time = looked.bucket.server_time().await;
    let now = time.map(at).map_err(Error::doing("cannot learn the server's time"))?;
    let mut report = VerifyReport::default();
    for entry in chosen {
        let name = entry.slot.to_string();
        progress.update(&name, Step::state("verifying"));
        let mut checks = Checks::of(entry);
        quick::check(&looked.bucket, entry, request.identities.as_ref(), now, &mut checks).await?;
        if !request.quick {
            full::check(&looked.bucket, entry, request, progress.as_ref(), &mut checks).await?;
        }
        progress.finish(&name, if checks.all_good() { "good" } else { "not good" });
        report.add(checks);
    }
    Ok(report)
}

fn choose<'a>(looked: &'a Looked, which: &Which) -> Result<Vec<&'a Entry>, Error> {
    let chosen = match which {
        Which::Named(names) => looked.named(names)?,
        Which::Newest => looked.newest(),
        Which::All => {
            let all = looked.catalog.entries.iter();
            all.filter(|entry| !entry.records.is_empty()).collect()
        }
    };
    if chosen.is_empty() {
        let hint = "check --s3-prefix and --cluster; `capvco-backup list` shows what is there";
        return Err(Error::not_found(looked.no("backup"), hint));
    }
    Ok(chosen)
}

/// A full look at an encrypted backup needs a key.
fn without_key(chosen: &[&Entry]) -> Result<(), Error> {
    let sealed = chosen.iter().find(|entry| {
        entry.good().is_some_and(|(_, manifest)| {
            manifest.data.encryption == Encryption::Age || manifest.pki.is_some()
        })
    });
    sealed.map_or(Ok(()), |entry| {
        Err(Error::asked(
            format!("{} is encrypted, and no identity is given", entry.slot),
            "say --identity FILE, or --quick to look at it from outside only",
        ))
    })
}
