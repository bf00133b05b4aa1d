//! Checksum files beside an image, in the forms that people publish them in:
//!
//! `hash` · `hash  file` · `hash *file` · `SHA256 (file) = hash` · lists of these, also signed
//! ones. Which algorithm a hash belongs to is told by its length.

use super::SourceError;
use super::url::Beside;

/// Checksums that were found beside an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sidecars {
    /// From `URL.md5`, `MD5SUMS` or a `CHECKSUM` list.
    pub md5: Option<Found>,
    /// From `URL.sha256`, `SHA256SUMS` or a `CHECKSUM` list.
    pub sha256: Option<Found>,
    /// What was there and could not be used, one sentence each.
    pub warnings: Vec<String>,
}

/// A checksum and where it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Lower-case hex.
    pub hex: String,
    /// The URL of the file, its secrets blanked.
    pub from: String,
}

/// Where checksums are looked for, the most specific first.
pub(super) const PLACES: [Beside; 6] = [
    Beside::Suffix(".md5"),
    Beside::Suffix(".sha256"),
    Beside::Suffix(".CHECKSUM"),
    Beside::Name("CHECKSUM"),
    Beside::Name("SHA256SUMS"),
    Beside::Name("MD5SUMS"),
];

/// A checksum that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
}

impl Algorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }

    fn of(hash: &str) -> Option<Self> {
        if !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        match hash.len() {
            32 => Some(Self::Md5),
            64 => Some(Self::Sha256),
            _ => None,
        }
    }
}

/// One line of a checksum file.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    algorithm: Algorithm,
    hash: &'a str,
    file: Option<&'a str>,
}

fn line(text: &str) -> Option<Line<'_>> {
    let text = text.trim();
    if let Some((left, hash)) = text.rsplit_once('=') {
        // `SHA256 (file) = hash` of BSD and Fedora, `SHA2-256(file)= hash` of OpenSSL.
        let hash = hash.trim();
        if let (Some(algorithm), Some((_, file))) = (Algorithm::of(hash), left.split_once('(')) {
            return Some(Line { algorithm, hash, file: Some(file.trim_end().strip_suffix(')')?) });
        }
    }
    // coreutils puts a backslash before a line whose file name it had to escape.
    let text = text.strip_prefix('\\').unwrap_or(text);
    let (hash, file) = match text.split_once(char::is_whitespace) {
        Some((hash, rest)) => (hash, Some(rest.trim_start())),
        None => (text, None),
    };
    let file =
        file.map(|f| f.strip_prefix('*').unwrap_or(f)).filter(|f| !f.is_empty() && *f != "-");
    Some(Line { algorithm: Algorithm::of(hash)?, hash, file })
}

/// The lines of `text` that are about `name`: by the whole name, else by its last part; in a
/// file that is about the image alone (`own`) also a line without any name.
fn about<'a>(text: &'a str, name: &str, own: bool) -> Vec<Line<'a>> {
    let lines: Vec<_> = text.lines().filter_map(line).collect();
    let base = |file: &str| file.rsplit(['/', '\\']).next().unwrap_or_default() == name;
    let rules: [&dyn Fn(&Line) -> bool; 3] =
        [&|l| l.file == Some(name), &|l| l.file.is_some_and(base), &|l| own && l.file.is_none()];
    let found = rules.iter().find(|rule| lines.iter().any(rule));
    match found {
        Some(rule) => lines.into_iter().filter(|l| rule(l)).collect(),
        None => Vec::new(),
    }
}

impl Sidecars {
    /// Takes what the file at `from` says about the image called `name`.
    ///
    /// # Errors
    /// [`SourceError::SidecarConflict`] where it says something else than was found before.
    pub(super) fn take(
        &mut self,
        place: Beside,
        from: &str,
        text: &str,
        name: &str,
    ) -> Result<(), SourceError> {
        if is_page(text) {
            self.warnings.push(format!("{from} is a web page, no checksum file: it is ignored"));
            return Ok(());
        }
        let own = matches!(place, Beside::Suffix(_));
        let lines = about(text, name, own);
        if lines.is_empty() && own {
            self.warnings.push(format!("{from} holds no checksum of {name}: it is ignored"));
        }
        lines.iter().try_for_each(|line| self.keep(line, from))
    }

    fn keep(&mut self, line: &Line, from: &str) -> Result<(), SourceError> {
        let hex = line.hash.to_ascii_lowercase();
        let slot = match line.algorithm {
            Algorithm::Md5 => &mut self.md5,
            Algorithm::Sha256 => &mut self.sha256,
        };
        match slot {
            Some(found) if found.hex != hex => Err(SourceError::SidecarConflict {
                algorithm: line.algorithm.name(),
                first: found.from.clone(),
                second: from.to_owned(),
            }),
            Some(_) => Ok(()),
            None => {
                *slot = Some(Found { hex, from: from.to_owned() });
                Ok(())
            }
        }
    }
}

