//! `bucket create`: a bucket for backups, with locking, which can only be switched on when a
//! bucket is made; on the portal with its objectspace and two keys, elsewhere by plain S3.
//!
//! Run again it makes what is missing and leaves the rest as it is.

mod apply;
mod key_file;
mod observe;
mod plan;
mod portal;
mod report;
mod request;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use crate::vco::{
    Config as CloudConfig, Publish, RateLimit as CloudRateLimit, Through, TokenSource,
};
pub use report::{BucketReport, Row};
pub use request::{Place, Portal, Request};

use super::Error;
use crate::clock::Clock;

/// Makes what is missing.
///
/// # Errors
/// Nothing could be looked at, or what is there is in the way; nothing was changed then. A step
/// that fails is a row.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    cancel: &CancellationToken,
) -> Result<BucketReport, Error> {
    let work = async {
        let observed = observe::observe(request, &clock).await?;
        let plan = plan::plan(request, &observed.seen)?;
        if request.dry_run {
            return Ok(report::rehearsed(request, &plan));
        }
        Ok(apply::apply(request, &plan, observed, &clock).await)
    };
    let stopped = || Err(Error::Interrupted("while a bucket was being made; run it again"));
    // Boxed: the futures of the S3 client are large.
    cancel.run_until_cancelled(Box::pin(work)).await.unwrap_or_else(stopped)
}
