//! What can be said of each input by itself.

use std::time::Duration;

use url::Url;

use super::inputs::Inputs;
use super::{BOOT_DISK_GIB, MEMORY_MIB, Places, Source};
use crate::id::Location;
use crate::publish::error::Problem;
use crate::publish::{mark, source};

/// The longest name we take. The cloud declares no limit and shows none (vco-api.md 3, 12.2).
/// 63 would be the surest, being what a DNS label holds, but names in use carry a system, a
/// Kubernetes version, a date and a whole commit id, which is about 90; 200 is nobody's name.
pub const NAME_LIMIT: usize = 100;

pub(super) const OS_TYPES: [&str; 6] = ["Linux", "Windows", "Unix", "BSD", "Darwin", "Other"];
pub(super) const BOOT_TYPES: [&str; 3] = ["bios", "uefi", "uefi-secure-boot"];

/// An empty value is what an unset variable of a shell leaves.
pub(super) fn filled(flag: &str, text: Option<&str>) -> Result<(), Problem> {
    match text {
        Some(text) if text.trim().is_empty() => {
            Err(Problem::usage(format!("{flag} is empty: is a variable unset?")))
        }
        _ => Ok(()),
    }
}

/// Names are looked up by others in scripts, URLs and file names: what needs no quoting anywhere.
pub(super) fn name(name: &str) -> Result<(), Problem> {
    let shown: String = name.chars().take(40).collect();
    let length = name.chars().count();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    filled("-name", Some(name))?;
    let why = if length > NAME_LIMIT {
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

pub(super) fn origin(inputs: &Inputs) -> Result<Source, Problem> {
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
            Err(Problem::usage("-file is empty: is a variable unset?")
                .hint("give a path, or - for stdin"))
        }
        (None, Some(path)) => Ok(Source::File(path.clone())),
    }
}

/// What a URL says may hold a password or a signature, so errors do not repeat it.
fn url(text: &str) -> Result<Url, Problem> {
    filled("-url", Some(text))?;
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

pub(super) fn places(text: &str) -> Result<Places, Problem> {
    filled("-locations", Some(text))?;
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
        let at = location(piece)?;
        if !named.contains(&at) {
            named.push(at);
        }
    }
    Ok(Places::Named(named))
}

fn location(piece: &str) -> Result<Location, Problem> {
    if piece.contains(|c: char| c.is_whitespace() || c == ';') {
        let text = format!("-locations: {piece:?} is no location");
        return Err(Problem::usage(text).hint("commas separate locations: a,b,c"));
    }
    piece.parse().map_err(|e| Problem::usage(format!("-locations: {e}")))
}

pub(super) fn digest(
    kind: &str,
    text: Option<&str>,
    length: usize,
) -> Result<Option<String>, Problem> {
    filled(&format!("-{kind}"), text)?;
    let Some(text) = text.map(str::trim) else { return Ok(None) };
    let bare = text.strip_prefix(&format!("{kind}:")).unwrap_or(text);
    let bad = || {
        let count = bare.chars().count();
        Problem::usage(format!("-{kind} is not {length} hex digits ({count} characters)"))
    };
    mark::hex(bare, length).map(Some).ok_or_else(bad)
}

/// The entry of `known` that `text` means, whatever its case.
pub(super) fn one_of(
    flag: &str,
    text: Option<&str>,
    known: &[&str],
) -> Result<Option<String>, Problem> {
    filled(flag, text)?;
    let Some(text) = text else { return Ok(None) };
    let found = known.iter().find(|k| k.eq_ignore_ascii_case(text));
    let bad = || Problem::usage(format!("{flag} {text:?} is none of {}", known.join(", ")));
    found.map(|k| Some((*k).to_owned())).ok_or_else(bad)
}

pub(super) fn tags(text: Option<&str>) -> Result<(), Problem> {
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

pub(super) fn numbers(inputs: &Inputs) -> Vec<Problem> {
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
pub(super) fn combinations(inputs: &Inputs) -> Vec<Problem> {
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
    use crate::publish::request::tests::wrong;

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
    fn an_empty_value_asks_for_the_variable() {
        let empty = || Some(" ".to_owned());
        let found = wrong(|i| {
            (i.url, i.md5, i.sha256) = (empty(), empty(), Some(String::new()));
            (i.os_name, i.os_type, i.boot_type) = (empty(), empty(), empty());
            i.name = String::new();
            i.locations = String::new();
        });
        let flags =
            ["name", "url", "locations", "md5", "sha256", "os-type", "boot-type", "os-name"];
        assert_eq!(found, flags.map(|flag| format!("-{flag} is empty: is a variable unset?")));
    }

    #[test]
    fn commas_separate_locations() {
        for (text, hinted) in [("a b", true), ("a;b", true), ("a, b c", true), ("a/b", false)] {
            let problem = places(text).unwrap_err();
            assert_eq!(problem.hints.len(), usize::from(hinted), "{problem:?}");
        }
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
}
