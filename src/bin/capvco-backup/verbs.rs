//! The verbs of `capvco-backup`: one line here, one file of flags, one place in `run`.

use capvco::cli::args::Talk;
use capvco::cli::{Flags, Session};
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::{Parser, Subcommand};

use crate::{bucket, check, drill, freshness, hold, list, prune, rekey, restore, snapshot, verify};

const AFTER: &str = "\
Options have variables as well: --claim-age is CAPVCO_BACKUP_CLAIM_AGE, --endpoints is
ETCDCTL_ENDPOINTS; none have --dry-run, --plan, --output, --quiet, --verbose and --color. Keys for
S3 come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the other usual places.

Exit codes: 0 done; 1 what was to be shown is not so; 2 wrong flags; 3 refused before anything was
changed; 4 etcd or the S3 server failed, try again later; 5 failed, and something was left behind.";

/// Backups of etcd in object storage: verified, encrypted, under lock; and the way back
#[derive(Debug, Parser)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Try everything that a backup will need, and say in one table what would go wrong
    Check(Box<check::CheckFlags>),
    /// Make a bucket with locking for backups
    #[command(subcommand)]
    Bucket(Box<bucket::Verb>),
    /// Take a snapshot of etcd, into a bucket under lock or into a file
    Snapshot(Box<snapshot::SnapshotFlags>),
    /// Say what backups there are, and what is in them
    List(Box<list::ListFlags>),
    /// Say how old the newest good backup is, and whether that is too old
    Status(Box<freshness::StatusFlags>),
    /// Hold a backup against its manifest, down to the database's structure
    Verify(Box<verify::VerifyFlags>),
    /// Make a data directory, a database file or a node's keys of a backup
    Restore(Box<restore::RestoreFlags>),
    /// Prove a backup by a throw-away etcd that serves it, and measure how long that takes
    Drill(Box<drill::DrillFlags>),
    /// Remove backups that no rule keeps, and what was left behind
    Prune(Box<prune::PruneFlags>),
    /// Put a legal hold on a backup, or take it off
    #[command(subcommand)]
    Hold(Box<hold::Verb>),
    /// Encrypt backups anew, to other recipients
    Rekey(Box<rekey::RekeyFlags>),
}

impl Flags for Args {
    fn talk(&self) -> Talk {
        match &self.verb {
            Verb::Check(flags) => flags.output.talk(),
            Verb::Bucket(verb) => verb.flags().output.talk(),
            Verb::List(flags) => flags.output.talk(),
            Verb::Status(flags) => flags.output.talk(),
            Verb::Verify(flags) => flags.output.talk(),
            Verb::Restore(flags) => flags.output.talk(),
            Verb::Drill(flags) => flags.output.talk(),
            Verb::Prune(flags) => flags.output.talk(),
            Verb::Rekey(flags) => flags.output.talk(),
            Verb::Snapshot(flags) => flags.output.talk(),
            Verb::Hold(verb) => verb.flags().output.talk(),
        }
    }
}

/// Does what is asked.
pub async fn run(args: Args, session: Session) -> Result<Verdict, Box<dyn Fault>> {
    match args.verb {
        Verb::Check(flags) => check::run(&flags, &session).await,
        Verb::Bucket(verb) => bucket::run(&verb, &session).await,
        Verb::List(flags) => list::run(&flags, &session).await,
        Verb::Status(flags) => freshness::run(&flags, &session).await,
        Verb::Verify(flags) => verify::run(&flags, &session).await,
        Verb::Restore(flags) => restore::run(&flags, &session).await,
        Verb::Prune(flags) => prune::run(&flags, &session).await,
        Verb::Rekey(flags) => Box::pin(rekey::run(&flags, &session)).await,
        Verb::Snapshot(flags) => Box::pin(snapshot::run(&flags, &session)).await,
        Verb::Drill(flags) => Box::pin(drill::run(&flags, &session)).await,
        Verb::Hold(verb) => hold::run(&verb, &session).await,
    }
}
