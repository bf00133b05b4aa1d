//! Whether a failed try is repeated, and when: pure, so that it can be read as a table.
//!
//! The evidence (vco-api.md 12.6, 12.7): there are no idempotency keys; 429 and a bare HTML
//! 400 of the web server in front were not executed; 503 means no capacity or a firewall that
//! is down; after a lost reply nobody knows.

use std::time::Duration;

/// How often one call is tried at most.
pub const MOST_TRIES: u32 = 8;

/// How often a failure is tried that rarely mends itself within seconds.
const FEW_TRIES: u32 = 4;

/// How often a host's name is looked up that never resolved: most likely it is wrong.
const FIRST_LOOK_UPS: u32 = 3;

/// How long a portal is tried that refuses connections and never answered: its address may be
/// wrong, or it is just starting.
const FIRST_CONTACT: Duration = Duration::from_secs(15);

/// The first pause; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The longest pause where nothing could be sent: knocking costs nobody anything.
const LONGEST_KNOCK: Duration = Duration::from_secs(5);

/// A failed try, as far as repeating it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was sent: the host's name did not resolve.
    NoName,
    /// Nothing was sent: no connection was made.
    NotSent,
    /// 429: too many calls; not executed.
    Throttled,
    /// A web server's bare HTML 400, which comes "for no reason" (12.7, SDK); not executed.
    BarePage,
    /// 502, 503, 504 or 408: overloaded, no capacity, or a gateway that lost its back-end.
    Unavailable,
    /// 500 and other 5xx.
    ServerError,
    /// No reply in time.
    TimedOut,
    /// The connection broke after the request had been sent, or may have been.
    Lost,
    /// A 2xx reply that cannot be understood.
    Garbled,
    /// Anything that will not be otherwise next time.
    Final,
}

/// What the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    /// Whether carrying the call out twice does no harm.
    pub repeatable: bool,
    /// What happened.
    pub failure: Failure,
    /// Tries so far, at least 1.
    pub tries: u32,
    /// Time spent on the call so far.
    pub spent: Duration,
    /// Time the call may spend on being repeated.
    pub budget: Duration,
    /// What the reply asked for.
    pub retry_after: Option<Duration>,
    /// Whether this portal ever answered.
    pub reached_before: bool,
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
    if s.tries >= most_tries(s) {
        return Next::GiveUp;
    }
    let pause = pause(s.tries, longest_pause(s.failure), s.jitter);
    // A little later than asked for: many clients were told the same second.
    let wait = s.retry_after.map_or(pause, |asked| asked + pause.min(asked / 10 + FIRST_PAUSE));
    if s.spent + wait > budget(s) { Next::GiveUp } else { Next::Retry(wait) }
}

/// Whether nobody knows if a call that is not repeatable was carried out.
#[must_use]
pub fn outcome_unknown(failure: Failure) -> bool {
    match failure {
        Failure::NoName
        | Failure::NotSent
        | Failure::Throttled
        | Failure::BarePage
        | Failure::Final => false,
        Failure::Unavailable
        | Failure::ServerError
        | Failure::TimedOut
        | Failure::Lost
        | Failure::Garbled => true,
    }
}

fn most_tries(s: Situation) -> u32 {
    if !s.repeatable && outcome_unknown(s.failure) {
        return 1;
    }
    match s.failure {
        Failure::Final => 1,
        Failure::NoName if !s.reached_before => FIRST_LOOK_UPS,
        // Only time counts: a portal that starts anew is back when it is back.
        Failure::NoName | Failure::NotSent => u32::MAX,
        // Whatever answers there may not be a portal at all.
        Failure::Lost | Failure::BarePage if !s.reached_before => FEW_TRIES,
        Failure::ServerError | Failure::Garbled => FEW_TRIES,
        _ => MOST_TRIES,
    }
}

fn budget(s: Situation) -> Duration {
    match s.failure {
        Failure::NotSent if !s.reached_before => s.budget.min(FIRST_CONTACT),
        _ => s.budget,
    }
}

fn longest_pause(failure: Failure) -> Duration {
    match failure {
        Failure::NoName | Failure::NotSent => LONGEST_KNOCK,
        _ => LONGEST_PAUSE,
    }
}

/// Between half and all of a pause that doubles.
fn pause(tries: u32, longest: Duration, jitter: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(10));
    doubled.min(longest).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
}

