//! What is in a database: the figures of `etcdutl snapshot status`, and what a restore needs.
//!
//! The hash is CRC-32C over each bucket's name and then its keys and values, in one running sum
//! (etcd, `etcdutl/snapshot/v3_snapshot.go`). `totalKey` of that command means all entries up to
//! 3.5 and the living keys from 3.6 on; both are here.

use super::census::Census;
use super::page::be64;
use super::row::{Revision, user_key};
use super::tree::{self, Seen, Visit};
use super::{Damage, Db};
use crate::etcd::Version;

/// Small values that are kept whole while the walk passes them.
const KEPT: usize = 1 << 16;
/// Members of a cluster, present or removed, that are kept: more than any cluster has.
const MEMBERS: usize = 1000;

/// A bucket in figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketSize {
    /// Its name.
    pub name: String,
    /// How many entries.
    pub entries: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// CRC-32C over its keys and values alone.
    pub hash: u32,
}

/// A member as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// Its name; empty until it has started.
    pub name: String,
    /// Where its peers reach it.
    #[serde(rename = "peerURLs")]
    pub peer_urls: Vec<String>,
    /// It does not vote.
    pub is_learner: bool,
}

/// What is in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Bytes up to the end of the last page.
    pub size: u64,
    /// Bytes a page.
    pub page_size: u32,
    /// Pages that hold something, the two meta pages included.
    pub used_pages: u64,
    /// The hash of `etcdutl snapshot status`.
    pub hash: u32,
    /// The last revision in the bucket `key`, as `etcdutl snapshot status` says it; 0 if there
    /// is none.
    pub revision: i64,
    /// The revision up to which history was, or was about to be, compacted; 0: never.
    pub compacted: i64,
    /// A compaction was not finished: etcd goes on with it when it starts.
    pub compacting: bool,
    /// Entries of all buckets: `totalKey` up to 3.5.
    pub total_entries: u64,
    /// Keys that live: `totalKey` from 3.6 on.
    pub live_keys: u64,
    /// Written by etcd from 3.6 on.
    pub storage_version: Option<Version>,
    /// Written by etcd from 3.5 on.
    pub cluster_version: Option<Version>,
    /// The last raft entry that is in the data; 0: not written.
    pub consistent_index: u64,
    /// Its term; written by etcd from 3.5 on.
    pub term: Option<u64>,
    /// The members at that time.
    pub members: Vec<Member>,
    /// Alarms that were raised at that time; a restored cluster starts with them.
    pub alarms: u64,
    /// Whether etcd's user accounts are switched on.
    pub auth_enabled: bool,
    /// All buckets in their order.
    pub buckets: Vec<BucketSize>,
}

impl Summary {
    /// The lowest line of etcd that may be started on this data.
    ///
    /// From 3.6 on the database says so itself; before, the cluster's version does, which is in
    /// the database since 3.5.
    #[must_use]
    pub fn lowest_etcd(&self) -> Version {
        let oldest = if self.term.is_some() { Version::line(3, 5) } else { Version::line(3, 4) };
        self.storage_version.or(self.cluster_version).map_or(oldest, |found| found.max(oldest))
    }

    /// The revision that etcd itself continues from: never below what was compacted.
    #[must_use]
    pub fn current_revision(&self) -> i64 {
        self.revision.max(self.compacted)
    }
}

/// Which bucket is being read, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Meta,
    Cluster,
    Members,
    Alarm,
    Auth,
    Other,
}

impl Place {
    fn of(name: &[u8]) -> Self {
        match name {
            b"key" => Self::Key,
            b"meta" => Self::Meta,
            b"cluster" => Self::Cluster,
            b"members" => Self::Members,
            b"alarm" => Self::Alarm,
            b"auth" => Self::Auth,
            _ => Self::Other,
        }
    }
}

/// Collects the summary while the walk passes.
struct Collector {
    census: Census,
    place: Place,
    hash: u32,
    out: Summary,
}

impl Collector {
    fn current(&mut self) -> &mut BucketSize {
        if self.out.buckets.is_empty() {
            let name = String::new();
            self.out.buckets.push(BucketSize { name, entries: 0, bytes: 0, hash: 0 });
        }
        let last = self.out.buckets.len() - 1;
        &mut self.out.buckets[last]
    }

    fn add(&mut self, part: &[u8]) {
        self.hash = crc32c::crc32c_append(self.hash, part);
        let bucket = self.current();
        bucket.bytes += part.len() as u64;
        bucket.hash = crc32c::crc32c_append(bucket.hash, part);
    }

    fn row(&mut self, key: &[u8], value: &[u8], len: u64) -> Result<(), Damage> {
        let (revision, deleted, user) = row(key, value, len)?;
        self.out.revision = revision.main;
        self.census.revision(user, deleted);
        Ok(())
    }

    fn fact(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damage> {
        let bad = |what: &str| Damage::bucket(b"meta", what.to_owned());
        match key {
            b"consistent_index" => {
                self.out.consistent_index =
                    be64(value, 0).ok_or_else(|| bad("consistent_index"))?;
            }
            b"term" => self.out.term = Some(be64(value, 0).ok_or_else(|| bad("term"))?),
            b"storageVersion" => self.out.storage_version = version(b"meta", value)?,
            b"scheduledCompactRev" | b"finishedCompactRev" => {
                let found = Revision::read(value).ok_or_else(|| bad("a compaction's revision"))?;
                let main = found.0.main;
                // In the order of their keys: what is finished comes first.
                self.out.compacting = key[0] == b's' && main > self.out.compacted;
                self.out.compacted = self.out.compacted.max(main);
            }
            _ => {}
        }
        Ok(())
    }

    fn member(&mut self, value: &[u8]) -> Result<(), Damage> {
        let read = serde_json::from_slice(value);
        let member = read.map_err(|_| Damage::bucket(b"members", "a member is no JSON object"))?;
        if self.out.members.len() == MEMBERS {
            return Err(Damage::bucket(b"members", "more members than a cluster can have"));
        }
        self.out.members.push(member);
        Ok(())
    }
}

/// A row of the bucket `key`: its revision, whether it is a deletion, and whose key it is.
fn row<'a>(key: &[u8], value: &'a [u8], len: u64) -> Result<(Revision, bool, &'a [u8]), Damage> {
    let bad = |what| Damage::bucket(b"key", what);
    let (revision, deleted) = Revision::read(key).ok_or_else(|| bad("a key is no revision"))?;
    let user = user_key(value, len).ok_or_else(|| bad("a value is no key-value of etcd's"))?;
    Ok((revision, deleted, user))
}

