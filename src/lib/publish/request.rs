//! What is asked of one run, checked as far as that goes without asking anybody.
//!
//! [`Inputs`] is what a command line holds; [`Request::new`] reads it and either has a request
//! that is whole, or all that is wrong with it together with the parts that are right, so that
//! those can still be held against the world and everything be told at once.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::error::Problem;
use super::mark::{self, Content};
use super::source;
use crate::id::Location;

/// The longest name we take. The cloud declares no limit and shows none (vco-api.md 3, 12.2).
/// 63 would be the surest, being what a DNS label holds, but names in use carry a system, a
/// Kubernetes version, a date and a whole commit id, which is about 90; 200 is nobody's name.
pub const NAME_LIMIT: usize = 100;

/// `os_name` where none is asked for: the vendor's list is stale, and this entry is the one
/// that fits every node image (vco-api.md 3.2).
pub const OS_NAME: &str = "Linux - other";

/// Minimum memory of a VM where none is asked for, in MiB: what kubeadm wants of a node, and a bit.
pub const MEMORY_MIB: u64 = 2048;

/// Minimum boot disk in GiB where neither the user nor the image says: a node image and room for
/// its container images.
pub const BOOT_DISK_GIB: u64 = 20;

const OS_TYPES: [&str; 6] = ["Linux", "Windows", "Unix", "BSD", "Darwin", "Other"];
const BOOT_TYPES: [&str; 3] = ["bios", "uefi", "uefi-secure-boot"];

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
            timeout: Duration::from_secs(2 * 3600),
            poll_interval: Duration::from_secs(2),
            replace: false,
            wait: true,
            dry_run: false,
            skip_url_check: false,
            trust_checksum: false,
        }
    }
}

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
}

