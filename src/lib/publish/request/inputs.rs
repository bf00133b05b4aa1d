//! The plain values of a command line, as yet unread.

use std::path::PathBuf;
use std::time::Duration;

/// The plain values of a command line.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Inputs {
    /// `-url`.
    pub url: Option<String>,
    /// `-file`; `-` is stdin.
    pub file: Option<PathBuf>,
    /// `-name`.
    pub name: String,
    /// `-locations`: comma-separated, or `all`.
    pub locations: String,
    /// `-md5`, hex.
    pub md5: Option<String>,
    /// `-sha256`, hex.
    pub sha256: Option<String>,
    /// `-os-name`.
    pub os_name: Option<String>,
    /// `-os-type`.
    pub os_type: Option<String>,
    /// `-boot-type`.
    pub boot_type: Option<String>,
    /// `-memory`, MiB.
    pub memory_mib: Option<u64>,
    /// `-boot-disk-size`, GiB.
    pub boot_disk_gib: Option<u64>,
    /// `-tags`, the user's own.
    pub tags: Option<String>,
    /// `-parallel`: how many locations at once.
    pub parallel: usize,
    /// `-timeout`: the whole run.
    pub timeout: Duration,
    /// `-poll-interval`.
    pub poll_interval: Duration,
    /// `-replace`.
    pub replace: bool,
    /// `-wait`, or not.
    pub wait: bool,
    /// `-dry-run`.
    pub dry_run: bool,
    /// `-skip-url-check`.
    pub skip_url_check: bool,
    /// `-trust-checksum`.
    pub trust_checksum: bool,
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            url: None,
            file: None,
            name: String::new(),
            locations: String::new(),
            md5: None,
            sha256: None,
            os_name: None,
            os_type: None,
            boot_type: None,
            memory_mib: None,
            boot_disk_gib: None,
            tags: None,
            parallel: 64,
            timeout: Duration::from_hours(2),
            poll_interval: Duration::from_secs(2),
            replace: false,
            wait: true,
            dry_run: false,
            skip_url_check: false,
            trust_checksum: false,
        }
    }
}
