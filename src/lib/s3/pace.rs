//! `--limit-rate`: a bucket of bytes that all transfers draw from.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most that one draw takes, in bytes: small enough that parallel transfers share fairly.
pub const CHUNK: usize = 64 * 1024;

/// So many bytes a second, with at most a quarter of a second saved up.
#[derive(Debug)]
pub struct Pace {
    rate: f64,
    chunk: usize,
    /// When the bytes drawn so far are paid for.
    paid: Mutex<Duration>,
}

/// What may be saved up while nothing moves.
const SAVED: Duration = Duration::from_millis(250);

impl Pace {
    /// `rate` in bytes a second; 0 counts as 1.
    pub fn new(rate: u64) -> Self {
        let rate = rate.max(1);
        let chunk = usize::try_from(rate / 8).unwrap_or(CHUNK).clamp(1, CHUNK);
        #[expect(clippy::cast_precision_loss, reason = "nobody limits to petabytes a second")]
        Self { rate: rate as f64, chunk, paid: Mutex::default() }
    }

    /// The most that one draw should take.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Draws `bytes` at `now`; they may move after the returned time has passed.
    pub fn draw(&self, bytes: usize, now: Duration) -> Duration {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*paid).max(now.saturating_sub(SAVED));
        #[expect(clippy::cast_precision_loss, reason = "a chunk is small")]
        let costs = Duration::from_secs_f64(bytes as f64 / self.rate);
        *paid = start + costs;
        paid.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_held_over_any_second() {
        for rate in [1_000_u64, 64_000, 1 << 20, 100 << 20] {
            let pace = Pace::new(rate);
            let (mut now, mut moved) = (Duration::from_secs(7), 0_u64);
            let start = now;
            while moved < rate * 3 {
                now += pace.draw(pace.chunk(), now);
                moved += pace.chunk() as u64;
            }
            let seconds = now.saturating_sub(start).as_secs_f64();
            assert!((2.6..=3.1).contains(&seconds), "{rate}: {seconds} s for three seconds' worth");
        }
    }

    #[test]
    fn nothing_is_saved_up_over_a_pause() {
        let pace = Pace::new(1000);
        assert!(pace.draw(1000, Duration::ZERO) >= Duration::from_millis(750));
        let later = Duration::from_mins(10);
        assert!(pace.draw(1000, later) >= Duration::from_millis(750));
    }

    #[test]
    fn a_slow_pace_moves_small_chunks() {
        assert_eq!(Pace::new(0).chunk(), 1);
        assert_eq!(Pace::new(8000).chunk(), 1000);
        assert_eq!(Pace::new(1 << 40).chunk(), CHUNK);
    }
}
