//! Any bytes as a file of keys: never printed, whatever is wrong with them.
#![no_main]

use capvco::fault::Fault;
use capvco::snapshot::passphrase::Nobody;
use capvco::snapshot::seal::{Identities, Recipients};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut said = Vec::new();
    match Identities::read(bytes, "f", &Nobody) {
        Ok((keys, remarks)) => {
            assert!(!keys.is_empty(), "no file without a key is one");
            said.extend(remarks);
            said.push(format!("{keys:?}"));
        }
        Err(error) => {
            said.push(error.to_string());
            said.extend(error.hints());
        }
    }
    match Recipients::from_file(bytes, "f") {
        Ok((keys, remarks)) => {
            assert!(!keys.is_empty(), "no file without a key is one");
            said.extend(remarks);
        }
        Err(error) => said.push(error.to_string()),
    }
    // Ten characters of a line of capitals are no word of ours.
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines().filter(|line| line.len() >= 40 && line.starts_with("AGE-SECRET-KEY-1")) {
        let secret: String = line.chars().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect();
        assert!(!said.iter().any(|text| text.contains(secret)), "a key was printed");
    }
});
