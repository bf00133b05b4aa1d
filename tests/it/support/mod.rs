//! What every test shares: running a program with a clean environment, and folders of its own.
//!
//! A test starts a simulator, runs one of our programs against it and looks at exit code,
//! stdout and stderr. Traffic of every simulator goes to a file of its own below
//! `CAPVCO_TRAFFIC_DIR` (default `target/traffic`), where the vendor's file is held against it.

pub mod bolt;
pub mod cloud;
pub mod front;
pub mod images;
pub mod liar;
pub mod neighbours;
pub mod peers;
pub mod program;
pub mod raw;
pub mod rust_text;
pub mod scripted;
pub mod stored;
pub mod together;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file for one simulator's traffic: `<test>-<n>.jsonl`, unique within the run.
pub fn traffic_file(test: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = std::env::var_os("CAPVCO_TRAFFIC_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/traffic"),
        Into::into,
    );
    std::fs::create_dir_all(&folder).expect("the traffic folder can be made");
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("{test}-{}-{n}.jsonl", std::process::id()))
}
