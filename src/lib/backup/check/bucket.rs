//! Every permission, tried on an object of a few bytes that is locked for seconds.

use bytes::Bytes;

use super::super::lock::{self, Settled};
use super::super::wording::moment;
use super::report::{Outcome, Row};
use super::{Request, judge};
use crate::clock::Clock;
use crate::progress::Progress;
use crate::s3::{
    Bucket, Deleted, Error, Hold, LockConfig, Mode, Put, PutOutcome, Stored, part_size,
};

/// How long the probe is locked, in seconds: long enough to see that it cannot be deleted, on a
/// store that is slow, too. No store that we know asks for more than the future.
const LOCKED_FOR: u64 = 5;

/// Where probes lie, below the prefix.
const FOLDER: &str = "capvco-check/";

/// What was found, and what could not be removed again.
#[derive(Debug, Default)]
pub struct Probed {
    pub rows: Vec<Row>,
    pub left: Vec<String>,
}

struct Probe<'a> {
    bucket: &'a Bucket,
    request: &'a Request,
    clock: &'a dyn Clock,
    progress: &'a dyn Progress,
    key: String,
    mode: Option<Mode>,
    /// What the latest lock asked for is.
    lock: Option<(Mode, u64)>,
    must_be_locked: bool,
    made: Vec<(String, Option<String>)>,
    rows: Vec<Row>,
}

/// Tries everything; takes some seconds more than the lock of its last probe.
pub async fn probe(
    bucket: &Bucket,
    request: &Request,
    clock: &dyn Clock,
    progress: &dyn Progress,
) -> Probed {
    let unique = getrandom::u64().unwrap_or_default();
    let mut probe = Probe {
        bucket,
        request,
        clock,
        progress,
        key: format!("{}{FOLDER}{unique:016x}", request.target.prefix),
        mode: None,
        lock: None,
        must_be_locked: false,
        made: Vec::new(),
        rows: Vec::new(),
    };
    if !probe.reach().await {
        return Probed { rows: probe.rows, left: Vec::new() };
    }
    probe.time().await;
    probe.locking().await;
    probe.list().await;
    if probe.put().await {
        probe.delete_under_lock().await;
        probe.read().await;
        probe.only_once().await;
        probe.hold().await;
    }
    probe.in_parts().await;
    probe.abort().await;
    let left = probe.clean_up().await;
    Probed { rows: probe.rows, left }
}

