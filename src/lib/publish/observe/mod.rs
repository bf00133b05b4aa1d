//! Looks at everything that a run depends on, all at once, and changes nothing.
//!
//! [`source`] looks at the image, [`cloud`] at the locations. What is wrong with the inputs is
//! collected, so that it can be told in one go; what fails at one location only is that
//! location's own affair, and so is one that does not answer: see [`lanes`].

pub mod cloud;
pub mod lanes;
pub mod source;

use self::cloud::{Look, Wait};
use self::lanes::{Lane, PATIENCE};
use self::source::{Eyes, Parcel};
use super::error::Problem;
use super::plan::Seen;
use super::request::{Rejected, Request};
use crate::id::Location;
use crate::vco::Customer;

/// A URL's download that is this short is made even when the run is refused anyway, so that a
/// wrong SHA-256 is told together with everything else.
const SHORT_DOWNLOAD: u64 = 64 << 20;

/// What was seen.
#[derive(Debug)]
pub struct Observed {
    /// The image to publish.
    pub parcel: Parcel,
    /// The locations to publish to, in order, and what was seen there or why nothing was.
    pub places: Vec<(Location, Lane<Seen>)>,
    /// What holds for the whole run.
    pub warnings: Vec<String>,
}

/// Looks at the source and at every location.
///
/// # Errors
/// All inputs that are wrong.
pub async fn observe(
    request: &Request,
    customer: Result<Customer, Problem>,
    eyes: &Eyes,
) -> Result<Observed, Vec<Problem>> {
    // A dry run has nothing that it could go on with.
    let wait = Wait { clock: &*eyes.clock, patience: (!request.dry_run).then_some(PATIENCE) };
    let look = async {
        let customer = customer.map_err(|problem| vec![problem])?;
        let looked = cloud::look(&customer, &request.places, Look::of(request), wait).await;
        Ok::<_, Vec<Problem>>(looked)
    };
    let (parcel, looked) =
        tokio::join!(source::parcel(&request.source, &request.given, eyes), look);
    let mut problems = Vec::new();
    let mut parcel = keep(parcel, &mut problems);
    let looked = keep(looked, &mut problems);
    if let Some(looked) = &looked {
        problems.extend(looked.problems.iter().cloned());
    }
    if let Some(parcel) = &mut parcel {
        problems.extend(parcel.misfit(&request.settings));
        if !problems.is_empty() {
            problems.extend(reveal(parcel, request.trust_checksum, eyes).await);
        }
    }
    match (parcel, looked) {
        (Some(parcel), Some(looked)) if problems.is_empty() => {
            let mut warnings = looked.warnings;
            warnings.extend(parcel.remarks(request));
            Ok(Observed { parcel, places: looked.places, warnings })
        }
        _ => Err(problems),
    }
}

/// Looks for all that is wrong and cheap to see before a source is read that takes long to read,
/// or can be read only once; of any other source nothing, for then [`observe`] sees it all at once.
pub async fn first(
    request: &Request,
    customer: &Result<Customer, Problem>,
    eyes: &Eyes,
) -> Vec<Problem> {
    if !source::costly(&request.source) {
        return vec![];
    }
    let wait = Wait { clock: &*eyes.clock, patience: Some(PATIENCE) };
    let (asked, settings) = (&request.places, &request.settings);
    let places = async {
        match customer {
            Ok(customer) => cloud::inputs(customer, asked, settings, wait).await,
            Err(problem) => vec![problem.clone()],
        }
    };
    let glance = source::glance(&request.source, Some(settings));
    let (mut problems, more) = tokio::join!(glance, places);
    problems.extend(more);
    problems
}

/// Looks at what is left of a request that is refused anyway, to tell all that is wrong.
pub async fn rest(
    rejected: &Rejected,
    customer: Result<Customer, Problem>,
    eyes: &Eyes,
) -> Vec<Problem> {
    let parcel = async {
        let Some(source) = &rejected.source else { return vec![] };
        if source::costly(source) {
            return source::glance(source, None).await;
        }
        match source::parcel(source, &rejected.given, eyes).await {
            Ok(mut parcel) => reveal(&mut parcel, rejected.trust_checksum, eyes).await,
            Err(problems) => problems,
        }
    };
    let wait = Wait { clock: &*eyes.clock, patience: Some(PATIENCE) };
    let places = async {
        match (customer, &rejected.places) {
            (Ok(customer), Some(places)) => cloud::wrong_places(&customer, places, wait).await,
            (Err(problem), _) => vec![problem],
            (Ok(_), None) => vec![],
        }
    };
    let (mut problems, more) = tokio::join!(parcel, places);
    problems.extend(more);
    problems
}

/// What a short download says against a checksum, in a run that is refused anyway.
async fn reveal(parcel: &mut Parcel, trust: bool, eyes: &Eyes) -> Vec<Problem> {
    let short = parcel.content.bytes.is_some_and(|bytes| bytes <= SHORT_DOWNLOAD);
    if short && !trust { parcel.confirm(eyes).await } else { vec![] }
}

fn keep<T>(result: Result<T, Vec<Problem>>, problems: &mut Vec<Problem>) -> Option<T> {
    result.map_err(|more| problems.extend(more)).ok()
}
