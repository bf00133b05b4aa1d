//! The manager's namespace and the Deployment that runs it.

use serde_json::{Value, json};

use super::rbac::ACCOUNT;
use super::{NAMESPACE, PROVIDER_LABEL, Release};

const HEALTH: i64 = 9440;
const DIAGNOSTICS: i64 = 8443;
/// The user of images that have none.
const NOBODY: i64 = 65_532;
/// Settings that outlive an upgrade, which removes and makes anew all but CRDs and the namespace:
/// a `ConfigMap` that may be there, with `VCO_PORTAL_URL` and the like.
const SETTINGS: &str = "capvco-settings";

pub(super) fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"control-plane": "controller-manager"}},
    })
}

pub(super) fn manager(release: &Release) -> Value {
    let (provider_label, provider) = PROVIDER_LABEL;
    let labels = json!({"control-plane": "capvco-controller-manager", provider_label: provider});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "capvco-controller-manager",
            "namespace": NAMESPACE,
            "labels": {
                "app.kubernetes.io/version": release.version.to_string(),
                "control-plane": "capvco-controller-manager",
            },
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod(&release.image)},
        },
    })
}

fn pod(image: &str) -> Value {
    let toleration = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    json!({
        "serviceAccountName": ACCOUNT,
        "terminationGracePeriodSeconds": 10,
        "tolerations": [
            toleration("node-role.kubernetes.io/control-plane"),
            toleration("node-role.kubernetes.io/master"),
        ],
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container(image)],
    })
}

/// Named as `clusterctl init --wait-providers` looks for it (contract, 3.2).
fn container(image: &str) -> Value {
    json!({
        "name": "manager",
        "image": image,
        "args": [
            "manager",
            "--leader-elect",
            format!("--diagnostics-address=:{DIAGNOSTICS}"),
            format!("--health-addr=:{HEALTH}"),
        ],
        "env": [from_field("POD_NAME", "metadata.name"), from_field("POD_NAMESPACE", "metadata.namespace")],
        "envFrom": [{"configMapRef": {"name": SETTINGS, "optional": true}}],
        "ports": [
            {"name": "health", "containerPort": HEALTH, "protocol": "TCP"},
            {"name": "metrics", "containerPort": DIAGNOSTICS, "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsGroup": NOBODY,
            "runAsUser": NOBODY,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    })
}

fn from_field(name: &str, field: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}})
}
