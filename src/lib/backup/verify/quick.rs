//! What can be seen of a backup without fetching it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;

use super::report::Checks;
use crate::backup::Error;
use crate::backup::held::held;
use crate::backup::wording::{length, moment};
use crate::report::size;
use crate::s3::{Bucket, Head, Mode, Retention, Version};
use crate::snapshot::catalog::{Entry, Place, Record};
use crate::snapshot::manifest::{Content, Encryption, Lock, Manifest};
use crate::snapshot::seal::{HEADER, Identities, Opens, try_header};

/// The most of a header that is fetched: one of hundreds of recipients.
const LONGEST_HEADER: u64 = 1 << 20;

/// Looks at a backup from outside.
pub async fn check(
    bucket: &Bucket,
    entry: &Entry,
    identities: Option<&Identities>,
    now: Timestamp,
    checks: &mut Checks,
) -> Result<(), Error> {
    let Some(record) = entry.records.first() else {
        checks.bad("manifest", "there is none: the backup was never finished");
        return Ok(());
    };
    let manifest = match &record.found {
        Err(why) => {
            checks.bad("manifest", why.to_string());
            return Ok(());
        }
        Ok(manifest) => manifest,
    };
    checks.good("manifest", said(record, manifest, entry.rivals(), now));
    let pki =
        manifest.pki.as_ref().map(|pki| (&pki.content, record.pki.as_ref(), pki.key.as_str()));
    let data = (&manifest.data.content, record.data.as_ref(), manifest.data.key.as_str());
    for (name, (content, version, key)) in
        std::iter::once(("data", data)).chain(pki.map(|pki| ("pki", pki)))
    {
        object(bucket, name, content, version, key, checks).await?;
    }
    locks(bucket, record, manifest, now, checks).await?;
    hold(bucket, record, checks).await?;
    header(bucket, record, manifest, identities, checks).await
}

fn said(record: &Record, manifest: &Manifest, rivals: usize, now: Timestamp) -> String {
    let age = length(now.as_second() - manifest.started.as_second());
    let place = match record.place {
        Place::Shown => "",
        Place::Hidden => "; hidden behind a delete marker",
        Place::Covered => "; newer versions of it do not count",
    };
    let rivals = match rivals {
        0 => String::new(),
        rivals => format!("; {rivals} later manifests say otherwise and do not count"),
    };
    let Manifest { revision, node, .. } = manifest;
    format!("revision {revision} from {node}, {age} ago{place}{rivals}")
}

/// Whether an object is there, and as long as it should be.
async fn object(
    bucket: &Bucket,
    name: &'static str,
    content: &Content,
    version: Option<&Version>,
    key: &str,
    checks: &mut Checks,
) -> Result<(), Error> {
    let Some(version) = version else {
        checks.bad(name, format!("{key} is not there, or has another size"));
        return Ok(());
    };
    let doing = format!("cannot look at {}", version.key);
    let head = bucket.head(&version.key, version.version_id.as_deref()).await;
    let head = head.map_err(Error::doing(doing))?;
    checks.judged(name, judge(head.as_ref(), content));
    Ok(())
}

fn judge(head: Option<&Head>, content: &Content) -> Result<String, String> {
    let Some(head) = head else { return Err("it is not there".to_owned()) };
    if head.size != content.size {
        return Err(format!("it has {} bytes instead of {}", head.size, content.size));
    }
    match stored_sum(head) {
        Some(sum) if sum != content.sha256 => {
            Err("the store's SHA-256 of it is not the manifest's".to_owned())
        }
        Some(_) => Ok(format!("{}, with the right SHA-256 by the store's word", size(head.size))),
        None => Ok(size(head.size)),
    }
}

/// The store's own SHA-256 of an object, where it has one of all its bytes (a `-` and a number
/// behind it means: of its parts' sums).
fn stored_sum(head: &Head) -> Option<String> {
    let sum = head.checksum.as_deref()?.strip_prefix("sha256:")?;
    BASE64_STANDARD.decode(sum).ok().map(hex::encode)
}

async fn locks(
    bucket: &Bucket,
    record: &Record,
    manifest: &Manifest,
    now: Timestamp,
    checks: &mut Checks,
) -> Result<(), Error> {
    let objects = [
        ("lock", record.data.as_ref()),
        ("pki lock", record.pki.as_ref()),
        ("manifest lock", Some(&record.version)),
    ];
    for (name, version) in objects {
        let Some(version) = version else { continue };
        let doing = format!("cannot read the lock of {}", version.key);
        let found = bucket.retention(&version.key, version.version_id.as_deref()).await;
        match lock(manifest.lock, &found.map_err(Error::doing(doing))?, now) {
            Ok(detail) => checks.judged(name, detail),
            Err(unknown) => checks.unknown(name, unknown),
        }
    }
    Ok(())
}

/// A legal hold is neither good nor bad: it is said.
async fn hold(bucket: &Bucket, record: &Record, checks: &mut Checks) -> Result<(), Error> {
    match held(bucket, record).await? {
        Some(true) => checks.good("hold", "held, until `capvco-backup hold remove`"),
        Some(false) => checks.good("hold", "none"),
        None => checks.unknown("hold", "it cannot be read"),
    }
    Ok(())
}

