//! The flags of `capvco-backup drill`.

use std::path::PathBuf;
use std::time::Duration;

use capvco::backup::drill;
use capvco::backup::restore::Which;
use capvco::cli::args::time_limit;
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{ClusterArgs, IdentityArgs, S3Args};

#[derive(Debug, Args)]
pub struct DrillFlags {
    /// The backup, by the name that `list` shows [default: the newest good one]
    #[arg(value_name = "BACKUP")]
    backup: Option<String>,

    /// The etcd to start: the one that the cluster runs, or a newer one
    #[arg(long, value_name = "FILE", default_value = "etcd")]
    etcd: PathBuf,

    /// Where it is all done; needs room for three times the database [default: where temporary
    /// files go]
    #[arg(long, value_name = "DIR")]
    staging: Option<PathBuf>,

    /// How long etcd may take to serve
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time_limit)]
    start_timeout: Duration,

    #[command(flatten)]
    identities: IdentityArgs,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

pub async fn run(flags: &DrillFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let which = match &flags.backup {
        Some(name) => Which::Object { key: name.clone(), version: None },
        None => Which::Newest,
    };
    let request = drill::Request {
        target: flags.s3.target(session)?,
        cluster: flags.cluster.cluster,
        which,
        identities: flags.identities.read(session).await?,
        etcd: flags.etcd.clone(),
        staging: flags.staging.clone(),
        patience: flags.start_timeout,
    };
    let (clock, progress) = (clock::System::shared(), session.progress.clone());
    let report = drill::run(&request, clock, progress, &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