/// Reads a `Retry-After` header: seconds (a fraction is rounded up) or an HTTP date.
///
/// A date in the past is no wait at all. `now` is in seconds since 1970.
#[must_use]
pub fn retry_after(header: &str, now: f64) -> Option<Duration> {
    let header = header.trim();
    let seconds =
        header.parse::<f64>().ok().filter(|s| !s.is_nan()).map(f64::ceil).or_else(|| {
            let at = httpdate::parse_http_date(header).ok()?;
            let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
            Some((at.as_secs_f64() - now).max(0.0))
        })?;
    // A week is as good as never and cannot overflow anything.
    Duration::try_from_secs_f64(seconds.min(604_800.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Failure::*;

    const BASE: Situation = Situation {
        repeatable: true,
        failure: Lost,
        tries: 1,
        spent: Duration::ZERO,
        budget: Duration::from_mins(2),
        retry_after: None,
        reached_before: true,
        jitter: 1.0,
    };

    #[test]
    fn who_is_tried_how_often() {
        //   failure      repeatable  reached  tries of a repeatable call, of a create
        for (failure, reached, repeated, created) in [
            (NotSent, true, 99, 99),
            (NotSent, false, 99, 99),
            (NoName, true, 99, 99),
            (NoName, false, FIRST_LOOK_UPS, FIRST_LOOK_UPS),
            (Throttled, true, MOST_TRIES, MOST_TRIES),
            (BarePage, true, MOST_TRIES, MOST_TRIES),
            (BarePage, false, FEW_TRIES, FEW_TRIES),
            (Unavailable, true, MOST_TRIES, 1),
            (ServerError, true, FEW_TRIES, 1),
            (TimedOut, true, MOST_TRIES, 1),
            (Lost, true, MOST_TRIES, 1),
            (Lost, false, FEW_TRIES, 1),
            (Garbled, true, FEW_TRIES, 1),
            (Final, true, 1, 1),
        ] {
            // 99 stands for any number: only time counts.
            for (repeatable, most) in [(true, repeated), (false, created)] {
                for tries in 1..=MOST_TRIES + 1 {
                    let s =
                        Situation { failure, repeatable, tries, reached_before: reached, ..BASE };
                    let again = matches!(decide(s), Next::Retry(_));
                    assert_eq!(again, tries < most, "{failure:?} {repeatable} {tries}");
                }
            }
        }
    }

    #[test]
    fn a_portal_that_refuses_connections_is_tried_for_a_time() {
        //   reached  budget  seconds tried, at most and at least
        for (failure, reached, budget, least, most) in [
            (NotSent, true, 120, 115, 120),
            (NotSent, true, 30, 25, 30),
            (NotSent, true, 0, 0, 0),
            (NotSent, false, 120, 10, 15),
            (NotSent, false, 4, 2, 4),
            (NoName, true, 120, 115, 120),
            (NoName, false, 120, 1, 2),
        ] {
            let budget = Duration::from_secs(budget);
            let (mut tries, mut spent) = (1, Duration::ZERO);
            while let Next::Retry(wait) =
                decide(Situation { failure, reached_before: reached, tries, spent, budget, ..BASE })
            {
                (tries, spent) = (tries + 1, spent + wait);
            }
            let range = Duration::from_secs(least)..=Duration::from_secs(most);
            assert!(range.contains(&spent), "{failure:?} {reached} {budget:?}: {spent:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_are_jittered() {
        for (tries, jitter, ms) in [
            (1, 1.0, 500),
            (1, 0.0, 250),
            (2, 1.0, 1000),
            (3, 0.5, 1500),
            (6, 1.0, 15_000),
            (7, 1.0, 15_000),
            (7, 9.0, 15_000),
        ] {
            let next = decide(Situation { tries, jitter, ..BASE });
            assert_eq!(next, Next::Retry(Duration::from_millis(ms)), "{tries} {jitter}");
        }
    }

    #[test]
    fn time_is_a_budget_too() {
        for (spent, asked, next) in [
            (0, Some(3), Next::Retry(Duration::from_millis(3500))),
            (0, Some(0), Next::Retry(Duration::from_millis(500))),
            (100, Some(10), Next::Retry(Duration::from_millis(10_500))),
            (115, Some(10), Next::GiveUp),
            (0, Some(3600), Next::GiveUp),
            (119, None, Next::Retry(Duration::from_millis(500))),
            (120, None, Next::GiveUp),
        ] {
            let s = Situation {
                failure: Throttled,
                spent: Duration::from_secs(spent),
                retry_after: asked.map(Duration::from_secs),
                ..BASE
            };
            assert_eq!(decide(s), next, "{spent} {asked:?}");
        }
    }

    #[test]
    fn retry_after_comes_as_seconds_or_date() {
        let now = 1_700_000_000.0; // Tue, 14 Nov 2023 22:13:20 GMT
        for (header, seconds) in [
            ("5", Some(5)),
            (" 0 ", Some(0)),
            ("1.2", Some(2)),
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

    #[test]
    fn only_what_was_surely_not_executed_has_a_known_outcome() {
        let unknown = [Unavailable, ServerError, TimedOut, Lost, Garbled];
        for failure in [
            NoName,
            NotSent,
            Throttled,
            BarePage,
            Unavailable,
            ServerError,
            TimedOut,
            Lost,
            Garbled,
            Final,
        ] {
            assert_eq!(outcome_unknown(failure), unknown.contains(&failure), "{failure:?}");
        }
    }
}
