//! The flags of `capvco-backup bucket`.

use std::path::PathBuf;

use capvco::backup::bucket::{
    self, CloudConfig, CloudRateLimit, Place, Portal, Publish, Request, Through, TokenSource,
};
use capvco::backup::{Error, Mode};
use capvco::cli::args::duration;
use capvco::cli::{self, CloudArgs, OutputArgs, Session};
use capvco::clock;
use capvco::fault::Fault;
use capvco::id::{CloudspaceId, Location};
use capvco::report::Verdict;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

use crate::args::S3Args;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make a bucket with locking for backups: on the portal (--objectspace) with its keys,
    /// elsewhere by plain S3. Run again it makes what is missing
    Create(BucketFlags),
}

#[derive(Debug, Args)]
pub struct BucketFlags {
    /// What every new object gets
    #[arg(long, value_enum, value_name = "MODE", default_value = "governance")]
    default_lock: DefaultLock,

    /// For how long, in whole days
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
    default_lock_for: Duration,

    /// After how many days the store itself ends unfinished uploads
    #[arg(long, value_name = "DAYS", default_value = "2",
          value_parser = clap::value_parser!(u32).range(1..=365))]
    abort_after_days: u32,

    /// Only say what would be made
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    portal: PortalArgs,

    #[command(flatten)]
    cloud: CloudArgs,

    #[command(flatten)]
    s3: S3Args,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where on the portal.
#[derive(Debug, Args)]
#[command(next_help_heading = "Portal", about = None, long_about = None)]
struct PortalArgs {
    /// The objectspace, by name or id; made if there is none of that name
    #[arg(long, value_name = "NAME", requires = "location")]
    objectspace: Option<String>,

    /// Where it is, or is to be: another place than the cluster's
    #[arg(long, value_name = "NAME")]
    location: Option<Location>,

    /// The public name of a new objectspace, such as s3.example.com: a name of yours, whose DNS
    /// record leads to the external address of the cloudspace of --through. S3 is then at
    /// `https://NAME` [default: none, it is reached from cloudspaces of its location that are linked
    /// to it on the portal]
    #[arg(long, value_name = "NAME", requires = "through")]
    domain: Option<String>,

    /// The cloudspace that publishes it under --domain: one of yours in the same location, which
    /// answers HTTPS for that name on its external address
    #[arg(long, value_name = "ID", requires = "domain")]
    through: Option<CloudspaceId>,

    /// Ask Let's Encrypt for its certificate, which writes to this address
    #[arg(long, value_name = "ADDRESS", requires = "domain")]
    letsencrypt_email: Option<String>,

    /// What the names of its two keys begin with
    #[arg(long, value_name = "NAME", default_value = "capvco-backup")]
    key_name: String,

    /// Where the key for the schedule is written to, for its owner only
    #[arg(long, value_name = "FILE", default_value = "backup-rw.env")]
    write_key_file: PathBuf,

    /// Where the key for restores is written to, for its owner only
    #[arg(long, value_name = "FILE", default_value = "backup-r.env")]
    read_key_file: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DefaultLock {
    Governance,
    Compliance,
    None,
}

impl Verb {
    pub fn flags(&self) -> &BucketFlags {
        match self {
            Self::Create(flags) => flags,
        }
    }
}

impl BucketFlags {
    async fn request(&self, session: &Session) -> Result<Request, Box<dyn Fault>> {
        let place = match &self.portal.objectspace {
            Some(name) => Place::Portal(Box::new(self.on_portal(name, session).await?)),
            None => Place::Plain,
        };
        Ok(Request {
            target: self.s3.target(session)?,
            place,
            default_lock: self.default_lock()?,
            abort_after_days: self.abort_after_days,
            dry_run: self.dry_run,
        })
    }

    fn default_lock(&self) -> Result<Option<(Mode, u32)>, Error> {
        let mode = match self.default_lock {
            DefaultLock::None => return Ok(None),
            DefaultLock::Governance => Mode::Governance,
            DefaultLock::Compliance => Mode::Compliance,
        };
        let seconds = self.default_lock_for.as_secs();
        match u32::try_from(seconds / 86_400) {
            Ok(days @ 1..=36_500) if seconds.is_multiple_of(86_400) => Ok(Some((mode, days))),
            _ => Err(Error::asked(
                "--default-lock-for is no number of whole days",
                "a bucket's default is counted in days, such as 30d",
            )),
        }
    }

    async fn on_portal(&self, name: &str, session: &Session) -> Result<Portal, Box<dyn Fault>> {
        let given = &self.portal;
        let location = given.location.clone().ok_or_else(|| {
            Error::asked("no location is given", "say --location NAME, where the objectspace is")
        })?;
        let publish = given.domain.clone().zip(given.through.clone());
        let publish = publish.map(|(domain, through)| Publish {
            domain,
            through: Through::Cloudspace(through),
            letsencrypt_email: given.letsencrypt_email.clone(),
        });
        Ok(Portal {
            cloud: self.cloud(session).await?,
            location,
            objectspace: name.to_owned(),
            publish,
            key_name: given.key_name.clone(),
            write_key_file: given.write_key_file.clone(),
            read_key_file: given.read_key_file.clone(),
        })
    }

    async fn cloud(&self, session: &Session) -> Result<CloudConfig, Box<dyn Fault>> {
        let given = &self.cloud;
        let token = match session.token(given).await? {
            cli::env::Token::Inline(token) => TokenSource::Inline(token),
            cli::env::Token::File(path) => TokenSource::File(path),
        };
        let wrong = |error: &dyn std::error::Error| Error::asked(error.to_string(), "");
        let customer = given.customer().map(str::parse).transpose().map_err(|e| wrong(&e))?;
        let rate_limit = given.rate_limit().map(str::parse::<CloudRateLimit>).transpose();
        let mut config = CloudConfig::new(given.portal()?, token);
        config.iam_refresh = given.iam_refresh().map(str::to_owned);
        config.ca_file = given.ca_file();
        config.customer = customer;
        config.user_agent.clone_from(&session.user_agent);
        config.read_timeout = given.read_timeout();
        config.write_timeout = given.write_timeout();
        config.rate_limit = rate_limit.map_err(|e| wrong(&e))?;
        config.retry_for = given.retry_for();
        Ok(config)
    }
}

pub async fn run(verb: &Verb, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let flags = verb.flags();
    let request = flags.request(session).await?;
    let report = bucket::run(&request, clock::System::shared(), &session.cancel).await?;
    Ok(session.print(&report, flags.output.output))
}
