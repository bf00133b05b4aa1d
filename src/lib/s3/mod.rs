//! Object storage: the only room that speaks S3.
//!
//! **May enter:** `fault`, `clock`; the AWS SDK only here.
//!
//! **Invariants**
//! - A put is believed only when its answer is read; a lock only when it is read back.
//! - Every put and every part carries a checksum as a header, unless switched off.
//! - What is deleted is deleted by version id; a delete marker never counts as freed space.
//! - Retries have a count and a time budget, are jittered, and each attempt is signed anew.
//! - Keys and secrets never reach a log, an error or `Debug`.
//!
//! **To add a call:** put a method on `Bucket` into the file of its noun, send it through the
//! room's one retry, and give every code it can answer a sentence in `error`.