fn version(bucket: &[u8], value: &[u8]) -> Result<Option<Version>, Damage> {
    let text = String::from_utf8_lossy(value);
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Damage::bucket(bucket, "a version is none"))
}

impl Visit for Collector {
    fn bucket(&mut self, name: &[u8]) {
        self.place = Place::of(name);
        self.hash = crc32c::crc32c_append(self.hash, name);
        let name = String::from_utf8_lossy(name).into_owned();
        self.out.buckets.push(BucketSize { name, entries: 0, bytes: 0, hash: 0 });
    }

    fn entry(&mut self, key: &[u8], value: &[u8], len: u64) -> Result<(), Damage> {
        self.add(key);
        self.add(value);
        self.current().entries += 1;
        self.out.total_entries += 1;
        match self.place {
            Place::Key => self.row(key, value, len),
            _ if value.len() > KEPT => Ok(()),
            Place::Meta => self.fact(key, value),
            Place::Cluster if key == b"clusterVersion" => {
                self.out.cluster_version = version(b"cluster", value)?;
                Ok(())
            }
            Place::Members => self.member(value),
            Place::Alarm => {
                self.out.alarms += 1;
                Ok(())
            }
            Place::Auth if key == b"authEnabled" => {
                self.out.auth_enabled = value == [1];
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn more(&mut self, part: &[u8]) {
        self.add(part);
    }
}

/// Counts keys that an earlier pass left out.
struct Recount<'a>(&'a mut Census);

impl Visit for Recount<'_> {
    fn bucket(&mut self, _: &[u8]) {}

    fn entry(&mut self, key: &[u8], value: &[u8], len: u64) -> Result<(), Damage> {
        let (_, deleted, user) = row(key, value, len)?;
        self.0.revision(user, deleted);
        Ok(())
    }

    fn more(&mut self, _: &[u8]) {}
}

/// Hashes rows up to a revision.
struct History {
    until: i64,
    rows: u64,
    hash: u32,
    /// Whether the row at hand is one of them.
    counts: bool,
}

impl Visit for History {
    fn bucket(&mut self, _: &[u8]) {}

    fn entry(&mut self, key: &[u8], value: &[u8], _: u64) -> Result<(), Damage> {
        let (revision, _) =
            Revision::read(key).ok_or_else(|| Damage::bucket(b"key", "a key is no revision"))?;
        self.counts = revision.main <= self.until;
        if self.counts {
            self.rows += 1;
            self.more(key);
            self.more(value);
        }
        Ok(())
    }

    fn more(&mut self, part: &[u8]) {
        if self.counts {
            self.hash = crc32c::crc32c_append(self.hash, part);
        }
    }
}

impl Db {
    /// Reads everything once, holding its structure as [`Db::check`] does.
    ///
    /// # Errors
    /// The first fault found.
    pub fn summary(&self) -> Result<Summary, Damage> {
        let mut seen = Seen::new(self.meta().high_water);
        let (census, out) = (Census::new(), self.blank());
        let mut collector = Collector { census, place: Place::Other, hash: 0, out };
        tree::everything(self, &mut seen, &mut collector)?;
        let used_pages = self.check_rest(&mut seen)?;
        let Collector { mut census, hash, out, .. } = collector;
        while census.next_pass() {
            self.recount(&mut census)?;
        }
        Ok(Summary { used_pages, hash, live_keys: census.living(), ..out })
    }

    /// The rows of the bucket `key` up to a revision, and a CRC-32C over them: the same for two
    /// databases that hold the same history.
    ///
    /// # Errors
    /// The first fault found.
    pub fn history(&self, until: i64) -> Result<(u64, u32), Damage> {
        let mut history = History { until, rows: 0, hash: 0, counts: false };
        let mut seen = Seen::new(self.meta().high_water);
        for (name, value) in tree::buckets(self, &mut seen)? {
            if name == b"key" {
                tree::bucket(self, &mut seen, &mut history, (&name, &value))?;
            }
        }
        Ok((history.rows, history.hash))
    }

    fn recount(&self, census: &mut Census) -> Result<(), Damage> {
        let mut seen = Seen::new(self.meta().high_water);
        for (name, value) in tree::buckets(self, &mut seen)? {
            if name == b"key" {
                tree::bucket(self, &mut seen, &mut Recount(census), (&name, &value))?;
            }
        }
        Ok(())
    }

    fn blank(&self) -> Summary {
        Summary {
            size: self.meta().bytes(),
            page_size: self.meta().page_size,
            used_pages: 0,
            hash: 0,
            revision: 0,
            compacted: 0,
            compacting: false,
            total_entries: 0,
            live_keys: 0,
            storage_version: None,
            cluster_version: None,
            consistent_index: 0,
            term: None,
            members: Vec::new(),
            alarms: 0,
            auth_enabled: false,
            buckets: Vec::new(),
        }
    }
}
