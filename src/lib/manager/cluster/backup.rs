//! What a cluster's status says of its backups: the newest good manifest that `capvco-backup`
//! wrote. Only read.
//!
//! It has a queue and a field manager of its own, so that a bucket that does not answer holds up
//! nothing, and nothing else that is said of the cluster depends on it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::memory::Look;
use crate::api::VCOCluster;
use crate::api::cluster::{BackupBucket, BackupSpec, BackupStatus, VCOClusterStatus};
use crate::api::condition::{
    self, BACKUP_FRESH, BACKUP_IS_FRESH, BACKUP_MISSING, BACKUP_STALE, BACKUP_UNREADABLE, Said,
};
use crate::api::contract::core_owner;
use crate::fault::Class;
use crate::manager::apply;
use crate::manager::context::Context;
use crate::manager::controller::Controller;
use crate::manager::error::{Error, class_of};
use crate::manager::lease::timestamp;
use crate::manager::machine::gate::paused;
use crate::manager::queue::{Key, Queue};
use crate::manager::step::Step;
use crate::s3::{self, Bucket, Config, Kind};
use crate::snapshot::catalog::Catalog;
use crate::snapshot::layout::Layout;

/// How long a look holds.
const PERIOD: Duration = Duration::from_mins(5);
/// How old the newest good backup may be where the cluster does not say it.
const MAX_AGE: Duration = Duration::from_hours(24);
/// How long the store may stand still, and how long a look may take in all.
const STALL: Duration = Duration::from_secs(20);
const LONGEST: Duration = Duration::from_mins(2);
/// What `capvco-backup` has keys begin with where it is not told.
const PREFIX: &str = "etcd/";

/// Looks after what is known of backups.
pub struct Backups;

impl Controller for Backups {
    const NAME: &'static str = "backup";

    fn queue(context: &Context) -> &Queue {
        &context.queues.backups
    }

    async fn pass(context: &Arc<Context>, key: &Key) -> Result<Step, Error> {
        let Some(cluster) = context.vco_clusters.get(key) else { return Ok(Step::Over) };
        let owner = core_owner(&cluster.metadata, "Cluster");
        let owner =
            owner.and_then(|owner| context.clusters.get(&Key::new(&key.namespace, &owner.name)));
        let going = cluster.metadata.deletion_timestamp.is_some();
        let held = super::is_managed(&cluster) || paused(&*cluster, owner.as_deref()).is_some();
        if going || owner.is_none() || held {
            return Ok(Step::Waits);
        }
        let Some(wanted) = &cluster.spec.backup else { return unsay(context, &cluster).await };
        let uid = cluster.uid().unwrap_or_default();
        let now = context.clock.elapsed();
        if let Some(look) = context.cluster_facts.of(&uid).backup
            && look.of == *wanted
            && let Some(left) = PERIOD.checked_sub(now.saturating_sub(look.at))
        {
            return Ok(Step::After(left.max(Duration::from_secs(1))));
        }
        // Also a look that fails is one: a store in trouble is not asked more often.
        let look = Look { at: now, of: wanted.clone() };
        context.cluster_facts.note(&uid, |facts| facts.backup = Some(look));
        let looked = look_into(context, &cluster, wanted).await?;
        say(context, &cluster, wanted, &looked).await?;
        Ok(Step::After(PERIOD))
    }
}

/// What a look into a bucket found.
#[derive(Debug, Clone, PartialEq)]
enum Looked {
    /// The newest good backup, and the time by the store's clock.
    Newest { backup: BackupStatus, taken: Timestamp, now: Timestamp },
    /// None that is good.
    None,
    /// It could not be looked into, and why.
    Unreadable(String),
}

async fn look_into(
    context: &Context,
    cluster: &VCOCluster,
    wanted: &BackupSpec,
) -> Result<Looked, Error> {
    let namespace = cluster.namespace().unwrap_or_default();
    let name = &wanted.secret_ref.name;
    let api = context.api::<Secret>(&namespace);
    let found = api.get_opt(name).await;
    let found = found.map_err(|e| Error::api(format!("read the secret {namespace}/{name}"), e))?;
    let Some(secret) = found else {
        return Ok(Looked::Unreadable(format!("there is no secret {namespace}/{name}")));
    };
    let mut config = match config(&wanted.s3, &secret) {
        Ok(config) => config,
        Err(key) => {
            let text = format!("the secret {namespace}/{name} has no usable key {key:?}");
            return Ok(Looked::Unreadable(text));
        }
    };
    config.ca_file.clone_from(&context.request.cloud.ca_file);
    let layout = Layout::new(&prefix(&wanted.s3));
    // Boxed: the futures of the S3 client are large.
    let work = Box::pin(read(context, config, &layout));
    let place = format!("s3://{}/{}", wanted.s3.bucket, layout.prefix());
    Ok(tokio::select! {
        read = work => read.unwrap_or_else(|error| Looked::Unreadable(words(&place, &error))),
        () = context.clock.sleep(LONGEST) => {
            let text = format!("cannot read {place}: that takes more than {} s", LONGEST.as_secs());
            Looked::Unreadable(text)
        }
    })
}

