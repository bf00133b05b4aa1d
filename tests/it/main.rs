//! The one test binary: programs and rooms over real HTTP against the embedded cloud.

mod house;
mod shape;
#[expect(dead_code, reason = "shared vocabulary: not every test uses every word")]
mod support;
