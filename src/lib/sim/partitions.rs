//! Partition tables, byte by byte: GPT with its spare copy, or MBR; pure.

use super::qcow2::Gpt;

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;

// Type GUIDs as they lie on a disk: the first three groups little-endian.
const ESP: [u8; 16] = guid(0xc12a_7328, 0xf81f, 0x11d2, 0xba4b_00a0_c93e_c93b);
const BIOS_BOOT: [u8; 16] = guid(0x2168_6148, 0x6449, 0x6e6f, 0x744e_6565_6445_4649);
const LINUX: [u8; 16] = guid(0x0fc6_3daf, 0x8483, 0x4772, 0x8e79_3d69_d847_7de4);

const fn guid(a: u32, b: u16, c: u16, d: u64) -> [u8; 16] {
    let (a, b, c, d) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes(), d.to_be_bytes());
    [a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]]
}

/// Writes what a disk of `disk` bytes with this table has at offset `at` into `bytes`, which
/// are zero and do not cross the middle of the disk.
pub(super) fn fill(table: Gpt, disk: u64, at: u64, bytes: &mut [u8]) {
    for (place, content) in sectors(table, disk) {
        let end = place + content.len() as u64;
        if place >= at && end <= at + bytes.len() as u64 {
            let from = usize::try_from(place - at).unwrap_or(0);
            bytes[from..from + content.len()].copy_from_slice(&content);
        }
    }
}

/// All sectors of the table with their offsets.
fn sectors(table: Gpt, disk: u64) -> Vec<(u64, Vec<u8>)> {
    let last = disk / SECTOR - 1;
    let (bios, uefi) = match table {
        Gpt::None => return Vec::new(),
        Gpt::Mbr => return vec![(0, mbr(0x80, 0x83, 2048, last - 2047))],
        Gpt::Uefi => (false, true),
        Gpt::Bios => (true, false),
        Gpt::Both => (true, true),
    };
    let entries = entries(bios, uefi, last - 33);
    let header = |mine, other, at| gpt_header(mine, other, at, last - 33, crc32(&entries));
    vec![
        (0, mbr(0, 0xee, 1, last)),
        (SECTOR, header(1, last, 2)),
        (2 * SECTOR, entries.clone()),
        ((last - 32) * SECTOR, entries.clone()),
        (last * SECTOR, header(last, 1, last - 32)),
    ]
}

/// A master boot record with one partition; `active` is 0x80 or 0.
fn mbr(active: u8, kind: u8, first: u64, count: u64) -> Vec<u8> {
    let mut sector = vec![0; 512];
    let short = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    if active != 0 {
        // A jump to itself: enough for boot code.
        sector[..2].copy_from_slice(&[0xeb, 0xfe]);
    }
    sector[446..454].copy_from_slice(&[active, 0, 2, 0, kind, 0xff, 0xff, 0xff]);
    sector[454..458].copy_from_slice(&short(first));
    sector[458..462].copy_from_slice(&short(count));
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// The array of 128 partition entries.
fn entries(bios: bool, uefi: bool, last_usable: u64) -> Vec<u8> {
    let mut table = Vec::with_capacity(128 * 128);
    let mut first = MIB / SECTOR;
    let small = [(bios, BIOS_BOOT), (uefi, ESP)];
    for (_, kind) in small.into_iter().filter(|(wanted, _)| *wanted) {
        table.extend(entry(kind, first, first + 2047));
        first += 2048;
    }
    table.extend(entry(LINUX, first, last_usable));
    table.resize(128 * 128, 0);
    table
}

fn entry(kind: [u8; 16], first: u64, last: u64) -> Vec<u8> {
    let mut entry = kind.to_vec();
    entry.extend(guid(1, 2, 0x4003, 0x8000_0000_0000_0000 | first)); // unique by its place
    entry.extend(first.to_le_bytes());
    entry.extend(last.to_le_bytes());
    entry.resize(128, 0);
    entry
}

fn gpt_header(mine: u64, other: u64, entries_at: u64, last_usable: u64, crc: u32) -> Vec<u8> {
    let mut header = b"EFI PART\0\0\x01\0\x5c\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    for number in [mine, other, 34, last_usable] {
        header.extend(number.to_le_bytes());
    }
    header.extend(guid(7, 7, 0x4007, 0x8000_0000_0000_0007)); // the disk's own
    header.extend(entries_at.to_le_bytes());
    for number in [128, 128, crc] {
        header.extend(u32::to_le_bytes(number));
    }
    let own = crc32(&header);
    header[16..20].copy_from_slice(&own.to_le_bytes());
    header.resize(512, 0);
    header
}

/// The CRC of Ethernet, zip and GPT.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_usual_ones() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_table_has_its_signs() {
        let disk = 8 * MIB;
        let find = |table, sign: [u8; 16]| {
            let all: Vec<u8> = sectors(table, disk).into_iter().flat_map(|(_, s)| s).collect();
            all.windows(16).filter(|w| *w == sign).count()
        };
        for (table, esp, bios, linux) in [
            (Gpt::Uefi, 2, 0, 2),
            (Gpt::Bios, 0, 2, 2),
            (Gpt::Both, 2, 2, 2),
            (Gpt::Mbr, 0, 0, 0),
            (Gpt::None, 0, 0, 0),
        ] {
            let got = (find(table, ESP), find(table, BIOS_BOOT), find(table, LINUX));
            assert_eq!(got, (esp, bios, linux), "{table:?}");
        }
    }

    #[test]
    fn a_header_vouches_for_itself_and_the_entries() {
        let parts = sectors(Gpt::Both, 8 * MIB);
        for index in [1, 4] {
            let mut header = parts[index].1[..92].to_vec();
            let own = u32::from_le_bytes(header[16..20].try_into().unwrap());
            header[16..20].fill(0);
            assert_eq!(crc32(&header), own);
            assert_eq!(header[88..92], crc32(&parts[2].1).to_le_bytes());
        }
        assert_eq!(parts[4].0, 8 * MIB - 512);
    }
}
