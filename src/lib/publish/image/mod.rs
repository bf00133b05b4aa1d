//! What a file is, told by its bytes and never by its name.
//!
//! Purpose: everything that can be known about an image before a cloud sees it. [`recognise`]
//! names the format by the first bytes, [`qcow2`] reads the one header that says how large the
//! disk will be, [`partitions`] looks which firmware can boot it, [`examine`] does the first two
//! at once for a file or the beginning of a download.
//!
//! What may enter: code over `&[u8]` and `Read + Seek`; no network, no async, no paths.
//!
//! Invariants: no input makes anything here panic or allocate more than a few megabytes; what
//! cannot be told is said to be unknown, never guessed. One more format: a row in `SIGNATURES`
//! or a test of its own in [`recognise`], and a name in [`Format`] or [`Alien`].

use std::fmt;

pub mod partitions;
pub mod qcow2;

pub use partitions::Firmware;

/// As many first bytes as [`examine`] wants to see: they cover every signature we know, the
/// furthest being that of ISO 9660 at 32 769.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Above this many bytes an image is worth a word, because every location downloads it.
const LARGE: u64 = 8 << 30;

/// The smallest thing that may be an image: one sector.
const SECTOR: usize = 512;

/// A format that the cloud converts from (vco-api.md 3.2, G8S: qemu-img detects it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
    /// The disk's bytes as they are, with an MBR or a GPT.
    Raw,
    /// The sparse format of virtual machines under ESX and Workstation, in one file.
    Vmdk,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
            Self::Vmdk => "vmdk",
        })
    }
}

/// Something that is no image we can publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it, and `Display` says it in words")]
pub enum Alien {
    Empty,
    TooShort,
    Html,
    Xml,
    Text,
    VmdkDescriptor,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    Lz4,
    SevenZip,
    Zip,
    Tar,
    Iso9660,
    Vhd,
    Vhdx,
    Vdi,
    BootSectorOnly,
    Unknown,
}

impl Alien {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::Html | Self::Xml => {
                "a page is where the image should be, such as a login, an error or a listing: look at \
                 it in a browser"
            }
            Self::Gzip | Self::Xz | Self::Zstd | Self::Bzip2 | Self::Lz4 => {
                "decompress it first; a qcow2 can be compressed inside: qemu-img convert -c -O qcow2"
            }
            Self::Zip | Self::SevenZip | Self::Tar => "unpack it and publish the disk inside",
            Self::Iso9660 => {
                "an installer medium is no disk image; install it once, or take the vendor's cloud image"
            }
            Self::Vhd | Self::Vhdx | Self::Vdi => "convert it: qemu-img convert -O qcow2 IN OUT",
            Self::VmdkDescriptor => {
                "the descriptor only names other files: qemu-img convert -O qcow2 makes one file"
            }
            Self::BootSectorOnly | Self::Unknown => {
                "supported are qcow2, vmdk, and raw disks with an MBR or a GPT"
            }
            Self::Empty | Self::TooShort | Self::Text => return None,
        })
    }
}

impl fmt::Display for Alien {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::TooShort => "shorter than one disk sector",
            Self::Html => "an HTML page",
            Self::Xml => "an XML document",
            Self::Text => "a text",
            Self::VmdkDescriptor => "a VMDK descriptor without its disk",
            Self::Gzip => "compressed with gzip",
            Self::Xz => "compressed with xz",
            Self::Zstd => "compressed with zstd",
            Self::Bzip2 => "compressed with bzip2",
            Self::Lz4 => "compressed with lz4",
            Self::SevenZip => "a 7z archive",
            Self::Zip => "a zip archive",
            Self::Tar => "a tar (or OVA) archive",
            Self::Iso9660 => "an ISO 9660 medium",
            Self::Vhd => "a VHD disk",
            Self::Vhdx => "a VHDX disk",
            Self::Vdi => "a VirtualBox VDI disk",
            Self::BootSectorOnly => "a boot sector without a partition table",
            Self::Unknown => "in no format we know",
        })
    }
}

/// Offset, signature, verdict. The order matters only for ISO, which may carry an MBR too.
const SIGNATURES: &[(usize, &[u8], Result<Format, Alien>)] = &[
    (0, b"QFI\xfb", Ok(Format::Qcow2)),
    (0, b"KDMV", Ok(Format::Vmdk)),
    (0, b"COWD", Ok(Format::Vmdk)),
    (0, b"# Disk DescriptorFile", Err(Alien::VmdkDescriptor)),
    (0, b"\x1f\x8b", Err(Alien::Gzip)),
    (0, b"\xfd7zXZ\0", Err(Alien::Xz)),
    (0, b"\x28\xb5\x2f\xfd", Err(Alien::Zstd)),
    (0, b"BZh", Err(Alien::Bzip2)),
    (0, b"\x04\x22\x4d\x18", Err(Alien::Lz4)),
    (0, b"7z\xbc\xaf\x27\x1c", Err(Alien::SevenZip)),
    (0, b"PK\x03\x04", Err(Alien::Zip)),
    (0, b"PK\x05\x06", Err(Alien::Zip)),
    (0, b"conectix", Err(Alien::Vhd)),
    (0, b"vhdxfile", Err(Alien::Vhdx)),
    (64, b"\x7f\x10\xda\xbe", Err(Alien::Vdi)),
    (257, b"ustar", Err(Alien::Tar)),
    (32_769, b"CD001", Err(Alien::Iso9660)),
];

