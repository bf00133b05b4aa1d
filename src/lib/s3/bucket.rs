//! The bucket itself: whether it is there, what time it has, and making one.

use aws_sdk_s3::types::{
    AbortIncompleteMultipartUpload, BucketLifecycleConfiguration, BucketLocationConstraint,
    CreateBucketConfiguration, ExpirationStatus, LifecycleRule, LifecycleRuleFilter,
};

use super::call::{self, Call};
use super::client::Bucket;
use super::error::{Error, Kind};
use super::wire::Seen;

/// What became of making a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It is new.
    New,
    /// It was ours already.
    Existing,
}

impl Bucket {
    /// Whether the bucket is there and we may look at it.
    ///
    /// # Errors
    /// Any refusal but "there is no such bucket".
    pub async fn exists(&self) -> Result<bool, Error> {
        let call = Call::new("look at the bucket", self.at(""));
        let request = self.client().head_bucket().bucket(self.name());
        match self.run(&call, |try_| call::of(request.clone().customize(), try_).send()).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The store's time in seconds since 1970, from the last reply that came (a look at the
    /// bucket makes one where there was none yet). Good to a second.
    pub async fn server_time(&self) -> Result<f64, Error> {
        let mut seen = self.wire().seen();
        let mut failed = None;
        if seen.is_none() {
            // Whatever it answers, it says when.
            failed = self.exists().await.err();
            seen = self.wire().seen();
        }
        match (seen, failed) {
            (Some(Seen { date, at }), _) => {
                Ok(date + self.clock().elapsed().saturating_sub(at).as_secs_f64())
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(Call::new("learn the time", self.at(""))
                .error(Kind::Garbled)
                .with_message("the store's replies have no Date")),
        }
    }

    /// How many seconds the store's clock is ahead of ours (behind: negative).
    pub async fn skew(&self) -> Result<f64, Error> {
        Ok(self.server_time().await? - self.clock().unix())
    }

    /// Makes the bucket, with locking (and so with versions) or without.
    pub async fn create_bucket(&self, lock: bool) -> Result<Made, Error> {
        let call = Call::new("make the bucket", self.at(""));
        let mut request = self.client().create_bucket().bucket(self.name());
        if lock {
            request = request.object_lock_enabled_for_bucket(true);
        }
        // AWS refuses its oldest region here and wants any other; other stores take none.
        if self.endpoint().is_none() && self.region() != "us-east-1" {
            let place = BucketLocationConstraint::from(self.region());
            let config = CreateBucketConfiguration::builder().location_constraint(place).build();
            request = request.create_bucket_configuration(config);
        }
        match self.run(&call, |try_| call::of(request.clone().customize(), try_).send()).await {
            Ok(_) => Ok(Made::New),
            Err(error) if error.code() == Some("BucketAlreadyOwnedByYou") => Ok(Made::Existing),
            Err(error) => Err(error),
        }
    }

    /// Sets the bucket's policy, a JSON document.
    pub async fn put_policy(&self, policy: &str) -> Result<(), Error> {
        let call = Call::new("set the policy", self.at(""));
        let request = self.client().put_bucket_policy().bucket(self.name()).policy(policy);
        self.run(&call, |try_| call::of(request.clone().customize(), try_).send()).await?;
        Ok(())
    }

    /// Has the store abort uploads below `prefix` that are unfinished after `days`. Existing
    /// rules are replaced.
    ///
    /// # Errors
    /// One that [`Error::is_unsupported`] for stores without such rules (versitygw).
    pub async fn set_abort_rule(&self, prefix: &str, days: u32) -> Result<(), Error> {
        let call = Call::new("set the abort rule", self.at(prefix));
        let abort = AbortIncompleteMultipartUpload::builder()
            .days_after_initiation(i32::try_from(days).unwrap_or(i32::MAX))
            .build();
        let rule = LifecycleRule::builder()
            .id("capvco-backup-abort-unfinished-uploads")
            .status(ExpirationStatus::Enabled)
            .filter(LifecycleRuleFilter::builder().prefix(prefix).build())
            .abort_incomplete_multipart_upload(abort)
            .build();
        let bug = |error| call.error(Kind::Bug).with_source(error);
        let rules = BucketLifecycleConfiguration::builder().rules(rule.map_err(bug)?).build();
        let request = self.client().put_bucket_lifecycle_configuration().bucket(self.name());
        let request = request.lifecycle_configuration(rules.map_err(bug)?);
        self.run(&call, |try_| call::of(request.clone().customize(), try_).send()).await?;
        Ok(())
    }
}
