//! New pages for a bbolt file, all of them behind its last one.

use crate::etcd::db::page::{BUCKET_HEADER, ELEMENT, HEADER, Header, flag};

/// Keys and values to be written, in the order of the keys.
pub(super) type Rows = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;

/// A key and a page: what a branch holds.
pub(super) type Child = (Vec<u8>, u64);

/// Pages that follow each other from a first one on.
#[derive(Debug)]
pub(super) struct Appended {
    page_size: usize,
    next: u64,
    bytes: Vec<u8>,
}

impl Appended {
    /// Nothing yet; the first page will have number `first`.
    pub fn new(page_size: u32, first: u64) -> Self {
        Self { page_size: page_size as usize, next: first, bytes: Vec::new() }
    }

    /// The number behind the last page, and all bytes.
    pub fn finish(self) -> (u64, Vec<u8>) {
        (self.next, self.bytes)
    }

    /// Adds a page, filled up to its size or to a multiple of it.
    fn add(&mut self, flags: u16, count: usize, mut page: Vec<u8>) -> u64 {
        let pages = page.len().div_ceil(self.page_size);
        page.resize(pages * self.page_size, 0);
        let header = Header {
            id: self.next,
            flags,
            count: u16::try_from(count).expect("pages are cut far below 65536 elements"),
            overflow: u32::try_from(pages - 1).expect("rows are a few megabytes at most"),
        };
        header.write(&mut page);
        self.bytes.extend_from_slice(&page);
        self.next += pages as u64;
        header.id
    }

    /// A leaf with these rows.
    pub fn leaf(&mut self, rows: &[(&Vec<u8>, &Vec<u8>)], flags: u32) -> u64 {
        self.add(flag::LEAF, rows.len(), leaf(rows, flags))
    }

    /// A branch with these children.
    pub fn branch(&mut self, children: &[Child]) -> u64 {
        self.add(flag::BRANCH, children.len(), branch(children))
    }

    /// Whether a branch of these children is one page.
    pub fn fits(&self, children: &[Child]) -> bool {
        let keys: usize = children.iter().map(|(key, _)| ELEMENT + key.len()).sum();
        HEADER + keys <= self.page_size && children.len() < usize::from(u16::MAX)
    }

    /// A whole tree of these rows; its root.
    pub fn tree(&mut self, rows: &Rows, flags: u32) -> u64 {
        let all: Vec<_> = rows.iter().collect();
        let mut level: Vec<Child> = Vec::new();
        for part in self.parts(&all, |(key, value)| key.len() + value.len()) {
            let key = part.first().map_or_else(Vec::new, |(key, _)| (*key).clone());
            level.push((key, self.leaf(part, flags)));
        }
        while level.len() > 1 {
            let mut parts = self.parts(&level, |(key, _)| key.len());
            no_single_child(&level, &mut parts);
            level = parts.into_iter().map(|part| (part[0].0.clone(), self.branch(part))).collect();
        }
        level[0].1
    }

    /// Cuts a level into pages: as many elements as fit, and at least one.
    fn parts<'a, T>(&self, all: &'a [T], size: impl Fn(&T) -> usize) -> Vec<&'a [T]> {
        let (mut parts, mut start, mut used) = (Vec::new(), 0, HEADER);
        for (at, one) in all.iter().enumerate() {
            let needs = ELEMENT + size(one);
            if at > start && used + needs > self.page_size {
                parts.push(&all[start..at]);
                (start, used) = (at, HEADER);
            }
            used += needs;
        }
        parts.push(&all[start..]);
        parts
    }

    /// The value of a bucket with these rows: inside itself up to a quarter page, as bbolt has it
    /// (`Bucket.inlineable` in its `bucket.go`), else on pages.
    pub fn bucket(&mut self, rows: &Rows, sequence: u64) -> Vec<u8> {
        let all: Vec<_> = rows.iter().collect();
        let size: usize = all.iter().map(|(key, value)| ELEMENT + key.len() + value.len()).sum();
        if HEADER + size > self.page_size / 4 {
            return bucket_on_pages(self.tree(rows, 0), sequence);
        }
        let mut inline = leaf(&all, 0);
        let count = u16::try_from(all.len()).expect("a quarter page holds few elements");
        Header { id: 0, flags: flag::LEAF, count, overflow: 0 }.write(&mut inline);
        [bucket_on_pages(0, sequence), inline].concat()
    }
}

/// Gives the last branch a second child, which bbolt wants of every branch.
fn no_single_child<'a, T>(all: &'a [T], parts: &mut [&'a [T]]) {
    if let [.., before, last] = parts
        && last.len() == 1
    {
        let cut = all.len() - 2;
        *before = &before[..before.len() - 1];
        *last = &all[cut..];
    }
}

/// The value of a bucket whose root is this page.
pub(super) fn bucket_on_pages(root: u64, sequence: u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(BUCKET_HEADER);
    value.extend_from_slice(&root.to_le_bytes());
    value.extend_from_slice(&sequence.to_le_bytes());
    value
}

fn word(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("rows are a few megabytes at most").to_le_bytes()
}

/// A leaf without its header's content.
fn leaf(rows: &[(&Vec<u8>, &Vec<u8>)], flags: u32) -> Vec<u8> {
    let mut page = vec![0; HEADER + ELEMENT * rows.len()];
    for (index, (key, value)) in rows.iter().enumerate() {
        let at = HEADER + ELEMENT * index;
        let place = word(page.len() - at);
        let words = [flags.to_le_bytes(), place, word(key.len()), word(value.len())];
        page[at..at + ELEMENT].copy_from_slice(&words.concat());
        page.extend_from_slice(key);
        page.extend_from_slice(value);
    }
    page
}

/// A branch without its header's content.
fn branch(children: &[Child]) -> Vec<u8> {
    let mut page = vec![0; HEADER + ELEMENT * children.len()];
    for (index, (key, child)) in children.iter().enumerate() {
        let at = HEADER + ELEMENT * index;
        let (place, size) = (word(page.len() - at), word(key.len()));
        page[at..at + 4].copy_from_slice(&place);
        page[at + 4..at + 8].copy_from_slice(&size);
        page[at + 8..at + 16].copy_from_slice(&child.to_le_bytes());
        page.extend_from_slice(key);
    }
    page
}
