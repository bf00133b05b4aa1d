//! Objectspaces: the API's side of them is the cloud's, the S3 in them is a real versitygw each.
//!
//! What may enter: facts with an evidence tag, as in the whole room. Invariants: one action at a
//! time per objectspace; no server outlives the cloud; the root keys that the API gives away are
//! an administrator's, so that they can be reset without a restart.
//!
//! To add an operation: a row in `operations`, an arm here, its body in `words`.

mod bucket;
mod key;
mod locked;
pub(super) mod operations;
mod policy;
pub mod record;
mod s3;
mod server;
mod sign;
mod space;
pub(super) mod stores;
pub(super) mod words;

use std::sync::Arc;

use serde_json::Value;

use super::answer::Distortion;
use super::call::Call;
use super::cloud::Cloud;
use super::reply::Reply;
use super::world::World;
use operations::Op;
use record::{Bucket, Objectspace, State};
use s3::{Answer, S3};
use stores::{Trouble, Turn};
use words::Shown;

/// The region of every server. The vendor's is not stated; a first guess (vco-api.md 10.1).
const REGION: &str = "us-east-1";

/// Carries out a call about objectspaces.
pub(super) async fn answer(
    cloud: &Arc<Cloud>,
    op: Op,
    call: &Call,
    body: &Value,
    distortion: Distortion<'_>,
) -> Result<Reply, Reply> {
    let visit = Visit { cloud, call, broken: distortion.broken };
    match op {
        Op::List => Ok(visit.list()),
        Op::Create => space::create(&visit, body).await,
        Op::Read => visit.space().map(|space| visit.detail(&space)),
        Op::Delete => space::delete(&visit).await,
        Op::Restore => space::restore(&visit).await,
        Op::Reset => space::reset(&visit).await,
        Op::Notes | Op::AddNote | Op::ChangeNote | Op::DeleteNote => space::notes(&visit, op, body),
        Op::Links | Op::Link | Op::Unlink => space::links(&visit, op),
        Op::Buckets => bucket::list(&visit).await,
        Op::Bucket => bucket::read(&visit).await,
        Op::CreateBucket => bucket::create(&visit).await,
        Op::DeleteBucket => bucket::delete(&visit).await,
        Op::RestoreBucket => bucket::restore(&visit).await,
        Op::LimitBucket | Op::ResetLimit => bucket::limit(&visit).await,
        Op::Rules | Op::AddRule | Op::DeleteRule => bucket::rules(&visit, op, body).await,
        Op::Uploads => bucket::uploads(&visit).await,
        Op::CancelUpload => bucket::cancel(&visit).await,
        Op::Keys => key::list(&visit).await,
        Op::CreateKey => key::create(&visit).await,
        Op::ChangeKey => key::change(&visit).await,
        Op::DeleteKey => key::delete(&visit).await,
    }
}

/// Starts an objectspace's server, unless it runs; its URL.
pub(super) async fn open(cloud: &Arc<Cloud>, id: &str) -> Result<String, Trouble> {
    let space = cloud.lock().world.objectspaces.iter().find(|o| o.objectspace_id == id).cloned();
    let space = space.filter(|space| space.state == State::Deployed);
    let space = space.ok_or_else(|| Trouble::Fails(format!("there is no objectspace {id}")))?;
    let mut turn = cloud.stores.turn(id).await;
    furnished(cloud, &space, &mut turn).await?;
    cloud.stores.url(id).ok_or_else(|| Trouble::Fails("it ended at once".into()))
}

