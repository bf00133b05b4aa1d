//! What the image should hold, as far as checksums say: which were given, which lie beside the
//! URL, which of them somebody enforces, and what is left unverified.
//!
//! Rule: a checksum that was given is enforced or the run is refused; one that was found is
//! enforced too, but where two sources disagree the given one is believed.

use super::error::Problem;
use super::mark::Content;

/// A checksum and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Lower-case hex.
    pub hex: String,
    /// The file beside the URL that says so; `None` for one that was given.
    pub beside: Option<String>,
}

impl Claim {
    fn origin(&self) -> &str {
        self.beside.as_deref().unwrap_or("the command line")
    }
}

/// What is said about the source's content before anybody read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// MD5, which the cloud enforces when it is sent along.
    pub md5: Option<Claim>,
    /// SHA-256, which only we can enforce.
    pub sha256: Option<Claim>,
}

impl Claims {
    /// Joins what was given with what lies beside the URL; the second value is worth a warning.
    #[must_use]
    pub fn join(given: &Content, beside: Self) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let mut one = |kind: &str, given: Option<&String>, found: Option<Claim>| {
            let Some(hex) = given else { return found };
            if let Some(found) = found.filter(|found| found.hex != *hex) {
                let file = found.origin();
                warnings.push(format!(
                    "{file} has another {kind} than the one given; the given one is enforced"
                ));
            }
            Some(Claim { hex: hex.clone(), beside: None })
        };
        let md5 = one("MD5", given.md5.as_ref(), beside.md5);
        let sha256 = one("SHA-256", given.sha256.as_ref(), beside.sha256);
        (Self { md5, sha256 }, warnings)
    }

    /// The content they describe, if they are true.
    #[must_use]
    pub fn content(&self, bytes: Option<u64>) -> Content {
        let hex = |claim: &Option<Claim>| claim.as_ref().map(|c| c.hex.clone());
        Content { bytes, md5: hex(&self.md5), sha256: hex(&self.sha256) }
    }

    /// Whether a checksum was given by the user.
    #[must_use]
    pub fn given(&self) -> bool {
        [&self.md5, &self.sha256].into_iter().flatten().any(|claim| claim.beside.is_none())
    }

    /// What the bytes we read say against the claims.
    #[must_use]
    pub fn contradictions(&self, what: &str, actual: &Content) -> Vec<Problem> {
        let rows = [("MD5", &self.md5, &actual.md5), ("SHA-256", &self.sha256, &actual.sha256)];
        let told = rows.into_iter().filter_map(|(kind, claim, actual)| {
            let (claim, actual) = (claim.as_ref()?, actual.as_ref()?);
            (claim.hex != *actual).then(|| {
                let text = format!(
                    "{what} has the {kind} {actual}, not {} as {} says",
                    claim.hex,
                    claim.origin()
                );
                Problem::refused(text)
                    .hint("the image or its checksum is not what was meant: fetch both again")
            })
        });
        told.collect()
    }

    /// What nobody will have checked when a URL was imported with these claims.
    #[must_use]
    pub fn unverified(&self, trust: bool) -> Option<String> {
        match (&self.md5, &self.sha256) {
            (None, None) => Some(
                "no checksum was given and none was found beside the URL: what the cloud imports is not verified"
                    .to_owned(),
            ),
            (None, Some(_)) if trust => Some(
                "the SHA-256 is only recorded (-trust-checksum): what the cloud imports is not verified".to_owned(),
            ),
            (Some(_), Some(_)) if trust => Some(
                "the SHA-256 is only recorded (-trust-checksum); the cloud enforces the MD5".to_owned(),
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(hex: char) -> Claim {
        Claim { hex: hex.to_string(), beside: Some("https://h/x.md5".to_owned()) }
    }

    fn given(hex: char) -> Claim {
        Claim { hex: hex.to_string(), beside: None }
    }

    #[test]
    fn the_given_one_wins_and_disagreement_is_said() {
        let asked = |md5: Option<char>| Content { md5: md5.map(Into::into), ..Content::default() };
        let rows = [
            (asked(None), None, None, 0),
            (asked(None), Some(beside('a')), Some(beside('a')), 0),
            (asked(Some('a')), None, Some(given('a')), 0),
            (asked(Some('a')), Some(beside('a')), Some(given('a')), 0),
            (asked(Some('a')), Some(beside('b')), Some(given('a')), 1),
        ];
        for (asked, found, md5, warned) in rows {
            let found = Claims { md5: found, sha256: None };
            let (claims, warnings) = Claims::join(&asked, found);
            assert_eq!((claims.md5, warnings.len()), (md5, warned));
        }
    }

    #[test]
    fn bytes_that_were_read_confirm_or_contradict() {
        let claims = Claims { md5: Some(beside('a')), sha256: Some(given('b')) };
        let read = |md5: &str, sha: &str| Content {
            bytes: None,
            md5: Some(md5.to_owned()),
            sha256: Some(sha.to_owned()),
        };
        for (actual, count) in [(read("a", "b"), 0), (read("x", "b"), 1), (read("x", "y"), 2)] {
            assert_eq!(claims.contradictions("it", &actual).len(), count);
        }
        let text = claims.contradictions("it", &read("x", "b"))[0].text.clone();
        assert_eq!(text, "it has the MD5 x, not a as https://h/x.md5 says");
    }

    #[test]
    fn what_nobody_checks_is_said() {
        let claims = |md5: Option<Claim>, sha256: Option<Claim>| Claims { md5, sha256 };
        for (claims, trust, said) in [
            (claims(None, None), false, true),
            (claims(Some(given('a')), None), false, false),
            (claims(None, Some(given('a'))), false, false),
            (claims(None, Some(given('a'))), true, true),
            (claims(Some(given('a')), Some(given('b'))), true, true),
        ] {
            assert_eq!(claims.unverified(trust).is_some(), said, "{claims:?}");
        }
        assert!(!claims(Some(beside('a')), None).given() && claims(Some(given('a')), None).given());
    }
}
