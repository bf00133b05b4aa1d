//! Metrics for the textfile collector of Prometheus' node exporter.
//!
//! Described in docs/reference/backup-metrics.md. A cluster without a good backup has no
//! `last_success`, so that `absent()` and the counts tell it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use jiff::Timestamp;

use super::Seen;
use crate::disk::Draft;

/// One metric: name, help, and its value where there is one.
type Metric = (&'static str, &'static str, fn(&Seen) -> Option<i64>);

const METRICS: [Metric; 7] = [
    ("last_success_timestamp_seconds", "When the newest good backup was taken.", |seen| {
        Some(seen.newest.as_ref()?.1.started.as_second())
    }),
    ("size_bytes", "Bytes of the newest good backup as stored.", |seen| {
        i64::try_from(seen.stored?).ok()
    }),
    ("database_size_bytes", "Bytes of the database in the newest good backup.", |seen| {
        i64::try_from(seen.newest.as_ref()?.1.db.size).ok()
    }),
    ("revision", "The newest revision in the newest good backup.", |seen| {
        Some(seen.newest.as_ref()?.1.revision)
    }),
    (
        "locked_until_timestamp_seconds",
        "When the lock of the newest good backup ends; 0: it is not locked.",
        |seen| {
            seen.newest.as_ref().map(|_| seen.lock.lock().map_or(0, |lock| lock.until.as_second()))
        },
    ),
    ("good", "Good backups.", |seen| i64::try_from(seen.good).ok()),
    ("not_good", "Backups that are damaged, under way, or given up.", |seen| {
        i64::try_from(seen.not_good).ok()
    }),
];

/// The file's text.
pub(super) fn text(seen: &[Seen], now: Timestamp) -> String {
    let mut text = String::new();
    for (name, help, value) in METRICS {
        head(&mut text, name, help);
        for seen in seen {
            if let Some(value) = value(seen) {
                let _ =
                    writeln!(text, "capvco_backup_{name}{{cluster=\"{}\"}} {value}", seen.cluster);
            }
        }
    }
    let name = "status_timestamp_seconds";
    head(&mut text, name, "When this was looked at.");
    let _ = writeln!(text, "capvco_backup_{name} {}", now.as_second());
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP capvco_backup_{name} {help}");
    let _ = writeln!(text, "# TYPE capvco_backup_{name} gauge");
}

/// Writes the file whole or not at all: the collector may read it at any time, and reads `*.prom`
/// only.
pub(super) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut draft = Draft::create(path)?.with_mode(0o644);
    draft.write_all(text.as_bytes())?;
    draft.replace()
}
