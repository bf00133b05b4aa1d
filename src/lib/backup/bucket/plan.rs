//! What is missing, and what is in the way: pure.

use std::path::PathBuf;

use super::request::{Place, Portal, Request};
use crate::backup::Error;
use crate::s3::{LockConfig, Mode};
use crate::vco::Access;

/// What is there.
#[derive(Debug, Default)]
pub struct Seen {
    /// The objectspace's id, if it is there.
    pub objectspace: Option<String>,
    /// Whether the bucket is there.
    pub bucket: bool,
    /// What S3 says of the bucket's lock; `None` where it could not be asked.
    pub lock: Option<LockConfig>,
    /// Names and kinds of the bucket's keys.
    pub keys: Vec<(String, Option<Access>)>,
    /// The names of its lifecycle rules.
    pub rules: Vec<String>,
    /// Key files that are there already.
    pub files: Vec<PathBuf>,
}

/// Something to be made, or to be left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it is about.
    pub what: What,
    /// Whether there is something to do.
    pub todo: bool,
    /// What is to be known of it.
    pub note: Option<String>,
}

/// What a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The objectspace.
    Objectspace,
    /// The bucket, with locking.
    Bucket,
    /// The rule that ends unfinished uploads.
    AbortRule,
    /// What every new object gets.
    DefaultLock(Mode, u32),
    /// A key, and the file that it is written to.
    Key(Access),
}

/// The name of the rule that ends unfinished uploads.
pub const RULE: &str = "capvco-backup-abort-unfinished-uploads";

impl Portal {
    /// The name of a key.
    #[must_use]
    pub fn key(&self, access: Access) -> String {
        format!("{}-{access}", self.key_name)
    }

    /// Where it is written to.
    #[must_use]
    pub fn file(&self, access: Access) -> &PathBuf {
        match access {
            Access::Read => &self.read_key_file,
            Access::Write | Access::ReadWrite => &self.write_key_file,
        }
    }
}

/// What has to be done, in order.
pub fn plan(request: &Request, seen: &Seen) -> Result<Vec<Step>, Error> {
    let bucket = &request.target.s3.bucket;
    if seen.bucket && seen.lock == Some(LockConfig::Off) {
        return Err(Error::declined(
            format!("the bucket {bucket} is there, and was made without locking"),
            "locking cannot be switched on later: choose another name with --s3-bucket",
        ));
    }
    let step = |what, todo| Step { what, todo, note: None };
    let mut steps = Vec::new();
    if let Place::Portal(_) = &request.place {
        steps.push(step(What::Objectspace, seen.objectspace.is_none()));
    }
    steps.push(step(What::Bucket, !seen.bucket));
    // Plain S3 replaces rules rather than adding one.
    let has_rule = seen.rules.iter().any(|name| name == RULE);
    steps.push(step(What::AbortRule, !has_rule));
    steps.extend(default_lock(request, seen));
    if let Place::Portal(portal) = &request.place {
        for access in [Access::ReadWrite, Access::Read] {
            steps.push(key(portal, seen, access)?);
        }
    }
    Ok(steps)
}

fn default_lock(request: &Request, seen: &Seen) -> Option<Step> {
    let (mode, days) = request.default_lock?;
    let what = What::DefaultLock(mode, days);
    let wanted = (mode, u64::from(days) * 86_400);
    Some(match &seen.lock {
        Some(LockConfig::On { default: Some(there) }) if *there == wanted => {
            Step { what, todo: false, note: None }
        }
        // Somebody chose it; a tool that makes buckets does not weaken it.
        Some(LockConfig::On { default: Some((mode, seconds)) }) => {
            let note = format!("another is set, and kept: {mode} for {} d", seconds / 86_400);
            Step { what, todo: false, note: Some(note) }
        }
        _ => Step { what, todo: true, note: None },
    })
}