async fn read(context: &Context, config: Config, layout: &Layout) -> Result<Looked, s3::Error> {
    let bucket = Bucket::open(config, Arc::clone(&context.clock)).await?;
    let catalog = Catalog::read(&bucket, layout, None).await?;
    let Some((backup, taken)) = newest(&catalog) else { return Ok(Looked::None) };
    // By the clock that the backups are dated by: with one of ours behind it none grows old.
    let now = timestamp(bucket.server_time().await?);
    Ok(Looked::Newest { backup, taken, now })
}

/// The newest good backup. A cluster that was restored has another id than before in etcd, so that
/// all below the prefix count as one cluster's.
fn newest(catalog: &Catalog) -> Option<(BackupStatus, Timestamp)> {
    let all = catalog.clusters().into_iter().filter_map(|id| catalog.newest_good(id));
    let (_, record, manifest) = all.max_by_key(|(_, _, manifest)| manifest.started)?;
    let backup = BackupStatus {
        key: record.version.key.clone(),
        time: moment(manifest.started),
        revision: Some(manifest.revision),
    };
    Some((backup, manifest.started))
}

fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// How to get to the bucket, or the key that the Secret lacks.
fn config(bucket: &BackupBucket, secret: &Secret) -> Result<Config, &'static str> {
    let field = |key: &'static str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key)).ok_or(key)?;
        let text = std::str::from_utf8(&bytes.0).map_err(|_| key)?.trim();
        if text.is_empty() { Err(key) } else { Ok(text.to_owned()) }
    };
    let mut config = Config::new(bucket.bucket.clone());
    config.endpoint = Some(bucket.endpoint.clone());
    config.region = Some(bucket.region.clone().unwrap_or_else(|| "us-east-1".to_owned()));
    config.path_style = Some(bucket.path_style.unwrap_or(true));
    config.keys = Some((field("accessKeyId")?, field("secretAccessKey")?.into()));
    config.stall_timeout = STALL;
    Ok(config)
}

/// What the keys begin with, and ends with `/`.
fn prefix(bucket: &BackupBucket) -> String {
    let mut prefix = bucket.prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
    if !prefix.ends_with('/') {
        prefix.push('/');
    }
    prefix
}

/// The failure in the same words each time: without counts of tries and ids of requests.
fn words(place: &str, error: &s3::Error) -> String {
    let what = match error.kind() {
        Kind::Setting | Kind::Credentials => error.message().unwrap_or("a setting is unusable"),
        Kind::Name => "the host's name cannot be resolved",
        Kind::Connect => "no connection",
        Kind::Tls => "no secure connection",
        Kind::Stalled | Kind::Slow => "the store does not answer in time",
        Kind::Refused { .. } => {
            let (status, code) = (error.status().unwrap_or_default(), error.code());
            return format!("cannot read {place}: {status} {}", code.unwrap_or_default())
                .trim_end()
                .to_owned();
        }
        _ => "the reply cannot be used",
    };
    format!("cannot read {place}: {what}")
}

/// What is to be said, and the newest good backup as far as it is known.
fn judge(
    looked: &Looked,
    max_age: Duration,
    before: Option<&BackupStatus>,
) -> (Option<BackupStatus>, Said) {
    match looked {
        Looked::Newest { backup, taken, now } => {
            let age = now.as_second().saturating_sub(taken.as_second());
            let most = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
            let said = if age > most {
                let text = format!("the newest good backup is of {}", backup.time);
                Said::not(BACKUP_FRESH, BACKUP_STALE, text)
            } else {
                Said::so(BACKUP_FRESH, BACKUP_IS_FRESH)
            };
            (Some(backup.clone()), said)
        }
        Looked::None => {
            let text = "there is no good backup in the bucket, below the prefix";
            (None, Said::not(BACKUP_FRESH, BACKUP_MISSING, text))
        }
        // What was known stays: a store that cannot be read has lost nothing.
        Looked::Unreadable(why) => {
            let said = Said::unknown(BACKUP_FRESH, BACKUP_UNREADABLE, why.clone());
            (before.cloned(), said)
        }
    }
}

/// A length of time as the schema allows it, such as `1h30m`; a day for what it does not.
fn max_age(text: Option<&str>) -> Duration {
    let Some(mut rest) = text else { return MAX_AGE };
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return MAX_AGE,
        };
        let Ok(number) = number.parse::<u64>() else { return MAX_AGE };
        total = total.saturating_add(Duration::from_millis(number.saturating_mul(millis)));
        rest = tail;
    }
    total
}

