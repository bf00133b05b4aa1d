//! `capvco manager`: flags to a request.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capvco::cli::args::{duration, time_limit};
use capvco::cli::{LogFormat, Session, Talk, env, log};
use capvco::clock::System;
use capvco::fault::Fault;
use capvco::manager::{self, Cloud, Diagnostics, Election, RateLimit, Request, Times};
use capvco::report::Verdict;
use clap::{ArgAction, Args};
use tracing::Level;

/// The Lease's name, as controller-runtime's users know such names.
const LEASE: &str = "capvco-manager";

#[derive(Debug, Args)]
pub struct ManagerArgs {
    /// The kubeconfig of the management cluster [default: that of the pod]
    #[arg(long, value_name = "FILE", env = env::KUBECONFIG, hide_env_values = true)]
    kubeconfig: Option<PathBuf>,

    /// Work in this namespace only [default: in all]
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,

    /// Work only on objects whose label cluster.x-k8s.io/watch-filter has this value
    #[arg(long, value_name = "VALUE", value_parser = label_value)]
    watch_filter: Option<String>,

    /// Wait until no other manager holds the lease, and stop when it is lost
    #[arg(long)]
    leader_elect: bool,

    /// The lease's namespace
    #[arg(long, value_name = "NAME", default_value = "capvco-system", env = env::POD_NAMESPACE, hide_env_values = true)]
    #[arg(value_parser = namespace)]
    leader_elect_namespace: String,

    /// For how long a lease that is not renewed keeps others out
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time_limit)]
    leader_elect_lease_duration: Duration,

    /// After how long without renewal the holder stops
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time_limit)]
    leader_elect_renew_deadline: Duration,

    /// How often it is tried
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time_limit)]
    leader_elect_retry_period: Duration,

    /// Where to serve /healthz and /readyz; empty for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":9440")]
    health_addr: String,

    /// Where to serve /metrics and /log-level, over TLS and to whom the API server lets in; empty
    /// for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    diagnostics_address: String,

    /// Serve them in plain HTTP and to everybody; the level of logs can then be changed from this
    /// machine only
    #[arg(long)]
    insecure_diagnostics: bool,

    /// How often to look at objects that nothing happens to
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time_limit)]
    sync_period: Duration,

    /// How many objects of a kind to work on at once in each location
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,

    /// The portal, where a Secret does not name one
    #[arg(long, value_name = "URL", env = env::PORTAL_URL, hide_env_values = true)]
    portal_url: Option<String>,

    /// Where tokens are refreshed, where a Secret does not say it
    #[arg(long, value_name = "URL", env = env::IAM_REFRESH_URL, hide_env_values = true)]
    iam_refresh_url: Option<String>,

    /// Certificates (PEM) of portals to trust beside the usual ones
    #[arg(long, value_name = "FILE", env = env::CA_FILE, hide_env_values = true)]
    ca_file: Option<PathBuf>,

    /// Calls allowed to each location: `N/SECONDS`, or `off` [default: what the cloud allows]
    #[arg(long, value_name = "RATE", env = env::RATE_LIMIT, hide_env_values = true)]
    rate_limit: Option<String>,

    /// How long to wait for the reply to a call that only reads
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time_limit)]
    cloud_read_timeout: Duration,

    /// How long to wait for the reply to a call that changes something
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time_limit)]
    cloud_write_timeout: Duration,

    /// How long a list of the cloud may lack what was just made: nothing is made a second time
    /// before, and a manager that takes over waits as long before it makes what is missing
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    cloud_lag: Duration,

    /// How long to go on retrying one call before the object waits its turn again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    retry_for: Duration,

    #[command(flatten)]
    pub logs: LogArgs,
}

/// What is logged, and how.
#[derive(Debug, Args)]
#[command(about = None, long_about = None)]
pub struct LogArgs {
    /// How to write logs
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    logging_format: LogFormat,

    /// How much to log, as other managers have it: 0 what was done, 4 every call, 5 also what was
    /// sent and received, secrets blanked
    #[arg(long = "v", value_name = "N", default_value = "0", num_args = 0..=1)]
    #[arg(default_missing_value = "4")]
    level: u8,

    /// The same as `--v 4`; twice: as `--v 5`
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

impl LogArgs {
    /// Who runs the manager wants to know what it does.
    pub fn talk(&self) -> Talk {
        let finest = match self.level {
            0..=3 => Level::INFO,
            4 => Level::DEBUG,
            _ => Level::TRACE,
        };
        let logs = self.logging_format;
        Talk { verbose: self.verbose, finest: Some(finest), logs, ..Talk::default() }
    }
}

/// The dial of this program's logs, for the manager.
struct Logs(log::Dial);

impl manager::Loudness for Logs {
    fn finest(&self) -> Level {
        self.0.finest()
    }

