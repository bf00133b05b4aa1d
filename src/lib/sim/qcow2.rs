//! Writes small but real disk images: qcow2 version 3 with a partition table inside.
//!
//! The file is what `qemu-img check` calls clean: header, one refcount table, refcount blocks,
//! L1 table, the L2 tables that are needed, data. Content follows from a seed, so two images of
//! one seed are the same bytes and two seeds never are.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::partitions;

/// Which partition table a disk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpt {
    /// GPT with an EFI system partition: boots with UEFI.
    Uefi,
    /// GPT with a BIOS boot partition: boots with BIOS.
    Bios,
    /// GPT with both, as cloud images have it.
    Both,
    /// No GPT but an MBR with an active partition: boots with BIOS.
    Mbr,
    /// No partition table at all.
    None,
}

/// A disk image to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// What the guest sees, in bytes; rounded up to whole MiB, at least eight.
    pub virtual_size: u64,
    /// So many bytes of it hold data, and so about as many bytes has the file.
    pub data: u64,
    /// What the data are made from.
    pub seed: u64,
    /// The partition table.
    pub gpt: Gpt,
}

/// Writes an image of this size for the guest, of which a MiB or less holds data.
pub fn write(path: &Path, virtual_size: u64, seed: u64, gpt: Gpt) -> io::Result<()> {
    Disk { virtual_size, data: 1 << 20, seed, gpt }.write(path)
}

const MIB: u64 = 1 << 20;
const CLUSTER: u64 = 1 << 16;
/// Entries of an L2 table, and refcounts of a block of 16 bits each.
const L2_ENTRIES: u64 = CLUSTER / 8;
const BLOCK_ENTRIES: u64 = CLUSTER / 2;
/// "The refcount is exactly one": set in every L1 and L2 entry of an image without snapshots.
const COPIED: u64 = 1 << 63;

impl Disk {
    /// The size that the guest sees, after rounding.
    #[must_use]
    pub fn rounded(&self) -> u64 {
        self.virtual_size.div_ceil(MIB).max(8) * MIB
    }

    /// Writes the image as qcow2.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let layout = Layout::of(self);
        layout.write_tables(&mut file)?;
        for cluster in &layout.guest {
            file.write_all(&self.cluster(*cluster))?;
        }
        file.flush()
    }

    /// Writes the image as a raw, sparse file.
    pub fn write_raw(&self, path: &Path) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        let mut file = File::create(path)?;
        file.set_len(self.rounded())?;
        for cluster in self.used() {
            file.seek(SeekFrom::Start(cluster * CLUSTER))?;
            file.write_all(&self.cluster(cluster))?;
        }
        Ok(())
    }

    /// The guest's clusters that hold something, ascending: the first and the last, where the
    /// tables are, and data from the first MiB on.
    fn used(&self) -> Vec<u64> {
        let clusters = self.rounded() / CLUSTER;
        let first = MIB / CLUSTER;
        let data = first..(first + self.data.div_ceil(CLUSTER)).min(clusters - 1);
        std::iter::once(0).chain(data).chain(std::iter::once(clusters - 1)).collect()
    }

    /// The content of one of the guest's clusters.
    fn cluster(&self, index: u64) -> Vec<u8> {
        let clusters = self.rounded() / CLUSTER;
        let mut bytes = vec![0; 1 << 16];
        if index > 0 && index + 1 < clusters {
            fill(&mut bytes, self.seed ^ index.wrapping_mul(0x9e37_79b9));
            return bytes;
        }
        partitions::fill(self.gpt, self.rounded(), index * CLUSTER, &mut bytes);
        bytes
    }
}

/// Bytes that no compressor makes smaller: splitmix64.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed;
    for chunk in bytes.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
}

/// Where everything lies in the file, in clusters: header, refcount table, refcount blocks,
/// L1 table, L2 tables, data.
struct Layout {
    virtual_size: u64,
    guest: Vec<u64>,
    blocks: u64,
    l1_entries: u64,
    /// The L1 entries that have an L2 table.
    l2: Vec<u64>,
}

impl Layout {
    fn of(disk: &Disk) -> Self {
        let guest = disk.used();
        let mut l2: Vec<u64> = guest.iter().map(|c| c / L2_ENTRIES).collect();
        l2.dedup();
        let virtual_size = disk.rounded();
        let l1_entries = virtual_size.div_ceil(CLUSTER * L2_ENTRIES);
        let mut layout = Self { virtual_size, guest, blocks: 1, l1_entries, l2 };
        // Refcount blocks count themselves.
        while layout.blocks * BLOCK_ENTRIES < layout.total() {
            layout.blocks += 1;
        }
        layout
    }

    fn l1_at(&self) -> u64 {
        2 + self.blocks
    }

    fn l2_at(&self) -> u64 {
        self.l1_at() + (self.l1_entries * 8).div_ceil(CLUSTER)
    }

    fn data_at(&self) -> u64 {
        self.l2_at() + self.l2.len() as u64
    }

    fn total(&self) -> u64 {
        self.data_at() + self.guest.len() as u64
    }

    fn write_tables(&self, file: &mut impl Write) -> io::Result<()> {
        padded(file, self.header())?;
        padded(file, numbers((0..self.blocks).map(|b| (2 + b) * CLUSTER)))?;
        let total = self.total();
        for block in 0..self.blocks {
            let counts = (0..BLOCK_ENTRIES).map(|i| u16::from(block * BLOCK_ENTRIES + i < total));
            file.write_all(&counts.flat_map(u16::to_be_bytes).collect::<Vec<u8>>())?;
        }
        let l2_of = |entry: u64| self.l2.iter().position(|e| *e == entry);
        let place = |index: usize| COPIED | ((self.l2_at() + index as u64) * CLUSTER);
        padded(file, numbers((0..self.l1_entries).map(|e| l2_of(e).map_or(0, place))))?;
        self.write_l2(file)
    }

