//! Publishing: one image, from a URL or a file, usable under one name in many locations.
//!
//! **Purpose.** The whole job of `capvco-imagepublish`, in five stations: [`request`] is what was
//! asked; [`observe`] looks at the source and at every location, all at once, and finds everything
//! that is wrong before anything is sent; [`mod@plan`] decides, purely, what each location needs;
//! [`apply`] does it side by side; [`report`] says how it ended.
//!
//! **What may enter.** The ground rooms and `vco`. [`source`] and [`image`] know URLs, files and
//! image formats and nothing of the cloud; [`apply`] is the only part that changes anything.
//!
//! **Invariants.** An image is known by its content: [`mark`] writes digest and run into `tags`,
//! and an image without that mark is never removed. A new image is found again by its run, never
//! by its place in a list. After a create whose outcome is unknown we look before we decide. The
//! old image of a replacement goes last. Nothing that was left behind goes unsaid.
//!
//! **How to add one more.** A check of the inputs by themselves: a line in [`request`]; a check
//! against the world: one in [`observe`]. Something to decide: a case in [`mod@plan`] and a row in
//! its table. A result word: a variant of [`report::Outcome`], which is a published interface.

pub mod apply;
pub mod content;
pub mod error;
pub mod image;
pub mod mark;
pub mod observe;
pub mod plan;
pub mod report;
pub mod request;
pub mod source;
pub mod state;

pub use apply::Context;
pub use error::{Error, Problem};
pub use report::PublishReport;
pub use request::{Inputs, Request};

pub use crate::vco::{Config as CloudConfig, RateLimit, TokenSource};

use self::apply::Job;
use self::mark::RunId;
use self::observe::Observed;
use self::observe::lanes::{Lane, Late};
use self::observe::source::{Eyes, Parcel};
use self::plan::{Action, Goal, Seen, Step, plan};
use self::report::{Outcome, Row};
use self::request::Rejected;
use self::source::Probe;
use crate::fault::Class;
use crate::id::Location;
use crate::vco::{Client, Customer};

/// What shall be done at a location.
#[derive(Clone)]
pub enum Next {
    /// This, because of what was seen.
    Take(Seen, Step),
    /// Nothing: it could not be looked at.
    Fail(Problem),
    /// What is decided once it answers.
    Await(Late<Seen>),
}

/// One location and what shall be done there.
pub type Planned = (Location, Next);

/// Publishes.
///
/// # Errors
/// Nothing was sent: inputs are wrong or could not be checked, or the run was stopped before. What
/// goes wrong later, at one location, is a row of the report.
pub async fn run(
    inputs: &Inputs,
    cloud: CloudConfig,
    context: Context,
) -> Result<PublishReport, Error> {
    let deadline = context.clock.elapsed().saturating_add(inputs.timeout);
    let before = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(Error::Interrupted),
        () = context.clock.sleep(inputs.timeout) => return Err(Error::TimedOut(inputs.timeout)),
        before = prepare(inputs, cloud, &context) => before.map_err(Error::Refused)?,
    };
    let Ready { request, customer, observed, run, steps } = before;
    let Observed { parcel, warnings, .. } = observed;
    let rows = if request.dry_run {
        steps.into_iter().map(|planned| preview(planned, parcel.content.bytes)).collect()
    } else {
        Job::new(customer, request, parcel, run, context, deadline).apply(&steps).await
    };
    Ok(PublishReport::new(rows, warnings))
}

/// Everything that is known before the first write.
struct Ready {
    request: Request,
    customer: Customer,
    observed: Observed,
    run: RunId,
    steps: Vec<Planned>,
}

