//! Uploads into a bucket that were begun and not finished, and the rule that ends them.

use serde_json::{Value, json};

use super::call::{Body, Method};
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::ObjectspaceId;

/// A lifecycle rule of a bucket, as S3 writes it (vco-api.md 10.4).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleRule {
    /// Its name.
    pub id: Option<String>,
    /// The keys it is for; empty for all.
    pub prefix: Option<String>,
    /// `Enabled` or `Disabled`.
    pub status: Option<String>,
    /// After how many days an unfinished upload is ended, if the rule is of that kind.
    pub abort_after_days: Option<u64>,
}

impl LifecycleRule {
    /// Reads a row of a list: the rule lies under `data`.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        let rule = row.get("data").filter(|data| data.is_object()).unwrap_or(row);
        let prefix = wire::text(rule, "Prefix");
        Self {
            id: wire::text(rule, "ID"),
            // Newer S3 writes it into a filter.
            prefix: prefix.or_else(|| wire::text(rule.get("Filter")?, "Prefix")),
            status: wire::text(rule, "Status"),
            abort_after_days: rule
                .get("AbortIncompleteMultipartUpload")
                .and_then(|abort| wire::amount(abort, "DaysAfterInitiation")),
        }
    }
}

/// An upload that was begun and not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUpload {
    /// S3's name for it.
    pub upload_id: String,
    /// The object that it would become.
    pub key: String,
    /// When it was begun, as the cloud writes it; the form is not declared.
    pub initiated: Option<String>,
}

impl BucketUpload {
    fn read(row: &Value) -> Option<Self> {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        let (upload_id, key) = (text("upload_id")?, text("key")?);
        Some(Self { upload_id, key, initiated: text("initiated") })
    }
}

impl Customer {
    /// The lifecycle rules of a bucket.
    pub async fn lifecycle_rules(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
    ) -> Result<Vec<LifecycleRule>, Error> {
        let operation = "list the bucket's lifecycle rules";
        let call = self.read_bucket(of, bucket, operation, &["lifecycle-rules"]);
        let reply = self.send(call).await?;
        Ok(reply.rows("rules")?.into_iter().map(LifecycleRule::read).collect())
    }

    /// Adds a rule that ends unfinished uploads below `prefix` after so many days. Whether a
    /// second rule of one name replaces the first is unknown, so it is not repeated; after a
    /// lost reply [`Customer::lifecycle_rules`] tells.
    pub async fn add_abort_rule(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
        rule: &str,
        prefix: &str,
        days: u64,
    ) -> Result<(), Error> {
        let path = ["lifecycle-rules", "delete-incomplete-multipart-uploads"];
        let document = json!({
            "ID": rule, "Prefix": prefix, "Status": "Enabled",
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days},
        });
        let call = self
            .change_bucket(Method::Post, of, bucket, "add the lifecycle rule", &path)
            .about(format!("objectspace {of}, bucket {bucket}, rule {rule}"))
            .body(Body::Json(document));
        self.send(call).await.map(|_| ())
    }

    /// Deletes a lifecycle rule; one that is not there counts as deleted. It may be repeated.
    pub async fn delete_lifecycle_rule(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
        rule: &str,
    ) -> Result<(), Error> {
        let path = ["lifecycle-rules", rule];
        let call = self
            .change_bucket(Method::Delete, of, bucket, "delete the lifecycle rule", &path)
            .about(format!("objectspace {of}, bucket {bucket}, rule {rule}"));
        self.send_delete(call).await
    }

    /// The uploads into a bucket that were begun and not finished.
    pub async fn bucket_uploads(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
    ) -> Result<Vec<BucketUpload>, Error> {
        let operation = "list the bucket's unfinished uploads";
        let call = self.read_bucket(of, bucket, operation, &["multipart-uploads"]);
        let reply = self.send(call).await?;
        let read = |row| BucketUpload::read(row).ok_or_else(|| reply.garbled("a row has no id"));
        reply.rows("uploads")?.into_iter().map(read).collect()
    }

    /// Ends an unfinished upload; one that is not there counts as ended. It may be repeated.
    /// Whether a key with slashes, encoded, finds its upload is unknown (vco-api.md 10.4); S3
    /// itself can end it, too.
    pub async fn cancel_bucket_upload(
        &self,
        of: &ObjectspaceId,
        bucket: &str,
        upload: &BucketUpload,
    ) -> Result<(), Error> {
        let path = ["multipart-uploads", &upload.key, &upload.upload_id];
        let call = self
            .change_bucket(Method::Delete, of, bucket, "cancel the upload", &path)
            .about(format!("objectspace {of}, bucket {bucket}, key {}", upload.key));
        self.send_delete(call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_in_each_of_its_forms() {
        let rule = json!({"ID": "abort", "Prefix": "p/", "Status": "Enabled",
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": "7"}});
        let read = LifecycleRule::read(&json!({"data": rule}));
        assert_eq!(read, LifecycleRule::read(&rule));
        assert_eq!((read.id.as_deref(), read.abort_after_days), (Some("abort"), Some(7)));
        let filter = json!({"data": {"ID": "x", "Filter": {"Prefix": "q/"}, "Expiration": {}}});
        let read = LifecycleRule::read(&filter);
        assert_eq!((read.prefix.as_deref(), read.abort_after_days), (Some("q/"), None));
        assert_eq!(LifecycleRule::read(&json!({"data": null})), LifecycleRule::default());
    }

    #[test]
    fn an_upload_needs_both_its_names() {
        let row = json!({"upload_id": "u", "key": "a/b", "initiated": null});
        assert_eq!(BucketUpload::read(&row).unwrap().key, "a/b");
        assert!(BucketUpload::read(&json!({"upload_id": "u", "key": ""})).is_none());
    }
}
