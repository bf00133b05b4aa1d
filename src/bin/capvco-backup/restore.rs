//! The flags of `capvco-backup restore`.

use std::path::{Path, PathBuf};

use capvco::backup::restore::{
    self, BUMP, Engine, MemberWish, Output, Request, Source, Version, Which, initial_cluster,
};
use capvco::backup::{Error, Manifests};
use capvco::cli::args::Format;
use capvco::cli::{OutputArgs, Session, env};
use capvco::clock;
use capvco::fault::Fault;
use capvco::report::Verdict;
use clap::{ArgAction, Args, ValueEnum};
use jiff::Timestamp;

use crate::args::{ClusterArgs, IdentityArgs, S3Args};

#[derive(Debug, Args)]
pub struct RestoreFlags {
    #[command(flatten)]
    into: IntoArgs,

    #[command(flatten)]
    which: WhichArgs,

    #[command(flatten)]
    identities: IdentityArgs,

    #[command(flatten)]
    member: MemberArgs,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// Into what.
#[derive(Debug, Args)]
struct IntoArgs {
    /// Make a data directory that etcd starts from; what is there is moved to `DIR.bak-<time>`
    #[arg(long, value_name = "DIR", conflicts_with = "db")]
    data_dir: Option<PathBuf>,

    /// Write the database alone, as `etcdutl snapshot restore` takes it
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,

    /// Unpack the node's keys and manifests below this folder; may be all that is asked for
    #[arg(long, value_name = "DIR")]
    pki: Option<PathBuf>,

    /// Only say what would be done, and what would remain to be done, for this node
    #[arg(long)]
    plan: bool,

    /// Who makes the data directory
    #[arg(long, value_enum, value_name = "NAME", default_value = "native")]
    engine: EngineName,

    /// etcd's own tool, for --engine etcdutl
    #[arg(long, value_name = "FILE", default_value = "etcdutl")]
    etcdutl: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    Native,
    Etcdutl,
}

/// Which backup.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which backup", about = None, long_about = None)]
pub struct WhichArgs {
    /// This one: a name that `list` shows, or an object's key [default: the newest good one]
    #[arg(long, value_name = "KEY", conflicts_with_all = ["at", "from"])]
    object: Option<String>,

    /// This version of it; alone: the backup that has an object of this version
    #[arg(long, value_name = "ID", conflicts_with_all = ["at", "from"])]
    version_id: Option<String>,

    /// The newest good one whose snapshot was taken at this moment or before, such as
    /// 2026-11-30T12:00:00Z: UTC unless said, a date alone is its midnight. What counts is when the
    /// snapshot began, which is some minutes after the time in its name where nodes share a
    /// schedule
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "from")]
    at: Option<Timestamp>,

    /// No bucket but this file, `-` for stdin: a snapshot of etcd, as it is, compressed by zstd,
    /// encrypted by age, or both
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Take a database that carries no SHA-256, such as a copied member/snap/db
    #[arg(long)]
    pub skip_hash_check: bool,
}

impl WhichArgs {
    /// Where the data comes from.
    pub fn source(
        &self,
        s3: &S3Args,
        cluster: &ClusterArgs,
        session: &Session,
    ) -> Result<Source, Error> {
        if let Some(path) = &self.from {
            let stdin = path == Path::new("-");
            return Ok(if stdin { Source::Stdin } else { Source::File(path.clone()) });
        }
        let target = Box::new(s3.target(session)?);
        Ok(Source::Bucket { target, cluster: cluster.cluster, which: self.which() })
    }

    fn which(&self) -> Which {
        match (&self.object, &self.version_id, &self.at) {
            (Some(key), version, _) => Which::Object { key: key.clone(), version: version.clone() },
            (None, Some(id), _) => Which::Version(id.clone()),
            (None, None, Some(time)) => Which::At(*time),
            (None, None, None) => Which::Newest,
        }
    }
}

