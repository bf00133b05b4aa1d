//! The flags of `capvco-backup verify`.

use std::path::PathBuf;

use capvco::backup::verify::{self, Which};
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{IdentityArgs, OwnClusterArgs, S3Args};

#[derive(Debug, Args)]
pub struct VerifyFlags {
    /// The backups, by the names that `list` shows [default: the newest of each cluster]
    #[arg(value_name = "BACKUP", conflicts_with = "all")]
    backups: Vec<String>,

    /// All of them
    #[arg(long)]
    all: bool,

    /// Look from outside only: manifest, sizes, sums, locks, and whether the identity opens it
    #[arg(long)]
    quick: bool,

    /// Where the database is unpacked, into a file without a name that only this process can read
    /// [default: where temporary files go]
    #[arg(long, value_name = "DIR")]
    staging: Option<PathBuf>,

    #[command(flatten)]
    identities: IdentityArgs,

    #[command(flatten)]
    cluster: OwnClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl VerifyFlags {
    fn which(&self) -> Which {
        match (self.all, &self.backups[..]) {
            (true, _) => Which::All,
            (false, []) => Which::Newest,
            (false, names) => Which::Named(names.to_vec()),
        }
    }
}

pub async fn run(flags: &VerifyFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = verify::Request {
        target: flags.s3.target(session)?,
        cluster: flags.cluster.id(session).await?,
        which: flags.which(),
        quick: flags.quick,
        identities: flags.identities.read(session).await?,
        staging: flags.staging.clone(),
    };
    let (clock, progress) = (clock::System::shared(), session.progress.clone());
    let report = verify::run(&request, clock, progress, &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
