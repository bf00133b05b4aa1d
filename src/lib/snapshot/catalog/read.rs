//! Reading a bucket's versions, and the manifests among them.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::assemble::Which;
use super::{Catalog, NoManifest, assemble};
use crate::fault::Fault as _;
use crate::s3::{Bucket, Error, Version};
use crate::snapshot::layout::{ClusterId, Layout, Part};
use crate::snapshot::manifest::{Flaw, LARGEST, Manifest};

/// How many manifests are fetched at once.
const PARALLEL: usize = 8;

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
        let manifests = manifests(bucket, layout, &versions).await?;
        Ok(assemble(layout, versions, manifests))
    }
}

async fn manifests(
    bucket: &Bucket,
    layout: &Layout,
    versions: &[Version],
) -> Result<BTreeMap<Which, Result<Manifest, NoManifest>>, Error> {
    let is_manifest = |version: &&Version| {
        let part = layout.parse(&version.key).map(|address| address.part);
        part == Some(Part::Manifest) && !version.marker
    };
    let fetches = versions.iter().filter(is_manifest).map(|version| fetch(bucket, version));
    stream::iter(fetches).buffer_unordered(PARALLEL).try_collect().await
}

async fn fetch(
    bucket: &Bucket,
    version: &Version,
) -> Result<(Which, Result<Manifest, NoManifest>), Error> {
    let which = (version.key.clone(), version.version_id.clone());
    let id = version.version_id.as_deref();
    if version.size > LARGEST as u64 {
        return Ok((which, Err(NoManifest::Flawed(Flaw::TooLarge))));
    }
    let said = match bucket.get_small(&version.key, id, LARGEST as u64).await {
        Ok(Some(bytes)) => Manifest::parse(&bytes).map_err(NoManifest::Flawed),
        Ok(None) => Err(NoManifest::Unread("it is not there any more".to_owned())),
        Err(error) if error.class().is_other_side() => return Err(error),
        Err(error) => Err(NoManifest::Unread(error.to_string())),
    };
    Ok((which, said))
}
