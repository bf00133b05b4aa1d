//! Ends a location before its time, and says what is in flight.

use std::time::Duration;

use super::{Failure, Flight, Here};
use crate::fault::Class;
use crate::id::ImageId;
use crate::publish::error::Problem;
use crate::publish::mark::RunId;
use crate::publish::plan::{Had, ids};
use crate::publish::report::{Outcome, Row};
use crate::publish::state::State;

/// How long the last look may take.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// Why it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// `-timeout`.
    OutOfTime,
}

/// What is there when a location ends early.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Nothing that this run has set going.
    Nothing,
    /// This image is usable, and no other has its name.
    Done(ImageId),
    /// This image is usable, and these are still to be removed or sorted out.
    Pending(ImageId, Vec<ImageId>),
    /// This image is in this state.
    InFlight(ImageId, String),
    /// A create was sent, and nobody knows what became of it.
    Unknown,
}

/// Reads the list of our images of the name, without those that are `gone` anyway.
fn judge(flight: &Flight, had: &[Had], run: RunId) -> Found {
    let mine = had.iter().find(|had| match flight.image {
        Some(id) => had.id == id,
        None => had.mark.as_ref().is_some_and(|mark| mark.run == run),
    });
    let Some(mine) = mine else {
        let nothing = !flight.sent || flight.image.is_some();
        return if nothing { Found::Nothing } else { Found::Unknown };
    };
    if mine.state != State::Usable {
        return Found::InFlight(mine.id, mine.status.clone());
    }
    let others = had.iter().filter(|had| had.id != mine.id && had.state != State::Gone);
    let others: Vec<ImageId> = others.map(|had| had.id).collect();
    if others.is_empty() { Found::Done(mine.id) } else { Found::Pending(mine.id, others) }
}

/// What can be said without looking.
fn blind(flight: &Flight) -> Found {
    match (flight.image, &flight.status) {
        (Some(id), status) => {
            let status = status.clone().unwrap_or_else(|| "in no known state".to_owned());
            Found::InFlight(id, status)
        }
        (None, _) if flight.sent => Found::Unknown,
        (None, _) => Found::Nothing,
    }
}

impl Here<'_> {
    /// Looks once more, for an import may have ended just now, and reports.
    pub(super) async fn stopped(&self, why: Why) -> Row {
        let flight = self.fly(|flight| flight.clone());
        let mut found = blind(&flight);
        if found != Found::Nothing {
            tokio::select! {
                had = self.had() => if let Ok(had) = had {
                    found = judge(&flight, &had, self.job.run);
                },
                () = self.job.clock.sleep(LAST_LOOK) => {}
            }
        }
        if let Found::Done(id) = found {
            let replaced = self.step.replaces.then_some(Outcome::Replaced);
            let made = if flight.sent { Outcome::Created } else { Outcome::Joined };
            return self.row(replaced.unwrap_or(made), id);
        }
        let mut row = self.ended(why, &flight, found).row(self.at);
        if why == Why::Interrupted {
            row.result = Outcome::Interrupted;
        }
        row
    }

    /// The same as a failure, with what it leaves; its ids are in the text and need no line more.
    fn ended(&self, why: Why, flight: &Flight, found: Found) -> Failure {
        let (class, how) = match why {
            Why::Interrupted => (Class::Interrupted, "interrupted".to_owned()),
            Why::OutOfTime => {
                let limit = self.job.request.timeout.as_secs_f64();
                (Class::Transient, format!("-timeout ({limit} s) ran out"))
            }
        };
        let told = |what: &str, hint: &str| {
            Failure::clean(Problem::new(class, format!("{how}{what}")).hint(hint))
        };
        match found {
            Found::Nothing | Found::Done(_) if flight.sent => {
                told("; nothing is in flight", "the same command starts over").touched()
            }
            Found::Nothing | Found::Done(_) if flight.uploading => told(
                "; the upload was broken off and made no image",
                "the same command starts over",
            ),
            Found::Nothing | Found::Done(_) => {
                told(" before anything was sent", "the same command starts over")
            }
            Found::InFlight(id, status) => told(
                &format!("; image {id} is in flight ({status})"),
                "the import goes on by itself; the same command joins it",
            )
            .with_image(id)
            .leaving(vec![]),
            Found::Pending(id, others) => told(
                &format!("; image {id} is usable, and so far {} has the same name", ids(&others)),
                "the same command puts it in order",
            )
            .with_image(id)
            .leaving(vec![]),
            Found::Unknown => told(
                "; an import was sent, and no image is to be seen yet",
                "the same command joins it if it became an image",
            )
            .leaving(vec![]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::mark::{Content, Mark};
    use crate::publish::request::Settings;

    fn had(id: u64, status: &str, run: u64) -> Had {
        Had {
            id: ImageId(id),
            state: State::of(Some(status)),
            status: status.to_owned(),
            mark: Some(Mark { run: RunId(run), content: Content::default() }),
            settings: Settings::default(),
        }
    }

    #[test]
    fn what_is_there_decides_what_is_said() {
        let flight = |sent, image: Option<u64>| Flight {
            sent,
            image: image.map(ImageId),
            ..Flight::default()
        };
        let creating = || Found::InFlight(ImageId(7), "CREATING".to_owned());
        let rows: Vec<(Flight, Vec<Had>, Found)> = vec![
            (flight(true, None), vec![], Found::Unknown),
            (flight(true, None), vec![had(6, "CREATING", 2)], Found::Unknown),
            (flight(true, None), vec![had(7, "CREATING", 1)], creating()),
            (flight(true, Some(7)), vec![had(7, "CREATING", 1)], creating()),
            (flight(false, Some(7)), vec![had(7, "CREATING", 2)], creating()),
            (flight(true, Some(7)), vec![], Found::Nothing),
            (flight(true, Some(7)), vec![had(7, "CREATED", 1)], Found::Done(ImageId(7))),
            (
                flight(true, Some(7)),
                vec![had(3, "CREATED", 2), had(4, "DESTROYED", 2), had(7, "CREATED", 1)],
                Found::Pending(ImageId(7), vec![ImageId(3)]),
            ),
        ];
        for (flight, had, found) in rows {
            assert_eq!(judge(&flight, &had, RunId(1)), found, "{flight:?} {had:?}");
        }
    }

    #[test]
    fn without_a_look_the_flight_itself_tells() {
        let mut flight = Flight::default();
        assert_eq!(blind(&flight), Found::Nothing);
        flight.sent = true;
        assert_eq!(blind(&flight), Found::Unknown);
        flight.image = Some(ImageId(7));
        flight.status = Some("CREATING".to_owned());
        assert_eq!(blind(&flight), Found::InFlight(ImageId(7), "CREATING".to_owned()));
    }
}
