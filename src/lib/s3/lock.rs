//! Object Lock: what a bucket does by default, what an object has, and legal holds.

use std::fmt;

use aws_sdk_s3::primitives::{DateTime, DateTimeFormat as Format};
use aws_sdk_s3::types::{
    DefaultRetention, ObjectLockConfiguration, ObjectLockEnabled, ObjectLockLegalHold,
    ObjectLockLegalHoldStatus, ObjectLockMode, ObjectLockRetentionMode, ObjectLockRule,
};

use super::call::{self, Call};
use super::client::Bucket;
use super::error::{Error, Kind};
use crate::fault::{Class, Fault as _};

const DAY: u64 = 86_400;

/// How strict a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Who has a special permission may lift it.
    Governance,
    /// Nobody may lift it, not the account's owner either.
    Compliance,
}

impl Mode {
    /// The word of manifests and options.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Governance => "governance",
            Self::Compliance => "compliance",
        }
    }

    pub(super) fn of_object(self) -> ObjectLockMode {
        match self {
            Self::Governance => ObjectLockMode::Governance,
            Self::Compliance => ObjectLockMode::Compliance,
        }
    }

    pub(super) fn of_retention(self) -> ObjectLockRetentionMode {
        match self {
            Self::Governance => ObjectLockRetentionMode::Governance,
            Self::Compliance => ObjectLockRetentionMode::Compliance,
        }
    }

    /// Reads `GOVERNANCE` or `COMPLIANCE`.
    pub(super) fn read(text: &str) -> Option<Self> {
        match text.to_ascii_uppercase().as_str() {
            "GOVERNANCE" => Some(Self::Governance),
            "COMPLIANCE" => Some(Self::Compliance),
            _ => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a bucket says of locking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockConfig {
    /// It cannot be read; why.
    Unknown(String),
    /// The bucket was made without locking.
    Off,
    /// Locking is on.
    On {
        /// What new objects get unasked: the mode, and for how many seconds.
        default: Option<(Mode, u64)>,
    },
}

/// What an object version's lock is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retention {
    /// Locked.
    Locked {
        /// How strictly.
        mode: Mode,
        /// Until when, in seconds since 1970.
        until: u64,
    },
    /// Not locked (a legal hold may be on it all the same).
    None,
    /// It cannot be read; why.
    Unreadable(String),
}

/// Whether a legal hold is on an object version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// It is, until somebody takes it off.
    On,
    /// It is not.
    Off,
    /// It cannot be read; why.
    Unreadable(String),
}

pub(super) fn date(unix: u64) -> DateTime {
    DateTime::from_secs(i64::try_from(unix).unwrap_or(i64::MAX))
}

pub(super) fn unix(date: &DateTime) -> Option<u64> {
    u64::try_from(date.secs()).ok()
}

/// Why something cannot be read, short enough for a table's cell.
fn why(error: &Error) -> String {
    match (error.code(), error.status()) {
        (Some(code), _) => code.to_owned(),
        (None, Some(status)) => format!("HTTP {status}"),
        (None, None) => error.to_string(),
    }
}

/// Answers that say "there is none" (AWS; versitygw; SeaweedFS and radosgw); of a bucket without
/// locking some say `InvalidRequest`, "Bucket is missing Object Lock Configuration".
fn says_none(error: &Error) -> bool {
    let message = || error.message().unwrap_or_default().to_ascii_lowercase();
    error.code() == Some("InvalidRequest") && message().contains("lock")
        || matches!(
            error.code(),
            Some(
                "NoSuchObjectLockConfiguration"
                    | "NoSuchObjectLegalHold"
                    | "ObjectLockConfigurationNotFoundError"
                    | "ObjectLockConfigurationNotFound"
                    | "BucketHasNoObjectLockConfiguration"
                    | "InvalidBucketObjectLockConfiguration"
                    | "InvalidBucketState"
            )
        )
}

/// Whether the store answered at all: what it says in that case is an answer, too. That it does
/// not know us, or not here, is none.
fn is_answer(error: &Error) -> bool {
    let unknown = matches!(error.class(), Class::Auth | Class::Usage) && !error.is_denied();
    !unknown
        && matches!(error.kind(), Kind::Refused { .. } | Kind::Garbled)
        && !matches!(error.code(), Some("NoSuchBucket" | "NoSuchKey" | "NoSuchVersion"))
        && error.status() != Some(404)
}

