//! Our own limits, so that the cloud never has to refuse a call.
//!
//! A back-end takes 20 requests in 5 s per user and 5 at once (vco-api.md 12.7, G8D, SDK), and
//! a location is a back-end: one [`Lane`] a location. A lane is a bucket of tokens; a call takes
//! one and its token comes back one window after the *reply*. The server counted the request at
//! some moment between sending and reply, so no window of the server's, sliding or fixed,
//! however long the request was under way, ever holds more calls than the bucket has tokens.
//!
//! What the portal itself allows is undocumented (13.3 no. 13); its lane is [`Portal`]'s matter.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::config::{BACK_END, RateLimit};
use super::portal::Portal;
use crate::clock::Clock;
use crate::id::Location;

/// Calls in flight at one location (vco-api.md 12.7, SDK, EX).
const AT_ONCE: u32 = 5;

/// What the server's clock may run slower than ours in one window.
pub(super) const MARGIN: Duration = Duration::from_millis(100);

/// How long a back-end is left alone after a 429 that names no time.
const BARE_HOLD: Duration = Duration::from_secs(1);
/// The longest time for which one reply keeps everybody out: a figure that is wrong would do so for
/// days.
const LONGEST_HOLD: Duration = Duration::from_mins(5);

/// Where the clients of a process meet to share their limits: the cloud counts by user, whoever
/// holds the user's token. Clones are the same meeting place.
///
/// Clients of other users, or of another portal, share nothing. Among those that share, the
/// first one's limit and clock hold, until the last of them is gone.
#[derive(Debug, Clone, Default)]
pub struct Limiters(Arc<Mutex<HashMap<String, Weak<Limits>>>>);

impl Limiters {
    /// The limits of this user, or these if it has none yet.
    pub(super) fn of(&self, user: String, new: Limits) -> Arc<Limits> {
        let mut known = lock(&self.0);
        known.retain(|_, limits| limits.strong_count() > 0);
        if let Some(limits) = known.get(&user).and_then(Weak::upgrade) {
            return limits;
        }
        let limits = Arc::new(new);
        known.insert(user, Arc::downgrade(&limits));
        limits
    }
}

/// All lanes of one credential.
#[derive(Debug)]
pub struct Limits {
    clock: Arc<dyn Clock>,
    limit: RateLimit,
    lanes: Mutex<HashMap<Location, Arc<Lane>>>,
    portal: Mutex<Portal>,
}

