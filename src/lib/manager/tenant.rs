//! Credentials: from a Secret to a client of the cloud, one for all who have the same.
//!
//! The user's token is tried first. Where the cloud refuses it, the last token that was good is
//! tried: a token is refreshed, and the refresh right of the one in the Secret may have lapsed
//! meanwhile (vco-api.md 1.1). That one is kept in a Secret of our own beside the user's, whose
//! data are never touched.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::error::Error;
use super::metrics::Metrics;
use super::queue::Key;
use super::request::Cloud;
use crate::api::condition::{SECRET_INCOMPLETE, SECRET_NOT_FOUND};
use crate::api::names::{METADATA_MANAGER, MOVE_LABEL};
use crate::clock::Clock;
use crate::fault::{Class, Fault as _};
use crate::vco::{self, Client, Config, Customer, Limiters, TokenSource};

/// How long before its end an expiring token is told of, in seconds: a week.
const DAYS_AHEAD: f64 = 7.0 * 86_400.0;

/// Somebody who may use the cloud.
pub struct Tenant {
    /// Tells tenants apart, for caches.
    pub number: u64,
    /// What is his.
    pub customer: Customer,
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
    customer: Option<String>,
}

struct Entry {
    version: Option<String>,
    tenant: Arc<Tenant>,
}

/// All tenants.
pub struct Tenants {
    cloud: Cloud,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    numbers: AtomicU64,
    /// By Secret and wished-for customer.
    entries: Mutex<HashMap<(Key, Option<String>), Entry>>,
    /// Where those who are one user to the cloud share its limits.
    limiters: Limiters,
}

impl Tenants {
    /// None yet.
    #[must_use]
    pub fn new(cloud: Cloud, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        let (numbers, entries, limiters) =
            (AtomicU64::new(1), Mutex::default(), Limiters::default());
        Self { cloud, clock, metrics, numbers, entries, limiters }
    }

    /// The Secret in which the last good token of this one is kept.
    #[must_use]
    pub fn kept_name(secret: &str) -> String {
        format!("{secret}-capvco-token")
    }

    /// A Secret has changed or gone: it is read again when it is needed. False if nobody uses it.
    pub fn forget(&self, secret: &Key, version: Option<&str>) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let before = entries.len();
        entries.retain(|(key, _), entry| key != secret || entry.version.as_deref() == version);
        entries.len() < before
    }

    /// The cloud has answered a tenant's call like this. A token that is refused for good is not
    /// used again: next time the Secrets are read anew.
    pub fn refused(&self, number: u64, error: &vco::Error) {
        // Who may not do one thing (403) is let in all the same.
        if error.class() == Class::Auth && error.status() != Some(403) {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.retain(|_, entry| entry.tenant.number != number);
        }
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
        let place = (secret.clone(), customer.map(str::to_owned));
        if let Some(entry) = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(&place)
        {
            return Ok(Arc::clone(&entry.tenant));
        }
        let reading = |source| Error::api(format!("read the secret {secret}"), source);
        let Some(found) = api.get_opt(&secret.name).await.map_err(reading)? else {
            let message = format!("there is no secret {secret}");
            return Err(NoTenant::Said { reason: SECRET_NOT_FOUND, message });
        };
        let version = found.resource_version();
        let given = self.given(&secret, &found, customer)?;
        let kept = api.get_opt(&Self::kept_name(&secret.name)).await.map_err(reading)?;
        let kept = kept.and_then(|kept| field(&kept, "token")).map(SecretString::from);
        let tenant = self.admitted(&given, kept).await?;
        keep_renewed(api.clone(), &found, &tenant);
        let entry = Entry { version, tenant: Arc::clone(&tenant) };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(place, entry);
        Ok(tenant)
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
        let customer = customer.map(str::to_owned).or_else(|| field(secret, "customerId"));
        Ok(Given { token: token.into(), portal, iam_refresh, customer })
    }

    /// A tenant whom the cloud lets in, with the user's token or with the last good one.
    async fn admitted(
        &self,
        given: &Given,
        kept: Option<SecretString>,
    ) -> Result<Arc<Tenant>, NoTenant> {
        let customer = match self.try_in(given, given.token.clone()).await {
            Ok(customer) => customer,
            Err(refused) => match kept {
                Some(kept) if refused.class() == Class::Auth => {
                    self.try_in(given, kept).await.map_err(|_| said(&refused))?
                }
                _ => return Err(said(&refused)),
            },
        };
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Tenant { number, customer }))
    }

    /// When the tenant's token expires, if that is near and nothing renews it: in seconds.
    #[must_use]
    pub fn ends_soon(&self, secret: &Key, tenant: &Tenant) -> Option<f64> {
        let client = tenant.customer.client();
        let at = client.token_expiry()?;
        self.metrics.expires(&secret.namespace, &secret.name, at);
        let left = at - self.clock.unix();
        (client.token_is_renewable() == Some(false) && left < DAYS_AHEAD).then_some(left)
    }

    async fn try_in(&self, given: &Given, token: SecretString) -> Result<Customer, vco::Error> {
        let mut config = Config::new(given.portal.clone(), TokenSource::Inline(token));
        config.iam_refresh.clone_from(&given.iam_refresh);
        config.customer = given.customer.as_deref().and_then(|customer| customer.parse().ok());
        self.cloud.shape(&mut config);
        config.limiters = Some(self.limiters.clone());
        config.watch = Some(Arc::clone(&self.metrics) as Arc<dyn vco::Watch>);
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
