//! What is good, a warning, or a failure: pure.

use super::report::{Outcome, Row};
use crate::s3::{LockConfig, Mode, Retention};

/// A clock further off than this is told, in seconds (pgbackrest/pgbackrest#769).
const SKEW: f64 = 60.0;

/// AWS and its kin refuse requests whose time is further off (`RequestTimeTooSkewed`). We sign
/// by the store's clock then, other programs of the node do not.
const REFUSED_SKEW: f64 = 900.0;

/// Certificates that end sooner are told; kubeadm renews for a year, with every upgrade.
const SOON: i64 = 30;

/// How far the store's clock is ahead of this machine's.
pub fn skew(seconds: f64) -> Row {
    let side = if seconds < 0.0 { "ahead of" } else { "behind" };
    let off = seconds.abs();
    let detail = if off < 2.0 {
        "this machine and the server agree".to_owned()
    } else {
        format!("this machine is {off:.0} s {side} the server")
    };
    let outcome = if off > SKEW { Outcome::Warning } else { Outcome::Good };
    let row = Row::new("clock", "difference to the server", outcome, detail);
    if off > REFUSED_SKEW {
        row.hinted("set the clock (chrony, systemd-timesyncd): servers refuse such requests")
    } else if off > SKEW {
        row.hinted("set the clock (chrony, systemd-timesyncd); locks are counted by the server's")
    } else {
        row
    }
}

/// A certificate with this many days left.
pub fn days_left(name: &str, days: i64) -> Row {
    let row = |outcome, detail: String| Row::new("certificates", name, outcome, detail);
    match days {
        ..0 => row(Outcome::Failed, format!("expired {} days ago", -days))
            .hinted("`kubeadm certs renew all`, then restart the control plane's pods"),
        0..SOON => row(Outcome::Warning, format!("{days} days left"))
            .hinted("`kubeadm certs renew all`, then restart the control plane's pods"),
        _ => row(Outcome::Good, format!("{days} days left")),
    }
}

/// What a bucket says of locking.
pub fn lock_config(config: &LockConfig) -> Row {
    let row = |outcome, detail: String| Row::new("lock", "bucket's configuration", outcome, detail);
    match config {
        LockConfig::On { default: Some((mode, seconds)) } => {
            row(Outcome::Good, format!("locking is on; {mode} for {} by default", span(*seconds)))
        }
        LockConfig::On { default: None } => {
            row(Outcome::Good, "locking is on; nothing is locked by default".to_owned())
        }
        LockConfig::Off => row(Outcome::Warning, "the bucket was made without locking".to_owned())
            .hinted("make a bucket with locking by `capvco-backup bucket create`"),
        LockConfig::Unknown(why) => row(Outcome::Warning, format!("cannot be read: {why}"))
            .hinted("allow s3:GetBucketObjectLockConfiguration"),
    }
}

/// What was read back of a lock that was asked for (`None`: some lock, whatever the bucket says).
pub fn read_back(
    check: &str,
    wanted: Option<(Mode, u64)>,
    found: &Retention,
    unverified_ok: bool,
) -> Row {
    let row = |outcome, detail: String| Row::new("lock", check, outcome, detail);
    match (found, wanted) {
        (Retention::Locked { mode, until }, Some((asked, end)))
            if *mode != asked || until.abs_diff(end) > 1 =>
        {
            row(Outcome::Failed, format!("{asked} was asked for, {mode} is in force, not as long"))
                .hinted("the server changes locks: ask for what its bucket has by default")
        }
        (Retention::Locked { mode, .. }, _) => row(Outcome::Good, format!("{mode} is in force")),
        (Retention::None, _) => {
            row(Outcome::Failed, "accepted, and not in force: snapshots would exit 5".to_owned())
                .hinted("the server drops locks: use another server, or --lock none")
        }
        (Retention::Unreadable(why), _) if unverified_ok => {
            row(Outcome::Warning, format!("stored, but it cannot be read back: {why}"))
        }
        (Retention::Unreadable(why), _) => {
            let told = format!("cannot be read back ({why}): snapshots would exit 5");
            row(Outcome::Failed, told)
                .hinted("allow s3:GetObjectRetention, or say --lock-unverified-ok")
        }
    }
}

/// Who can open backups.
pub fn recipients(count: usize, no_encrypt: bool) -> Row {
    let row = |outcome, detail: String| Row::new("encryption", "recipients", outcome, detail);
    match (count, no_encrypt) {
        (0, true) => {
            row(Outcome::Warning, "backups are readable for all who may read the bucket".to_owned())
        }
        (_, true) => row(Outcome::Failed, "there are recipients and --no-encrypt".to_owned())
            .hinted("leave one of them out"),
        (0, false) => row(Outcome::Failed, "there is none".to_owned())
            .hinted("make keys with age-keygen and give the public ones with --recipient"),
        (1, false) => row(Outcome::Warning, "only one key opens backups".to_owned())
            .hinted("add a second recipient whose key is kept elsewhere: keys get lost"),
        (count, false) => row(Outcome::Good, format!("{count} keys open backups, each alone")),
    }
}

