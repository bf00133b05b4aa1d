//! The flags of `capvco-backup prune`.

use capvco::backup::{Error, Keep, UNLIMITED, Within, prune};
use capvco::cli::{OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::Args;

use crate::args::{OwnClusterArgs, S3Args};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PruneFlags {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    /// Nothing at all below the prefix is fine
    #[arg(long)]
    allow_empty: bool,

    /// The cluster that --cluster names is gone for good: all its backups go, the newest good one
    /// as well, each when its lock is over; other clusters' are not touched
    #[arg(long)]
    cluster_is_gone: bool,

    /// Remove the originals of the copies that `rekey` made, too: only an identity can tell that
    /// a copy is one, so `verify` them first
    #[arg(long)]
    remove_rekeyed: bool,

    #[command(flatten)]
    keep: KeepArgs,

    #[command(flatten)]
    cluster: OwnClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// restic's rules with restic's meaning, counted for each cluster, in UTC. What any of them keeps
/// is kept; the newest good backup is kept by all of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rules", about = None, long_about = None)]
struct KeepArgs {
    /// Keep the newest so many
    #[arg(long = "keep-last", value_name = "N", default_value = "0",
          hide_default_value = true, value_parser = count)]
    last: u32,

    /// Keep the newest of each of the last so many hours that have one
    #[arg(long = "keep-hourly", value_name = "N", default_value = "0",
          hide_default_value = true, value_parser = count)]
    hourly: u32,

    /// The same of days
    #[arg(long = "keep-daily", value_name = "N", default_value = "0",
          hide_default_value = true, value_parser = count)]
    daily: u32,

    /// The same of weeks, which begin on Monday
    #[arg(long = "keep-weekly", value_name = "N", default_value = "0",
          hide_default_value = true, value_parser = count)]
    weekly: u32,

    /// The same of months
    #[arg(long = "keep-monthly", value_name = "N", default_value = "0",
          hide_default_value = true, value_parser = count)]
    monthly: u32,

    /// Keep all that are not older than this, counted from the newest, such as 7d or 1y6m
    #[arg(long = "keep-within", value_name = "TIME")]
    within: Option<Within>,
}

/// A count, or restic's `unlimited`.
fn count(text: &str) -> Result<u32, String> {
    if text == "unlimited" || text == "-1" {
        return Ok(UNLIMITED);
    }
    let number = text.parse().ok().filter(|number| *number < UNLIMITED);
    number.ok_or_else(|| format!("{text:?} is neither a count nor `unlimited`"))
}

impl KeepArgs {
    fn keep(&self) -> Keep {
        Keep {
            last: self.last,
            hourly: self.hourly,
            daily: self.daily,
            weekly: self.weekly,
            monthly: self.monthly,
            within: self.within,
        }
    }
}

pub async fn run(flags: &PruneFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    if flags.cluster_is_gone && flags.cluster.is_own() {
        let what = "a cluster that this node is a member of is not gone";
        return Err(Error::asked(what, "name the one that is with --cluster ID").into());
    }
    let request = prune::Request {
        target: flags.s3.target(session)?,
        cluster: flags.cluster.id(session).await?,
        gone: flags.cluster_is_gone,
        keep: flags.keep.keep(),
        remove_rekeyed: flags.remove_rekeyed,
        allow_empty: flags.allow_empty,
        dry_run: flags.dry_run,
    }
    .checked()?;
    let (clock, progress) = (clock::System::shared(), session.progress.as_ref());
    let report = prune::run(&request, clock, progress, &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
