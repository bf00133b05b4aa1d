//! The portal's lane, which learns what nobody documents: pure.
//!
//! It is open until a 429 comes. The calls of the window before that, without those refused,
//! are what the portal let through: nine in ten of these are allowed from then on. What came
//! of calls still under way is only learnt later, so each further refusal of one of them makes
//! it one less. A slow portal's replies tell more than what was sent just now; the greater
//! count is taken. Where callers have to wait, quiet times raise the lane, at first soon and by
//! much; each raise that was too much makes the next one later and smaller.

use std::collections::VecDeque;
use std::time::Duration;

use super::config::RateLimit;
use super::limit::MARGIN;
use crate::id::Location;

/// The window in which the lane counts.
const WINDOW: Duration = Duration::from_secs(5);

/// How long the portal must be quiet before its lane is first raised.
const FIRST_QUIET: Duration = Duration::from_secs(10);

/// The longest such time.
const LONGEST_QUIET: Duration = Duration::from_mins(1);

/// How often the time is doubled and the raise halved.
const MOST_CAUTION: u32 = 3;

/// Fewer calls a window are never taught: a portal in front of many back-ends lets through at
/// least what one of them takes.
const LEAST: usize = 20;

/// From this many calls a window, a taught lane is open again.
const OPEN: usize = 2000;

/// The portal's lane. It counts what is sent in a window, not what is in flight: a slow write
/// must not keep another location waiting.
#[derive(Debug)]
pub struct Portal {
    /// Calls a window; `None` is open.
    calls: Option<usize>,
    window: Duration,
    fixed: bool,
    /// When the calls of the last window were sent, those refused since left out.
    sent: VecDeque<Duration>,
    /// When replies other than 429 came.
    replied: VecDeque<Duration>,
    held_until: Duration,
    lesson: Option<Lesson>,
    quiet_since: Duration,
    /// Whether anybody had to wait since the last raise.
    waited: bool,
    /// Whether the lane was raised since the last lesson.
    raised: bool,
    caution: u32,
    suspected: Option<(Duration, Location)>,
}

/// What one burst of 429 teaches.
#[derive(Debug)]
struct Lesson {
    began: Duration,
    before: Option<usize>,
    /// Sent before it began and not refused so far.
    unrefused: usize,
    /// Surely let through.
    replied: usize,
}

impl Portal {
    /// An open lane, or one with this limit.
    pub fn new(limit: Option<RateLimit>) -> Self {
        let (calls, window) = match limit {
            Some(RateLimit::Per { calls, window }) => (Some(calls as usize), window + MARGIN),
            Some(RateLimit::Off) | None => (None, WINDOW + MARGIN),
        };
        Self {
            calls,
            window,
            fixed: limit.is_some(),
            sent: VecDeque::new(),
            replied: VecDeque::new(),
            held_until: Duration::ZERO,
            lesson: None,
            quiet_since: Duration::ZERO,
            waited: false,
            raised: false,
            caution: 0,
            suspected: None,
        }
    }

    /// Calls a window; `None`: any number.
    #[cfg(test)]
    pub fn calls(&self) -> Option<usize> {
        self.calls
    }

    /// How long nobody may send anything.
    pub fn held(&self, now: Duration) -> Duration {
        self.held_until.saturating_sub(now)
    }

    /// Lets a call be sent, or says how long to wait before asking again.
    pub fn take(&mut self, now: Duration) -> Option<Duration> {
        let held = self.held(now);
        if !held.is_zero() {
            return Some(held);
        }
        self.raise(now);
        forget(&mut self.sent, now, self.window);
        if self.calls.is_none_or(|calls| self.sent.len() < calls) {
            self.sent.push_back(now);
            return None;
        }
        self.waited = true;
        let first = self.sent.front().copied().unwrap_or(now);
        Some((first + self.window).saturating_sub(now).max(Duration::from_millis(1)))
    }

    /// A reply that is no 429.
    pub fn passed(&mut self, now: Duration) {
        if !self.fixed {
            forget(&mut self.replied, now, self.window);
            self.replied.push_back(now);
        }
    }

