//! The pages of a bbolt file, version 2: parsed out of slices, never trusted.
//!
//! Layout as in bbolt's `internal/common/{page,meta,bucket}.go` (v1.4.3): little endian,
//! a page's header of 16 bytes, then its elements, then their keys and values.

use super::Damage;

/// What a page's header takes.
pub(crate) const HEADER: usize = 16;
/// What an element takes, in a branch as in a leaf.
pub(crate) const ELEMENT: usize = 16;
/// What a bucket's value begins with: its root page and its sequence.
pub(crate) const BUCKET_HEADER: usize = 16;
/// "The free pages are not listed": what etcd writes.
pub(crate) const NO_FREELIST: u64 = u64::MAX;
/// The longest key that bbolt writes.
pub(crate) const MAX_KEY: usize = 32768;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Magic to transaction id: what the sum covers.
const SUMMED: usize = 56;
const META: usize = SUMMED + 8;

/// Page sizes that an operating system has.
const SMALLEST_PAGE: u32 = 4096;
const LARGEST_PAGE: u32 = 65536;

/// The kinds of page, as their flags say.
pub(crate) mod flag {
    pub const BRANCH: u16 = 1;
    pub const LEAF: u16 = 2;
    pub const META: u16 = 4;
    pub const FREELIST: u16 = 0x10;
}

/// An element of a leaf whose value is a bucket.
pub(crate) const IS_BUCKET: u32 = 1;

pub(crate) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// FNV-1a of 64 bits, the sum of a meta page.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// One of the two meta pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Bytes a page: a power of two, 4096 to 65536.
    pub page_size: u32,
    /// bbolt's flags, always 0 so far.
    pub flags: u32,
    /// The root bucket's root page.
    pub root: u64,
    /// The root bucket's sequence.
    pub sequence: u64,
    /// The page that lists the free pages, or [`NO_FREELIST`].
    pub freelist: u64,
    /// The first page number that was never used.
    pub high_water: u64,
    /// The transaction that wrote it.
    pub txid: u64,
}

impl Meta {
    /// Reads the meta page at the beginning of `page`, its header included.
    pub fn read(page: &[u8]) -> Result<Self, &'static str> {
        let meta = page.get(HEADER..HEADER + META).ok_or("it is shorter than a meta page")?;
        let u32_at = |at| le32(meta, at).unwrap_or_default();
        let u64_at = |at| le64(meta, at).unwrap_or_default();
        if u32_at(0) != MAGIC {
            return Err("the meta page does not begin with bbolt's magic number");
        }
        if u32_at(4) != VERSION {
            return Err("the meta page is of another version of bbolt");
        }
        if u64_at(SUMMED) != fnv1a(&meta[..SUMMED]) {
            return Err("the meta page's sum does not fit");
        }
        let found = Self {
            page_size: u32_at(8),
            flags: u32_at(12),
            root: u64_at(16),
            sequence: u64_at(24),
            freelist: u64_at(32),
            high_water: u64_at(40),
            txid: u64_at(48),
        };
        found.sane().map(|()| found)
    }

    fn sane(&self) -> Result<(), &'static str> {
        let size = self.page_size;
        if !size.is_power_of_two() || !(SMALLEST_PAGE..=LARGEST_PAGE).contains(&size) {
            return Err("the meta page names a page size that no system has");
        }
        if self.high_water < 3 || self.high_water > u64::from(u32::MAX) << 8 {
            return Err("the meta page names an impossible number of pages");
        }
        if !self.holds(self.root) {
            return Err("the meta page's root is not inside the file");
        }
        if self.freelist != NO_FREELIST && !self.holds(self.freelist) {
            return Err("the meta page's list of free pages is not inside the file");
        }
        Ok(())
    }

    /// Whether data may be on this page.
    pub const fn holds(&self, page: u64) -> bool {
        page >= 2 && page < self.high_water
    }

    /// Bytes up to the end of the last page.
    pub const fn bytes(&self) -> u64 {
        self.high_water * self.page_size as u64
    }

    /// The page that says this, number `id` (0 or 1), of a whole page's size.
    pub fn write(&self, id: u64) -> Vec<u8> {
        let mut page = vec![0; self.page_size as usize];
        page[..8].copy_from_slice(&id.to_le_bytes());
        page[8..10].copy_from_slice(&flag::META.to_le_bytes());
        let meta = &mut page[HEADER..HEADER + META];
        for (at, value) in [(0, MAGIC), (4, VERSION), (8, self.page_size), (12, self.flags)] {
            meta[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let words = [self.root, self.sequence, self.freelist, self.high_water, self.txid];
        for (word, at) in words.into_iter().zip((16..).step_by(8)) {
            meta[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = fnv1a(&meta[..SUMMED]);
        meta[SUMMED..].copy_from_slice(&sum.to_le_bytes());
        page
    }
}

/// A page's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The page's own number.
    pub id: u64,
    /// See [`flag`].
    pub flags: u16,
    /// How many elements.
    pub count: u16,
    /// How many pages follow that belong to it.
    pub overflow: u32,
}

impl Header {
    pub fn read(page: &[u8]) -> Option<Self> {
        Some(Self {
            id: le64(page, 0)?,
            flags: le16(page, 8)?,
            count: le16(page, 10)?,
            overflow: le32(page, 12)?,
        })
    }

    pub fn write(&self, page: &mut [u8]) {
        page[..8].copy_from_slice(&self.id.to_le_bytes());
        page[8..10].copy_from_slice(&self.flags.to_le_bytes());
        page[10..12].copy_from_slice(&self.count.to_le_bytes());
        page[12..16].copy_from_slice(&self.overflow.to_le_bytes());
    }

    /// Where the elements end and keys may begin.
    pub const fn elements_end(&self) -> usize {
        HEADER + self.count as usize * ELEMENT
    }
}

/// An element of a leaf: where its key and value are, from the beginning of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafElement {
    /// 0, or [`IS_BUCKET`].
    pub flags: u32,
    /// Where the key begins.
    pub key: u64,
    /// The key's length.
    pub key_len: usize,
    /// The value's length; it begins where the key ends.
    pub value_len: u64,
}

/// Element `index` of a leaf, out of the bytes of its element area (from the page's beginning).
pub(crate) fn leaf_element(page: &[u8], index: usize) -> Option<LeafElement> {
    let at = HEADER + index * ELEMENT;
    Some(LeafElement {
        flags: le32(page, at)?,
        key: at as u64 + u64::from(le32(page, at + 4)?),
        key_len: le32(page, at + 8)? as usize,
        value_len: u64::from(le32(page, at + 12)?),
    })
}

impl LeafElement {
    /// Where the value begins.
    pub const fn value(&self) -> u64 {
        self.key + self.key_len as u64
    }

    /// Checks that it lies inside a page of `len` bytes, behind its elements.
    pub fn fits(&self, page: u64, header: &Header, len: u64) -> Result<(), Damage> {
        if self.key_len == 0 || self.key_len > MAX_KEY {
            return Err(Damage::page(page, format!("a key of {} bytes", self.key_len)));
        }
        if self.key < header.elements_end() as u64 || self.value() + self.value_len > len {
            return Err(Damage::page(page, "an element points outside of its page"));
        }
        Ok(())
    }
}

/// An element of a branch: where its key is, from the beginning of the page, and its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BranchElement {
    /// Where the key begins.
    pub key: u64,
    /// The key's length.
    pub key_len: usize,
    /// The child's page number.
    pub child: u64,
}

