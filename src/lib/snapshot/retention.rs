//! Which backups are kept: restic's words with restic's meaning, in UTC.
//!
//! `--keep-daily 7` keeps the newest backup of each of the last seven days that have one; where
//! fewer days have one, the oldest backup stays as well (restic's
//! `internal/restic/snapshot_policy.go`). What is not good is never counted as a backup
//! (rancher/rke2#4632), and the newest good one stays whatever the rules say.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// A count that is never used up: restic's `unlimited`.
pub const UNLIMITED: u32 = u32::MAX;

/// The rules; a count of 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// The newest so many.
    pub last: u32,
    /// The newest of each of the last so many hours that have one.
    pub hourly: u32,
    /// The same of days.
    pub daily: u32,
    /// The same of ISO weeks.
    pub weekly: u32,
    /// The same of months.
    pub monthly: u32,
    /// All that are not older than this, counted from the newest that is not in the future.
    pub within: Option<Within>,
}

impl Keep {
    /// Whether there is no rule at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A time back, such as `1y6m14d12h`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Within {
    years: u16,
    months: u16,
    days: u16,
    hours: u16,
}

/// A text that is no time back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time such as 7d, 12h or 1y6m")]
pub struct NoWithin(String);

impl FromStr for Within {
    type Err = NoWithin;

    /// restic's form: numbers, each with one of the letters `y`, `m`, `d`, `h`.
    fn from_str(text: &str) -> Result<Self, NoWithin> {
        let bad = || NoWithin(text.chars().take(80).collect());
        let mut within = Self::default();
        for part in text.split_inclusive(|c: char| c.is_ascii_alphabetic()) {
            let Some((at, unit)) = part.char_indices().next_back() else { return Err(bad()) };
            let number = part[..at].parse::<u16>().ok();
            let number = number.filter(|n| *n <= 9999 && part.starts_with(|c: char| c != '+'));
            let place = match unit {
                'y' => &mut within.years,
                'm' => &mut within.months,
                'd' => &mut within.days,
                'h' => &mut within.hours,
                _ => return Err(bad()),
            };
            *place = place.checked_add(number.ok_or_else(bad)?).ok_or_else(bad)?;
        }
        if within == Self::default() { Err(bad()) } else { Ok(within) }
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(self.years, 'y'), (self.months, 'm'), (self.days, 'd'), (self.hours, 'h')];
        parts.iter().filter(|(n, _)| *n > 0).try_for_each(|(n, unit)| write!(f, "{n}{unit}"))
    }
}

impl Within {
    /// The moment so long before `end`; the beginning of time where that is before it.
    fn before(self, end: Timestamp) -> Timestamp {
        let date = Span::new().years(self.years).months(self.months).days(self.days);
        let back = utc(end).checked_sub(date);
        let back = back.and_then(|back| back.checked_sub(Span::new().hours(self.hours)));
        let back = back.and_then(|back| TimeZone::UTC.to_timestamp(back));
        back.unwrap_or(Timestamp::MIN)
    }
}

fn utc(time: Timestamp) -> DateTime {
    TimeZone::UTC.to_datetime(time)
}

/// One backup, as far as retention is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point<Id> {
    /// What the caller calls it.
    pub id: Id,
    /// What time it is of.
    pub time: Timestamp,
    /// Whether it could be restored.
    pub good: bool,
}

