//! `check`: everything that a backup will need, tried and told in one table before the first one.
//!
//! What can only be known by trying is tried on a small object below the prefix, locked for
//! seconds and then removed again. The table says what would go wrong later, and what to do.

mod bucket;
mod files;
mod judge;
mod members;
mod report;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use report::{CheckReport, Outcome, Row};

use super::node::Given;
use super::{Error, Identities, LockWish, Target};
use crate::clock::Clock;
use crate::progress::Progress;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where backups are to lie.
    pub target: Target,
    /// How they are to be locked.
    pub lock: LockWish,
    /// Whether a lock that cannot be read back is good enough.
    pub lock_unverified_ok: bool,
    /// How to reach etcd.
    pub etcd: Given,
    /// Whether the node's keys are to go along; not said: on control-plane nodes.
    pub include_pki: Option<bool>,
    /// Where the node keeps its keys; not said: where its manifests name files.
    pub pki_dir: Option<PathBuf>,
    /// Public keys, as given.
    pub recipients: Vec<String>,
    /// Files of public keys.
    pub recipients_files: Vec<PathBuf>,
    /// Keys to open backups with, where some are given.
    pub identities: Option<Identities>,
    /// Whether backups are to be stored in the clear.
    pub no_encrypt: bool,
}

/// Tries everything; what fails is a row, not an error.
///
/// # Errors
/// Settings that cannot be used at all, and an interruption: then the probe may be left, and the
/// next check removes it.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Result<CheckReport, Error> {
    let work = async {
        let s3 = request.target.open(clock.clone()).await?;
        let node = request.etcd.look()?;
        let probing = bucket::probe(&s3, request, clock.as_ref(), progress.as_ref());
        let asking = members::ask(&request.etcd, &node, &clock);
        let (stored, members) = futures_util::join!(probing, asking);
        let mut rows = stored.rows;
        rows.extend(members);
        rows.extend(files::keys(request, &node));
        rows.extend(files::certificates(request, &node, clock.unix()));
        rows.extend(files::recipients(request));
        Ok(CheckReport::new(rows, stored.left))
    };
    let stopped = || Err(Error::Interrupted("while everything was being tried"));
    // Boxed: the futures of the S3 client are large.
    cancel.run_until_cancelled(Box::pin(work)).await.unwrap_or_else(stopped)
}
