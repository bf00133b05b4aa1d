//! The flags of `capvco-backup snapshot`.

use std::path::PathBuf;
use std::time::Duration;

use capvco::backup::snapshot::{self, Allow, Request};
use capvco::backup::{Error, Layers};
use capvco::cli::args::{duration, time_limit};
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{EtcdArgs, KeysArgs, LockArgs, RecipientArgs, S3Args};

#[derive(Debug, Args)]
pub struct SnapshotFlags {
    /// Also, or instead of a bucket, write it here (as it is stored: compressed and encrypted);
    /// nothing is overwritten
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Share one backup with the other nodes of the schedule: all runs within this time, counted
    /// from midnight UTC, make one together
    #[arg(long, value_name = "TIME", value_parser = duration)]
    slot: Option<Duration>,

    /// How long another node's claim on a slot holds before this one takes over
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    claim_age: Duration,

    /// Do not compress
    #[arg(long)]
    no_compress: bool,

    /// How hard zstd tries
    #[arg(long, value_name = "LEVEL", default_value = "3", conflicts_with = "no_compress",
          value_parser = clap::value_parser!(i32).range(1..=9))]
    compression_level: i32,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    member: MemberArgs,

    #[command(flatten)]
    node: NodeArgs,

    #[command(flatten)]
    etcd: EtcdArgs,

    #[command(flatten)]
    recipients: RecipientArgs,

    /// Store it readable for everybody who may read the bucket
    #[arg(long, help_heading = "Encryption")]
    no_encrypt: bool,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which members may be taken.
#[derive(Debug, Args)]
#[command(next_help_heading = "etcd", about = None, long_about = None)]
struct MemberArgs {
    /// Take it although an alarm is raised
    #[arg(long)]
    allow_alarm: bool,

    /// Take it although the cluster has no leader
    #[arg(long)]
    allow_no_leader: bool,

    /// Take it from a learner
    #[arg(long)]
    allow_learner: bool,

    /// How many log entries a member may be behind
    #[arg(long, value_name = "ENTRIES", default_value = "1000")]
    allow_lag: u64,

    /// How long a member may send nothing
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time_limit)]
    idle_timeout: Duration,
}

/// What of the machine goes along.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node", about = None, long_about = None)]
struct NodeArgs {
    #[command(flatten)]
    keys: KeysArgs,

    /// The node's name [default: as its manifests or the machine say]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

impl SnapshotFlags {
    async fn request(&self, session: &Session) -> Result<Request, Error> {
        let store = if self.s3.is_given() { Some(self.s3.target(session)?) } else { None };
        let recipients = self.recipients.read(session).await?;
        let level = (!self.no_compress).then_some(self.compression_level);
        Request {
            etcd: self.etcd.given(),
            store,
            out: self.out.clone(),
            slot: self.slot,
            claim_age: self.claim_age,
            layers: Layers { level, recipients },
            no_encrypt: self.no_encrypt,
            include_pki: self.node.keys.include_pki,
            pki_dir: self.node.keys.pki_dir.clone(),
            lock: self.lock.wish()?,
            lock_unverified_ok: self.lock.lock_unverified_ok,
            allow: Allow {
                alarm: self.member.allow_alarm,
                no_leader: self.member.allow_no_leader,
                learner: self.member.allow_learner,
                lag: self.member.allow_lag,
            },
            idle_timeout: self.member.idle_timeout,
            node: self.node.node.clone(),
            tool: session.user_agent.replacen('/', " ", 1),
            dry_run: self.dry_run,
        }
        .checked()
    }
}

pub async fn run(flags: &SnapshotFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = flags.request(session).await?;
    let (clock, progress) = (clock::System::shared(), session.progress.clone());
    let run = snapshot::run(&request, clock, progress, &session.cancel);
    let report = Box::pin(run).await?;
    Ok(session.print(&report, flags.output.output))
}
