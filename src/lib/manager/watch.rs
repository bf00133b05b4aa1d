//! What the API server has, followed: a store a kind, and a word to the queues on every change.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::queue::Key;
use crate::api::names::GROUP;
use crate::fault::chain;

/// A kind as we read it.
pub trait Seen:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync
{
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync> Seen for K {}

/// The objects of a kind: as they were last heard of, or as we have written them since.
pub struct Known<K: Seen + 'static> {
    store: Store<K>,
    written: Mutex<HashMap<Key, Written<K>>>,
}

/// What we wrote last of an object.
struct Written<K> {
    version: u64,
    /// The object, until the store has heard of it.
    object: Option<Arc<K>>,
}

/// How an object was heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// In a list: whatever came before it was not heard of.
    Listed,
    /// By a change.
    Changed,
    /// It is gone.
    Gone,
}

impl<K: Seen + 'static> Known<K> {
    /// An empty store, and what fills it.
    #[must_use]
    pub fn new() -> (Self, Writer<K>) {
        let (store, writer) = reflector::store();
        (Self { store, written: Mutex::default() }, writer)
    }

    /// The object, if there is one. A store runs behind what was written a moment ago, and who
    /// decides on the old object makes things twice (contract, 12.2): the newer one counts.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        let stored = self.store.get(&ObjectRef::new(&key.name).within(&key.namespace));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stored) = stored else {
            // Gone: what we wrote was before that, or the store has not heard of it yet.
            written.remove(key);
            return None;
        };
        let Some(last) = written.get_mut(key) else { return Some(stored) };
        let newer = last
            .object
            .clone()
            .filter(|ours| ours.uid() == stored.uid() && last.version > version(&*stored));
        if newer.is_none() {
            last.object = None;
        }
        newer.or(Some(stored))
    }

    /// Whether a change is of our own making, so that nobody has to look at it. Whoever wakes
    /// himself by what he says of a failure never rests between two tries.
    #[must_use]
    pub fn is_own(&self, object: &K, heard: Heard) -> bool {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let last = Key::of(object).and_then(|key| written.get(&key).map(|last| last.version));
        heard == Heard::Changed && last == Some(version(object))
    }

    /// Keeps what the API server answered to a write of ours.
    pub fn wrote(&self, object: K) {
        if let Some(key) = Key::of(&object) {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let version = version(&object);
            written.insert(key, Written { version, object: Some(Arc::new(object)) });
        }
    }

    /// All objects for which this holds.
    pub fn find(&self, fits: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.store.state_filter(fits)
    }

    /// Waits until everything that is there has been heard of once.
    pub async fn ready(&self) {
        // The writer is dropped only when the manager ends.
        let _ = self.store.wait_until_ready().await;
    }
}

/// Versions of one object are numbers that grow (Kubernetes 1.35 made that part of its API).
fn version(object: &impl Resource) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Follows a kind for ever: keeps the store, and tells of each object that was added, changed or
/// removed. Without the fields that only say who wrote what, which are most of an object.
pub async fn follow<K: Seen + 'static>(
    api: Api<K>,
    config: watcher::Config,
    mut writer: Writer<K>,
    tell: impl Fn(&K, Heard) + Send,
) {
    let events = watcher::watcher(api, config)
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                writer.apply_watcher_event(&event);
                match &event {
                    Event::Apply(object) => tell(object, Heard::Changed),
                    Event::Delete(object) => tell(object, Heard::Gone),
                    Event::InitApply(object) => tell(object, Heard::Listed),
                    Event::Init | Event::InitDone => {}
                }
            }
            Err(error) => interrupted::<K>(&error),
        }
    }
}

/// It goes on by itself, with back-off; somebody may have to do something first.
fn interrupted<K: Resource<DynamicType = ()>>(error: &watcher::Error) {
    let what = format!("{}.{}", K::plural(&()), K::group(&()));
    let error = trouble(&what, error);
    tracing::warn!(kind = %K::kind(&()), error, "what there is of a kind cannot be followed");
}

/// What is wrong, and what to do about it where that is known.
fn trouble(kind: &str, error: &watcher::Error) -> String {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return format!("{}; it is tried again", chain(error));
    };
    let said = &status.message;
    match status.code {
        404 if kind.ends_with(GROUP) => format!(
            "the API server knows no {kind}: install this provider's CustomResourceDefinitions, \
             which `capvco release crds` prints"
        ),
        404 => format!(
            "the API server knows no {kind} of the version that we read: install Cluster API, as \
             `clusterctl init` does"
        ),
        401 => format!("the API server does not take our credentials: {said}"),
        403 => format!("the API server does not let us list and watch {kind}: {said}"),
        _ => format!("{said}; it is tried again"),
    }
}

/// Tells of each object's name, version and labels, and keeps nothing: for kinds whose contents
/// are none of our business until they are asked for.
pub async fn follow_names<K: Seen + 'static>(
    api: Api<PartialObjectMeta<K>>,
    config: watcher::Config,
    tell: impl Fn(&PartialObjectMeta<K>, Heard) + Send,
) {
    let events = watcher::watcher(api, config).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object)) => tell(&object, Heard::Changed),
            Ok(Event::Delete(object)) => tell(&object, Heard::Gone),
            Ok(Event::InitApply(object)) => tell(&object, Heard::Listed),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => interrupted::<K>(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_watch_lacks_is_named_with_what_to_do() {
        let status = |code, message: &str| {
            let status = kube::core::Status::failure(message, "").with_code(code);
            watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
        };
        for (kind, code, words) in [
            ("vcoclusters.infrastructure.cluster.x-k8s.io", 404, "`capvco release crds`"),
            ("machines.cluster.x-k8s.io", 404, "`clusterctl init`"),
            ("machines.cluster.x-k8s.io", 403, "does not let us list and watch machines"),
            ("machines.cluster.x-k8s.io", 401, "does not take our credentials: why"),
            ("machines.cluster.x-k8s.io", 503, "why; it is tried again"),
        ] {
            let said = trouble(kind, &status(code, "why"));
            assert!(said.contains(words), "{kind} {code}: {said}");
        }
    }
}