/// Why a backup is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is the newest good one, or the newest that is not in the future.
    Newest,
    /// One of the last.
    Last,
    /// The newest of its hour, or the oldest of all while hours are left.
    Hourly {
        /// The oldest of all.
        oldest: bool,
    },
    /// The same for days.
    Daily {
        /// The oldest of all.
        oldest: bool,
    },
    /// The same for weeks.
    Weekly {
        /// The oldest of all.
        oldest: bool,
    },
    /// The same for months.
    Monthly {
        /// The oldest of all.
        oldest: bool,
    },
    /// Not older than that.
    Within(Within),
    /// There is no rule.
    NoRule,
    /// It is not good, but there is nothing newer that is.
    NothingNewer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, oldest) = match self {
            Self::Newest => return f.write_str("newest good"),
            Self::Last => return f.write_str("last"),
            Self::Within(within) => return write!(f, "within {within}"),
            Self::NoRule => return f.write_str("no rule"),
            Self::NothingNewer => return f.write_str("nothing newer is good"),
            Self::Hourly { oldest } => ("hourly", oldest),
            Self::Daily { oldest } => ("daily", oldest),
            Self::Weekly { oldest } => ("weekly", oldest),
            Self::Monthly { oldest } => ("monthly", oldest),
        };
        write!(f, "{}{word}", if *oldest { "oldest " } else { "" })
    }
}

/// What becomes of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It stays, for at least one reason.
    Keep(Vec<Reason>),
    /// No rule keeps it.
    Remove,
}

/// Decides about the backups of one cluster; the answer has the newest first.
///
/// Without any rule all are kept.
#[must_use]
pub fn decide<Id: Clone>(points: &[Point<Id>], keep: &Keep, now: Timestamp) -> Vec<(Id, Decision)> {
    let mut sorted: Vec<&Point<Id>> = points.iter().collect();
    sorted.sort_by_key(|point| std::cmp::Reverse(point.time));
    let good: Vec<Timestamp> = sorted.iter().filter(|p| p.good).map(|p| p.time).collect();
    let mut reasons = reasons(&good, keep, now).into_iter();
    let newest = good.first().copied();
    let decision = |point: &Point<Id>| {
        let reasons = if point.good {
            reasons.next().unwrap_or_default()
        } else if keep.is_empty() {
            vec![Reason::NoRule]
        } else if newest.is_none_or(|newest| newest < point.time) {
            vec![Reason::NothingNewer]
        } else {
            Vec::new()
        };
        if reasons.is_empty() { Decision::Remove } else { Decision::Keep(reasons) }
    };
    let decisions: Vec<Decision> = sorted.iter().copied().map(decision).collect();
    sorted.into_iter().map(|point| point.id.clone()).zip(decisions).collect()
}

/// A rule of periods: how many are left, and which was the last one seen.
struct Periods {
    left: u32,
    seen: Option<i64>,
    period: fn(DateTime, usize) -> i64,
    reason: fn(bool) -> Reason,
}

impl Periods {
    fn all(keep: &Keep) -> [Self; 5] {
        let rule = |left, period, reason| Self { left, seen: None, period, reason };
        [
            // Every backup is a period of its own.
            rule(keep.last, |_, nth| i64::try_from(nth).unwrap_or(i64::MAX), |_| Reason::Last),
            rule(keep.hourly, |time, _| hour(time), |oldest| Reason::Hourly { oldest }),
            rule(keep.daily, |time, _| day(time), |oldest| Reason::Daily { oldest }),
            rule(keep.weekly, |time, _| week(time), |oldest| Reason::Weekly { oldest }),
            rule(keep.monthly, |time, _| month(time), |oldest| Reason::Monthly { oldest }),
        ]
    }

    fn look(&mut self, time: DateTime, nth: usize, is_last: bool) -> Option<Reason> {
        if self.left == 0 {
            return None;
        }
        let period = Some((self.period)(time, nth));
        let fresh = period != self.seen;
        if !fresh && !is_last {
            return None;
        }
        self.seen = period;
        if self.left != UNLIMITED {
            self.left -= 1;
        }
        Some((self.reason)(!fresh))
    }
}

fn hour(time: DateTime) -> i64 {
    day(time) * 24 + i64::from(time.hour())
}

fn day(time: DateTime) -> i64 {
    i64::from(time.year()) * 1000 + i64::from(time.day_of_year())
}

fn week(time: DateTime) -> i64 {
    let week = time.date().iso_week_date();
    i64::from(week.year()) * 100 + i64::from(week.week())
}

