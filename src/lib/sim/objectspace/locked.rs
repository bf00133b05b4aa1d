//! Whether a bucket holds data that nobody may destroy yet.

use std::time::Duration;

use jiff::Timestamp;

use super::record::Bucket;
use super::s3::{Ask, S3, blocks, encode, now, object, text};

/// Lists have a thousand entries a page; more pages than these nobody makes here.
const PAGES: usize = 100;

/// Whether any version in the bucket is locked or held. Where it has no lock of its own the
/// bucket's default counts, because versitygw enforces that one and does not show it.
pub(super) async fn locked(s3: &S3, bucket: &Bucket) -> Result<bool, String> {
    if !bucket.locking {
        return Ok(false);
    }
    let usual = default_time(s3, &bucket.name).await?;
    for version in versions(s3, &bucket.name).await? {
        if held(s3, &bucket.name, &version).await? || until(s3, bucket, &version, usual).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Version {
    key: String,
    id: String,
    modified: Option<Timestamp>,
}

/// All versions that hold data.
async fn versions(s3: &S3, bucket: &str) -> Result<Vec<Version>, String> {
    let (mut found, mut marker) = (Vec::new(), String::new());
    for _ in 0..PAGES {
        // In the order that signing asks for.
        let query = format!("{marker}versions=");
        let path = format!("/{}", encode(bucket));
        let ask = Ask { method: "GET", path, query, ..Ask::default() };
        let page = s3.must(ask).await?.body;
        for row in blocks(&page, "Version") {
            let (Some(key), Some(id)) = (text(row, "Key"), text(row, "VersionId")) else {
                continue;
            };
            let modified = text(row, "LastModified").and_then(|time| time.parse().ok());
            found.push(Version { key, id, modified });
        }
        let next = |name: &str| text(&page, name).map(|text| encode(&text)).unwrap_or_default();
        if text(&page, "IsTruncated").as_deref() != Some("true") {
            break;
        }
        let (key, version) = (next("NextKeyMarker"), next("NextVersionIdMarker"));
        marker = format!("key-marker={key}&version-id-marker={version}&");
    }
    Ok(found)
}

/// What is asked about one version.
fn about(bucket: &str, version: &Version, what: &str) -> Ask<'static> {
    let query = format!("{what}=&versionId={}", encode(&version.id));
    Ask { method: "GET", path: object(bucket, &version.key), query, ..Ask::default() }
}

async fn held(s3: &S3, bucket: &str, version: &Version) -> Result<bool, String> {
    let answer = s3.ask(about(bucket, version, "legal-hold")).await?;
    Ok(answer.is_ok() && text(&answer.body, "Status").as_deref() == Some("ON"))
}

async fn until(
    s3: &S3,
    bucket: &Bucket,
    version: &Version,
    usual: Option<Duration>,
) -> Result<bool, String> {
    let answer = s3.ask(about(&bucket.name, version, "retention")).await?;
    let own = text(&answer.body, "RetainUntilDate").and_then(|time| time.parse::<Timestamp>().ok());
    let by_default = || version.modified?.checked_add(usual?).ok();
    let until = if answer.is_ok() { own } else { by_default() };
    Ok(until.is_some_and(|until| until > now()))
}

/// How long the bucket's default locks what is put there.
async fn default_time(s3: &S3, bucket: &str) -> Result<Option<Duration>, String> {
    let (path, query) = (format!("/{}", encode(bucket)), "object-lock=".to_owned());
    let answer = s3.ask(Ask { method: "GET", path, query, ..Ask::default() }).await?;
    let number = |name: &str| text(&answer.body, name)?.parse::<u64>().ok();
    let days = number("Days").or_else(|| Some(number("Years")? * 365));
    Ok(days.map(|days| Duration::from_hours(days * 24)))
}
