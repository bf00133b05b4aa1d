//! The qcow2 header, as far as publishing needs it: how large the disk inside is, whether the
//! file stands alone, and where its first table lies.
//!
//! Written from QEMU's `docs/interop/qcow2.rst`. Everything reads from a slice and never trusts
//! a number in it.

mod reach;

use std::io::{self, Read, Seek, SeekFrom};

pub use reach::Reach;

use super::partitions::Disk;

/// The four bytes at the beginning of every qcow2.
pub const MAGIC: [u8; 4] = *b"QFI\xfb";

const V2_BYTES: usize = 72;
const V3_BYTES: usize = 104;
/// QEMU's own bound of the first-level table: 32 MiB of entries of 8 bytes.
const MAX_L1_ENTRIES: u32 = 4 << 20;
/// Reference counts have at most 64 bits.
const MAX_REFCOUNT_ORDER: u32 = 6;
const FEATURE_NAMES: u32 = 0x6803_f857;
const FEATURE_NAME_BYTES: usize = 48;

/// Bits of the incompatible features that have a name of their own.
mod bit {
    pub const DIRTY: u64 = 1;
    pub const CORRUPT: u64 = 1 << 1;
    pub const EXTERNAL_DATA: u64 = 1 << 2;
    pub const COMPRESSION: u64 = 1 << 3;
    pub const EXTENDED_L2: u64 = 1 << 4;
    pub const KNOWN: u64 = DIRTY | CORRUPT | EXTERNAL_DATA | COMPRESSION | EXTENDED_L2;
}

/// A header that we understand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// The size of the disk inside, in bytes.
    pub virtual_bytes: u64,
    /// Clusters are `1 << cluster_bits` bytes; 9 to 21.
    pub cluster_bits: u32,
    /// Snapshots inside the file, which no import carries over.
    pub snapshots: u32,
    l1_entries: u32,
    l1_offset: u64,
    refcounts_offset: u64,
    incompatible: u64,
    zstd: bool,
}

/// Why a qcow2 cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The first four bytes are others.
    #[error("it is no qcow2")]
    NotQcow2,
    /// The header is cut off.
    #[error("its qcow2 header is cut off after {0} bytes")]
    Short(usize),
    /// Neither 2 nor 3.
    #[error("its qcow2 version is {0}; 2 and 3 are known")]
    Version(u32),
    /// The header contradicts itself or QEMU's bounds.
    #[error("its qcow2 header is broken: {0}")]
    Broken(String),
    /// The file holds only the differences to another one.
    #[error("it is only the difference to its backing file {0:?}")]
    Backing(String),
    /// The file is encrypted.
    #[error("it is encrypted ({0})")]
    Encrypted(&'static str),
    /// The guest's bytes are in another file.
    #[error("its data is in another file")]
    ExternalData,
    /// The writer used features that a reader must know, and we do not.
    #[error("it needs qcow2 features that are not known here: {}", .0.join(", "))]
    Features(Vec<String>),
    /// The file ends before what its header points at.
    #[error("it is cut off: its tables reach to byte {needs}, the file has {has}")]
    Cut {
        /// How far its tables reach.
        needs: u64,
        /// The file's length.
        has: u64,
    },
}

