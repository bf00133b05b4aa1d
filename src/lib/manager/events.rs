//! Events on objects: what happened, for whoever runs `kubectl describe`.
//!
//! The recorder joins repetitions; reasons are constants and notes hold nothing that differs each
//! time, so that it can. An event that cannot be written is no reason to fail.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

/// So many different notes are remembered.
const KEPT: usize = 256;

/// Writes events as the manager.
pub struct Events {
    client: Client,
    reporter: Reporter,
    /// One a note: a recorder takes events that differ in nothing but their notes for repetitions,
    /// and keeps the first note only.
    recorders: Mutex<HashMap<String, Recorder>>,
}

impl Events {
    /// Events of this manager; `instance` is the pod's or the machine's name.
    #[must_use]
    pub fn new(client: Client, instance: String) -> Self {
        let reporter = Reporter { controller: "capvco-manager".into(), instance: Some(instance) };
        Self { client, reporter, recorders: Mutex::default() }
    }

    fn recorder(&self, note: &str) -> Recorder {
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        if recorders.len() >= KEPT && !recorders.contains_key(note) {
            recorders.clear();
        }
        let new = || Recorder::new(self.client.clone(), self.reporter.clone());
        recorders.entry(note.to_owned()).or_insert_with(new).clone()
    }

    /// Something went as it should.
    pub async fn normal<K>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.publish(object, EventType::Normal, reason, action, note.into()).await;
    }

    /// Somebody should look.
    pub async fn warning<K>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.publish(object, EventType::Warning, reason, action, note.into()).await;
    }

    async fn publish<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        type_: EventType,
        reason: &str,
        action: &str,
        note: String,
    ) {
        match type_ {
            EventType::Normal => tracing::info!(reason, "{note}"),
            EventType::Warning => tracing::warn!(reason, "{note}"),
        }
        // Longer notes are refused (events.k8s.io/v1).
        let note: String = note.chars().take(1000).collect();
        let recorder = self.recorder(&note);
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
            tracing::debug!(%error, reason, "an event could not be written");
        }
    }
}
