//! The id of the cluster that this node's etcd belongs to: a restore makes a new one.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::node::Given;
use super::snapshot::observe::members;
use super::snapshot::plan::of_one_cluster;
use super::{Error, snapshot::plan::Candidate};
use crate::clock::Clock;

/// Asks the members that are given, or else this node's own.
///
/// # Errors
/// None of them answers, or they are of several clusters.
pub async fn own_cluster(
    given: &Given,
    clock: Arc<dyn Clock>,
    cancel: &CancellationToken,
) -> Result<u64, Error> {
    let access = given.access(&given.look()?);
    let stopped = || Err(Error::Interrupted("while etcd was asked for its cluster's id"));
    let asking = Box::pin(members(&access, &clock));
    let (found, _) = cancel.run_until_cancelled(asking).await.unwrap_or_else(stopped)?;
    let candidates: Vec<Candidate> = found.into_iter().map(|(member, _)| member).collect();
    of_one_cluster(&candidates)?;
    let first = candidates.first().map(|member| member.status.cluster_id);
    first.ok_or_else(|| Error::asked("no endpoint of etcd is given", "name some with --endpoints"))
}
