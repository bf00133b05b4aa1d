//! What keeps a backup from being deleted: the locks and legal holds of its objects.

use super::Error;
use crate::s3::{Bucket, Hold, Retention, Version};
use crate::snapshot::catalog::Record;
use crate::snapshot::manifest::Lock;

/// The lock and the hold of an object, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// The lock.
    pub lock: Locked,
    /// Whether there is a legal hold; not known where this key may not ask.
    pub held: Option<bool>,
}

/// Whether something is locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Locked {
    /// It is.
    Until(Lock),
    /// The store says that it is not.
    No,
    /// It cannot be told.
    #[default]
    Unknown,
}

impl Locked {
    /// The lock, where there is one.
    #[must_use]
    pub const fn lock(self) -> Option<Lock> {
        match self {
            Self::Until(lock) => Some(lock),
            Self::No | Self::Unknown => None,
        }
    }

    /// `compliance`, `governance` or `none`, where that is known.
    #[must_use]
    pub const fn mode(self) -> Option<&'static str> {
        match self {
            Self::Until(lock) => Some(lock.mode.as_str()),
            Self::No => Some("none"),
            Self::Unknown => None,
        }
    }

    fn from(found: &Retention) -> Self {
        match found {
            Retention::Locked { mode, until } => Self::Until(Lock::until(*mode, *until)),
            Retention::None => Self::No,
            Retention::Unreadable(_) => Self::Unknown,
        }
    }
}

impl Kept {
    /// Neither locked nor held.
    pub const FREE: Self = Self { lock: Locked::No, held: Some(false) };

    /// What keeps the one or the other: the later lock, and any hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let lock = match (self.lock, other.lock) {
            (Locked::Until(a), Locked::Until(b)) if b.until > a.until => Locked::Until(b),
            (Locked::Until(lock), _) | (_, Locked::Until(lock)) => Locked::Until(lock),
            (Locked::Unknown, _) | (_, Locked::Unknown) => Locked::Unknown,
            (Locked::No, Locked::No) => Locked::No,
        };
        let held = match (self.held, other.held) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (None, _) | (_, None) => None,
            (Some(false), Some(false)) => Some(false),
        };
        Self { lock, held }
    }
}

/// Asks the store about one version of an object.
pub async fn of_object(bucket: &Bucket, key: &str, id: Option<&str>) -> Result<Kept, Error> {
    let held = hold(bucket, key, id).await?;
    Ok(Kept { lock: locked(bucket, key, id).await?, held })
}

/// A backup's lock as its manifest says, or as the store does where that is silent; and whether
/// any of its objects is held.
pub async fn of_record(bucket: &Bucket, record: &Record) -> Result<Kept, Error> {
    let said = record.found.as_ref().ok().and_then(|manifest| manifest.lock);
    let lock = match (said, &record.data) {
        (Some(lock), _) => Locked::Until(lock),
        (None, Some(data)) => locked(bucket, &data.key, data.version_id.as_deref()).await?,
        (None, None) => Locked::Unknown,
    };
    Ok(Kept { lock, held: held(bucket, record).await? })
}

/// Whether a legal hold is on any of a backup's objects.
pub async fn held(bucket: &Bucket, record: &Record) -> Result<Option<bool>, Error> {
    let objects = [Some(&record.version), record.data.as_ref(), record.pki.as_ref()];
    let mut kept = Kept::FREE;
    for Version { key, version_id, .. } in objects.into_iter().flatten() {
        let held = hold(bucket, key, version_id.as_deref()).await?;
        kept = kept.and(Kept { held, ..Kept::FREE });
    }
    Ok(kept.held)
}

async fn hold(bucket: &Bucket, key: &str, id: Option<&str>) -> Result<Option<bool>, Error> {
    let found = bucket.legal_hold(key, id).await;
    Ok(match found.map_err(Error::doing(format!("cannot read the legal hold of {key}")))? {
        Hold::On => Some(true),
        Hold::Off => Some(false),
        Hold::Unreadable(_) => None,
    })
}

async fn locked(bucket: &Bucket, key: &str, id: Option<&str>) -> Result<Locked, Error> {
    let found = bucket.retention(key, id).await;
    let found = found.map_err(Error::doing(format!("cannot read the lock of {key}")))?;
    Ok(Locked::from(&found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Mode;

    #[test]
    fn of_several_objects_the_last_lock_and_any_hold_count_and_none_is_never_guessed() {
        let until = |unix| Locked::Until(Lock::until(Mode::Governance, unix));
        let kept = |lock, held| Kept { lock, held };
        let (no, unknown, held) = (Locked::No, Locked::Unknown, Some(true));
        for (a, b, want) in [
            (Kept::FREE, Kept::FREE, Kept::FREE),
            (Kept::FREE, kept(unknown, None), kept(unknown, None)),
            (kept(unknown, None), kept(until(5), held), kept(until(5), held)),
            (kept(until(7), None), kept(until(5), Some(false)), kept(until(7), None)),
            (kept(no, held), kept(unknown, Some(false)), kept(unknown, held)),
        ] {
            assert_eq!((a.and(b), b.and(a)), (want, want), "{a:?} {b:?}");
        }
    }
}
