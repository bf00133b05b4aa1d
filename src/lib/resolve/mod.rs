//! Finds images by name: one id a location, or a reason why not.
//!
//! Purpose: `capvco-imageresolve`, and later whoever needs an image's id. The stations are
//! [`Request`] (validated, no flags), `observe` (all locations at once), `plan` (pure: which of
//! the images is meant), [`Resolved`] (rows, and forms for scripts).
//!
//! What may enter: the ground floor and `vco`. Nothing here changes anything in the cloud.
//!
//! Invariants: nothing is ever picked silently: none or several matches are a failure of that
//! location, with what was meant perhaps; only CREATED images count; a script gets all ids or
//! none. To add a way of naming an image: a variant of [`Wanted`]. To add a rule of preference:
//! a line in `plan::choose` and rows in its table.

mod error;
mod observe;
mod plan;
mod report;
mod request;
mod version;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::observe::Observed;
use self::plan::Candidate;
use crate::clock::Clock;
use crate::fault::{Class, Fault as _};
use crate::id::{ImageId, Location};
use crate::near::near;
use crate::vco::{self, Client, Customer};

pub use crate::vco::{Config as CloudConfig, RateLimit, TokenSource};
pub use error::Error;
pub use report::{Form, Resolved, Row};
pub use request::{Pattern, Places, Request, Wanted};

/// Asks the cloud that `config` describes.
///
/// # Errors
/// Nothing could be asked at all; a location that fails is a row of the result.
pub async fn run(
    config: CloudConfig,
    request: &Request,
    clock: Arc<dyn Clock>,
    cancel: &CancellationToken,
) -> Result<Resolved, Error> {
    let client = Client::new(config, clock).map_err(Error::Cloud)?;
    let work = async {
        let customer = client.customer().await.map_err(Error::Cloud)?;
        resolve(&customer, request).await
    };
    cancel.run_until_cancelled(work).await.unwrap_or(Err(Error::Interrupted))
}

/// The same for a customer that is known already.
///
/// # Errors
/// As [`run`].
pub async fn resolve(customer: &Customer, request: &Request) -> Result<Resolved, Error> {
    let Observed { answers, storage_only } = observe::observe(customer, &request.places).await?;
    if answers.is_empty() {
        return Err(Error::NoLocations(customer.id().to_string()));
    }
    let known = known_if_needed(customer, &answers).await;
    let mut found = Resolved::default();
    for at in storage_only {
        found.warn(format!("{at} cannot host machines: it was left out"));
    }
    for (at, answer) in answers {
        match answer {
            Ok(images) => choose(&mut found, request, &at, &images),
            Err(error) => match known.as_deref() {
                Some(known) if !known.contains(&at) => found.unknown(&at, meant(&at, known)),
                _ => found.unasked(&at, &error),
            },
        }
    }
    found.note_if_bare(request);
    Ok(found)
}

/// Which of a location's images has this name, by the same rules: it is usable, and it is the only
/// one, the customer's own standing above public ones. The inner error says why there is none.
pub fn named(name: &str, images: &[vco::Image]) -> Result<ImageId, NotOne> {
    let wanted = Wanted::Name(name.to_owned());
    let (places, newest, public, list) = (Places::All, false, false, false);
    let request = Request { wanted, places, newest, public, list };
    let candidates: Vec<_> = images.iter().cloned().map(observe::candidate).collect();
    let usable = candidates.iter().filter(|image| image.name == name && image.id.is_some()).count();
    match plan::choose(&request, &candidates) {
        Ok(choice) => choice.image.id.ok_or(NotOne { several: false, why: String::new() }),
        Err(plan::Miss { why, .. }) => Err(NotOne { several: usable > 1, why }),
    }
}

/// Why a name leads to no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOne {
    /// Whether images have the name, and more than one.
    pub several: bool,
    /// One sentence.
    pub why: String,
}

fn choose(found: &mut Resolved, request: &Request, at: &Location, images: &[Candidate]) {
    if request.list {
        found.list(at, &plan::listed(request, images));
        return;
    }
    match plan::choose(request, images) {
        Ok(choice) => found.found(at, &choice),
        Err(miss) => found.missed(at, miss),
    }
}

/// The customer's locations, where an answer makes one doubt that they exist.
async fn known_if_needed(
    customer: &Customer,
    answers: &[(Location, observe::Answer)],
) -> Option<Vec<Location>> {
    let doubtful = |error: &vco::Error| {
        matches!(error.class(), Class::NotFound | Class::Invalid | Class::Auth | Class::Refused)
    };
    if !answers.iter().any(|(_, answer)| answer.as_ref().is_err_and(doubtful)) {
        return None;
    }
    customer.locations().await.ok()
}

/// Which location may have been meant.
fn meant(at: &Location, known: &[Location]) -> String {
    let close = near(at.as_str(), known.iter().map(Location::as_str));
    if !close.is_empty() {
        return format!("near misses: {}", close.join(", "));
    }
    let all: Vec<&str> = known.iter().map(Location::as_str).take(20).collect();
    format!("its locations are {}", all.join(", "))
}
