//! The keys of a bucket: users of the S3 server, whom its policy lets do what their kind may.

use serde_json::{Value, json};

use super::super::reply::Reply;
use super::super::rules::KeyRights;
use super::bucket::{in_use, set};
use super::record::{Access, Bucket, Key, Pair};
use super::s3::S3;
use super::{Visit, failed, policy, words};

/// Makes S3 let each key do what it may, and no other.
pub(super) async fn apply(s3: &S3, bucket: &Bucket, rights: KeyRights) -> Result<(), String> {
    let policy = policy::document(bucket, rights).map(|policy| policy.to_string());
    s3.set_policy(&bucket.name, policy).await
}

/// `GET …/access-management`.
pub(super) async fn list(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, ..) = visit.inside().await?;
    let bucket = in_use(visit, &space)?;
    let rows: Vec<Value> = bucket.keys.iter().map(words::key).collect();
    Ok(Reply::json(json!({ "result": rows })))
}

fn access(visit: &Visit<'_>) -> Access {
    Access::parse(visit.call.arg("access_type").unwrap_or_default())
}

/// `POST …/access-management`. That a name is taken once is inference from its place in paths.
pub(super) async fn create(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let name = visit.call.arg("access_name").unwrap_or_default().to_owned();
    if name.trim().is_empty() {
        return Err(Reply::error(400, "ValidationError: access_name is empty"));
    }
    let key = Key { name, access: access(visit), pair: Pair::random() };
    let reply = words::key(&key);
    changed(visit, async |s3, bucket| {
        if bucket.key(&key.name).is_some() {
            return Err(Reply::error(409, format!("Access {} already exists", key.name)));
        }
        s3.create_user(&key.pair, "user").await.map_err(failed)?;
        bucket.keys.push(key);
        Ok(())
    })
    .await?;
    Ok(Reply::json(reply))
}

/// `PUT …/access-management/{access_name}`.
pub(super) async fn change(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let name = visit.call.in_path("access_name");
    changed(visit, async |_, bucket| {
        let key = bucket.keys.iter_mut().find(|k| k.name == name).ok_or_else(unknown)?;
        key.access = access(visit);
        Ok(())
    })
    .await
}

/// `DELETE …/access-management/{access_name}`.
pub(super) async fn delete(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let name = visit.call.in_path("access_name");
    changed(visit, async |s3, bucket| {
        let key = bucket.key(name).cloned().ok_or_else(unknown)?;
        bucket.keys.retain(|k| k.name != name);
        s3.delete_user(&key.pair.access_key).await.map_err(failed)
    })
    .await
}

fn unknown() -> Reply {
    Reply::error(404, "Access not found")
}

/// Changes the keys of a bucket, in S3 and in the world.
async fn changed(
    visit: &Visit<'_>,
    change: impl AsyncFnOnce(&S3, &mut Bucket) -> Result<(), Reply>,
) -> Result<Reply, Reply> {
    let (space, _turn, s3) = visit.inside().await?;
    let mut bucket = in_use(visit, &space)?;
    change(&s3, &mut bucket).await?;
    let rights = visit.cloud.lock().world.rules.key_rights;
    apply(&s3, &bucket, rights).await.map_err(failed)?;
    set(visit, &space, &bucket.name, |b| b.keys.clone_from(&bucket.keys));
    Ok(Reply::success())
}
