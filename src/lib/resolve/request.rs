//! What is asked: which image, where, and how to choose among several.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobMatcher};

use super::Error;
use crate::id::Location;

/// How an image is named.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// By its whole name.
    Name(String),
    /// By the beginning of its name.
    Prefix(String),
    /// By a pattern over its whole name.
    Match(Pattern),
    /// Any image; only for listing.
    Any,
}

/// A glob: `*`, `?`, `[a-c]`, `{a,b}`; a backslash makes the next character plain.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`Error::Asked`]: it is empty, or not well-formed.
    pub fn new(text: &str) -> Result<Self, Error> {
        let hint = "patterns know *, ?, [a-c] and {a,b}";
        if text.is_empty() {
            return Err(Error::asked("the pattern is empty", hint));
        }
        let glob = GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build();
        let glob = glob.map_err(|e| {
            Error::asked(format!("the pattern {text:?} is wrong: {}", e.kind()), hint)
        })?;
        Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    /// The plain text at its beginning.
    fn plain(&self) -> &str {
        let end = self.text.find(['*', '?', '[', '{', '\\']).unwrap_or(self.text.len());
        &self.text[..end]
    }
}

impl Wanted {
    /// Whether an image of this name is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(text) => name == text,
            Self::Prefix(text) => name.starts_with(text.as_str()),
            Self::Match(pattern) => pattern.matcher.is_match(name),
            Self::Any => true,
        }
    }

    /// Whether this is the very name that was written.
    #[must_use]
    pub fn is_exactly(&self, name: &str) -> bool {
        self.text() == name
    }

    /// What to compare other names with when nothing matched.
    pub(super) fn stem(&self) -> &str {
        match self {
            Self::Match(pattern) => pattern.plain(),
            _ => self.text(),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Name(text) | Self::Prefix(text) => text,
            Self::Match(pattern) => &pattern.text,
            Self::Any => "",
        }
    }

    /// The end of a sentence that begins with `no image` or `3 images`.
    pub(super) fn said(&self, several: bool) -> String {
        let text = self.text();
        match (self, several) {
            (Self::Name(_), false) => format!("is called {text:?}"),
            (Self::Name(_), true) => format!("are called {text:?}"),
            (Self::Prefix(_), false) => format!("has a name that begins with {text:?}"),
            (Self::Prefix(_), true) => format!("have a name that begins with {text:?}"),
            (Self::Match(_), false) => format!("matches {text:?}"),
            (Self::Match(_), true) => format!("match {text:?}"),
            (Self::Any, false) => "exists".into(),
            (Self::Any, true) => "exist".into(),
        }
    }
}

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// In every location of the customer that can host machines.
    All,
    /// In these, in this order.
    These(Vec<Location>),
}

impl Places {
    /// Reads `a,b,c` or `all`.
    ///
    /// # Errors
    /// [`Error::Asked`]: nothing, a name that cannot be one, or the same one twice.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let hint = "write -locations a,b,c or -locations all";
        if text.trim().contains(|c: char| c == ';' || c.is_whitespace()) && !text.contains(',') {
            let what = format!("the locations {text:?} are not separated by commas");
            return Err(Error::asked(what, hint));
        }
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts == ["all"] {
            return Ok(Self::All);
        }
        let mut seen = BTreeSet::new();
        let mut places = Vec::with_capacity(parts.len());
        for part in parts {
            if part == "all" {
                return Err(Error::asked("`all` cannot be mixed with other locations", hint));
            }
            let place: Location = part.parse().map_err(|e| Error::asked(format!("{e}"), hint))?;
            if !seen.insert(part) {
                return Err(Error::asked(format!("the location {part} is given twice"), ""));
            }
            places.push(place);
        }
        Ok(Self::These(places))
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which image.
    pub wanted: Wanted,
    /// Where.
    pub places: Places,
    /// Take the newest where several match, instead of failing.
    pub newest: bool,
    /// Look at public images only; otherwise the customer's own stand above public ones.
    pub public: bool,
    /// Show everything that matches instead of choosing one.
    pub list: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Wanted {
        Wanted::Match(Pattern::new(text).unwrap())
    }

    #[test]
    fn names_match_as_asked() {
        let table = [
            (Wanted::Name("a".into()), "a", true),
            (Wanted::Name("a".into()), "ab", false),
            (Wanted::Prefix("a".into()), "ab", true),
            (Wanted::Prefix("b".into()), "ab", false),
            (pattern("k8s-v1.36.*"), "k8s-v1.36.4", true),
            (pattern("k8s-v1.36.*"), "k8s-v1x36.4", false),
            (pattern("k8s-v1.3?.[0-4]"), "k8s-v1.36.4", true),
            (pattern("{ubuntu,debian}-*"), "debian-13", true),
            (pattern("*"), "with/slash and blank", true),
            (pattern("K8S*"), "k8s", false),
            (pattern("a\\*b"), "a*b", true),
            (pattern("a\\*b"), "axb", false),
            (Wanted::Any, "", true),
        ];
        for (wanted, name, want) in table {
            assert_eq!(wanted.matches(name), want, "{wanted:?} {name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for bad in ["", "[a", "{a", "a\\"] {
            let error = Pattern::new(bad).unwrap_err().to_string();
            assert!(error.contains("pattern"), "{bad}: {error}");
        }
        for bad in ["", "a,,b", "a,a", "a,all", "a b", "a/b", ","] {
            assert!(Places::parse(bad).is_err(), "{bad}");
        }
        for bad in ["a b", "a;b", "all b"] {
            let error = Places::parse(bad).unwrap_err().to_string();
            assert!(error.contains("not separated by commas"), "{error}");
        }
        assert_eq!(Places::parse(" all ").unwrap(), Places::All);
        let Places::These(two) = Places::parse("b, a").unwrap() else { panic!() };
        assert_eq!(two.iter().map(Location::as_str).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn a_pattern_has_a_plain_beginning() {
        for (text, want) in [("k8s-*", "k8s-"), ("*", ""), ("plain", "plain"), ("a[b", "a")] {
            if let Ok(pattern) = Pattern::new(text) {
                assert_eq!(pattern.plain(), want);
            }
        }
    }

    /// The textbook's matcher for `*` and `?`.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some('*'), _) => {
                naive(&pattern[1..], name) || (!name.is_empty() && naive(pattern, &name[1..]))
            }
            (Some('?'), Some(_)) => naive(&pattern[1..], &name[1..]),
            (Some(p), Some(n)) => p == n && naive(&pattern[1..], &name[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn globs_match_like_the_textbook(text in "[ab*?.-]{1,8}", name in "[ab.-]{0,10}") {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            // Two stars that stand alone between slashes mean more, but names hold no folders.
            prop_assume!(!text.contains("**"));
            prop_assert_eq!(pattern(&text).matches(&name), naive(&letters(&text), &letters(&name)));
        }

        #[test]
        fn a_star_behind_a_text_is_a_prefix(text in "[a-z0-9.-]{1,12}", name in "[a-z0-9.-]{0,16}") {
            let prefix = Wanted::Prefix(text.clone());
            prop_assert_eq!(pattern(&format!("{text}*")).matches(&name), prefix.matches(&name));
        }

        #[test]
        fn no_pattern_makes_it_panic(text in "\\PC{0,20}", name in "\\PC{0,20}") {
            if let Ok(pattern) = Pattern::new(&text) {
                let _ = (pattern.plain().len(), Wanted::Match(pattern).matches(&name));
            }
        }
    }
}
