//! Any bytes as an image: recognised, its header read, its partitions looked for.
#![no_main]

use std::io::Cursor;

use capvco::publish::image::partitions::{Disk, Raw, firmware};
use capvco::publish::image::{examine, qcow2};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let total = bytes.len() as u64;
    if let Err(unfit) = examine(bytes, total) {
        let _ = (unfit.to_string(), unfit.hint());
    }
    // Whatever it is, as a raw disk.
    let _ = firmware(&mut Raw::new(Cursor::new(bytes), total));
    match qcow2::read(bytes) {
        Ok(header) => {
            let _ = (header.fits(total), header.warnings());
            assert!(header.virtual_bytes > 0 && (9..=21).contains(&header.cluster_bits));
            let size = header.virtual_bytes;
            let mut guest = qcow2::Guest::new(Cursor::new(bytes), header);
            let _ = firmware(&mut guest);
            for at in [0, size / 2, size - 1, u64::MAX] {
                let _ = guest.read(at, &mut [0; 1024]);
            }
        }
        Err(refusal) => {
            let _ = (refusal.to_string(), refusal.hint());
        }
    }
});
