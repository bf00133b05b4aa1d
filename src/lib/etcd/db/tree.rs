//! The walk through all buckets of a file, every page once, in the order of its keys.
//!
//! Holds what bbolt's `tx.Check` holds (v1.4.3, `tx_check.go`), and more: page numbers equal
//! positions, no page belongs to two, elements lie inside their page, keys ascend through the
//! whole bucket and lie between those of their ancestors. A file that is wrong ends the walk
//! at the first fault; it can neither loop nor make the walk keep more than a few megabytes.

use super::page::{Bucket, Header, LeafElement, branch_element, flag, leaf_element};
use super::{Damage, Db, page};

/// How much of a page is held at once.
const WINDOW: usize = 1 << 20;
/// A tree of branches with two children each is not deeper.
const MAX_DEPTH: usize = 20;
/// etcd has ten buckets; their inline values are a quarter page at most.
const MAX_ROOT_BYTES: usize = 1 << 20;

/// What is told of a walk.
pub(crate) trait Visit {
    /// A bucket begins.
    fn bucket(&mut self, name: &[u8]);

    /// An entry of it: its key, and its value, of which only the first [`WINDOW`] bytes are given
    /// here; `len` is the whole length.
    fn entry(&mut self, key: &[u8], value: &[u8], len: u64) -> Result<(), Damage>;

    /// More of the value of the last entry.
    fn more(&mut self, part: &[u8]);
}

/// Which pages have been seen.
#[derive(Debug)]
pub(crate) struct Seen {
    bits: Vec<u64>,
    high_water: u64,
    count: u64,
}

impl Seen {
    pub fn new(high_water: u64) -> Self {
        let words = usize::try_from(high_water / 64 + 1).unwrap_or(usize::MAX);
        Self { bits: vec![0; words], high_water, count: 0 }
    }

    /// Takes `page` and the `overflow` pages behind it.
    pub fn take(&mut self, page: u64, overflow: u64) -> Result<(), Damage> {
        if page < 2 || page.checked_add(overflow).is_none_or(|last| last >= self.high_water) {
            return Err(Damage::page(page, format!("it or its {overflow} more lie outside")));
        }
        for id in page..=page + overflow {
            if self.has(id) {
                return Err(Damage::page(id, "two places point at it"));
            }
            self.bits[usize::try_from(id / 64).unwrap_or(usize::MAX)] |= 1 << (id % 64);
        }
        self.count += overflow + 1;
        Ok(())
    }

    pub fn has(&self, page: u64) -> bool {
        let word = usize::try_from(page / 64).ok().and_then(|word| self.bits.get(word));
        word.is_some_and(|word| word & (1 << (page % 64)) != 0)
    }

    /// How many pages were taken.
    pub const fn count(&self) -> u64 {
        self.count
    }
}

/// The bytes of one page and what overflows from it, of which a window is held.
struct Body<'a> {
    db: Option<&'a Db>,
    page: u64,
    len: u64,
    window: Vec<u8>,
    start: u64,
}

impl<'a> Body<'a> {
    /// Page `page` of the file, header read and held against what it must be.
    fn open(db: &'a Db, page: u64, mut window: Vec<u8>) -> Result<(Self, Header), Damage> {
        let page_size = u64::from(db.meta().page_size);
        window.resize(db.meta().page_size as usize, 0);
        db.read(&mut window, page * page_size)?;
        let header = Header::read(&window).ok_or_else(|| Damage::page(page, "no header"))?;
        if header.id != page {
            return Err(Damage::page(page, format!("it says that it is page {}", header.id)));
        }
        let len = (u64::from(header.overflow) + 1) * page_size;
        Ok((Self { db: Some(db), page, len, window, start: 0 }, header))
    }

    /// The page inside a bucket's value, which belongs to page `page`.
    fn inline(page: u64, bytes: &[u8]) -> Self {
        let (len, window) = (bytes.len() as u64, bytes.to_vec());
        Self { db: None, page, len, window, start: 0 }
    }