    fn write_l2(&self, file: &mut impl Write) -> io::Result<()> {
        let mut data = self.data_at();
        let mut guest = self.guest.iter().peekable();
        for table in &self.l2 {
            let mut entry = |index: u64| {
                guest.next_if_eq(&&(table * L2_ENTRIES + index)).map_or(0, |_| {
                    data += 1;
                    COPIED | ((data - 1) * CLUSTER)
                })
            };
            padded(file, numbers((0..L2_ENTRIES).map(&mut entry)))?;
        }
        Ok(())
    }

    fn header(&self) -> Vec<u8> {
        let mut header = b"QFI\xfb\0\0\0\x03".to_vec();
        let mut put = |bytes: &[u8]| header.extend_from_slice(bytes);
        put(&[0; 12]); // no backing file
        put(&16u32.to_be_bytes()); // cluster_bits
        put(&self.virtual_size.to_be_bytes());
        put(&[0; 4]); // not encrypted
        put(&u32::try_from(self.l1_entries).unwrap_or(u32::MAX).to_be_bytes());
        put(&(self.l1_at() * CLUSTER).to_be_bytes());
        put(&CLUSTER.to_be_bytes()); // refcount table
        put(&1u32.to_be_bytes()); // in one cluster
        put(&[0; 12]); // no snapshots
        put(&[0; 24]); // no feature bits
        put(&4u32.to_be_bytes()); // refcounts of 2^4 bits
        put(&104u32.to_be_bytes()); // header length
        put(&[0; 8]); // end of header extensions
        header
    }
}

fn numbers(values: impl Iterator<Item = u64>) -> Vec<u8> {
    values.flat_map(u64::to_be_bytes).collect()
}

/// Writes whole clusters.
fn padded(file: &mut impl Write, mut bytes: Vec<u8>) -> io::Result<()> {
    bytes.resize(bytes.len().next_multiple_of(1 << 16), 0);
    file.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::super::format::recognise;
    use super::*;

    fn bytes_of(disk: Disk) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        disk.write(&path).unwrap();
        std::fs::read(path).unwrap()
    }

    const DISK: Disk = Disk { virtual_size: 10 << 30, data: 300_000, seed: 1, gpt: Gpt::Both };

    fn number(bytes: &[u8], at: u64) -> u64 {
        let at = usize::try_from(at).unwrap();
        u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    /// Reads one of the guest's clusters through the tables.
    fn guest(bytes: &[u8], cluster: u64) -> Option<&[u8]> {
        let mask = !COPIED;
        let l2 = number(bytes, (number(bytes, 40) & mask) + cluster / L2_ENTRIES * 8) & mask;
        let at = if l2 == 0 { 0 } else { number(bytes, l2 + cluster % L2_ENTRIES * 8) & mask };
        let at = usize::try_from(at).unwrap();
        (at != 0).then(|| &bytes[at..at + (1 << 16)])
    }

    #[test]
    fn the_tables_lead_to_what_the_guest_sees() {
        let bytes = bytes_of(DISK);
        assert_eq!(
            recognise(&bytes[..4096], bytes.len() as u64, false).unwrap().virtual_bytes,
            10 << 30
        );
        let last = (10 << 30) / CLUSTER - 1;
        for cluster in 0..=last {
            let want = DISK.used().contains(&cluster).then(|| DISK.cluster(cluster));
            assert_eq!(guest(&bytes, cluster), want.as_deref(), "cluster {cluster}");
        }
        assert_eq!(&guest(&bytes, 0).unwrap()[512..520], b"EFI PART");
        assert_eq!(&guest(&bytes, last).unwrap()[65024..65032], b"EFI PART");
    }

    #[test]
    fn content_follows_from_the_seed() {
        assert_eq!(bytes_of(DISK), bytes_of(DISK));
        assert_ne!(bytes_of(DISK), bytes_of(Disk { seed: 2, ..DISK }));
    }

    #[test]
    fn small_and_full_disks_have_a_layout() {
        for (virtual_size, data) in [(0, 0), (1, u64::MAX / 2), (9 << 20, 4 << 20), (3 << 30, 1)] {
            let disk = Disk { virtual_size, data, seed: 0, gpt: Gpt::None };
            let layout = Layout::of(&disk);
            assert!(layout.blocks * BLOCK_ENTRIES >= layout.total());
            assert!(disk.used().windows(2).all(|w| w[0] < w[1]), "ascending, each once");
        }
        let large = Disk { virtual_size: 3 << 30, data: 3 << 30, seed: 0, gpt: Gpt::None };
        assert_eq!(Layout::of(&large).blocks, 2);
    }

    #[test]
    fn a_raw_file_has_the_guests_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let disk = Disk { virtual_size: 8 << 20, data: 100, seed: 3, gpt: Gpt::Mbr };
        disk.write_raw(&path).unwrap();
        let raw = std::fs::read(path).unwrap();
        assert_eq!(raw.len(), 8 << 20);
        assert_eq!(&raw[510..512], [0x55, 0xaa]);
        assert_eq!(&raw[1 << 20..(1 << 20) + (1 << 16)], disk.cluster(16));
    }
}