/// A moment, in UTC unless it says otherwise.
fn time(text: &str) -> Result<Timestamp, String> {
    let utc = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let read = text.parse().ok().or_else(|| utc().map(|zoned| zoned.timestamp()));
    read.ok_or_else(|| format!("{text:?} is no moment; write 2026-11-30T12:00:00Z"))
}

/// Which member of which cluster the data directory will be.
#[derive(Debug, Args)]
#[command(next_help_heading = "Member", about = None, long_about = None)]
struct MemberArgs {
    /// The member's name [default: this node's, as etcd.yaml says; else `default`]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// All members of the new cluster, NAME=URL,NAME=URL [default: this one alone]
    #[arg(long, value_name = "LIST")]
    initial_cluster: Option<String>,

    /// Where its peers reach it [default: as etcd.yaml says; else `http://localhost:2380`]
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    initial_advertise_peer_urls: Vec<String>,

    /// A word that all members of the new cluster are given [default: a fresh one]
    #[arg(long, value_name = "WORD")]
    initial_cluster_token: Option<String>,

    /// By how much the revision is raised, so that no client sees it go back; 0 leaves it
    #[arg(long, value_name = "N", default_value_t = BUMP)]
    bump_revision: u64,

    /// Mark what is before the raised revision as compacted, so that clients read anew
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    mark_compacted: bool,

    /// The etcd that will be started: one that is too old for the data is refused [default: as
    /// the image in etcd.yaml says]
    #[arg(long, value_name = "VERSION")]
    etcd_version: Option<Version>,

    /// Restore for an etcd that is too old as well
    #[arg(long)]
    force: bool,

    /// Where this node's static pods are described; a folder that is named must have an etcd.yaml
    /// [default: /etc/kubernetes/manifests]
    #[arg(long, value_name = "DIR")]
    manifests: Option<PathBuf>,
}

impl MemberArgs {
    fn wish(&self) -> Result<MemberWish, Error> {
        let cluster = self.initial_cluster.as_deref().map(initial_cluster).transpose();
        let cluster = cluster.map_err(|what| Error::asked(what, "as etcd's own flag has it"))?;
        Ok(MemberWish {
            name: self.name.clone(),
            initial_cluster: cluster.unwrap_or_default(),
            peer_urls: self.initial_advertise_peer_urls.clone(),
            token: self.initial_cluster_token.clone(),
            bump: (self.bump_revision > 0).then_some(self.bump_revision),
            mark_compacted: self.mark_compacted && self.bump_revision > 0,
            etcd_version: self.etcd_version,
            force: self.force,
        })
    }
}

impl RestoreFlags {
    async fn request(&self, session: &Session) -> Result<Request, Error> {
        Ok(Request {
            source: self.which.source(&self.s3, &self.cluster, session)?,
            output: self.output()?,
            pki: self.into.pki.clone(),
            manifests: Manifests::new(self.member.manifests.clone()),
            plan_only: self.into.plan,
            skip_hash_check: self.which.skip_hash_check,
            identity_files: self.identities.files().to_vec(),
            // Last: somebody may have to type a passphrase.
            identities: self.identities.read(session).await?,
        })
    }

    fn output(&self) -> Result<Option<Output>, Error> {
        let IntoArgs { data_dir, db, .. } = &self.into;
        if let Some(path) = db {
            return Ok(Some(Output::Db(path.clone())));
        }
        let Some(path) = data_dir.clone() else { return Ok(None) };
        let engine = match self.into.engine {
            EngineName::Native => Engine::Native,
            EngineName::Etcdutl => Engine::Etcdutl(env::program(&self.into.etcdutl)),
        };
        let member = Box::new(self.member.wish()?);
        Ok(Some(Output::DataDir { path, member, engine }))
    }
}

pub async fn run(flags: &RestoreFlags, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = flags.request(session).await?;
    let (clock, progress) = (clock::System::shared(), session.progress.clone());
    let report = restore::run(&request, clock, progress, &session.cancel).await?;
    Ok(match flags.output.output {
        Format::Table => session.print_text(&report, &report.text()),
        other => session.print(&report, other),
    })
}
