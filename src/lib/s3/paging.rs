//! Lists in pages, from stores that page badly: versitygw 1.8 repeats entries at small page
//! sizes and never ends at the smallest (test-peers.md 4). Nothing is told twice, and a list
//! that does not advance is found out.

use std::collections::HashSet;
use std::hash::Hash;

/// The longest list that is kept, in entries: that of hundreds of thousands of backups.
const MOST: usize = 1_000_000;

/// Where a page begins: after a key and one of its versions or uploads.
pub type Marker = (Option<String>, Option<String>);

/// What to do after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Ask for the page after this marker.
    Page(Marker),
    /// That was all.
    Done,
    /// The list does not advance.
    Stuck,
}

/// A list under way.
#[derive(Debug)]
pub struct Paging<K> {
    seen: HashSet<K>,
    markers: HashSet<Marker>,
}

impl<K: Eq + Hash> Paging<K> {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self { seen: HashSet::new(), markers: HashSet::new() }
    }

    /// Whether an entry is new.
    pub fn is_new(&mut self, identity: K) -> bool {
        self.seen.insert(identity)
    }

    /// After a page: `marker` is the next page's as the store gave it, `last` that of the page's
    /// last entry, for stores that leave it out.
    pub fn next(&mut self, truncated: bool, marker: Marker, last: Option<Marker>) -> Next {
        if !truncated {
            return Next::Done;
        }
        let marker = if marker.0.is_some() { Some(marker) } else { last };
        match marker {
            // A list without an end would be kept in memory all the same.
            _ if self.seen.len() > MOST => Next::Stuck,
            // The same page would come again.
            Some(marker) if self.markers.insert(marker.clone()) => Next::Page(marker),
            _ => Next::Stuck,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(key: &str, version: &str) -> Marker {
        (Some(key.to_owned()), Some(version.to_owned()))
    }

    /// Runs a list whose `n`th answer is made by `page`; what was told, and how it ended.
    fn run(page: impl Fn(usize, &Marker) -> (Vec<u32>, bool, Marker)) -> (Vec<u32>, bool) {
        let mut paging = Paging::new();
        let (mut told, mut at) = (Vec::new(), (None, None));
        for n in 0.. {
            assert!(n < 100, "it loops");
            let (entries, truncated, next) = page(n, &at);
            let last = entries.last().map(|last| marker(&last.to_string(), "v"));
            told.extend(entries.into_iter().filter(|entry| paging.is_new(*entry)));
            match paging.next(truncated, next, last) {
                Next::Page(marker) => at = marker,
                Next::Done => return (told, true),
                Next::Stuck => return (told, false),
            }
        }
        unreachable!()
    }

    #[test]
    fn honest_stores_are_read_to_the_end() {
        let all = run(|n, _| match n {
            0 => (vec![1, 2], true, marker("2", "v")),
            1 => (vec![3, 4], true, marker("4", "v")),
            _ => (vec![5], false, (None, None)),
        });
        assert_eq!(all, (vec![1, 2, 3, 4, 5], true));
        assert_eq!(run(|_, _| (vec![], false, (None, None))), (vec![], true));
    }

    #[test]
    fn what_is_told_twice_counts_once() {
        let all = run(|n, _| match n {
            0 => (vec![1, 2], true, marker("2", "v")),
            1 => (vec![2, 3], true, marker("3", "v")),
            _ => (vec![3, 4], false, (None, None)),
        });
        assert_eq!(all, (vec![1, 2, 3, 4], true));
    }

    #[test]
    fn a_list_without_markers_goes_on_after_its_last_entry() {
        let all = run(|_, at| {
            let first = *at == (None, None);
            assert!(first || *at == marker("1", "v"), "{at:?}");
            (vec![if first { 1 } else { 2 }], first, (None, None))
        });
        assert_eq!(all, (vec![1, 2], true));
    }

    #[test]
    fn a_list_that_does_not_advance_is_found_out() {
        assert_eq!(run(|_, _| (vec![1], true, marker("1", "v"))), (vec![1], false));
        assert_eq!(run(|_, _| (vec![], true, (None, None))), (vec![], false));
        let cycle = run(|n, _| {
            let name = if n % 2 == 0 { "a" } else { "b" };
            (vec![1, 2], true, marker(name, "v"))
        });
        assert_eq!(cycle, (vec![1, 2], false));
        let step = u32::try_from(MOST / 50).unwrap();
        let endless = run(|n, _| {
            let first = u32::try_from(n).unwrap() * step;
            ((first..first + step).collect(), true, marker(&n.to_string(), "v"))
        });
        assert!(!endless.1 && endless.0.len() <= MOST + MOST / 50);
    }
}
