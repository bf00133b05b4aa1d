//! The room `resolve`.
