//! How far into its file a qcow2 points: what a copy that is cut off no longer holds.
//!
//! Only the tables are read. A header fits a file that lost its end, the tables do not.

use std::io::{self, Read, Seek, SeekFrom};

use super::{ALL_ZERO, COMPRESSED, Header, OFFSET_BITS, Refusal};

/// Compressed data is counted in these.
const SECTOR: u64 = 512;

/// Table entries are read as many bytes at a time, at most.
const PIECE_BYTES: u64 = 1 << 20;

/// How far the tables of a qcow2 point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// The file has at least this many bytes, or it is cut off.
    least: u64,
    /// The file usually has at least this many: QEMU lets the last cluster be a part of one.
    usual: u64,
    /// Second-level tables, each of which has a cluster of its own.
    tables: u64,
    cluster: u64,
}

impl Reach {
    /// Reads the tables of a file of `total` bytes; what lies behind its end is not read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of<R: Read + Seek>(file: &mut R, header: &Header, total: u64) -> io::Result<Self> {
        let mut reach = Self { cluster: header.cluster(), ..Self::default() };
        let bytes = u64::from(header.l1_entries) * 8;
        let mut at = header.l1_offset;
        let end = at.saturating_add(bytes).min(total);
        while at < end && !reach.overlapping(total) {
            let take = (end - at).min(PIECE_BYTES);
            for entry in words(file, at, take)? {
                let table = entry & OFFSET_BITS;
                if table != 0 && !reach.overlapping(total) {
                    reach.table(file, header, table, total)?;
                }
            }
            at += take;
        }
        Ok(reach)
    }

    /// One second-level table.
    fn table<R: Read + Seek>(
        &mut self,
        file: &mut R,
        header: &Header,
        table: u64,
        total: u64,
    ) -> io::Result<()> {
        self.tables += 1;
        let end = table.saturating_add(self.cluster);
        self.whole(end, end);
        if end > total {
            return Ok(());
        }
        let step = if header.extended() { 2 } else { 1 };
        for entry in words(file, table, self.cluster)?.step_by(step) {
            self.cluster(header, entry);
        }
        Ok(())
    }

    /// One cluster of the disk.
    fn cluster(&mut self, header: &Header, entry: u64) {
        let place = entry & OFFSET_BITS;
        let zeros = header.version == 3 && !header.extended() && entry & ALL_ZERO != 0;
        if entry & COMPRESSED != 0 {
            let shift = 70 - header.cluster_bits;
            let more = (entry & (COMPRESSED - 1)) >> shift;
            let first = (entry & ((1 << shift) - 1)) / SECTOR * SECTOR;
            // The last sector need not be full.
            let last = first.saturating_add(more * SECTOR);
            self.whole(last + 1, last + 1);
        } else if place != 0 && !zeros {
            let inside = header.virtual_bytes % self.cluster;
            let inside = if inside == 0 { self.cluster } else { inside };
            self.whole(place + 1, place.saturating_add(inside));
        }
    }

    fn whole(&mut self, least: u64, usual: u64) {
        self.least = self.least.max(least);
        self.usual = self.usual.max(usual);
    }

    /// Tables that cannot all have a place of their own: no writer makes such a file.
    fn overlapping(&self, total: u64) -> bool {
        self.tables.saturating_mul(self.cluster) > total
    }

    /// Holds a file of `total` bytes against it; the sentence is worth a warning.
    ///
    /// # Errors
    /// The file is cut off, or its tables lie over each other.
    pub fn judge(self, total: u64) -> Result<Option<String>, Refusal> {
        if self.least > total {
            return Err(Refusal::Cut { needs: self.least, has: total });
        }
        if self.overlapping(total) {
            return Err(Refusal::Broken("its tables lie over each other".to_owned()));
        }
        Ok((self.usual > total).then(|| {
            format!(
                "the qcow2 ends within its last cluster ({total} of {} bytes): it may be cut off; \
                 run `qemu-img check` on it",
                self.usual
            )
        }))
    }
}

