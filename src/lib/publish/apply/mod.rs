//! Does what was planned, at all locations side by side: the only part that changes anything.
//!
//! Each location goes its own way through `create` (which may `upload` first), `wait`, `settle`
//! and `remove`, and keeps a `Flight` of what it has set going, so that a run that ends early
//! can say what is in flight.

mod create;
mod remove;
mod settle;
mod stop;
mod upload;
mod wait;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::create::Made;
use super::error::Problem;
use super::mark::{Mark, RunId};
use super::observe::lanes::Late;
use super::observe::source::Parcel;
use super::plan::{Action, Had, Seen, Step, ids, plan};
use super::report::{Outcome, Row};
use super::request::{MEMORY_MIB, Request};
use super::{Next, Planned, goal};
use crate::clock::Clock;
use crate::fault::Class;
use crate::id::{ImageId, Location};
use crate::progress::{self, Progress};
use crate::vco::{self, Customer, NewImage};

/// Parts of uploads that are under way at once, over all locations: memory stays small however
/// many locations there are.
const PARTS_AT_ONCE: usize = 32;

/// What all locations share.
pub struct Job {
    customer: Customer,
    request: Request,
    parcel: Parcel,
    spec: NewImage,
    run: RunId,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
    deadline: Duration,
    places: Semaphore,
    parts: Semaphore,
}

/// What a run has besides its request.
#[derive(Clone)]
pub struct Context {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where progress is told.
    pub progress: Arc<dyn Progress>,
    /// Cancelled by Ctrl-C.
    pub cancel: CancellationToken,
}

/// What one location has set going.
#[derive(Debug, Clone, Default)]
struct Flight {
    /// Parts of a file were sent; by themselves they are no image.
    uploading: bool,
    /// A create was sent, and nothing proves that it did not happen.
    sent: bool,
    /// The image that is waited for, made by this run or not.
    image: Option<ImageId>,
    /// That image's last known state.
    status: Option<String>,
}

/// Why a location failed, and what that leaves.
#[derive(Debug)]
struct Failure {
    problem: Problem,
    image: Option<ImageId>,
    touched: bool,
    left: Vec<ImageId>,
    left_behind: bool,
}

impl Failure {
    fn clean(problem: Problem) -> Self {
        Self { problem, image: None, touched: false, left: vec![], left_behind: false }
    }

    fn touched(mut self) -> Self {
        self.touched = true;
        self
    }

    fn with_image(mut self, id: ImageId) -> Self {
        self.image = Some(id);
        self
    }

    /// Something stays that should not; its ids, as far as they are known.
    fn leaving(mut self, left: Vec<ImageId>) -> Self {
        self.left = left;
        self.left_behind = true;
        self.touched()
    }

    fn row(self, at: &Location) -> Row {
        let mut row = Row::failed(at.clone(), Outcome::Failed, self.problem);
        row.image_id = self.image;
        row.fate.touched = self.touched;
        row.fate.left = self.left;
        row.fate.left_behind = self.left_behind;
        row
    }
}

impl From<vco::Error> for Failure {
    fn from(error: vco::Error) -> Self {
        Self::clean(Problem::of(&error))
    }
}

/// One location on its way.
struct Here<'a> {
    job: &'a Job,
    at: &'a Location,
    seen: &'a Seen,
    step: &'a Step,
    flight: &'a Mutex<Flight>,
}

impl Job {
    /// Gets everything ready; `deadline` is on the clock's own time.
    #[must_use]
    pub fn new(
        customer: Customer,
        request: Request,
        parcel: Parcel,
        run: RunId,
        context: Context,
        deadline: Duration,
    ) -> Self {
        let spec = spec(&request, &parcel, run);
        let places = Semaphore::new(request.parallel.min(Semaphore::MAX_PERMITS));
        let Context { clock, progress, cancel } = context;
        let parts = Semaphore::new(PARTS_AT_ONCE);
        Self {
            customer,
            request,
            parcel,
            spec,
            run,
            clock,
            progress,
            cancel,
            deadline,
            places,
            parts,
        }
    }

    /// Takes every location's step; one that fails does not stop the others.
    pub async fn apply(&self, steps: &[Planned]) -> Vec<Row> {
        join_all(steps.iter().map(|(at, planned)| self.place(at, planned))).await
    }

    async fn place(&self, at: &Location, next: &Next) -> Row {
        let begun = self.clock.elapsed();
        let mut row = match next {
            Next::Fail(problem) => Row::failed(at.clone(), Outcome::Failed, problem.clone()),
            Next::Take(seen, step) => self.guarded(at, seen, step).await,
            Next::Await(look) => self.late(at, look.clone()).await,
        };
        row.bytes = self.parcel.content.bytes;
        row.took(self.clock.elapsed().saturating_sub(begun));
        self.progress.finish(at.as_str(), row.result.word());
        row
    }

    /// Waits for a location that did not answer when the others did, and decides then.
    async fn late(&self, at: &Location, look: Late<Seen>) -> Row {
        self.progress.update(at.as_str(), progress::Step::state("no answer yet"));
        let (nothing, undecided) = (Seen::default(), Step::undecided());
        let flight = Mutex::default();
        let here = Here { job: self, at, seen: &nothing, step: &undecided, flight: &flight };
        let left = self.deadline.saturating_sub(self.clock.elapsed());
        let seen = tokio::select! {
            biased;
            seen = look => seen,
            () = self.cancel.cancelled() => return here.stopped(stop::Why::Interrupted).await,
            () = self.clock.sleep(left) => return here.stopped(stop::Why::OutOfTime).await,
        };
        match seen {
            Ok(seen) => {
                let step = plan(&goal(&self.request, &self.parcel), &seen);
                self.guarded(at, &seen, &step).await
            }
            Err(problem) => Row::failed(at.clone(), Outcome::Failed, problem),
        }
    }

