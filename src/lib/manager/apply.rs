//! What is written to the API server, and as whom: one field manager a purpose.
//!
//! Whole objects are never written back: that would claim every field of them, and fight with
//! whoever the fields belong to (contract, 11). Every write names the object's uid or version, so
//! that one which was deleted and made again in between is not hit, nor made by applying to it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::error::Error;
use super::watch::Seen;
use crate::api::names::{BACKUP_MANAGER, IDENTITY_MANAGER, METADATA_MANAGER, STATUS_MANAGER};

/// Applies `fields` to the object's spec, as the owner of what identifies things in the cloud.
///
/// # Errors
/// The API server refuses; a conflict if the object is another one by now.
pub async fn spec<K: Seen>(api: &Api<K>, object: &K, fields: &Value) -> Result<K, Error> {
    let body = body(object, "spec", fields);
    let params = PatchParams::apply(IDENTITY_MANAGER).force();
    let written = api.patch(&object.name_any(), &params, &Patch::Apply(&body)).await;
    written.map_err(|source| Error::api(format!("write to the spec of {}", name(object)), source))
}

/// Applies a whole status. What it leaves out is taken away.
///
/// # Errors
/// The API server refuses; not found if the object is gone.
pub async fn status<K: Seen>(api: &Api<K>, object: &K, status: &Value) -> Result<K, Error> {
    let body = body(object, "status", status);
    let params = PatchParams::apply(STATUS_MANAGER).force();
    let written = api.patch_status(&object.name_any(), &params, &Patch::Apply(&body)).await;
    written.map_err(|source| Error::api(format!("write the status of {}", name(object)), source))
}

/// Applies what is said of backups to a status: the rest of it is none of its business.
///
/// # Errors
/// The API server refuses; not found if the object is gone.
pub async fn backup_status<K: Seen>(api: &Api<K>, object: &K, status: &Value) -> Result<K, Error> {
    let body = body(object, "status", status);
    let params = PatchParams::apply(BACKUP_MANAGER).force();
    let written = api.patch_status(&object.name_any(), &params, &Patch::Apply(&body)).await;
    written.map_err(|source| Error::api(format!("say the backups of {}", name(object)), source))
}

fn body<K: Seen>(object: &K, part: &str, value: &Value) -> Value {
    let meta = object.meta();
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        part: value,
    })
}

/// Adds a finalizer and annotations, if the object is still as it was read.
///
/// # Errors
/// The API server refuses; a conflict if somebody wrote in between.
pub async fn claim<K: Seen>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
    annotations: &[(&str, &str)],
) -> Result<K, Error> {
    let mut all = object.finalizers().to_vec();
    if !all.iter().any(|one| one == finalizer) {
        all.push(finalizer.to_owned());
    }
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let mut metadata = json!({"finalizers": all});
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    metadata_patch(api, object, "claim", metadata).await
}

/// Lets the object go, if it is still as it was read.
///
/// # Errors
/// The API server refuses; a conflict if somebody wrote in between.
pub async fn release<K: Seen>(api: &Api<K>, object: &K, finalizer: &str) -> Result<K, Error> {
    let all: Vec<_> = object.finalizers().iter().filter(|one| *one != finalizer).collect();
    metadata_patch(api, object, "release", json!({"finalizers": all})).await
}

async fn metadata_patch<K: Seen>(
    api: &Api<K>,
    object: &K,
    doing: &str,
    mut metadata: Value,
) -> Result<K, Error> {
    let ObjectMeta { uid, resource_version, .. } = object.meta();
    metadata["uid"] = json!(uid);
    metadata["resourceVersion"] = json!(resource_version);
    let params =
        PatchParams { field_manager: Some(METADATA_MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let written = api.patch(&object.name_any(), &params, &patch).await;
    written.map_err(|source| Error::api(format!("{doing} {}", name(object)), source))
}

/// The object's kind and name, for errors.
pub fn name<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{} {namespace}/{}", K::kind(&()), object.name_any())
}
