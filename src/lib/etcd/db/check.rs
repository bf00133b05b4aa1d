//! The structure of the whole file, held against what bbolt's `tx.Check` holds.

use super::page::{Header, NO_FREELIST, flag, le64};
use super::tree::{self, Seen, Visit};
use super::{Damage, Db};

/// How many bytes of the list of free pages are read at once.
const PART: usize = 1 << 16;

/// A sound file, in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// Pages below the high-water mark.
    pub pages: u64,
    /// How many of them hold something.
    pub used: u64,
    /// Entries of all buckets.
    pub entries: u64,
}

#[derive(Debug, Default)]
pub(super) struct Count(u64);

impl Visit for Count {
    fn bucket(&mut self, _: &[u8]) {}

    fn entry(&mut self, _: &[u8], _: &[u8], _: u64) -> Result<(), Damage> {
        self.0 += 1;
        Ok(())
    }

    fn more(&mut self, _: &[u8]) {}
}

impl Db {
    /// Reads every page that is in use and holds its structure.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<Checked, Damage> {
        let (mut seen, mut count) = (Seen::new(self.meta().high_water), Count::default());
        tree::everything(self, &mut seen, &mut count)?;
        let used = self.check_rest(&mut seen)?;
        Ok(Checked { pages: self.meta().high_water, used, entries: count.0 })
    }

    /// What is outside of the trees: both meta pages, and the list of free pages where there is
    /// one. Gives the number of pages in use.
    pub(super) fn check_rest(&self, seen: &mut Seen) -> Result<u64, Damage> {
        self.check_both_metas()?;
        let free = self.meta().freelist;
        if free == NO_FREELIST {
            return Ok(seen.count() + 2);
        }
        let header = self.header(free)?;
        if header.flags != flag::FREELIST {
            return Err(Damage::page(free, "the list of free pages is of another kind"));
        }
        seen.take(free, header.overflow.into())?;
        let used = seen.count() + 2;
        self.check_free(&header, seen)?;
        match (2..self.meta().high_water).find(|page| !seen.has(*page)) {
            Some(lost) => Err(Damage::page(lost, "it is neither used nor free")),
            None => Ok(used),
        }
    }

    fn check_both_metas(&self) -> Result<(), Damage> {
        if let Some((page, why)) = self.torn() {
            return Err(Damage::page(page, why));
        }
        for id in 0..2 {
            let header = self.header(id)?;
            if header.flags != flag::META {
                return Err(Damage::page(id, "it is no meta page by its flags"));
            }
        }
        Ok(())
    }

    fn header(&self, page: u64) -> Result<Header, Damage> {
        let mut head = [0; 16];
        self.read(&mut head, page * u64::from(self.meta().page_size))?;
        let header = Header::read(&head).filter(|header| header.id == page);
        header.ok_or_else(|| Damage::page(page, "it says that it is another page"))
    }

    /// Takes every page that is listed as free.
    fn check_free(&self, header: &Header, seen: &mut Seen) -> Result<(), Damage> {
        let start = header.id * u64::from(self.meta().page_size) + 16;
        let mut first = [0; 8];
        // More than fits into 16 bits is counted in the first word (bbolt, FreelistPageCount).
        let (from, count) = if header.count == u16::MAX {
            self.read(&mut first, start)?;
            (start + 8, u64::from_le_bytes(first))
        } else {
            (start, u64::from(header.count))
        };
        let room = (u64::from(header.overflow) + 1) * u64::from(self.meta().page_size);
        if count > (room - 16) / 8 {
            return Err(Damage::page(header.id, "it lists more free pages than fit into it"));
        }
        self.take_free(from, count, seen)
    }

    fn take_free(&self, from: u64, count: u64, seen: &mut Seen) -> Result<(), Damage> {
        let (mut part, end) = (vec![0; PART], from + count * 8);
        for at in (from..end).step_by(PART) {
            let size = usize::try_from(end - at).unwrap_or(usize::MAX).min(PART);
            self.read(&mut part[..size], at)?;
            for word in (0..size).step_by(8) {
                seen.take(le64(&part[..size], word).unwrap_or_default(), 0)?;
            }
        }
        Ok(())
    }
}
