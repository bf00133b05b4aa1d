//! Any bytes as a database of etcd: checked, summed up, and looked at as they pass by.
#![no_main]

use capvco::etcd::db::{Db, Passing};
use libfuzzer_sys::fuzz_target;

/// Makes the sums of both meta pages fit, so that what they say is looked at.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for start in [16, 4096 + 16] {
        let Some(meta) = bytes.get_mut(start..start + 64) else { continue };
        let sum = meta[..56].iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        meta[56..].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let bytes = summed(bytes);
    let mut passing = Passing::new();
    for part in bytes.chunks(5000) {
        passing.feed(part);
    }
    let passed = passing.finish();
    let whole = Db::from_bytes(bytes).and_then(|db| {
        db.check()?;
        db.summary()
    });
    match (&whole, &passed) {
        (Ok(whole), Ok(passed)) => {
            assert_eq!(whole.revision, passed.revision);
            assert_eq!(whole.page_size, passed.page_size);
            assert!(whole.live_keys <= whole.total_entries);
            let _ = (whole.lowest_etcd(), whole.current_revision());
        }
        _ => {
            let _ = (whole.map_err(|e| e.to_string()), passed.map_err(|e| e.to_string()));
        }
    }
});
