//! What is asked of one run, checked as far as that goes without asking anybody.
//!
//! [`Inputs`] is what a command line holds; [`Request::new`] reads it and either has a request
//! that is whole, or all that is wrong with it together with the parts that are right, so that
//! those can still be held against the world and everything be told at once.

mod checks;
mod inputs;

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

pub use checks::NAME_LIMIT;
pub use inputs::Inputs;

use self::checks::{BOOT_TYPES, OS_TYPES};
use super::error::Problem;
use super::mark::Content;
use crate::id::Location;

/// `os_name` where none is asked for: the vendor's list is stale, and this entry is the one
/// that fits every node image (vco-api.md 3.2).
pub const OS_NAME: &str = "Linux - other";

/// Minimum memory of a VM where none is asked for, in MiB: what kubeadm wants of a node, and a bit.
pub const MEMORY_MIB: u64 = 2048;

/// Minimum boot disk in GiB where neither the user nor the image says: a node image and room for
/// its container images.
pub const BOOT_DISK_GIB: u64 = 20;

/// Where the image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The cloud imports it from here; `check` unless only the cloud can reach it.
    Url {
        /// Where.
        url: Url,
        /// Whether we look at it first.
        check: bool,
    },
    /// We upload this file.
    File(PathBuf),
    /// We spool stdin to a file and upload that.
    Stdin,
}

/// Where the image shall go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// Every location of the customer that can host VMs.
    All,
    /// These, each once, in the order asked.
    Named(Vec<Location>),
}

/// How the image shall be described to the cloud; `None` was not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Minimum memory of a VM, MiB.
    pub memory_mib: Option<u64>,
    /// Minimum boot disk of a VM, GiB.
    pub boot_disk_gib: Option<u64>,
    /// One of the cloud's six.
    pub os_type: Option<String>,
    /// One of the cloud's list, which is checked against the cloud later.
    pub os_name: Option<String>,
    /// `bios`, `uefi` or `uefi-secure-boot`.
    pub boot_type: Option<String>,
    /// The user's own tags.
    pub tags: Option<String>,
}

impl Settings {
    /// The system's name, asked for or not.
    #[must_use]
    pub fn os_name(&self) -> &str {
        self.os_name.as_deref().unwrap_or(OS_NAME)
    }

    /// The system's kind, asked for or not.
    #[must_use]
    pub fn os_type(&self) -> &str {
        self.os_type.as_deref().unwrap_or("Linux")
    }

    /// The firmware, asked for or not.
    #[must_use]
    pub fn boot_type(&self) -> &str {
        self.boot_type.as_deref().unwrap_or("uefi")
    }
}

/// A request that makes sense by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of the user")]
pub struct Request {
    /// The image's name.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// Where it goes.
    pub places: Places,
    /// The checksums that were given; the length is never given.
    pub given: Content,
    /// How it is described.
    pub settings: Settings,
    /// Locations at once.
    pub parallel: usize,
    /// For the whole run.
    pub timeout: Duration,
    /// Between two looks at an import.
    pub poll_interval: Duration,
    /// Other content of the same name gives way.
    pub replace: bool,
    /// Stay until the image is usable.
    pub wait: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Record a SHA-256 of a URL without downloading it.
    pub trust_checksum: bool,
}

/// A request that does not make sense, with what of it does.
#[derive(Debug)]
pub struct Rejected {
    /// All that is wrong.
    pub problems: Vec<Problem>,
    /// The source, where that was right.
    pub source: Option<Source>,
    /// The places, where those were right.
    pub places: Option<Places>,
    /// The checksums, as far as they were right.
    pub given: Content,
    /// Whether a SHA-256 is only to be recorded.
    pub trust_checksum: bool,
}

impl Request {
    /// Reads what was asked for.
    ///
    /// # Errors
    /// All that is wrong, with the parts that are right.
    pub fn new(inputs: &Inputs) -> Result<Self, Box<Rejected>> {
        let mut problems = Vec::new();
        let mut keep = |result: Result<(), Problem>| problems.extend(result.err());
        keep(checks::name(&inputs.name));
        let (source, wrong) = take(checks::origin(inputs));
        keep(wrong);
        let (places, wrong) = take(checks::places(&inputs.locations));
        keep(wrong);
        let mut given = Content::default();
        for (slot, text, kind, length) in [
            (&mut given.md5, &inputs.md5, "md5", 32),
            (&mut given.sha256, &inputs.sha256, "sha256", 64),
        ] {
            let (digest, wrong) = take(checks::digest(kind, text.as_deref(), length));
            *slot = digest.flatten();
            keep(wrong);
        }
        let (os_type, wrong) =
            take(checks::one_of("-os-type", inputs.os_type.as_deref(), &OS_TYPES));
        keep(wrong);
        let (boot_type, wrong) =
            take(checks::one_of("-boot-type", inputs.boot_type.as_deref(), &BOOT_TYPES));
        keep(wrong);
        keep(checks::filled("-os-name", inputs.os_name.as_deref()));
        keep(checks::tags(inputs.tags.as_deref()));
        problems.extend(checks::numbers(inputs));
        problems.extend(checks::combinations(inputs));
        match (source, places) {
            (Some(source), Some(places)) if problems.is_empty() => {
                let settings = Settings {
                    memory_mib: inputs.memory_mib,
                    boot_disk_gib: inputs.boot_disk_gib,
                    os_type: os_type.flatten(),
                    os_name: inputs.os_name.clone(),
                    boot_type: boot_type.flatten(),
                    tags: inputs.tags.clone(),
                };
                Ok(Self::whole(inputs, source, places, given, settings))
            }
            (source, places) => {
                let trust_checksum = inputs.trust_checksum;
                Err(Box::new(Rejected { problems, source, places, given, trust_checksum }))
            }
        }
    }

