//! The readers of image heads: no first 64 KiB, however made, may make them panic or hang.

#![no_main]

use std::io::Cursor;

use capvco::publish::image::partitions::{Raw, firmware};
use capvco::publish::image::{examine, qcow2};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let total = bytes.len() as u64;
    let _ = examine(bytes, total);
    let _ = firmware(&mut Raw::new(Cursor::new(bytes), total));
    if let Ok(header) = qcow2::read(bytes) {
        let _ = header.fits(total);
        let _ = header.warnings();
        let _ = firmware(&mut qcow2::Guest::new(Cursor::new(bytes), header));
    }
});
