//! The verb `snapshot`: one member's state into a bucket under lock, into a file, or both.
//!
//! Five stations: [`request`] is what was asked; [`mod@observe`] looks at members, machine and
//! bucket; [`plan`] decides, purely, which member is asked and whose turn a slot is,
//! `node_files` what of the node goes along; [`apply`] does it, with [`pipeline`] for the data itself, [`claim`] and [`turn`]
//! for nodes that share a schedule, [`locked`] and [`mod@place`] for what is read back; [`report`]
//! says how it ended.

mod apply;
mod claim;
pub(in crate::backup) mod locked;
pub(in crate::backup) mod node_files;
pub(in crate::backup) mod observe;
pub(in crate::backup) mod pipeline;
pub(in crate::backup) mod pki;
pub(in crate::backup) mod place;
pub mod plan;
pub mod report;
pub mod request;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use self::report::SnapshotReport;
pub use self::request::{Allow, Request};

use self::locked::Need;
use self::node_files::PkiPlan;
use self::observe::{Observed, observe};
use self::place::Place;
use self::plan::Choice;
use self::report::{Outcome, Row};
use super::Error;
use crate::clock::Clock;
use crate::etcd::{Client, Status};
use crate::progress::Progress;
use crate::report::Report as _;
use crate::snapshot::layout::{ClusterId, Layout, Slot, Unique};

/// A snapshot that is decided on.
struct Job<'a> {
    request: &'a Request,
    observed: &'a Observed,
    choice: Choice,
    pki: PkiPlan,
    place: Option<Place>,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &'a CancellationToken,
}

/// Takes a snapshot.
///
/// # Errors
/// There is no backup of this run, and nothing of it is left in the bucket. What goes wrong after
/// the data was stored is said by the report.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Result<SnapshotReport, Error> {
    let stopped = || Error::Interrupted("before anything was stored");
    let looked = cancel.run_until_cancelled(Box::pin(observe(request, &clock))).await;
    let observed = looked.ok_or_else(stopped)??;
    let job = decide(request, &observed, clock, progress, cancel).await?;
    job.check()?;
    let mut warnings = observed.warnings.clone();
    warnings.extend(job.choice.warnings.iter().chain(&job.pki.warnings).cloned());
    if request.layers.recipients.as_ref().is_some_and(|to| to.len() == 1) {
        warnings.push(
            "there is only one recipient: whoever loses that key loses every backup; add one that \
             is kept elsewhere"
                .to_owned(),
        );
    }
    if request.dry_run {
        return Ok(job.planned().await?.warned(warnings));
    }
    let ended = job.apply().await;
    let word = ended.as_ref().map_or(Outcome::Failed, |report| report.rows()[0].outcome).word();
    job.progress.finish(pipeline::ITEM, word);
    Ok(ended?.warned(warnings))
}

async fn decide<'a>(
    request: &'a Request,
    observed: &'a Observed,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &'a CancellationToken,
) -> Result<Job<'a>, Error> {
    let candidates: Vec<_> = observed.members.iter().map(|(member, _)| member.clone()).collect();
    // Alarms are in every member's status: asking for them would be an entry in etcd's log.
    let alarms = plan::alarms(&candidates);
    let choice = plan::choose(&candidates, &alarms, observed.log, &request.allow)?;
    let encrypted = request.layers.recipients.is_some();
    let pki = node_files::pki(request.include_pki, encrypted, &observed.files)?;
    let cluster = ClusterId(candidates[choice.index].status.cluster_id);
    let place = match &observed.store {
        None => None,
        Some(store) => Some(place(request, store, cluster).await?),
    };
    Ok(Job { request, observed, choice, pki, place, clock, progress, cancel })
}

async fn place(
    request: &Request,
    store: &observe::Store,
    cluster: ClusterId,
) -> Result<Place, Error> {
    let unique = Unique::random().map_err(|error| {
        Error::failed(format!("this machine gives no random numbers: {error}"), "")
    })?;
    let now = store.bucket.server_time().await;
    let now = time(now.map_err(Error::doing("cannot learn the server's time"))?);
    let slot = match request.slot {
        Some(length) => Slot::shared(now, u32::try_from(length.as_secs()).unwrap_or(u32::MAX)),
        None => Slot::run(now, unique),
    };
    let layout = Layout::new(&store.target.prefix);
    Ok(Place { bucket: store.bucket.clone(), layout, cluster, slot, unique })
}

impl Job<'_> {
    fn status(&self) -> &Status {
        &self.observed.members[self.choice.index].0.status
    }

    fn client(&self) -> &Client {
        &self.observed.members[self.choice.index].1
    }

    /// What is needed of a lock that is put now.
    async fn need(&self, place: &Place) -> Result<Need, Error> {
        let now = place.now().await?;
        let settled = self.observed.store.as_ref().map(|store| &store.settled);
        Ok(Need {
            asked: settled.and_then(|settled| settled.until(now)),
            locked: settled.is_some_and(|settled| settled.must_be_locked),
            now: time(now).as_second().unsigned_abs(),
        })
    }

    /// Waits, unless the user stops it.
    async fn sleep(&self, time: Duration) -> Result<(), Error> {
        let slept = self.cancel.run_until_cancelled(self.clock.sleep(time)).await;
        slept.ok_or(Error::Interrupted("while waiting for another node"))
    }

    async fn planned(&self) -> Result<SnapshotReport, Error> {
        if let (Some(_), Some(place)) = (self.request.slot, &self.place)
            && let Some(made) = turn::made(self, place).await?
        {
            return Ok(SnapshotReport::new(Row::of(Outcome::AlreadyMade, &made)));
        }
        let status = self.status();
        let to = self.request.layers.recipients.as_ref();
        Ok(SnapshotReport::new(Row {
            backup: self.place.as_ref().map(|place| place.slot.to_string()),
            member: Some(format!("{:016x}", status.member_id)),
            endpoint: Some(self.client().url().to_owned()),
            etcd_version: Some(status.version.clone()),
            storage_version: status.storage_version.clone(),
            revision: Some(status.revision),
            db_size: Some(status.db_size),
            recipients: to.map(|to| to.texts().to_vec()).unwrap_or_default(),
            out: self.request.out.clone(),
            ..Row::new(Outcome::Planned, ClusterId(status.cluster_id), &self.observed.node)
        }))
    }
}

/// A time of the server's or the machine's clock, to the second.
#[expect(clippy::cast_possible_truncation, reason = "a date")]
fn time(unix: f64) -> Timestamp {
    Timestamp::from_second(unix as i64).unwrap_or(Timestamp::UNIX_EPOCH)
}
