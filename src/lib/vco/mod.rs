//! The room `vco`.
