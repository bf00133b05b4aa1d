//! Two runs at once end with one image: the lowest id wins, the others remove their own.
//!
//! Each run settles when its own image is usable. All see the same ids, so all see the same
//! winner, and nobody removes an image of another run.

use super::create::Made;
use super::{Failure, Here};
use crate::fault::Class;
use crate::id::ImageId;
use crate::publish::error::Problem;
use crate::publish::mark::{Content, Likeness, RunId};
use crate::publish::plan::Had;
use crate::publish::report::Outcome;
use crate::publish::state::State;

/// How often the image that we yielded to may go away.
const YIELDED: u32 = 3;

/// What a run does about the others.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Ours is the one.
    Stands,
    /// That one is usable and was first: ours goes.
    YieldTo(ImageId),
    /// That one was first and may yet fail.
    Await(ImageId),
    /// That one was first and holds something else: ours goes, and the run failed.
    Clash(ImageId),
}

/// Judges between our usable image and the others of its name.
fn judge(mine: ImageId, run: RunId, content: &Content, others: &[Had]) -> Verdict {
    let rivals = others
        .iter()
        .filter(|had| had.id < mine && matches!(had.state, State::Usable | State::Coming));
    // Only the first of them counts: the others will yield to it as we do.
    let first = rivals
        .filter_map(|had| Some((had, had.mark.as_ref().filter(|mark| mark.run != run)?)))
        .min_by_key(|(had, _)| had.id);
    let Some((had, mark)) = first else { return Verdict::Stands };
    let alike = match content.compare(&mark.content) {
        Likeness::Same => true,
        Likeness::Different => false,
        // Nothing proves theirs: it may take the place of ours only if ours is no better.
        Likeness::Unknown => !content.has_digest(),
    };
    match (alike, had.state) {
        (false, _) => Verdict::Clash(had.id),
        (true, State::Usable) => Verdict::YieldTo(had.id),
        (true, _) => Verdict::Await(had.id),
    }
}

