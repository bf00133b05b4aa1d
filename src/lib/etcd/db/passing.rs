//! The facts of a snapshot as it streams by, without keeping it.
//!
//! What is in the stream is every page of the file, those included that nothing points at any
//! more: their leaves may hold revisions that are older, or, where the database went on while it
//! was sent, newer than the snapshot. So no maximum over all leaves is right. Kept are 8 bytes a
//! page (the last revision of a leaf, the last child of a branch), the root page, and the facts
//! of small leaves; at the end the right-most path is followed from the root that the meta pages
//! name, which bbolt writes first (`Tx.WriteTo` in its `tx.go`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Damage;
use super::facts::{Facts, Place, last_element, last_key};
use super::page::{Header, Meta, branch_element, flag};
use super::row::Revision;
use crate::etcd::Version;

/// Every page size is a multiple of this, and a meta page fits into it.
const SMALLEST: usize = 4096;
/// A root that overflows further is none of etcd's.
const MAX_ROOT: usize = 1 << 20;
/// Keys that are waited for because they lie on a page behind their element. Stale pages ask for
/// some in vain.
const MAX_WANTED: usize = 4096;
/// Small leaves that are remembered, stale ones included; a few megabytes.
const MAX_LEAVES: usize = 1 << 15;
const MAX_DEPTH: usize = 20;
/// Marks a branch among the 8 bytes of a page; no revision is negative.
const BRANCH: u64 = 1 << 63;
/// A leaf without keys: no revision is that high.
const EMPTY: u64 = i64::MAX.unsigned_abs();

/// What a snapshot says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Bytes that passed.
    pub size: u64,
    /// Bytes a page.
    pub page_size: u32,
    /// The last revision, as `etcdutl snapshot status` says it; 0 if there is none.
    pub revision: i64,
    /// Written by etcd from 3.6 on.
    pub storage_version: Option<Version>,
    /// Written by etcd from 3.5 on.
    pub cluster_version: Option<Version>,
    /// The last raft entry that is in the data.
    pub consistent_index: Option<u64>,
    /// Its term; written by etcd from 3.5 on.
    pub term: Option<u64>,
}

/// A key that lies on a later page than its element: where, and for which page.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    at: u64,
    page: usize,
    got: Vec<u8>,
}

/// A snapshot that is passing by. Feed it all bytes in order, without the trailer.
#[derive(Debug, Default)]
pub struct Passing {
    /// The beginning of a page whose end has not come yet.
    pending: Vec<u8>,
    size: u64,
    metas: Vec<Meta>,
    meta: Option<Meta>,
    failed: Option<&'static str>,
    nodes: Vec<u64>,
    wanted: BinaryHeap<Reverse<Wanted>>,
    root: Vec<u8>,
    root_len: usize,
    leaves: BTreeMap<u64, Facts>,
}