    /// Goes on until done, out of time or interrupted.
    async fn guarded(&self, at: &Location, seen: &Seen, step: &Step) -> Row {
        let flight = Mutex::default();
        let here = Here { job: self, at, seen, step, flight: &flight };
        let left = self.deadline.saturating_sub(self.clock.elapsed());
        let mut row = tokio::select! {
            biased;
            done = here.go() => done.unwrap_or_else(|failure| failure.row(at)),
            () = self.cancel.cancelled() => here.stopped(stop::Why::Interrupted).await,
            () = self.clock.sleep(left) => here.stopped(stop::Why::OutOfTime).await,
        };
        row.warnings.extend(step.warnings.iter().cloned());
        row
    }
}

/// What the cloud is told about the image; hot-plug abilities stay at the cloud's defaults.
fn spec(request: &Request, parcel: &Parcel, run: RunId) -> NewImage {
    let set = &request.settings;
    let mark = Mark { run, content: parcel.content.clone() };
    NewImage {
        name: request.name.clone(),
        memory_mib: set.memory_mib.unwrap_or(MEMORY_MIB),
        boot_disk_gib: parcel.boot_disk_gib(set),
        os_type: set.os_type().to_owned(),
        os_name: set.os_name().to_owned(),
        boot_type: set.boot_type().to_owned(),
        tags: Some(mark.write(set.tags.as_deref())),
        md5_sum: parcel.content.md5.clone(),
    }
}

impl Here<'_> {
    fn fly<T>(&self, change: impl FnOnce(&mut Flight) -> T) -> T {
        change(&mut self.flight.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn show(&self, state: impl Into<String>) {
        self.job.progress.update(self.at.as_str(), progress::Step::state(state));
    }

    async fn pause(&self) {
        self.job.clock.sleep(self.job.request.poll_interval).await;
    }

    /// The customer's own images of the name that are there now.
    async fn had(&self) -> Result<Vec<Had>, vco::Error> {
        let images = self.job.customer.images(self.at).await?;
        Ok(super::observe::cloud::own(&images, &self.job.request.name, None))
    }

    async fn go(&self) -> Result<Row, Failure> {
        let waits = self.job.request.wait;
        match &self.step.action {
            Action::Refuse(problem) => Err(Failure::clean(problem.clone())),
            Action::Keep(id) => self.finish(*id, Outcome::Unchanged).await,
            Action::Join(id) if !waits => Ok(self.row(Outcome::Joined, *id)),
            Action::Join(id) => {
                let _turn = self.turn().await;
                let id = self.follow(*id).await?;
                self.finish(id, Outcome::Joined).await
            }
            Action::Create => {
                let _turn = self.turn().await;
                if waits {
                    let (id, outcome) = self.one().await?;
                    return self.finish(id, outcome).await;
                }
                Ok(match self.create().await? {
                    Made::Ours(id) => self.row(Outcome::Submitted, id),
                    Made::Theirs(id) => self.row(Outcome::Joined, id),
                })
            }
        }
    }

    /// Waits for one of `-parallel` turns; it lasts as long as what is returned.
    async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.job.places.acquire().await.ok()
    }

    /// The image is usable: what it replaces may go now.
    async fn finish(&self, id: ImageId, outcome: Outcome) -> Result<Row, Failure> {
        self.fly(|flight| (flight.image, flight.status) = (Some(id), Some("CREATED".to_owned())));
        let old: Vec<ImageId> = self.step.retire.iter().copied().filter(|old| *old != id).collect();
        let others = matches!(outcome, Outcome::Unchanged | Outcome::Joined);
        if others && !old.is_empty() && !self.stands(id).await? {
            let text = format!("image {id} went away, so {} stays", ids(&old));
            let hint = "another run is at work: run the same command again";
            return Err(Failure::clean(Problem::new(Class::Conflict, text).hint(hint)));
        }
        let mut stuck = Vec::new();
        for old in old {
            self.show(format!("removing image {old}"));
            if let Err(error) = self.remove(old).await {
                stuck.push((old, error));
            }
        }
        if let Some((_, error)) = stuck.first() {
            let left: Vec<ImageId> = stuck.iter().map(|(id, _)| *id).collect();
            let problem = Problem::of(error);
            let text = format!(
                "image {id} is usable, but the old image {} could not be removed: {}",
                ids(&left),
                problem.text
            );
            let problem = Problem { text, ..problem }
                .hint("the same command with -replace tries again; VMs that use the old image must go first");
            return Err(Failure::clean(problem).with_image(id).leaving(left));
        }
        let replaced = self.step.replaces;
        Ok(self.row(if replaced { Outcome::Replaced } else { outcome }, id))
    }

    fn row(&self, outcome: Outcome, id: ImageId) -> Row {
        let mut row = Row::new(self.at.clone(), outcome, Some(id));
        let ours = !matches!(outcome, Outcome::Unchanged | Outcome::Joined);
        row.fate.touched = ours || !self.step.retire.is_empty();
        row
    }
}