async fn say(
    context: &Context,
    cluster: &VCOCluster,
    wanted: &BackupSpec,
    looked: &Looked,
) -> Result<(), Error> {
    let status = cluster.status.clone().unwrap_or_default();
    let longest = max_age(wanted.max_age.as_deref());
    let (backup, said) = judge(looked, longest, status.backup.as_ref());
    let (generation, now) = (cluster.metadata.generation, timestamp(context.clock.unix()));
    let before = status.conditions.unwrap_or_default();
    let after = condition::merge(&before, vec![said], generation, now);
    if backup == status.backup && after.iter().all(|said| before.contains(said)) {
        return Ok(());
    }
    let mut body = json!({"conditions": after});
    if let Some(backup) = backup {
        body["backup"] = json!(backup);
    }
    write(context, cluster, &body).await
}

/// Nothing is said any more of backups that nobody asks about.
async fn unsay(context: &Context, cluster: &VCOCluster) -> Result<Step, Error> {
    let said = cluster.status.as_ref().is_some_and(|status| *status != without(status));
    if said {
        write(context, cluster, &json!({})).await?;
    }
    Ok(Step::Waits)
}

async fn write(context: &Context, cluster: &VCOCluster, body: &Value) -> Result<(), Error> {
    let api = context.api::<VCOCluster>(&cluster.namespace().unwrap_or_default());
    match apply::backup_status(&api, cluster, body).await {
        Ok(written) => {
            context.vco_clusters.wrote(written);
            Ok(())
        }
        Err(Error::Api { source, .. }) if class_of(&source) == Class::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The status without what is said here: it belongs to another field manager.
pub fn without(status: &VCOClusterStatus) -> VCOClusterStatus {
    let mut status = VCOClusterStatus { backup: None, ..status.clone() };
    if let Some(all) = &mut status.conditions {
        all.retain(|one| one.type_ != BACKUP_FRESH);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn backup(time: &str) -> BackupStatus {
        BackupStatus { key: "k".to_owned(), time: time.to_owned(), revision: Some(7) }
    }

    fn found(taken: &str, now: &str) -> Looked {
        Looked::Newest { backup: backup(taken), taken: at(taken), now: at(now) }
    }

    #[test]
    fn a_backup_is_fresh_stale_missing_or_not_known() {
        let old = backup("2026-11-29T00:00:00Z");
        let day = Duration::from_hours(24);
        for (looked, status, reason, newest) in [
            (
                found("2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"),
                "True",
                BACKUP_IS_FRESH,
                Some("2026-11-30T00:00:00Z"),
            ),
            (
                found("2026-11-30T00:00:00Z", "2026-12-01T00:00:01Z"),
                "False",
                BACKUP_STALE,
                Some("2026-11-30T00:00:00Z"),
            ),
            // A clock behind the backup's makes nothing old.
            (
                found("2026-11-30T00:00:00Z", "2026-11-29T00:00:00Z"),
                "True",
                BACKUP_IS_FRESH,
                Some("2026-11-30T00:00:00Z"),
            ),
            (Looked::None, "False", BACKUP_MISSING, None),
            (
                Looked::Unreadable("why".to_owned()),
                "Unknown",
                BACKUP_UNREADABLE,
                Some("2026-11-29T00:00:00Z"),
            ),
        ] {
            let (backup, said) = judge(&looked, day, Some(&old));
            assert_eq!((said.status, said.reason), (status, reason), "{looked:?}");
            assert_eq!(backup.map(|backup| backup.time).as_deref(), newest, "{looked:?}");
            assert!(said.status == "True" || !said.message.is_empty(), "{looked:?}");
        }
    }

    #[test]
    fn the_age_is_read_as_the_schema_allows_it() {
        for (text, seconds) in [
            (None, 86_400),
            (Some("8h"), 28_800),
            (Some("1h30m"), 5_400),
            (Some("2d"), 172_800),
            (Some("1500ms"), 1),
            (Some("99999999999999999999h"), 86_400),
        ] {
            assert_eq!(max_age(text).as_secs(), seconds, "{text:?}");
        }
    }

    #[test]
    fn a_bucket_is_reached_with_what_the_secret_holds_and_no_more() {
        let bucket: BackupBucket = serde_json::from_value(
            json!({"endpoint": "https://s3.example.com", "bucket": "backups", "prefix": "prod"}),
        )
        .unwrap();
        let secret =
            |data: Value| -> Secret { serde_json::from_value(json!({"data": data})).unwrap() };
        // "key" and "word" in base64.
        let whole = secret(json!({"accessKeyId": "a2V5", "secretAccessKey": "d29yZA=="}));
        let made = config(&bucket, &whole).unwrap();
        assert_eq!(made.endpoint.as_deref(), Some("https://s3.example.com"));
        assert_eq!((made.region.as_deref(), made.path_style), (Some("us-east-1"), Some(true)));
        assert_eq!(made.keys.unwrap().0, "key");
        assert_eq!(prefix(&bucket), "prod/");
        assert_eq!(prefix(&BackupBucket { prefix: None, ..bucket.clone() }), "etcd/");
        let half = secret(json!({"accessKeyId": "a2V5", "secretAccessKey": "Cg=="}));
        assert_eq!(config(&bucket, &half).err(), Some("secretAccessKey"));
    }
}