/// Many servers answer any path with a page.
fn is_page(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const M: &str = "900150983cd24fb0d6963f7d28e17f72";
    const S: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const S2: &str = "00000000000000000000000000000000000000000000000000000000000015ad";
    const OWN: Beside = Beside::Suffix(".sha256");
    const LIST: Beside = Beside::Name("SHA256SUMS");

    fn read(place: Beside, text: &str) -> Sidecars {
        let mut found = Sidecars::default();
        found.take(place, "https://x.test/f", text, "k8s.qcow2").unwrap();
        found
    }

    #[test]
    fn every_form_is_understood() {
        let upper = S.to_uppercase();
        let table = [
            (OWN, S.to_owned(), true),
            (OWN, format!("{upper}\r\n"), true),
            (OWN, format!("{S}  -\n"), true),
            (OWN, format!("{S}  k8s.qcow2\n"), true),
            (LIST, format!("{S} *k8s.qcow2"), true),
            (LIST, format!("{S}\tk8s.qcow2"), true),
            (LIST, format!("{S}  ./output/k8s.qcow2"), true),
            (LIST, format!("{S} *out\\k8s.qcow2"), true),
            (LIST, format!("SHA256 (k8s.qcow2) = {S}"), true),
            (LIST, format!("SHA2-256(dir/k8s.qcow2)= {S}"), true),
            (
                LIST,
                format!(
                    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# k8s.qcow2: 5 bytes\nSHA256 (k8s.qcow2) = {S}\n"
                ),
                true,
            ),
            (LIST, format!("{S2}  other.qcow2\n{S}  k8s.qcow2\n{S2}  k8s.qcow2.sig\n"), true),
            (LIST, format!("{S2}  old/k8s.qcow2\n{S}  k8s.qcow2\n"), true),
            (LIST, S.to_owned(), false),
            (LIST, format!("{S}  other.qcow2"), false),
            (OWN, format!("{S}  other.qcow2"), false),
            (OWN, "deadbeef  k8s.qcow2".into(), false),
            (OWN, format!("{}z  k8s.qcow2", &S[1..]), false),
            (OWN, format!("SHA256 (k8s.qcow2 = {S}"), false),
            (OWN, String::new(), false),
        ];
        for (place, text, found) in table {
            let got = read(place, &text);
            assert_eq!(got.sha256.map(|f| f.hex), found.then(|| S.to_owned()), "{text}");
            assert_eq!(got.md5, None, "{text}");
            assert_eq!(got.warnings.is_empty(), found || place == LIST, "{text}");
        }
    }

    #[test]
    fn one_list_may_hold_both_kinds() {
        let got = read(LIST, &format!("MD5 (k8s.qcow2) = {M}\nSHA256 (k8s.qcow2) = {S}\n"));
        assert_eq!((got.md5.unwrap().hex.as_str(), got.sha256.unwrap().hex.as_str()), (M, S));
    }

    #[test]
    fn files_that_disagree_are_an_error_and_named() {
        let mut found = read(OWN, S);
        assert!(found.take(LIST, "list", &format!("{S}  k8s.qcow2"), "k8s.qcow2").is_ok());
        let error = found.take(LIST, "list", &format!("{S2}  k8s.qcow2"), "k8s.qcow2").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("https://x.test/f and list give different SHA-256"), "{text}");
        let twice = format!("{S}  a/k8s.qcow2\n{S2}  b/k8s.qcow2");
        assert!(Sidecars::default().take(LIST, "list", &twice, "k8s.qcow2").is_err());
    }

    #[test]
    fn a_page_is_ignored_with_a_word() {
        let got = read(OWN, "\n<!DOCTYPE html><p>not found");
        assert_eq!(got.sha256, None);
        assert!(got.warnings[0].contains("web page"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", name in "\\PC{0,20}") {
            let _ = Sidecars::default().take(OWN, "f", &text, &name);
        }

        #[test]
        fn what_sha256sum_prints_is_found(name in "[a-z][a-z0-9 ._()=-]{0,20}[a-z]", hash in "[0-9a-f]{64}") {
            let mut found = Sidecars::default();
            let text = format!("{S2}  x{name}\n{hash}  {name}\n{S2}  {name}x\n");
            found.take(LIST, "f", &text, &name).unwrap();
            prop_assert_eq!(found.sha256.unwrap().hex, hash);
        }
    }
}
