//! `capvco-backup`: etcd to object storage under lock, and back.

fn main() {}
