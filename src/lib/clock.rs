//! Time: the only room that reads the wall clock or sleeps.
//!
//! Everything that waits takes an `Arc<dyn Clock>`. [`System`] is real time; [`Stepped`] stands
//! still until a test moves it, so that an import of an hour takes a test no time at all.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// A boxed future, because a clock is used as a trait object.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells time and lets it pass.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since an arbitrary start; never goes back. For measuring and for deadlines.
    fn elapsed(&self) -> Duration;

    /// Seconds since 1970 UTC, for comparing with what others wrote.
    fn unix(&self) -> f64;

    /// Resolves after `time` has passed on this clock.
    fn sleep(&self, time: Duration) -> Sleep;
}

/// The machine's own clock.
#[derive(Debug)]
pub struct System {
    start: Instant,
}

impl System {
    /// A clock whose [`Clock::elapsed`] starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// The same, ready to be shared.
    #[must_use]
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self::new())
    }
}

impl Default for System {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for System {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn unix(&self) -> f64 {
        unix()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(time))
    }
}

/// Resolves after `time` has really passed; for the door, which knows no clock.
#[must_use]
pub fn pause(time: Duration) -> Sleep {
    Box::pin(tokio::time::sleep(time))
}

/// Seconds since 1970 UTC, for the door too.
#[must_use]
pub fn unix() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct Stepped {
    epoch: f64,
    now: Mutex<Duration>,
    moved: watch::Sender<Duration>,
}

impl Stepped {
    /// A clock that stands at `epoch` seconds since 1970.
    #[must_use]
    pub fn at(epoch: f64) -> Arc<Self> {
        let (moved, _) = watch::channel(Duration::ZERO);
        Arc::new(Self { epoch, now: Mutex::new(Duration::ZERO), moved })
    }

    /// Moves the clock forward and wakes every sleeper whose time has come.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now += by;
        self.moved.send_replace(*now);
    }
}

impl Clock for Stepped {
    fn elapsed(&self) -> Duration {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unix(&self) -> f64 {
        self.epoch + self.elapsed().as_secs_f64()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        let until = self.elapsed() + time;
        let mut moved = self.moved.subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock; a dropped clock lets its sleepers go.
            let _ = moved.wait_for(|now| *now >= until).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stepped_clock_wakes_sleepers_in_their_time() {
        let clock = Stepped::at(1000.0);
        let early = tokio::spawn(clock.sleep(Duration::from_secs(5)));
        let late = tokio::spawn(clock.sleep(Duration::from_secs(50)));
        clock.advance(Duration::from_secs(10));
        early.await.unwrap();
        assert!(!late.is_finished());
        assert!((clock.unix() - 1010.0).abs() < 1e-9);
        clock.advance(Duration::from_secs(40));
        late.await.unwrap();
    }
}