/// Element `index` of a branch.
pub(crate) fn branch_element(page: &[u8], index: usize) -> Option<BranchElement> {
    let at = HEADER + index * ELEMENT;
    Some(BranchElement {
        key: at as u64 + u64::from(le32(page, at)?),
        key_len: le32(page, at + 4)? as usize,
        child: le64(page, at + 8)?,
    })
}

impl BranchElement {
    /// The key, if it lies inside the page, behind its elements.
    pub fn key<'a>(&self, header: &Header, page: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.key).ok()?;
        let right = (1..=MAX_KEY).contains(&self.key_len) && start >= header.elements_end();
        right.then(|| page.get(start..start + self.key_len)).flatten()
    }
}

/// What a bucket's value says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bucket<'a> {
    /// Its root page; 0: the page is in the value itself.
    pub root: u64,
    /// bbolt's counter, which etcd does not use.
    pub sequence: u64,
    /// The page inside the value, if `root` is 0.
    pub inline: &'a [u8],
}

impl<'a> Bucket<'a> {
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let (root, sequence) = (le64(value, 0)?, le64(value, 8)?);
        Some(Self { root, sequence, inline: &value[BUCKET_HEADER..] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Meta = Meta {
        page_size: 4096,
        flags: 0,
        root: 4,
        sequence: 0,
        freelist: NO_FREELIST,
        high_water: 6,
        txid: 9,
    };

    #[test]
    fn a_meta_page_is_read_as_it_was_written() {
        for page_size in [4096, 8192, 16384, 65536] {
            let meta = Meta { page_size, ..SAMPLE };
            let page = meta.write(1);
            assert_eq!(page.len(), page_size as usize);
            assert_eq!(Meta::read(&page), Ok(meta));
            assert_eq!(Header::read(&page).unwrap().flags, flag::META);
        }
    }

    #[test]
    fn every_flipped_byte_of_a_meta_is_seen() {
        let page = SAMPLE.write(0);
        for at in HEADER..HEADER + META {
            let mut flipped = page.clone();
            flipped[at] ^= 0x10;
            assert!(Meta::read(&flipped).is_err(), "byte {at}");
        }
        for end in 0..HEADER + META {
            assert!(Meta::read(&page[..end]).is_err(), "cut to {end}");
        }
    }

    #[test]
    fn a_meta_that_cannot_be_is_refused_although_its_sum_fits() {
        let bad = [
            Meta { page_size: 0, ..SAMPLE },
            Meta { page_size: 5000, ..SAMPLE },
            Meta { page_size: 1 << 20, ..SAMPLE },
            Meta { root: 0, ..SAMPLE },
            Meta { root: 6, ..SAMPLE },
            Meta { freelist: 1, ..SAMPLE },
            Meta { freelist: 6, ..SAMPLE },
            Meta { high_water: 2, ..SAMPLE },
            Meta { high_water: u64::MAX, ..SAMPLE },
        ];
        for meta in bad {
            assert!(
                Meta::read(&Meta { page_size: 4096, ..meta }.write(0)).is_err()
                    || meta.page_size != 4096
            );
            if meta.page_size != 4096 {
                assert!(meta.sane().is_err(), "{meta:?}");
            }
        }
    }

    #[test]
    fn elements_are_measured_from_the_pages_beginning() {
        let mut page = vec![0; 64];
        for (at, value) in [(32, 1), (36, 16), (40, 3), (44, 5)] {
            page[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        let element = leaf_element(&page, 1).unwrap();
        assert_eq!((element.flags, element.key, element.key_len), (1, 48, 3));
        assert_eq!((element.value(), element.value_len), (51, 5));
        let header = Header { id: 2, flags: flag::LEAF, count: 2, overflow: 0 };
        assert!(element.fits(2, &header, 56).is_ok() && element.fits(2, &header, 55).is_err());
        let many = Header { count: 3, ..header };
        assert!(element.fits(2, &many, 56).is_err(), "it lies among the elements");
        assert_eq!(leaf_element(&page, 3), None);
    }
}
