//! Names that may have been meant: few edits away, or beginning alike.
//!
//! For every message about a name that is not there: an image, a location, a variable.

use std::collections::BTreeSet;

/// As many as a person reads.
const MOST: usize = 5;

/// The names among `names` that are near to `wanted`, nearest first.
#[must_use]
pub fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let length = wanted.chars().count();
    let alike = (length / 2).max(3);
    let edits = (length / 4).max(2);
    let distinct: BTreeSet<&str> = names.filter(|name| *name != wanted).collect();
    let mut found: Vec<(usize, &str)> = distinct
        .into_iter()
        .map(|name| (distance(wanted, name), name))
        .filter(|(far, name)| *far <= edits || common_prefix(wanted, name) >= alike)
        .collect();
    found.sort_unstable();
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// All of `names`, those that are near to `wanted` first.
#[must_use]
pub fn near_first<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let mut all = near(wanted, names.iter().copied());
    all.extend(names.iter().filter(|name| !all.contains(name)).collect::<Vec<_>>());
    all
}

fn common_prefix(a: &str, b: &str) -> usize {
    let lower = |c: char| c.to_ascii_lowercase();
    a.chars().map(lower).zip(b.chars().map(lower)).take_while(|(a, b)| a == b).count()
}

/// Levenshtein's distance of the first 255 characters, without regard to ASCII case.
fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| -> Vec<char> {
        text.chars().take(255).map(|c| c.to_ascii_lowercase()).collect()
    };
    let (a, b) = (letters(a), letters(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nearest_names_come_first() {
        let names = ["k8s-v1.36.4", "k8s-v1.35.8", "windows", "K8S-V1.36.3", "k8s-v1.36.4"];
        let found = near("k8s-v1.36.3", names.into_iter());
        assert_eq!(found, ["K8S-V1.36.3", "k8s-v1.36.4", "k8s-v1.35.8"]);
        assert_eq!(near("ubuntu", ["ubuntu-24.04-cloud"].into_iter()), ["ubuntu-24.04-cloud"]);
        assert!(near("debian", ["windows-2022"].into_iter()).is_empty());
        assert_eq!(near("", ["ab", "abcdef"].into_iter()), ["ab"]);
        let many: Vec<String> = (0..20).map(|n| format!("k8s-{n}")).collect();
        assert_eq!(near("k8s-x", many.iter().map(String::as_str)).len(), MOST);
    }

    #[test]
    fn of_all_names_the_near_ones_come_first() {
        let names = ["de-1", "be-1", "nl-rmd-dc01-001", "be-1"];
        assert_eq!(near_first("nl-rmd-dc01-002", &names)[0], "nl-rmd-dc01-001");
        assert_eq!(near_first("nowhere", &names).len(), names.len());
    }

    #[test]
    fn distances_are_levenshteins() {
        for (a, b, want) in [("kitten", "sitting", 3), ("", "abc", 3), ("ü", "u", 1), ("A", "a", 0)]
        {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn a_distance_is_symmetric_and_bounded(a in "\\PC{0,20}", b in "\\PC{0,20}") {
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert!(distance(&a, &b) <= a.chars().count().max(b.chars().count()));
        }
    }
}
