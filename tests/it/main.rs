//! The one test binary: programs and rooms over real HTTP against the embedded cloud.
