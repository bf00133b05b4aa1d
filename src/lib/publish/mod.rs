//! The room `publish`.