    fn set_finest(&self, finest: Level) {
        self.0.turn(finest);
    }
}

/// A flag that says nothing usable.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {text:?}: {why}")]
pub struct BadFlag {
    flag: &'static str,
    text: String,
    why: String,
}

impl Fault for BadFlag {
    fn class(&self) -> capvco::fault::Class {
        capvco::fault::Class::Usage
    }
}

/// Runs the manager until a signal ends it.
pub async fn run(args: ManagerArgs, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let request = request(args)?;
    let logs = Arc::new(Logs(session.log));
    manager::run(request, System::shared(), logs, &session.cancel).await?;
    Ok(Verdict::Done)
}

pub fn request(args: ManagerArgs) -> Result<Request, BadFlag> {
    let rate_limit = args.rate_limit.filter(|text| !text.is_empty()).map(|text| {
        text.parse::<RateLimit>().map_err(|e| BadFlag {
            flag: "--rate-limit",
            why: e.to_string(),
            text,
        })
    });
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let times = Times {
        duration: args.leader_elect_lease_duration,
        renew_deadline: args.leader_elect_renew_deadline,
        retry_period: args.leader_elect_retry_period,
    };
    if times.duration <= times.renew_deadline || times.renew_deadline <= times.retry_period {
        return Err(BadFlag {
            flag: "--leader-elect-renew-deadline",
            text: format!("{:?}", times.renew_deadline),
            why: "it has to be longer than the retry period and shorter than the lease duration"
                .into(),
        });
    }
    let election = args.leader_elect.then(|| Election {
        namespace: args.leader_elect_namespace.clone(),
        name: LEASE.to_owned(),
        times,
    });
    Ok(Request {
        kubeconfig: args.kubeconfig,
        namespace: filled(args.namespace),
        watch_filter: filled(args.watch_filter),
        election,
        health: address("--health-addr", &args.health_addr)?,
        diagnostics: address("--diagnostics-address", &args.diagnostics_address)?
            .map(|address| Diagnostics { address, insecure: args.insecure_diagnostics }),
        sync_period: args.sync_period,
        cloud_lag: args.cloud_lag,
        concurrency: args.concurrency.into(),
        cloud: Cloud {
            portal: filled(args.portal_url),
            iam_refresh: filled(args.iam_refresh_url),
            ca_file: args.ca_file,
            read_timeout: args.cloud_read_timeout,
            write_timeout: args.cloud_write_timeout,
            rate_limit: rate_limit.transpose()?,
            retry_for: args.retry_for,
        },
        identity: manager::identity(env::host_name().as_deref()),
    })
}

/// A namespace's name (RFC 1123, a label); empty where a template filled in nothing.
fn namespace(text: &str) -> Result<String, &'static str> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = text.len() <= 63 && text.chars().all(inner) && is_bounded(text);
    let why = "a namespace's name has up to 63 small letters, digits and hyphens, and a letter or \
               digit at both ends";
    if good { Ok(text.to_owned()) } else { Err(why) }
}

/// A label's value.
fn label_value(text: &str) -> Result<String, &'static str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = text.len() <= 63 && text.chars().all(inner) && is_bounded(text);
    let why = "a label's value has up to 63 letters, digits, `-`, `_` and `.`, and a letter or \
               digit at both ends";
    if good { Ok(text.to_owned()) } else { Err(why) }
}

/// Whether it begins and ends with a letter or digit.
fn is_bounded(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    text.is_empty() || text.starts_with(plain) && text.ends_with(plain)
}

/// `host:port`, `:port` for all addresses, or empty.
fn address(flag: &'static str, text: &str) -> Result<Option<SocketAddr>, BadFlag> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let parsed = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        None => text.parse().ok(),
    };
    let why = || "it is neither ADDRESS:PORT nor :PORT".to_owned();
    parsed.map(Some).ok_or_else(|| BadFlag { flag, text: text.to_owned(), why: why() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_and_labels_are_those_of_kubernetes() {
        for good in ["", "a", "capvco-system", "0"] {
            assert_eq!(namespace(good).as_deref(), Ok(good));
        }
        for bad in ["A", "-a", "a-", "a.b", "a b", "ä", &"a".repeat(64)] {
            assert!(namespace(bad).is_err(), "{bad}");
        }
        for good in ["", "blue", "Blue_1.x-y"] {
            assert_eq!(label_value(good).as_deref(), Ok(good));
        }
        for bad in ["a,b", "a=b", "_a", "a ", &"a".repeat(64)] {
            assert!(label_value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_those_of_other_managers() {
        let read = |text| address("--health-addr", text).map(|at| at.map(|at| at.to_string()));
        assert_eq!(read(":9440").unwrap().as_deref(), Some("0.0.0.0:9440"));
        assert_eq!(read("127.0.0.1:1").unwrap().as_deref(), Some("127.0.0.1:1"));
        assert_eq!((read("").unwrap(), read("0").unwrap()), (None, None));
        for bad in ["9440", "localhost:9440", ":x", "127.0.0.1"] {
            assert!(read(bad).unwrap_err().to_string().contains("neither"), "{bad}");
        }
    }
}
