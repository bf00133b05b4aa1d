//! What may be there although no list shows it. Pure.
//!
//! A list of the cloud may run behind (contract, 10.1, 2), names of pools and disks need not be
//! unique (vco-api.md 6.2, 7.2), and a manager may die between a call and its reply. So whatever
//! was tried a moment ago is looked for before it is tried again; and whoever takes over knows
//! nothing of what was tried last, so all that is missing is in doubt for as long.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::{Class, Fault as _};
use crate::vco;

/// The shortest and the longest time between two looks for something that is in doubt.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// What was tried for one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tried {
    /// Whether the object was claimed by this very process: then nobody tried anything before.
    claimed: bool,
    /// When each thing was made, or may have been.
    made: BTreeMap<String, Duration>,
}

impl Tried {
    /// This process has just claimed the object.
    pub fn claim(&mut self) {
        self.claimed = true;
    }

    /// Whether it is known that nobody has tried anything.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.claimed && self.made.is_empty()
    }

    /// Something was tried now, with this outcome.
    pub fn note<T>(&mut self, what: &str, outcome: &Result<T, vco::Error>, now: Duration) {
        if outcome.as_ref().err().is_none_or(leaves_doubt) {
            self.made.insert(what.to_owned(), now);
        }
    }
}

/// Whether a call that failed may have made something all the same. A conflict may be with the
/// thing of a try whose reply was lost; what `success: false` leaves behind is unknown.
fn leaves_doubt(error: &vco::Error) -> bool {
    error.outcome_unknown()
        || error.class() == Class::Conflict
        || error.kind() == vco::Kind::Refused
}

/// What is in doubt at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubt {
    /// What was tried.
    pub tried: Tried,
    /// When this process began to work.
    pub began: Duration,
    /// The moment.
    pub now: Duration,
    /// How long a list may run behind.
    pub lag: Duration,
}

impl Doubt {
    /// If a thing that no list shows may be there all the same: when to look again.
    #[must_use]
    pub fn of(&self, what: &str) -> Option<Duration> {
        self.look([self.tried.made.get(what).copied()])
    }

    /// The same for anything at all.
    #[must_use]
    pub fn any(&self) -> Option<Duration> {
        self.look(self.tried.made.values().copied().map(Some))
    }

    fn look(&self, made: impl IntoIterator<Item = Option<Duration>>) -> Option<Duration> {
        let taken_over = (!self.tried.claimed).then_some(self.began);
        let last = made.into_iter().chain([taken_over]).flatten().max()?;
        let left = last.saturating_add(self.lag).saturating_sub(self.now);
        (!left.is_zero()).then(|| left.clamp(LOOKS.0, LOOKS.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn doubt(claimed: bool, made: &[(&str, u64)], now: u64) -> Doubt {
        let made = made.iter().map(|&(what, at)| (what.to_owned(), secs(at))).collect();
        Doubt { tried: Tried { claimed, made }, began: secs(100), now: secs(now), lag: secs(30) }
    }

    #[test]
    fn what_was_tried_is_looked_for_as_long_as_lists_may_run_behind() {
        for (claimed, made, now, of, any) in [
            (true, &[][..], 101, None, None),
            (true, &[("vm", 110)], 110, Some(5), Some(5)),
            (true, &[("vm", 110)], 137, Some(3), Some(3)),
            (true, &[("vm", 110)], 140, None, None),
            (true, &[("disk", 110)], 111, None, Some(5)),
            // Whoever takes over knows nothing of what the other one tried.
            (false, &[], 101, Some(5), Some(5)),
            (false, &[], 130, None, None),
            (false, &[("vm", 120)], 140, Some(5), Some(5)),
        ] {
            let doubt = doubt(claimed, made, now);
            let found = (doubt.of("vm"), doubt.any());
            assert_eq!(found, (of.map(secs), any.map(secs)), "{claimed} {made:?} {now}");
        }
    }

    #[test]
    fn only_who_has_claimed_a_thing_knows_that_nothing_was_tried() {
        for (claimed, made, nothing) in
            [(true, &[][..], true), (false, &[], false), (true, &[("vm", 110)], false)]
        {
            assert_eq!(doubt(claimed, made, 120).tried.is_nothing(), nothing, "{claimed} {made:?}");
        }
    }

    #[test]
    fn it_is_looked_for_once_a_second_at_most() {
        let mut doubt = doubt(true, &[("vm", 110)], 139);
        doubt.now += Duration::from_millis(900);
        assert_eq!(doubt.of("vm"), Some(secs(1)));
    }
}
