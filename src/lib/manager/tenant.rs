//! Credentials: from a Secret to a client of the cloud, one for all who have the same.
//!
//! The user's token is tried first. Where the cloud refuses it, the last token that was good is
//! tried: a token is refreshed, and the refresh right of the one in the Secret may have lapsed
//! meanwhile (vco-api.md 1.1). That one is kept in a Secret of our own beside the user's, whose
//! data are never touched.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::denied::Denied;
use super::error::Error;
use super::metrics::Metrics;
use super::queue::Key;
use super::request::Cloud;
use crate::api::condition::{CLOUD_UNREACHABLE, SECRET_INCOMPLETE, SECRET_NOT_FOUND};
use crate::api::names::{METADATA_MANAGER, MOVE_LABEL};
use crate::clock::Clock;
use crate::fault::{Class, Fault as _};
use crate::id::CustomerId;
use crate::vco::{self, Client, Config, Customer, Limiters, TokenSource};

/// For how long a refusal stands for all who come with the same Secret, unless that changes.
const REFUSED: Duration = Duration::from_secs(25);

/// And for how long that the cloud could not be asked.
const UNANSWERED: Duration = Duration::from_secs(5);

/// How long before its end an expiring token is told of, in seconds: a week.
const DAYS_AHEAD: f64 = 7.0 * 86_400.0;

/// Somebody who may use the cloud.
pub struct Tenant {
    /// Tells tenants apart, for caches: the same for the same Secret, whatever is in it.
    pub number: u64,
    /// The Secret with his credentials.
    pub secret: Key,
    /// What is his.
    pub customer: Customer,
    /// What he is refused.
    pub denied: Arc<Denied>,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("customer", self.customer.id()).finish_non_exhaustive()
    }
}

/// Why there is no tenant.
#[derive(Debug)]
pub enum NoTenant {
    /// Somebody has to mend something: the condition's reason and message.
    Said {
        /// One of the reasons of conditions.
        reason: &'static str,
        /// What is wrong, with names.
        message: String,
    },
    /// The API server or the cloud could not be asked.
    Failed(Error),
}

