//! The flags that several verbs share, and what they become.

use std::path::PathBuf;
use std::time::Duration;

use capvco::backup::{
    AskPassphrase, Checksum, Error, EtcdGiven, Identities, LockWish, Manifests, Mode, Recipients,
    S3Config, Target, identities, own_cluster, recipients,
};
use capvco::cli::args::{duration, rate, stall_limit, time_limit};
use capvco::cli::passphrase::{NoPassphrase, passphrase};
use capvco::cli::{Session, env};
use capvco::clock;
use capvco::fault::chain;
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use secrecy::SecretString;

/// Where backups are kept. Keys come from the usual places of AWS tools (`AWS_ACCESS_KEY_ID`,
/// `~/.aws/credentials`, …), never from a flag.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Object storage", about = None, long_about = None)]
pub struct S3Args {
    /// The server, such as `https://s3.example.com` [default: AWS]
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,

    /// The region [default: the usual places, or us-east-1 where an endpoint is given]
    #[arg(long, value_name = "NAME")]
    s3_region: Option<String>,

    /// The bucket
    #[arg(long, value_name = "NAME")]
    s3_bucket: Option<String>,

    /// What the keys begin with
    #[arg(long, value_name = "TEXT", default_value = "etcd/")]
    s3_prefix: String,

    /// Whether the bucket stands in the path instead of in the host's name; `auto`: where an
    /// endpoint is given
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    s3_path_style: When,

    /// Certificates (PEM) to trust beside the usual ones
    #[arg(long, value_name = "FILE")]
    s3_ca_file: Option<PathBuf>,

    /// The checksum that travels with every object and part; `auto`: crc32c, and md5 where the
    /// server wants that
    #[arg(long, value_enum, value_name = "KIND", default_value = "auto")]
    s3_checksum: ChecksumKind,

    /// Send and receive no more than this in a second, such as 20MiB
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    limit_rate: Option<u64>,

    /// How long the server may take or give nothing at all
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = stall_limit)]
    stall_timeout: Duration,
}

/// Which of several clusters below one prefix.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// The etcd cluster's id, 16 hexadecimal digits, as `list` shows it
    #[arg(long, value_name = "ID", value_parser = cluster_id, help_heading = "Object storage")]
    pub cluster: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChecksumKind {
    Auto,
    Crc32c,
    Sha256,
    Md5,
    None,
}

impl S3Args {
    /// Whether a bucket was named at all.
    pub fn is_given(&self) -> bool {
        self.s3_bucket.is_some()
    }

    /// The bucket, the prefix, and how to reach them.
    pub fn target(&self, session: &Session) -> Result<Target, Error> {
        let bucket = self.s3_bucket.clone().ok_or_else(|| {
            Error::asked(
                "no bucket is given",
                "say --s3-bucket NAME, or set CAPVCO_BACKUP_S3_BUCKET",
            )
        })?;
        Target::new(self.config(bucket, session), &self.s3_prefix)
    }

    /// How to reach `bucket`.
    pub fn config(&self, bucket: String, session: &Session) -> S3Config {
        let mut config = S3Config::new(bucket);
        config.endpoint.clone_from(&self.s3_endpoint);
        config.region.clone_from(&self.s3_region);
        config.path_style = match self.s3_path_style {
            When::Auto => None,
            When::On => Some(true),
            When::Off => Some(false),
        };
        config.ca_file.clone_from(&self.s3_ca_file);
        config.checksum = match self.s3_checksum {
            ChecksumKind::Auto => Checksum::Auto,
            ChecksumKind::Crc32c => Checksum::Crc32c,
            ChecksumKind::Sha256 => Checksum::Sha256,
            ChecksumKind::Md5 => Checksum::Md5,
            ChecksumKind::None => Checksum::None,
        };
        config.limit_rate = self.limit_rate;
        config.stall_timeout = self.stall_timeout;
        config.user_agent.clone_from(&session.user_agent);
        config
    }
}

/// A cluster id as `list` writes it; a part of one may be another's.
fn cluster_id(text: &str) -> Result<u64, String> {
    let read = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
    read.ok_or_else(|| {
        format!(
            "{text:?} is no cluster id: 16 hexadecimal digits, with zeros in front where etcdctl \
             shows fewer; `capvco-backup list` shows them"
        )
    })
}

