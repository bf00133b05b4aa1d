//! Which firmware can boot a disk, told by its partition table.
//!
//! A GPT with an EFI system partition boots with UEFI, one with a BIOS boot partition (GRUB's
//! home on a GPT) boots with BIOS, and cloud images often have both. An MBR boots with BIOS when
//! it has boot code or an active partition, and with UEFI when a partition is of type 0xEF.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

/// Which firmware can boot a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Firmware {
    /// Only a BIOS.
    Bios,
    /// Only UEFI.
    Uefi,
    /// Either.
    Both,
    /// The table does not tell, or could not be read.
    Unknown,
}

impl fmt::Display for Firmware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bios => "BIOS",
            Self::Uefi => "UEFI",
            Self::Both => "BIOS and UEFI",
            Self::Unknown => "unknown",
        })
    }
}

impl Firmware {
    fn from_signs(bios: bool, uefi: bool) -> Self {
        match (bios, uefi) {
            (true, true) => Self::Both,
            (true, false) => Self::Bios,
            (false, true) => Self::Uefi,
            (false, false) => Self::Unknown,
        }
    }
}

/// A disk as its guest sees it.
pub trait Disk {
    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// Fills `buffer` with the guest's bytes from `at` on; `false` when they cannot be told.
    ///
    /// # Errors
    /// The file cannot be read, or ends too early.
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<bool>;
}

/// A raw image: the file is the disk.
#[derive(Debug)]
pub struct Raw<R> {
    file: R,
    bytes: u64,
}

impl<R: Read + Seek> Raw<R> {
    /// The disk of `bytes` bytes that `file` is.
    pub fn new(file: R, bytes: u64) -> Self {
        Self { file, bytes }
    }
}

impl<R: Read + Seek> Disk for Raw<R> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<bool> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(buffer)?;
        Ok(true)
    }
}

/// What the first sector (and the start of a GPT behind it) looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sector {
    /// An MBR with a partition, or a GPT.
    Table,
    /// A boot signature, and no partition.
    BootOnly,
    /// Neither.
    Other,
}

const SIGNATURE_AT: usize = 510;
const ENTRIES_AT: usize = 446;
const GPT_MAGIC: &[u8] = b"EFI PART";
const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// Tells a disk with a partition table from other bytes.
pub(super) fn sector_kind(head: &[u8]) -> Sector {
    let gpt = SECTOR_SIZES.iter().any(|size| {
        usize::try_from(*size)
            .ok()
            .and_then(|at| head.get(at..))
            .is_some_and(|rest| rest.starts_with(GPT_MAGIC))
    });
    if gpt {
        return Sector::Table;
    }
    match head.get(..512) {
        Some(sector) if sector[SIGNATURE_AT..] == [0x55, 0xaa] => {
            if mbr_entries(sector).any(|(status, kind)| kind != 0 && matches!(status, 0 | 0x80)) {
                Sector::Table
            } else {
                Sector::BootOnly
            }
        }
        _ => Sector::Other,
    }
}

/// How long the disk must be at least, as the GPT at its beginning says: its copy lies at the end.
pub(super) fn gpt_reaches(head: &[u8]) -> Option<u64> {
    SECTOR_SIZES.into_iter().find_map(|size| {
        let header = head.get(usize::try_from(size).ok()?..)?.strip_prefix(GPT_MAGIC)?;
        let copy = u64::from_le_bytes(header.get(24..32)?.try_into().ok()?);
        copy.checked_add(1)?.checked_mul(size)
    })
}

/// Status byte and type byte of the four partitions.
fn mbr_entries(sector: &[u8]) -> impl Iterator<Item = (u8, u8)> {
    sector[ENTRIES_AT..SIGNATURE_AT].chunks_exact(16).map(|entry| (entry[0], entry[4]))
}