impl Passing {
    /// Nothing has passed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next bytes; they may be cut anywhere.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        self.size += bytes.len() as u64;
        while !bytes.is_empty() && self.failed.is_none() {
            let page_size = self.page_size();
            if self.pending.is_empty() && bytes.len() >= page_size && !self.metas.is_empty() {
                self.page(&bytes[..page_size]);
                bytes = &bytes[page_size..];
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(page_size - self.pending.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() == page_size {
                self.full();
            }
        }
    }

    /// The page size, once the first meta page has said it.
    fn page_size(&self) -> usize {
        self.metas.first().map_or(SMALLEST, |meta| meta.page_size as usize)
    }

    /// As much is pending as was known to be a page.
    fn full(&mut self) {
        if self.metas.is_empty() {
            match Meta::read(&self.pending) {
                Ok(meta) => self.metas.push(meta),
                Err(why) => return self.failed = Some(why),
            }
            if self.pending.len() < self.page_size() {
                return;
            }
        }
        let mut page = std::mem::take(&mut self.pending);
        self.page(&page);
        page.clear();
        self.pending = page;
    }

    fn page(&mut self, bytes: &[u8]) {
        let number = self.nodes.len();
        if number == 1 {
            self.second_meta(bytes);
        }
        let node = if number < 2 { 0 } else { self.node(number, bytes) };
        self.nodes.push(node);
    }

    fn second_meta(&mut self, bytes: &[u8]) {
        self.metas.extend(Meta::read(bytes));
        self.meta = self.metas.iter().copied().max_by_key(|meta| meta.txid);
        let pages = self.meta.map_or(0, |meta| meta.high_water);
        // Room for all of them at once, but not on the word of a number alone.
        self.nodes.reserve(usize::try_from(pages).unwrap_or(usize::MAX).min(1 << 22));
    }

    /// The 8 bytes of a page: its last revision, its last child, or 0.
    fn node(&mut self, number: usize, bytes: &[u8]) -> u64 {
        let start = number as u64 * bytes.len() as u64;
        self.found(start, bytes);
        let Some(header) = Header::read(bytes) else { return 0 };
        self.root(number as u64, &header, bytes);
        if header.id != number as u64 {
            return 0;
        }
        match header.flags {
            flag::LEAF if header.count == 0 => EMPTY,
            flag::LEAF => {
                self.leaf(&header, bytes);
                last_key(bytes, &header)
                    .map_or_else(|| self.want(number, start, &header, bytes), i64::unsigned_abs)
            }
            flag::BRANCH => usize::from(header.count)
                .checked_sub(1)
                .and_then(|last| branch_element(bytes, last))
                .map_or(0, |element| BRANCH | element.child),
            _ => 0,
        }
    }

    /// Keeps the root page and what overflows from it.
    fn root(&mut self, number: u64, header: &Header, bytes: &[u8]) {
        if self.meta.is_some_and(|meta| meta.root == number) {
            let pages = usize::try_from(header.overflow).unwrap_or(usize::MAX).saturating_add(1);
            self.root_len = pages.saturating_mul(bytes.len()).min(MAX_ROOT);
        }
        if self.root.len() < self.root_len {
            self.root.extend_from_slice(bytes);
        }
    }

    /// Remembers the facts of a leaf that may be the root's, `meta`'s or `cluster`'s.
    fn leaf(&mut self, header: &Header, bytes: &[u8]) {
        if let Some(facts) = Facts::of(bytes, header) {
            self.leaves.insert(header.id, facts);
            if self.leaves.len() > MAX_LEAVES {
                self.leaves.pop_last();
            }
        }
    }

    /// Waits for a key that lies further on.
    fn want(&mut self, page: usize, start: u64, header: &Header, bytes: &[u8]) -> u64 {
        let len = (u64::from(header.overflow) + 1) * bytes.len() as u64;
        let later = last_element(bytes, header).filter(|element| {
            (17..=18).contains(&element.key_len)
                && element.value() <= len
                && element.value() > bytes.len() as u64
        });
        if let Some(element) = later {
            let near = usize::try_from(element.key).unwrap_or(usize::MAX).min(bytes.len());
            let got = bytes[near..].to_vec();
            let at = start + element.key + got.len() as u64;
            self.wanted.push(Reverse(Wanted { at, page, got }));
            if self.wanted.len() > MAX_WANTED {
                self.forget_the_furthest();
            }
        }
        0
    }

    fn forget_the_furthest(&mut self) {
        let mut all = std::mem::take(&mut self.wanted).into_sorted_vec();
        // Sorted by what is reversed: the furthest come first.
        all.drain(..all.len() / 2);
        self.wanted = all.into();
    }

    /// Takes the keys that were waited for out of this page.
    fn found(&mut self, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        while self.wanted.peek().is_some_and(|Reverse(wanted)| wanted.at < end) {
            let Some(Reverse(mut wanted)) = self.wanted.pop() else { return };
            let from = usize::try_from(wanted.at - start).unwrap_or(usize::MAX).min(bytes.len());
            let take = (bytes.len() - from).min(17 - wanted.got.len().min(17));
            wanted.got.extend_from_slice(&bytes[from..from + take]);
            wanted.at += take as u64;
            if wanted.got.len() < 17 {
                self.wanted.push(Reverse(wanted));
            } else if let Some((revision, _)) = wanted.got.get(..17).and_then(Revision::read) {
                self.nodes[wanted.page] = revision.main.unsigned_abs();
            }
        }
    }

    /// All has passed.
    ///
    /// # Errors
    /// It was no database or was cut off, or a figure cannot be told in passing.
    pub fn finish(self) -> Result<Passed, Damage> {
        if let Some(why) = self.failed {
            return Err(Damage::NotADatabase(why));
        }
        let short = Damage::NotADatabase("it is shorter than its meta pages");
        let meta = self.meta.ok_or(short)?;
        if self.size < meta.bytes() {
            return Err(Damage::Cut { needs: meta.bytes(), has: self.size });
        }
        let mut facts = self.root_facts()?;
        for place in [facts.meta, facts.cluster] {
            if let Some(Place::Page(page)) = place {
                facts.join(self.leaves.get(&page).unwrap_or(&Facts::default()));
            }
        }
        Ok(Passed {
            size: self.size,
            page_size: meta.page_size,
            revision: self.revision(&facts)?,
            storage_version: facts.storage_version,
            cluster_version: facts.cluster_version,
            consistent_index: facts.consistent_index,
            term: facts.term,
        })
    }

    /// The facts of the root: one leaf, or several below a branch.
    fn root_facts(&self) -> Result<Facts, Damage> {
        let unclear = || Damage::Unclear("the list of buckets");
        let header = Header::read(&self.root).ok_or_else(unclear)?;
        let mut facts = Facts::default();
        match header.flags {
            flag::LEAF => _ = facts.read(&self.root, &header),
            flag::BRANCH => {
                for index in 0..header.count.into() {
                    let child = branch_element(&self.root, index).ok_or_else(unclear)?.child;
                    let node = usize::try_from(child).ok().and_then(|child| self.nodes.get(child));
                    if node.is_none_or(|node| node & BRANCH != 0) {
                        return Err(unclear());
                    }
                    // A leaf of other buckets alone says nothing.
                    facts.join(self.leaves.get(&child).unwrap_or(&Facts::default()));
                }
            }
            _ => return Err(unclear()),
        }
        Ok(facts)
    }

    /// Follows the right-most path of the bucket `key`.
    fn revision(&self, facts: &Facts) -> Result<i64, Damage> {
        let unclear = || Damage::Unclear("the revision");
        let mut page = match facts.key {
            Some(Place::Page(page)) => page,
            Some(Place::Inline) => return Ok(facts.revision),
            None => return Ok(0),
        };
        for depth in 0..MAX_DEPTH {
            let node = usize::try_from(page).ok().and_then(|page| self.nodes.get(page));
            match *node.ok_or_else(unclear)? {
                0 => return Err(unclear()),
                EMPTY if depth == 0 => return Ok(0),
                EMPTY => return Err(unclear()),
                node if node & BRANCH != 0 => page = node & !BRANCH,
                revision => return i64::try_from(revision).map_err(|_| unclear()),
            }
        }
        Err(unclear())
    }
}
