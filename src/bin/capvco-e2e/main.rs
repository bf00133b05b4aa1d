//! The program `capvco-e2e`.

fn main() {}