/// A cluster by its id, or this node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Id(u64),
    Own,
}

fn whose(text: &str) -> Result<Whose, String> {
    if text == "own" { Ok(Whose::Own) } else { cluster_id(text).map(Whose::Id) }
}

/// Which of several clusters below one prefix; a control-plane node may mean its own.
#[derive(Debug, Clone, Args)]
pub struct OwnClusterArgs {
    /// The etcd cluster's id, 16 hexadecimal digits, as `list` shows it; `own`: this node's etcd
    /// is asked for it
    #[arg(long, value_name = "ID", value_parser = whose, help_heading = "Object storage")]
    cluster: Option<Whose>,

    #[command(flatten)]
    etcd: EtcdArgs,
}

impl OwnClusterArgs {
    /// The id, if any cluster is named.
    pub async fn id(&self, session: &Session) -> Result<Option<u64>, Error> {
        match self.cluster {
            None => Ok(None),
            Some(Whose::Id(id)) => Ok(Some(id)),
            Some(Whose::Own) => {
                let (given, clock) = (self.etcd.given(), clock::System::shared());
                own_cluster(&given, clock, &session.cancel).await.map(Some)
            }
        }
    }

    /// Whether this node's own is meant.
    pub fn is_own(&self) -> bool {
        self.cluster == Some(Whose::Own)
    }
}

/// How to reach etcd.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "etcd", about = None, long_about = None)]
pub struct EtcdArgs {
    /// The members to choose from [default: this node's, as its manifest says]
    #[arg(long, value_name = "URLS", value_delimiter = ',', env = env::ETCDCTL_ENDPOINTS)]
    endpoints: Vec<String>,

    /// The authorities (PEM) that etcd's certificates are checked against
    #[arg(long, value_name = "FILE", env = env::ETCDCTL_CACERT)]
    cacert: Option<PathBuf>,

    /// The client certificate (PEM) [default: kubeadm's healthcheck-client]
    #[arg(long, value_name = "FILE", env = env::ETCDCTL_CERT)]
    cert: Option<PathBuf>,

    /// Its key (PEM)
    #[arg(long, value_name = "FILE", env = env::ETCDCTL_KEY)]
    key: Option<PathBuf>,

    /// Where this node's static pods are described; a folder that is named must have an etcd.yaml
    /// [default: /etc/kubernetes/manifests]
    #[arg(long, value_name = "DIR")]
    manifests: Option<PathBuf>,

    /// How long a member may take to let us connect
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time_limit)]
    dial_timeout: Duration,
}

impl EtcdArgs {
    /// What the flags say, for `capvco::backup::node`.
    pub fn given(&self) -> EtcdGiven {
        EtcdGiven {
            endpoints: self.endpoints.clone(),
            ca: self.cacert.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            manifests: Manifests::new(self.manifests.clone()),
            dial_timeout: self.dial_timeout,
        }
    }
}

/// What of the machine goes along.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node", about = None, long_about = None)]
pub struct KeysArgs {
    /// Whether the node's keys, its encryption config and its manifests go along, as a second
    /// object [default: on control-plane nodes]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub include_pki: Option<bool>,

    /// Where those keys are [default: where the manifests name files, else /etc/kubernetes/pki]
    #[arg(long, value_name = "DIR")]
    pub pki_dir: Option<PathBuf>,
}

/// For whom a backup is encrypted.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Encryption", about = None, long_about = None)]
pub struct RecipientArgs {
    /// A public key, `age1…`; may be repeated
    #[arg(long, short, value_name = "KEY", value_delimiter = ',')]
    recipient: Vec<String>,

    /// A file of public keys, one a line; may be repeated
    #[arg(long, short = 'R', value_name = "FILE")]
    recipients_file: Vec<PathBuf>,
}

impl RecipientArgs {
    /// The keys and the files, unread.
    pub fn given(&self) -> (Vec<String>, Vec<PathBuf>) {
        (self.recipient.clone(), self.recipients_file.clone())
    }

