//! Our mark in an image's `tags`, the one text of an image that a create call can set.
//!
//! No reply of the cloud carries a checksum (vco-api.md 3.2), so the mark is where an image's
//! content can be read again: one word, beside whatever the user wants in `tags`:
//!
//! ```text
//! capvco/image;run=00c0ffee00c0ffee;bytes=1073741824;md5=…;sha256=… k8s nightly
//! ```
//!
//! It also names the run that made the image, so that a run finds its own again after a lost
//! reply. An image without a mark is somebody else's and never removed.

use std::fmt;

/// How the mark's word begins.
pub const PREFIX: &str = "capvco/image";

/// One run of the program: 64 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(pub u64);

impl RunId {
    /// A run id that no other run has.
    ///
    /// # Errors
    /// The machine has no source of randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        getrandom::u64().map(Self)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What is known about some bytes. Digests are lower-case hex.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// How many there are.
    pub bytes: Option<u64>,
    /// Their MD5.
    pub md5: Option<String>,
    /// Their SHA-256.
    pub sha256: Option<String>,
}

/// Whether two contents are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// A digest agrees and nothing contradicts it.
    Same,
    /// A digest or the length contradicts.
    Different,
    /// Nothing contradicts, and no digest is known of both.
    Unknown,
}

impl Content {
    /// Holds this content against another.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Likeness {
        fn both<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> Option<bool> {
            Some(a? == b?)
        }
        let digests = [
            both(self.sha256.as_ref(), other.sha256.as_ref()),
            both(self.md5.as_ref(), other.md5.as_ref()),
        ];
        let length = both(self.bytes.as_ref(), other.bytes.as_ref());
        if length == Some(false) || digests.contains(&Some(false)) {
            Likeness::Different
        } else if digests.contains(&Some(true)) {
            Likeness::Same
        } else {
            Likeness::Unknown
        }
    }

    /// The strongest digest that both have, in short, where it is the same.
    #[must_use]
    pub fn shared(&self, other: &Self) -> Option<String> {
        let alone = self.alone().into_iter().zip(other.alone());
        let same = alone.take(2).find(|(mine, theirs)| mine.has_digest() && mine == theirs);
        same.map(|(mine, _)| mine.to_string())
    }

    /// What tells this content from another, as `SHA-256 a…, not SHA-256 b…`.
    #[must_use]
    pub fn apart(&self, other: &Self) -> Option<String> {
        let nothing = Self::default();
        let mut alone = self.alone().into_iter().zip(other.alone());
        let (mine, theirs) = alone
            .find(|(mine, theirs)| mine != theirs && *mine != nothing && *theirs != nothing)?;
        Some(format!("{mine}, not {theirs}"))
    }

    /// SHA-256, MD5 and length, each by itself.
    fn alone(&self) -> [Self; 3] {
        [
            Self { sha256: self.sha256.clone(), ..Self::default() },
            Self { md5: self.md5.clone(), ..Self::default() },
            Self { bytes: self.bytes, ..Self::default() },
        ]
    }

    /// Whether any digest is known.
    #[must_use]
    pub const fn has_digest(&self) -> bool {
        self.md5.is_some() || self.sha256.is_some()
    }
}

/// For messages: the strongest digest that is known, in short.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |hex: &str| hex.chars().take(12).collect::<String>();
        match (&self.sha256, &self.md5, self.bytes) {
            (Some(hex), _, _) => write!(f, "SHA-256 {}…", short(hex)),
            (None, Some(hex), _) => write!(f, "MD5 {}…", short(hex)),
            (None, None, Some(bytes)) => write!(f, "{bytes} bytes"),
            (None, None, None) => f.write_str("unknown content"),
        }
    }
}

/// What we write into an image's `tags`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The run that made the image.
    pub run: RunId,
    /// What it should hold.
    pub content: Content,
}

impl Mark {
    /// Finds the mark in a text that may hold anything else.
    #[must_use]
    pub fn read(tags: &str) -> Option<Self> {
        words(tags).find_map(Self::word)
    }

    /// Reads one word; fields we do not know are skipped, for the sake of later versions.
    fn word(word: &str) -> Option<Self> {
        let mut fields = word.split(';');
        if fields.next()? != PREFIX {
            return None;
        }
        let mut run = None;
        let mut content = Content::default();
        for (key, value) in fields.filter_map(|field| field.split_once('=')) {
            match key {
                "run" => run = u64::from_str_radix(value, 16).ok().map(RunId),
                "bytes" => content.bytes = value.parse().ok(),
                "md5" => content.md5 = hex(value, 32),
                "sha256" => content.sha256 = hex(value, 64),
                _ => {}
            }
        }
        run.map(|run| Self { run, content })
    }

