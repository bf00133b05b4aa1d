//! One manager works at a time: whoever holds the Lease.
//!
//! The rules are those of client-go's leader election, with its names and times: a holder renews
//! its Lease, and gives up before it can be taken over by somebody else; others take one over that
//! has not been renewed for its duration on *their own* clock, since clocks of machines differ.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};

use super::error::Error;
use crate::clock::Clock;
use crate::fault::chain;

/// The times of the election; `duration` > `renew_deadline` > `retry_period`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// For how long a Lease that is not renewed keeps others out.
    pub duration: Duration,
    /// After how long without renewal the holder stops working.
    pub renew_deadline: Duration,
    /// How often it is tried.
    pub retry_period: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A candidate, and perhaps the holder.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
    clock: Arc<dyn Clock>,
    /// What was last seen, and when on our own clock.
    seen: Option<(Option<String>, Duration)>,
}

/// What a look at the Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Look {
    Ours,
    Free,
    Taken,
}

impl Candidate {
    /// A candidate for the Lease `namespace/name`.
    #[must_use]
    pub fn new(
        client: Client,
        (namespace, name): (&str, &str),
        identity: String,
        times: Times,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, name: name.to_owned(), identity, times, clock, seen: None }
    }

    /// The Lease's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the Lease is ours.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(error, lease = self.name, "cannot take the lease");
                }
            }
            self.clock.sleep(self.times.retry_period).await;
        }
    }

    /// Renews the Lease until that fails for too long.
    ///
    /// # Errors
    /// Always, in the end: [`Error::LeaseLost`].
    pub async fn hold(&mut self) -> Error {
        let mut renewed = self.clock.elapsed();
        loop {
            self.clock.sleep(self.times.retry_period).await;
            let left = self
                .times
                .renew_deadline
                .saturating_sub(self.clock.elapsed().saturating_sub(renewed));
            let clock = Arc::clone(&self.clock);
            let begun = clock.elapsed();
            let outcome = tokio::select! {
                outcome = self.attempt() => outcome,
                () = clock.sleep(left) => return Error::LeaseLost(self.name.clone()),
            };
            match outcome {
                Ok(true) => renewed = begun,
                Ok(false) => return Error::LeaseLost(self.name.clone()),
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(error, lease = self.name, "cannot renew the lease");
                }
            }
        }
    }

    /// Gives the Lease up, so that nobody has to wait for it to run out. Whatever works must have
    /// stopped before.
    pub async fn release(&mut self) {
        let released = async {
            let Some(mut lease) = self.get().await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.replace(&lease).await.map(|_| ())
        };
        if let Err(error) = released.await {
            tracing::warn!(error = chain(&error), lease = self.name, "cannot give the lease up");
        }
    }

    async fn attempt(&mut self) -> Result<bool, Error> {
        let Some(mut lease) = self.get().await? else {
            let spec = self.claim(None, 0);
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(spec) };
            return match self.api.create(&PostParams::default(), &lease).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
                Err(error) => Err(self.failed("create", error)),
            };
        };
        let look = self.look(&lease);
        if look == Look::Taken {
            return Ok(false);
        }
        let before = lease.spec.take().unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or_default();
        lease.spec = Some(match look {
            Look::Ours => self.claim(before.acquire_time, transitions),
            _ => self.claim(None, transitions + 1),
        });
        match self.replace(&lease).await? {
            // Somebody wrote to a Lease that is ours: that takes nothing away, and is tried again.
            false if look == Look::Ours => Err(Error::Blocked("the lease was changed".to_owned())),
            taken => Ok(taken),
        }
    }

    /// Whose it is. A record that has changed counts as renewed now.
    fn look(&mut self, lease: &Lease) -> Look {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder == self.identity {
            return Look::Ours;
        }
        let now = self.clock.elapsed();
        let version = lease.metadata.resource_version.clone();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != version) {
            self.seen = Some((version, now));
        }
        let since = self.seen.as_ref().map_or(now, |(_, at)| *at);
        let theirs = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or(0);
        let lasts = Duration::from_secs(theirs);
        if holder.is_empty() || now.saturating_sub(since) >= lasts {
            Look::Free
        } else {
            Look::Taken
        }
    }

    fn claim(&self, acquired: Option<MicroTime>, transitions: i32) -> LeaseSpec {
        let now = MicroTime(timestamp(self.clock.unix()));
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.times.duration.as_secs()).ok(),
            acquire_time: acquired.or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    async fn get(&self) -> Result<Option<Lease>, Error> {
        self.api.get_opt(&self.name).await.map_err(|error| self.failed("read", error))
    }

    /// False if somebody was faster.
    async fn replace(&self, lease: &Lease) -> Result<bool, Error> {
        match self.api.replace(&self.name, &PostParams::default(), lease).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(self.failed("write", error)),
        }
    }

    fn failed(&self, doing: &str, error: kube::Error) -> Error {
        Error::api(format!("{doing} the lease {}", self.name), error)
    }
}

/// A time of our clock as Kubernetes writes it.
#[must_use]
pub fn timestamp(unix: f64) -> Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "microseconds of this century")]
    let micros = (unix * 1e6) as i64;
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
