//! What is done to buckets: their data lie in S3, the rest in the world.

use serde_json::{Value, json};

use super::super::reply::Reply;
use super::super::rules::LockedData;
use super::operations::Op;
use super::record::{Bucket, Objectspace, State, USUAL_LIMIT};
use super::s3::{Ask, S3, blocks, encode, object, text};
use super::space::still_locked;
use super::{Visit, failed, gone, locked, refused, words};

/// Takes over what was done to buckets by S3: made with root keys, or deleted there.
pub(super) fn reconcile(space: &mut Objectspace, names: &[String]) {
    for bucket in space.buckets.iter_mut().filter(|b| b.state == State::Deployed) {
        if !names.contains(&bucket.name) {
            bucket.state = State::Destroyed;
        }
    }
    for name in names {
        if space.bucket(name).is_none() {
            // Whether it has locking is asked when that matters.
            space.buckets.push(Bucket { name: name.clone(), locking: true, ..Bucket::default() });
        }
    }
}

/// `GET …/buckets`.
pub(super) async fn list(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, ..) = visit.inside().await?;
    Ok(Reply::json(words::buckets(&space, visit.shown())))
}

/// `GET …/buckets/{bucket_id}`; its `deleted` shows that those in the bin are shown.
pub(super) async fn read(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, ..) = visit.inside().await?;
    visit.bucket_of(&space).map(|bucket| Reply::json(words::bucket(&bucket)))
}

/// `POST …/buckets/{bucket_id}`. That a taken name is a conflict is S3's rule; that names in
/// the bin are taken, G8D's on other things.
pub(super) async fn create(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, _turn, s3) = visit.inside().await?;
    let name = visit.call.in_path("bucket_id").to_owned();
    if space.bucket(&name).is_some() {
        return Err(Reply::error(409, format!("Bucket {name} already exists")));
    }
    let locking = visit.call.flag("enable_locking", false);
    let made = s3.create_bucket(&name, locking).await.map_err(failed)?;
    if !made.is_ok() {
        return Err(refused(&made));
    }
    let limit = visit.call.arg("limit").and_then(|n| n.parse().ok()).unwrap_or(USUAL_LIMIT);
    let bucket = Bucket { name, limit, locking, ..Bucket::default() };
    visit.change(&space, |space| space.buckets.push(bucket));
    Ok(Reply::success())
}

/// `DELETE …/buckets/{bucket_id}`: into the bin, out of S3's sight; or for good, full or not
/// (inference: there is no call to empty one), unless what is in it is locked.
pub(super) async fn delete(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, turn, s3) = visit.inside().await?;
    let bucket = visit.bucket_of(&space)?;
    let Some(store) = turn.as_ref() else { return Err(failed("no store")) };
    let rules = visit.cloud.lock().world.rules.clone();
    if !visit.call.flag("permanently", false) {
        if bucket.state == State::Deleted {
            return Err(gone(rules.gone_status, "Bucket"));
        }
        store.hide(&bucket.name).map_err(failed)?;
        let now = visit.cloud.clock.unix();
        set(visit, &space, &bucket.name, |b| (b.state, b.deleted) = (State::Deleted, now));
        return Ok(Reply::success());
    }
    if rules.locked_data == LockedData::Refused && holds_locked(&s3, store, &bucket).await? {
        return Err(still_locked(&bucket.name));
    }
    for key in &bucket.keys {
        s3.delete_user(&key.pair.access_key).await.map_err(failed)?;
    }
    store.remove(&bucket.name).map_err(failed)?;
    set(visit, &space, &bucket.name, |b| b.state = State::Destroyed);
    Ok(Reply::success())
}

/// Whether it holds locked data; one in the bin is shown to S3 for as long as that takes.
async fn holds_locked(
    s3: &S3,
    store: &super::stores::Store,
    bucket: &Bucket,
) -> Result<bool, Reply> {
    let binned = bucket.state == State::Deleted;
    let moved = failed::<std::io::Error>;
    if binned {
        store.show(&bucket.name).map_err(moved)?;
    }
    let found = locked::locked(s3, bucket).await.map_err(failed);
    if binned {
        store.hide(&bucket.name).map_err(moved)?;
    }
    found
}

/// `PUT …/{bucket_id}/restore`.
pub(super) async fn restore(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, turn, _s3) = visit.inside().await?;
    let bucket = visit.bucket_of(&space)?;
    let Some(store) = turn.as_ref().filter(|_| bucket.state == State::Deleted) else {
        return Err(Reply::error(400, "Only deleted buckets can be restored"));
    };
    store.show(&bucket.name).map_err(failed)?;
    set(visit, &space, &bucket.name, |b| (b.state, b.deleted) = (State::Deployed, 0.0));
    Ok(Reply::success())
}