/// A client of an objectspace's server, which has all that the world says it has.
async fn furnished(cloud: &Cloud, space: &Objectspace, turn: &mut Turn) -> Result<S3, Trouble> {
    let (s3, fresh) = cloud.stores.open(&space.objectspace_id, &space.name, turn).await?;
    if !fresh {
        return Ok(s3);
    }
    let rights = cloud.lock().world.rules.key_rights;
    let furnish = async {
        s3.create_user(&space.root, "admin").await?;
        for bucket in space.buckets.iter().filter(|b| b.state != State::Destroyed) {
            let made = s3.create_bucket(&bucket.name, bucket.locking).await?;
            if !made.is_ok() {
                return Err(format!("bucket {}: {}", bucket.name, made.code()));
            }
            for key in &bucket.keys {
                s3.create_user(&key.pair, "user").await?;
            }
            key::apply(&s3, bucket, rights).await?;
            if let (State::Deleted, Some(store)) = (bucket.state, turn.as_ref()) {
                store.hide(&bucket.name).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    };
    if let Err(why) = furnish.await {
        cloud.stores.forget(&space.objectspace_id, turn);
        return Err(Trouble::Fails(why));
    }
    Ok(s3)
}

/// One call, on its way through the cloud.
struct Visit<'a> {
    cloud: &'a Arc<Cloud>,
    call: &'a Call,
    broken: Option<&'a str>,
}

impl Visit<'_> {
    fn id(&self) -> &str {
        self.call.in_path("objectspace_id")
    }

    fn shown(&self) -> Shown {
        let flag = |name| self.call.flag(name, false);
        Shown { deleted: flag("include_deleted"), only_deleted: flag("only_deleted") }
    }

    /// Where an objectspace's S3 is, where replies are to say it.
    fn url(&self, world: &World) -> impl Fn(&str) -> Option<String> {
        let told = world.rules.reachable_addresses;
        move |id| self.cloud.stores.url(id).filter(|_| told)
    }

    fn list(&self) -> Reply {
        let (now, customer) = (self.cloud.clock.elapsed(), self.call.in_path("customer_id"));
        let world = &self.cloud.lock().world;
        let url = self.url(world);
        Reply::json(words::list(world, customer, self.shown(), self.broken, now, &url))
    }

    fn detail(&self, space: &Objectspace) -> Reply {
        let now = self.cloud.clock.elapsed();
        let world = &self.cloud.lock().world;
        let url = self.url(world)(&space.objectspace_id);
        Reply::json(words::detail(space, world, now, url.as_deref()))
    }

    /// The objectspace, as it is now, if this customer can see it.
    fn space(&self) -> Result<Objectspace, Reply> {
        self.find(self.id(), false)
    }

    fn find(&self, id: &str, in_bin: bool) -> Result<Objectspace, Reply> {
        let mut state = self.cloud.lock();
        let rules = state.world.rules.clone();
        let space = state.world.objectspaces.iter().find(|o| o.objectspace_id == id).cloned();
        let customer = self.call.in_path("customer_id");
        let space = space.filter(|space| space.customer_id == customer);
        let space = space.ok_or_else(|| Reply::error(404, "Objectspace not found"))?;
        let site = state.world.find_site(&space.location);
        if site.is_some_and(|s| s.down) || self.broken == Some(space.location.as_str()) {
            let why = format!("G8Error: location {} does not answer", space.location);
            return Err(Reply::error(503, why));
        }
        let there = match space.state {
            State::Deployed => true,
            State::Deleted => in_bin || rules.bin_visible,
            State::Destroyed => false,
        };
        there.then_some(space).ok_or_else(|| gone(rules.gone_status, "Objectspace"))
    }

    /// The objectspace, if it works, and one's turn at it.
    async fn working(&self) -> Result<(Objectspace, Turn), Reply> {
        let turn = self.cloud.stores.turn(self.id()).await;
        let space = self.space()?;
        match space.status(self.cloud.clock.elapsed()) {
            "DEPLOYED" => Ok((space, turn)),
            status => Err(Reply::error(400, format!("Objectspace is {status}"))),
        }
    }

    /// The same, and a client of its S3. What was done to buckets by S3 is known afterwards.
    async fn inside(&self) -> Result<(Objectspace, Turn, S3), Reply> {
        let (space, mut turn) = self.working().await?;
        let s3 = self.s3(&space, &mut turn).await?;
        let names = s3.buckets().await.map_err(failed)?;
        let space = self.change(&space, |space| {
            bucket::reconcile(space, &names);
            space.clone()
        });
        Ok((space, turn, s3))
    }

    async fn s3(&self, space: &Objectspace, turn: &mut Turn) -> Result<S3, Reply> {
        furnished(self.cloud, space, turn).await.map_err(|trouble| unserved(&trouble))
    }

    /// Changes the objectspace in the world, where nobody else has one's turn.
    fn change<R>(&self, space: &Objectspace, change: impl FnOnce(&mut Objectspace) -> R) -> R {
        let mut state = self.cloud.lock();
        let id = &space.objectspace_id;
        match state.world.objectspaces.iter_mut().find(|o| o.objectspace_id == *id) {
            Some(space) => change(space),
            // A test took it away under our hands.
            None => change(&mut space.clone()),
        }
    }

    /// The bucket of the path, in the recycle bin or not.
    fn bucket_of(&self, space: &Objectspace) -> Result<Bucket, Reply> {
        let bucket = space.bucket(self.call.in_path("bucket_id")).cloned();
        bucket.ok_or_else(|| Reply::error(404, "Bucket not found"))
    }
}

/// The answer about something that was deleted.
fn gone(status: u16, what: &str) -> Reply {
    Reply::error(status, format!("{what} not found or deleted"))
}

/// The answer where there is no S3 server: not the vendor's, but one that people understand.
fn unserved(trouble: &Trouble) -> Reply {
    tracing::warn!(target: "capvco::sim", "the embedded cloud has no S3: {trouble}");
    Reply::error(501, format!("NotImplementedError: {trouble}"))
}

/// The answer where S3 did not do what it should.
fn failed<E: std::fmt::Display>(why: E) -> Reply {
    tracing::warn!(target: "capvco::sim", "the embedded cloud's S3: {why}");
    Reply::error(500, format!("G8Error: {why}"))
}

/// S3's refusal in the portal's form.
fn refused(answer: &Answer) -> Reply {
    let status = match answer.status {
        status @ (403 | 404 | 409) => status,
        500.. => 500,
        _ => 400,
    };
    Reply::error(status, format!("G8Error: {}", answer.code()))
}
