//! The program `capvco-imagepublish`.

fn main() {}
