//! Makes what is missing; the only file here that changes anything.

use std::sync::Arc;

use super::key_file::{self, Written};
use super::observe::{self, Observed};
use super::plan::{Seen, Step, What};
use super::portal;
use super::report::{BucketReport, Row, row};
use super::request::{Place, Portal, Request};
use crate::backup::Error;
use crate::clock::Clock;
use crate::fault::{Class, Fault, chain};
use crate::report::{Remark, Verdict};
use crate::s3::{Bucket, LockConfig, Mode};
use crate::vco::{Access, Customer, Objectspace};

/// The outcome of a step, and what is to be known of it.
type Done = (&'static str, Option<String>);

/// Carries the plan out; after a failure the rest is skipped.
pub async fn apply(
    request: &Request,
    plan: &[Step],
    observed: Observed,
    clock: &Arc<dyn Clock>,
) -> BucketReport {
    let Observed { customer, space, seen } = observed;
    let (rows, remarks) = (Vec::new(), Vec::new());
    let mut run = Run { request, customer, space, seen, clock, rows, remarks };
    let mut failed: Option<Error> = None;
    for step in plan {
        if failed.is_some() {
            run.rows.push(row(request, step, "skipped"));
            continue;
        }
        match run.step(step).await {
            Ok((outcome, detail)) => {
                let made = row(request, step, outcome);
                let detail = detail.or_else(|| made.detail.clone());
                run.rows.push(Row { detail, ..made });
            }
            Err(error) => {
                let made = row(request, step, "failed");
                run.rows.push(Row { detail: Some(chain(&error)), ..made });
                failed = Some(error);
            }
        }
    }
    run.finish(failed.as_ref())
}

struct Run<'a> {
    request: &'a Request,
    customer: Option<Customer>,
    space: Option<Objectspace>,
    seen: Seen,
    clock: &'a Arc<dyn Clock>,
    rows: Vec<Row>,
    remarks: Vec<Remark>,
}

