//! The door: everything that a terminal needs, and nothing that a tool needs.
//!
//! **Purpose.** A program's `main.rs` calls [`run`], which turns the command line into flags,
//! gives the program a [`Session`], and maps what comes back to an exit code. The manners are
//! the same in every program because they live here: stdout carries data only, stderr carries
//! progress, logs, `error:`, `caused by:` and `hint:`.
//!
//! **What may enter.** From our own rooms only `fault`, `near`, `progress` and `report`. This is the
//! only room that reads the environment ([`mod@env`]), knows clap, indicatif and comfy-table, and
//! writes to the terminal. The door knows no clock: a program lends it one ([`Program`]).
//!
//! **Invariants.** Nothing starts before the command line is understood (`--version` costs no
//! runtime). Writing to a closed stdout is no failure. A secret is never an argument and never
//! printed. Text of the other side is shown without its control characters.
//!
//! **How to add one more.** A flag that several programs share: a field in [`args`]. A variable:
//! a constant and a row in [`mod@env`]. An output format: a variant of [`args::Format`] and its arm
//! in [`mod@print`]. A program: a `clap::Parser` beside its `main.rs` that implements [`Flags`].

pub mod args;
pub mod diagnose;
pub mod env;
pub mod exit;
pub mod goflags;
pub mod log;
pub mod main;
pub mod passphrase;
pub mod print;
mod progress;
mod signals;
mod terminal;
mod variables;

pub use args::{CloudArgs, Format, LogFormat, OutputArgs, Talk};
pub use main::{Flags, Program, Session, run};
