//! The flags of `capvco-backup rekey`.

use capvco::backup::{Error, rekey};
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{ClusterArgs, IdentityArgs, LockArgs, RecipientArgs, S3Args};

#[derive(Debug, Args)]
pub struct RekeyFlags {
    /// The backups, by the names that `list` shows
    #[arg(value_name = "BACKUP", required_unless_present = "all", conflicts_with = "all")]
    backups: Vec<String>,

    /// All that are not encrypted to these recipients
    #[arg(long)]
    all: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    identities: IdentityArgs,

    #[command(flatten)]
    recipients: RecipientArgs,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl RekeyFlags {
    async fn request(&self, session: &Session) -> Result<rekey::Request, Error> {
        let recipients = self.recipients.read(session).await?.ok_or_else(|| {
            Error::asked(
                "no recipient is given",
                "say --recipient KEY or --recipients-file FILE: all whom it is to be encrypted to",
            )
        })?;
        Ok(rekey::Request {
            target: self.s3.target(session)?,
            cluster: self.cluster.cluster,
            backups: self.backups.clone(),
            identities: self.identities.read(session).await?,
            recipients,
            lock: self.lock.wish()?,
            lock_unverified_ok: self.lock.lock_unverified_ok,
            tool: session.user_agent.replacen('/', " ", 1),
            dry_run: self.dry_run,
        })
    }
}

pub async fn run(flags: &RekeyFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = flags.request(session).await?;
    let (clock, progress) = (clock::System::shared(), session.progress.as_ref());
    let report = rekey::run(&request, clock, progress, &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
