//! Makes the image, and finds out which one it became.
//!
//! The reply of a create may hold an id, nothing, or something else (vco-api.md 3.1, P4), and may
//! be lost. Then we look: an image is ours if it was not there before and carries our run.

use super::upload::Uploaded;
use super::{Failure, Here};
use crate::fault::Class;
use crate::id::ImageId;
use crate::publish::error::Problem;
use crate::publish::mark::Likeness;
use crate::publish::observe::cloud::own;
use crate::publish::observe::source::Origin;
use crate::publish::plan::{Had, ids};
use crate::publish::source;
use crate::publish::state::State;
use crate::vco;

/// How often a create is sent again after it had no known outcome and no trace was found.
const AGAIN: u32 = 2;

/// How often we look for an image that should be there; lists may lag behind.
const LOOKS: u32 = 5;

/// The image that will be the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// This run made it.
    Ours(ImageId),
    /// Another run made it at the same time, and the cloud refused a second one.
    Theirs(ImageId),
}

impl Here<'_> {
    /// Makes the image.
    pub(super) async fn create(&self) -> Result<Made, Failure> {
        let uploaded = match &self.job.parcel.origin {
            Origin::Url(..) => None,
            Origin::File(facts, _) => Some(self.upload(facts).await?),
        };
        let mut attempt = 0;
        loop {
            self.show("creating");
            self.fly(|flight| flight.sent = true);
            let error = match self.send(uploaded.as_ref()).await {
                Ok(reply) => return self.locate(reply).await.map(Made::Ours),
                Err(error) => error,
            };
            if !error.outcome_unknown() {
                return self.declined(&error).await;
            }
            self.show("looking whether the image was made");
            if let Some(id) = self.search(None).await? {
                return Ok(Made::Ours(id));
            }
            attempt += 1;
            if attempt > AGAIN {
                self.fly(|flight| flight.sent = false);
                return Err(Failure::from(error).touched());
            }
        }
    }

    /// The one call that makes an image.
    async fn send(&self, uploaded: Option<&Uploaded>) -> Result<Option<ImageId>, vco::Error> {
        let job = self.job;
        match (&job.parcel.origin, uploaded) {
            (Origin::Url(url, _), _) => {
                job.customer.create_image(self.at, &job.spec, url.as_str()).await
            }
            (Origin::File(..), Some(Uploaded { upload, parts })) => {
                job.customer.finish_upload(self.at, upload, &job.spec, parts).await
            }
            (Origin::File(..), None) => Ok(None),
        }
    }

    /// Finds the image that a create made, with the id of its reply as no more than a hint.
    async fn locate(&self, reply: Option<ImageId>) -> Result<ImageId, Failure> {
        if let Some(id) = self.search(reply).await? {
            return Ok(id);
        }
        if let Some(id) = self.unlisted(reply).await? {
            return Ok(id);
        }
        self.fly(|flight| flight.sent = false);
        let text = "the cloud took the import, but no image appeared; it is gone or was never made";
        Err(Failure::clean(Problem::new(Class::Invalid, text)).touched())
    }

    /// Looks until an image of ours appears.
    async fn search(&self, reply: Option<ImageId>) -> Result<Option<ImageId>, Failure> {
        for look in 0..LOOKS {
            if look > 0 {
                self.pause().await;
            }
            let had = self.had().await.map_err(|error| unseen(&error))?;
            if let Some(id) = recognise(&had, self, reply) {
                self.fly(|flight| flight.image = Some(id));
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Asks for the image that the reply named where lists lag behind for longer than we look.
    async fn unlisted(&self, reply: Option<ImageId>) -> Result<Option<ImageId>, Failure> {
        let Some(id) = reply else { return Ok(None) };
        let image = self.job.customer.image(self.at, id).await.map_err(|error| unseen(&error))?;
        let had = own(image.as_slice(), &self.job.request.name, None);
        let found = recognise(&had, self, reply);
        self.fly(|flight| flight.image = found.or(flight.image));
        Ok(found)
    }

    /// The cloud said no. Another run may have been faster; else it is explained.
    async fn declined(&self, error: &vco::Error) -> Result<Made, Failure> {
        let now = self.had().await.unwrap_or_default();
        // A retry of ours may have been refused because an earlier try did work.
        if let Some(id) = recognise(&now, self, None) {
            self.fly(|flight| flight.image = Some(id));
            return Ok(Made::Ours(id));
        }
        self.fly(|flight| flight.sent = false);
        let content = &self.job.parcel.content;
        let theirs = now.iter().find(|had| {
            let alike = had.mark.as_ref().map(|mark| mark.content.compare(content));
            let new = !self.seen.ids.contains(&had.id);
            new && matches!(had.state, State::Usable | State::Coming)
                && alike.is_some_and(|likeness| likeness != Likeness::Different)
        });
        if let Some(had) = theirs {
            return Ok(Made::Theirs(had.id));
        }
        Err(Failure::clean(self.explain(error)))
    }

    /// Why the cloud may have said no, as far as we can tell.
    fn explain(&self, error: &vco::Error) -> Problem {
        let mut problem = Problem::of(error);
        let job = self.job;
        if matches!(error.status(), Some(400 | 409)) && !self.step.retire.is_empty() {
            problem.text = format!(
                "the cloud refuses a second image named {}; image {} was left untouched: {}",
                job.request.name,
                ids(&self.step.retire),
                problem.text
            );
            problem.class = Class::Conflict;
            return problem.hint("publish under another name, or remove the old image first");
        }
        if error.status() == Some(400) {
            problem.hints.extend(self.redirect_hint());
        }
        problem
    }

    /// Where the URL leads, for a cloud that does not follow redirects as we do.
    pub(super) fn redirect_hint(&self) -> Option<String> {
        let Origin::Url(_, Some(facts)) = &self.job.parcel.origin else { return None };
        (facts.redirects > 0).then(|| {
            let shown = source::shown(&facts.final_url);
            if facts.final_url.query().is_some() {
                format!("-url redirects, which the cloud may not follow, to {shown}; that address is signed and short-lived: publish from one that does not redirect")
            } else {
                format!("-url redirects, which the cloud may not follow; try -url {shown}")
            }
        })
    }
}

/// An import was sent, and the cloud does not let us see what it became.
fn unseen(error: &vco::Error) -> Failure {
    let problem = Problem::of(error);
    let text = format!(
        "an import was sent, and whether it became an image could not be seen: {}",
        problem.text
    );
    let hint = "the same command finds the image and joins it";
    Failure::clean(Problem { text, ..problem }.hint(hint)).leaving(vec![])
}

/// The image of this run among those of the name. Where the cloud dropped `tags`, the id of the
/// reply decides, if it is new and nobody's mark contradicts it.
fn recognise(had: &[Had], here: &Here<'_>, reply: Option<ImageId>) -> Option<ImageId> {
    let lives = |had: &&Had| !matches!(had.state, State::Gone | State::Binned);
    let new = had.iter().filter(lives).filter(|had| !here.seen.ids.contains(&had.id));
    let (marked, unmarked): (Vec<_>, Vec<_>) = new.partition(|had| had.mark.is_some());
    let run = |had: &&&Had| had.mark.as_ref().is_some_and(|mark| mark.run == here.job.run);
    let ours = marked.iter().filter(run).map(|had| had.id).min();
    ours.or_else(|| reply.filter(|id| unmarked.iter().any(|had| had.id == *id)))
}
