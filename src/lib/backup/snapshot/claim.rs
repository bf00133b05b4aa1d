//! A node's word that it is at work on a slot, so that the others wait.
//!
//! A claim is a courtesy, not a lock: it saves the others' work, and where two nodes hold one all
//! the same, the manifest decides (`If-None-Match`). Its age is that of the object by the
//! server's clock; whoever works for long renews it, and whoever gives up takes it back.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::place::Place;
use super::plan::ClaimSeen;
use crate::backup::Error;
use crate::s3::{Put, PutOutcome};
use crate::snapshot::layout::Part;

/// The most bytes of a claim; ours have about 200.
const LARGEST: u64 = 4096;

const KIND: &str = "capvco-backup-claim";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    kind: String,
    version: u64,
    node: String,
    run: String,
    at: Timestamp,
    /// It was taken back.
    #[serde(default)]
    released: bool,
}

/// A claim as it was found, and who holds it.
pub struct Seen {
    /// What it means for us.
    pub claim: ClaimSeen,
    /// The other node.
    pub holder: String,
    /// Whether there is an object at all.
    pub there: bool,
}

/// Looks at the slot's claim.
pub async fn look(place: &Place) -> Result<Seen, Error> {
    let key = place.key(Part::Claim);
    let doing = || format!("cannot look for {key}");
    let nobody = |there| Seen { claim: ClaimSeen::Free, holder: String::new(), there };
    let head = match place.bucket.head(&key, None).await {
        Ok(Some(head)) => head,
        Ok(None) => return Ok(nobody(false)),
        // Without the right to read there is no waiting for others, only their manifest.
        Err(error) if error.is_denied() => return Ok(nobody(true)),
        Err(error) => return Err(Error::doing(doing())(error)),
    };
    let bytes = match place.bucket.get_small(&key, head.version_id.as_deref(), LARGEST).await {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(error) if error.is_denied() => return Ok(nobody(true)),
        Err(error) => return Err(Error::doing(doing())(error)),
    };
    let age = age(head.modified, place.now().await?);
    let (claim, holder) = read(&bytes, &place.unique.to_string(), age);
    Ok(Seen { claim, holder, there: true })
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit easily")]
fn age(modified: Option<u64>, now: f64) -> Duration {
    // Without a date it counts as new: the worst that comes of it is waiting.
    let seconds = modified.map_or(0.0, |modified| now - modified as f64);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}

fn read(bytes: &[u8], run: &str, age: Duration) -> (ClaimSeen, String) {
    match serde_json::from_slice::<Claim>(bytes) {
        Ok(claim) if claim.released => (ClaimSeen::Free, claim.node),
        Ok(claim) if claim.run == run => (ClaimSeen::Ours, claim.node),
        Ok(claim) => (ClaimSeen::Held { age }, claim.node),
        // Whoever wrote it may be at work; as any other it grows old.
        Err(_) => (ClaimSeen::Held { age }, "another node".to_owned()),
    }
}

/// Claims the slot for `node`, or renews the claim. Whether it is ours shows only the next look.
pub async fn take(place: &Place, node: &str, seen_one: bool) -> Result<(), Error> {
    let put = Put { only_if_absent: !seen_one, ..put() };
    let key = place.key(Part::Claim);
    let doing = || format!("cannot write {key}");
    let claim = bytes(place, node, false).await?;
    let outcome = place.bucket.put(&key, claim.clone(), &put).await;
    let outcome = outcome.map_err(Error::doing(doing()))?;
    // "There is one", and none is seen: a delete marker, for which versitygw answers so, too.
    let hidden = outcome == PutOutcome::AlreadyThere && !look(place).await?.there;
    if hidden {
        let again = place.bucket.put(&key, claim, &self::put()).await;
        again.map_err(Error::doing(doing()))?;
    }
    Ok(())
}

/// Takes the claim back, so that others need not wait for its end.
pub async fn release(place: &Place, node: &str) -> Result<(), Error> {
    let key = place.key(Part::Claim);
    let bytes = bytes(place, node, true).await?;
    let put = place.bucket.put(&key, bytes, &put()).await;
    put.map(drop).map_err(Error::doing(format!("cannot take {key} back")))
}

fn put() -> Put {
    Put { content_type: Some("application/json".to_owned()), ..Put::default() }
}

async fn bytes(place: &Place, node: &str, released: bool) -> Result<Bytes, Error> {
    let claim = Claim {
        kind: KIND.to_owned(),
        version: 1,
        node: node.to_owned(),
        run: place.unique.to_string(),
        at: super::time(place.now().await?),
        released,
    };
    let bytes = serde_json::to_vec(&claim).expect("a claim of texts and numbers is JSON");
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(run: &str, released: bool) -> Vec<u8> {
        let at = Timestamp::UNIX_EPOCH;
        let (kind, node, run) = (KIND.to_owned(), "cp-2".to_owned(), run.to_owned());
        serde_json::to_vec(&Claim { kind, version: 1, node, run, at, released }).unwrap()
    }

    #[test]
    fn a_claim_is_ours_anothers_or_nobodys() {
        let age = Duration::from_secs(7);
        let held = ClaimSeen::Held { age };
        for (bytes, seen, holder) in [
            (written("00ff", false), ClaimSeen::Ours, "cp-2"),
            (written("0100", false), held.clone(), "cp-2"),
            (written("0100", true), ClaimSeen::Free, "cp-2"),
            (written("00ff", true), ClaimSeen::Free, "cp-2"),
            (b"".to_vec(), held.clone(), "another node"),
            (b"{}".to_vec(), held, "another node"),
        ] {
            let told = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(read(&bytes, "00ff", age), (seen, holder.to_owned()), "{told}");
        }
    }

    #[test]
    fn a_claims_age_is_by_the_servers_clock_and_never_negative() {
        for (modified, now, seconds) in
            [(Some(1000), 1007.5, 7), (Some(1000), 990.0, 0), (None, 990.0, 0)]
        {
            assert_eq!(age(modified, now).as_secs(), seconds, "{modified:?} {now}");
        }
    }
}