/// Holds a lock against what the manifest says it was. The outer error: it cannot be told.
fn lock(
    said: Option<Lock>,
    found: &Retention,
    now: Timestamp,
) -> Result<Result<String, String>, String> {
    let found = match found {
        Retention::Unreadable(why) => return Err(format!("it cannot be read: {why}")),
        Retention::None => None,
        Retention::Locked { mode, until } => Some(Lock::until(*mode, *until)),
    };
    let Some(said) = said else {
        return Ok(Ok(found.map_or_else(|| "none, as its manifest says".to_owned(), told)));
    };
    if said.until <= now {
        return Ok(Ok(format!("ended at {}", moment(said.until))));
    }
    Ok(match found {
        None => Err(format!("not locked; it should be until {}", moment(said.until))),
        // A second is lost where a store rounds.
        Some(found) if found.until.as_second() + 1 < said.until.as_second() => {
            Err(format!("{} only; it should be until {}", told(found), moment(said.until)))
        }
        Some(found) if (found.mode, said.mode) == (Mode::Governance, Mode::Compliance) => {
            Err(format!("{}; it should be compliance", told(found)))
        }
        Some(found) => Ok(told(found)),
    })
}

fn told(lock: Lock) -> String {
    format!("{} until {}", lock.mode, moment(lock.until))
}

/// Tries the identities on the age headers, before anything else is fetched.
async fn header(
    bucket: &Bucket,
    record: &Record,
    manifest: &Manifest,
    identities: Option<&Identities>,
    checks: &mut Checks,
) -> Result<(), Error> {
    let sealed = manifest.data.encryption == Encryption::Age;
    if !sealed {
        checks.good("identity", "not encrypted: anybody who may read the bucket can read it");
    }
    let objects = [record.data.as_ref().filter(|_| sealed), record.pki.as_ref()];
    for version in objects.into_iter().flatten() {
        let Some(identities) = identities else {
            checks.unknown("identity", "no identity is given to try");
            return Ok(());
        };
        let opens = opens(bucket, version, identities).await?;
        match opens {
            Ok(detail) => checks.good("identity", detail),
            Err(error) => checks.closed("identity", &error.encrypted_to(&manifest.recipients)),
        }
    }
    Ok(())
}

async fn opens(
    bucket: &Bucket,
    version: &Version,
    identities: &Identities,
) -> Result<Result<String, crate::snapshot::Error>, Error> {
    let name = version.key.rsplit('/').next().unwrap_or_default().to_owned();
    let mut most = HEADER as u64;
    loop {
        let first = beginning(bucket, version, most).await?;
        let whole = first.len() as u64 >= version.size;
        match try_header(&first, identities, &name) {
            Ok(Opens::Yes) => return Ok(Ok(format!("one of those given opens {name}"))),
            Ok(Opens::NeedMore) if !whole && most < LONGEST_HEADER => most *= 16,
            Ok(Opens::NeedMore) => {
                return Ok(Err(crate::snapshot::Error::BadHeader { name }));
            }
            Ok(Opens::No) => {
                let identities = identities.len();
                let recipients = Vec::new();
                return Ok(Err(crate::snapshot::Error::WrongKey { name, identities, recipients }));
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// The first bytes of an object.
async fn beginning(bucket: &Bucket, version: &Version, most: u64) -> Result<Vec<u8>, Error> {
    let doing = || Error::doing(format!("cannot read the beginning of {}", version.key));
    let range = 0..version.size.min(most);
    let mut bytes = Vec::new();
    if range.is_empty() {
        return Ok(bytes);
    }
    let body = bucket.get(&version.key, version.version_id.as_deref(), Some(range)).await;
    let mut body = body.map_err(doing())?;
    while let Some(piece) = body.next().await.map_err(doing())? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_against_what_its_manifest_says() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let unix =
            |text: &str| u64::try_from(text.parse::<Timestamp>().unwrap().as_second()).unwrap();
        let (soon, later) = (unix("2026-12-01T00:00:00Z"), unix("2026-12-30T00:00:00Z"));
        let (governance, compliance) = (Mode::Governance, Mode::Compliance);
        let locked = |mode, until| Retention::Locked { mode, until };
        let said = |mode, until| Some(Lock::until(mode, until));
        for (said, found, want) in [
            (said(compliance, later), locked(compliance, later), Some(true)),
            (said(governance, later), locked(compliance, later), Some(true)),
            (said(governance, later), locked(governance, later - 1), Some(true)),
            (said(governance, soon), locked(governance, later), Some(true)),
            (said(compliance, later), locked(governance, later), Some(false)),
            (said(compliance, later), locked(compliance, soon), Some(false)),
            (said(compliance, later), Retention::None, Some(false)),
            (said(compliance, unix("2026-11-29T00:00:00Z")), Retention::None, Some(true)),
            (None, Retention::None, Some(true)),
            (None, locked(governance, later), Some(true)),
            (said(compliance, later), Retention::Unreadable("403".to_owned()), None),
            (None, Retention::Unreadable("403".to_owned()), None),
        ] {
            let judged = lock(said, &found, now);
            assert_eq!(
                judged.clone().ok().map(|inner| inner.is_ok()),
                want,
                "{found:?} {judged:?}"
            );
        }
    }

    #[test]
    fn an_object_is_held_against_its_size_and_the_stores_own_sum() {
        let content = Content { size: 3, sha256: hex::encode([1; 32]) };
        let head = |size, checksum: Option<String>| Head {
            size,
            version_id: None,
            etag: None,
            modified: None,
            checksum,
            metadata: Vec::new(),
            lock: None,
        };
        let sum = |byte: u8| Some(format!("sha256:{}", BASE64_STANDARD.encode([byte; 32])));
        for (head, good) in [
            (None, false),
            (Some(head(4, None)), false),
            (Some(head(3, None)), true),
            (Some(head(3, sum(1))), true),
            (Some(head(3, sum(2))), false),
            (Some(head(3, sum(2).map(|sum| format!("{sum}-2")))), true),
            (Some(head(3, Some("crc32c:AAAAAA==".to_owned()))), true),
        ] {
            assert_eq!(judge(head.as_ref(), &content).is_ok(), good, "{head:?}");
        }
    }
}