/// Names what begins with `head`; `total` is how many bytes there are altogether.
///
/// # Errors
/// The name of what it is instead of an image.
pub fn recognise(head: &[u8], total: u64) -> Result<Format, Alien> {
    if total == 0 || head.is_empty() {
        return Err(Alien::Empty);
    }
    let known = SIGNATURES
        .iter()
        .find(|(at, magic, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    if let Some((_, _, verdict)) = known {
        return *verdict;
    }
    if let Some(kind) = prose(head) {
        return Err(kind);
    }
    if head.len() < SECTOR {
        return Err(Alien::TooShort);
    }
    match partitions::sector_kind(head) {
        partitions::Sector::Table => Ok(Format::Raw),
        partitions::Sector::BootOnly => Err(Alien::BootSectorOnly),
        partitions::Sector::Other => Err(Alien::Unknown),
    }
}

/// Whether the bytes are meant for people: a page, a document, a text.
fn prose(head: &[u8]) -> Option<Alien> {
    let head = &head[..head.len().min(1024)];
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let lower: Vec<u8> = text.iter().take(512).map(u8::to_ascii_lowercase).collect();
    let holds = |word: &[u8]| lower.windows(word.len()).any(|w| w == word);
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
        return Some(Alien::Html);
    }
    let printable = |b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | 0x0c | b' '..=b'~' | 0x80..);
    if !head.iter().all(printable) {
        return None;
    }
    if lower.starts_with(b"<?xml") && !holds(b"<html") {
        return Some(Alien::Xml);
    }
    let html =
        lower.starts_with(b"<") && [&b"<html"[..], b"<head", b"<body"].iter().any(|w| holds(w));
    Some(if html { Alien::Html } else { Alien::Text })
}

/// Why an image cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is something else.
    #[error("it is {0}")]
    Alien(Alien),
    /// It is a qcow2 that cannot stand alone, or is broken.
    #[error("{0}")]
    Qcow2(qcow2::Refusal),
}

impl Unfit {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Alien(alien) => alien.hint(),
            Self::Qcow2(refusal) => refusal.hint(),
        }
    }
}

/// What the first bytes tell of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its format.
    pub format: Format,
    /// The size of the disk inside, in bytes, where the format tells it.
    pub virtual_bytes: Option<u64>,
    /// What should be said about it, one sentence each.
    pub warnings: Vec<String>,
}

/// Recognises an image of `total` bytes by its `head` (up to [`HEAD_BYTES`]) and reads its header.
///
/// # Errors
/// What is wrong with it.
pub fn examine(head: &[u8], total: u64) -> Result<Facts, Unfit> {
    let format = recognise(head, total).map_err(Unfit::Alien)?;
    let mut facts = Facts { format, virtual_bytes: None, warnings: Vec::new() };
    match format {
        Format::Raw => {
            facts.virtual_bytes = Some(total);
            facts.warnings.extend(cut_off(head, total));
        }
        Format::Vmdk => {}
        Format::Qcow2 => {
            let header = qcow2::read(head).map_err(Unfit::Qcow2)?;
            header.fits(total).map_err(Unfit::Qcow2)?;
            facts.virtual_bytes = Some(header.virtual_bytes);
            facts.warnings = header.warnings();
        }
    }
    if total > LARGE {
        #[expect(clippy::cast_precision_loss, reason = "one decimal of GiB is shown")]
        let gib = total as f64 / f64::from(1 << 30);
        facts.warnings.push(format!(
            "the image is {gib:.1} GiB, and every location downloads it; `qemu-img convert -c -O \
             qcow2` usually makes it much smaller"
        ));
    }
    Ok(facts)
}

