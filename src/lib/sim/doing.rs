//! One action at a time: what is being done to a thing, until when, and what it is then; pure.

use std::time::Duration;

use super::reply::Reply;

/// An action that takes time. While it lasts, every other one is refused (vco-api.md 5.2, G8D).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doing {
    /// The state that is shown meanwhile, such as `DEPLOYING`.
    pub word: &'static str,
    /// When it ends, on the world's clock.
    pub until: Duration,
    /// The state that the thing has then.
    pub then: &'static str,
}

/// What has a state.
pub(super) trait Staged {
    /// The state that it rests in.
    fn status(&mut self) -> &mut String;

    /// What is being done to it.
    fn doing(&mut self) -> &mut Option<Doing>;

    /// Begins an action; one that takes no time is over at once.
    fn begin(&mut self, word: &'static str, then: &'static str, now: Duration, takes: Duration) {
        if takes.is_zero() {
            then.clone_into(self.status());
        } else {
            *self.doing() = Some(Doing { word, until: now + takes, then });
        }
    }

    /// Ends the action if it is due; when it is, if it is not.
    fn settle(&mut self, now: Duration) -> Option<Duration> {
        let until = self.doing().as_ref()?.until;
        if until > now {
            return Some(until);
        }
        if let Some(done) = self.doing().take() {
            done.then.clone_into(self.status());
        }
        None
    }
}

/// The state that is shown.
pub(super) fn shown<'a>(status: &'a str, doing: Option<&'a Doing>) -> &'a str {
    doing.map_or(status, |doing| doing.word)
}

/// The refusal to begin something while something else is under way (vco-api.md 12.6: 400).
pub(super) fn idle(what: &str, doing: Option<&Doing>) -> Result<(), Reply> {
    match doing {
        Some(doing) => Err(Reply::error(400, format!("{what} is {}", doing.word))),
        None => Ok(()),
    }
}

/// Gives a record its state.
macro_rules! staged {
    ($record:ty) => {
        impl $crate::sim::doing::Staged for $record {
            fn status(&mut self) -> &mut String {
                &mut self.status
            }

            fn doing(&mut self) -> &mut Option<$crate::sim::doing::Doing> {
                &mut self.doing
            }
        }

        impl $record {
            /// The state that the API shows.
            #[must_use]
            pub fn shown(&self) -> &str {
                $crate::sim::doing::shown(&self.status, self.doing.as_ref())
            }
        }
    };
}
pub(super) use staged;

#[cfg(test)]
mod tests {
    use super::super::world::Vm;
    use super::*;

    #[test]
    fn an_action_lasts_as_long_as_it_takes() {
        let s = Duration::from_secs;
        let mut vm = Vm { status: "HALTED".into(), ..Vm::default() };
        vm.begin("STARTING", "RUNNING", s(5), s(10));
        assert_eq!((vm.settle(s(14)), vm.shown()), (Some(s(15)), "STARTING"));
        assert!(idle("VM", vm.doing.as_ref()).is_err());
        assert_eq!((vm.settle(s(15)), vm.shown()), (None, "RUNNING"));
        vm.begin("STOPPING", "HALTED", s(15), s(0));
        assert_eq!(vm.shown(), "HALTED");
    }
}