    fn whole(i: &Inputs, source: Source, places: Places, given: Content, set: Settings) -> Self {
        Self {
            name: i.name.clone(),
            source,
            places,
            given,
            settings: set,
            parallel: i.parallel,
            timeout: i.timeout,
            poll_interval: i.poll_interval,
            replace: i.replace,
            wait: i.wait,
            dry_run: i.dry_run,
            trust_checksum: i.trust_checksum,
        }
    }
}

fn take<T>(result: Result<T, Problem>) -> (Option<T>, Result<(), Problem>) {
    match result {
        Ok(value) => (Some(value), Ok(())),
        Err(problem) => (None, Err(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What needs no correction.
    fn fine() -> Inputs {
        Inputs {
            url: Some("https://images.example/k8s.qcow2".to_owned()),
            name: "k8s-v1.35.8".to_owned(),
            locations: "qt-gen-dc01-003".to_owned(),
            ..Inputs::default()
        }
    }

    /// What is wrong with [`fine`] after a change.
    pub(super) fn wrong(change: impl FnOnce(&mut Inputs)) -> Vec<String> {
        let mut inputs = fine();
        change(&mut inputs);
        Request::new(&inputs).err().map_or_else(Vec::new, |rejected| {
            assert!(rejected.problems.iter().all(|p| p.class == crate::fault::Class::Usage));
            rejected.problems.into_iter().map(|p| p.text).collect()
        })
    }

    #[test]
    fn the_published_command_line_is_a_request_with_defaults() {
        let request = Request::new(&fine()).unwrap();
        assert_eq!(request.places, Places::Named(vec!["qt-gen-dc01-003".parse().unwrap()]));
        let set = &request.settings;
        assert_eq!((set.os_name(), set.os_type(), set.boot_type()), (OS_NAME, "Linux", "uefi"));
        assert!(request.wait && !request.replace && request.parallel >= 50);
    }

    #[test]
    fn everything_wrong_is_told_at_once_and_what_is_right_is_kept() {
        let mut inputs = fine();
        inputs.name = "a b".to_owned();
        inputs.md5 = Some("xyz".to_owned());
        inputs.boot_type = Some("grub".to_owned());
        inputs.parallel = 0;
        let rejected = Request::new(&inputs).unwrap_err();
        assert_eq!(rejected.problems.len(), 4, "{:?}", rejected.problems);
        assert!(rejected.source.is_some() && rejected.places.is_some());
    }

    #[test]
    fn flags_that_cannot_both_be_meant_are_refused() {
        let sha = Some("a".repeat(64));
        let rows: Vec<(Vec<String>, usize)> = vec![
            (
                wrong(|i| {
                    i.skip_url_check = true;
                    i.sha256.clone_from(&sha);
                }),
                1,
            ),
            (
                wrong(|i| {
                    i.skip_url_check = true;
                    i.sha256.clone_from(&sha);
                    i.trust_checksum = true;
                }),
                0,
            ),
            (
                wrong(|i| {
                    i.replace = true;
                    i.wait = false;
                }),
                1,
            ),
            (
                wrong(|i| {
                    i.url = None;
                    i.file = Some("x".into());
                    i.skip_url_check = true;
                    i.trust_checksum = true;
                }),
                2,
            ),
            (wrong(|i| i.tags = Some("a capvco/image;run=1".to_owned())), 1),
            (wrong(|i| i.tags = Some("a\nb".to_owned())), 1),
            (
                wrong(|i| {
                    i.memory_mib = Some(0);
                    i.boot_disk_gib = Some(0);
                }),
                2,
            ),
            (
                wrong(|i| {
                    i.timeout = Duration::ZERO;
                    i.poll_interval = Duration::ZERO;
                }),
                2,
            ),
        ];
        for (found, count) in rows {
            assert_eq!(found.len(), count, "{found:?}");
        }
    }

    #[test]
    fn types_are_taken_in_any_case() {
        let mut inputs = fine();
        inputs.os_type = Some("linux".to_owned());
        inputs.boot_type = Some("UEFI-Secure-Boot".to_owned());
        let settings = Request::new(&inputs).unwrap().settings;
        assert_eq!((settings.os_type(), settings.boot_type()), ("Linux", "uefi-secure-boot"));
    }
}
