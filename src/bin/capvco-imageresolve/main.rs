//! The program `capvco-imageresolve`.

fn main() {}
