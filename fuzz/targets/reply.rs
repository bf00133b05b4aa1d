//! The readers of the cloud's replies: whatever comes back, they answer and never panic.

#![no_main]

use capvco::vco::wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let _ = wire::is_html(body);
    let _ = wire::failure(body);
    let _ = wire::errorcode(body);
    let _ = wire::created_id(body, "image_id");
    assert!(wire::excerpt(body).len() < 4096);
    let Ok(reply) = wire::json(body) else { return };
    let _ = wire::says_failure(&reply);
    for row in wire::rows(&reply, "result").unwrap_or_default() {
        let _ = wire::text(row, "name");
        let _ = wire::id(row, "image_id");
        let _ = wire::amount(row, "size");
        let _ = wire::time(row, "created_at");
        let _ = wire::flag(row, "public");
    }
});
