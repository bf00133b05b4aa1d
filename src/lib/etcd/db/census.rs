//! How many keys live, counted in bounded memory.
//!
//! A key lives if its last revision is no deletion, so every key must be remembered while the
//! file is read. Remembered is a 64-bit fingerprint of it, keyed at random. When too many are
//! held, half of them are left to another pass, chosen by their lowest bits; so a database of any
//! size is counted exactly, in as many passes as its number of keys asks for.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// As many as fit into 2^21 slots without growing: below 20 MiB.
const MOST: usize = (1 << 21) / 8 * 7;

/// A fingerprint is its own hash.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum << 8) | u64::from(*byte));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// The keys of one pass: those whose fingerprint ends in `part` under `mask`.
#[derive(Debug)]
pub(super) struct Census {
    keys: RandomState,
    living: HashSet<u64, BuildHasherDefault<Itself>>,
    mask: u64,
    part: u64,
    counted: u64,
    most: usize,
}

impl Census {
    pub fn new() -> Self {
        Self::holding(MOST)
    }

    fn holding(most: usize) -> Self {
        let (keys, living) = (RandomState::new(), HashSet::default());
        Self { keys, living, mask: 0, part: 0, counted: 0, most }
    }

    /// The next revision of `key`.
    pub fn revision(&mut self, key: &[u8], deleted: bool) {
        let mut hasher = self.keys.build_hasher();
        hasher.write(key);
        let print = hasher.finish();
        if print & self.mask != self.part {
            return;
        }
        if deleted {
            self.living.remove(&print);
        } else if self.living.insert(print) && self.living.len() > self.most {
            self.halve();
        }
    }

    /// Leaves half of what is held to a later pass.
    fn halve(&mut self) {
        // Parts are counted from 0 up, so a part that is split later has no bit there yet.
        self.mask = self.mask << 1 | 1;
        let (mask, part) = (self.mask, self.part);
        self.living.retain(|print| print & mask == part);
    }

    /// Ends a pass; `true` if another one over the same rows is needed.
    pub fn next_pass(&mut self) -> bool {
        self.counted += self.living.len() as u64;
        self.living.clear();
        // What comes next, written from the lowest bit: the parts form a binary tree, of which
        // the pass just done was a leaf.
        let mut bits = self.mask.count_ones();
        while bits > 0 && self.part & (1 << (bits - 1)) != 0 {
            bits -= 1;
        }
        if bits == 0 {
            return false;
        }
        self.mask = (1 << bits) - 1;
        self.part = (self.part & (self.mask >> 1)) | 1 << (bits - 1);
        true
    }

    /// How many keys live, once no further pass is needed.
    pub const fn living(&self) -> u64 {
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(most: usize, rows: &[(u32, bool)]) -> (u64, u32) {
        let (mut census, mut passes) = (Census::holding(most), 0);
        loop {
            passes += 1;
            for (key, deleted) in rows {
                census.revision(&key.to_be_bytes(), *deleted);
            }
            if !census.next_pass() {
                return (census.living(), passes);
            }
        }
    }

    #[test]
    fn a_key_lives_until_it_is_deleted() {
        let rows = [(1, false), (2, false), (1, false), (2, true), (3, true), (3, false)];
        assert_eq!(count(100, &rows), (2, 1));
        assert_eq!(count(100, &[]), (0, 1));
    }

    #[test]
    fn any_number_of_keys_is_counted_exactly_in_several_passes() {
        let mut rows: Vec<(u32, bool)> = (0..20_000).map(|key| (key, false)).collect();
        rows.extend((0..20_000).step_by(4).map(|key| (key, true)));
        rows.extend((0..20_000).step_by(8).map(|key| (key, false)));
        for most in [20_000, 9_000, 1_000] {
            let (living, passes) = count(most, &rows);
            assert_eq!(living, 17_500, "{most}");
            assert!(most == 20_000 || passes > 1, "{most}: {passes} passes");
        }
    }
}
