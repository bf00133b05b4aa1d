//! The room `publish`.
pub mod image;
pub mod source;