    /// `len` bytes from `at` on, both counted from the page's beginning.
    fn get(&mut self, at: u64, len: usize) -> Result<&[u8], Damage> {
        let end = at + len as u64;
        if end > self.len {
            return Err(Damage::page(self.page, "its elements do not fit into it"));
        }
        if at < self.start || end > self.start + self.window.len() as u64 {
            let db = self.db.ok_or_else(|| Damage::page(self.page, "no such bytes"))?;
            let rest = usize::try_from(self.len - at).unwrap_or(usize::MAX);
            self.window.resize(len.max(rest.min(WINDOW)), 0);
            self.start = at;
            db.read(&mut self.window, self.page * u64::from(db.meta().page_size) + at)?;
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        Ok(&self.window[from..from + len])
    }
}

/// The walk through one tree.
struct Walk<'a, 'b> {
    db: &'a Db,
    seen: &'b mut Seen,
    visit: &'b mut dyn Visit,
    /// The flags that every element of a leaf must have.
    flags: u32,
    /// The last key, so that keys are known to ascend.
    last: Vec<u8>,
    elements: Vec<LeafElement>,
    spare: Vec<u8>,
}

/// A branch on the way down.
struct Frame {
    page: u64,
    bytes: Vec<u8>,
    header: Header,
    next: u16,
    /// All keys below are smaller.
    before: Option<Vec<u8>>,
}

impl Frame {
    fn key(&self, index: u16) -> Result<&[u8], Damage> {
        let element = branch_element(&self.bytes, index.into());
        let key = element.and_then(|element| element.key(&self.header, &self.bytes));
        key.ok_or_else(|| Damage::page(self.page, "a branch's element points outside of it"))
    }

    fn child(&self, index: u16) -> Result<u64, Damage> {
        let element = branch_element(&self.bytes, index.into());
        Ok(element.ok_or_else(|| Damage::page(self.page, "too few elements"))?.child)
    }

    /// The keys between which child `index` must lie.
    fn bounds(&self, index: u16) -> Result<(Vec<u8>, Option<Vec<u8>>), Damage> {
        let from = self.key(index)?.to_vec();
        let below = if index + 1 < self.header.count {
            Some(self.key(index + 1)?.to_vec())
        } else {
            self.before.clone()
        };
        if below.as_ref().is_some_and(|below| *below <= from) {
            return Err(Damage::page(self.page, "the keys of a branch do not ascend"));
        }
        Ok((from, below))
    }
}

impl Walk<'_, '_> {
    fn tree(&mut self, root: u64) -> Result<(), Damage> {
        let mut stack: Vec<Frame> = Vec::new();
        let first = self.page(root, &[], None)?;
        stack.extend(first);
        while let Some(frame) = stack.last_mut() {
            if frame.next == frame.header.count {
                stack.pop();
                continue;
            }
            let index = frame.next;
            frame.next += 1;
            let (child, (from, below)) = (frame.child(index)?, frame.bounds(index)?);
            if stack.len() == MAX_DEPTH {
                return Err(Damage::page(child, "the tree is deeper than a tree can be"));
            }
            stack.extend(self.page(child, &from, below)?);
        }
        Ok(())
    }

    /// Reads a page: a leaf at once, a branch is given back.
    fn page(
        &mut self,
        page: u64,
        from: &[u8],
        before: Option<Vec<u8>>,
    ) -> Result<Option<Frame>, Damage> {
        if !self.db.meta().holds(page) {
            return Err(Damage::page(page, "it lies outside of the file"));
        }
        let (mut body, header) = Body::open(self.db, page, std::mem::take(&mut self.spare))?;
        self.seen.take(page, header.overflow.into())?;
        let frame = match header.flags {
            flag::LEAF => {
                self.leaf(&mut body, &header, from, before.as_deref())?;
                None
            }
            flag::BRANCH => Some(branch(&mut body, header, from, before)?),
            other => return Err(Damage::page(page, format!("it is of unknown kind {other:#x}"))),
        };
        self.spare = body.window;
        Ok(frame)
    }

    fn leaf(
        &mut self,
        body: &mut Body<'_>,
        header: &Header,
        from: &[u8],
        before: Option<&[u8]>,
    ) -> Result<(), Damage> {
        self.read_elements(body, header)?;
        let elements = std::mem::take(&mut self.elements);
        for element in &elements {
            element.fits(body.page, header, body.len)?;
            if element.flags != self.flags {
                return Err(Damage::page(body.page, "a bucket and a value are mistaken"));
            }
            let page = body.page;
            self.order(body.get(element.key, element.key_len)?, page, from, before)?;
            self.element(body, element)?;
        }
        self.elements = elements;
        Ok(())
    }

