//! Keys to one bucket: several, each with a name and a kind, without expiry.
//!
//! The API gives the secrets away at any time (vco-api.md 10.3). To rotate: create a second
//! name, switch, delete the first.

use std::fmt;
use std::str::FromStr;

use secrecy::SecretString;
use serde_json::Value;

use super::call::Method;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::ObjectspaceId;

/// What a key may do. What exactly that is in S3's words is not declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `r`.
    Read,
    /// `w`.
    Write,
    /// `rw`.
    ReadWrite,
}

impl Access {
    /// In the cloud's words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::ReadWrite => "rw",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Access {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_lowercase().as_str() {
            "r" => Ok(Self::Read),
            "w" => Ok(Self::Write),
            "rw" => Ok(Self::ReadWrite),
            _ => Err("there are r, w and rw"),
        }
    }
}

/// A key to one bucket.
#[derive(Debug, Clone)]
pub struct BucketKey {
    /// Its name, unique within the bucket.
    pub name: String,
    /// What it may do; `None` if the reply says nothing that we know.
    pub access: Option<Access>,
    /// The key id.
    pub access_key: String,
    /// The secret; never shown.
    pub secret: SecretString,
}

impl BucketKey {
    /// Reads a key; `None` where a part of it is missing.
    fn read(row: &Value) -> Option<Self> {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        Some(Self {
            name: text("name")?,
            access: text("access_type").and_then(|text| text.parse().ok()),
            access_key: text("access_key")?,
            secret: text("secret_key")?.into(),
        })
    }
}

impl Customer {
    /// The keys to a bucket.
    pub async fn bucket_keys(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
    ) -> Result<Vec<BucketKey>, Error> {
        let call = self.read_bucket(of, bucket, "list the bucket's keys", &["access-management"]);
        let reply = self.send(call).await?;
        reply
            .rows("keys")?
            .into_iter()
            // A row left out would be a key that nobody takes away.
            .map(|row| BucketKey::read(row).ok_or_else(|| reply.garbled("a key is not whole")))
            .collect()
    }

    /// Makes a key to a bucket. It may not be repeated; after a lost reply
    /// [`Customer::bucket_keys`] has the key, secret included, under its name. `None` where the
    /// reply does not hold it whole: then look there, too ([`Customer::create_surely`]).
    pub async fn create_bucket_key(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
        name: &str,
        access: Access,
    ) -> Result<Option<BucketKey>, Error> {
        let path = ["access-management"];
        let call = self
            .change_bucket(Method::Post, of, bucket, "create the bucket's key", &path)
            .about(format!("objectspace {of}, bucket {bucket}, key {name}"))
            .with("access_name", name)
            .with("access_type", access);
        Ok(BucketKey::read(&self.send(call).await?.json))
    }

    /// Changes what a key may do. It may be repeated.
    pub async fn update_bucket_key(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
        name: &str,
        access: Access,
    ) -> Result<(), Error> {
        let path = ["access-management", name];
        let call = self
            .change_bucket(Method::Put, of, bucket, "change the bucket's key", &path)
            .about(format!("objectspace {of}, bucket {bucket}, key {name}"))
            .with("access_type", access)
            .repeatable();
        self.send(call).await.map(|_| ())
    }

    /// Takes a key away; one that is not there counts as taken. It may be repeated.
    pub async fn delete_bucket_key(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
        name: &str,
    ) -> Result<(), Error> {
        let path = ["access-management", name];
        let call = self
            .change_bucket(Method::Delete, of, bucket, "delete the bucket's key", &path)
            .about(format!("objectspace {of}, bucket {bucket}, key {name}"));
        self.send_delete(call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_whole_or_none_and_never_shown() {
        let row = json!({"name": "schedule", "access_type": "RW", "access_key": "AK",
            "secret_key": "hunter2", "more": 1});
        let key = BucketKey::read(&row).unwrap();
        assert_eq!((key.name.as_str(), key.access), ("schedule", Some(Access::ReadWrite)));
        assert!(!format!("{key:?}").contains("hunter2"));
        let odd =
            json!({"name": "x", "access_type": "full", "access_key": "AK", "secret_key": "s"});
        assert_eq!(BucketKey::read(&odd).unwrap().access, None);
        for missing in ["name", "access_key", "secret_key"] {
            let mut row = row.clone();
            row[missing] = json!(null);
            assert!(BucketKey::read(&row).is_none(), "{missing}");
        }
    }

    #[test]
    fn the_kinds_are_the_clouds_words() {
        for access in [Access::Read, Access::Write, Access::ReadWrite] {
            assert_eq!(access.to_string().parse(), Ok(access));
        }
        assert!("x".parse::<Access>().is_err());
    }
}