    /// The portal refused a call that was sent at `sent`.
    pub fn throttled(&mut self, now: Duration, sent: Duration, retry_after: Option<Duration>) {
        self.held_until = self.held_until.max(now + retry_after.unwrap_or_default());
        if self.fixed {
            return;
        }
        forget(&mut self.sent, now, self.window);
        if let Some(refused) = self.sent.iter().rposition(|at| *at <= sent) {
            self.sent.remove(refused);
        }
        self.quiet_since = now;
        self.learn(now, sent);
    }

    fn learn(&mut self, now: Duration, sent: Duration) {
        let window = self.window;
        let lesson = match &mut self.lesson {
            Some(lesson) if now < lesson.began + window => {
                // What was sent since says nothing of how much was let through before.
                let counted = sent <= lesson.began;
                lesson.unrefused = lesson.unrefused.saturating_sub(usize::from(counted));
                lesson
            }
            over => {
                self.caution = (self.caution + u32::from(self.raised)).min(MOST_CAUTION);
                self.raised = false;
                forget(&mut self.replied, now, window);
                over.insert(Lesson {
                    began: now,
                    before: self.calls,
                    unrefused: self.sent.len(),
                    replied: self.replied.len(),
                })
            }
        };
        // One in ten less, for what other programs of the same user send.
        let taught = (lesson.unrefused.max(lesson.replied) * 9 / 10).max(LEAST);
        self.calls = Some(lesson.before.map_or(taught, |before| before.min(taught)));
    }

    /// A location refused a call far below its limit: if a second one does so in the same
    /// window, it is the portal that refuses.
    pub fn suspect(
        &mut self,
        now: Duration,
        sent: Duration,
        at: &Location,
        retry_after: Option<Duration>,
    ) {
        match &self.suspected {
            Some((when, other)) if now < *when + self.window && other != at => {
                self.throttled(now, sent, retry_after);
            }
            _ => self.suspected = Some((now, at.clone())),
        }
    }

    fn raise(&mut self, now: Duration) {
        let quiet = (FIRST_QUIET * (1 << self.caution)).min(LONGEST_QUIET);
        if self.fixed || !self.waited || now < self.quiet_since + quiet {
            return;
        }
        self.quiet_since = now;
        self.waited = false;
        self.raised = true;
        let raised = self.calls.map(|calls| calls + (calls >> (1 + self.caution).min(3)));
        self.calls = raised.filter(|calls| *calls < OPEN);
    }
}

