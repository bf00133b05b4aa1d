//! Locks as they were read back, held against what was asked.

use crate::backup::Error;
use crate::s3::{Bucket, Mode, Retention};

/// A date may be rounded on its way; so many seconds are no difference.
const ROUNDING: u64 = 2;

/// What an object's lock turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockSeen {
    /// None is needed.
    NotNeeded,
    /// It is as asked.
    Held(Mode, u64),
    /// It is less than asked; what it is.
    Less(String),
    /// This key may not read it; why.
    Unreadable(String),
}

impl LockSeen {
    /// The worse of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (less @ Self::Less(_), _) | (_, less @ Self::Less(_)) => less,
            (unread @ Self::Unreadable(_), _) | (_, unread @ Self::Unreadable(_)) => unread,
            (Self::Held(a, until_a), Self::Held(b, until_b)) => {
                let mode = if a == Mode::Governance { a } else { b };
                Self::Held(mode, until_a.min(until_b))
            }
            (Self::NotNeeded, other) => other,
            (held, Self::NotNeeded) => held,
        }
    }
}

/// What is needed of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Mode and end (seconds since 1970) that were asked for in so many words.
    pub asked: Option<(Mode, u64)>,
    /// Whether there has to be one at all.
    pub locked: bool,
    /// The server's time.
    pub now: u64,
}

/// Reads an object version's lock.
pub async fn read_back(
    bucket: &Bucket,
    key: &str,
    version: Option<&str>,
    need: Need,
) -> Result<LockSeen, Error> {
    if need.asked.is_none() && !need.locked {
        return Ok(LockSeen::NotNeeded);
    }
    let doing = format!("cannot read the lock of {key} back");
    let retention = bucket.retention(key, version).await.map_err(Error::doing(doing))?;
    Ok(judge(&retention, need, name(key)))
}

/// The last name of a key.
fn name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn judge(retention: &Retention, need: Need, name: &str) -> LockSeen {
    let Retention::Locked { mode, until } = *retention else {
        return match retention {
            Retention::Unreadable(why) => LockSeen::Unreadable(format!("{name}: {why}")),
            _ => LockSeen::Less(format!("{name} is not locked")),
        };
    };
    match need.asked {
        Some((Mode::Compliance, _)) if mode == Mode::Governance => {
            LockSeen::Less(format!("{name} is locked as governance only"))
        }
        Some((_, wanted)) if until + ROUNDING < wanted => {
            LockSeen::Less(format!("{name} is locked for {} s less than asked", wanted - until))
        }
        _ if until <= need.now => LockSeen::Less(format!("the lock of {name} has run out")),
        _ => LockSeen::Held(mode, until),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_only_if_it_is_what_was_asked() {
        let (governance, compliance) = (Mode::Governance, Mode::Compliance);
        let locked = |mode, until| Retention::Locked { mode, until };
        let need = |asked| Need { asked, locked: true, now: 1000 };
        for (retention, asked, held) in [
            (locked(governance, 5000), Some((governance, 5000)), Some((governance, 5000))),
            (locked(governance, 4999), Some((governance, 5000)), Some((governance, 4999))),
            (locked(governance, 4000), Some((governance, 5000)), None),
            (locked(compliance, 9000), Some((governance, 5000)), Some((compliance, 9000))),
            (locked(governance, 9000), Some((compliance, 5000)), None),
            (locked(governance, 5000), None, Some((governance, 5000))),
            (locked(governance, 1000), None, None),
            (Retention::None, None, None),
            (Retention::None, Some((governance, 5000)), None),
        ] {
            let seen = judge(&retention, need(asked), "data");
            match held {
                Some((mode, until)) => assert_eq!(seen, LockSeen::Held(mode, until)),
                None => assert!(matches!(&seen, LockSeen::Less(why) if why.contains("data"))),
            }
        }
        let unreadable = judge(&Retention::Unreadable("AccessDenied".into()), need(None), "data");
        assert_eq!(unreadable, LockSeen::Unreadable("data: AccessDenied".into()));
    }

    #[test]
    fn of_several_locks_the_worst_counts() {
        let held = |mode, until| LockSeen::Held(mode, until);
        let less = || LockSeen::Less("x".into());
        let unread = || LockSeen::Unreadable("y".into());
        for (a, b, worst) in [
            (held(Mode::Compliance, 5), held(Mode::Governance, 7), held(Mode::Governance, 5)),
            (held(Mode::Compliance, 5), LockSeen::NotNeeded, held(Mode::Compliance, 5)),
            (held(Mode::Compliance, 5), unread(), unread()),
            (less(), unread(), less()),
            (LockSeen::NotNeeded, less(), less()),
        ] {
            assert_eq!(a.clone().and(b.clone()), worst);
            assert_eq!(b.and(a), worst);
        }
    }
}
