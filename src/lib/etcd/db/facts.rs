//! The few facts of a leaf that matter before the whole file is there.

use super::page::{
    Bucket, ELEMENT, HEADER, Header, IS_BUCKET, LeafElement, be64, flag, leaf_element,
};
use super::row::Revision;
use crate::etcd::Version;

/// Where a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Below this page.
    Page(u64),
    /// Inside the leaf that names it.
    Inline,
}

/// What one leaf says; nothing of it is sure until the leaf is known to be in use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    /// The bucket of revisions.
    pub key: Option<Place>,
    /// The bucket of small facts.
    pub meta: Option<Place>,
    /// The bucket with the cluster's version.
    pub cluster: Option<Place>,
    /// The last revision, if `key` is inline.
    pub revision: i64,
    /// The last raft entry in the data.
    pub consistent_index: Option<u64>,
    /// Its term.
    pub term: Option<u64>,
    /// Since 3.6.
    pub storage_version: Option<Version>,
    /// Since 3.5.
    pub cluster_version: Option<Version>,
}

impl Facts {
    /// Reads a leaf, as far as it is in `bytes`; `None` if it holds nothing that matters.
    pub fn of(bytes: &[u8], header: &Header) -> Option<Self> {
        let first = leaf_element(bytes, 0)?;
        // Nearly every leaf is one of revisions.
        if Revision::read(key(bytes, &first)?).is_some() {
            return None;
        }
        let mut found = Self::default();
        (found.read(bytes, header) > 0).then_some(found)
    }

    /// Reads a leaf into this; how many elements mattered.
    pub fn read(&mut self, bytes: &[u8], header: &Header) -> usize {
        let elements = (0..header.count.into()).map_while(|index| leaf_element(bytes, index));
        elements.filter(|element| self.element(bytes, element).is_some()).count()
    }

    fn element(&mut self, bytes: &[u8], element: &LeafElement) -> Option<()> {
        let (key, value) = (key(bytes, element)?, value(bytes, element)?);
        if element.flags == IS_BUCKET {
            return self.bucket(key, value);
        }
        match key {
            b"consistent_index" => self.consistent_index = Some(be64(value, 0)?),
            b"term" => self.term = Some(be64(value, 0)?),
            b"storageVersion" => self.storage_version = version(value),
            b"clusterVersion" => self.cluster_version = version(value),
            _ => return None,
        }
        Some(())
    }

    fn bucket(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let bucket = Bucket::read(value)?;
        let place = if bucket.root == 0 { Place::Inline } else { Place::Page(bucket.root) };
        match name {
            b"key" => self.key = Some(place),
            b"meta" => self.meta = Some(place),
            b"cluster" => self.cluster = Some(place),
            _ => return None,
        }
        if place == Place::Inline {
            let header = Header::read(bucket.inline).filter(|h| h.flags == flag::LEAF)?;
            match name {
                b"key" => self.revision = last_key(bucket.inline, &header).unwrap_or_default(),
                _ => _ = self.read_inline(bucket.inline, &header),
            }
        }
        Some(())
    }

    /// Inside a bucket there are no buckets, so this ends.
    fn read_inline(&mut self, bytes: &[u8], header: &Header) -> usize {
        let elements = (0..header.count.into()).map_while(|index| leaf_element(bytes, index));
        let plain = elements.filter(|element| element.flags == 0);
        plain.filter(|element| self.element(bytes, element).is_some()).count()
    }

    /// Adds what another leaf says.
    pub fn join(&mut self, other: &Self) {
        self.key = self.key.or(other.key);
        self.meta = self.meta.or(other.meta);
        self.cluster = self.cluster.or(other.cluster);
        self.revision = self.revision.max(other.revision);
        self.consistent_index = self.consistent_index.or(other.consistent_index);
        self.term = self.term.or(other.term);
        self.storage_version = self.storage_version.or(other.storage_version);
        self.cluster_version = self.cluster_version.or(other.cluster_version);
    }
}

fn key<'a>(bytes: &'a [u8], element: &LeafElement) -> Option<&'a [u8]> {
    let start = usize::try_from(element.key).ok()?;
    bytes.get(start..start.checked_add(element.key_len)?)
}

fn value<'a>(bytes: &'a [u8], element: &LeafElement) -> Option<&'a [u8]> {
    let start = usize::try_from(element.value()).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(element.value_len).ok()?)?)
}

fn version(value: &[u8]) -> Option<Version> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The last element of a leaf, if its place is in `bytes`.
pub(super) fn last_element(bytes: &[u8], header: &Header) -> Option<LeafElement> {
    let index = usize::from(header.count).checked_sub(1)?;
    (HEADER + index * ELEMENT < bytes.len()).then(|| leaf_element(bytes, index)).flatten()
}

/// The main revision of a leaf's last key, if all of it is in `bytes`.
pub(super) fn last_key(bytes: &[u8], header: &Header) -> Option<i64> {
    let element = last_element(bytes, header)?;
    Revision::read(key(bytes, &element)?).map(|(revision, _)| revision.main)
}
