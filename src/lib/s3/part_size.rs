//! How long the parts of an upload are.

/// The most parts an upload may have (Amazon S3 User Guide, "multipart upload limits"), less
/// one for what an estimate may miss.
const MOST_PARTS: u64 = 9_999;

/// The floor: small parts cost round trips, large ones memory.
pub const SMALLEST: u64 = 8 << 20;

/// The longest part there may be.
const LARGEST: u64 = 5 << 30;

/// Below this a single put is cheaper than an upload in parts.
pub const SINGLE_PUT: u64 = 16 << 20;

/// The length of each part for `total` bytes at most, or for an unknown total (up to 5 TiB:
/// the largest object there is).
///
/// A multiple of 1 MiB, at least [`SMALLEST`].
#[must_use]
pub fn for_total(total: Option<u64>) -> u64 {
    const MIB: u64 = 1 << 20;
    // Eighty gigabytes fit into the smallest parts; nothing of ours is larger unless said.
    let total = total.unwrap_or(SMALLEST * MOST_PARTS);
    let needed = total.div_ceil(MOST_PARTS).div_ceil(MIB).saturating_mul(MIB);
    needed.clamp(SMALLEST, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_total_fits_into_its_parts() {
        const GIB: u64 = 1 << 30;
        for (total, size) in [
            (Some(0), SMALLEST),
            (Some(1), SMALLEST),
            (Some(8 * GIB), SMALLEST),
            (Some(SMALLEST * MOST_PARTS), SMALLEST),
            (Some(SMALLEST * MOST_PARTS + 1), 9 << 20),
            (Some(100 * GIB), 11 << 20),
            (Some(5 << 40), 525 << 20),
            (Some(u64::MAX), LARGEST),
            (None, SMALLEST),
        ] {
            assert_eq!(for_total(total), size, "{total:?}");
            if let Some(total) = total.filter(|total| *total <= 5 << 40) {
                assert!(total.div_ceil(size) <= 10_000, "{total}");
            }
        }
    }
}
