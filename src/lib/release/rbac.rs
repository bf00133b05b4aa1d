//! What the manager may do, and what an autoscaler may see.
//!
//! Cluster API's own managers need nothing from here: their roles cover the whole group of
//! infrastructure (contract, G2), so no role has to be aggregated to them.

use serde_json::{Value, json};

use super::NAMESPACE;
use crate::api::names::{CORE_GROUP, GROUP};

const API: &str = "rbac.authorization.k8s.io";
/// The account that the manager runs as.
pub(super) const ACCOUNT: &str = "capvco-manager";
const MANAGER: &str = "capvco-manager";
const LEASES: &str = "capvco-leases";
const AUTOSCALER: &str = "capvco-autoscaler";
const METRICS: &str = "capvco-metrics-reader";

/// The account, its roles, and the roles for autoscalers and for who reads metrics, which whoever
/// runs one binds.
pub(super) fn all() -> Vec<Value> {
    vec![
        account(),
        role("ClusterRole", MANAGER, &everywhere()),
        binding("ClusterRole", MANAGER),
        role("Role", LEASES, &at_home()),
        binding("Role", LEASES),
        role("ClusterRole", AUTOSCALER, &[reading(GROUP, &["vcomachinetemplates"])]),
        role("ClusterRole", METRICS, &[path("/metrics", &["get"])]),
    ]
}

/// In every namespace, because clusters are in every namespace.
fn everywhere() -> Vec<Value> {
    vec![
        reading(GROUP, &["vcoclusters", "vcomachines", "vcomachinetemplates"]),
        // Finalizers, annotations and what is written back into specs.
        rule(GROUP, &["vcoclusters", "vcomachines"], &["patch"]),
        rule(
            GROUP,
            &["vcoclusters/status", "vcomachines/status", "vcomachinetemplates/status"],
            &["patch"],
        ),
        // Where the API server holds owner references to permissions (contract, G11).
        rule(GROUP, &["vcoclusters/finalizers", "vcomachines/finalizers"], &["update"]),
        rule(CORE_GROUP, &["clusters/finalizers", "machines/finalizers"], &["update"]),
        reading(CORE_GROUP, &["clusters", "machines"]),
        // Credentials and bootstrap data are read, their names are watched. The patch is the
        // finalizer on credentials in use; a refreshed token is kept beside the user's.
        rule("", &["secrets"], &["create", "get", "list", "patch", "watch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        // Who may read diagnostics.
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    ]
}

/// In the manager's own namespace.
fn at_home() -> Vec<Value> {
    vec![
        // Which of several managers works.
        rule("coordination.k8s.io", &["leases"], &["create", "get", "update"]),
    ]
}

fn reading(group: &str, resources: &[&str]) -> Value {
    rule(group, resources, &["get", "list", "watch"])
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn path(path: &str, verbs: &[&str]) -> Value {
    json!({"nonResourceURLs": [path], "verbs": verbs})
}

fn account() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": NAMESPACE, "labels": {}},
    })
}

fn role(kind: &str, name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"),
        "kind": kind,
        "metadata": metadata(kind, name),
        "rules": rules,
    })
}

/// Binds the role to the manager's account.
fn binding(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"),
        "kind": format!("{kind}Binding"),
        "metadata": metadata(kind, name),
        "roleRef": {"apiGroup": API, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    })
}

fn metadata(kind: &str, name: &str) -> Value {
    match kind {
        "Role" => json!({"name": name, "namespace": NAMESPACE, "labels": {}}),
        _ => json!({"name": name, "labels": {}}),
    }
}
