//! Which backups of a bucket are meant: all, some by name, or each cluster's newest.

use std::sync::Arc;

use super::{Error, Target};
use crate::clock::Clock;
use crate::s3::Bucket;
use crate::snapshot::catalog::{Catalog, Entry};
use crate::snapshot::layout::{ClusterId, Layout};

/// A bucket that was looked into.
#[derive(Debug)]
pub struct Looked {
    /// The bucket.
    pub bucket: Bucket,
    /// How keys are made in it.
    pub layout: Layout,
    /// What was found.
    pub catalog: Catalog,
}

/// Reads all backups of a target, or one cluster's.
pub async fn look(
    target: &Target,
    cluster: Option<u64>,
    clock: Arc<dyn Clock>,
) -> Result<Looked, Error> {
    let bucket = target.open(clock).await?;
    let layout = Layout::new(&target.prefix);
    let doing = format!("cannot list the backups in {}", place(&bucket, &layout));
    let catalog = Catalog::read(&bucket, &layout, cluster.map(ClusterId)).await;
    let catalog = catalog.map_err(Error::doing(doing))?;
    Ok(Looked { bucket, layout, catalog })
}

/// `s3://bucket/prefix`, for sentences.
pub fn place(bucket: &Bucket, layout: &Layout) -> String {
    format!("s3://{}/{}", bucket.name(), layout.prefix())
}

impl Looked {
    /// `s3://bucket/prefix`, for sentences.
    pub fn place(&self) -> String {
        place(&self.bucket, &self.layout)
    }

    /// The entries of these names; a name that several clusters have is refused.
    pub fn named(&self, names: &[String]) -> Result<Vec<&Entry>, Error> {
        names.iter().map(|name| self.one(name)).collect()
    }

    fn one(&self, name: &str) -> Result<&Entry, Error> {
        let found: Vec<&Entry> =
            self.catalog.entries.iter().filter(|entry| entry.slot.to_string() == name).collect();
        match found[..] {
            [] => Err(Error::not_found(
                format!("there is no backup {name} in {}", self.place()),
                "`capvco-backup list` shows their names",
            )),
            [one] => Ok(one),
            _ => {
                let clusters: Vec<_> =
                    found.iter().map(|entry| entry.cluster.to_string()).collect();
                Err(Error::asked(
                    format!("{name} is a backup of the clusters {}", clusters.join(", ")),
                    "say which one with --cluster ID",
                ))
            }
        }
    }

    /// Of each cluster the newest entry that has a manifest, be it a good one or not.
    pub fn newest(&self) -> Vec<&Entry> {
        let newest = |cluster| self.catalog.of(cluster).find(|entry| !entry.records.is_empty());
        self.catalog.clusters().into_iter().filter_map(newest).collect()
    }
}