/// A raw disk that ends before its own partition table says so.
fn cut_off(head: &[u8], total: u64) -> Option<String> {
    let needs = partitions::gpt_reaches(head).filter(|needs| *needs > total)?;
    Some(format!(
        "the partition table is of a disk of {needs} bytes, and the image has {total}: it is \
         probably cut off"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(offset: usize, magic: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[offset..offset + magic.len()].copy_from_slice(magic);
        bytes
    }

    #[test]
    fn everything_is_called_by_its_name() {
        let page = |text: &str| text.as_bytes().to_vec();
        let mut iso = at(32_769, b"CD001");
        iso[510..512].copy_from_slice(b"\x55\xaa");
        iso[446 + 4] = 0x83;
        let table = [
            (at(0, b"QFI\xfb\0\0\0\x03"), Ok(Format::Qcow2)),
            (at(0, b"KDMV"), Ok(Format::Vmdk)),
            (at(0, b"COWD"), Ok(Format::Vmdk)),
            (page("# Disk DescriptorFile\nversion=1\n"), Err(Alien::VmdkDescriptor)),
            (at(0, b"\x1f\x8b\x08"), Err(Alien::Gzip)),
            (at(0, b"\xfd7zXZ\0"), Err(Alien::Xz)),
            (at(0, b"\x28\xb5\x2f\xfd"), Err(Alien::Zstd)),
            (at(0, b"BZh91AY"), Err(Alien::Bzip2)),
            (at(0, b"\x04\x22\x4d\x18"), Err(Alien::Lz4)),
            (at(0, b"7z\xbc\xaf\x27\x1c"), Err(Alien::SevenZip)),
            (at(0, b"PK\x03\x04"), Err(Alien::Zip)),
            (at(257, b"ustar"), Err(Alien::Tar)),
            (at(0, b"conectix"), Err(Alien::Vhd)),
            (at(0, b"vhdxfile"), Err(Alien::Vhdx)),
            (at(64, b"\x7f\x10\xda\xbe"), Err(Alien::Vdi)),
            (iso, Err(Alien::Iso9660)),
            (page("<!DOCTYPE html><html>"), Err(Alien::Html)),
            (page("\u{feff}\n  <HTML lang=en>"), Err(Alien::Html)),
            (page("<!-- x -->\n<head><title>404</title>"), Err(Alien::Html)),
            (page("<?xml version=\"1.0\"?><html>"), Err(Alien::Html)),
            (page("<?xml version=\"1.0\"?><Error><Code>AccessDenied"), Err(Alien::Xml)),
            (page("{\"message\": \"no\"}"), Err(Alien::Text)),
            (page("Überraschung"), Err(Alien::Text)),
            (vec![], Err(Alien::Empty)),
            (vec![0; 100], Err(Alien::TooShort)),
            (vec![0; HEAD_BYTES], Err(Alien::Unknown)),
            (at(510, b"\x55\xaa"), Err(Alien::BootSectorOnly)),
        ];
        for (bytes, want) in table {
            let got = recognise(&bytes, bytes.len() as u64);
            assert_eq!(got, want, "{:02x?}", &bytes[..bytes.len().min(16)]);
        }
    }

    #[test]
    fn a_raw_disk_is_known_by_its_partition_table() {
        let mut mbr = at(510, b"\x55\xaa");
        mbr[446..462].copy_from_slice(&[0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
        let facts = examine(&mbr, 20 << 20).unwrap();
        assert_eq!((facts.format, facts.virtual_bytes), (Format::Raw, Some(20 << 20)));
        assert_eq!(recognise(&at(512, b"EFI PART"), 1 << 20), Ok(Format::Raw));
        let mut gpt = at(512, b"EFI PART");
        gpt[512 + 32..512 + 40].copy_from_slice(&((20_u64 << 20) / 512 - 1).to_le_bytes());
        assert_eq!(examine(&gpt, 20 << 20).unwrap().warnings, Vec::<String>::new());
        assert!(examine(&gpt, 19 << 20).unwrap().warnings[0].contains("cut off"));
        assert_eq!(recognise(&at(4096, b"EFI PART"), 1 << 20), Ok(Format::Raw));
    }

    #[test]
    fn a_very_large_image_is_worth_a_word() {
        let facts = examine(&at(512, b"EFI PART"), 12 << 30).unwrap();
        assert!(facts.warnings[0].contains("12.0 GiB"), "{:?}", facts.warnings);
    }

    #[test]
    fn what_can_be_helped_has_a_hint() {
        let page = examine(b"<html>", 6).unwrap_err();
        assert_eq!(page.to_string(), "it is an HTML page");
        assert!(page.hint().unwrap().contains("login"));
        assert!(Alien::Gzip.hint().unwrap().contains("decompress"));
        assert_eq!(Alien::Empty.hint(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048), total: u64) {
            let _ = examine(&bytes, total);
        }

        #[test]
        fn printable_text_is_never_an_image(text in "[ -~\n]{1,2000}") {
            prop_assert!(recognise(text.as_bytes(), text.len() as u64).is_err()
                || text.starts_with("KDMV") || text.starts_with("COWD"));
        }
    }
}
