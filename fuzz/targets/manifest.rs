//! Any bytes as a manifest: read, or refused in a sentence; what is read is written and read again.
#![no_main]

use capvco::snapshot::layout::Layout;
use capvco::snapshot::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Manifest::parse(bytes) {
        Ok(manifest) => {
            assert!(!manifest.node.contains('\u{1b}'), "a text can be shown on a terminal");
            let again = Manifest::parse(&manifest.to_json()).expect("what is written is read");
            assert_eq!(manifest, again);
            let _ = Layout::new("").parse(&manifest.data.key);
        }
        Err(flaw) => assert!(flaw.to_string().chars().count() < 1000, "a flaw is short"),
    }
});
