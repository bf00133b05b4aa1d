//! The flags of `capvco-backup hold`.

use capvco::backup::{Error, hold};
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::{Args, Subcommand};

use crate::args::{ClusterArgs, S3Args};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// From now on nobody can delete it, until the hold is taken off
    Add(HoldFlags),
    /// Only its lock protects it from now on
    Remove(HoldFlags),
}

#[derive(Debug, Args)]
pub struct HoldFlags {
    /// The backups, by the names that `list` shows
    #[arg(value_name = "BACKUP", required = true)]
    backups: Vec<String>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl Verb {
    pub fn flags(&self) -> &HoldFlags {
        match self {
            Self::Add(flags) | Self::Remove(flags) => flags,
        }
    }

    fn request(&self, session: &Session) -> Result<hold::Request, Error> {
        let flags = self.flags();
        Ok(hold::Request {
            target: flags.s3.target(session)?,
            backups: flags.backups.clone(),
            cluster: flags.cluster.cluster,
            on: matches!(self, Self::Add(_)),
            dry_run: flags.dry_run,
        })
    }
}

pub async fn run(verb: &Verb, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = verb.request(session)?;
    let report = hold::run(&request, clock::System::shared(), &session.cancel).await?;
    Ok(session.print(&report, verb.flags().output.output))
}
