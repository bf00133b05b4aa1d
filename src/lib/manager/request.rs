//! What the manager is told: validated, without environment and flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::lease::Times;
use crate::clock::Clock;
use crate::vco::{Client, Config, RateLimit, TokenSource};

/// How the cloud is reached where a Secret does not say it, and how patient to be with it.
#[derive(Debug, Clone)]
pub struct Cloud {
    /// `VCO_PORTAL_URL`.
    pub portal: Option<String>,
    /// `VCO_IAM_REFRESH_URL`.
    pub iam_refresh: Option<String>,
    /// Certificates (PEM) to trust beside the usual ones.
    pub ca_file: Option<PathBuf>,
    /// How long one try of a reading call may take.
    pub read_timeout: Duration,
    /// How long one try of a changing call may take.
    pub write_timeout: Duration,
    /// Our own limit on calls.
    pub rate_limit: Option<RateLimit>,
    /// How long the tries of one call may take altogether.
    pub retry_for: Duration,
}

impl Cloud {
    /// Whether a client can be made of these settings: what is wrong with them is told at the
    /// start, and not by every cluster.
    pub(super) fn check(&self, clock: &Arc<dyn Clock>) -> Result<(), Error> {
        // Where the portal is may be said by Secrets only.
        let portal = self.portal.clone().unwrap_or_else(|| "https://localhost".to_owned());
        let mut config = Config::new(portal, TokenSource::Inline("none".to_owned().into()));
        config.iam_refresh.clone_from(&self.iam_refresh);
        self.shape(&mut config);
        Client::new(config, Arc::clone(clock))?;
        Ok(())
    }

    /// Gives a client's configuration these settings.
    pub(super) fn shape(&self, config: &mut Config) {
        config.ca_file.clone_from(&self.ca_file);
        config.read_timeout = self.read_timeout;
        config.write_timeout = self.write_timeout;
        config.rate_limit = self.rate_limit;
        config.retry_for = self.retry_for;
    }
}

/// Where the manager's Lease is, and how it is held.
#[derive(Debug, Clone)]
pub struct Election {
    /// The Lease's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The times.
    pub times: Times,
}

/// Where diagnostics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diagnostics {
    /// The address.
    pub address: SocketAddr,
    /// Whether in plain HTTP and to everybody, instead of over TLS and to whom the API server lets
    /// in.
    pub insecure: bool,
}

/// Everything that the manager is told.
#[derive(Debug, Clone)]
pub struct Request {
    /// The kubeconfig; without it that of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The one namespace to work in; without it all.
    pub namespace: Option<String>,
    /// The value of the label `cluster.x-k8s.io/watch-filter` that objects must have.
    pub watch_filter: Option<String>,
    /// Whether managers take turns.
    pub election: Option<Election>,
    /// Where `/healthz` and `/readyz` are served.
    pub health: Option<SocketAddr>,
    /// Where `/metrics` are served, and to whom.
    pub diagnostics: Option<Diagnostics>,
    /// How often an object is looked at that nothing happens to.
    pub sync_period: Duration,
    /// How long a list of the cloud may lack what was just made.
    pub cloud_lag: Duration,
    /// How many objects of a kind are worked on at once in each location.
    pub concurrency: usize,
    /// The cloud.
    pub cloud: Cloud,
    /// The name of this instance, for the Lease and events.
    pub identity: String,
}
