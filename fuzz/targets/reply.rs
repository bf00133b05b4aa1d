//! Any bytes as the cloud's reply, read by every lenient reader.
#![no_main]

use capvco::vco::{Cloudspace, Image, Me, Vm, wire};
use libfuzzer_sys::fuzz_target;

const KEYS: [&str; 8] =
    ["result", "data", "locations", "image_id", "size", "status", "name", "public"];

fuzz_target!(|bytes: &[u8]| {
    let _ = (wire::is_html(bytes), wire::failure(bytes), wire::errorcode(bytes));
    let _ = (wire::created_id(bytes, "image_id"), wire::etag(None, bytes));
    let _ = wire::etag(std::str::from_utf8(bytes).ok(), bytes);
    assert!(wire::excerpt(bytes).chars().count() < 1000, "an excerpt is short");
    let reply = match wire::json(bytes) {
        Ok(reply) => reply,
        Err(why) => {
            assert!(why.chars().count() < 2000, "an error is short");
            return;
        }
    };
    let _ = (wire::says_failure(&reply), wire::vouches(&reply, "be-1"), Me::read(&reply));
    for key in KEYS {
        let _ = (wire::text(&reply, key), wire::id(&reply, key), wire::amount(&reply, key));
        let _ = (wire::time(&reply, key), wire::flag(&reply, key));
        for row in wire::rows(&reply, key).unwrap_or_default() {
            let _ = (Image::read(row), Vm::read(row), Cloudspace::read(row), wire::whole(row));
        }
    }
});
