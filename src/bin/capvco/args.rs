//! The command line of `capvco`.

use capvco::cli::{Flags, Talk};
use clap::{Parser, Subcommand};

use crate::release::ReleaseArgs;

/// The Cluster API provider for whitesky.cloud
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

impl Flags for Args {
    fn talk(&self) -> Talk {
        Talk::default()
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write what a release consists of
    Release(ReleaseArgs),
}
