//! What can be wrong with an image's source. URLs appear only as [`super::url::shown`] shows them.

use std::path::PathBuf;

use crate::fault::{Class, Fault};
use crate::publish::image::Unfit;

/// A boxed error of whatever layer failed below.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a source cannot be used, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The URL itself cannot be used.
    #[error("the URL {url} {why}")]
    BadUrl {
        /// The URL, its secrets blanked.
        url: String,
        /// What is wrong with it, as the rest of the sentence.
        why: String,
    },
    /// The server answered something other than success.
    #[error("{method} {url} was answered {status}")]
    Answer {
        /// `HEAD` or `GET`.
        method: &'static str,
        /// The URL, its secrets blanked.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// GET works and HEAD does not, but the cloud sends a HEAD first (vco-api.md 3.2, G8S).
    #[error("HEAD {url} was answered {status}, though GET works: the cloud asks with HEAD first")]
    HeadRefused {
        /// The URL, its secrets blanked.
        url: String,
        /// The HTTP status of the HEAD.
        status: u16,
    },
    /// The answer to HEAD has no length (the cloud refuses that: vco-api.md 3.2, G8S).
    #[error("HEAD {0} was answered without Content-Length, which the cloud insists on")]
    NoLength(String),
    /// A redirect leads back to where it came from.
    #[error("{url} redirects in a circle: {way}")]
    RedirectLoop {
        /// The URL, its secrets blanked.
        url: String,
        /// Every station.
        way: String,
    },
    /// More redirects than we follow.
    #[error("{url} redirects more than {limit} times")]
    TooManyRedirects {
        /// The URL, its secrets blanked.
        url: String,
        /// How many we follow.
        limit: u8,
    },
    /// A redirect that must not, or cannot, be followed.
    #[error("{url} redirects to {to}, which {why}")]
    BadRedirect {
        /// The URL, its secrets blanked.
        url: String,
        /// Where it leads, secrets blanked.
        to: String,
        /// Why not, as the rest of the sentence.
        why: String,
    },
    /// HEAD and GET tell different lengths, or the file changed between two looks.
    #[error("{url} changed between two looks: {what}")]
    Changed {
        /// The URL, its secrets blanked.
        url: String,
        /// What differs.
        what: String,
    },
    /// The bytes are no image that can be published.
    #[error("{thing} cannot be published: {unfit}")]
    Unfit {
        /// URL (secrets blanked) or path.
        thing: String,
        /// Why.
        unfit: Unfit,
    },
    /// No answer.
    #[error("{method} {url} got no answer")]
    Network {
        /// `HEAD` or `GET`.
        method: &'static str,
        /// The URL, its secrets blanked.
        url: String,
        /// What the layer below says, without the URL.
        #[source]
        source: Cause,
    },
    /// The download ended too early.
    #[error("the download of {url} ended after {got} of {expected} bytes")]
    Cut {
        /// The URL, its secrets blanked.
        url: String,
        /// Bytes that came.
        got: u64,
        /// Bytes that should have come.
        expected: u64,
        /// What the layer below says, if anything.
        #[source]
        source: Option<Cause>,
    },
    /// No byte came for too long.
    #[error("the download of {url} stood still for {seconds} s after {got} of {expected} bytes")]
    Stalled {
        /// The URL, its secrets blanked.
        url: String,
        /// Bytes that came.
        got: u64,
        /// Bytes that should have come.
        expected: u64,
        /// How long nothing came.
        seconds: u64,
    },
    /// Two checksum files beside the image disagree.
    #[error("{first} and {second} give different {algorithm} checksums for one image")]
    SidecarConflict {
        /// `MD5` or `SHA-256`.
        algorithm: &'static str,
        /// URL of one, secrets blanked.
        first: String,
        /// URL of the other (may be the same file).
        second: String,
    },
    /// A local file cannot be used or read.
    #[error("{doing} {}", .path.display())]
    File {
        /// What was tried, such as `cannot open`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The path names a folder, a device or a pipe.
    #[error("{} is no regular file", .0.display())]
    NotAFile(PathBuf),
    /// The file changed while we read it.
    #[error("{} changed while it was read", .0.display())]
    FileChanged(PathBuf),
    /// What came on standard input could not be kept.
    #[error("cannot keep the image in the folder {} (after {written} bytes)", .dir.display())]
    Spool {
        /// The folder of the temporary file.
        dir: PathBuf,
        /// Bytes written before.
        written: u64,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Nothing came on standard input.
    #[error("stdin was empty")]
    NoInput,
    /// What should come on standard input could not be read.
    #[error("cannot read the image from standard input (after {0} bytes)")]
    Input(u64, #[source] std::io::Error),
    /// The client for downloads could not be made.
    #[error("cannot set up downloads")]
    Setup(#[source] Cause),
    /// A thread of ours ended without a result.
    #[error("the thread that {0} ended without a result")]
    Lost(&'static str),
}

impl SourceError {
    /// The same of an image that the user knows by another name than its path.
    #[must_use]
    pub fn about(self, thing: &str) -> Self {
        match self {
            Self::Unfit { unfit, .. } => Self::Unfit { thing: thing.to_owned(), unfit },
            other => other,
        }
    }
}

impl Fault for SourceError {
    fn class(&self) -> Class {
        match self {
            Self::Answer { status, .. } => match status {
                408 | 425 | 429 | 500.. => Class::Transient,
                404 | 410 => Class::NotFound,
                _ => Class::Refused,
            },
            Self::Network { .. } | Self::Cut { .. } | Self::Stalled { .. } => Class::Transient,
            Self::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Class::NotFound
            }
            Self::Setup(_) => Class::Usage,
            Self::Lost(_) => Class::Bug,
            _ => Class::Refused,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::HeadRefused { .. } => {
                "a presigned URL is usually signed for GET alone: sign one for HEAD, use a public \
                 URL, or upload the file with -file"
            }
            Self::NoLength(_) => {
                "serve the file itself, not a stream made on the fly; or upload it with -file"
            }
            Self::Answer { status: 401 | 403, .. } => {
                "the cloud fetches the image without credentials: the URL must be readable by anyone"
            }
            Self::BadRedirect { .. }
            | Self::RedirectLoop { .. }
            | Self::TooManyRedirects { .. } => "give the URL at which the redirects end",
            Self::Answer { status: 404 | 410, .. } => {
                "nothing is at this address: is there a typing error in it, or has the image moved?"
            }
            Self::Network { source, .. } if speaks_plain_http(source.as_ref()) => {
                "this port seems to speak plain http: try http:// instead of https://"
            }
            Self::Network { method: "HEAD", .. } => {
                "-skip-url-check goes on where only the cloud can reach the URL; -file uploads a file \
                 from here"
            }
            Self::Unfit { unfit, .. } => unfit.hint().unwrap_or_default(),
            Self::NoInput => "did the command before the pipe fail?",
            Self::NotAFile(_) => "use `-file -` to read an image from a pipe",
            Self::Spool { source, .. } if is_full(source) => {
                "set TMPDIR to a folder with more room, or publish a file"
            }
            Self::Spool { .. } => "set TMPDIR to another folder",
            Self::SidecarConflict { .. } => {
                "these files must agree: have them mended, or download the image, compare it yourself, \
                 and publish it with -file and -sha256"
            }
            Self::Changed { .. } | Self::FileChanged(_) => {
                "wait until whoever writes the image has finished, and run the same command again"
            }
            _ => "",
        };
        if hint.is_empty() { Vec::new() } else { vec![hint.to_owned()] }
    }
}

/// Whether what answered a TLS greeting was no TLS at all.
fn speaks_plain_http(error: &(dyn std::error::Error + 'static)) -> bool {
    crate::fault::chain(error).contains("InvalidContentType")
}

/// Whether the system says that there is no room (disk, quota or size limit).
pub(super) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::image::Alien;

    #[test]
    fn the_class_follows_who_is_at_fault() {
        let answer = |status| SourceError::Answer { method: "HEAD", url: "u".into(), status };
        let table = [
            (answer(404), Class::NotFound),
            (answer(403), Class::Refused),
            (answer(503), Class::Transient),
            (answer(429), Class::Transient),
            (SourceError::NoLength("u".into()), Class::Refused),
            (
                SourceError::Cut { url: "u".into(), got: 1, expected: 2, source: None },
                Class::Transient,
            ),
            (SourceError::Lost("hashes"), Class::Bug),
        ];
        for (error, want) in table {
            assert_eq!(error.class(), want, "{error}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_asked_has_a_hint() {
        let network = |method, why: &str| SourceError::Network {
            method,
            url: "https://h/x".into(),
            source: why.into(),
        };
        let answer = |status| SourceError::Answer { method: "HEAD", url: "u".into(), status };
        let tls = "received corrupt message of type InvalidContentType";
        for (error, word) in [
            (network("HEAD", "connection refused"), "-skip-url-check"),
            (network("HEAD", tls), "plain http"),
            (answer(404), "typing error"),
            (answer(403), "readable by anyone"),
            (SourceError::NoInput, "before the pipe"),
        ] {
            assert!(error.hints()[0].contains(word), "{error}: {:?}", error.hints());
        }
        assert_eq!(network("GET", "connection refused").hints(), [""; 0]);
    }

    #[test]
    fn hints_say_what_to_do() {
        let unfit = Unfit::Alien(Alien::Gzip);
        let error = SourceError::Unfit { thing: "a.gz".into(), unfit };
        assert_eq!(error.to_string(), "a.gz cannot be published: it is compressed with gzip");
        assert!(error.hints()[0].contains("decompress"));
        assert!(error.about("stdin").to_string().starts_with("stdin cannot be published"));
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = SourceError::Spool { dir: "/tmp".into(), written: 7, source: full };
        assert!(error.to_string().contains("/tmp"), "{error}");
        assert!(error.hints()[0].contains("TMPDIR"));
    }
}
