//! Whether a failed try is repeated, and when: pure, so that it can be read as a table.
//!
//! The SDK's own retries are switched off in favour of this one: it waits on our clock, keeps
//! to `Retry-After`, says with `-v` what it does, ends with the stall timeout, and lets each try
//! be signed anew. Every call of ours may be repeated: puts carry a checksum and whole bodies,
//! and who puts with `If-None-Match` looks at what stands there afterwards anyway.

use std::time::Duration;

/// How often one call is tried at most.
pub const MOST_TRIES: u32 = 8;

/// How often a failure is tried that rarely mends itself within seconds.
const FEW_TRIES: u32 = 3;

/// The first pause; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A failed try, as far as repeating it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The host's name did not resolve.
    NoName,
    /// No connection was made.
    NotSent,
    /// 503 `SlowDown`, 429: too many calls.
    Throttled,
    /// 500, 502, 504 and 503: overloaded, or a gateway that lost its back-end.
    Unavailable,
    /// 409 of two writers at once (`OperationAborted`, `ConditionalRequestConflict`).
    Clash,
    /// Our clock is wrong; the SDK has seen the server's by now and signs with that.
    Skewed,
    /// Nothing moved for too long.
    Stalled,
    /// The connection broke.
    Lost,
    /// A reply that cannot be understood.
    Garbled,
    /// Anything that will not be otherwise next time.
    Final,
}

/// What the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    /// What happened.
    pub failure: Failure,
    /// Tries so far, at least 1.
    pub tries: u32,
    /// How long nothing has been achieved: the time since the call began or since bytes last
    /// moved, whichever is shorter.
    pub idle: Duration,
    /// How long nothing may be achieved.
    pub budget: Duration,
    /// What the reply asked for.
    pub retry_after: Option<Duration>,
    /// A sample from 0 to 1.
    pub jitter: f64,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait, then try again.
    Retry(Duration),
    /// Report the failure.
    GiveUp,
}

/// Decides.
#[must_use]
pub fn decide(s: Situation) -> Next {
    if s.tries >= most_tries(s.failure) {
        return Next::GiveUp;
    }
    let pause = pause(s.tries, s.jitter);
    // A little later than asked for: many clients were told the same second.
    let wait = s.retry_after.map_or(pause, |asked| asked + pause);
    if s.idle + wait >= s.budget { Next::GiveUp } else { Next::Retry(wait) }
}

fn most_tries(failure: Failure) -> u32 {
    match failure {
        Failure::Final => 1,
        Failure::Skewed => 2,
        // Most often the name is wrong, or what answers is no store.
        Failure::NoName | Failure::Garbled => FEW_TRIES,
        _ => MOST_TRIES,
    }
}

/// Between half and all of a pause that doubles.
fn pause(tries: u32, jitter: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(10));
    doubled.min(LONGEST_PAUSE).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
}

/// Reads a `Retry-After` header: seconds or an HTTP date; `now` is in seconds since 1970.
#[must_use]
pub fn retry_after(header: &str, now: f64) -> Option<Duration> {
    let header = header.trim();
    let seconds = header.parse::<f64>().ok().filter(|s| !s.is_nan()).or_else(|| {
        let at = super::date::read(header)?;
        Some((at - now).max(0.0))
    })?;
    // A week is as good as never and cannot overflow anything.
    Duration::try_from_secs_f64(seconds.min(604_800.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Failure::*;

    const BASE: Situation = Situation {
        failure: Lost,
        tries: 1,
        idle: Duration::ZERO,
        budget: Duration::from_mins(1),
        retry_after: None,
        jitter: 1.0,
    };

    #[test]
    fn who_is_tried_how_often() {
        for (failure, most) in [
            (NotSent, MOST_TRIES),
            (Throttled, MOST_TRIES),
            (Unavailable, MOST_TRIES),
            (Clash, MOST_TRIES),
            (Stalled, MOST_TRIES),
            (Lost, MOST_TRIES),
            (NoName, FEW_TRIES),
            (Garbled, FEW_TRIES),
            (Skewed, 2),
            (Final, 1),
        ] {
            for tries in 1..=MOST_TRIES + 1 {
                let again = matches!(decide(Situation { failure, tries, ..BASE }), Next::Retry(_));
                assert_eq!(again, tries < most, "{failure:?} {tries}");
            }
        }
    }

    #[test]
    fn pauses_double_and_are_jittered() {
        for (tries, jitter, ms) in [
            (1, 1.0, 250),
            (1, 0.0, 125),
            (2, 1.0, 500),
            (3, 0.5, 750),
            (7, 1.0, 10_000),
            (7, 9.0, 10_000),
        ] {
            let next = decide(Situation { tries, jitter, ..BASE });
            assert_eq!(next, Next::Retry(Duration::from_millis(ms)), "{tries} {jitter}");
        }
    }

    #[test]
    fn time_is_a_budget_too() {
        for (idle, asked, next) in [
            (0, Some(3), Next::Retry(Duration::from_millis(3250))),
            (50, Some(5), Next::Retry(Duration::from_millis(5250))),
            (50, Some(10), Next::GiveUp),
            (0, Some(3600), Next::GiveUp),
            (59, None, Next::Retry(Duration::from_millis(250))),
            (60, None, Next::GiveUp),
        ] {
            let s = Situation {
                failure: Throttled,
                idle: Duration::from_secs(idle),
                retry_after: asked.map(Duration::from_secs),
                ..BASE
            };
            assert_eq!(decide(s), next, "{idle} {asked:?}");
        }
    }

    #[test]
    fn retry_after_comes_as_seconds_or_date() {
        let now = 1_700_000_000.0; // Tue, 14 Nov 2023 22:13:20 GMT
        for (header, seconds) in [
            ("5", Some(5)),
            (" 0 ", Some(0)),
            ("Tue, 14 Nov 2023 22:13:50 GMT", Some(30)),
            ("Tue, 14 Nov 2023 22:00:00 GMT", Some(0)),
            ("99999999999999999999", Some(604_800)),
            ("-5", None),
            ("soon", None),
            ("nan", None),
            ("", None),
        ] {
            assert_eq!(retry_after(header, now), seconds.map(Duration::from_secs), "{header:?}");
        }
    }
}