/// Looks which firmware can boot `disk`. What cannot be read is [`Firmware::Unknown`].
///
/// # Errors
/// The file cannot be read, or ends too early.
pub fn firmware(disk: &mut impl Disk) -> io::Result<Firmware> {
    for size in SECTOR_SIZES {
        match gpt_header(disk, size)? {
            Look::Found(table) => return gpt_firmware(disk, &table),
            Look::Hidden => return Ok(Firmware::Unknown),
            Look::Absent => {}
        }
    }
    let mut sector = [0; 512];
    if disk.bytes() < 512 || !disk.read(0, &mut sector)? {
        return Ok(Firmware::Unknown);
    }
    Ok(mbr_firmware(&sector))
}

fn mbr_firmware(sector: &[u8; 512]) -> Firmware {
    if sector_kind(sector) != Sector::Table {
        return Firmware::Unknown;
    }
    let esp = mbr_entries(sector).any(|(_, kind)| kind == 0xef);
    let active = mbr_entries(sector).any(|(status, kind)| status == 0x80 && kind != 0);
    let code = sector[..440].iter().any(|byte| *byte != 0);
    Firmware::from_signs(active || code, esp)
}

enum Look {
    Found(Table),
    Absent,
    Hidden,
}

/// Where the entries of a GPT lie.
struct Table {
    at: u64,
    entries: usize,
    entry_bytes: usize,
}

/// More entries than this are nobody's; 128 are usual.
const MAX_ENTRIES: usize = 1024;

fn gpt_header(disk: &mut impl Disk, sector: u64) -> io::Result<Look> {
    let mut header = [0; 92];
    if disk.bytes() < sector * 2 {
        return Ok(Look::Absent);
    }
    if !disk.read(sector, &mut header)? {
        return Ok(Look::Hidden);
    }
    if !header.starts_with(GPT_MAGIC) {
        return Ok(Look::Absent);
    }
    let le32 = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let lba = u64::from(le32(72)) | u64::from(le32(76)) << 32;
    let entries = usize::try_from(le32(80)).unwrap_or(usize::MAX).min(MAX_ENTRIES);
    let entry_bytes = usize::try_from(le32(84)).unwrap_or(usize::MAX);
    let usable = (128..=4096).contains(&entry_bytes) && entries > 0;
    Ok(match lba.checked_mul(sector) {
        Some(at) if usable => Look::Found(Table { at, entries, entry_bytes }),
        _ => Look::Hidden,
    })
}

/// EFI system partition, `C12A7328-F81F-11D2-BA4B-00A0C93EC93B` as it lies on the disk.
const ESP: [u8; 16] = [
    0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b,
];
/// BIOS boot partition, `21686148-6449-6E6F-744E-656564454649` as it lies on the disk.
const BIOS_BOOT: [u8; 16] = *b"Hah!IdontNeedEFI";

