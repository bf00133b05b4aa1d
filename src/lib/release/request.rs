//! Which release: the image that runs and the version that it is.

use std::fmt;
use std::str::FromStr;

use super::{Error, SERIES};

/// An image with its registry, such as `registry.example.com/capvco/capvco:v0.1.0`: clusterctl
/// reads it as a canonical name when it replaces images (contract, 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image(String);

/// A version that [`super::metadata`] knows, such as `v0.1.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(semver::Version);

/// One release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// What runs.
    pub image: String,
    /// Which version it is.
    pub version: Version,
}

impl Release {
    /// An image without a tag gets that of the version.
    #[must_use]
    pub fn new(image: &Image, version: Version) -> Self {
        let name = &image.0;
        let image = if is_tagged(name) { name.clone() } else { format!("{name}:{version}") };
        Self { image, version }
    }
}

/// A tag or a digest follows the last part of the name; a port is in the first.
fn is_tagged(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|last| last.contains([':', '@']))
}

impl FromStr for Image {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why| Err(Error::Image { text: text.to_owned(), why });
        let Some((registry, rest)) = text.split_once('/') else {
            return bad("names no registry");
        };
        if !(registry.contains(['.', ':']) || registry == "localhost") {
            return bad("names no registry");
        }
        let good = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        if rest.is_empty() || rest.ends_with(['/', ':', '@']) || !text.chars().all(good) {
            return bad("is no name of an image");
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why: String| Error::Version { text: text.to_owned(), why };
        let bare = text.strip_prefix('v').ok_or_else(|| bad("does not begin with v".into()))?;
        let version = semver::Version::parse(bare)
            .map_err(|e| bad(format!("is no semantic version: {e}")))?;
        if !version.build.is_empty() {
            return Err(bad("has build metadata, which no tag of an image may have".into()));
        }
        if !SERIES
            .iter()
            .any(|(major, minor, _)| (*major, *minor) == (version.major, version.minor))
        {
            return Err(bad("belongs to no series of metadata.yaml".into()));
        }
        Ok(Self(version))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_in_full() {
        let release = |image: &str| {
            let image = image.parse::<Image>().map_err(|e| e.to_string())?;
            Ok(Release::new(&image, "v0.1.2".parse().unwrap()).image)
        };
        for (given, want) in [
            ("r.example.com/a/b", "r.example.com/a/b:v0.1.2"),
            ("localhost:5000/b", "localhost:5000/b:v0.1.2"),
            ("localhost/b:x", "localhost/b:x"),
            ("r.example.com/b@sha256:00", "r.example.com/b@sha256:00"),
        ] {
            assert_eq!(release(given), Ok(want.to_owned()));
        }
        for (given, want) in [
            ("capvco", "names no registry"),
            ("capvco/capvco:v1", "names no registry"),
            ("r.example.com/", "is no name"),
            ("r.example.com/a b", "is no name"),
            ("r.example.com/a:", "is no name"),
            ("r.example.com/${X}", "is no name"),
        ] {
            let error: Result<String, String> = release(given);
            assert!(error.as_ref().unwrap_err().contains(want), "{given}: {error:?}");
        }
    }

    #[test]
    fn a_version_belongs_to_a_series() {
        for good in ["v0.1.0", "v0.1.17", "v0.1.0-rc.1"] {
            assert_eq!(good.parse::<Version>().unwrap().to_string(), good);
        }
        for (bad, want) in [
            ("0.1.0", "begin with v"),
            ("v0.1", "no semantic version"),
            ("v0.2.0", "no series"),
            ("v1.1.0", "no series"),
            ("v0.1.0+a", "build metadata"),
        ] {
            let error = bad.parse::<Version>().unwrap_err().to_string();
            assert!(error.contains(want), "{bad}: {error}");
        }
    }
}