    /// All keys that are given; none where there are none. A file may be a pipe that nobody
    /// fills, so that Ctrl-C ends the waiting.
    pub async fn read(&self, session: &Session) -> Result<Option<Recipients>, Error> {
        let (keys, files) = self.given();
        let reading = tokio::task::spawn_blocking(move || recipients::read(&keys, &files));
        let Some(read) = session.cancel.run_until_cancelled(reading).await else {
            return Err(Error::Interrupted("while the recipients were read"));
        };
        let read = read.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
        let (all, remarks) = read?;
        for remark in &remarks {
            session.progress.warn(remark);
        }
        Ok(all)
    }
}

/// With which keys a backup is opened.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Encryption", about = None, long_about = None)]
pub struct IdentityArgs {
    /// A file of age identities, as age-keygen writes it; may be repeated; `-` reads stdin
    #[arg(long, short, value_name = "FILE")]
    identity: Vec<PathBuf>,

    /// A file whose first line is the passphrase of an identity file [default: the variable
    /// `CAPVCO_BACKUP_PASSPHRASE`, or the terminal is asked]
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl IdentityArgs {
    /// The files, unread.
    pub fn files(&self) -> &[PathBuf] {
        &self.identity
    }

    /// All keys that are given; none where there are none. Somebody may have to type a
    /// passphrase, so that Ctrl-C ends the waiting.
    pub async fn read(&self, session: &Session) -> Result<Option<Identities>, Error> {
        let (files, ask) = (self.identity.clone(), Ask(self.passphrase_file.clone()));
        let reading = tokio::task::spawn_blocking(move || identities::read(&files, &ask));
        let Some(read) = session.cancel.run_until_cancelled(reading).await else {
            return Err(Error::Interrupted("while the identities were read"));
        };
        let read = read.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
        let (all, remarks) = read?;
        for remark in &remarks {
            session.progress.warn(remark);
        }
        Ok(all)
    }
}

/// Where the passphrase of an identity file comes from.
struct Ask(Option<PathBuf>);

impl AskPassphrase for Ask {
    fn ask(&self, what: &str) -> Result<SecretString, String> {
        passphrase(what, self.0.as_deref()).map_err(|error| match error {
            NoPassphrase::NobodyThere(_) => {
                "a passphrase is needed, and there is no terminal to ask on".to_owned()
            }
            NoPassphrase::Empty(_) => "the passphrase is empty".to_owned(),
            error => chain(&error),
        })
    }
}

/// How what is stored is locked.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Lock", about = None, long_about = None)]
pub struct LockArgs {
    /// Object Lock: whether somebody with the right to do so may lift it (governance), nobody
    /// (compliance), not locked at all (none), or as the bucket says
    #[arg(long, value_enum, value_name = "MODE", default_value = "bucket-default")]
    lock: Lock,

    /// For how long, such as 30d, counted from the server's date
    #[arg(long, value_name = "TIME", value_parser = duration)]
    lock_for: Option<Duration>,

    /// Be content where this key may write but not read the lock back
    #[arg(long)]
    pub lock_unverified_ok: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lock {
    Governance,
    Compliance,
    None,
    BucketDefault,
}

impl LockArgs {
    /// What is wished for.
    pub fn wish(&self) -> Result<LockWish, Error> {
        let seconds = self.lock_for.map(|time| time.as_secs());
        let explicit = |mode: Mode| match seconds {
            Some(0) => Err(Error::asked("--lock-for is no time at all", "say 30d, or --lock none")),
            Some(seconds) => Ok(LockWish::Explicit { mode, seconds }),
            None => Err(Error::asked("--lock needs --lock-for", "say for how long, such as 30d")),
        };
        match self.lock {
            Lock::Governance => explicit(Mode::Governance),
            Lock::Compliance => explicit(Mode::Compliance),
            Lock::None if seconds.is_none() => Ok(LockWish::None),
            Lock::BucketDefault if seconds.is_none() => Ok(LockWish::BucketDefault),
            Lock::None | Lock::BucketDefault => Err(Error::asked(
                "--lock-for needs --lock governance or --lock compliance",
                "leave --lock-for out, and the bucket's default counts",
            )),
        }
    }
}