impl Run<'_> {
    fn finish(mut self, failed: Option<&Error>) -> BucketReport {
        let made = self.rows.iter().any(|row| row.outcome == "created");
        let skipped = failed.is_none() && self.rows.iter().any(|row| row.outcome == "skipped");
        let verdict = match failed.map(Fault::class) {
            None if !skipped => Verdict::Done,
            _ if made => Verdict::LeftBehind,
            Some(class) if class.is_other_side() => Verdict::OtherSide,
            None | Some(Class::Failed | Class::Bug) => Verdict::Failed,
            Some(_) => Verdict::Refused,
        };
        if let Some(error) = failed {
            self.remarks.push(Remark::Error(chain(error)));
            self.remarks.extend(error.hints().into_iter().map(Remark::Hint));
            if made {
                let what = "what was made stays; run it again: it goes on where it was";
                self.remarks.push(Remark::Hint(what.to_owned()));
            }
        } else {
            self.remarks.extend(self.earlier_keys());
            if !skipped {
                self.remarks.push(self.afterwards());
            }
        }
        BucketReport { rows: self.rows, remarks: self.remarks, verdict }
    }

    /// Keys that were there before, and open the bucket to whoever has them.
    fn earlier_keys(&self) -> Option<Remark> {
        let fresh = |name: &str| {
            self.rows.iter().any(|r| r.name == name && matches!(r.outcome, "created" | "unchanged"))
        };
        let written = self.rows.iter().any(|r| r.what == "key" && r.outcome != "unchanged");
        let names = self.seen.keys.iter().map(|(name, _)| name.as_str());
        let earlier: Vec<&str> = names.filter(|name| !fresh(name)).collect();
        (written && !earlier.is_empty()).then(|| {
            Remark::Warning(format!(
                "keys that were there before stay valid, wherever their files are: {}; to revoke \
                 one, delete it on the portal, and run this again for a new one of that name",
                earlier.join(", ")
            ))
        })
    }

    /// What is to be done next.
    fn afterwards(&self) -> Remark {
        let next = match &self.request.place {
            Place::Plain => {
                "make a key for the schedule and one for restores by the store's own tools: \
                 docs/reference/s3-permissions.md has their policies; then run `capvco-backup \
                 check`"
                    .to_owned()
            }
            Place::Portal(portal) => format!(
                "{} is for the schedule, {} for restores: keep the second elsewhere; then run \
                 `capvco-backup check` with the first",
                portal.write_key_file.display(),
                portal.read_key_file.display()
            ),
        };
        Remark::Hint(next)
    }

    async fn step(&mut self, step: &Step) -> Result<Done, Error> {
        let unchanged = if step.note.is_some() { "kept" } else { "unchanged" };
        match (step.what, &self.request.place) {
            // A file may have to be written anew although the key is there.
            (What::Key(access), Place::Portal(portal)) => self.key(portal, access).await,
            _ if !step.todo => Ok((unchanged, None)),
            (What::Objectspace, Place::Portal(portal)) => {
                let customer = self.customer()?;
                let made = portal::create(customer, portal, self.clock).await?;
                let id = made.id.to_string();
                self.space = Some(made);
                Ok(("created", Some(id)))
            }
            (What::Bucket, Place::Portal(_)) => {
                let name = &self.request.target.s3.bucket;
                portal::create_bucket(self.customer()?, &self.space()?.id, name).await?;
                Ok(("created", None))
            }
            (What::AbortRule, Place::Portal(_)) => {
                portal::add_rule(self.customer()?, &self.space()?.id, self.request).await?;
                Ok(("created", None))
            }
            (What::Bucket, Place::Plain) => self.plain_bucket().await,
            (What::AbortRule, Place::Plain) => self.plain_rule().await,
            (What::DefaultLock(mode, days), _) => self.default_lock(mode, days).await,
            (What::Objectspace | What::Key(_), Place::Plain) => Ok((unchanged, None)),
        }
    }

    fn customer(&self) -> Result<&Customer, Error> {
        self.customer.as_ref().ok_or_else(|| Error::failed("the portal was not asked", ""))
    }

    fn space(&self) -> Result<&Objectspace, Error> {
        self.space.as_ref().ok_or_else(|| Error::failed("there is no objectspace", ""))
    }

    async fn plain_bucket(&self) -> Result<Done, Error> {
        let bucket = self.request.target.open(self.clock.clone()).await?;
        let doing = Error::doing(format!("cannot make the bucket {}", bucket.name()));
        bucket.create_bucket(true).await.map_err(doing)?;
        Ok(("created", None))
    }

    async fn plain_rule(&self) -> Result<Done, Error> {
        let bucket = self.request.target.open(self.clock.clone()).await?;
        let days = self.request.abort_after_days;
        match bucket.set_abort_rule(&self.request.target.prefix, days).await {
            Ok(()) => Ok(("created", None)),
            Err(error) if error.is_unsupported() => {
                let why = "the store has no such rules; `capvco-backup prune` sweeps instead";
                Ok(("unsupported", Some(why.to_owned())))
            }
            Err(error) => {
                Err(Error::doing("cannot add the rule that ends unfinished uploads")(error))
            }
        }
    }

    async fn default_lock(&mut self, mode: Mode, days: u32) -> Result<Done, Error> {
        let Some(bucket) = self.by_s3().await? else {
            let why = "nothing says how S3 is reached";
            self.remarks.push(Remark::Error(format!("no default lock was set: {why}")));
            let what = "link the objectspace to a cloudspace on the portal, and run this again with \
                        --s3-endpoint and its address there: it goes on where it was, and adds \
                        the address to the key files";
            self.remarks.push(Remark::Hint(what.to_owned()));
            return Ok(("skipped", Some(why.to_owned())));
        };
        let doing = || Error::doing(format!("cannot set the default lock of {}", bucket.name()));
        bucket.set_default_lock(Some((mode, days))).await.map_err(doing())?;
        // What was answered is not what is.
        let wanted = LockConfig::On { default: Some((mode, u64::from(days) * 86_400)) };
        let found = bucket.lock_config().await.map_err(doing())?;
        if found == wanted {
            return Ok(("created", None));
        }
        Err(Error::failed(
            format!("the default lock of {} was accepted, and is not there", bucket.name()),
            "lock each backup itself: --lock governance --lock-for 30d",
        ))
    }

    async fn by_s3(&self) -> Result<Option<Bucket>, Error> {
        match &self.request.place {
            Place::Plain => self.request.target.open(self.clock.clone()).await.map(Some),
            Place::Portal(_) => {
                observe::root(self.request, self.customer()?, self.space()?, self.clock).await
            }
        }
    }

    async fn key(&self, portal: &Portal, access: Access) -> Result<Done, Error> {
        let (name, file) = (portal.key(access), portal.file(access));
        let space = self.space()?;
        let target = &self.request.target;
        let made =
            portal::key(self.customer()?, &space.id, &target.s3.bucket, &name, access).await?;
        let (key, new) = made;
        let endpoint = target.s3.endpoint.clone().or_else(|| portal::endpoint(space));
        let text = key_file::text(&key, &target.s3.bucket, &target.prefix, endpoint.as_deref())?;
        let written = key_file::write(file, &text)?;
        let outcome = match (new, written) {
            (true, _) => "created",
            (false, Written::New) => "written",
            (false, Written::Same | Written::Renewed) => "unchanged",
        };
        let before = if outcome == "written" { "; the key was there before" } else { "" };
        Ok((outcome, Some(format!("{access}, in {}{before}", file.display()))))
    }
}
