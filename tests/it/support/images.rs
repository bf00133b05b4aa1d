//! Images that are small and whole.

/// A qcow2 v3 of 256 KiB, the disk inside of which has `virtual_bytes` and no data.
pub fn qcow2(virtual_bytes: u64) -> Vec<u8> {
    let mut file = vec![0; 4 << 16];
    let entries = u32::try_from(virtual_bytes.div_ceil(1 << 29)).unwrap();
    let words: [(usize, u32); 8] = [
        (0, 0x5146_49fb),
        (4, 3),
        (20, 16),
        (36, entries),
        (44, 3 << 16),
        (52, 1 << 16),
        (56, 1),
        (96, 4),
    ];
    for (at, word) in words.into_iter().chain([(100, 104)]) {
        file[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    file[24..32].copy_from_slice(&virtual_bytes.to_be_bytes());
    // Refcount table, refcount block, and a count of 1 for each of the four clusters.
    file[(1 << 16)..(1 << 16) + 8].copy_from_slice(&(2_u64 << 16).to_be_bytes());
    for cluster in 0..4 {
        file[(2 << 16) + cluster * 2 + 1] = 1;
    }
    file
}
