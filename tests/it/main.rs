//! The one test binary: programs and rooms over real HTTP against the embedded cloud.

#![allow(clippy::unwrap_used, reason = "a test, and what serves it, may stop at any surprise")]

mod house;
mod publish;
mod resolve;
mod shape;
mod sim_images;
mod source_download;
mod source_url;
#[expect(dead_code, reason = "shared vocabulary: not every test uses every word")]
mod support;
mod vco_client;