/// `PUT …/{bucket_id}/bucket-limit` and `…/reset-limit`.
pub(super) async fn limit(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, ..) = visit.inside().await?;
    let bucket = in_use(visit, &space)?;
    let limit = visit.call.arg("limit").map_or(Some(USUAL_LIMIT), |n| n.parse().ok());
    let limit = limit.ok_or_else(|| Reply::error(400, "ValidationError: limit"))?;
    set(visit, &space, &bucket.name, |b| b.limit = limit);
    Ok(Reply::success())
}

/// `GET`, `POST`, `DELETE …/lifecycle-rules`. A second rule of one name replaces the first, as
/// in S3 (inference).
pub(super) async fn rules(visit: &Visit<'_>, op: Op, body: &Value) -> Result<Reply, Reply> {
    let (space, ..) = visit.inside().await?;
    let bucket = in_use(visit, &space)?;
    let mut rules = bucket.rules.clone();
    let id = match op {
        Op::Rules => {
            let rows: Vec<Value> = rules.iter().map(|rule| json!({ "data": rule })).collect();
            return Ok(Reply::json(json!({ "result": rows })));
        }
        Op::AddRule => body["ID"].as_str().unwrap_or_default(),
        _ => visit.call.in_path("rule_id"),
    };
    let before = rules.len();
    rules.retain(|rule| rule["ID"] != id);
    match op {
        Op::AddRule => rules.push(body.clone()),
        _ if rules.len() == before => return Err(Reply::error(404, "Rule not found")),
        _ => {}
    }
    set(visit, &space, &bucket.name, |b| b.rules = rules);
    Ok(Reply::success())
}

/// `GET …/multipart-uploads`: the first thousand.
pub(super) async fn uploads(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, _turn, s3) = visit.inside().await?;
    let bucket = in_use(visit, &space)?;
    let (path, query) = (format!("/{}", encode(&bucket.name)), "uploads=".to_owned());
    let answer = s3.ask(Ask { method: "GET", path, query, ..Ask::default() }).await;
    let answer = answer.map_err(failed)?;
    if !answer.is_ok() {
        return Err(refused(&answer));
    }
    let row = |upload: &&str| {
        let text = |name| text(upload, name).unwrap_or_default();
        json!({
            "upload_id": text("UploadId"), "key": text("Key"), "initiated": text("Initiated"),
        })
    };
    let rows: Vec<Value> = blocks(&answer.body, "Upload").iter().map(row).collect();
    Ok(Reply::json(json!({ "result": rows })))
}

/// `DELETE …/multipart-uploads/{key}/{upload_id}`.
pub(super) async fn cancel(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, _turn, s3) = visit.inside().await?;
    let bucket = in_use(visit, &space)?;
    let (key, id) = (visit.call.in_path("key"), visit.call.in_path("upload_id"));
    if key.contains('/') && !visit.cloud.lock().world.rules.slashes_in_keys {
        return Err(Reply::error(404, "Not Found"));
    }
    let (path, query) = (object(&bucket.name, key), format!("uploadId={}", encode(id)));
    let answer = s3.ask(Ask { method: "DELETE", path, query, ..Ask::default() }).await;
    let answer = answer.map_err(failed)?;
    if answer.is_ok() { Ok(Reply::success()) } else { Err(refused(&answer)) }
}

/// The bucket of the path, if it is not in the recycle bin.
pub(super) fn in_use(visit: &Visit<'_>, space: &Objectspace) -> Result<Bucket, Reply> {
    let bucket = visit.bucket_of(space)?;
    if bucket.state == State::Deployed {
        return Ok(bucket);
    }
    Err(gone(visit.cloud.lock().world.rules.gone_status, "Bucket"))
}

/// Changes a bucket in the world.
pub(super) fn set<R>(
    visit: &Visit<'_>,
    space: &Objectspace,
    name: &str,
    change: impl FnOnce(&mut Bucket) -> R,
) -> Option<R> {
    visit.change(space, |space| space.bucket_mut(name).map(change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_by_s3_is_taken_over() {
        let bucket = |name: &str, state| Bucket { name: name.into(), state, ..Bucket::default() };
        let buckets = vec![
            bucket("kept", State::Deployed),
            bucket("lost", State::Deployed),
            bucket("binned", State::Deleted),
        ];
        let mut space = Objectspace { buckets, ..Objectspace::default() };
        reconcile(&mut space, &["kept".into(), "new".into()]);
        let state = |name: &str| space.bucket(name).map(|b| b.state);
        assert_eq!(state("kept"), Some(State::Deployed));
        assert_eq!(state("lost"), None);
        assert_eq!(state("binned"), Some(State::Deleted));
        assert!(space.bucket("new").is_some_and(|b| b.locking));
    }
}
