//! The flags of `capvco-backup list`.

use capvco::backup::list;
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{IdentityArgs, OwnClusterArgs, S3Args};

#[derive(Debug, Args)]
pub struct ListFlags {
    /// Every version: manifests that were written over or hidden, and data without one
    #[arg(long)]
    all_versions: bool,

    #[command(flatten)]
    identities: IdentityArgs,

    #[command(flatten)]
    cluster: OwnClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

pub async fn run(flags: &ListFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = list::Request {
        target: flags.s3.target(session)?,
        cluster: flags.cluster.id(session).await?,
        all_versions: flags.all_versions,
        identities: flags.identities.read(session).await?,
    };
    let report = list::run(&request, clock::System::shared(), &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
