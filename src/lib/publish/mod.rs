//! Publishing: one image, from a URL or a file, usable under one name in many locations.
//!
//! **Purpose.** The whole job of `capvco-imagepublish`, in five stations: [`request`] is what was
//! asked; `observe` looks at the source and at every location, all at once, and finds everything
//! that is wrong before anything is sent; [`plan`] decides, purely, what each location needs;
//! `apply` does it side by side; [`report`] says how it ended.
//!
//! **What may enter.** The ground rooms and `vco`. [`source`] and [`image`] know URLs, files and
//! image formats and nothing of the cloud; `apply` is the only part that changes anything.
//!
//! **Invariants.** An image is known by its content: [`mark`] writes digest and run into `tags`,
//! and an image without that mark is never removed. A new image is found again by its run, never
//! by its place in a list. After a create whose outcome is unknown we look before we decide. The
//! old image of a replacement goes last. Nothing that was left behind goes unsaid.
//!
//! **How to add one more.** A check of the inputs by themselves: a line in [`request`]; a check
//! against the world: one in `observe`. Something to decide: a case in [`plan`] and a row in its
//! table. A result word: a variant of [`report::Outcome`], which is a published interface.

pub mod content;
pub mod error;
pub mod image;
pub mod mark;
pub mod plan;
pub mod report;
pub mod request;
pub mod source;
pub mod state;

pub use error::{Error, Problem};
pub use report::PublishReport;
pub use request::{Inputs, Request};