impl Refusal {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Backing(_) | Self::ExternalData | Self::Features(_) => {
                "make one file that stands alone: qemu-img convert -O qcow2 IN OUT"
            }
            Self::Encrypted(_) => "the cloud has no key: decrypt it with qemu-img convert first",
            Self::Broken(_) | Self::Cut { .. } | Self::Short(_) => {
                "the copy is probably incomplete: compare its checksum, or run qemu-img check"
            }
            Self::NotQcow2 | Self::Version(_) => return None,
        })
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads the header at the beginning of `head` (a few kilobytes are enough).
///
/// # Errors
/// Why the image cannot be published.
pub fn read(head: &[u8]) -> Result<Header, Refusal> {
    if !head.starts_with(&MAGIC) {
        return Err(Refusal::NotQcow2);
    }
    let short = || Refusal::Short(head.len());
    let u32_at = |at| be32(head, at).ok_or_else(short);
    let u64_at = |at| be64(head, at).ok_or_else(short);
    let version = u32_at(4)?;
    if !(2..=3).contains(&version) {
        return Err(Refusal::Version(version));
    }
    if head.len() < V2_BYTES {
        return Err(short());
    }
    let (incompatible, header_bytes) =
        if version == 3 { (u64_at(72)?, u32_at(100)?) } else { (0, 72) };
    if version == 3 && header_bytes < u32::try_from(V3_BYTES).unwrap_or(u32::MAX) {
        return Err(Refusal::Broken(format!("header of {header_bytes} bytes")));
    }
    let unknown = incompatible & !bit::KNOWN;
    if unknown != 0 {
        return Err(Refusal::Features(names(head, header_bytes as usize, unknown)));
    }
    stands_alone(head, incompatible, u64_at(8)?, u32_at(16)?, u32_at(32)?)?;
    let compression = head.get(V3_BYTES).copied().unwrap_or(0);
    let header = Header {
        version,
        virtual_bytes: u64_at(24)?,
        cluster_bits: u32_at(20)?,
        snapshots: u32_at(60)?,
        l1_entries: u32_at(36)?,
        l1_offset: u64_at(40)?,
        refcounts_offset: u64_at(48)?,
        incompatible,
        zstd: incompatible & bit::COMPRESSION != 0 && compression == 1,
    };
    header.sane()?;
    if version == 3 {
        header.sane_v3(header_bytes, u32_at(96)?)?;
    }
    Ok(header)
}

fn stands_alone(
    head: &[u8],
    incompatible: u64,
    backing_at: u64,
    backing_bytes: u32,
    crypt: u32,
) -> Result<(), Refusal> {
    if backing_at != 0 {
        let name = usize::try_from(backing_at)
            .ok()
            .and_then(|at| head.get(at..at.checked_add(backing_bytes.min(1023) as usize)?));
        let name = name.map_or_else(String::new, |n| String::from_utf8_lossy(n).into_owned());
        return Err(Refusal::Backing(name));
    }
    match crypt {
        0 => {}
        1 => return Err(Refusal::Encrypted("AES")),
        2 => return Err(Refusal::Encrypted("LUKS")),
        other => return Err(Refusal::Broken(format!("encryption method {other}"))),
    }
    if incompatible & bit::EXTERNAL_DATA != 0 {
        return Err(Refusal::ExternalData);
    }
    Ok(())
}

/// The names that the file itself gives to feature bits, else their numbers.
fn names(head: &[u8], extensions_at: usize, bits: u64) -> Vec<String> {
    let table = feature_table(head, extensions_at).unwrap_or_default();
    let name = |n: u32| {
        let own =
            table.chunks_exact(FEATURE_NAME_BYTES).find(|e| e[0] == 0 && u32::from(e[1]) == n);
        let text = own.map(|e| String::from_utf8_lossy(&e[2..]).trim_end_matches('\0').to_owned());
        match text {
            Some(text) if !text.is_empty() && !text.chars().any(char::is_control) => {
                format!("{text} (bit {n})")
            }
            _ => format!("bit {n}"),
        }
    };
    (0..64).filter(|n| bits >> n & 1 == 1).map(name).collect()
}

/// The feature name table among the header extensions.
fn feature_table(head: &[u8], mut at: usize) -> Option<&[u8]> {
    loop {
        let (kind, len) = (be32(head, at)?, be32(head, at.checked_add(4)?)? as usize);
        let data = at.checked_add(8)?;
        match kind {
            0 => return None,
            FEATURE_NAMES => return head.get(data..data.checked_add(len)?),
            _ => at = data.checked_add(len.checked_next_multiple_of(8)?)?,
        }
    }
}

