//! Exit codes: documented constants, and one exhaustive match for each way of getting one.

use crate::fault::Class;
use crate::report::Verdict;

/// Done, or nothing to do.
pub const DONE: u8 = 0;
/// What was asked is not true now. A run that was interrupted and a bug of ours end like this too.
pub const FAILED: u8 = 1;
/// The command line or a setting is wrong; nothing was tried.
pub const USAGE: u8 = 2;
/// Refused before anything was changed.
pub const REFUSED: u8 = 3;
/// The other side failed; the same command may work later.
pub const OTHER_SIDE: u8 = 4;
/// Failed, and something was left behind: the report lists it.
pub const LEFT_BEHIND: u8 = 5;
/// Ended at once by a second Ctrl-C or SIGTERM; nothing more was reported.
pub const KILLED: u8 = 130;

/// The exit code of a run that ended without a report.
#[must_use]
pub const fn of_class(class: Class) -> u8 {
    match class {
        Class::Usage => USAGE,
        Class::Refused | Class::Auth | Class::NotFound | Class::Conflict | Class::Invalid => {
            REFUSED
        }
        Class::Transient | Class::RateLimited | Class::Quota => OTHER_SIDE,
        Class::Failed | Class::Interrupted | Class::Bug => FAILED,
        Class::LeftBehind => LEFT_BEHIND,
    }
}

/// The exit code of a run that ended with a report.
#[must_use]
pub const fn of_verdict(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Done => DONE,
        Verdict::Failed => FAILED,
        Verdict::Refused => REFUSED,
        Verdict::OtherSide => OTHER_SIDE,
        Verdict::LeftBehind => LEFT_BEHIND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_verdicts_keep_their_published_codes() {
        let classes = [
            (Class::Usage, 2),
            (Class::Refused, 3),
            (Class::Auth, 3),
            (Class::NotFound, 3),
            (Class::Conflict, 3),
            (Class::Invalid, 3),
            (Class::LeftBehind, 5),
            (Class::Transient, 4),
            (Class::RateLimited, 4),
            (Class::Quota, 4),
            (Class::Failed, 1),
            (Class::Interrupted, 1),
            (Class::Bug, 1),
        ];
        for (class, code) in classes {
            assert_eq!(of_class(class), code, "{class:?}");
        }
        let verdicts = [
            (Verdict::Done, 0),
            (Verdict::Failed, 1),
            (Verdict::Refused, 3),
            (Verdict::OtherSide, 4),
            (Verdict::LeftBehind, 5),
        ];
        for (verdict, code) in verdicts {
            assert_eq!(of_verdict(verdict), code, "{verdict:?}");
        }
    }
}
