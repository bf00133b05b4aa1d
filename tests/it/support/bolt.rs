//! A small writer of bbolt files, apart from the product's own, for databases that no etcd here
//! would make: pages of 64 KiB, deep trees, buckets too large to be inline, lists of free pages.

use std::collections::BTreeMap;

/// Keys and values of a bucket, in order.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// How a file is laid out.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Bytes a page.
    pub page_size: usize,
    /// Most elements a page.
    pub fanout: usize,
    /// Most rows a leaf.
    pub leaf_rows: usize,
    /// Buckets of at most this many bytes are inline; bbolt's own rule is a quarter page.
    pub inline: usize,
    /// Pages that are left free, between those in use.
    pub free: u64,
    /// Whether the free pages are listed.
    pub freelist: bool,
}

impl Layout {
    pub fn of(page_size: usize) -> Self {
        let most = usize::MAX;
        let inline = page_size / 4;
        Self { page_size, fanout: most, leaf_rows: most, inline, free: 0, freelist: false }
    }

    /// The whole file.
    pub fn write(&self, buckets: &[(&str, Rows)]) -> Vec<u8> {
        let mut file = File { layout: self, bytes: vec![0; 2 * self.page_size], free: Vec::new() };
        let mut root = Rows::new();
        for (name, rows) in buckets {
            file.leave_free();
            root.insert(name.as_bytes().to_vec(), file.bucket(rows));
        }
        let root = file.tree(&root, 1);
        file.finish(root)
    }
}

struct File<'a> {
    layout: &'a Layout,
    bytes: Vec<u8>,
    free: Vec<u64>,
}

impl File<'_> {
    fn next(&self) -> u64 {
        (self.bytes.len() / self.layout.page_size) as u64
    }

    /// Pages that hold stale but plausible bytes: a copy of whatever was written last.
    fn leave_free(&mut self) {
        for _ in 0..self.layout.free {
            let stale = self.bytes[self.bytes.len() - self.layout.page_size..].to_vec();
            let id = self.next();
            self.free.push(id);
            self.bytes.extend(stale);
            let at = usize::try_from(id).unwrap() * self.layout.page_size;
            self.bytes[at..at + 8].copy_from_slice(&id.to_le_bytes());
        }
    }

    fn add(&mut self, mut page: Vec<u8>) -> u64 {
        let (id, size) = (self.next(), self.layout.page_size);
        let pages = page.len().div_ceil(size);
        page.resize(pages * size, 0);
        page[..8].copy_from_slice(&id.to_le_bytes());
        page[12..16].copy_from_slice(&u32::try_from(pages - 1).unwrap().to_le_bytes());
        self.bytes.extend(page);
        id
    }

    fn bucket(&mut self, rows: &Rows) -> Vec<u8> {
        let all: Vec<_> = rows.iter().collect();
        let inline = leaf(&all, 0);
        if inline.len() <= self.layout.inline {
            return [&[0; 16][..], &inline].concat();
        }
        let root = self.tree(rows, 0);
        [root.to_le_bytes(), 0_u64.to_le_bytes()].concat()
    }

    fn tree(&mut self, rows: &Rows, flags: u32) -> u64 {
        let all: Vec<_> = rows.iter().collect();
        let mut level = Vec::new();
        let rows = self.layout.fanout.min(self.layout.leaf_rows);
        for part in self.parts(&all, rows, |(key, value)| key.len() + value.len()) {
            let key = part.first().map_or_else(Vec::new, |(key, _)| (*key).clone());
            level.push((key, self.add(leaf(part, flags))));
        }
        while level.len() > 1 {
            let mut above = Vec::new();
            let mut parts = self.parts(&level, self.layout.fanout, |(key, _)| key.len());
            // bbolt never writes a branch with a single child, and stumbles over one.
            if let [.., before, last] = &mut parts[..]
                && last.len() == 1
            {
                let cut = level.len() - before.len() - 1;
                let both = &level[cut..];
                (*before, *last) =
                    both.split_at(if both.len() > 3 { both.len() / 2 } else { both.len() });
            }
            parts.retain(|part| !part.is_empty());
            for part in parts {
                above.push((part[0].0.clone(), self.add(branch(part))));
            }
            level = above;
        }
        level[0].1
    }

    /// Cuts a level into pages.
    fn parts<'b, T>(&self, all: &'b [T], most: usize, size: impl Fn(&T) -> usize) -> Vec<&'b [T]> {
        let (mut parts, mut start, mut used) = (Vec::new(), 0, 16);
        for (at, one) in all.iter().enumerate() {
            let needs = 16 + size(one);
            let full = used + needs > self.layout.page_size || at - start >= most;
            if at > start && full {
                parts.push(&all[start..at]);
                (start, used) = (at, 16);
            }
            used += needs;
        }
        parts.push(&all[start..]);
        parts
    }

    fn finish(mut self, root: u64) -> Vec<u8> {
        self.leave_free();
        let list = self.layout.freelist.then(|| {
            let mut page = page(0x10, self.free.len(), 0);
            page.extend(self.free.iter().flat_map(|id| id.to_le_bytes()));
            self.add(page)
        });
        let end = self.next();
        for id in [0, 1] {
            let at = usize::try_from(id).unwrap() * self.layout.page_size;
            let meta = meta(id, self.layout.page_size, root, list, end);
            self.bytes[at..at + meta.len()].copy_from_slice(&meta);
        }
        self.bytes
    }
}

