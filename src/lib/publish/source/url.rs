//! URLs of images: which may be used, where a redirect may lead, and how they are shown.

use ::url::{Position, Url};

use super::SourceError;

/// Reads a URL that a person wrote and refuses what no cloud could fetch.
///
/// # Errors
/// [`SourceError::BadUrl`]; the text itself is shown only as far as it cannot hold a secret.
pub fn parse(text: &str) -> Result<Url, SourceError> {
    let url = Url::parse(text.trim()).map_err(|why| SourceError::BadUrl {
        url: text.split(['?', '@']).next().unwrap_or_default().chars().take(80).collect(),
        why: format!("cannot be read: {why}"),
    })?;
    usable(&url).map_err(|why| SourceError::BadUrl { url: shown(&url), why: why.into() })?;
    Ok(url)
}

/// Says what is wrong with a URL, as the rest of a sentence.
pub(super) fn usable(url: &Url) -> Result<(), &'static str> {
    if !matches!(url.scheme(), "http" | "https") {
        Err("is neither http nor https")
    } else if url.host_str().is_none_or(str::is_empty) {
        Err("has no host")
    } else if !url.username().is_empty() || url.password().is_some() {
        Err("holds a user or password, which would be stored with the image")
    } else {
        Ok(())
    }
}

/// A URL as it may be printed: without user info, and with the values of its query blanked,
/// because a presigned URL's query is a key.
#[must_use]
pub fn shown(url: &Url) -> String {
    let mut text = format!("{}://", url.scheme());
    text.push_str(&url[Position::BeforeHost..Position::AfterPath]);
    for (n, pair) in url.query().into_iter().flat_map(|q| q.split('&')).enumerate() {
        text.push(if n == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) => text.extend([name, "=…"]),
            None => text.push('…'),
        }
    }
    text
}

/// Where a redirect from `from` leads, if it may be followed.
pub(super) fn redirect(from: &Url, location: &str) -> Result<Url, SourceError> {
    let bad =
        |to: String, why: &str| SourceError::BadRedirect { url: shown(from), to, why: why.into() };
    let to = from.join(location).map_err(|_| bad("an unreadable address".into(), "is no URL"))?;
    usable(&to).map_err(|why| bad(shown(&to), why))?;
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(bad(shown(&to), "is not encrypted, while the first URL is"));
    }
    Ok(to)
}

/// The name of the file that a URL names, decoded; empty where its path ends in a slash.
pub(super) fn file_name(url: &Url) -> String {
    let last = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
    percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned()
}

/// The URL of a file beside the image's: its path with `suffix` added, or a name in its folder.
pub(super) fn beside(url: &Url, place: Beside) -> Url {
    let mut other = url.clone();
    other.set_query(None);
    other.set_fragment(None);
    let path = url.path();
    let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
    let path = match place {
        Beside::Suffix(suffix) => format!("{path}{suffix}"),
        Beside::Name(name) => format!("{folder}{name}"),
    };
    other.set_path(&path);
    other
}

/// How a file beside the image is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// The image's name and this.
    Suffix(&'static str),
    /// This name in the image's folder.
    Name(&'static str),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fault::{Class, Fault};

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn only_plain_web_addresses_are_taken() {
        assert!(parse(" https://x.test/a.qcow2 ").is_ok());
        assert!(parse("http://[::1]:8080/a").is_ok());
        let table = [
            ("ftp://x.test/a", "neither http nor https"),
            ("file:///etc/passwd", "neither http nor https"),
            ("https://bob:geheim@x.test/a", "user or password"),
            ("https://bob@x.test/a", "user or password"),
            ("x.test/a.qcow2", "cannot be read"),
            ("https://", "cannot be read"),
            ("", "cannot be read"),
        ];
        for (text, want) in table {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(want), "{text}: {error}");
            assert!(!error.to_string().contains("geheim"), "{error}");
            assert_eq!(error.class(), Class::Refused);
        }
    }

    #[test]
    fn secrets_of_a_url_are_not_shown() {
        let table = [
            ("https://x.test/a", "https://x.test/a"),
            ("https://u:p@x.test:8443/a?k=v&X-Sig=abc#f", "https://x.test:8443/a?k=…&X-Sig=…"),
            ("https://x.test/a?token", "https://x.test/a?…"),
            ("http://[::1]:80/", "http://[::1]/"),
        ];
        for (given, want) in table {
            assert_eq!(shown(&url(given)), want);
        }
    }

    #[test]
    fn redirects_lead_anywhere_but_out_of_encryption() {
        let from = url("https://x.test/dir/a");
        let ok = |to| redirect(&from, to).unwrap().to_string();
        assert_eq!(ok("b?c=d"), "https://x.test/dir/b?c=d");
        assert_eq!(ok("/b"), "https://x.test/b");
        assert_eq!(ok("//y.test/b"), "https://y.test/b");
        for (to, want) in [
            ("http://x.test/b?k=v", "to http://x.test/b?k=…, which is not encrypted"),
            ("ftp://x.test/b", "neither http nor https"),
            ("https://u:p@x.test/b", "user or password"),
            ("https://[bad", "no URL"),
        ] {
            let error = redirect(&from, to).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        assert!(redirect(&url("http://x.test/"), "https://x.test/").is_ok());
    }

    #[test]
    fn files_beside_have_no_query() {
        let image = url("https://x.test/a/k8s%20x.qcow2?sig=1#f");
        assert_eq!(file_name(&image), "k8s x.qcow2");
        let suffix = beside(&image, Beside::Suffix(".md5"));
        assert_eq!(suffix.as_str(), "https://x.test/a/k8s%20x.qcow2.md5");
        let list = beside(&image, Beside::Name("SHA256SUMS"));
        assert_eq!(list.as_str(), "https://x.test/a/SHA256SUMS");
        assert_eq!(beside(&url("https://x.test"), Beside::Name("CHECKSUM")).path(), "/CHECKSUM");
    }

    proptest! {
        #[test]
        fn a_query_value_is_never_shown(key in "[a-z]{1,8}", value in "[A-Z0-9]{6,40}") {
            let url = url(&format!("https://u{value}:{value}@x.test/p?{key}={value}&{key}={value}#{value}"));
            prop_assert!(!shown(&url).contains(&value));
        }
    }
}
