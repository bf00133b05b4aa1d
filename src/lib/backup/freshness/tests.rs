//! How fresh is fresh enough, and what monitoring gets to read.

use super::*;
use crate::s3::Mode;
use crate::snapshot::manifest::full;

fn seen() -> Seen {
    let manifest = full();
    let lock = manifest.lock.map_or(Locked::Unknown, Locked::Until);
    let cluster = manifest.cluster;
    let newest = Some((manifest.slot.to_string(), manifest));
    Seen { cluster, newest, stored: Some(41_022_000), lock, good: 3, not_good: 1 }
}

fn now(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_backup_is_fresh_until_its_time_is_over() {
    // It was taken at 06:00:03.
    for (most, time, state, verdict) in [
        (None, "2027-11-30T06:00:03Z", "fresh", Verdict::Done),
        (Some(8), "2026-11-30T14:00:03Z", "fresh", Verdict::Done),
        (Some(8), "2026-11-30T14:00:04Z", "too-old", Verdict::Failed),
        (Some(8), "2026-11-30T05:00:00Z", "fresh", Verdict::Done),
    ] {
        let most = most.map(Duration::from_hours);
        let report = judge(&[seen()], most, now(time), Vec::new());
        assert_eq!((report.rows[0].state, report.verdict), (state, verdict), "{most:?} {time}");
        assert_eq!(report.remarks.is_empty(), state == "fresh");
    }
    let late = judge(&[seen()], Some(Duration::from_mins(1)), now("2026-11-30T09:00:03Z"), vec![]);
    let Remark::Error(text) = &late.remarks[0] else { panic!("{late:?}") };
    assert_eq!(
        text,
        "cluster cdf818194e3a8c32: the newest good backup 20261130T060000Z is 3h old, 1m at most"
    );
}

#[test]
fn nothing_good_is_never_fresh() {
    let none = Seen { newest: None, stored: None, lock: Locked::Unknown, good: 0, ..seen() };
    let time = now("2026-11-30T07:00:00Z");
    let report = judge(std::slice::from_ref(&none), None, time, Vec::new());
    assert_eq!((report.rows[0].state, report.verdict), ("none", Verdict::Failed));
    // Beside one that has backups it is told, and is no alarm.
    let report = judge(&[seen(), none], None, time, Vec::new());
    assert_eq!((report.rows[1].state, report.verdict), ("none", Verdict::Done));
    let Remark::Warning(text) = &report.remarks[0] else { panic!("{report:?}") };
    assert!(text.contains("has no good backup, and is left out"), "{text}");
    assert_eq!(judge(&[], None, now("2026-11-30T07:00:00Z"), vec![]).verdict, Verdict::Failed);
}

#[test]
fn metrics_are_one_family_each() {
    let none = Seen {
        cluster: ClusterId(7),
        newest: None,
        stored: None,
        lock: Locked::Unknown,
        good: 0,
        not_good: 2,
    };
    let open = Seen { cluster: ClusterId(8), lock: Locked::No, ..seen() };
    let text = metrics::text(&[seen(), none, open], now("2026-11-30T07:00:00Z"));
    let first = text.lines().take(4).collect::<Vec<_>>();
    assert_eq!(
        first,
        [
            "# HELP capvco_backup_last_success_timestamp_seconds When the newest good backup was taken.",
            "# TYPE capvco_backup_last_success_timestamp_seconds gauge",
            "capvco_backup_last_success_timestamp_seconds{cluster=\"cdf818194e3a8c32\"} 1796018403",
            "capvco_backup_last_success_timestamp_seconds{cluster=\"0000000000000008\"} 1796018403",
        ]
    );
    for line in [
        "capvco_backup_size_bytes{cluster=\"cdf818194e3a8c32\"} 41022000",
        "capvco_backup_database_size_bytes{cluster=\"cdf818194e3a8c32\"} 868651008",
        "capvco_backup_revision{cluster=\"cdf818194e3a8c32\"} 84123",
        "capvco_backup_locked_until_timestamp_seconds{cluster=\"cdf818194e3a8c32\"} 1798610409",
        "capvco_backup_locked_until_timestamp_seconds{cluster=\"0000000000000008\"} 0",
        "capvco_backup_good{cluster=\"0000000000000007\"} 0",
        "capvco_backup_not_good{cluster=\"0000000000000007\"} 2",
        "capvco_backup_status_timestamp_seconds 1796022000",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("# TYPE").count(), 8);
}

#[test]
fn the_file_of_metrics_is_replaced_whole_and_readable() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("etcd.prom");
    for text in ["a 1\n", "b 2\n"] {
        metrics::write(&path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    assert!(metrics::write(&folder.path().join("no/etcd.prom"), "x").is_err());
}

#[test]
fn the_lock_shown_is_the_stores_not_the_manifests() {
    let lock = Locked::Until(Lock::until(Mode::Governance, 1_796_500_000));
    let row = row(&Seen { lock, ..seen() }, None, now("2026-11-30T07:00:00Z"));
    assert_eq!(row.lock_mode, Some("governance"));
    assert_eq!(row.locked_until.as_deref(), Some("2026-12-05T19:46:40Z"));
}