fn month(time: DateTime) -> i64 {
    i64::from(time.year()) * 100 + i64::from(time.month())
}

/// The reasons to keep each of the good backups, which are given newest first.
fn reasons(good: &[Timestamp], keep: &Keep, now: Timestamp) -> Vec<Vec<Reason>> {
    // A clock that ran ahead must not cost the newest backup that is real.
    let real = good.iter().position(|time| *time <= now);
    let from = good.get(real.unwrap_or(0)).copied();
    let mut rules = Periods::all(keep);
    let mut all = Vec::with_capacity(good.len());
    for (nth, time) in good.iter().enumerate() {
        let mut why = Vec::new();
        if nth == 0 || real == Some(nth) {
            why.push(Reason::Newest);
        }
        if keep.is_empty() {
            why.push(Reason::NoRule);
        }
        let within = keep.within.zip(from).filter(|(within, from)| *time > within.before(*from));
        why.extend(within.map(|(within, _)| Reason::Within(within)));
        let is_last = nth + 1 == good.len();
        why.extend(rules.iter_mut().filter_map(|rule| rule.look(utc(*time), nth, is_last)));
        all.push(why);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const NOW: &str = "2026-11-30T12:00:00Z";

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn points(times: &[&str]) -> Vec<Point<String>> {
        let point = |text: &&str| {
            let (text, good) = text.strip_prefix('!').map_or((*text, true), |t| (t, false));
            Point { id: text.to_owned(), time: time(text), good }
        };
        times.iter().map(point).collect()
    }

    fn kept(times: &[&str], keep: &Keep) -> Vec<String> {
        let decided = decide(&points(times), keep, time(NOW));
        assert_eq!(decided.len(), times.len());
        let kept = decided.into_iter().filter(|(_, decision)| *decision != Decision::Remove);
        kept.map(|(id, _)| id).collect()
    }

    fn none() -> Keep {
        Keep::default()
    }

    #[test]
    fn restics_words_keep_what_restic_keeps() {
        let days = [
            "2026-11-30T06:00:00Z",
            "2026-11-30T00:00:00Z",
            "2026-11-29T18:00:00Z",
            "2026-11-29T00:00:00Z",
            "2026-11-23T00:00:00Z",
            "2026-11-22T23:59:59Z",
            "2026-10-31T00:00:00Z",
            "2025-11-30T00:00:00Z",
        ];
        let pick = |which: &[usize]| which.iter().map(|n| days[*n].to_owned()).collect::<Vec<_>>();
        for (keep, want) in [
            (Keep { last: 1, ..none() }, &[0][..]),
            (Keep { last: 3, ..none() }, &[0, 1, 2]),
            (Keep { last: 99, ..none() }, &[0, 1, 2, 3, 4, 5, 6, 7]),
            (Keep { hourly: 2, ..none() }, &[0, 1]),
            (Keep { daily: 1, ..none() }, &[0]),
            (Keep { daily: 2, ..none() }, &[0, 2]),
            (Keep { daily: 4, ..none() }, &[0, 2, 4, 5]),
            // 2026-11-30 is a Monday; the 22nd is the Sunday of the week before the 23rd's.
            (Keep { weekly: 3, ..none() }, &[0, 2, 5]),
            (Keep { monthly: 2, ..none() }, &[0, 6]),
            (Keep { monthly: 3, ..none() }, &[0, 6, 7]),
            (Keep { monthly: UNLIMITED, ..none() }, &[0, 6, 7]),
            (Keep { within: "1d".parse().ok(), ..none() }, &[0, 1, 2]),
            (Keep { within: "6h".parse().ok(), ..none() }, &[0]),
            (Keep { within: "1m".parse().ok(), ..none() }, &[0, 1, 2, 3, 4, 5, 6]),
            (Keep { within: "1y".parse().ok(), ..none() }, &[0, 1, 2, 3, 4, 5, 6]),
            (Keep { within: "1y1d".parse().ok(), ..none() }, &[0, 1, 2, 3, 4, 5, 6, 7]),
            (Keep { last: 2, daily: 2, monthly: 3, ..none() }, &[0, 1, 2, 6, 7]),
            (none(), &[0, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            assert_eq!(kept(&days, &keep), pick(want), "{keep:?}");
        }
    }

    #[test]
    fn the_oldest_stays_while_a_count_is_left() {
        let days = ["2026-11-30T06:00:00Z", "2026-11-30T05:00:00Z", "2026-11-30T04:00:00Z"];
        let keep = Keep { daily: 7, ..none() };
        assert_eq!(kept(&days, &keep), [days[0], days[2]]);
        let decided = decide(&points(&days), &keep, time(NOW));
        let Decision::Keep(why) = &decided[2].1 else { panic!("{decided:?}") };
        assert_eq!(why[0].to_string(), "oldest daily");
        let Decision::Keep(why) = &decided[0].1 else { panic!("{decided:?}") };
        let why: Vec<_> = why.iter().map(Reason::to_string).collect();
        assert_eq!(why, ["newest good", "daily"]);
    }

    #[test]
    fn what_is_not_good_is_never_counted() {
        let days = [
            "!2026-11-30T06:00:00Z",
            "2026-11-29T06:00:00Z",
            "!2026-11-28T06:00:00Z",
            "2026-11-27T06:00:00Z",
        ];
        // The first is newer than any good one: nothing replaces it.
        let want = ["2026-11-30T06:00:00Z", "2026-11-29T06:00:00Z"];
        assert_eq!(kept(&days, &Keep { last: 1, ..none() }), want);
        let want = ["2026-11-30T06:00:00Z", "2026-11-29T06:00:00Z", "2026-11-27T06:00:00Z"];
        assert_eq!(kept(&days, &Keep { last: 2, ..none() }), want);
        let bad = ["!2026-11-30T06:00:00Z", "!2026-11-29T06:00:00Z"];
        assert_eq!(kept(&bad, &Keep { last: 1, ..none() }).len(), 2, "nothing else is there");
    }

    #[test]
    fn a_clock_that_ran_ahead_does_not_cost_the_newest_real_one() {
        let days = ["2031-01-01T00:00:00Z", "2026-11-30T06:00:00Z", "2026-11-29T06:00:00Z"];
        assert_eq!(kept(&days, &Keep { last: 1, ..none() }), days[..2]);
        assert_eq!(kept(&days, &Keep { within: "1d1h".parse().ok(), ..none() }), days);
    }

    #[test]
    fn times_back_are_read_as_restic_reads_them() {
        for (text, want) in [
            ("7d", Some("7d")),
            ("12h", Some("12h")),
            ("1y5m7d2h", Some("1y5m7d2h")),
            ("2h1y", Some("1y2h")),
            ("1d1d", Some("2d")),
            ("0d", None),
            ("", None),
            ("7", None),
            ("d", None),
            ("7w", None),
            ("7d5", None),
            ("-7d", None),
            ("+7d", None),
            ("7 d", None),
            ("99999d", None),
        ] {
            let got = text.parse::<Within>().ok().map(|within| within.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
        let far = Within { years: 9999, ..Within::default() };
        assert!(far.before(time("9999-01-01T00:00:00Z")).as_second() < 0);
    }

    /// The words of restic's manual, without its loop.
    fn by_the_manual(
        times: &[Timestamp],
        count: u32,
        period: impl Fn(Timestamp) -> String,
    ) -> BTreeSet<usize> {
        let mut kept = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for (nth, time) in times.iter().enumerate() {
            if seen.len() < count as usize && seen.insert(period(*time)) {
                kept.insert(nth);
            }
        }
        if !times.is_empty() && seen.len() < count as usize {
            kept.insert(times.len() - 1);
        }
        kept
    }

    prop_compose! {
        fn some_points()(
            all in proptest::collection::vec((0..40_000_000_i64, proptest::bool::weighted(0.8)), 0..60)
        ) -> Vec<Point<usize>> {
            let start = time("2025-06-01T00:00:00Z").as_second();
            let point = |(id, (at, good)): (usize, (i64, bool))| {
                Point { id, time: Timestamp::from_second(start + at).unwrap(), good }
            };
            all.into_iter().enumerate().map(point).collect()
        }
    }

    prop_compose! {
        fn some_rules()(
            last in 0..4_u32, hourly in 0..30_u32, daily in 0..10_u32,
            weekly in 0..6_u32, monthly in 0..6_u32, within in proptest::option::of(1..400_u16),
        ) -> Keep {
            let within = within.map(|days| Within { days, ..Within::default() });
            Keep { last, hourly, daily, weekly, monthly, within }
        }
    }

    fn ids(points: &[Point<usize>], keep: &Keep) -> BTreeSet<usize> {
        let decided = decide(points, keep, time(NOW));
        decided.into_iter().filter(|(_, d)| *d != Decision::Remove).map(|(id, _)| id).collect()
    }

    proptest! {
        #[test]
        fn the_newest_good_one_always_stays(points in some_points(), keep in some_rules()) {
            let kept = ids(&points, &keep);
            let good = || points.iter().filter(|point| point.good);
            if let Some(newest) = good().max_by_key(|point| point.time) {
                let twins = good().filter(|point| point.time == newest.time);
                prop_assert!(twins.into_iter().any(|point| kept.contains(&point.id)));
            }
        }

        #[test]
        fn what_was_kept_is_kept_again(points in some_points(), keep in some_rules()) {
            let kept = ids(&points, &keep);
            let left: Vec<_> = points.into_iter().filter(|p| kept.contains(&p.id)).collect();
            prop_assert_eq!(ids(&left, &keep), kept);
        }

        #[test]
        fn one_rule_keeps_what_the_manual_says(points in some_points(), count in 1..20_u32) {
            let mut good: Vec<_> = points.into_iter().filter(|point| point.good).collect();
            good.sort_by_key(|point| std::cmp::Reverse(point.time));
            let times: Vec<_> = good.iter().map(|point| point.time).collect();
            let newest: BTreeSet<_> = [0, times.iter().position(|t| *t <= time(NOW)).unwrap_or(0)]
                .into_iter().filter(|_| !times.is_empty()).collect();
            let day = |t: Timestamp| t.strftime("%Y-%m-%d").to_string();
            let week = |t: Timestamp| t.strftime("%G-%V").to_string();
            let month = |t: Timestamp| t.strftime("%Y-%m").to_string();
            let hour = |t: Timestamp| t.strftime("%Y-%m-%dT%H").to_string();
            for (keep, want) in [
                (Keep { hourly: count, ..none() }, by_the_manual(&times, count, hour)),
                (Keep { daily: count, ..none() }, by_the_manual(&times, count, day)),
                (Keep { weekly: count, ..none() }, by_the_manual(&times, count, week)),
                (Keep { monthly: count, ..none() }, by_the_manual(&times, count, month)),
            ] {
                let want = want.union(&newest).map(|nth| good[*nth].id).collect::<BTreeSet<_>>();
                prop_assert_eq!(ids(&good, &keep), want, "{:?}", keep);
            }
        }

        #[test]
        fn rules_only_add(points in some_points(), one in some_rules(), other in some_rules()) {
            let more = Keep {
                last: one.last.max(other.last),
                hourly: one.hourly.max(other.hourly),
                daily: one.daily.max(other.daily),
                weekly: one.weekly.max(other.weekly),
                monthly: one.monthly.max(other.monthly),
                within: one.within,
            };
            prop_assert!(one.is_empty() || ids(&points, &one).is_subset(&ids(&points, &more)));
        }
    }
}
