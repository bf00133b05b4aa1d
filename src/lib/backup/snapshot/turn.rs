//! Whose turn it is: the nodes of one schedule find out which of them makes the slot's backup.

use std::time::Duration;

use super::claim;
use super::locked::{LockSeen, Need};
use super::place::{Found, Place};
use super::plan::{self, ClaimSeen, Next, SlotSeen};
use super::{Job, pipeline};
use crate::backup::Error;
use crate::progress::Step;
use crate::snapshot::manifest::Manifest;

/// How long the leader's node lets the others go first: the same bytes come from a follower.
const AFTER_YOU: Duration = Duration::from_secs(2);

/// How long the writes of several nodes that take over at once may be apart.
const SETTLE: Duration = Duration::from_secs(1);

/// How this node's part in a slot begins.
pub enum Turn {
    /// The backup is there.
    Done(Box<Manifest>, LockSeen),
    /// We make it.
    Make {
        /// In the place of a manifest that is no good; why.
        instead: Option<String>,
    },
}

/// Waits until the slot's backup is there or this node has to make it.
pub async fn wait(job: &Job<'_>, place: &Place) -> Result<Turn, Error> {
    let mut claimed = false;
    let mut polite = job.choice.leads && job.observed.voters > 1;
    loop {
        let (slot, found) = look(job, place).await?;
        let seen = claim::look(place).await?;
        let ours = match seen.claim {
            // Ours cannot be read, or the store is not done with it: nothing speaks against us.
            ClaimSeen::Free if claimed => ClaimSeen::Ours,
            claim => claim,
        };
        match plan::next(&slot, &ours, job.request.claim_age) {
            Next::Done => {
                if let Found::Good(manifest, lock) = found {
                    return Ok(Turn::Done(manifest, lock));
                }
            }
            Next::Make => {
                let instead = match slot {
                    SlotSeen::Bad(why) => Some(why),
                    _ => None,
                };
                return Ok(Turn::Make { instead });
            }
            Next::Claim if std::mem::take(&mut polite) => job.sleep(AFTER_YOU).await?,
            Next::Claim => {
                claim::take(place, &job.observed.node, seen.there).await?;
                claimed = true;
                if seen.there {
                    // Without a condition the last one to write has it: all look after that.
                    job.sleep(SETTLE).await?;
                }
            }
            Next::Wait(time) => {
                claimed = false;
                let state = format!("waiting for {}", seen.holder);
                job.progress.update(pipeline::ITEM, Step::state(state));
                job.sleep(time).await?;
            }
        }
    }
}

/// The slot's backup, if it is there and this node would leave it at that.
pub async fn made(job: &Job<'_>, place: &Place) -> Result<Option<Manifest>, Error> {
    Ok(match look(job, place).await?.1 {
        Found::Good(manifest, _) => Some(*manifest),
        _ => None,
    })
}

async fn look(job: &Job<'_>, place: &Place) -> Result<(SlotSeen, Found), Error> {
    let need = Need { asked: None, ..job.need(place).await? };
    let found = place.look(need).await?;
    let slot = match &found {
        Found::Good(..) => SlotSeen::Good,
        Found::Bad(why) => SlotSeen::Bad(why.clone()),
        Found::Nothing | Found::Unreadable(_) => SlotSeen::Empty,
    };
    Ok((slot, found))
}

/// Keeps the claim young while the work goes on; never ends.
pub async fn keep(job: &Job<'_>, place: &Place) -> std::convert::Infallible {
    loop {
        job.clock.sleep(job.request.claim_age / 3).await;
        if let Err(error) = claim::take(place, &job.observed.node, true).await {
            // At the worst another node makes the slot's backup as well.
            tracing::debug!(error = crate::fault::chain(&error), "the claim was not renewed");
        }
    }
}

/// Gives the claim back, if the server answers soon.
pub async fn give_back(job: &Job<'_>, place: &Place) {
    let released = tokio::select! {
        released = claim::release(place, &job.observed.node) => released,
        () = job.clock.sleep(Duration::from_secs(5)) => return,
    };
    if let Err(error) = released {
        tracing::debug!(error = crate::fault::chain(&error), "the claim was not taken back");
    }
}
