//! Asks the cloud: which locations there are, and which images they hold. Reads only.

use futures_util::future::join_all;

use super::Error;
use super::plan::Candidate;
use super::request::Places;
use crate::id::Location;
use crate::vco::{self, Customer, Image};

/// No bootable image is smaller. The unit of the cloud's `size` is not declared (vco-api.md
/// 3.1): a number below this one is GiB or MiB, and is not shown as bytes.
const FEWEST_BYTES: u64 = 1 << 16;

/// One location's images, or why it could not be asked.
pub(super) type Answer = Result<Vec<Candidate>, vco::Error>;

/// What the locations hold, in the order asked.
pub(super) struct Observed {
    pub answers: Vec<(Location, Answer)>,
    /// Locations of `all` that cannot host machines, and so were left out.
    pub storage_only: Vec<Location>,
}

/// Asks every place at once.
pub(super) async fn observe(customer: &Customer, places: &Places) -> Result<Observed, Error> {
    let all = match places {
        Places::All => customer.locations().await.map_err(Error::Cloud)?,
        Places::These(these) => these.clone(),
    };
    let asked = all.into_iter().map(async |at| {
        if *places == Places::All {
            let (answer, hosts) = tokio::join!(images(customer, &at), hosts(customer, &at));
            (at, answer, hosts)
        } else {
            let answer = images(customer, &at).await;
            (at, answer, true)
        }
    });
    let mut seen = Observed { answers: Vec::new(), storage_only: Vec::new() };
    for (at, answer, hosts) in join_all(asked).await {
        if hosts {
            seen.answers.push((at, answer));
        } else {
            seen.storage_only.push(at);
        }
    }
    Ok(seen)
}

/// Whether machines can run there; a location that does not say so is taken to host them.
async fn hosts(customer: &Customer, at: &Location) -> bool {
    customer.location(at).await.map_or(true, |info| info.storage_only != Some(true))
}

async fn images(customer: &Customer, at: &Location) -> Answer {
    let images = customer.images(at).await?;
    Ok(images.into_iter().map(candidate).collect())
}

pub(super) fn candidate(image: Image) -> Candidate {
    Candidate {
        id: image.id,
        name: image.name.unwrap_or_default(),
        status: image.status,
        public: image.public,
        bytes: image.size.filter(|size| *size >= FEWEST_BYTES),
    }
}
