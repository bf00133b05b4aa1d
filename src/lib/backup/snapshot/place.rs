//! One backup's place in the bucket, and what is found there.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::locked::{LockSeen, Need, read_back};
use crate::backup::Error;
use crate::s3::{Bucket, Head};
use crate::snapshot::layout::{ClusterId, Layout, Part, Slot, Unique};
use crate::snapshot::manifest::{self, Content, Manifest};

/// A backup's folder, and this run's name in it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The bucket.
    pub bucket: Bucket,
    /// How keys are made in it.
    pub layout: Layout,
    /// Whose backup it is.
    pub cluster: ClusterId,
    /// Which one.
    pub slot: Slot,
    /// What tells this run's objects from those of others.
    pub unique: Unique,
}

/// What is found of a backup.
#[derive(Debug)]
pub enum Found {
    /// No manifest.
    Nothing,
    /// This key may not read manifests; why.
    Unreadable(String),
    /// All of it, with its lock.
    Good(Box<Manifest>, LockSeen),
    /// A manifest, and something is wrong; what.
    Bad(String),
}

impl Place {
    /// An object's key.
    pub fn key(&self, part: Part) -> String {
        self.layout.key(self.cluster, &self.slot, part)
    }

    /// The server's time, in seconds since 1970.
    pub async fn now(&self) -> Result<f64, Error> {
        self.bucket.server_time().await.map_err(Error::doing("cannot learn the server's time"))
    }

    /// Looks at what is there: the manifest, and everything that it names. `need` is what has to
    /// be true of the locks.
    pub async fn look(&self, need: Need) -> Result<Found, Error> {
        let key = self.key(Part::Manifest);
        let largest = manifest::LARGEST as u64;
        let bytes = match self.bucket.get_small(&key, None, largest).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Found::Nothing),
            Err(error) if error.is_denied() => return Ok(Found::Unreadable(error.to_string())),
            Err(error) => return Err(Error::doing(format!("cannot look for {key}"))(error)),
        };
        match Manifest::parse(&bytes) {
            Err(flaw) => Ok(Found::Bad(format!("its manifest is damaged: {flaw}"))),
            Ok(manifest) => self.verify(manifest, need).await,
        }
    }

    async fn verify(&self, manifest: Manifest, need: Need) -> Result<Found, Error> {
        if (manifest.cluster, &manifest.slot) != (self.cluster, &self.slot) {
            return Ok(Found::Bad("its manifest is of another backup".to_owned()));
        }
        let data = &manifest.data;
        let mut objects = vec![(&data.key, data.version_id.as_deref(), &data.content)];
        if let Some(pki) = &manifest.pki {
            objects.push((&pki.key, pki.version_id.as_deref(), &pki.content));
        }
        let mut seen = read_back(&self.bucket, &self.key(Part::Manifest), None, need).await?;
        for (key, version, content) in objects {
            let doing = format!("cannot look at {key}");
            let head = match self.bucket.head(key, version).await {
                Ok(head) => head,
                Err(error) if error.is_denied() => {
                    return Ok(Found::Unreadable(error.to_string()));
                }
                Err(error) => return Err(Error::doing(doing)(error)),
            };
            if let Some(wrong) = differs(head.as_ref(), content) {
                return Ok(Found::Bad(format!("{key} {wrong}")));
            }
            seen = seen.and(read_back(&self.bucket, key, version, need).await?);
        }
        Ok(match seen {
            LockSeen::Less(why) => Found::Bad(why),
            seen => Found::Good(Box::new(manifest), seen),
        })
    }
}

/// What is wrong with an object, as far as a look at it tells.
fn differs(head: Option<&Head>, content: &Content) -> Option<String> {
    let Some(head) = head else { return Some("is gone".to_owned()) };
    if head.size != content.size {
        return Some(format!("has {} bytes instead of {}", head.size, content.size));
    }
    // Only the sum of an object in one piece is that of its bytes: `…-3` is one over three parts.
    let sum = head.checksum.as_deref().and_then(|sum| sum.strip_prefix("sha256:"));
    let sum = sum.and_then(|sum| BASE64_STANDARD.decode(sum).ok());
    let wrong = sum.is_some_and(|sum| hex::encode(sum) != content.sha256);
    wrong.then(|| "has another checksum than its manifest says".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_held_against_its_manifest_as_far_as_a_look_tells() {
        let content = Content { size: 3, sha256: hex::encode([7; 32]) };
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
        for (head, wrong) in [
            (None, Some("is gone")),
            (Some(head(4, None)), Some("has 4 bytes instead of 3")),
            (Some(head(3, None)), None),
            (Some(head(3, sum(7))), None),
            (Some(head(3, sum(8))), Some("has another checksum than its manifest says")),
            (Some(head(3, sum(8).map(|sum| sum + "-3"))), None),
            (Some(head(3, Some("crc32c:AAAAAA==".into()))), None),
        ] {
            assert_eq!(differs(head.as_ref(), &content).as_deref(), wrong, "{head:?}");
        }
    }
}