impl From<Error> for NoTenant {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a Secret says.
struct Given {
    token: SecretString,
    portal: String,
    iam_refresh: Option<String>,
    customer: Option<CustomerId>,
}

/// A Secret, and a customer if the cluster names one.
type Place = (Key, Option<String>);

/// What is known of a place.
struct Entry {
    number: u64,
    denied: Arc<Denied>,
    /// The version of the Secret when it was read last.
    version: Option<String>,
    /// A sum of what was in it.
    sum: Option<[u8; 32]>,
    /// Who is let in with that.
    admitted: Option<Arc<Tenant>>,
    /// Whether the Secret may have changed since.
    stale: bool,
}

/// Who is not let in, why, and until when that stands.
struct Refusal {
    until: Duration,
    reason: &'static str,
    message: String,
}

/// The door of a place: one at a time asks whether he is let in.
#[derive(Clone, Default)]
struct Entrance {
    turn: Arc<tokio::sync::Mutex<()>>,
    refusal: Arc<Mutex<Option<Refusal>>>,
}

impl Entrance {
    fn refusal(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sum of what is in a Secret, to know it again without keeping it.
fn sum(secret: &Secret) -> [u8; 32] {
    let mut sum = Sha256::new();
    for (key, value) in secret.data.iter().flatten() {
        for part in [key.as_bytes(), &value.0] {
            sum.update(part.len().to_be_bytes());
            sum.update(part);
        }
    }
    sum.finalize().into()
}

/// All tenants.
pub struct Tenants {
    cloud: Cloud,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    numbers: AtomicU64,
    entries: Mutex<HashMap<Place, Entry>>,
    entrances: Mutex<HashMap<Place, Entrance>>,
    /// Where those who are one user to the cloud share its limits.
    limiters: Limiters,
}

impl Tenants {
    /// None yet.
    #[must_use]
    pub fn new(cloud: Cloud, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        let (numbers, limiters) = (AtomicU64::new(1), Limiters::default());
        let (entries, entrances) = (Mutex::default(), Mutex::default());
        Self { cloud, clock, metrics, numbers, entries, entrances, limiters }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entrances(&self) -> MutexGuard<'_, HashMap<Place, Entrance>> {
        self.entrances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Secret in which the last good token of this one is kept.
    #[must_use]
    pub fn kept_name(secret: &str) -> String {
        format!("{secret}-capvco-token")
    }

    /// A Secret has changed or gone: it is read again when it is needed.
    pub fn changed(&self, secret: &Key, version: &str) {
        for ((key, _), entry) in &mut *self.entries() {
            entry.stale |= key == secret && entry.version.as_deref() != Some(version);
        }
        self.ask_again(secret);
    }

    /// Whoever was refused with this Secret may be let in now.
    fn ask_again(&self, secret: &Key) {
        for ((key, _), entrance) in &*self.entrances() {
            if key == secret {
                *entrance.refusal() = None;
            }
        }
    }

    /// A Secret is gone.
    pub fn gone(&self, secret: &Key) {
        self.entries().retain(|(key, _), _| key != secret);
        self.ask_again(secret);
        self.metrics.no_longer_expires(&secret.namespace, &secret.name);
    }

    /// The cloud has answered a tenant's call like this; whether that is about his credentials. A
    /// token that is refused for good is not used again: next time the Secrets are read anew.
    pub fn refused(&self, tenant: &Tenant, error: &vco::Error, at: &str) -> bool {
        let denied = tenant.denied.note(error, at);
        // Who may not do one thing (403) is let in all the same.
        if denied && error.status() != Some(403) {
            let is_his = |on: &Arc<Tenant>| std::ptr::eq(&raw const **on, tenant);
            for entry in self.entries().values_mut() {
                entry.admitted.take_if(|on| is_his(on));
            }
        }
        denied
    }

    /// The tenant with the credentials in this Secret, and perhaps this customer.
    ///
    /// # Errors
    /// The Secret is not there or not usable, or the cloud refuses what is in it.
    pub async fn named(
        &self,
        api: &Api<Secret>,
        namespace: &str,
        secret: &str,
        customer: Option<&str>,
    ) -> Result<Arc<Tenant>, NoTenant> {
        let secret = Key::new(namespace, secret);
        let place = (secret, customer.map(str::to_owned));
        if let Some(tenant) = self.admitted_to(&place) {
            return Ok(tenant);
        }
        let entrance = self.entrances().entry(place.clone()).or_default().clone();
        // Three hundred machines with one bad token are one question to the cloud, not three hundred.
        let _turn = entrance.turn.lock().await;
        if let Some(tenant) = self.admitted_to(&place) {
            return Ok(tenant);
        }
        let now = self.clock.elapsed();
        if let Some(Refusal { until, reason, message }) = &*entrance.refusal()
            && now < *until
        {
            return Err(NoTenant::Said { reason, message: message.clone() });
        }
        let outcome = self.ask(api, &place).await;
        if let Err(NoTenant::Said { reason, message }) = &outcome {
            let lasts = if *reason == CLOUD_UNREACHABLE { UNANSWERED } else { REFUSED };
            let (until, message) = (self.clock.elapsed() + lasts, message.clone());
            *entrance.refusal() = Some(Refusal { until, reason, message });
        }
        outcome
    }

    /// Whoever was let in and may go in again.
    fn admitted_to(&self, place: &Place) -> Option<Arc<Tenant>> {
        match self.entries().get(place) {
            Some(Entry { admitted: Some(tenant), stale: false, .. }) => Some(Arc::clone(tenant)),
            _ => None,
        }
    }

    /// Reads the Secrets, and asks the cloud.
    async fn ask(&self, api: &Api<Secret>, place: &Place) -> Result<Arc<Tenant>, NoTenant> {
        let (secret, customer) = (place.0.clone(), place.1.as_deref());
        let reading = |source| Error::api(format!("read the secret {secret}"), source);
        let Some(found) = api.get_opt(&secret.name).await.map_err(reading)? else {
            let message = format!("there is no secret {secret}");
            return Err(NoTenant::Said { reason: SECRET_NOT_FOUND, message });
        };
        let (number, denied) = match self.same(place, &found) {
            Ok(tenant) => return Ok(tenant),
            Err(known) => known,
        };
        let given = self.given(&secret, &found, customer)?;
        let kept = api.get_opt(&Self::kept_name(&secret.name)).await.map_err(reading)?;
        let kept = kept.and_then(|kept| field(&kept, "token")).map(SecretString::from);
        let customer = self.admitted(&given, kept, &denied).await?;
        let tenant = Arc::new(Tenant { number, secret, customer, denied });
        keep_renewed(api.clone(), &found, &tenant);
        if let Some(entry) = self.entries().get_mut(place)
            && entry.sum == Some(sum(&found))
        {
            entry.admitted = Some(Arc::clone(&tenant));
        }
        Ok(tenant)
    }

    /// The tenant of a Secret in which nothing has changed but who holds it, or else what every
    /// tenant of this place has in common.
    fn same(&self, place: &Place, found: &Secret) -> Result<Arc<Tenant>, (u64, Arc<Denied>)> {
        let mut entries = self.entries();
        let entry = entries.entry(place.clone()).or_insert_with(|| Entry {
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            denied: Denied::new(Arc::clone(&self.metrics)),
            version: None,
            sum: None,
            admitted: None,
            stale: false,
        });
        entry.version = found.resource_version();
        entry.stale = false;
        let now = Some(sum(found));
        if entry.sum != now {
            entry.sum = now;
            entry.admitted = None;
            entry.denied.forget();
        }
        entry.admitted.clone().ok_or_else(|| (entry.number, Arc::clone(&entry.denied)))
    }

    fn given(&self, key: &Key, secret: &Secret, customer: Option<&str>) -> Result<Given, NoTenant> {
        let incomplete = |message: String| NoTenant::Said { reason: SECRET_INCOMPLETE, message };
        let missing =
            |name: &str| incomplete(format!("the secret {key} has no usable key {name:?}"));
        let token = field(secret, "token").ok_or_else(|| missing("token"))?;
        let portal = field(secret, "portalUrl").or_else(|| self.cloud.portal.clone());
        let portal = portal.ok_or_else(|| {
            incomplete(format!(
                "neither the secret {key} (key \"portalUrl\") nor VCO_PORTAL_URL says where the \
                 portal is"
            ))
        })?;
        let iam_refresh = field(secret, "iamRefreshUrl").or_else(|| self.cloud.iam_refresh.clone());
        let (place, named) = match customer {
            Some(named) => ("spec.customerId of the cluster".to_owned(), Some(named.to_owned())),
            None => (format!("the secret {key} (key \"customerId\")"), field(secret, "customerId")),
        };
        // Left out, it would be the token's own customer, who is another one.
        let parsed = named.map(|customer| customer.parse::<CustomerId>()).transpose();
        let customer = parsed.map_err(|error| incomplete(format!("{place}: {error}")))?;
        Ok(Given { token: token.into(), portal, iam_refresh, customer })
    }

    /// A customer whom the cloud lets in, with the user's token or with the last good one.
    async fn admitted(
        &self,
        given: &Given,
        kept: Option<SecretString>,
        denied: &Arc<Denied>,
    ) -> Result<Customer, NoTenant> {
        let refused = match self.try_in(given, given.token.clone(), denied).await {
            Ok(customer) => return Ok(customer),
            Err(refused) => refused,
        };
        match kept {
            Some(kept) if refused.class() == Class::Auth => {
                self.try_in(given, kept, denied).await.map_err(|_| said(&refused))
            }
            _ => Err(said(&refused)),
        }
    }

    /// When the tenant's token expires, if that is near and nothing renews it: in seconds.
    #[must_use]
    pub fn ends_soon(&self, tenant: &Tenant) -> Option<f64> {
        let (client, secret) = (tenant.customer.client(), &tenant.secret);
        let at = client.token_expiry()?;
        self.metrics.expires(&secret.namespace, &secret.name, at);
        let left = at - self.clock.unix();
        (client.token_is_renewable() == Some(false) && left < DAYS_AHEAD).then_some(left)
    }

    async fn try_in(
        &self,
        given: &Given,
        token: SecretString,
        denied: &Arc<Denied>,
    ) -> Result<Customer, vco::Error> {
        let mut config = Config::new(given.portal.clone(), TokenSource::Inline(token));
        config.iam_refresh.clone_from(&given.iam_refresh);
        config.customer.clone_from(&given.customer);
        self.cloud.shape(&mut config);
        config.limiters = Some(self.limiters.clone());
        config.watch = Some(Arc::clone(denied) as Arc<dyn vco::Watch>);
        let client = Client::new(config, Arc::clone(&self.clock))?;
        // A customer that is given is believed: only this call tells whether the token is good.
        client.me().await?;
        client.customer().await
    }
}

/// The condition for a cloud that does not let us in.
fn said(refused: &vco::Error) -> NoTenant {
    let reason = match refused.class() {
        Class::Usage | Class::Refused | Class::NotFound => SECRET_INCOMPLETE,
        _ => super::words::reason(refused),
    };
    NoTenant::Said { reason, message: super::words::of(refused) }
}

fn field(secret: &Secret, key: &str) -> Option<String> {
    let bytes = &secret.data.as_ref()?.get(key)?.0;
    let text = std::str::from_utf8(bytes).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Keeps each token that the client is given from now on, until the client is gone.
fn keep_renewed(api: Api<Secret>, secret: &Secret, tenant: &Tenant) {
    let mut changes = tenant.customer.client().token_changes();
    // Also the one that it was given before anybody listened.
    changes.mark_changed();
    let secret = Secret { metadata: secret.metadata.clone(), ..Secret::default() };
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let token = changes.borrow_and_update().clone();
            let Some(token) = token else { continue };
            if let Err(error) = keep(&api, &secret, &token).await {
                tracing::warn!(error = crate::fault::chain(&error), "a token could not be kept");
            }
        }
    });
}

/// Keeps a refreshed token beside the user's Secret. It goes with that Secret, and moves along.
///
/// # Errors
/// The API server refuses.
async fn keep(api: &Api<Secret>, secret: &Secret, token: &SecretString) -> Result<(), Error> {
    let name = Tenants::kept_name(&secret.name_any());
    let data: BTreeMap<_, _> = [("token", token.expose_secret())].into();
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": name,
            "labels": {MOVE_LABEL: ""},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Secret",
                "name": secret.name_any(), "uid": secret.uid(),
            }],
        },
        "stringData": data,
    });
    let params = PatchParams::apply(METADATA_MANAGER).force();
    let written = api.patch(&name, &params, &Patch::Apply(&body)).await;
    written
        .map(|_| ())
        .map_err(|source| Error::api(format!("keep the token in the secret {name}"), source))
}