impl Here<'_> {
    /// Makes sure that one image remains; ours is `mine`, and usable.
    pub(super) async fn settle(&self, mine: ImageId) -> Result<(ImageId, Outcome), Failure> {
        loop {
            let others = self.others(mine).await?;
            self.fold_own(mine, &others).await?;
            match judge(mine, self.job.run, &self.job.parcel.content, &others) {
                Verdict::Stands => {
                    self.mention_strangers(&others);
                    return Ok((mine, Outcome::Created));
                }
                Verdict::Await(first) => {
                    self.show(format!("waiting for image {first} of another run"));
                    self.pause().await;
                }
                Verdict::YieldTo(first) => {
                    self.yield_to(mine, first).await?;
                    return Ok((first, Outcome::Joined));
                }
                Verdict::Clash(first) => {
                    self.yield_to(mine, first).await?;
                    let text = format!(
                        "another run published other content as image {first} at the same time; ours was removed"
                    );
                    let problem = Problem::new(Class::Conflict, text)
                        .hint("choose another name, or -replace to put this image in its place");
                    return Err(Failure::clean(problem).with_image(first).touched());
                }
            }
        }
    }

    /// Makes the one image, or finds that another run's is the one. That run may yet yield to
    /// somebody else, of whom we know nothing, and take its image away: then we make ours anew.
    pub(super) async fn one(&self) -> Result<(ImageId, Outcome), Failure> {
        for _ in 0..YIELDED {
            let (id, outcome) = match self.create().await? {
                Made::Ours(id) => {
                    self.import(id).await?;
                    self.settle(id).await?
                }
                Made::Theirs(id) => (self.follow(id).await?, Outcome::Joined),
            };
            if outcome == Outcome::Created {
                return Ok((id, outcome));
            }
            self.pause().await;
            if self.stands(id).await? {
                return Ok((id, outcome));
            }
        }
        let text = format!("{YIELDED} images of other runs, which came before ours, went away");
        let hint = "let one run end before the next one starts";
        Err(Failure::clean(Problem::new(Class::Conflict, text).hint(hint)).touched())
    }

    /// Whether the image is there and usable.
    pub(super) async fn stands(&self, id: ImageId) -> Result<bool, Failure> {
        let image = self.job.customer.image(self.at, id).await?;
        Ok(image.is_some_and(|image| State::of(image.status.as_deref()) == State::Usable))
    }

    /// The other images of the name that are not about to be replaced.
    async fn others(&self, mine: ImageId) -> Result<Vec<Had>, Failure> {
        let had = self.had().await.map_err(|error| {
            let problem = Problem::of(&error);
            let text = format!(
                "image {mine} is usable, but whether it is the only one could not be seen: {}",
                problem.text
            );
            let hint = "the same command looks again";
            Failure::clean(Problem { text, ..problem }.hint(hint)).with_image(mine).touched()
        })?;
        let other = |had: &Had| had.id != mine && !self.step.retire.contains(&had.id);
        Ok(had.into_iter().filter(other).collect())
    }

    /// Somebody may have made an image of the name by other means meanwhile.
    fn mention_strangers(&self, others: &[Had]) {
        let living = |had: &&Had| matches!(had.state, State::Usable | State::Coming);
        for had in others.iter().filter(living).filter(|had| had.mark.is_none()) {
            let (at, id) = (self.at, had.id);
            self.job.progress.warn(&format!(
                "{at}: image {id}, which this program did not make, has the same name now: by name nobody can tell them apart"
            ));
        }
    }

    /// A create that was sent twice may have worked twice.
    async fn fold_own(&self, mine: ImageId, others: &[Had]) -> Result<(), Failure> {
        let run = self.job.run;
        let twins = others.iter().filter(|had| {
            had.state != State::Gone && had.mark.as_ref().is_some_and(|mark| mark.run == run)
        });
        for twin in twins {
            self.let_go(twin.id, mine, "a second import of this run").await?;
        }
        Ok(())
    }

    async fn yield_to(&self, mine: ImageId, first: ImageId) -> Result<(), Failure> {
        self.let_go(mine, first, "the image of this run, which another run's came before,").await?;
        self.fly(|flight| (flight.sent, flight.image) = (false, None));
        Ok(())
    }

    /// Removes a surplus image of our own; `kept` is the one that remains.
    async fn let_go(&self, id: ImageId, kept: ImageId, what: &str) -> Result<(), Failure> {
        self.show(format!("removing surplus image {id}"));
        self.remove(id).await.map_err(|error| {
            let problem = Problem::of(&error);
            let text = format!("{what} could not be removed (image {id}): {}", problem.text);
            let hint =
                format!("image {kept} is the one to keep; the same command removes the other");
            Failure::clean(Problem { text, ..problem }.hint(hint))
                .with_image(kept)
                .leaving(vec![id])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::mark::Mark;
    use crate::publish::request::Settings;

    const RUN: RunId = RunId(1);

    fn content(digest: Option<char>) -> Content {
        Content { md5: digest.map(|c| c.to_string().repeat(32)), ..Content::default() }
    }

    fn had(id: u64, status: &str, run: Option<u64>, digest: Option<char>) -> Had {
        Had {
            id: ImageId(id),
            state: State::of(Some(status)),
            status: status.to_owned(),
            mark: run.map(|run| Mark { run: RunId(run), content: content(digest) }),
            settings: Settings::default(),
        }
    }

    #[test]
    fn the_lowest_id_wins() {
        use Verdict::{Await, Clash, Stands, YieldTo};
        let a = Some('a');
        let rows: Vec<(Option<char>, Vec<Had>, Verdict)> = vec![
            (a, vec![], Stands),
            (a, vec![had(9, "CREATED", Some(2), a)], Stands),
            (a, vec![had(3, "CREATED", Some(2), a)], YieldTo(ImageId(3))),
            (a, vec![had(3, "CREATING", Some(2), a)], Await(ImageId(3))),
            (a, vec![had(3, "ERROR", Some(2), a)], Stands),
            (a, vec![had(3, "CREATED", Some(2), Some('b'))], Clash(ImageId(3))),
            (a, vec![had(3, "CREATED", Some(2), None)], Clash(ImageId(3))),
            (None, vec![had(3, "CREATED", Some(2), None)], YieldTo(ImageId(3))),
            (None, vec![had(3, "CREATED", Some(2), a)], YieldTo(ImageId(3))),
            (a, vec![had(3, "CREATED", None, None)], Stands),
            (a, vec![had(3, "CREATED", Some(1), a)], Stands),
            (
                a,
                vec![had(4, "CREATED", Some(3), a), had(3, "CREATING", Some(2), a)],
                Await(ImageId(3)),
            ),
        ];
        for (mine, others, verdict) in rows {
            assert_eq!(judge(ImageId(5), RUN, &content(mine), &others), verdict, "{others:?}");
        }
    }

    #[test]
    fn two_runs_never_both_yield() {
        let digests = [None, Some('a'), Some('b')];
        for (low, high) in digests.iter().flat_map(|l| digests.iter().map(move |h| (*l, *h))) {
            let seen_by_low = [had(6, "CREATED", Some(2), high)];
            let verdict = judge(ImageId(5), RUN, &content(low), &seen_by_low);
            assert_eq!(verdict, Verdict::Stands, "{low:?} {high:?}");
            let seen_by_high = [had(5, "CREATED", Some(1), low)];
            let verdict = judge(ImageId(6), RunId(2), &content(high), &seen_by_high);
            assert_ne!(verdict, Verdict::Stands, "{low:?} {high:?}");
        }
    }
}
