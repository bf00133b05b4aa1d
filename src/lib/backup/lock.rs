//! Which lock an object is to get: the wish of the flags, settled with what the bucket says.

use super::Error;
use crate::s3::{Bucket, LockConfig, Mode};

/// What the flags ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWish {
    /// As the bucket has it for new objects.
    BucketDefault,
    /// No lock, whatever the bucket can do. (A default of the bucket locks all the same.)
    None,
    /// This, from now on, by the server's clock.
    Explicit {
        /// How strict.
        mode: Mode,
        /// For how long, in seconds.
        seconds: u64,
    },
}

/// What is asked of the server with every object, and what a reader of the report should know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// The mode, and for how many seconds from the server's now.
    pub lock: Option<(Mode, u64)>,
    /// Whether an object that turns out unlocked is a failure.
    pub must_be_locked: bool,
    /// What the user should know.
    pub warning: Option<String>,
}

impl Settled {
    /// The lock with its end, in seconds since 1970, for a put at `now` (by the server's clock).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a date")]
    pub fn until(&self, now: f64) -> Option<(Mode, u64)> {
        // The server may refuse a date that has just passed: a lock lasts one second at least.
        self.lock.map(|(mode, seconds)| (mode, (now.ceil() as u64).saturating_add(seconds.max(1))))
    }
}

/// Settles `wish` with what `bucket` says of itself.
///
/// A default that can be read is asked for in so many words, because not every server shows an
/// object's lock that came from a default (versitygw 1.8), and a lock has to be read back.
pub async fn settle(wish: LockWish, bucket: &Bucket) -> Result<Settled, Error> {
    let config = bucket
        .lock_config()
        .await
        .map_err(Error::doing(format!("cannot ask the bucket {} for its lock", bucket.name())))?;
    decide(wish, &config, bucket.name())
}

fn decide(wish: LockWish, config: &LockConfig, bucket: &str) -> Result<Settled, Error> {
    let locked = |lock| Settled { lock, must_be_locked: true, warning: None };
    let warned = |warning: String| Settled { warning: Some(warning), ..Settled::default() };
    match (wish, config) {
        (LockWish::Explicit { .. }, LockConfig::Off) => Err(Error::declined(
            format!("the bucket {bucket} was made without Object Lock"),
            "locking can only be switched on when a bucket is made: see `bucket create`; or say \
             --lock none",
        )),
        (LockWish::Explicit { mode, seconds }, _) => Ok(locked(Some((mode, seconds)))),
        (LockWish::None, LockConfig::On { default: Some((mode, _)) }) => Ok(warned(format!(
            "the bucket {bucket} locks every object ({mode}) although none is asked for"
        ))),
        (LockWish::None, _) => Ok(Settled::default()),
        (LockWish::BucketDefault, LockConfig::On { default: Some(default) }) => {
            Ok(locked(Some(*default)))
        }
        (LockWish::BucketDefault, LockConfig::On { default: None }) => Ok(warned(format!(
            "the bucket {bucket} has no default lock: what is stored can be deleted at once; \
             say --lock governance --lock-for 30d"
        ))),
        (LockWish::BucketDefault, LockConfig::Off) => Ok(warned(format!(
            "the bucket {bucket} was made without Object Lock: what is stored can be deleted at \
             once"
        ))),
        // It may or may not have a default: only reading back will show.
        (LockWish::BucketDefault, LockConfig::Unknown(why)) => Ok(Settled {
            lock: None,
            must_be_locked: true,
            warning: Some(format!("cannot read the default lock of the bucket {bucket}: {why}")),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_and_a_bucket_give_a_lock_a_warning_or_a_refusal() {
        let explicit = LockWish::Explicit { mode: Mode::Compliance, seconds: 60 };
        let on = |default| LockConfig::On { default };
        let month = Some((Mode::Governance, 2_592_000));
        let unknown = || LockConfig::Unknown("403".into());
        let table = [
            (explicit, on(None), Some((Some((Mode::Compliance, 60)), true, false))),
            (explicit, on(month), Some((Some((Mode::Compliance, 60)), true, false))),
            (explicit, unknown(), Some((Some((Mode::Compliance, 60)), true, false))),
            (explicit, LockConfig::Off, None),
            (LockWish::None, on(None), Some((None, false, false))),
            (LockWish::None, on(month), Some((None, false, true))),
            (LockWish::None, LockConfig::Off, Some((None, false, false))),
            (LockWish::None, unknown(), Some((None, false, false))),
            (LockWish::BucketDefault, on(month), Some((month, true, false))),
            (LockWish::BucketDefault, on(None), Some((None, false, true))),
            (LockWish::BucketDefault, LockConfig::Off, Some((None, false, true))),
            (LockWish::BucketDefault, unknown(), Some((None, true, true))),
        ];
        for (wish, config, want) in table {
            let got = decide(wish, &config, "b").ok();
            let got = got.map(|s| (s.lock, s.must_be_locked, s.warning.is_some()));
            assert_eq!(got, want, "{wish:?} with {config:?}");
        }
    }

    #[test]
    fn a_lock_ends_by_the_servers_clock_and_never_in_the_past() {
        let lock = Settled { lock: Some((Mode::Governance, 60)), ..Settled::default() };
        assert_eq!(lock.until(1000.2), Some((Mode::Governance, 1061)));
        let nothing = Settled { lock: Some((Mode::Governance, 0)), ..Settled::default() };
        assert_eq!(nothing.until(1000.0), Some((Mode::Governance, 1001)));
        assert_eq!(Settled::default().until(1.0), None);
    }
}
