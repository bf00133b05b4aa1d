//! The room `sim`.