    /// The whole `tags` text: the mark, then the user's own.
    #[must_use]
    pub fn write(&self, users: Option<&str>) -> String {
        use fmt::Write as _;
        let mut text = format!("{PREFIX};run={}", self.run);
        let Content { bytes, md5, sha256 } = &self.content;
        let fields = [
            ("bytes", bytes.map(|n| n.to_string())),
            ("md5", md5.clone()),
            ("sha256", sha256.clone()),
        ];
        for (key, value) in fields.into_iter().filter_map(|(k, v)| Some((k, v?))) {
            // Writing to a String cannot fail.
            let _ = write!(text, ";{key}={value}");
        }
        if let Some(users) = users.map(str::trim).filter(|t| !t.is_empty()) {
            text.push(' ');
            text.push_str(users);
        }
        text
    }
}

/// What of a `tags` text is the user's: everything but our word.
#[must_use]
pub fn users(tags: &str) -> String {
    let ours = words(tags).find(|word| Mark::word(word).is_some());
    ours.map_or_else(|| tags.to_owned(), |ours| tags.replacen(ours, "", 1)).trim().to_owned()
}

/// Tags may come back joined by white space, commas, or as a list's text.
fn words(tags: &str) -> impl Iterator<Item = &str> {
    tags.split(|c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'' | '[' | ']'))
}

/// `text` as a digest of `length` hex digits, in lower case.
#[must_use]
pub fn hex(text: &str, length: usize) -> Option<String> {
    let fits = text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(bytes: u64, md5: Option<char>, sha256: Option<char>) -> Content {
        Content {
            bytes: Some(bytes),
            md5: md5.map(|c| c.to_string().repeat(32)),
            sha256: sha256.map(|c| c.to_string().repeat(64)),
        }
    }

    #[test]
    fn contents_compare() {
        use Likeness::{Different, Same, Unknown};
        let rows = [
            (content(1, Some('a'), Some('b')), content(1, Some('a'), Some('b')), Same),
            (content(1, Some('a'), None), content(1, Some('a'), Some('b')), Same),
            (content(1, Some('a'), None), content(1, None, Some('b')), Unknown),
            (content(1, None, None), content(1, None, None), Unknown),
            (content(1, None, None), content(2, None, None), Different),
            (content(1, Some('a'), Some('b')), content(1, Some('a'), Some('c')), Different),
            (content(1, Some('a'), None), content(2, Some('a'), None), Different),
            (Content::default(), content(2, Some('a'), None), Unknown),
        ];
        for (a, b, likeness) in rows {
            assert_eq!((a.compare(&b), b.compare(&a)), (likeness, likeness), "{a:?} {b:?}");
        }
    }

    #[test]
    fn what_is_the_same_and_what_is_not_is_named_in_like_terms() {
        let text = |kind: &str, c: char| format!("{kind} {}…", c.to_string().repeat(12));
        let (a, b) = (content(1, Some('a'), None), content(1, Some('b'), Some('c')));
        let differ = format!("{}, not {}", text("MD5", 'a'), text("MD5", 'b'));
        for (one, other, shared, apart) in [
            (&a, &a, Some(text("MD5", 'a')), None),
            (&b, &b, Some(text("SHA-256", 'c')), None),
            (&a, &b, None, Some(differ)),
            (
                &content(1, None, None),
                &content(2, None, None),
                None,
                Some("1 bytes, not 2 bytes".into()),
            ),
            (&content(1, None, None), &b, None, None),
        ] {
            assert_eq!((one.shared(other), one.apart(other)), (shared, apart), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_mark_is_found_in_foreign_text_and_nothing_else_is_taken_for_one() {
        let mark = Mark { run: RunId(0xc0_ffee), content: content(7, Some('a'), None) };
        let word = mark.write(None);
        for tags in [
            word.clone(),
            format!("k8s {word} nightly"),
            format!("k8s,{word},nightly"),
            format!("[\"k8s\", \"{word}\"]"),
            format!("{word};later=1"),
        ] {
            assert_eq!(Mark::read(&tags), Some(mark.clone()), "{tags}");
        }
        for tags in ["", "k8s", "capvco", PREFIX, "capvco/image;bytes=7", "xcapvco/image;run=1"] {
            assert_eq!(Mark::read(tags), None, "{tags}");
        }
        let damaged = Mark::read("capvco/image;run=1;md5=zz;sha256=12;bytes=x;;=").unwrap();
        assert_eq!(damaged.content, Content::default());
    }

    #[test]
    fn the_users_tags_are_what_is_left() {
        let mark = Mark { run: RunId(1), content: Content::default() };
        assert_eq!(users(&mark.write(Some("k8s nightly"))), "k8s nightly");
        assert_eq!(users(&mark.write(None)), "");
        assert_eq!(users("somebody, else"), "somebody, else");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            run: u64, bytes: Option<u64>, md5 in proptest::option::of("[0-9a-f]{32}"),
            sha256 in proptest::option::of("[0-9a-f]{64}"), tags in "[a-z ,.-]{0,40}",
        ) {
            let mark = Mark { run: RunId(run), content: Content { bytes, md5, sha256 } };
            let text = mark.write(Some(&tags));
            prop_assert_eq!(Mark::read(&text), Some(mark));
            prop_assert_eq!(users(&text), tags.trim());
        }

        #[test]
        fn reading_never_panics(tags in any::<String>()) {
            let _ = (Mark::read(&tags), users(&tags));
        }
    }
}
