//! Buckets of an objectspace: list, read, create with or without locking, delete, restore.
//!
//! A bucket's id is its name, unique within its objectspace, so a lost reply is settled by
//! reading it. Default retention and its mode are set through S3 (vco-api.md 10.2).

use serde_json::Value;

use super::call::{Call, Method};
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::ObjectspaceId;

/// A bucket.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bucket {
    /// Its name, and its id.
    pub name: Option<String>,
    /// How many operations a second it may have (IOPS, not size; vco-api.md 10.2).
    pub limit: Option<u64>,
    /// Whether it lies in the recycle bin.
    pub deleted: Option<bool>,
    /// When it was put there, in seconds since 1970; the form is not declared.
    pub deletion_time: Option<f64>,
}

impl Bucket {
    /// Reads a row of a list (where it is `bucket_name`) or a detail (`name`).
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self {
            name: wire::text(row, "bucket_name").or_else(|| wire::text(row, "name")),
            limit: wire::amount(row, "limit"),
            deleted: wire::flag(row, "deleted"),
            deletion_time: wire::time(row, "deletion_time"),
        }
    }
}

/// A bucket to be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewBucket {
    /// How many operations a second it may have; 2000 unless said.
    pub limit: Option<u64>,
    /// Whether objects in it can be locked. It cannot be switched on later (vco-api.md 10.2).
    pub locking: bool,
}

impl Customer {
    /// The buckets of an objectspace, deleted ones left out.
    pub async fn buckets(&self, of: &ObjectspaceId) -> Result<Vec<Bucket>, Error> {
        let reply = self.send(self.read_objectspace(of, "list buckets", &["buckets"])).await?;
        Ok(reply.rows("buckets")?.into_iter().map(Bucket::read).collect())
    }

    /// The buckets of an objectspace that lie in the recycle bin.
    pub async fn deleted_buckets(&self, of: &ObjectspaceId) -> Result<Vec<Bucket>, Error> {
        let call = self.read_objectspace(of, "list deleted buckets", &["buckets"]);
        let reply = self.send(call.with("only_deleted", true)).await?;
        Ok(reply.rows("buckets")?.into_iter().map(Bucket::read).collect())
    }

    /// One bucket; `None` if the API says that there is no such one. Nothing in it tells whether
    /// it has locking: ask S3.
    pub async fn bucket(&self, of: &ObjectspaceId, name: &str) -> Result<Option<Bucket>, Error> {
        let call = self.read_bucket(of, name, "read the bucket", &[]);
        match self.send(call).await {
            Ok(reply) if reply.json.is_object() => Ok(Some(Bucket::read(&reply.json))),
            Ok(reply) => Err(reply.garbled("it is no object")),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a bucket. It may not be repeated blindly, since a second time it is refused; after
    /// a lost reply [`Customer::bucket`] tells ([`Customer::create_surely`]).
    pub async fn create_bucket(
        &self,
        of: &ObjectspaceId,
        name: &str,
        new: NewBucket,
    ) -> Result<(), Error> {
        let mut call = self
            .change_bucket(Method::Post, of, name, "create the bucket", &[])
            .with("enable_locking", new.locking);
        call.query = call.query.with_some("limit", new.limit);
        self.send(call).await.map(|_| ())
    }

    /// Deletes a bucket for good, with all that is in it; one that is not there counts as
    /// deleted. It may be repeated. Locked data may make the cloud refuse (vco-api.md 10.2).
    pub async fn delete_bucket(&self, of: &ObjectspaceId, name: &str) -> Result<(), Error> {
        let call = self.change_bucket(Method::Delete, of, name, "delete the bucket", &[]);
        self.send_delete(call.with("permanently", true)).await
    }

    /// Puts a bucket into the recycle bin. It may be repeated.
    pub async fn bin_bucket(&self, of: &ObjectspaceId, name: &str) -> Result<(), Error> {
        let operation = "put the bucket into the recycle bin";
        self.send_delete(self.change_bucket(Method::Delete, of, name, operation, &[])).await
    }

    /// Takes a bucket out of the recycle bin. It is not repeated, see
    /// [`Customer::restore_objectspace`].
    pub async fn restore_bucket(&self, of: &ObjectspaceId, name: &str) -> Result<(), Error> {
        // This path lacks `buckets` (vco-api.md 13.2).
        let call = self
            .change_objectspace(Method::Put, of, "restore the bucket", &[name, "restore"])
            .about(about(of, name));
        self.send(call).await.map(|_| ())
    }

    /// Sets how many operations a second a bucket may have. It may be repeated.
    pub async fn limit_bucket(
        &self,
        of: &ObjectspaceId,
        name: &str,
        limit: u64,
    ) -> Result<(), Error> {
        let path = [name, "bucket-limit"];
        let call = self
            .change_objectspace(Method::Put, of, "set the bucket's limit", &path)
            .about(about(of, name))
            .with("limit", limit)
            .repeatable();
        self.send(call).await.map(|_| ())
    }

    /// A call that reads below a bucket.
    pub(super) fn read_bucket<'a>(
        &self,
        of: &ObjectspaceId,
        name: &str,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["buckets", name], path].concat();
        self.read_objectspace(of, operation, &path).about(about(of, name))
    }

    /// A call that changes something there.
    pub(super) fn change_bucket<'a>(
        &self,
        method: Method,
        of: &ObjectspaceId,
        name: &str,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["buckets", name], path].concat();
        self.change_objectspace(method, of, operation, &path).about(about(of, name))
    }
}

fn about(of: &ObjectspaceId, name: &str) -> String {
    format!("objectspace {of}, bucket {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bucket_is_read_whatever_its_fields_are() {
        let row = json!({"bucket_name": "etcd", "limit": "2000", "deleted": "True",
            "deletion_time": "1790000000"});
        let bucket = Bucket::read(&row);
        assert_eq!((bucket.name.as_deref(), bucket.limit), (Some("etcd"), Some(2000)));
        assert_eq!((bucket.deleted, bucket.deletion_time), (Some(true), Some(1_790_000_000.0)));
        let detail = json!({"name": "etcd", "limit": null, "deleted": false, "more": 1});
        assert_eq!(Bucket::read(&detail).name.as_deref(), Some("etcd"));
        assert_eq!(Bucket::read(&json!(null)), Bucket::default());
    }
}
