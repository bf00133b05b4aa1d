//! Which backups of a bucket are meant: all, some by name, or each cluster's newest.

use std::sync::Arc;

use super::wording::moment;
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
    /// The only cluster that was looked for, if it was one.
    pub cluster: Option<ClusterId>,
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
    let cluster = cluster.map(ClusterId);
    let catalog = Catalog::read(&bucket, &layout, cluster).await;
    let catalog = catalog.map_err(Error::doing(doing))?;
    Ok(Looked { bucket, layout, catalog, cluster })
}

/// `s3://bucket/prefix`, for sentences.
pub fn place(bucket: &Bucket, layout: &Layout) -> String {
    format!("s3://{}/{}", bucket.name(), layout.prefix())
}

/// What to add to a command that may mean several clusters; the newest first.
pub fn say_whose(found: &[&Entry]) -> Vec<String> {
    let mut found = found.to_vec();
    found.sort_by_key(|entry| std::cmp::Reverse(entry.time()));
    let line = |entry: &Entry| {
        let node = entry.good().map(|(_, manifest)| format!(", of node {}", manifest.node));
        let (cluster, time) = (entry.cluster, moment(entry.time()));
        format!("say --cluster {cluster} for that of {time}{}", node.unwrap_or_default())
    };
    found.into_iter().map(line).collect()
}

/// That somebody has written other manifests into a backup's folder.
pub fn contested(entry: &Entry) -> Option<String> {
    let (slot, rivals) = (&entry.slot, entry.rivals());
    let manifests = if rivals == 1 { "manifest says" } else { "manifests say" };
    (rivals > 0).then(|| {
        format!(
            "{slot}: {rivals} later {manifests} something else and do not count, the first one \
             does: find out who writes them (`list --all-versions`), and `verify` the backup"
        )
    })
}

impl Looked {
    /// `s3://bucket/prefix`, for sentences.
    pub fn place(&self) -> String {
        place(&self.bucket, &self.layout)
    }

    /// That there is none of what was looked for, such as `good backup`.
    pub fn no(&self, what: &str) -> String {
        let of = self.cluster.map(|cluster| format!(" of cluster {cluster}")).unwrap_or_default();
        format!("there is no {what}{of} in {}", self.place())
    }

    /// What is not as it was when it was made, and does not count.
    pub fn warnings(&self) -> Vec<String> {
        self.catalog.entries.iter().filter_map(contested).collect()
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
                self.no(&format!("backup {name}")),
                "`capvco-backup list` shows their names",
            )),
            [one] => Ok(one),
            _ => {
                let clusters: Vec<_> =
                    found.iter().map(|entry| entry.cluster.to_string()).collect();
                Err(Error::Asked {
                    what: format!("{name} is a backup of the clusters {}", clusters.join(", ")),
                    hints: say_whose(&found),
                })
            }
        }
    }

    /// Of each cluster the newest entry that has a manifest, be it a good one or not.
    pub fn newest(&self) -> Vec<&Entry> {
        let newest = |cluster| self.catalog.of(cluster).find(|entry| !entry.records.is_empty());
        self.catalog.clusters().into_iter().filter_map(newest).collect()
    }
}
