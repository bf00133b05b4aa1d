//! What is asked of one snapshot, checked as far as that goes without asking anybody.

use std::path::PathBuf;
use std::time::Duration;

use crate::backup::lock::LockWish;
use crate::backup::node::Given;
use crate::backup::{Error, Target, wording};
use crate::snapshot::manifest::text_flaw;
use crate::snapshot::pack::Layers;

/// The shortest time that another node's claim holds: a claim is renewed three times in it.
const SHORTEST_CLAIM: Duration = Duration::from_secs(10);

/// The shortest slot: below this nodes would not have the time to see each other.
const SHORTEST_SLOT: Duration = Duration::from_mins(1);

/// The longest slot.
const LONGEST_SLOT: Duration = Duration::from_hours(31 * 24);

/// How far behind the cluster a member may be, in log entries, where nobody says otherwise.
pub const LAG: u64 = 1000;

/// What a member may be and is taken all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allow {
    /// Of a cluster with an alarm.
    pub alarm: bool,
    /// Of a cluster without a leader.
    pub no_leader: bool,
    /// A learner.
    pub learner: bool,
    /// So many log entries behind.
    pub lag: u64,
}

impl Default for Allow {
    fn default() -> Self {
        Self { alarm: false, no_leader: false, learner: false, lag: LAG }
    }
}

/// One snapshot.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where etcd is.
    pub etcd: Given,
    /// The bucket, if it goes there.
    pub store: Option<Target>,
    /// The local file, if it goes there.
    pub out: Option<PathBuf>,
    /// How long a slot is that nodes share; without it the backup is this run's alone.
    pub slot: Option<Duration>,
    /// How long a claim on a slot holds.
    pub claim_age: Duration,
    /// How it is compressed and to whom it is encrypted.
    pub layers: Layers,
    /// It is meant to be readable for everybody.
    pub no_encrypt: bool,
    /// Whether keys and manifests of the node go with it; not said: on control-plane nodes.
    pub include_pki: Option<bool>,
    /// Where those keys are; not said: where the manifests name files.
    pub pki_dir: Option<PathBuf>,
    /// What it is locked with.
    pub lock: LockWish,
    /// A lock that may be set and not be read is good enough.
    pub lock_unverified_ok: bool,
    /// What a member may be.
    pub allow: Allow,
    /// How long a member may send nothing.
    pub idle_timeout: Duration,
    /// The node's name, where kubeadm and the machine do not say it right.
    pub node: Option<String>,
    /// The program that does it, `NAME VERSION`.
    pub tool: String,
    /// Only say what would be done.
    pub dry_run: bool,
}

impl Request {
    /// The request, if it makes sense by itself.
    ///
    /// # Errors
    /// [`Error::Asked`] for what makes no sense; [`Error::Declined`] for keys without encryption.
    pub fn checked(self) -> Result<Self, Error> {
        if self.store.is_none() && self.out.is_none() {
            return Err(Error::asked(
                "it is not said where the snapshot goes",
                "name a bucket with --s3-bucket, or a file with --out, or both",
            ));
        }
        if let Some(slot) = self.slot {
            self.check_slot(slot)?;
        }
        self.check_texts()?;
        self.check_encryption()?;
        Ok(self)
    }

    /// What goes into the manifest has to be readable in it.
    fn check_texts(&self) -> Result<(), Error> {
        let pki_dir = self.pki_dir.as_ref().map(|folder| folder.to_string_lossy());
        let given = [("--node", self.node.as_deref()), ("--pki-dir", pki_dir.as_deref())];
        for (flag, text) in given {
            if let Some(why) = text.and_then(text_flaw) {
                let hint =
                    "it is written into the backup's manifest: give a text that can be shown";
                return Err(Error::asked(format!("{flag} cannot be used: {why}"), hint));
            }
        }
        Ok(())
    }