fn forget(log: &mut VecDeque<Duration>, now: Duration, window: Duration) {
    while log.front().is_some_and(|at| *at + window <= now) {
        log.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vco::retry::{self, Failure, Next, Situation};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn it_is_open_until_a_429_teaches_it() {
        let mut portal = Portal::new(None);
        for _ in 0..140 {
            assert_eq!(portal.take(ms(0)), None);
        }
        // It lets 40 through, which take their time, and refuses the rest at once.
        for _ in 0..100 {
            portal.throttled(ms(200), ms(0), None);
        }
        assert_eq!(portal.calls, Some(36));
        assert_eq!(portal.take(ms(300)), Some(ms(4800)), "until those 40 are forgotten");
        let free = (0..100).take_while(|_| portal.take(ms(5100)).is_none()).count();
        assert_eq!(free, 36);
    }

    #[test]
    fn quiet_times_raise_it_if_somebody_waits() {
        for (caution, waits, calls) in [
            //  after 10, 20, 60, 120, 180 s
            (0, true, [Some(150), Some(225), Some(337), Some(505), Some(757)]),
            (1, true, [Some(100), Some(125), Some(156), Some(195), Some(243)]),
            (3, true, [Some(100), Some(100), Some(112), Some(126), Some(141)]),
            (0, false, [Some(100); 5]),
        ] {
            let mut portal = Portal { calls: Some(100), caution, ..Portal::new(None) };
            let after = [10, 20, 60, 120, 180].map(|seconds| {
                portal.waited = waits;
                portal.take(ms(seconds * 1000));
                portal.calls
            });
            assert_eq!(after, calls, "{caution} {waits}");
        }
        let mut portal = Portal { calls: Some(1500), waited: true, ..Portal::new(None) };
        portal.take(ms(60_000));
        assert_eq!(portal.calls, None, "it is open again");
    }

    /// A portal as it may be, and those who call it.
    #[derive(Debug, Clone, Copy)]
    struct World {
        /// Calls it lets through in any five seconds.
        most: usize,
        callers: usize,
        /// How long it takes to look at one call, one after the other.
        look: u64,
        /// How long a call takes that is let through, alternately.
        work: [u64; 2],
        /// Whether a 429 says when to come again.
        says_when: bool,
    }

    /// How a run went.
    #[derive(Debug, Default)]
    struct Course {
        /// Let through in each ten seconds.
        done: Vec<usize>,
        refused: usize,
        /// The most refusals of one call.
        worst: u32,
    }

    #[derive(Debug, Clone, Copy)]
    enum Caller {
        Ready { at: Duration },
        Done { at: Duration },
        Refused { at: Duration, sent: Duration, when: Option<Duration> },
    }

    /// Lets everybody call without end for two minutes, in steps of 20 ms.
    fn run(world: World) -> Course {
        let mut portal = Portal::new(None);
        let mut callers = vec![(Caller::Ready { at: ms(0) }, 0, ms(0)); world.callers];
        let (mut counted, mut free, mut course) = (VecDeque::new(), ms(0), Course::default());
        course.done = vec![0; 12];
        for now in (0..120_000).step_by(20).map(ms) {
            for (number, (caller, tries, spent)) in callers.iter_mut().enumerate() {
                match *caller {
                    Caller::Ready { at } if at <= now && portal.take(now).is_none() => {
                        free = free.max(now) + ms(world.look);
                        forget(&mut counted, free, WINDOW);
                        let at = free + ms(world.work[number % 2]);
                        *caller = if counted.len() < world.most {
                            counted.push_back(free);
                            Caller::Done { at }
                        } else {
                            let room = (counted[0] + WINDOW).saturating_sub(free).as_secs() + 1;
                            let when = world.says_when.then(|| Duration::from_secs(room));
                            Caller::Refused { at: free, sent: now, when }
                        };
                    }
                    Caller::Done { at } if at <= now => {
                        portal.passed(now);
                        course.done[usize::try_from(now.as_secs() / 10).unwrap()] += 1;
                        (*caller, *tries, *spent) = (Caller::Ready { at: now }, 0, ms(0));
                    }
                    Caller::Refused { at, sent, when } if at <= now => {
                        portal.throttled(now, sent, when);
                        *tries += 1;
                        course.refused += 1;
                        course.worst = course.worst.max(*tries);
                        let wait = again(*tries, *spent, when);
                        *spent += wait;
                        *caller = Caller::Ready { at: now + wait };
                    }
                    _ => {}
                }
            }
        }
        course
    }

    fn again(tries: u32, spent: Duration, retry_after: Option<Duration>) -> Duration {
        let next = retry::decide(Situation {
            repeatable: false,
            failure: Failure::Throttled,
            tries,
            spent,
            budget: Duration::from_mins(2),
            retry_after,
            reached_before: true,
            jitter: 0.3,
        });
        match next {
            Next::Retry(wait) => wait,
            Next::GiveUp => panic!("a 429 comes to light after {tries} tries, {spent:?}"),
        }
    }

    #[test]
    fn it_settles_close_to_what_the_portal_lets_through() {
        for (most, callers, look, work) in [
            (100, 200, 1, [20, 20]),
            (100, 200, 1, [20, 4000]),
            (100, 200, 25, [20, 20]), // a portal as slow as a debug build of the simulator
            (100, 200, 40, [20, 1000]),
            (100, 600, 2, [200, 200]),
            (40, 200, 1, [20, 300]),
            (400, 400, 1, [20, 20]),
        ] {
            for says_when in [true, false] {
                let world = World { most, callers, look, work, says_when };
                let course = run(world);
                let may = most * 2; // in ten seconds
                let settled = &course.done[3..];
                let mean = settled.iter().sum::<usize>() / settled.len();
                assert!(mean * 100 >= may * 80, "{world:?}: {course:?}");
                assert!(settled.iter().all(|done| done * 2 > may), "{world:?}: {course:?}");
                assert!(course.worst <= 4, "{world:?}: {course:?}");
                assert!(course.refused <= 3 * callers.max(most), "{world:?}: {course:?}");
            }
        }
    }
}