/// The big-endian words in a piece of a file; those that are cut off are left out.
fn words<R: Read + Seek>(
    file: &mut R,
    at: u64,
    bytes: u64,
) -> io::Result<impl Iterator<Item = u64> + use<R>> {
    file.seek(SeekFrom::Start(at))?;
    let mut piece = Vec::new();
    file.take(bytes).read_to_end(&mut piece)?;
    let count = piece.len() / 8;
    Ok((0..count).map(move |n| super::be64(&piece, n * 8).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::tests::{image, put32, put64};
    use super::*;

    const CLUSTER: u64 = 1 << 16;

    /// What is said of an image when it has lost its end.
    fn said(bytes: &[u8], total: u64) -> Result<Option<String>, Refusal> {
        let header = super::super::read(bytes).unwrap();
        let cut = &bytes[..usize::try_from(total).unwrap()];
        Reach::of(&mut Cursor::new(cut), &header, total).unwrap().judge(total)
    }

    #[test]
    fn a_file_that_lost_its_end_is_cut_off() {
        // Header, first table, second table, one cluster of data: 64 KiB each.
        let bytes = image(1 << 30, b"data");
        let cut = |needs, has| Err(Refusal::Cut { needs, has });
        assert_eq!(said(&bytes, 4 * CLUSTER), Ok(None));
        let partly = said(&bytes, 4 * CLUSTER - 1).unwrap().unwrap();
        assert!(partly.contains("262143 of 262144 bytes"), "{partly}");
        assert!(said(&bytes, 3 * CLUSTER + 1).unwrap().is_some());
        assert_eq!(said(&bytes, 3 * CLUSTER), cut(3 * CLUSTER + 1, 3 * CLUSTER));
        assert_eq!(said(&bytes, 3 * CLUSTER - 1), cut(3 * CLUSTER, 3 * CLUSTER - 1));
        assert_eq!(said(&bytes, 2 * CLUSTER), cut(3 * CLUSTER, 2 * CLUSTER));
    }

    #[test]
    fn only_what_is_there_counts() {
        let far = 100 * CLUSTER;
        let rows = [
            (0, true),
            (far, false),
            (far | ALL_ZERO, true),
            // Compressed, in the sector at 3 clusters and the next two.
            (COMPRESSED | 2 << 54 | (3 * CLUSTER), true),
            (COMPRESSED | 2 << 54 | (4 * CLUSTER - 1024), false),
            (COMPRESSED | 1 << 54 | (4 * CLUSTER - 1000), true),
            (COMPRESSED | far, false),
        ];
        for (entry, fine) in rows {
            let mut bytes = image(1 << 30, b"");
            put64(&mut bytes, 2 << 16, entry);
            assert_eq!(said(&bytes, 4 * CLUSTER).is_ok(), fine, "{entry:x}");
        }
        let mut extended = image(1 << 30, b"");
        put64(&mut extended, 72, 1 << 4);
        put32(&mut extended, 36, 4);
        // The second word of an extended entry is no place.
        put64(&mut extended, (2 << 16) + 8, u64::MAX);
        assert_eq!(said(&extended, 4 * CLUSTER), Ok(None));
        put64(&mut extended, (2 << 16) + 16, far);
        assert!(said(&extended, 4 * CLUSTER).is_err());
    }

    #[test]
    fn a_disk_that_is_no_multiple_of_a_cluster_may_end_earlier() {
        let bytes = image((1 << 20) + 512, b"data");
        assert_eq!(said(&bytes, 3 * CLUSTER + 512), Ok(None));
        assert!(said(&bytes, 3 * CLUSTER + 511).unwrap().is_some());
    }

    #[test]
    fn tables_that_cannot_all_be_there_end_the_walk() {
        let mut bytes = image(1 << 40, b"");
        for n in 0..2048 {
            put64(&mut bytes, (1 << 16) + n * 8, 2 << 16);
        }
        let error = said(&bytes, 4 * CLUSTER).unwrap_err();
        assert!(error.to_string().contains("over each other"), "{error}");
    }
}