/// Whether keys that are given, by their public halves, open what will be encrypted.
pub fn identities(given: &[String], recipients: &[String]) -> Row {
    let opens = given.iter().filter(|key| recipients.contains(key)).count();
    let row = |outcome, detail: String| Row::new("encryption", "identities", outcome, detail);
    if opens == 0 {
        return row(Outcome::Failed, "none of them opens what will be encrypted".to_owned())
            .hinted("give the public key of one of them with --recipient (age-keygen -y FILE)");
    }
    row(Outcome::Good, format!("{opens} of {} open what will be encrypted", given.len()))
}

/// Whole days where there are some, else seconds.
fn span(seconds: u64) -> String {
    match seconds / 86_400 {
        0 => format!("{seconds} s"),
        days => format!("{days} d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::*;

    #[test]
    fn a_clock_is_off_by_more_than_a_minute_or_it_is_not() {
        for (seconds, outcome, words) in [
            (0.0, Good, "agree"),
            (1.9, Good, "agree"),
            (-1.9, Good, "agree"),
            (30.0, Good, "30 s behind"),
            (61.0, Warning, "61 s behind"),
            (-3600.0, Warning, "3600 s ahead of"),
        ] {
            let row = skew(seconds);
            assert_eq!(row.outcome, outcome, "{seconds}");
            assert!(row.detail.contains(words), "{seconds}: {}", row.detail);
            assert_eq!(row.hint.is_some(), outcome == Warning);
        }
        assert!(skew(1000.0).hint.unwrap().contains("refuse"));
    }

    #[test]
    fn certificates_end() {
        for (days, outcome, words) in [
            (-3, Failed, "3 days ago"),
            (0, Warning, "0 days"),
            (29, Warning, "29 days"),
            (30, Good, "30 days"),
            (3650, Good, "3650 days"),
        ] {
            let row = days_left("ca.crt", days);
            assert_eq!((row.outcome, row.detail.contains(words)), (outcome, true), "{days}");
        }
    }

    #[test]
    fn a_lock_is_in_force_as_it_was_asked_for_or_it_is_said() {
        let locked = |mode, until| Retention::Locked { mode, until };
        let unreadable = || Retention::Unreadable("AccessDenied".to_owned());
        let asked = Some((Mode::Governance, 100));
        for (wanted, found, ok, outcome, words) in [
            (asked, locked(Mode::Governance, 100), false, Good, "in force"),
            (asked, locked(Mode::Governance, 101), false, Good, "in force"),
            (asked, locked(Mode::Compliance, 100), false, Failed, "compliance is in force"),
            (asked, locked(Mode::Governance, 50), false, Failed, "not as long"),
            (asked, Retention::None, true, Failed, "exit 5"),
            (asked, unreadable(), false, Failed, "exit 5"),
            (asked, unreadable(), true, Warning, "AccessDenied"),
            (None, locked(Mode::Compliance, 9), false, Good, "compliance"),
            (None, Retention::None, false, Failed, "not in force"),
        ] {
            let row = read_back("x", wanted, &found, ok);
            assert_eq!(row.outcome, outcome, "{found:?}: {}", row.detail);
            assert!(row.detail.contains(words), "{found:?}: {}", row.detail);
        }
    }

    #[test]
    fn two_keys_are_better_than_one() {
        for (count, clear, outcome) in [
            (0, false, Failed),
            (1, false, Warning),
            (2, false, Good),
            (0, true, Warning),
            (1, true, Failed),
        ] {
            assert_eq!(recipients(count, clear).outcome, outcome, "{count} {clear}");
        }
    }

    #[test]
    fn a_key_opens_what_its_public_half_was_a_recipient_of() {
        let keys = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (given, recipients, outcome) in [
            (&["a", "b"][..], &["b", "c"][..], Good),
            (&["a"], &["b"], Failed),
            (&["a"], &[], Failed),
        ] {
            let row = identities(&keys(given), &keys(recipients));
            assert_eq!(row.outcome, outcome, "{given:?} {recipients:?}");
        }
    }

    #[test]
    fn a_buckets_word_on_locking_is_read() {
        for (config, outcome, words) in [
            (LockConfig::Off, Warning, "without"),
            (LockConfig::On { default: None }, Good, "by default"),
            (LockConfig::On { default: Some((Mode::Compliance, 2_592_000)) }, Good, "30 d"),
            (LockConfig::On { default: Some((Mode::Governance, 90)) }, Good, "90 s"),
            (LockConfig::Unknown("403".to_owned()), Warning, "403"),
        ] {
            let row = lock_config(&config);
            assert!(row.outcome == outcome && row.detail.contains(words), "{row:?}");
        }
    }
}
