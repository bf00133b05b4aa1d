//! What a machine is told when it boots, made of what Cluster API's bootstrap provider wrote.
//!
//! **May enter:** `fault`, `yaml`; the jinja only here.
//!
//! **Invariants**
//! - Pure: no clock, no I/O, no environment; the same text gives the same result.
//! - What comes in holds secrets (join tokens, keys). No error, and no `Debug`, shows any of it:
//!   errors name a line and a kind of mistake.
//! - Rendering is bounded in time and memory, because anybody who may make a machine may write
//!   the text.
//!
//! **To add a form of bootstrap data:** a file of its own, with a function from text to what is
//! sent, and an error type that implements `Fault`.

pub mod cloud_init;