/// Holds the user's Secret while a cluster uses it, and has it move along with that. Its data are
/// not touched.
///
/// # Errors
/// The API server refuses. A Secret that is not there is nothing to hold.
pub async fn hold(api: &Api<Secret>, name: &str, finalizer: &str) -> Result<(), Error> {
    let Some(secret) = read(api, name).await? else { return Ok(()) };
    let moves = secret.labels().contains_key(MOVE_LABEL);
    if moves && secret.finalizers().iter().any(|one| one == finalizer)
        || secret.metadata.deletion_timestamp.is_some()
    {
        return Ok(());
    }
    let mut all = secret.finalizers().to_vec();
    if !all.iter().any(|one| one == finalizer) {
        all.push(finalizer.to_owned());
    }
    let metadata = json!({"finalizers": all, "labels": {MOVE_LABEL: ""}});
    patch(api, &secret, metadata).await
}

/// Lets the user's Secret go.
///
/// # Errors
/// The API server refuses. A Secret that is not there is gone already.
pub async fn let_go(api: &Api<Secret>, name: &str, finalizer: &str) -> Result<(), Error> {
    let Some(secret) = read(api, name).await? else { return Ok(()) };
    if !secret.finalizers().iter().any(|one| one == finalizer) {
        return Ok(());
    }
    let all: Vec<_> = secret.finalizers().iter().filter(|one| *one != finalizer).collect();
    patch(api, &secret, json!({"finalizers": all})).await
}