impl Header {
    fn sane(&self) -> Result<(), Refusal> {
        let broken = |why: String| Err(Refusal::Broken(why));
        if !(9..=21).contains(&self.cluster_bits) {
            return broken(format!("clusters of 2^{} bytes", self.cluster_bits));
        }
        if self.extended() && self.cluster_bits < 14 {
            return broken(format!("extended entries with 2^{} byte clusters", self.cluster_bits));
        }
        if self.virtual_bytes == 0 {
            return broken("a disk of 0 bytes".into());
        }
        let needed = self.virtual_bytes.div_ceil(self.l1_span());
        if self.l1_entries > MAX_L1_ENTRIES || needed > u64::from(MAX_L1_ENTRIES) {
            return broken(format!(
                "a disk of {} bytes with {} table entries",
                self.virtual_bytes, self.l1_entries
            ));
        }
        if u64::from(self.l1_entries) < needed {
            return broken(format!("{} table entries where {needed} are needed", self.l1_entries));
        }
        let aligned = |offset: u64| offset.is_multiple_of(self.cluster());
        if self.l1_offset == 0 || !aligned(self.l1_offset) {
            return broken(format!("a table at byte {}", self.l1_offset));
        }
        if !aligned(self.refcounts_offset) {
            return broken(format!("reference counts at byte {}", self.refcounts_offset));
        }
        Ok(())
    }

    /// QEMU's own bounds of what only version 3 has.
    fn sane_v3(&self, header_bytes: u32, refcount_order: u32) -> Result<(), Refusal> {
        if u64::from(header_bytes) > self.cluster() {
            return Err(Refusal::Broken(format!("header of {header_bytes} bytes")));
        }
        if refcount_order > MAX_REFCOUNT_ORDER {
            return Err(Refusal::Broken(format!("reference counts of 2^{refcount_order} bits")));
        }
        Ok(())
    }

    fn extended(&self) -> bool {
        self.incompatible & bit::EXTENDED_L2 != 0
    }

    fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    fn entry_bytes(&self) -> u64 {
        if self.extended() { 16 } else { 8 }
    }

    /// Guest bytes that one second-level table describes.
    fn l1_span(&self) -> u64 {
        self.cluster() / self.entry_bytes() * self.cluster()
    }

    /// Whether a file of `total` bytes holds at least what the header points at.
    ///
    /// # Errors
    /// [`Refusal::Cut`].
    pub fn fits(&self, total: u64) -> Result<(), Refusal> {
        let l1_end = self.l1_offset.saturating_add(u64::from(self.l1_entries) * 8);
        // Of the other table only where it begins is surely in the file.
        let needs = l1_end.max(self.refcounts_offset);
        if needs > total { Err(Refusal::Cut { needs, has: total }) } else { Ok(()) }
    }

    /// What should be said about the image, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.incompatible & bit::CORRUPT != 0 {
            said.push("the qcow2 is marked corrupt: run `qemu-img check -r all` on it".to_owned());
        }
        if self.incompatible & bit::DIRTY != 0 {
            said.push("the qcow2 was not closed cleanly: run `qemu-img check` on it".to_owned());
        }
        if self.snapshots > 0 {
            said.push(format!(
                "the qcow2 holds {} snapshots, which an import leaves out",
                self.snapshots
            ));
        }
        if self.zstd {
            said.push(
                "the qcow2 is compressed with zstd, which QEMU reads only since 5.1".to_owned(),
            );
        }
        said
    }
}

const OFFSET_BITS: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ALL_ZERO: u64 = 1;

/// The disk inside a qcow2, for reading small pieces of it.
#[derive(Debug)]
pub struct Guest<R> {
    file: R,
    header: Header,
}

/// Where a cluster of the guest is.
enum Place {
    File(u64),
    Zeros,
    Unknown,
}

impl<R: Read + Seek> Guest<R> {
    /// The disk inside `file`, whose header was read before.
    pub fn new(file: R, header: Header) -> Self {
        Self { file, header }
    }

    fn entry(&mut self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn place(&mut self, guest: u64) -> io::Result<Place> {
        if self.header.extended() {
            return Ok(Place::Unknown);
        }
        let (cluster, span) = (self.header.cluster(), self.header.l1_span());
        let l1 = self.entry(self.header.l1_offset.saturating_add(guest / span * 8))?;
        let table = l1 & OFFSET_BITS;
        if table == 0 {
            return Ok(Place::Zeros);
        }
        let entry = self.entry(table.saturating_add(guest % span / cluster * 8))?;
        let place = entry & OFFSET_BITS;
        Ok(if entry & COMPRESSED != 0 {
            Place::Unknown
        } else if place == 0 || (self.header.version == 3 && entry & ALL_ZERO != 0) {
            Place::Zeros
        } else {
            Place::File(place.saturating_add(guest % cluster))
        })
    }
}

impl<R: Read + Seek> Disk for Guest<R> {
    fn bytes(&self) -> u64 {
        self.header.virtual_bytes
    }

    fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let mut done = 0;
        while done < buffer.len() {
            let guest = at.saturating_add(done as u64);
            let rest = self.header.cluster() - guest % self.header.cluster();
            let take = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len() - done);
            let piece = &mut buffer[done..done + take];
            match self.place(guest)? {
                Place::Unknown => return Ok(false),
                Place::Zeros => piece.fill(0),
                Place::File(offset) => {
                    self.file.seek(SeekFrom::Start(offset))?;
                    self.file.read_exact(piece)?;
                }
            }
            done += take;
        }
        Ok(true)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// A small but whole qcow2 v3 with clusters of 64 KiB, whose first guest cluster is `first`.
    pub(in super::super) fn image(virtual_bytes: u64, first: &[u8]) -> Vec<u8> {
        const CLUSTER: usize = 1 << 16;
        let mut file = vec![0; CLUSTER * 4];
        file[..4].copy_from_slice(&MAGIC);
        put32(&mut file, 4, 3);
        put32(&mut file, 20, 16);
        put64(&mut file, 24, virtual_bytes);
        put32(&mut file, 36, u32::try_from(virtual_bytes.div_ceil(1 << 29)).unwrap());
        put64(&mut file, 40, 1 << 16);
        put32(&mut file, 96, 4);
        put32(&mut file, 100, 104);
        put64(&mut file, 1 << 16, (2 << 16) | 1 << 63);
        put64(&mut file, 2 << 16, (3 << 16) | 1 << 63);
        file[3 << 16..(3 << 16) + first.len()].copy_from_slice(first);
        file
    }

