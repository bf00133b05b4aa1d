//! The command line of `capvco`.

use capvco::cli::{Flags, Talk};
use clap::{Parser, Subcommand};

use crate::manager::ManagerArgs;
use crate::release::ReleaseArgs;

/// The Cluster API provider for whitesky.cloud
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

impl Flags for Args {
    fn talk(&self) -> Talk {
        match &self.verb {
            Verb::Manager(args) => Talk { verbose: args.verbose, ..Talk::default() },
            Verb::Release(_) => Talk::default(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the controllers, in a management cluster or beside it
    Manager(Box<ManagerArgs>),

    /// Write what a release consists of
    Release(ReleaseArgs),
}