fn key(portal: &Portal, seen: &Seen, access: Access) -> Result<Step, Error> {
    let (name, file) = (portal.key(access), portal.file(access));
    let there = seen.keys.iter().find(|(known, _)| *known == name);
    if let Some((_, kind)) = there
        && *kind != Some(access)
    {
        let kind = kind.map_or("something else", Access::as_str);
        return Err(Error::declined(
            format!("there is a key {name}, which may do {kind} instead of {access}"),
            "choose other names with --key-name, or delete that key on the portal",
        ));
    }
    if there.is_none() && seen.files.contains(file) {
        return Err(Error::declined(
            format!("{} is there, and is no file of the key to be made", file.display()),
            "move it away, or choose another place with --write-key-file and --read-key-file",
        ));
    }
    let todo = there.is_none() || !seen.files.contains(file);
    let lost = todo && there.is_some();
    let note = lost.then(|| format!("it was there before; {} is missing", file.display()));
    Ok(Step { what: What::Key(access), todo, note })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::Target;
    use crate::s3::Config;
    use crate::vco::TokenSource;

    fn request(portal: bool) -> Request {
        let place = if portal {
            let token = TokenSource::Inline("t".to_owned().into());
            Place::Portal(Box::new(Portal {
                cloud: crate::vco::Config::new("https://portal.example", token),
                location: "be-1".parse().unwrap(),
                objectspace: "backups".to_owned(),
                publish: None,
                key_name: "etcd".to_owned(),
                write_key_file: "rw.env".into(),
                read_key_file: "r.env".into(),
            }))
        } else {
            Place::Plain
        };
        Request {
            target: Target::new(Config::new("b"), "etcd/").unwrap(),
            place,
            default_lock: Some((Mode::Governance, 30)),
            abort_after_days: 2,
            dry_run: false,
        }
    }

    fn todo(steps: &[Step]) -> Vec<What> {
        steps.iter().filter(|step| step.todo).map(|step| step.what).collect()
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_there_is_left() {
        use What::*;
        let lock = DefaultLock(Mode::Governance, 30);
        let (rw, r) = (Key(Access::ReadWrite), Key(Access::Read));
        let all = plan(&request(true), &Seen::default()).unwrap();
        assert_eq!(todo(&all), [Objectspace, Bucket, AbortRule, lock, rw, r]);
        let plain = plan(&request(false), &Seen::default()).unwrap();
        assert_eq!(todo(&plain), [Bucket, AbortRule, lock]);
        let mut seen = Seen {
            objectspace: Some("7".to_owned()),
            bucket: true,
            lock: Some(LockConfig::On { default: Some((Mode::Governance, 30 * 86_400)) }),
            keys: vec![
                ("etcd-rw".to_owned(), Some(Access::ReadWrite)),
                ("etcd-r".to_owned(), Some(Access::Read)),
            ],
            rules: vec![RULE.to_owned()],
            files: vec!["rw.env".into(), "r.env".into()],
        };
        let again = plan(&request(true), &seen).unwrap();
        assert_eq!((todo(&again), again.len()), (vec![], 6));
        seen.files.pop();
        seen.lock = None;
        let steps = plan(&request(true), &seen).unwrap();
        assert_eq!(todo(&steps), [lock, r]);
        let notes = steps.into_iter().filter_map(|step| step.note);
        assert_eq!(notes.collect::<Vec<_>>(), ["it was there before; r.env is missing"]);
    }

    #[test]
    fn what_is_in_the_way_is_said_before_anything_is_made() {
        let keys = |kind| vec![("etcd-rw".to_owned(), kind)];
        for (seen, words) in [
            (
                Seen { bucket: true, lock: Some(LockConfig::Off), ..Seen::default() },
                "without locking",
            ),
            (Seen { keys: keys(Some(Access::Read)), ..Seen::default() }, "may do r instead of rw"),
            (Seen { keys: keys(None), ..Seen::default() }, "something else"),
            (Seen { files: vec!["rw.env".into()], ..Seen::default() }, "rw.env is there"),
        ] {
            let error = plan(&request(true), &seen).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_default_that_somebody_chose_is_kept() {
        let lock = Some(LockConfig::On { default: Some((Mode::Compliance, 7 * 86_400)) });
        let seen = Seen { bucket: true, lock, ..Seen::default() };
        let steps = plan(&request(false), &seen).unwrap();
        let kept = steps.iter().find(|s| matches!(s.what, What::DefaultLock(..))).unwrap();
        assert!(!kept.todo && kept.note.as_ref().unwrap().contains("compliance for 7 d"));
        let none = Request { default_lock: None, ..request(false) };
        assert_eq!(plan(&none, &seen).unwrap().len(), 2);
    }
}
