//! Waits until an image is usable, or surely will not be.

use super::{Failure, Here};
use crate::fault::{Class, Fault as _};
use crate::id::ImageId;
use crate::publish::error::Problem;
use crate::publish::mark::Likeness;
use crate::publish::plan::Had;
use crate::publish::state::State;
use crate::vco;

/// How often an image may be missing before it counts as gone: one that was just made can be
/// 404 once (vco-api.md 12.7, SDK).
const MISSING: u32 = 3;

/// How often another run's image may vanish under us before we give up.
const FOLLOWED: u32 = 3;

/// How waiting ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It is CREATED.
    Usable,
    /// It is in this state and will not become usable.
    Broken(String),
    /// There is no such image any more.
    Vanished,
}

/// Why a call failed, in a few words.
fn reason(error: &vco::Error) -> String {
    if let Some(status) = error.status() {
        return format!("status {status}");
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

impl Here<'_> {
    /// Looks at the image until it is usable or never will be. A state that we do not know keeps
    /// us waiting, and so does a cloud that does not answer: the run's time is the only bound.
    pub(super) async fn wait(&self, id: ImageId) -> Result<Ended, Failure> {
        self.fly(|flight| flight.image = Some(id));
        let mut missing = 0;
        loop {
            match self.job.customer.image(self.at, id).await {
                Ok(Some(image)) => {
                    missing = 0;
                    let status = image.status.unwrap_or_else(|| "in no known state".to_owned());
                    self.show(status.clone());
                    self.fly(|flight| flight.status = Some(status.clone()));
                    match State::of(Some(&status)) {
                        State::Usable => return Ok(Ended::Usable),
                        State::Coming => {}
                        State::Broken | State::Binned | State::Gone => {
                            return Ok(Ended::Broken(status));
                        }
                    }
                }
                Ok(None) => {
                    missing += 1;
                    if missing >= MISSING && !self.listed(id).await {
                        return Ok(Ended::Vanished);
                    }
                }
                Err(error) if error.class().is_other_side() => {
                    self.show(format!("the cloud does not answer: {}", reason(&error)));
                }
                Err(error) => {
                    let hint = "the import goes on by itself; the same command joins it";
                    let problem = Problem::of(&error).hint(hint);
                    return Err(Failure::clean(problem).with_image(id).leaving(vec![id]));
                }
            }
            self.pause().await;
        }
    }

    /// Whether the image is still in the list, or the list cannot be had: a reader and a list
    /// that contradict each other prove nothing.
    async fn listed(&self, id: ImageId) -> bool {
        let living = |had: &Had| matches!(had.state, State::Usable | State::Coming);
        let had = self.had().await;
        had.map_or(true, |had| had.iter().any(|had| had.id == id && living(had)))
    }

    /// Waits for an import of this run; one that fails is cleaned up.
    pub(super) async fn import(&self, id: ImageId) -> Result<(), Failure> {
        let what = match self.wait(id).await? {
            Ended::Usable => return Ok(()),
            Ended::Broken(status) => format!("the import failed: image {id} is {status}"),
            Ended::Vanished => format!("the import failed: image {id} vanished"),
        };
        let mut problem = Problem::new(Class::Invalid, what);
        problem.hints.extend(self.redirect_hint());
        problem.hints.push(self.job.spec.md5_sum.as_ref().map_or_else(
            || "the cloud does not say why; can it reach and read the source?".to_owned(),
            |md5| format!("the cloud does not say why; it was told to expect the MD5 {md5}: does the source still have that?"),
        ));
        self.show("removing the failed import");
        match self.remove(id).await {
            Ok(()) => {
                self.fly(|flight| (flight.sent, flight.image) = (false, None));
                Err(Failure::clean(problem).touched())
            }
            Err(error) => {
                let why = Problem::of(&error).text;
                problem.text =
                    format!("{}, and its record could not be removed: {why}", problem.text);
                Err(Failure::clean(problem).with_image(id).leaving(vec![id]))
            }
        }
    }

    /// Waits for another run's image; where that one vanishes because a third run won, for that.
    pub(super) async fn follow(&self, mut id: ImageId) -> Result<ImageId, Failure> {
        for _ in 0..FOLLOWED {
            match self.wait(id).await? {
                Ended::Usable => return Ok(id),
                Ended::Broken(status) => {
                    self.fly(|flight| flight.image = None);
                    let text = format!("the import that was joined failed: image {id} is {status}");
                    let problem = Problem::new(Class::Invalid, text)
                        .hint("-replace makes a new one and removes it");
                    return Err(Failure::clean(problem).with_image(id));
                }
                Ended::Vanished => match self.heir().await? {
                    Some(heir) => id = heir,
                    None => break,
                },
            }
        }
        self.fly(|flight| flight.image = None);
        let text = format!("the import that was joined failed: image {id} vanished");
        let problem = Problem::new(Class::Invalid, text).hint("run the same command again");
        Err(Failure::clean(problem))
    }

    /// The image that took the place of the one we had joined.
    async fn heir(&self) -> Result<Option<ImageId>, Failure> {
        let content = &self.job.parcel.content;
        let had = self.had().await?;
        let live = had.iter().filter(|had| matches!(had.state, State::Usable | State::Coming));
        let same = live.filter(|had| {
            !self.step.retire.contains(&had.id)
                && had
                    .mark
                    .as_ref()
                    .is_some_and(|mark| mark.content.compare(content) != Likeness::Different)
        });
        Ok(same.map(|had| had.id).min())
    }
}