/// Lets every Secret go that is held for a cluster which names another one by now.
///
/// # Errors
/// The API server refuses.
pub async fn let_others_go(api: &Api<Secret>, name: &str, finalizer: &str) -> Result<(), Error> {
    let all = api.list_metadata(&ListParams::default()).await;
    let all = all.map_err(|source| Error::api("list the secrets of a namespace", source))?;
    let held = all.items.iter().filter(|secret| {
        secret.name_any() != name && secret.finalizers().iter().any(|one| one == finalizer)
    });
    for secret in held {
        let_go(api, &secret.name_any(), finalizer).await?;
    }
    Ok(())
}

async fn read(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, Error> {
    let found = api.get_opt(name).await;
    found.map_err(|source| Error::api(format!("read the secret {name}"), source))
}

async fn patch(
    api: &Api<Secret>,
    secret: &Secret,
    mut metadata: serde_json::Value,
) -> Result<(), Error> {
    metadata["resourceVersion"] = json!(secret.resource_version());
    let params =
        PatchParams { field_manager: Some(METADATA_MANAGER.into()), ..PatchParams::default() };
    let name = secret.name_any();
    let written = api.patch(&name, &params, &Patch::Merge(json!({"metadata": metadata}))).await;
    written
        .map(|_| ())
        .map_err(|source| Error::api(format!("hold or release the secret {name}"), source))
}
