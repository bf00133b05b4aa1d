//! The flags of `capvco-backup status`.

use std::path::PathBuf;
use std::time::Duration;

use capvco::backup::freshness;
use capvco::cli::args::duration;
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{OwnClusterArgs, S3Args};

#[derive(Debug, Args)]
pub struct StatusFlags {
    /// How old the newest good backup of each cluster may be, such as 8h; if it is older the
    /// program ends with 1
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_age: Option<Duration>,

    /// Also write metrics into this file, for the textfile collector of Prometheus' node exporter
    /// (it reads names that end with .prom, and so must this one)
    #[arg(long, value_name = "FILE", value_parser = prom)]
    textfile: Option<PathBuf>,

    #[command(flatten)]
    cluster: OwnClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// A file that the collector reads: any other would be written for nobody.
fn prom(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.extension().is_some_and(|end| end == "prom") {
        return Ok(path);
    }
    Err("node_exporter reads names that end with .prom only".to_owned())
}

pub async fn run(flags: &StatusFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = freshness::Request {
        target: flags.s3.target(session)?,
        cluster: flags.cluster.id(session).await?,
        max_age: flags.max_age,
        textfile: flags.textfile.clone(),
    };
    let report = freshness::run(&request, clock::System::shared(), &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