    pub(in super::super) fn put32(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    pub(in super::super) fn put64(bytes: &mut [u8], at: usize, value: u64) {
        bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    #[test]
    fn a_header_tells_the_size_of_the_disk() {
        let header = read(&image(20 << 30, b"")).unwrap();
        assert_eq!((header.version, header.virtual_bytes, header.cluster_bits), (3, 20 << 30, 16));
        assert_eq!(header.warnings(), Vec::<String>::new());
        let mut v2 = image(1 << 30, b"");
        put32(&mut v2, 4, 2);
        put64(&mut v2, 72, u64::MAX); // in version 2 that is no feature word
        assert_eq!(read(&v2[..72]).unwrap().version, 2);
    }

    #[test]
    fn what_cannot_stand_alone_or_is_broken_is_refused() {
        type Change = fn(&mut Vec<u8>);
        let table: &[(Change, &str)] = &[
            (|i| i[0] = b'X', "it is no qcow2"),
            (|i| i.truncate(40), "cut off after 40 bytes"),
            (|i| i.truncate(90), "cut off after 90 bytes"),
            (|i| i.truncate(6), "cut off after 6 bytes"),
            (|i| put32(i, 4, 1), "version is 1"),
            (|i| put32(i, 20, 8), "clusters of 2^8 bytes"),
            (|i| put32(i, 20, 22), "clusters of 2^22 bytes"),
            (|i| put32(i, 20, u32::MAX), "clusters of 2^4294967295 bytes"),
            (|i| put64(i, 24, 0), "a disk of 0 bytes"),
            (|i| put64(i, 24, u64::MAX), "table entries"),
            (|i| put32(i, 36, 1), "1 table entries where 2 are needed"),
            (|i| put64(i, 40, 0), "a table at byte 0"),
            (|i| put64(i, 40, 77), "a table at byte 77"),
            (|i| put64(i, 48, u64::MAX), "reference counts at byte 18446744073709551615"),
            (|i| put32(i, 96, 7), "reference counts of 2^7 bits"),
            (|i| put32(i, 100, (1 << 16) + 8), "header of 65544 bytes"),
            (|i| put32(i, 32, 1), "encrypted (AES)"),
            (|i| put32(i, 32, 2), "encrypted (LUKS)"),
            (|i| put32(i, 32, 9), "encryption method 9"),
            (|i| put64(i, 72, 4), "data is in another file"),
            (|i| put64(i, 72, 1 << 40 | 1 << 7), "not known here: bit 7, bit 40"),
            (|i| put32(i, 100, 80), "header of 80 bytes"),
            (
                |i| {
                    put64(i, 72, 16);
                    put32(i, 20, 12);
                },
                "extended entries",
            ),
        ];
        for (change, want) in table {
            let mut bytes = image(1 << 30, b"");
            change(&mut bytes);
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains(want), "{error} / {want}");
        }
    }

    #[test]
    fn a_backing_file_is_named() {
        let mut bytes = image(1 << 20, b"");
        bytes[512..521].copy_from_slice(b"base.qcow");
        put64(&mut bytes, 8, 512);
        put32(&mut bytes, 16, 9);
        let error = read(&bytes).unwrap_err();
        assert_eq!(error, Refusal::Backing("base.qcow".into()));
        assert!(error.hint().unwrap().contains("qemu-img convert"));
        put64(&mut bytes, 8, u64::MAX);
        assert_eq!(read(&bytes).unwrap_err(), Refusal::Backing(String::new()));
    }

    #[test]
    fn unknown_features_are_called_as_their_writer_did() {
        let mut bytes = image(1 << 20, b"");
        put64(&mut bytes, 72, 1 << 9);
        put32(&mut bytes, 104, 0x1234); // some other extension first
        put32(&mut bytes, 108, 3);
        put32(&mut bytes, 120, FEATURE_NAMES);
        put32(&mut bytes, 124, 48);
        bytes[129] = 9;
        bytes[130..139].copy_from_slice(b"time warp");
        let error = read(&bytes).unwrap_err();
        assert_eq!(error, Refusal::Features(vec!["time warp (bit 9)".into()]));
    }

    #[test]
    fn marks_of_an_accident_are_warned_about() {
        let mut bytes = image(1 << 20, b"");
        put64(&mut bytes, 72, 1 | 2 | 8);
        put32(&mut bytes, 60, 3);
        bytes[104] = 1;
        let said = read(&bytes).unwrap().warnings().join("\n");
        for word in ["corrupt", "not closed cleanly", "3 snapshots", "zstd"] {
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn a_file_that_ends_before_its_tables_is_cut_off() {
        let header = read(&image(1 << 30, b"")).unwrap();
        assert_eq!(header.fits(65_552), Ok(()));
        assert_eq!(header.fits(65_551), Err(Refusal::Cut { needs: 65_552, has: 65_551 }));
    }

    #[test]
    fn the_guest_reads_through_both_tables() {
        let bytes = image(1 << 30, b"hello");
        let mut guest = Guest::new(Cursor::new(&bytes), read(&bytes).unwrap());
        let mut piece = [1; 8];
        assert!(guest.read(0, &mut piece).unwrap());
        assert_eq!(&piece, b"hello\0\0\0");
        assert!(guest.read((1 << 16) - 4, &mut piece).unwrap(), "over a cluster's end");
        assert_eq!(piece, [0; 8]);
        assert!(guest.read(600 << 20, &mut piece).unwrap(), "no second table");
        assert_eq!(piece, [0; 8]);
    }

    #[test]
    fn what_is_compressed_is_not_known() {
        let mut bytes = image(1 << 30, b"hello");
        put64(&mut bytes, 2 << 16, COMPRESSED | 3 << 16);
        let mut guest = Guest::new(Cursor::new(&bytes), read(&bytes).unwrap());
        assert!(!guest.read(0, &mut [0; 8]).unwrap());
        put64(&mut bytes, 2 << 16, (3 << 16) | ALL_ZERO);
        let mut guest = Guest::new(Cursor::new(&bytes), read(&bytes).unwrap());
        let mut piece = [1; 8];
        assert!(guest.read(0, &mut piece).unwrap());
        assert_eq!(piece, [0; 8], "an explicit zero cluster");
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(
            noise in proptest::collection::vec((4_usize..200, any::<u8>()), 0..40),
            cut in 0_usize..300,
            at: u64,
        ) {
            let mut bytes = image(1 << 30, b"x");
            for (place, value) in noise {
                bytes[place] = value;
            }
            let _ = read(&bytes[..cut]);
            if let Ok(header) = read(&bytes) {
                let _ = header.fits(at);
                let mut guest = Guest::new(Cursor::new(&bytes), header);
                let _ = guest.read(at, &mut [0; 1024]);
            }
        }
    }
}
