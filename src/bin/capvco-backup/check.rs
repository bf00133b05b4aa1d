//! The flags of `capvco-backup check`.

use capvco::backup::{Error, check};
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{EtcdArgs, IdentityArgs, KeysArgs, LockArgs, RecipientArgs, S3Args};

#[derive(Debug, Args)]
pub struct CheckFlags {
    #[command(flatten)]
    etcd: EtcdArgs,

    #[command(flatten)]
    keys: KeysArgs,

    #[command(flatten)]
    recipients: RecipientArgs,

    /// Backups are to be readable for everybody who may read the bucket
    #[arg(long, help_heading = "Encryption")]
    no_encrypt: bool,

    #[command(flatten)]
    identities: IdentityArgs,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl CheckFlags {
    async fn request(&self, session: &Session) -> Result<check::Request, Error> {
        let (recipients, recipients_files) = self.recipients.given();
        Ok(check::Request {
            target: self.s3.target(session)?,
            lock: self.lock.wish()?,
            lock_unverified_ok: self.lock.lock_unverified_ok,
            etcd: self.etcd.given(),
            pki_dir: self.keys.pki_dir.clone(),
            include_pki: self.keys.include_pki,
            recipients,
            recipients_files,
            identities: self.identities.read(session).await?,
            no_encrypt: self.no_encrypt,
        })
    }
}

pub async fn run(flags: &CheckFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = flags.request(session).await?;
    let (clock, progress) = (clock::System::shared(), session.progress.clone());
    let report = check::run(&request, clock, progress, &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
