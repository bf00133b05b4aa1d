//! Events on objects: what happened, for whoever runs `kubectl describe`.
//!
//! The recorder joins repetitions; reasons are constants and notes hold nothing that differs each
//! time, so that it can. An event that cannot be written is no reason to fail.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

/// Writes events as the manager.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Events of this manager; `instance` is the pod's or the machine's name.
    #[must_use]
    pub fn new(client: Client, instance: String) -> Self {
        let reporter = Reporter { controller: "capvco-manager".into(), instance: Some(instance) };
        Self { recorder: Recorder::new(client, reporter) }
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
        let note = note.chars().take(1000).collect();
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
            tracing::debug!(%error, reason, "an event could not be written");
        }
    }
}