impl Probe<'_> {
    fn good(&mut self, area: &'static str, check: &str, detail: impl Into<String>) {
        self.rows.push(Row::new(area, check, Outcome::Good, detail));
    }

    /// A permission that is lacking: fails what needs it, or only warns.
    fn lacks(&mut self, check: &str, outcome: Outcome, needed: &str, error: &Error) {
        let row = Row::of_error("s3", check, outcome, error);
        let detail = format!("{} ({needed})", row.detail);
        self.rows.push(Row { detail, ..row });
    }

    /// Whether it makes sense to go on.
    async fn reach(&mut self) -> bool {
        let at = self.bucket.endpoint().unwrap_or("AWS");
        let place = format!("{} at {at}, region {}", self.bucket.name(), self.bucket.region());
        match self.bucket.exists().await {
            Ok(true) => self.good("s3", "bucket", place),
            Ok(false) => {
                let row = Row::new("s3", "bucket", Outcome::Failed, format!("{place}: not there"));
                let hint = "check --s3-bucket, --s3-endpoint and --s3-path-style; \
                            `capvco-backup bucket create` makes one with locking";
                self.rows.push(row.hinted(hint));
                return false;
            }
            Err(error) if error.is_denied() => {
                let found = format!("{place}; this key may not look at the bucket itself");
                self.good("s3", "bucket", found);
            }
            Err(error) => {
                self.rows.push(Row::of_error("s3", "bucket", Outcome::Failed, &error));
                return false;
            }
        }
        true
    }

    async fn time(&mut self) {
        let row = match self.bucket.skew().await {
            Ok(seconds) => judge::skew(seconds),
            Err(error) => {
                Row::of_error("clock", "difference to the server", Outcome::Failed, &error)
            }
        };
        self.rows.push(row);
    }

    async fn locking(&mut self) {
        let config = match self.bucket.lock_config().await {
            Ok(config) => config,
            Err(error) => {
                let row = Row::of_error("lock", "bucket's configuration", Outcome::Failed, &error);
                return self.rows.push(row);
            }
        };
        self.rows.push(judge::lock_config(&config));
        match lock::settle(self.request.lock, self.bucket).await {
            Ok(Settled { lock, must_be_locked, warning }) => {
                self.must_be_locked = must_be_locked;
                // A default would lock the probe as long as a backup: a short lock of its own.
                let default = match config {
                    LockConfig::On { default } => default,
                    _ => None,
                };
                self.mode = lock.or(default).map(|(mode, _)| mode);
                if let Some(warning) = warning {
                    self.rows.push(Row::new("lock", "as asked for", Outcome::Warning, warning));
                }
            }
            Err(error) => {
                self.rows.push(Row::of_error("lock", "as asked for", Outcome::Failed, &error));
            }
        }
    }

    async fn now(&self) -> f64 {
        self.bucket.server_time().await.unwrap_or_else(|_| self.clock.unix())
    }

    /// Lists, and removes what earlier checks had to leave.
    async fn list(&mut self) {
        const NEEDED: &str = "needed by list, status, prune, restore without --object";
        let folder = format!("{}{FOLDER}", self.request.target.prefix);
        match self.bucket.versions(&folder).await {
            Ok(old) => {
                for version in old {
                    let id = version.version_id.as_deref();
                    let _ = self.bucket.delete(&version.key, id).await;
                }
                self.good("s3", "list versions", "allowed");
            }
            Err(error) => self.lacks("list versions", Outcome::Warning, NEEDED, &error),
        }
        match self.bucket.unfinished(&folder).await {
            Ok(old) => {
                for one in old {
                    let _ = self.bucket.abort_upload(&one.key, &one.upload_id).await;
                }
                self.good("s3", "list unfinished uploads", "allowed");
            }
            Err(error) => {
                let needed = "needed by prune, to sweep what was left";
                self.lacks("list unfinished uploads", Outcome::Warning, needed, &error);
            }
        }
    }

    async fn wanted(&mut self) -> Put {
        let lock = self.mode.map(|mode| (mode, LOCKED_FOR));
        self.lock = Settled { lock, ..Settled::default() }.until(self.now().await);
        Put { lock: self.lock, content_type: Some("text/plain".to_owned()), ..Put::default() }
    }

    async fn put(&mut self) -> bool {
        let bytes = Bytes::from_static(b"written by capvco-backup check; may be deleted\n");
        let (key, put) = (self.key.clone(), self.wanted().await);
        match self.bucket.put(&key, bytes, &put).await {
            Ok(PutOutcome::Stored(stored)) => {
                self.good("s3", "put", "allowed");
                self.made.push((key.clone(), stored.version_id.clone()));
                self.read_back("lock of an object", &key, &stored).await;
                true
            }
            Ok(PutOutcome::AlreadyThere) => false,
            Err(error) => {
                self.lacks("put", Outcome::Failed, "needed by every backup", &error);
                false
            }
        }
    }

    async fn read_back(&mut self, check: &str, key: &str, stored: &Stored) {
        if self.lock.is_none() && !self.must_be_locked {
            return;
        }
        let row = match self.bucket.retention(key, stored.version_id.as_deref()).await {
            Ok(found) => {
                judge::read_back(check, self.lock, &found, self.request.lock_unverified_ok)
            }
            Err(error) => Row::of_error("lock", check, Outcome::Failed, &error),
        };
        self.rows.push(row);
    }

    async fn read(&mut self) {
        const NEEDED: &str = "needed by list, verify, restore, and snapshot with --slot";
        let version = self.made.last().and_then(|(_, version)| version.clone());
        match self.bucket.get_small(&self.key, version.as_deref(), 1000).await {
            Ok(Some(_)) => self.good("s3", "read", "allowed"),
            Ok(None) => {
                let what = "what was just stored is not there";
                self.rows.push(Row::new("s3", "read", Outcome::Failed, what));
            }
            Err(error) => self.lacks("read", Outcome::Warning, NEEDED, &error),
        }
    }

    async fn only_once(&mut self) {
        let put = Put { only_if_absent: true, ..self.wanted().await };
        let key = self.key.clone();
        match self.bucket.put(&key, Bytes::from_static(b"again\n"), &put).await {
            Ok(PutOutcome::AlreadyThere) => self.good("s3", "put only if absent", "kept to"),
            Ok(PutOutcome::Stored(stored)) => {
                self.made.push((key, stored.version_id));
                let what = "ignored: nodes of one slot may upload twice (nothing is lost)";
                self.rows.push(Row::new("s3", "put only if absent", Outcome::Warning, what));
            }
            Err(error) => {
                let needed = "needed by snapshot with --slot";
                self.lacks("put only if absent", Outcome::Warning, needed, &error);
            }
        }
    }

    async fn hold(&mut self) {
        if self.mode.is_none() {
            return;
        }
        let version = self.made.first().and_then(|(_, version)| version.clone());
        let (key, version) = (self.key.clone(), version.as_deref());
        if let Err(error) = self.bucket.set_legal_hold(&key, version, true).await {
            return self.lacks("legal hold", Outcome::Warning, "needed by hold", &error);
        }
        let held = self.bucket.legal_hold(&key, version).await;
        match self.bucket.set_legal_hold(&key, version, false).await {
            Ok(()) if matches!(held, Ok(Hold::On)) => self.good("lock", "legal hold", "allowed"),
            Ok(()) => {
                let what = "accepted, and not seen to be in force";
                self.rows.push(Row::new("lock", "legal hold", Outcome::Warning, what));
            }
            Err(error) => self.lacks("legal hold", Outcome::Warning, "needed by hold", &error),
        }
    }

    /// Some stores lock what comes in one piece and not what comes in parts.
    async fn in_parts(&mut self) {
        const NEEDED: &str = "needed by backups of more than some megabytes";
        let key = format!("{}-parts", self.key);
        let put = self.wanted().await;
        let outcome = match self.bucket.upload(&key, &put, part_size::SMALLEST, 1).await {
            Ok(mut upload) => {
                let sent = upload.part(Bytes::from_static(b"one part\n")).await;
                upload.end(sent).await.map(|((), stored)| stored)
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(stored) => {
                self.good("s3", "upload in parts", "allowed");
                self.made.push((key.clone(), stored.version_id.clone()));
                self.read_back("lock of an upload in parts", &key, &stored).await;
            }
            Err(error) => self.lacks("upload in parts", Outcome::Failed, NEEDED, &error),
        }
    }

    async fn abort(&mut self) {
        let needed = "needed to leave nothing behind when a backup fails";
        let key = format!("{}-aborted", self.key);
        // Nothing of it stays: its lock is not waited for.
        let lock = self.lock;
        let put = self.wanted().await;
        self.lock = lock;
        let Ok(mut upload) = self.bucket.upload(&key, &put, part_size::SMALLEST, 1).await else {
            return;
        };
        let _ = upload.part(Bytes::from_static(b"one part\n")).await;
        match upload.abort().await {
            Ok(()) => self.good("s3", "abort an upload", "allowed"),
            Err(error) => self.lacks("abort an upload", Outcome::Warning, needed, &error),
        }
    }

    async fn delete_under_lock(&mut self) {
        let (Some((key, version)), Some((_, until))) = (self.made.first().cloned(), self.lock)
        else {
            return;
        };
        let check = "delete what is locked";
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit easily")]
        let too_late = self.now().await + 1.0 >= until as f64;
        if too_late {
            let what = "the server is so slow that the lock has ended before it could be tried";
            return self.rows.push(Row::new("lock", check, Outcome::Skipped, what));
        }
        match self.bucket.delete(&key, version.as_deref()).await {
            Ok(Deleted::Locked { .. }) => self.good("lock", check, "refused, as it should be"),
            Ok(Deleted::Gone) => {
                self.made.remove(0);
                let row = Row::new("lock", check, Outcome::Failed, "it is gone: locks do nothing");
                self.rows.push(row.hinted("use another server: this one cannot keep backups"));
            }
            Err(error) if error.is_denied() => {
                self.good("lock", check, "refused: this key may not delete at all");
            }
            Err(error) => {
                self.rows.push(Row::of_error("lock", check, Outcome::Warning, &error));
            }
        }
    }

    /// Waits for the lock's end and removes everything; what has to stay is said.
    async fn clean_up(&mut self) -> Vec<String> {
        if self.made.is_empty() {
            return Vec::new();
        }
        if let Some((_, until)) = self.lock {
            #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit easily")]
            let wait = (until as f64 - self.now().await + 1.0).clamp(0.0, 60.0);
            if wait > 0.0 {
                self.progress.say(&format!(
                    "waiting {wait:.0} s until the lock of the probes ends, to remove them"
                ));
            }
            self.clock.sleep(std::time::Duration::from_secs_f64(wait)).await;
        }
        let mut left = Vec::new();
        let mut denied = false;
        for (key, version) in std::mem::take(&mut self.made) {
            match self.bucket.delete(&key, version.as_deref()).await {
                Ok(Deleted::Gone) => {}
                Ok(Deleted::Locked { until, hold }) => left.push(stays(&key, until, hold)),
                Err(error) => {
                    denied |= error.is_denied();
                    left.push(format!("{key} stays, because it {}", why(&error)));
                }
            }
        }
        let (outcome, what) = match (left.len(), denied) {
            (0, _) => (Outcome::Good, "allowed; nothing is left".to_owned()),
            (_, true) => {
                let what = "this key may not delete, which is safe; prune needs one that may";
                (Outcome::Good, what.to_owned())
            }
            (count, _) => (Outcome::Warning, format!("{count} probes are left")),
        };
        self.rows.push(Row::new("s3", "delete versions", outcome, what));
        left
    }
}

fn why(error: &Error) -> String {
    if error.is_denied() {
        "may not be deleted by this key; it has a few bytes".to_owned()
    } else {
        format!("could not be deleted: {error}")
    }
}

fn stays(key: &str, until: Option<u64>, hold: bool) -> String {
    let until = until
        .and_then(|until| jiff::Timestamp::from_second(i64::try_from(until).ok()?).ok())
        .map_or_else(String::new, |until| format!(" until {}", moment(until)));
    let hold = if hold { " by a legal hold" } else { "" };
    format!("{key} stays locked{hold}{until}; the next check after that removes it")
}
