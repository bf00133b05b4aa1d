//! Object storage: the only room that speaks S3.
//!
//! **May enter:** `fault`, `clock`; the AWS SDK only here.
//!
//! **Invariants**
//! - A put is believed only when its answer is read; a lock only when it is read back.
//! - Every put and every part carries a checksum as a header, unless switched off.
//! - What is deleted is deleted by version id; a delete marker never counts as freed space.
//! - Retries have a count and a time budget, are jittered, and each attempt is signed anew; the
//!   SDK's own are off (`retry` says why).
//! - Nothing waits for a total time: what counts is how long nothing moved (`wire`).
//! - Keys and secrets never reach a log, an error or `Debug`.
//!
//! **To add a call:** put a method on [`Bucket`] into the file of its noun, send it through the
//! room's one retry (`Bucket::run`), and give every code it can answer a sentence in `codes`.

mod body;
mod bucket;
mod call;
mod checksum;
mod client;
mod codes;
mod config;
mod date;
mod doubt;
mod error;
mod judge;
mod lock;
mod names;
mod object;
mod pace;
mod paging;
pub mod part_size;
mod put;
mod retry;
mod roots;
mod settings;
mod unfinished;
mod upload;
mod versions;
mod whole;
mod wire;

pub use body::Body;
pub use bucket::Made;
pub use client::Bucket;
pub use codes::POLICY;
pub use config::{Checksum, Config, STALL_TIMEOUT};
pub use error::{Error, Kind};
pub use lock::{Hold, LockConfig, Mode, Retention};
pub use object::{Deleted, Head};
pub use put::{Put, PutOutcome, Stored};
pub use unfinished::Unfinished;
pub use upload::Upload;
pub use versions::Version;
