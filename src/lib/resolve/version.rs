//! The semantic version inside an image's name, such as `ubuntu-2404-kube-v1.36.1-r2`.
//!
//! A version has three numbers, or two behind a `v`; among several the last one behind a `v`
//! counts (`ubuntu-24.04.1-kube-v1.36.1` is a 1.36.1), else the last of three numbers.
//! `-alpha.N`, `-beta.N` and `-rc.N` come before their release; `-rN` is our own revision and
//! comes after it. Any other suffix says nothing.

use semver::{BuildMetadata, Prerelease, Version};

/// What orders names by age: the version, then the revision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    version: Version,
    revision: u64,
}

/// Finds the version in a name; `None` where there is none.
#[must_use]
pub fn age_of(name: &str) -> Option<Age> {
    let found = numbers(name);
    let best = found.iter().rev().find(|n| n.marked).or_else(|| found.last())?;
    let (pre, rest) = prerelease(&name[best.end..]);
    let [major, minor, patch] = best.parts;
    let version = Version { major, minor, patch, pre, build: BuildMetadata::EMPTY };
    Some(Age { version, revision: revision(rest) })
}

/// Numbers that may be a version.
struct Numbers {
    /// Whether a `v` stands before them.
    marked: bool,
    parts: [u64; 3],
    end: usize,
}

fn numbers(name: &str) -> Vec<Numbers> {
    let bytes = name.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = at + run(&bytes[at..]);
        found.extend(candidate(name, at, end));
        at = end;
    }
    found
}

/// The length of the digits and inner dots at the beginning of `bytes`.
fn run(bytes: &[u8]) -> usize {
    let inner = |n: usize| bytes[n] == b'.' && bytes.get(n + 1).is_some_and(u8::is_ascii_digit);
    (0..bytes.len()).take_while(|n| bytes[*n].is_ascii_digit() || inner(*n)).count()
}

fn candidate(name: &str, start: usize, end: usize) -> Option<Numbers> {
    let before = name[..start].chars().next_back();
    let marked = matches!(before, Some('v' | 'V'));
    let word = name[..start - usize::from(marked)].chars().next_back();
    if word.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let parts: Vec<u64> =
        name[start..end].split('.').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let parts = match parts[..] {
        [major, minor, patch] => [major, minor, patch],
        [major, minor] if marked => [major, minor, 0],
        _ => return None,
    };
    Some(Numbers { marked, parts, end })
}

/// The pre-release at the beginning of `rest`, and what follows it.
fn prerelease(rest: &str) -> (Prerelease, &str) {
    let none = (Prerelease::EMPTY, rest);
    let Some(word) = rest.strip_prefix(['-', '~']) else { return none };
    let Some(kind) = ["alpha", "beta", "rc"].into_iter().find(|kind| word.starts_with(kind)) else {
        return none;
    };
    let tail = &word[kind.len()..];
    let tail = tail
        .strip_prefix('.')
        .filter(|t| t.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or(tail);
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = tail.split_at(digits);
    if after.starts_with(char::is_alphanumeric) {
        return none;
    }
    let number: u64 = number.parse().unwrap_or(0);
    (Prerelease::new(&format!("{kind}.{number}")).unwrap_or(Prerelease::EMPTY), after)
}

/// The number of the first `-rN` in `rest`; 0 where there is none.
fn revision(rest: &str) -> u64 {
    let number = |part: &str| part.strip_prefix('r')?.parse().ok();
    rest.split(['-', '_', '.', '+']).find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_tell_their_version() {
        let table = [
            ("k8s-v1.36.4", Some(("1.36.4", 0))),
            ("k8s-1.36.4", Some(("1.36.4", 0))),
            ("v1.36.4", Some(("1.36.4", 0))),
            ("ubuntu-2404-kube-v1.36.1-r2", Some(("1.36.1", 2))),
            ("ubuntu-24.04.1-kube-v1.36.1", Some(("1.36.1", 0))),
            ("kube-v1.36.1-ubuntu-24.04.1", Some(("1.36.1", 0))),
            ("a-1.2.3-b-4.5.6", Some(("4.5.6", 0))),
            ("k8s-v1.36", Some(("1.36.0", 0))),
            ("k8s-1.36", None),
            ("k8s-v1.37.0-rc.1", Some(("1.37.0-rc.1", 0))),
            ("k8s-v1.37.0-rc1-r3", Some(("1.37.0-rc.1", 3))),
            ("k8s-v1.37.0-beta", Some(("1.37.0-beta.0", 0))),
            ("k8s-v1.37.0-rcfoo", Some(("1.37.0", 0))),
            ("k8s-v1.36.4-amd64", Some(("1.36.4", 0))),
            ("k8s-v1.36.4-amd64-r10", Some(("1.36.4", 10))),
            ("k8s-v1.36.4+rke2r1", Some(("1.36.4", 0))),
            ("k8s-v1.36.4.qcow2", Some(("1.36.4", 0))),
            ("k8s-v01.036.04", Some(("1.36.4", 0))),
            ("ubuntu-24.04", None),
            ("1.2.3.4", None),
            ("x1.2.3", None),
            ("v1.2.99999999999999999999999", None),
            ("ünïcode-v1.2.3-ü", Some(("1.2.3", 0))),
            ("v", None),
            ("", None),
        ];
        for (name, want) in table {
            let got = age_of(name).map(|a| (a.version.to_string(), a.revision));
            assert_eq!(got, want.map(|(v, r)| (v.to_owned(), r)), "{name}");
        }
    }

    #[test]
    fn older_comes_before_newer() {
        let names = [
            "k8s-v1.9.10",
            "k8s-v1.36.0-alpha.2",
            "k8s-v1.36.0-rc.1",
            "k8s-v1.36.0-rc.10",
            "k8s-v1.36.0",
            "k8s-v1.36.0-r2",
            "k8s-v1.36.0-r10",
            "k8s-v1.36.2",
            "k8s-v1.36.10",
            "k8s-v2.0.0",
        ];
        for pair in names.windows(2) {
            assert!(age_of(pair[0]) < age_of(pair[1]), "{pair:?}");
        }
        assert!(age_of("no-version") < age_of(names[0]));
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "\\PC{0,60}") {
            let _ = age_of(&name);
        }

        #[test]
        fn versions_in_names_order_like_versions(
            a in any::<(u16, u16, u16, Option<u8>, u8)>(),
            b in any::<(u16, u16, u16, Option<u8>, u8)>(),
            words in "[a-z]{1,8}(-[0-9]{4})?",
        ) {
            let name = |(x, y, z, rc, r): (u16, u16, u16, Option<u8>, u8)| {
                let rc = rc.map(|n| format!("-rc.{n}")).unwrap_or_default();
                format!("{words}-v{x}.{y}.{z}{rc}-r{r}")
            };
            // A release is newer than all its candidates.
            let key = |(x, y, z, rc, r): (u16, u16, u16, Option<u8>, u8)| {
                (x, y, z, rc.map_or(u16::MAX, u16::from), r)
            };
            prop_assert_eq!(age_of(&name(a)).cmp(&age_of(&name(b))), key(a).cmp(&key(b)));
        }
    }
}
