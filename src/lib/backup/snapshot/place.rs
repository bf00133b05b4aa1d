//! One backup's place in the bucket, and what is found there.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::locked::{LockSeen, Need, read_back};
use crate::backup::Error;
use crate::s3::{self, Bucket, Head, Version};
use crate::snapshot::catalog::judge;
use crate::snapshot::layout::{ClusterId, Layout, Part, Slot, Unique};
use crate::snapshot::manifest::{self, Content, Encryption, Manifest};
use crate::snapshot::seal::{HEADER, Identities, Opens, try_header};

/// The most of a header that is fetched: one of hundreds of recipients.
const LONGEST_HEADER: u64 = 1 << 20;

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

    /// Looks at what is there: the manifest, and everything that it names. It has to pass all that
    /// `list` asks of it. `need` is what has to be true of the locks.
    pub async fn look(&self, need: Need) -> Result<Found, Error> {
        let key = self.key(Part::Manifest);
        let (bytes, modified) = match self.manifest(&key).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Found::Nothing),
            Err(error) if error.is_denied() => return Ok(Found::Unreadable(error.to_string())),
            Err(error) => return Err(Error::doing(format!("cannot look for {key}"))(error)),
        };
        let manifest = match Manifest::parse(&bytes) {
            Err(flaw) => return Ok(Found::Bad(format!("its manifest is damaged: {flaw}"))),
            Ok(manifest) => manifest,
        };
        match judge(self.cluster, &self.slot, modified, manifest) {
            Err(why) => Ok(Found::Bad(format!("its manifest is not good: {why}"))),
            Ok(manifest) => self.verify(manifest, need).await,
        }
    }

    /// The manifest that a plain read finds, and when it was stored.
    async fn manifest(&self, key: &str) -> Result<Option<(Vec<u8>, u64)>, s3::Error> {
        let Some(head) = self.bucket.head(key, None).await? else { return Ok(None) };
        let modified = head.modified.unwrap_or(0);
        if head.size > manifest::LARGEST as u64 {
            // Too large to be read, and so to be one.
            return Ok(Some((Vec::new(), modified)));
        }
        let version = Version {
            key: key.to_owned(),
            version_id: head.version_id,
            latest: true,
            size: head.size,
            modified,
            marker: false,
        };
        let bytes = self.bucket.get_listed(&version).await?;
        Ok(bytes.map(|bytes| (bytes, modified)))
    }

    async fn verify(&self, manifest: Manifest, need: Need) -> Result<Found, Error> {
        let data = &manifest.data;
        let sealed = data.encryption == Encryption::Age;
        let mut objects = vec![(&data.key, data.version_id.as_deref(), &data.content, sealed)];
        if let Some(pki) = &manifest.pki {
            objects.push((&pki.key, pki.version_id.as_deref(), &pki.content, true));
        }
        let mut seen = read_back(&self.bucket, &self.key(Part::Manifest), None, need).await?;
        for (named, version, content, sealed) in objects {
            let key = self.layout.beside(self.cluster, &self.slot, named);
            match self.object(&key, version, content, sealed).await {
                Ok(None) => {}
                Ok(Some(wrong)) => return Ok(Found::Bad(format!("{key} {wrong}"))),
                Err(error) if error.is_denied() => {
                    return Ok(Found::Unreadable(error.to_string()));
                }
                Err(error) => return Err(Error::doing(format!("cannot look at {key}"))(error)),
            }
            seen = seen.and(read_back(&self.bucket, &key, version, need).await?);
        }
        Ok(match seen {
            LockSeen::Less(why) => Found::Bad(why),
            seen => Found::Good(Box::new(manifest), seen),
        })
    }

    /// What is wrong with an object that a manifest names, if anything is.
    async fn object(
        &self,
        key: &str,
        version: Option<&str>,
        content: &Content,
        sealed: bool,
    ) -> Result<Option<String>, s3::Error> {
        let head = self.bucket.head(key, version).await?;
        let wrong = differs(head.as_ref(), content);
        if wrong.is_some() || !sealed {
            return Ok(wrong);
        }
        let mut wanted = HEADER as u64;
        loop {
            let range = Some(0..wanted.min(content.size));
            let mut body = self.bucket.get(key, version, range).await?;
            let mut first = Vec::new();
            while let Some(piece) = body.next().await? {
                first.extend_from_slice(&piece);
            }
            match try_header(&first, &Identities::default(), key) {
                Ok(Opens::Yes | Opens::No) => return Ok(None),
                Ok(Opens::NeedMore) if wanted < content.size.min(LONGEST_HEADER) => {
                    wanted = LONGEST_HEADER;
                }
                _ => return Ok(Some("is not encrypted by age, as its manifest says".to_owned())),
            }
        }
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