fn page(flags: u16, count: usize, elements: usize) -> Vec<u8> {
    let mut page = vec![0; 16 + 16 * elements];
    page[8..10].copy_from_slice(&flags.to_le_bytes());
    page[10..12].copy_from_slice(&u16::try_from(count).unwrap().to_le_bytes());
    page
}

fn leaf(rows: &[(&Vec<u8>, &Vec<u8>)], flags: u32) -> Vec<u8> {
    let mut page = page(2, rows.len(), rows.len());
    for (index, (key, value)) in rows.iter().enumerate() {
        let at = 16 + 16 * index;
        let pos = u32::try_from(page.len() - at).unwrap();
        let words =
            [flags, pos, u32::try_from(key.len()).unwrap(), u32::try_from(value.len()).unwrap()];
        page[at..at + 16].copy_from_slice(&words.map(u32::to_le_bytes).concat());
        page.extend_from_slice(key);
        page.extend_from_slice(value);
    }
    page
}

fn branch(children: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let mut page = page(1, children.len(), children.len());
    for (index, (key, child)) in children.iter().enumerate() {
        let at = 16 + 16 * index;
        let pos = u32::try_from(page.len() - at).unwrap();
        page[at..at + 4].copy_from_slice(&pos.to_le_bytes());
        page[at + 4..at + 8].copy_from_slice(&u32::try_from(key.len()).unwrap().to_le_bytes());
        page[at + 8..at + 16].copy_from_slice(&child.to_le_bytes());
        page.extend_from_slice(key);
    }
    page
}

/// As a snapshot has them: both metas of one transaction, the second one numbered lower.
fn meta(id: u64, page_size: usize, root: u64, list: Option<u64>, end: u64) -> Vec<u8> {
    let mut page = page(4, 0, 0);
    page[..8].copy_from_slice(&id.to_le_bytes());
    let mut meta = Vec::new();
    meta.extend(0xED0C_DAED_u32.to_le_bytes());
    meta.extend([2, u32::try_from(page_size).unwrap(), 0].map(u32::to_le_bytes).concat());
    meta.extend([root, 0, list.unwrap_or(u64::MAX), end, 21 - id].map(u64::to_le_bytes).concat());
    let sum = meta.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    meta.extend(sum.to_le_bytes());
    page.extend(meta);
    page
}

/// A key of the bucket `key`.
pub fn revision(main: i64, sub: i64, deleted: bool) -> Vec<u8> {
    let mut key = [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes()].concat();
    key.extend(deleted.then_some(b't'));
    key
}

/// A value of the bucket `key`: `mvccpb.KeyValue`.
pub fn key_value(key: &[u8], value: &[u8], created: i64, modified: i64) -> Vec<u8> {
    let number = |mut n: u64| {
        let mut out = Vec::new();
        while n >= 0x80 {
            out.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
            n >>= 7;
        }
        out.push(u8::try_from(n).unwrap());
        out
    };
    let mut out = vec![0x0a];
    out.extend(number(key.len() as u64));
    out.extend(key);
    for (tag, n) in [(0x10, created), (0x18, modified), (0x20, 1)] {
        out.push(tag);
        out.extend(number(n.unsigned_abs()));
    }
    out.push(0x2a);
    out.extend(number(value.len() as u64));
    out.extend(value);
    out
}

/// The bucket `key` of a store in which keys were put and deleted, in order, from revision 2 on.
pub fn history<'a>(changes: impl IntoIterator<Item = (&'a str, Option<Vec<u8>>)>) -> Rows {
    let mut rows = Rows::new();
    for (main, (key, value)) in (2..).zip(changes) {
        let row = match &value {
            Some(value) => key_value(key.as_bytes(), value, main, main),
            None => [&[0x0a, u8::try_from(key.len()).unwrap()][..], key.as_bytes()].concat(),
        };
        rows.insert(revision(main, 0, value.is_none()), row);
    }
    rows
}

/// All ten buckets of etcd around a bucket `key`, as 3.6 (`version`) leaves them.
pub fn etcd(key: Rows, version: &str) -> Vec<(&'static str, Rows)> {
    let rows = |rows: &[(&str, Vec<u8>)]| {
        rows.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.clone())).collect::<Rows>()
    };
    let member = r#"{"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"name":"old"}"#;
    let mut meta = rows(&[
        ("consistent_index", 77_u64.to_be_bytes().to_vec()),
        ("term", 3_u64.to_be_bytes().to_vec()),
        ("confState", br#"{"voters":[10276657743932975437],"auto_leave":false}"#.to_vec()),
    ]);
    if version >= "3.6" {
        meta.insert(b"storageVersion".to_vec(), version.as_bytes().to_vec());
    }
    vec![
        ("alarm", Rows::new()),
        ("auth", Rows::new()),
        ("authRoles", Rows::new()),
        ("authUsers", Rows::new()),
        ("cluster", rows(&[("clusterVersion", version.as_bytes().to_vec())])),
        ("key", key),
        ("lease", Rows::new()),
        ("members", rows(&[("8e9e05c52164694d", member.into())])),
        ("members_removed", Rows::new()),
        ("meta", meta),
    ]
}
