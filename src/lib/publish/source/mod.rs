//! Where an image comes from: a URL that the cloud will fetch, or a local file that we upload.
//!
//! Purpose: to know before anything is sent whether the source is an image, how long it is and
//! what its bytes add up to. [`Probe`] looks at URLs the way the cloud will (vco-api.md 3.2,
//! G8S: HEAD first, then GET), [`check_file`] at files, [`spool()`] keeps what comes through a
//! pipe.
//!
//! What may enter: `reqwest`, in this folder only; `vco` for its TLS set-up.
//!
//! Invariants: the client here never carries a token of the cloud; a URL is shown only with its
//! user info and query blanked; memory does not grow with the image; every wait is bounded on
//! the caller's clock. One more place to look for checksums: a row in `sidecar.rs`.

mod digest;
mod download;
mod error;
mod file;
mod probe;
mod sidecar;
mod spool;
mod url;

pub use digest::Digests;
pub use error::SourceError;
pub use file::{FileFacts, Stamp, check_file, digest_file};
pub use probe::{Probe, UrlFacts};
pub use sidecar::{Found, Sidecars};
pub use spool::{Spooled, spool};
pub use url::{parse, shown};
