//! The flags of `capvco-backup drill`.

use std::path::PathBuf;
use std::time::Duration;

use capvco::backup::{Error, drill};
use capvco::cli::args::time_limit;
use capvco::cli::{OutputArgs, Session, env};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{ClusterArgs, IdentityArgs, S3Args};
use crate::restore::WhichArgs;

#[derive(Debug, Args)]
pub struct DrillFlags {
    /// The etcd to start: the cluster's version or newer
    #[arg(long, value_name = "FILE", default_value = "etcd")]
    etcd: PathBuf,

    /// Where there is room for the database twice, in a folder that is removed afterwards
    /// [default: where temporary files go]
    #[arg(long, value_name = "DIR")]
    staging: Option<PathBuf>,

    /// How long etcd may take until it serves
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time_limit)]
    start_timeout: Duration,

    #[command(flatten)]
    which: WhichArgs,

    #[command(flatten)]
    identities: IdentityArgs,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl DrillFlags {
    async fn request(&self, session: &Session) -> Result<drill::Request, Error> {
        Ok(drill::Request {
            source: self.which.source(&self.s3, &self.cluster, session)?,
            etcd: env::program(&self.etcd),
            staging: self.staging.clone(),
            start_timeout: self.start_timeout,
            skip_hash_check: self.which.skip_hash_check,
            // Last: somebody may have to type a passphrase.
            identities: self.identities.read(session).await?,
        })
    }
}

pub async fn run(flags: &DrillFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = flags.request(session).await?;
    let (clock, progress) = (clock::System::shared(), session.progress.clone());
    let report = drill::run(&request, clock, progress, &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
