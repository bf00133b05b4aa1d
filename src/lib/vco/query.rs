//! Paths and query strings: most of what is sent travels in them (vco-api.md 12.1).

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but RFC 3986's unreserved characters, which no server reads differently.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One path segment or query word, percent-encoded.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A path below the API's base path, each segment encoded.
#[must_use]
pub fn path(segments: &[&str]) -> String {
    segments.iter().fold(String::new(), |path, segment| path + "/" + &encode(segment))
}

/// The parameters of a call, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Appends a parameter.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    /// Appends a parameter if there is a value.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The parameters as they are, for a log that blanks secrets.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// `name=value&…`, encoded; empty without parameters.
    #[must_use]
    pub fn encoded(&self) -> String {
        let pairs: Vec<_> = self
            .pairs()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        pairs.join("&")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_encoded_by_segment() {
        for (segments, expected) in [
            (&["me"][..], "/me"),
            (&["a/b", "c d", "é"], "/a%2Fb/c%20d/%C3%A9"),
            (&["v1.2_x~y-z", "?#%"], "/v1.2_x~y-z/%3F%23%25"),
        ] {
            assert_eq!(path(segments), expected);
        }
    }

    #[test]
    fn booleans_and_absent_values() {
        let query = Query::default()
            .with("permanently", true)
            .with_some("tags", None::<&str>)
            .with_some("md5_sum", Some("ab"));
        assert_eq!(query.encoded(), "permanently=true&md5_sum=ab");
        assert_eq!(Query::default().encoded(), "");
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(values in prop::collection::vec(".*", 0..6)) {
            let query = values.iter().fold(Query::default(), |q, v| q.with("name", v));
            let encoded = query.encoded();
            prop_assert!(encoded.is_ascii());
            let decoded: Vec<String> = url::form_urlencoded::parse(encoded.as_bytes())
                .map(|(_, value)| value.into_owned())
                .collect();
            prop_assert_eq!(decoded, values);
        }

        #[test]
        fn a_url_keeps_its_segments(segments in prop::collection::vec("[^.]+", 1..5)) {
            let borrowed: Vec<&str> = segments.iter().map(String::as_str).collect();
            let url = url::Url::parse(&format!("https://h{}", path(&borrowed))).unwrap();
            let seen: Vec<String> = url.path_segments().unwrap()
                .map(|s| percent_encoding::percent_decode_str(s).decode_utf8().unwrap().into_owned())
                .collect();
            prop_assert_eq!(seen, segments);
        }
    }
}
