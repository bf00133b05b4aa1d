//! How long until a failed object is tried again: longer each time, never in step with others.

use std::time::Duration;

use crate::fault::Class;

/// The first pause after a failure that may pass by itself.
const FIRST: Duration = Duration::from_secs(2);
/// The longest such pause.
const LONGEST: Duration = Duration::from_mins(2);
/// The pause where nothing will change unless somebody changes it.
const RARE: Duration = Duration::from_mins(5);

/// The pause before the next try.
///
/// `failures` is how often this object has failed in a row, from 1; `sample` is from 0 to 1, so
/// that objects which failed together do not come back together; `asked` is what the other side
/// asked for (`Retry-After`).
#[must_use]
pub fn pause(class: Class, failures: u32, asked: Option<Duration>, sample: f64) -> Duration {
    let grown = match class {
        Class::Transient | Class::RateLimited | Class::Conflict | Class::Interrupted => {
            FIRST.saturating_mul(1 << failures.saturating_sub(1).min(6)).min(LONGEST)
        }
        Class::Quota | Class::Auth | Class::NotFound => {
            Duration::from_secs(15).saturating_mul(1 << failures.saturating_sub(1).min(4)).min(RARE)
        }
        Class::Usage
        | Class::Refused
        | Class::Invalid
        | Class::Failed
        | Class::LeftBehind
        | Class::Bug => {
            Duration::from_secs(5).saturating_mul(1 << failures.saturating_sub(1).min(6)).min(RARE)
        }
    };
    // A figure that is wrong would keep an object from being looked at for days.
    spread(grown.max(asked.unwrap_or_default().min(RARE)), sample)
}

/// The time, made up to a fifth longer.
#[must_use]
pub fn spread(time: Duration, sample: f64) -> Duration {
    time.mul_f64(1.0 + sample.clamp(0.0, 1.0) / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound() {
        let secs = |class, failures| pause(class, failures, None, 0.0).as_secs();
        let transient: Vec<_> = (1..9).map(|n| secs(Class::Transient, n)).collect();
        assert_eq!(transient, [2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(secs(Class::Transient, u32::MAX), 120);
        assert_eq!(
            [secs(Class::Quota, 1), secs(Class::Quota, 2), secs(Class::Quota, 9)],
            [15, 30, 240]
        );
        // What looks final may be a whim of the cloud (`success: false`, vco-api.md 12.6): not at once
        // the longest pause.
        let invalid: Vec<_> = (1..9).map(|n| secs(Class::Invalid, n)).collect();
        assert_eq!(invalid, [5, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn what_the_other_side_asks_for_is_the_least() {
        let asked = Some(Duration::from_secs(7));
        assert_eq!(pause(Class::RateLimited, 1, asked, 0.0).as_secs(), 7);
        assert_eq!(pause(Class::RateLimited, 5, asked, 0.0).as_secs(), 32);
        let week = Some(Duration::from_hours(168));
        assert_eq!(pause(Class::RateLimited, 1, week, 0.0).as_secs(), 300, "within reason");
    }

    #[test]
    fn jitter_only_adds_and_at_most_a_fifth() {
        let ten = Duration::from_secs(10);
        assert_eq!((spread(ten, 0.0), spread(ten, 1.0)), (ten, Duration::from_secs(12)));
        assert_eq!(spread(ten, f64::NAN.max(0.5)), Duration::from_secs(11));
    }
}
