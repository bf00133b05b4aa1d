//! Too many calls: counted per user and location, and for the portal as a whole; pure.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::rules::Limits;

/// The calls of the last window and those that run now.
#[derive(Debug, Default)]
pub(super) struct Counts {
    portal: VecDeque<Duration>,
    locations: HashMap<String, Count>,
}

#[derive(Debug, Default)]
struct Count {
    calls: VecDeque<Duration>,
    at_once: usize,
}

impl Counts {
    /// Lets a call begin, or says after how long one would be let through. A refused call does
    /// not count. One that may begin must [`Counts::end`].
    pub(super) fn begin(
        &mut self,
        location: Option<&str>,
        now: Duration,
        limits: &Limits,
    ) -> Result<(), Duration> {
        let here = location.map(|l| self.locations.entry(l.to_owned()).or_default());
        if limits.on {
            room(&mut self.portal, limits.portal_calls, now, limits.window)?;
            if let Some(count) = &here
                && count.at_once >= limits.location_at_once
            {
                return Err(Duration::from_secs(1));
            }
        }
        if let Some(count) = here {
            if limits.on {
                room(&mut count.calls, limits.location_calls, now, limits.window)?;
                count.calls.push_back(now);
            }
            count.at_once += 1;
        }
        if limits.on {
            self.portal.push_back(now);
        }
        Ok(())
    }

    pub(super) fn end(&mut self, location: Option<&str>) {
        if let Some(count) = location.and_then(|l| self.locations.get_mut(l)) {
            count.at_once = count.at_once.saturating_sub(1);
        }
    }
}

/// Forgets calls that have left the window; an error says how long until one more has room.
fn room(
    calls: &mut VecDeque<Duration>,
    most: usize,
    now: Duration,
    window: Duration,
) -> Result<(), Duration> {
    while calls.front().is_some_and(|first| *first + window <= now) {
        calls.pop_front();
    }
    match calls.front() {
        Some(first) if calls.len() >= most => Err((*first + window).saturating_sub(now)),
        None if most == 0 => Err(window),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn on() -> Limits {
        Limits { on: true, ..Limits::default() }
    }

    #[test]
    fn twenty_in_five_seconds_per_location() {
        let mut counts = Counts::default();
        for n in 0..20 {
            counts.begin(Some("a"), ms(n * 100), &on()).unwrap();
            counts.end(Some("a"));
        }
        assert_eq!(counts.begin(Some("a"), ms(2000), &on()), Err(ms(3000)));
        counts.begin(Some("b"), ms(2000), &on()).unwrap();
        counts.begin(Some("a"), ms(5000), &on()).unwrap();
    }

    #[test]
    fn five_at_once_per_location() {
        let mut counts = Counts::default();
        for _ in 0..5 {
            counts.begin(Some("a"), ms(0), &on()).unwrap();
        }
        assert!(counts.begin(Some("a"), ms(0), &on()).is_err());
        counts.begin(Some("b"), ms(0), &on()).unwrap();
        counts.end(Some("a"));
        counts.begin(Some("a"), ms(0), &on()).unwrap();
    }

    #[test]
    fn a_hundred_in_five_seconds_for_the_portal() {
        let mut counts = Counts::default();
        for n in 0..100 {
            counts.begin(Some(&format!("l{n}")), ms(n), &on()).unwrap();
        }
        assert!(counts.begin(None, ms(200), &on()).is_err());
        assert!(counts.begin(None, ms(5000), &on()).is_ok());
    }

    #[test]
    fn switched_off_nothing_is_refused() {
        let mut counts = Counts::default();
        for _ in 0..500 {
            counts.begin(Some("a"), ms(0), &Limits::default()).unwrap();
        }
    }
}