    fn check_slot(&self, slot: Duration) -> Result<(), Error> {
        if self.store.is_none() {
            return Err(Error::asked(
                "--slot makes nodes share a backup in a bucket, and no bucket is given",
                "name one with --s3-bucket, or leave --slot out",
            ));
        }
        if !(SHORTEST_SLOT..=LONGEST_SLOT).contains(&slot) {
            return Err(Error::asked(
                format!("--slot is {} s; one minute to 31 days make sense", slot.as_secs_f64()),
                "give it the time between two runs of the schedule, such as 6h",
            ));
        }
        check_day(slot)?;
        if self.claim_age < SHORTEST_CLAIM {
            return Err(Error::asked(
                format!(
                    "--claim-age is {} s: nodes would not wait for each other, and fill the slot \
                     with claims; {} s make sense at least",
                    self.claim_age.as_secs_f64(),
                    SHORTEST_CLAIM.as_secs()
                ),
                "give it more than a snapshot takes, such as 15m",
            ));
        }
        Ok(())
    }

    fn check_encryption(&self) -> Result<(), Error> {
        let to = self.layers.recipients.as_ref().map_or(0, crate::snapshot::seal::Recipients::len);
        match (self.no_encrypt, to) {
            (false, 0) => Err(Error::asked(
                "it is not said to whom the backup is encrypted",
                "give public keys with -r age1… or -R FILE (age-keygen makes them), at least two; \
                 without encryption everybody who reads the bucket reads every Secret (--no-encrypt)",
            )),
            (true, 1..) => Err(Error::asked(
                "both recipients and --no-encrypt are given",
                "leave one of them out; CAPVCO_BACKUP_RECIPIENT and CAPVCO_BACKUP_RECIPIENTS_FILE \
                 count, too",
            )),
            (true, 0) if self.include_pki == Some(true) => Err(keys_in_the_clear()),
            _ => Ok(()),
        }
    }
}

/// Slots are counted from midnight UTC: a day, or a month's worth of days, has to come out even.
fn check_day(slot: Duration) -> Result<(), Error> {
    const DAY: u64 = 86_400;
    let length = slot.as_secs();
    let even = |length: &u64| DAY.is_multiple_of(*length) || length.is_multiple_of(DAY);
    if slot.subsec_nanos() == 0 && even(&length) {
        return Ok(());
    }
    let shorter = (60..length).rev().find(even).map(length_of);
    let longer = (length + 1..=length + DAY).find(even).map(length_of);
    let good: Vec<String> = [shorter, longer].into_iter().flatten().collect();
    Err(Error::asked(
        format!(
            "--slot {} does not divide a day, from whose midnight (UTC) slots are counted",
            length_of(length)
        ),
        &format!("say {}", good.join(" or ")),
    ))
}