    fn read_elements(&mut self, body: &mut Body<'_>, header: &Header) -> Result<(), Damage> {
        self.elements.clear();
        let area = body.get(0, header.elements_end())?;
        let all = (0..header.count.into()).map_while(|index| leaf_element(area, index));
        self.elements.extend(all);
        Ok(())
    }

    /// A key is behind the last one and between those of its ancestors.
    fn order(
        &mut self,
        key: &[u8],
        page: u64,
        from: &[u8],
        before: Option<&[u8]>,
    ) -> Result<(), Damage> {
        let right = key > self.last.as_slice() && key >= from;
        if !right || before.is_some_and(|before| key >= before) {
            return Err(Damage::page(page, "its keys are not in their order"));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    fn element(&mut self, body: &mut Body<'_>, element: &LeafElement) -> Result<(), Damage> {
        let head = usize::try_from(element.value_len).unwrap_or(usize::MAX).min(WINDOW);
        let both = body.get(element.key, element.key_len + head)?;
        let (key, value) = both.split_at(element.key_len);
        self.visit.entry(key, value, element.value_len)?;
        let mut at = element.value() + head as u64;
        let end = element.value() + element.value_len;
        while at < end {
            let part = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW);
            self.visit.more(body.get(at, part)?);
            at += part as u64;
        }
        Ok(())
    }
}

fn branch(
    body: &mut Body<'_>,
    header: Header,
    from: &[u8],
    before: Option<Vec<u8>>,
) -> Result<Frame, Damage> {
    let page = body.page;
    let len = usize::try_from(body.len).unwrap_or(usize::MAX);
    if header.count == 0 || len > WINDOW {
        let what = format!("a branch of {} children in {len} bytes", header.count);
        return Err(Damage::page(page, what));
    }
    let bytes = body.get(0, len)?.to_vec();
    let frame = Frame { page, bytes, header, next: 0, before };
    if frame.key(0)? < from {
        return Err(Damage::page(page, "its keys are not in their order"));
    }
    Ok(frame)
}

/// Keys and values.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Collects the entries of the root: buckets by name, with their values.
#[derive(Debug, Default)]
struct Roots {
    found: Entries,
    bytes: usize,
}

impl Visit for Roots {
    fn bucket(&mut self, _: &[u8]) {}

    fn entry(&mut self, key: &[u8], value: &[u8], len: u64) -> Result<(), Damage> {
        self.bytes += key.len() + value.len();
        if len > value.len() as u64 || self.bytes > MAX_ROOT_BYTES {
            return Err(Damage::bucket(key, "the list of buckets is too large to be etcd's"));
        }
        self.found.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn more(&mut self, _: &[u8]) {}
}

/// The buckets of the file: names and values.
pub(crate) fn buckets(db: &Db, seen: &mut Seen) -> Result<Entries, Damage> {
    let mut roots = Roots::default();
    walk(db, seen, &mut roots, page::IS_BUCKET).tree(db.meta().root)?;
    Ok(roots.found)
}

/// All entries of the bucket with this name and value.
pub(crate) fn bucket(
    db: &Db,
    seen: &mut Seen,
    visit: &mut dyn Visit,
    (name, value): (&[u8], &[u8]),
) -> Result<(), Damage> {
    visit.bucket(name);
    let bucket = Bucket::read(value).ok_or_else(|| Damage::bucket(name, "it has no header"))?;
    let mut walk = walk(db, seen, visit, 0);
    if bucket.root != 0 {
        return walk.tree(bucket.root);
    }
    let header = Header::read(bucket.inline).filter(|h| h.flags == flag::LEAF && h.overflow == 0);
    let header = header.ok_or_else(|| Damage::bucket(name, "the page in its place is no leaf"))?;
    let mut body = Body::inline(db.meta().root, bucket.inline);
    walk.leaf(&mut body, &header, &[], None)
}

fn walk<'a, 'b>(
    db: &'a Db,
    seen: &'b mut Seen,
    visit: &'b mut dyn Visit,
    flags: u32,
) -> Walk<'a, 'b> {
    let (last, elements, spare) = (Vec::new(), Vec::new(), Vec::new());
    Walk { db, seen, visit, flags, last, elements, spare }
}

/// All entries of all buckets.
pub(crate) fn everything(db: &Db, seen: &mut Seen, visit: &mut dyn Visit) -> Result<(), Damage> {
    for (name, value) in buckets(db, seen)? {
        bucket(db, seen, visit, (&name, &value))?;
    }
    Ok(())
}