impl Request {
    /// Reads what was asked for.
    ///
    /// # Errors
    /// All that is wrong, with the parts that are right.
    pub fn new(inputs: &Inputs) -> Result<Self, Box<Rejected>> {
        let mut problems = Vec::new();
        let mut keep = |result: Result<(), Problem>| problems.extend(result.err());
        keep(name(&inputs.name));
        let (source, wrong) = take(origin(inputs));
        keep(wrong);
        let (places, wrong) = take(places(&inputs.locations));
        keep(wrong);
        let mut given = Content::default();
        for (slot, text, kind, length) in [
            (&mut given.md5, &inputs.md5, "md5", 32),
            (&mut given.sha256, &inputs.sha256, "sha256", 64),
        ] {
            let (digest, wrong) = take(digest(kind, text.as_deref(), length));
            *slot = digest.flatten();
            keep(wrong);
        }
        let (os_type, wrong) = take(one_of("-os-type", inputs.os_type.as_deref(), &OS_TYPES));
        keep(wrong);
        let (boot_type, wrong) =
            take(one_of("-boot-type", inputs.boot_type.as_deref(), &BOOT_TYPES));
        keep(wrong);
        keep(tags(inputs.tags.as_deref()));
        problems.extend(numbers(inputs));
        problems.extend(combinations(inputs));
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
            (source, places) => Err(Box::new(Rejected { problems, source, places, given })),
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

/// Names are looked up by others in scripts, URLs and file names: what needs no quoting anywhere.
fn name(name: &str) -> Result<(), Problem> {
    let shown: String = name.chars().take(40).collect();
    let length = name.chars().count();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = if name.is_empty() {
        "-name is empty".to_owned()
    } else if length > NAME_LIMIT {
        format!("-name {shown:?}… has {length} characters; at most {NAME_LIMIT} are taken")
    } else if let Some(bad) = name.chars().find(|c| !fits(*c)) {
        format!("-name {shown:?} holds {bad:?}; letters, digits, '.', '_' and '-' are taken")
    } else if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        format!("-name {shown:?} does not begin with a letter or a digit")
    } else {
        return Ok(());
    };
    Err(Problem::usage(why))
}

fn origin(inputs: &Inputs) -> Result<Source, Problem> {
    match (&inputs.url, &inputs.file) {
        (Some(_), Some(_)) => Err(Problem::usage("-url and -file are both given; give one")),
        (None, None) => Err(Problem::usage("no image is given")
            .hint("give -url https://… for an import by the cloud, or -file PATH for an upload")),
        (Some(text), None) => {
            let url = url(text)?;
            Ok(Source::Url { url, check: !inputs.skip_url_check })
        }
        (None, Some(path)) if path.as_os_str() == "-" => Ok(Source::Stdin),
        (None, Some(path)) if path.as_os_str().is_empty() => {
            Err(Problem::usage("-file is empty; give a path, or - for stdin"))
        }
        (None, Some(path)) => Ok(Source::File(path.clone())),
    }
}

/// What a URL says may hold a password or a signature, so errors do not repeat it.
fn url(text: &str) -> Result<Url, Problem> {
    let bad = |why: String| Err(Problem::usage(format!("-url {why}")));
    let mut url = match Url::parse(text.trim()) {
        Ok(url) => url,
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            return bad("has no scheme; it begins with https:// or http://".to_owned());
        }
        Err(error) => return bad(format!("is no URL: {error}")),
    };
    if let Err(error) = source::parse(url.as_str()) {
        return bad(format!("cannot be used: {error}"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn places(text: &str) -> Result<Places, Problem> {
    let pieces: Vec<&str> = text.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
    if pieces.is_empty() {
        return Err(Problem::usage("-locations names no location")
            .hint("give a comma-separated list, or all"));
    }
    if pieces.contains(&"all") {
        return if pieces.len() == 1 {
            Ok(Places::All)
        } else {
            Err(Problem::usage("-locations names all and others; give one or the other"))
        };
    }
    let mut named: Vec<Location> = Vec::new();
    for piece in pieces {
        let at = piece.parse().map_err(|e| Problem::usage(format!("-locations: {e}")))?;
        if !named.contains(&at) {
            named.push(at);
        }
    }
    Ok(Places::Named(named))
}

fn digest(kind: &str, text: Option<&str>, length: usize) -> Result<Option<String>, Problem> {
    let Some(text) = text.map(str::trim) else { return Ok(None) };
    let bare = text.strip_prefix(&format!("{kind}:")).unwrap_or(text);
    let bad = || {
        let count = bare.chars().count();
        Problem::usage(format!("-{kind} is not {length} hex digits ({count} characters)"))
    };
    mark::hex(bare, length).map(Some).ok_or_else(bad)
}

/// The entry of `known` that `text` means, whatever its case.
fn one_of(flag: &str, text: Option<&str>, known: &[&str]) -> Result<Option<String>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let found = known.iter().find(|k| k.eq_ignore_ascii_case(text));
    let bad = || Problem::usage(format!("{flag} {text:?} is none of {}", known.join(", ")));
    found.map(|k| Some((*k).to_owned())).ok_or_else(bad)
}

fn tags(text: Option<&str>) -> Result<(), Problem> {
    let text = text.unwrap_or_default();
    let why = if text.chars().any(char::is_control) {
        "holds a control character"
    } else if text.contains(mark::PREFIX) {
        "holds capvco/image, which is how this program marks its images"
    } else if text.len() > 200 {
        "is longer than 200 bytes"
    } else {
        return Ok(());
    };
    Err(Problem::usage(format!("-tags {why}")))
}

fn numbers(inputs: &Inputs) -> Vec<Problem> {
    let memory = inputs.memory_mib.unwrap_or(MEMORY_MIB);
    let disk = inputs.boot_disk_gib.unwrap_or(BOOT_DISK_GIB);
    let rows = [
        ((1..=16 << 20).contains(&memory), "-memory is in MiB, from 1 to 16777216"),
        ((1..=64 << 10).contains(&disk), "-boot-disk-size is in GiB, from 1 to 65536"),
        (inputs.parallel > 0, "-parallel is at least 1"),
        (!inputs.timeout.is_zero(), "-timeout is longer than nothing"),
        (inputs.poll_interval >= Duration::from_millis(50), "-poll-interval is at least 50ms"),
    ];
    rows.into_iter().filter(|(fine, _)| !fine).map(|(_, why)| Problem::usage(why)).collect()
}

/// Flags that cannot both be meant.
fn combinations(inputs: &Inputs) -> Vec<Problem> {
    let (file, blind) = (inputs.file.is_some(), inputs.skip_url_check);
    let rows = [
        (
            file && blind,
            Problem::usage("-skip-url-check goes with -url; a file is always checked"),
        ),
        (
            file && inputs.trust_checksum,
            Problem::usage("-trust-checksum goes with -url; a file is always read anyway"),
        ),
        (
            blind && inputs.sha256.is_some() && !inputs.trust_checksum,
            Problem::usage("-sha256 is enforced by downloading the URL, which -skip-url-check forbids")
                .hint("give -md5, which the cloud checks, or -trust-checksum to record the SHA-256 unchecked"),
        ),
        (
            inputs.replace && !inputs.wait,
            Problem::usage("-replace needs -wait: the old image goes only when the new one is usable"),
        ),
    ];
    rows.into_iter().filter_map(|(wrong, problem)| wrong.then_some(problem)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Inputs {
        Inputs {
            url: Some("https://images.example/k8s.qcow2".to_owned()),
            name: "k8s-v1.35.8".to_owned(),
            locations: "qt-gen-dc01-003".to_owned(),
            ..Inputs::default()
        }
    }

    /// What is wrong with [`fine`] after a change.
    fn wrong(change: impl FnOnce(&mut Inputs)) -> Vec<String> {
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
    fn names_are_what_needs_no_quoting() {
        let long = "x".repeat(NAME_LIMIT + 1);
        let name_of = |name: &str| wrong(|i| name.clone_into(&mut i.name));
        for name in ["a", "k8s-v1.36.4", "Ubuntu_24.04", "1", &"x".repeat(NAME_LIMIT)] {
            assert_eq!(name_of(name), [""; 0], "{name}");
        }
        for (name, word) in [
            ("", "is empty"),
            ("with space", "holds ' '"),
            ("quo\"te", "holds"),
            ("it's", "holds"),
            ("ünïcode", "holds 'ü'"),
            ("a/b", "holds '/'"),
            ("a,b", "holds ','"),
            ("-x", "does not begin"),
            (".hidden", "does not begin"),
            (&long, "101 characters"),
        ] {
            let found = name_of(name);
            assert_eq!(found.len(), 1, "one clear error for {name:?}: {found:?}");
            assert!(found[0].contains(word), "{found:?}");
        }
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
    fn sources_are_one_url_or_one_file() {
        let rows: [(Option<&str>, Option<&str>, &str); 9] = [
            (None, None, "no image is given"),
            (Some("https://a/b"), Some("x"), "both given"),
            (Some("images.example/x"), None, "no scheme"),
            (Some("ftp://a/b"), None, "neither http"),
            (Some("https://me:pw@a/b"), None, "user or password"),
            (Some("https://"), None, "is no URL"),
            (None, Some(""), "-file is empty"),
            (None, Some("x.qcow2"), ""),
            (None, Some("-"), ""),
        ];
        for (url, file, word) in rows {
            let found = wrong(|i| {
                i.url = url.map(Into::into);
                i.file = file.map(Into::into);
            });
            assert_eq!(found.is_empty(), word.is_empty(), "{url:?} {file:?}: {found:?}");
            assert!(found.iter().all(|text| text.contains(word)), "{found:?}");
        }
    }

    #[test]
    fn an_error_about_a_url_never_repeats_it() {
        let found = wrong(|i| i.url = Some("ftp://me:secret@h/x?sig=s3".to_owned()));
        assert!(!found[0].contains("secret") && !found[0].contains("s3"), "{found:?}");
    }

    #[test]
    fn locations_are_folded_and_all_stands_alone() {
        let at = |text: &str| places(text).map_err(|p| p.text);
        let named = |ids: &[&str]| Places::Named(ids.iter().map(|i| i.parse().unwrap()).collect());
        assert_eq!(at("b, a,b,,"), Ok(named(&["b", "a"])));
        assert_eq!(at("all"), Ok(Places::All));
        for bad in ["", ",", "all,a", "a b", "a/b"] {
            assert!(at(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn digests_are_hex_in_any_case_with_or_without_their_kind() {
        let upper = "AB".repeat(32);
        assert_eq!(digest("sha256", Some(&upper), 64), Ok(Some("ab".repeat(32))));
        let prefixed = format!(" sha256:{upper} ");
        assert_eq!(digest("sha256", Some(&prefixed), 64), Ok(Some("ab".repeat(32))));
        for bad in ["", "ab", &"g".repeat(64), &"ab".repeat(16), &"ü".repeat(32)] {
            assert!(digest("sha256", Some(bad), 64).is_err(), "{bad}");
        }
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