impl Bucket {
    /// What the bucket does by default. An answer that makes no sense (kopia/kopia#913: a store
    /// that sends a listing) is [`LockConfig::Unknown`], not an error.
    pub async fn lock_config(&self) -> Result<LockConfig, Error> {
        let call = Call::new("read the lock configuration", self.at("")).tries(3);
        let request = self.client().get_object_lock_configuration().bucket(self.name());
        let sent = self.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        match sent.await {
            Ok(reply) => Ok(reply.object_lock_configuration().map_or_else(
                || LockConfig::Unknown("the store's answer makes no sense".to_owned()),
                read_config,
            )),
            Err(error) if says_none(&error) => Ok(LockConfig::Off),
            Err(error) if is_answer(&error) => Ok(LockConfig::Unknown(why(&error))),
            Err(error) => Err(error),
        }
    }

    /// The lock of an object version. HEAD tells it as a rule; where it does not,
    /// `GetObjectRetention` is asked: versitygw enforces a bucket's default without showing it,
    /// and AWS leaves the headers out for keys without the right to read them.
    pub async fn retention(&self, key: &str, version: Option<&str>) -> Result<Retention, Error> {
        match self.head(key, version).await {
            Ok(Some(head)) if head.lock.is_some() => {
                let (mode, until) = head.lock.unwrap_or((Mode::Governance, 0));
                return Ok(Retention::Locked { mode, until });
            }
            Ok(_) => {}
            Err(error) if is_answer(&error) => {}
            Err(error) => return Err(error),
        }
        self.asked_retention(key, version).await
    }

    async fn asked_retention(&self, key: &str, version: Option<&str>) -> Result<Retention, Error> {
        let call = Call::new("read the lock", self.at(key)).tries(2);
        let request = self.client().get_object_retention().bucket(self.name()).key(key);
        let request = request.set_version_id(version.map(str::to_owned));
        let sent = self.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        match sent.await {
            Ok(reply) => Ok(reply
                .retention()
                .and_then(|lock| {
                    let mode = Mode::read(lock.mode()?.as_str())?;
                    Some(Retention::Locked { mode, until: unix(lock.retain_until_date()?)? })
                })
                .unwrap_or(Retention::None)),
            Err(error) if error.reply().is_some() => Ok(error
                .reply()
                .and_then(read_leniently)
                .unwrap_or_else(|| Retention::Unreadable(why(&error)))),
            Err(error) if says_none(&error) => Ok(Retention::None),
            // SeaweedFS says no more than this of a bucket without locking.
            Err(error) if error.code() == Some("InvalidRequest") && self.locks_nothing().await => {
                Ok(Retention::None)
            }
            Err(error) if is_answer(&error) => Ok(Retention::Unreadable(why(&error))),
            Err(error) => Err(error),
        }
    }

    async fn locks_nothing(&self) -> bool {
        matches!(self.lock_config().await, Ok(LockConfig::Off))
    }

    /// Whether a legal hold is on an object version.
    pub async fn legal_hold(&self, key: &str, version: Option<&str>) -> Result<Hold, Error> {
        let call = Call::new("read the legal hold", self.at(key)).tries(2);
        let request = self.client().get_object_legal_hold().bucket(self.name()).key(key);
        let request = request.set_version_id(version.map(str::to_owned));
        let sent = self.run(&call, |try_| call::of(request.clone().customize(), try_).send());
        match sent.await {
            Ok(reply) => {
                let status = reply.legal_hold().and_then(ObjectLockLegalHold::status);
                let on = status == Some(&ObjectLockLegalHoldStatus::On);
                Ok(if on { Hold::On } else { Hold::Off })
            }
            Err(error) if says_none(&error) => Ok(Hold::Off),
            Err(error) if is_answer(&error) => Ok(Hold::Unreadable(why(&error))),
            Err(error) => Err(error),
        }
    }

    /// Puts a legal hold on an object version, or takes it off.
    pub async fn set_legal_hold(
        &self,
        key: &str,
        version: Option<&str>,
        on: bool,
    ) -> Result<(), Error> {
        let call = Call::new(if on { "hold" } else { "take the hold off" }, self.at(key));
        let status =
            if on { ObjectLockLegalHoldStatus::On } else { ObjectLockLegalHoldStatus::Off };
        let request = self.client().put_object_legal_hold().bucket(self.name()).key(key);
        let request = request
            .set_version_id(version.map(str::to_owned))
            .legal_hold(ObjectLockLegalHold::builder().status(status).build());
        self.run(&call, |try_| call::of(request.clone().customize(), try_).send()).await?;
        Ok(())
    }