fn gpt_firmware(disk: &mut impl Disk, table: &Table) -> io::Result<Firmware> {
    let mut bytes = vec![0; table.entries * table.entry_bytes];
    let end = table.at.saturating_add(bytes.len() as u64);
    if end > disk.bytes() || !disk.read(table.at, &mut bytes)? {
        return Ok(Firmware::Unknown);
    }
    let holds =
        |kind: &[u8; 16]| bytes.chunks_exact(table.entry_bytes).any(|e| e.starts_with(kind));
    Ok(Firmware::from_signs(holds(&BIOS_BOOT), holds(&ESP)))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::super::qcow2;
    use super::*;

    /// The first 64 KiB of a disk with a GPT that has partitions of these types.
    fn gpt(sector: usize, kinds: &[[u8; 16]]) -> Vec<u8> {
        let mut disk = vec![0; 1 << 16];
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk[446 + 4] = 0xee;
        disk[sector..sector + 8].copy_from_slice(GPT_MAGIC);
        disk[sector + 72] = 2;
        disk[sector + 80] = 128;
        disk[sector + 84] = 128;
        for (n, kind) in kinds.iter().enumerate() {
            let at = sector * 2 + (n + 3) * 128;
            disk[at..at + 16].copy_from_slice(kind);
        }
        disk
    }

    fn mbr(code: u8, status: u8, kind: u8) -> Vec<u8> {
        let mut disk = vec![0; 1 << 16];
        disk[0] = code;
        disk[446 + 16] = status;
        disk[446 + 20] = kind;
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk
    }

    fn raw(disk: &[u8]) -> Firmware {
        firmware(&mut Raw::new(Cursor::new(disk), disk.len() as u64)).unwrap()
    }

    #[test]
    fn the_table_tells_the_firmware() {
        let broken = |at: usize, value: u8| {
            let mut disk = gpt(512, &[ESP]);
            disk[at] = value;
            disk
        };
        let table = [
            (gpt(512, &[ESP]), Firmware::Uefi),
            (gpt(512, &[BIOS_BOOT]), Firmware::Bios),
            (gpt(512, &[[9; 16], BIOS_BOOT, ESP]), Firmware::Both),
            (gpt(512, &[[9; 16]]), Firmware::Unknown),
            (gpt(4096, &[ESP]), Firmware::Uefi),
            (mbr(0xeb, 0, 0x83), Firmware::Bios),
            (mbr(0, 0x80, 0x83), Firmware::Bios),
            (mbr(0, 0, 0xef), Firmware::Uefi),
            (mbr(0xeb, 0x80, 0xef), Firmware::Both),
            (mbr(0, 0, 0x83), Firmware::Unknown),
            (mbr(0, 0, 0), Firmware::Unknown),
            (vec![0; 1 << 16], Firmware::Unknown),
            (vec![0; 100], Firmware::Unknown),
            (broken(512 + 78, 0xff), Firmware::Unknown),
            (broken(512 + 84, 1), Firmware::Unknown),
            (broken(512 + 80, 0), Firmware::Unknown),
        ];
        for (n, (disk, want)) in table.iter().enumerate() {
            assert_eq!(raw(disk), *want, "row {n}");
        }
    }

    #[test]
    fn a_gpt_tells_where_its_disk_ends() {
        let mut disk = gpt(512, &[ESP]);
        disk[512 + 32..512 + 40].copy_from_slice(&99_u64.to_le_bytes());
        assert_eq!(gpt_reaches(&disk), Some(100 * 512));
        disk[512 + 32..512 + 40].fill(0xff);
        assert_eq!((gpt_reaches(&disk), gpt_reaches(&disk[..530])), (None, None));
        assert_eq!(gpt_reaches(&mbr(0xeb, 0, 0x83)), None);
    }

    #[test]
    fn a_qcow2_is_read_through_its_tables() {
        let file = qcow2::tests::image(1 << 30, &gpt(512, &[ESP, BIOS_BOOT]));
        let header = qcow2::read(&file).unwrap();
        let mut guest = qcow2::Guest::new(Cursor::new(&file), header);
        assert_eq!(firmware(&mut guest).unwrap(), Firmware::Both);
    }

    #[test]
    fn a_compressed_qcow2_keeps_its_secret() {
        let mut file = qcow2::tests::image(1 << 30, &gpt(512, &[ESP]));
        qcow2::tests::put64(&mut file, 2 << 16, 1 << 62 | 3 << 16);
        let header = qcow2::read(&file).unwrap();
        let mut guest = qcow2::Guest::new(Cursor::new(&file), header);
        assert_eq!(firmware(&mut guest).unwrap(), Firmware::Unknown);
    }

    proptest! {
        #[test]
        fn no_disk_makes_it_panic(noise in proptest::collection::vec((440_usize..1400, any::<u8>()), 0..60)) {
            let mut disk = gpt(512, &[ESP]);
            for (at, value) in noise {
                disk[at] = value;
            }
            raw(&disk);
        }
    }
}
