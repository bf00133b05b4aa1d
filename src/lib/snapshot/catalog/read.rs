//! Reading a bucket's versions, and the manifests among them.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::assemble::{Folder, folders, sorted};
use super::{Catalog, Entry, NoManifest};
use crate::fault::Fault as _;
use crate::s3::{Bucket, Error, Version};
use crate::snapshot::layout::{ClusterId, Layout};
use crate::snapshot::manifest::{Flaw, LARGEST, Manifest};

/// How many folders are read at once.
const PARALLEL: usize = 8;

/// How many good manifests of one folder are read; the first one counts, and that there are others
/// is all that has to be known of them.
const ENOUGH: usize = 4;

impl Catalog {
    /// Reads all backups below the layout's prefix, or one cluster's.
    ///
    /// # Errors
    /// The list, or a manifest on the way, fails for a reason that may pass. A manifest that the
    /// store will not hand out is no error but a record that says so.
    pub async fn read(
        bucket: &Bucket,
        layout: &Layout,
        cluster: Option<ClusterId>,
    ) -> Result<Self, Error> {
        let prefix = cluster.map_or_else(|| layout.prefix().to_owned(), |id| layout.cluster(id));
        let versions = bucket.versions(&prefix).await?;
        let (folders, strange) = folders(layout, versions);
        let entries = folders.into_iter().map(|((cluster, slot), found)| {
            let (folder, described) = Folder::new(layout, cluster, slot, found);
            read(bucket, folder, described)
        });
        let entries = stream::iter(entries).buffer_unordered(PARALLEL).try_collect().await?;
        Ok(sorted(entries, strange))
    }
}

/// Reads the manifests of one folder, the oldest first, one at a time: whoever may write can put
/// any number of them there.
async fn read(
    bucket: &Bucket,
    mut folder: Folder<'_>,
    described: Vec<Version>,
) -> Result<Entry, Error> {
    let mut good = 0;
    for version in described {
        let said = match folder.is_out(&version) {
            Some(why) => Err(why),
            None if good >= ENOUGH => Err(NoManifest::Surplus),
            None => fetch(bucket, &version).await?,
        };
        good += usize::from(folder.take(version, said));
    }
    Ok(folder.close())
}

/// What a manifest says. What does not come as the store's list has it is the store's failure, or
/// the way's: nobody may call a backup damaged for that.
async fn fetch(bucket: &Bucket, version: &Version) -> Result<Result<Manifest, NoManifest>, Error> {
    if version.size > LARGEST as u64 {
        return Ok(Err(NoManifest::Flawed(Flaw::TooLarge)));
    }
    match bucket.get_listed(version).await {
        Ok(Some(bytes)) => Ok(Manifest::parse(&bytes).map_err(NoManifest::Flawed)),
        Ok(None) => Ok(Err(NoManifest::Unread("it is not there any more".to_owned()))),
        Err(error) if error.class().is_other_side() => Err(error),
        Err(error) => Ok(Err(NoManifest::Unread(error.to_string()))),
    }
}