    /// Sets what new objects get unasked: the mode and for how many days; `None` takes it away.
    pub async fn set_default_lock(&self, default: Option<(Mode, u32)>) -> Result<(), Error> {
        let call = Call::new("set the default lock", self.at(""));
        let rule = default.map(|(mode, days)| {
            let days = i32::try_from(days).unwrap_or(i32::MAX);
            let retention = DefaultRetention::builder().mode(mode.of_retention()).days(days);
            ObjectLockRule::builder().default_retention(retention.build()).build()
        });
        let config = ObjectLockConfiguration::builder()
            .object_lock_enabled(ObjectLockEnabled::Enabled)
            .set_rule(rule)
            .build();
        let request = self.client().put_object_lock_configuration().bucket(self.name());
        let request = request.object_lock_configuration(config);
        self.run(&call, |try_| call::of(request.clone().customize(), try_).send()).await?;
        Ok(())
    }
}

/// Reads a retention whatever its document is called: versitygw 1.8 sends `ObjectLockRetention`
/// where AWS has `Retention`, and the SDK takes no other name.
fn read_leniently(reply: &str) -> Option<Retention> {
    let text = |tag: &str| {
        let (_, rest) = reply.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.trim())
    };
    let until = DateTime::from_str(text("RetainUntilDate")?, Format::DateTimeWithOffset).ok()?;
    Some(Retention::Locked { mode: Mode::read(text("Mode")?)?, until: unix(&until)? })
}

fn read_config(config: &ObjectLockConfiguration) -> LockConfig {
    if config.object_lock_enabled() != Some(&ObjectLockEnabled::Enabled) {
        return LockConfig::Unknown("the store's answer makes no sense".to_owned());
    }
    let default = config.rule().and_then(ObjectLockRule::default_retention).and_then(|rule| {
        let mode = Mode::read(rule.mode()?.as_str())?;
        let days = rule.days().map(u64::from_days).or_else(|| rule.years().map(u64::from_years));
        Some((mode, days? * DAY))
    });
    LockConfig::On { default }
}

/// Days of what a default may be given in.
trait Days {
    fn from_days(days: i32) -> Self;
    fn from_years(years: i32) -> Self;
}

impl Days for u64 {
    fn from_days(days: i32) -> Self {
        Self::try_from(days).unwrap_or(0)
    }

    fn from_years(years: i32) -> Self {
        Self::try_from(years).unwrap_or(0) * 365
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(rule: Option<DefaultRetention>) -> ObjectLockConfiguration {
        ObjectLockConfiguration::builder()
            .object_lock_enabled(ObjectLockEnabled::Enabled)
            .set_rule(rule.map(|rule| ObjectLockRule::builder().default_retention(rule).build()))
            .build()
    }

    #[test]
    fn a_retention_is_read_whatever_its_document_is_called() {
        let document = |name: &str, mode: &str, date: &str| {
            format!(
                "<?xml?><{name}><Mode>{mode}</Mode><RetainUntilDate>{date}</RetainUntilDate></{name}>"
            )
        };
        let locked = Some(Retention::Locked { mode: Mode::Compliance, until: 1_798_761_600 });
        for (reply, found) in [
            (document("ObjectLockRetention", "COMPLIANCE", "2027-01-01T00:00:00Z"), locked.clone()),
            (document("X", "COMPLIANCE", "2027-01-01T01:00:00+01:00"), locked),
            (document("Retention", "COMPLIANCE", "soon"), None),
            (document("Retention", "", "2027-01-01T00:00:00Z"), None),
            ("<ListBucketResult/>".to_owned(), None),
        ] {
            assert_eq!(read_leniently(&reply), found, "{reply}");
        }
    }

    #[test]
    fn a_default_is_read_in_days_or_years() {
        let rule = DefaultRetention::builder;
        let (governance, compliance) =
            (ObjectLockRetentionMode::Governance, ObjectLockRetentionMode::Compliance);
        for (rule, default) in [
            (None, None),
            (Some(rule().mode(governance).days(30).build()), Some((Mode::Governance, 30 * DAY))),
            (Some(rule().mode(compliance).years(1).build()), Some((Mode::Compliance, 365 * DAY))),
            (Some(rule().days(3).build()), None),
        ] {
            assert_eq!(read_config(&config(rule)), LockConfig::On { default });
        }
        let nonsense = read_config(&ObjectLockConfiguration::builder().build());
        assert!(matches!(nonsense, LockConfig::Unknown(_)));
    }
}