/// The right to have one call under way; dropping it says that the reply has come.
#[derive(Debug)]
pub struct Pass {
    lane: Option<(Arc<Lane>, Arc<dyn Clock>)>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Limits {
    /// Lanes with this limit, or with the back-end's figures.
    pub fn new(limit: Option<RateLimit>, clock: Arc<dyn Clock>) -> Self {
        let portal = Mutex::new(Portal::new(limit));
        Self { clock, limit: limit.unwrap_or(BACK_END), lanes: Mutex::default(), portal }
    }

    /// Waits until a call may be sent.
    ///
    /// # Errors
    /// The cloud has asked to be left alone for longer than `patience`: for how long still.
    pub async fn enter(&self, at: Option<&Location>, patience: Duration) -> Result<Pass, Duration> {
        let pass = match at.and_then(|at| self.lane(at)) {
            Some(lane) => self.enter_lane(lane, patience).await?,
            None => Pass { lane: None, _permit: None },
        };
        loop {
            let wait = {
                let mut portal = lock(&self.portal);
                bounded(portal.held(self.clock.elapsed()), patience)?;
                portal.take(self.clock.elapsed())
            };
            match wait {
                None => return Ok(pass),
                Some(wait) => self.clock.sleep(wait).await,
            }
        }
    }

    /// The portal let a call through.
    pub fn passed(&self) {
        lock(&self.portal).passed(self.clock.elapsed());
    }

    /// A 429 came for a call sent at `sent` on our clock: nobody else enters the same lane
    /// before the time it names is over.
    pub fn throttled(&self, at: Option<&Location>, sent: Duration, retry_after: Option<Duration>) {
        let now = self.clock.elapsed();
        let retry_after = retry_after.map(|asked| asked.min(LONGEST_HOLD));
        let Some((at, lane)) = at.and_then(|at| Some((at, self.lane(at)?))) else {
            lock(&self.portal).throttled(now, sent, retry_after);
            return;
        };
        let surprising = {
            let mut tokens = lock(&lane.tokens);
            tokens.hold(now + retry_after.unwrap_or(BARE_HOLD));
            tokens.used(now) * 2 < tokens.calls
        };
        if surprising {
            lock(&self.portal).suspect(now, sent, at, retry_after);
        }
    }

    fn lane(&self, at: &Location) -> Option<Arc<Lane>> {
        let RateLimit::Per { calls, window } = self.limit else { return None };
        let mut lanes = lock(&self.lanes);
        let lane = lanes.entry(at.clone()).or_insert_with(|| Arc::new(Lane::new(calls, window)));
        Some(lane.clone())
    }

    async fn enter_lane(&self, lane: Arc<Lane>, patience: Duration) -> Result<Pass, Duration> {
        // A closed semaphore cannot be: nobody closes it.
        let permit = lane.gate.clone().acquire_owned().await.ok();
        loop {
            let wait = {
                let mut tokens = lock(&lane.tokens);
                bounded(tokens.held(self.clock.elapsed()), patience)?;
                tokens.take(self.clock.elapsed())
            };
            match wait {
                None => break,
                Some(wait) => self.clock.sleep(wait).await,
            }
        }
        Ok(Pass { lane: Some((lane, self.clock.clone())), _permit: permit })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some((lane, clock)) = &self.lane {
            lock(&lane.tokens).give_back(clock.elapsed());
        }
    }
}

/// Nobody waits longer than this.
fn bounded(held: Duration, patience: Duration) -> Result<(), Duration> {
    if held > patience { Err(held) } else { Ok(()) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Lane {
    gate: Arc<Semaphore>,
    tokens: Mutex<Tokens>,
}

impl Lane {
    fn new(calls: u32, window: Duration) -> Self {
        let gate = Arc::new(Semaphore::new(AT_ONCE.min(calls) as usize));
        Self { gate, tokens: Mutex::new(Tokens::new(calls as usize, window + MARGIN)) }
    }
}

/// A bucket whose tokens come back a while after they are given back.
#[derive(Debug)]
struct Tokens {
    calls: usize,
    after: Duration,
    out: usize,
    resting: VecDeque<Duration>,
    held_until: Duration,
}

impl Tokens {
    fn new(calls: usize, after: Duration) -> Self {
        Self { calls, after, out: 0, resting: VecDeque::new(), held_until: Duration::ZERO }
    }

    /// Takes a token, or says how long to wait before asking again.
    fn take(&mut self, now: Duration) -> Option<Duration> {
        let held = self.held(now);
        if !held.is_zero() {
            return Some(held);
        }
        if self.used(now) < self.calls {
            self.out += 1;
            return None;
        }
        // Without a resting token all are out, which the gate rules out.
        let first = self.resting.front().copied().unwrap_or(now);
        Some((first + self.after).saturating_sub(now).max(Duration::from_millis(1)))
    }

    /// How long nobody may enter.
    fn held(&self, now: Duration) -> Duration {
        self.held_until.saturating_sub(now)
    }

    /// Tokens that are out or resting.
    fn used(&mut self, now: Duration) -> usize {
        while self.resting.front().is_some_and(|at| *at + self.after <= now) {
            self.resting.pop_front();
        }
        self.out + self.resting.len()
    }

    fn give_back(&mut self, now: Duration) {
        self.out -= 1;
        self.resting.push_back(now);
    }

    fn hold(&mut self, until: Duration) {
        self.held_until = self.held_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stepped;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(name: &str) -> Location {
        name.parse().unwrap()
    }

    /// Runs calls against a lane as fast as it lets them, each with a latency from the cycle;
    /// returns when the server counted each, at the worst moment: early for even calls (on sending),
    /// late for odd ones (just before the reply).
    fn counted_times(tokens: &mut Tokens, latencies: &[u64], calls: usize) -> Vec<Duration> {
        let (mut now, mut counted) = (Duration::ZERO, Vec::new());
        let mut under_way: Vec<Duration> = Vec::new();
        while counted.len() < calls {
            under_way.retain(|end| {
                let over = *end <= now;
                if over {
                    tokens.give_back(*end);
                }
                !over
            });
            if under_way.len() < AT_ONCE as usize && tokens.take(now).is_none() {
                let latency = ms(latencies[counted.len() % latencies.len()]);
                counted.push(if counted.len() % 2 == 0 { now } else { now + latency });
                under_way.push(now + latency);
            } else {
                now += ms(10);
            }
        }
        counted.sort();
        counted
    }

    #[test]
    fn no_window_of_the_server_holds_more_than_it_allows() {
        for latencies in [&[0][..], &[200], &[10, 3000, 50], &[4900, 10], &[20_000, 1, 1, 1]] {
            let mut tokens = Tokens::new(20, ms(5000) + MARGIN);
            let counted = counted_times(&mut tokens, latencies, 120);
            for window in counted.windows(21) {
                let span = window[20].saturating_sub(window[0]);
                assert!(span >= ms(5000), "{latencies:?}: 21 calls in {span:?}");
            }
        }
    }

    #[test]
    fn a_lane_is_as_fast_as_it_may_be() {
        let mut tokens = Tokens::new(20, ms(5000) + MARGIN);
        let counted = counted_times(&mut tokens, &[200], 100);
        let rate = 100.0 / counted.last().unwrap().as_secs_f64();
        assert!(rate > 4.0, "{rate} calls a second"); // the burst included; 20/5 s is 4
    }

    #[tokio::test]
    async fn five_at_once_and_locations_apart() {
        let clock = Stepped::at(0.0);
        let limits = Arc::new(Limits::new(None, clock.clone()));
        let mut passes = Vec::new();
        for _ in 0..5 {
            passes.push(limits.enter(Some(&at("a")), PATIENCE).await.unwrap());
        }
        let waiting = {
            let limits = limits.clone();
            tokio::spawn(async move { limits.enter(Some(&at("a")), PATIENCE).await.unwrap() })
        };
        let _other = limits.enter(Some(&at("b")), PATIENCE).await.unwrap();
        let _none = limits.enter(None, PATIENCE).await.unwrap();
        assert!(!waiting.is_finished());
        passes.pop();
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn the_twenty_first_call_waits_for_the_window() {
        let clock = Stepped::at(0.0);
        let limits = Arc::new(Limits::new(None, clock.clone()));
        for _ in 0..20 {
            drop(limits.enter(Some(&at("a")), PATIENCE).await.unwrap());
        }
        let waiting = {
            let limits = limits.clone();
            tokio::spawn(async move { limits.enter(Some(&at("a")), PATIENCE).await.unwrap() })
        };
        tokio::task::yield_now().await;
        clock.advance(ms(5050));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.advance(ms(51));
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn off_is_off_and_a_limit_of_ones_own_holds_for_the_portal_too() {
        let clock = Stepped::at(0.0);
        let off = Limits::new(Some(RateLimit::Off), clock.clone());
        for _ in 0..100 {
            std::mem::forget(off.enter(Some(&at("a")), PATIENCE).await.unwrap());
        }
        let own = Limits::new(Some(RateLimit::Per { calls: 2, window: ms(1000) }), clock.clone());
        drop(own.enter(None, PATIENCE).await.unwrap());
        drop(own.enter(Some(&at("a")), PATIENCE).await.unwrap());
        assert!(lock(&own.portal).take(clock.elapsed()).is_some());
    }

    #[test]
    fn clients_of_one_user_share_and_others_do_not() {
        let (limiters, clock) = (Limiters::default(), Stepped::at(0.0));
        let of = |user: &str| limiters.clone().of(user.into(), Limits::new(None, clock.clone()));
        let (first, second, other) = (of("a"), of("a"), of("b"));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        drop((first, second));
        assert!(!Arc::ptr_eq(&of("a"), &other));
        assert_eq!(lock(&limiters.0).len(), 2, "what nobody uses is forgotten");
    }

    #[test]
    fn a_held_lane_lets_nobody_in() {
        let mut tokens = Tokens::new(20, ms(5000));
        tokens.hold(ms(3000));
        assert_eq!(tokens.take(ms(1000)), Some(ms(2000)));
        assert_eq!(tokens.take(ms(3000)), None);
    }

    #[test]
    fn two_back_ends_far_below_their_limits_are_the_portal() {
        let clock = Stepped::at(0.0);
        let limits = Limits::new(None, clock.clone());
        limits.throttled(Some(&at("a")), ms(0), None);
        limits.throttled(Some(&at("a")), ms(0), None);
        assert_eq!(lock(&limits.portal).calls(), None);
        limits.throttled(Some(&at("b")), ms(0), None);
        assert!(lock(&limits.portal).calls().is_some());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_cloud_that_asks_to_be_left_alone_for_long() {
        let clock = Stepped::at(0.0);
        let limits = Limits::new(None, clock.clone());
        for at in [Some(at("a")), None] {
            limits.throttled(at.as_ref(), ms(0), Some(Duration::from_hours(1)));
            let left = limits.enter(at.as_ref(), PATIENCE).await.unwrap_err();
            assert_eq!(left, LONGEST_HOLD, "and not for as long as one reply says");
        }
        clock.advance(LONGEST_HOLD);
        assert!(limits.enter(Some(&at("a")), PATIENCE).await.is_ok());
    }
}