/// Reads, looks, and decides; nothing is changed.
async fn prepare(
    inputs: &Inputs,
    cloud: CloudConfig,
    context: &Context,
) -> Result<Ready, Vec<Problem>> {
    let probe = Probe::new(&cloud.user_agent, cloud.ca_file.as_deref(), context.clock.clone());
    let customer = customer(cloud, context).await;
    let probe = probe.map_err(|error| vec![Problem::of(&error)])?;
    let clock = context.clock.clone();
    let eyes = Eyes { probe, progress: context.progress.clone(), clock };
    let request = match Request::new(inputs) {
        Ok(request) => request,
        Err(rejected) => {
            let more = observe::rest(&rejected, customer, &eyes).await;
            let Rejected { mut problems, .. } = *rejected;
            problems.extend(more);
            return Err(problems);
        }
    };
    let wrong = observe::first(&request, &customer, &eyes).await;
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut observed = observe::observe(&request, customer.clone(), &eyes).await?;
    let customer = customer.map_err(|problem| vec![problem])?;
    let run = RunId::random().map_err(|error| {
        vec![Problem::new(Class::Bug, format!("this machine gives no random numbers: {error}"))]
    })?;
    if let Some(text) = observed.parcel.summary() {
        context.progress.say(&format!("{}: {text}", request.name));
    }
    let mut steps = decide(&request, &observed);
    if confirm(&request, &mut observed, &steps, &eyes).await? {
        steps = decide(&request, &observed);
    }
    Ok(Ready { request, customer, observed, run, steps })
}

async fn customer(cloud: CloudConfig, context: &Context) -> Result<Customer, Problem> {
    let client = Client::new(cloud, context.clock.clone()).map_err(|error| Problem::of(&error))?;
    client.customer().await.map_err(|error| Problem::of(&error))
}

fn goal<'a>(request: &'a Request, parcel: &'a Parcel) -> Goal<'a> {
    Goal {
        name: &request.name,
        content: &parcel.content,
        given: parcel.claims.given(),
        settings: &request.settings,
        replace: request.replace,
    }
}

fn decide(request: &Request, observed: &Observed) -> Vec<Planned> {
    let goal = goal(request, &observed.parcel);
    let next = |lane: &Lane<Seen>| match lane {
        Lane::Seen(seen) => Next::Take(seen.clone(), plan(&goal, seen)),
        Lane::Failed(problem) => Next::Fail(problem.clone()),
        Lane::Late(look) => Next::Await(look.clone()),
    };
    observed.places.iter().map(|(at, lane)| (at.clone(), next(lane))).collect()
}

/// Enforces a SHA-256 by a download, if anything is going to be made at all, or if only that can
/// tell what an image there holds. Says whether more is known of the content than before.
async fn confirm(
    request: &Request,
    observed: &mut Observed,
    steps: &[Planned],
    eyes: &Eyes,
) -> Result<bool, Vec<Problem>> {
    let needs = |(_, next): &Planned| match next {
        Next::Take(_, step) => step.action == Action::Create || step.undecided,
        Next::Fail(_) => false,
        Next::Await(_) => true,
    };
    if request.trust_checksum || !observed.parcel.unconfirmed() || !steps.iter().any(needs) {
        return Ok(false);
    }
    if request.dry_run {
        let text = "the SHA-256 was not checked: only the real run downloads the URL";
        observed.warnings.push(text.to_owned());
        return Ok(false);
    }
    let problems = observed.parcel.confirm(eyes).await;
    if problems.is_empty() { Ok(true) } else { Err(problems) }
}

/// A dry run's row.
fn preview((at, planned): Planned, bytes: Option<u64>) -> Row {
    let mut row = match planned {
        Next::Fail(problem) => Row::failed(at, Outcome::Failed, problem),
        // A dry run waits for every location.
        Next::Await(_) => Row::failed(at, Outcome::Failed, Problem::refused("no answer yet")),
        Next::Take(_, step) => {
            let text = step.describe();
            let mut row = match step.action {
                Action::Refuse(problem) => Row::failed(at, Outcome::Failed, problem),
                Action::Keep(id) | Action::Join(id) => Row::new(at, Outcome::Planned, Some(id)),
                Action::Create => Row::new(at, Outcome::Planned, None),
            };
            row.plan = row.error.is_none().then_some(text);
            row.warnings = step.warnings;
            row
        }
    };
    row.bytes = bytes;
    row
}