fn length_of(seconds: u64) -> String {
    wording::length(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// Private keys are never stored where everybody can read them.
pub(super) fn keys_in_the_clear() -> Error {
    Error::declined(
        "the node's private keys would be stored without encryption",
        "give recipients with -r or -R, or leave the keys out with --include-pki=false",
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fault::{Class, Fault as _};
    use crate::s3::Config;
    use crate::snapshot::seal::{Identities, Recipients};

    fn recipients(count: usize) -> Option<Recipients> {
        let keys = (0..count).map(|_| Identities::generate().public()[0].clone());
        Some(Recipients::parse(keys, "-r").unwrap()).filter(|_| count > 0)
    }

    pub(in crate::backup::snapshot) fn request() -> Request {
        Request {
            etcd: Given {
                endpoints: Vec::new(),
                ca: None,
                cert: None,
                key: None,
                manifests: crate::backup::Manifests::default(),
                dial_timeout: Duration::from_secs(5),
            },
            store: Some(Target::new(Config::new("b"), "etcd").unwrap()),
            out: None,
            slot: None,
            claim_age: Duration::from_mins(15),
            layers: Layers { level: Some(3), recipients: recipients(2) },
            no_encrypt: false,
            include_pki: None,
            pki_dir: Some("/nowhere".into()),
            lock: LockWish::BucketDefault,
            lock_unverified_ok: false,
            allow: Allow::default(),
            idle_timeout: Duration::from_secs(30),
            node: None,
            tool: "capvco-backup 0".into(),
            dry_run: false,
        }
    }

    fn refused(change: impl Fn(&mut Request)) -> (Class, String) {
        let mut request = request();
        change(&mut request);
        let error = request.checked().unwrap_err();
        assert!(!error.hints().is_empty(), "{error}");
        (error.class(), error.to_string())
    }

    type Change = Box<dyn Fn(&mut Request)>;

    #[test]
    fn what_makes_no_sense_is_said_with_what_to_write_instead() {
        let open = |request: &mut Request| {
            request.layers.recipients = None;
            request.no_encrypt = true;
        };
        let table: Vec<(Change, Class, &str)> = vec![
            (Box::new(|r| r.store = None), Class::Usage, "where the snapshot goes"),
            (Box::new(|r| r.layers.recipients = None), Class::Usage, "to whom"),
            (Box::new(|r| r.layers.recipients = recipients(0)), Class::Usage, "to whom"),
            (Box::new(|r| r.no_encrypt = true), Class::Usage, "both recipients"),
            (Box::new(|r| r.slot = Some(Duration::from_secs(59))), Class::Usage, "59 s"),
            (Box::new(|r| r.slot = Some(Duration::ZERO)), Class::Usage, "0 s"),
            (Box::new(|r| r.node = Some("a\u{1b}[2Jb".into())), Class::Usage, "--node"),
            (Box::new(|r| r.node = Some("x".repeat(5000))), Class::Usage, "4096 characters"),
            (Box::new(|r| r.node = Some(String::new())), Class::Usage, "--node"),
            (Box::new(|r| r.pki_dir = Some("pk\nx".into())), Class::Usage, "--pki-dir"),
            (Box::new(|r| r.slot = Some(Duration::from_hours(7))), Class::Usage, "--slot 7h"),
            (Box::new(|r| r.slot = Some(Duration::from_hours(36))), Class::Usage, "--slot 1d12h"),
            (Box::new(|r| r.slot = Some(Duration::from_hours(800))), Class::Usage, "31 days"),
            (
                Box::new(|r| {
                    r.slot = Some(Duration::from_hours(6));
                    r.claim_age = Duration::from_millis(9999);
                }),
                Class::Usage,
                "--claim-age",
            ),
            (
                Box::new(|r| {
                    r.slot = Some(Duration::from_hours(6));
                    r.store = None;
                    r.out = Some("/x".into());
                }),
                Class::Usage,
                "no bucket",
            ),
            (
                Box::new(move |r| {
                    open(r);
                    r.include_pki = Some(true);
                }),
                Class::Refused,
                "without encryption",
            ),
        ];
        for (change, class, text) in table {
            let (found, said) = refused(change);
            assert_eq!(found, class, "{said}");
            assert!(said.contains(text), "{said}");
        }
    }

    #[test]
    fn what_makes_sense_is_let_through() {
        assert!(request().checked().is_ok());
        let mut open = request();
        open.layers.recipients = None;
        open.no_encrypt = true;
        assert!(open.clone().checked().is_ok());
        open.out = Some("/x".into());
        open.store = None;
        assert!(open.checked().is_ok());
        for hours in [1, 6, 12, 24, 48, 168] {
            let slotted = Request { slot: Some(Duration::from_hours(hours)), ..request() };
            assert!(slotted.checked().is_ok(), "{hours} h");
        }
        let uneven = Request { slot: Some(Duration::from_hours(7)), ..request() };
        assert_eq!(uneven.checked().unwrap_err().hints(), ["say 6h or 8h"]);
    }
}
