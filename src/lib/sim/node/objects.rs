//! What a kubelet would write into its cluster; pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::bootstrap::{Registration, Role};

/// The static pods of a control plane: without the last where etcd is outside.
pub(super) const COMPONENTS: [&str; 4] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];

/// A machine as its kubelet knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kubelet {
    pub(super) registration: Registration,
    pub(super) control_plane: bool,
    /// Whether its etcd is inside.
    pub(super) stacked: bool,
    pub(super) address: String,
    pub(super) provider_id: String,
    /// Such as `v1.36.3`.
    pub(super) version: String,
    pub(super) vcpus: u64,
    /// In MiB.
    pub(super) memory: u64,
}

impl Kubelet {
    pub(super) fn name(&self) -> &str {
        &self.registration.name
    }

    /// Its static pods.
    pub(super) fn components(&self) -> &'static [&'static str] {
        match (self.control_plane, self.stacked) {
            (true, true) => &COMPONENTS,
            (true, false) => &COMPONENTS[..3],
            (false, _) => &[],
        }
    }

    /// Its Node, ready from the first moment.
    pub(super) fn node(&self, now: &str) -> Value {
        let name = self.name();
        let mut labels = json!({
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "amd64",
        });
        if self.control_plane {
            labels["node-role.kubernetes.io/control-plane"] = json!("");
            labels["node.kubernetes.io/exclude-from-external-load-balancers"] = json!("");
        }
        for (key, value) in &self.registration.labels {
            labels[key] = json!(value);
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": self.provider_id, "taints": self.registration.taints},
            "status": self.status(now),
        })
    }

    /// The status of its Node.
    pub(super) fn status(&self, now: &str) -> Value {
        let room = json!({
            "cpu": self.vcpus.to_string(), "memory": format!("{}Mi", self.memory), "pods": "110",
        });
        json!({
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name()},
            ],
            "capacity": room, "allocatable": room,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", now),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", now),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", now),
                condition("Ready", "True", "KubeletReady", now),
            ],
            "nodeInfo": {
                "kubeletVersion": self.version, "kubeProxyVersion": "", "architecture": "amd64",
                "operatingSystem": "linux", "osImage": "the embedded cloud's",
                "containerRuntimeVersion": "none://0", "kernelVersion": "0",
                "bootID": self.provider_id, "machineID": self.provider_id,
                "systemUUID": self.provider_id,
            },
        })
    }

    /// The mirror of a static pod whose manifest has these annotations.
    pub(super) fn pod(
        &self,
        component: &str,
        uid: &str,
        mut annotations: BTreeMap<String, String>,
        now: &str,
    ) -> Value {
        let node = self.name();
        let kubelets =
            [("hash", component), ("mirror", component), ("source", "file"), ("seen", now)];
        annotations.extend(
            kubelets.map(|(key, value)| (format!("kubernetes.io/config.{key}"), value.to_owned())),
        );
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{component}-{node}"), "namespace": "kube-system",
                "labels": {"tier": "control-plane", "component": component},
                "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid,
                    "controller": true,
                }],
            },
            "spec": {
                "nodeName": node, "hostNetwork": true, "priorityClassName": "system-node-critical",
                "enableServiceLinks": false,
                "tolerations": [{"effect": "NoExecute", "operator": "Exists"}],
                "containers": [{
                    "name": component,
                    "image": format!("registry.k8s.io/{component}:{}", self.version),
                    "terminationMessagePolicy": "File",
                }],
            },
        })
    }
}

/// What a node-lifecycle controller would write of a kubelet that is silent.
pub(super) fn unknown(now: &str) -> Value {
    let silent = |kind| condition(kind, "Unknown", "NodeStatusUnknown", now);
    json!({"status": {"conditions": [
        silent("MemoryPressure"), silent("DiskPressure"), silent("PIDPressure"), silent("Ready"),
    ]}})
}

/// The status of a component's pod whose server runs, or has ended and rests.
pub(super) fn running(component: &str, runs: bool, now: &str) -> Value {
    let on = |kind, runs| condition(kind, if runs { "True" } else { "False" }, "", now);
    let state = if runs {
        json!({"running": {"startedAt": now}})
    } else {
        json!({"waiting": {"reason": "CrashLoopBackOff"}})
    };
    json!({"status": {
        "phase": "Running", "startTime": now,
        "conditions": [
            on("PodScheduled", true), on("Initialized", true), on("ContainersReady", runs),
            on("Ready", runs),
        ],
        "containerStatuses": [{
            "name": component, "image": component, "imageID": "", "restartCount": 0,
            "ready": runs, "started": runs, "state": state,
        }],
    }})
}

/// What a kubelet renews to show that it lives; `micros` is now, to the microsecond.
pub(super) fn lease(node: &Value, micros: &str) -> Value {
    let name = &node["metadata"]["name"];
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": "kube-node-lease",
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"],
            }],
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micros},
    })
}

fn condition(kind: &str, status: &str, reason: &str, now: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason,
        "lastTransitionTime": now,
    })
}

/// Which Kubernetes a machine's image has: the version in its name, else that of kubeadm's
/// configuration.
pub(super) fn version(image: &str, role: &Role) -> Option<String> {
    let words = image.split(|c: char| !c.is_ascii_digit() && c != '.');
    let is_version = |word: &&str| {
        let steps: Vec<&str> = word.split('.').collect();
        matches!(steps[..], ["1", minor, patch] if !minor.is_empty() && !patch.is_empty())
    };
    if let Some(found) = words.map(|word| word.trim_matches('.')).find(is_version) {
        return Some(format!("v{found}"));
    }
    match role {
        Role::Init { cluster, .. } => cluster["kubernetesVersion"].as_str().map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet() -> Kubelet {
        Kubelet {
            registration: Registration { name: "c-1".into(), ..Registration::default() },
            control_plane: true,
            stacked: false,
            address: "10.0.0.2".into(),
            provider_id: "vco://be-mac-dc01-001/7".into(),
            version: "v1.36.3".into(),
            vcpus: 2,
            memory: 2048,
        }
    }

    #[test]
    fn the_version_is_that_of_the_image_or_of_kubeadm() {
        let first =
            Role::Init { cluster: json!({"kubernetesVersion": "v1.36.3"}), init: json!({}) };
        for (image, role, wanted) in [
            ("ubuntu-24.04-k8s-v1.37.2", &first, Some("v1.37.2")),
            ("Ubuntu 24.04 LTS", &first, Some("v1.36.3")),
            ("Ubuntu 24.04 LTS", &Role::Worker, None),
            ("k8s-1.36.10.qcow2", &Role::Worker, Some("v1.36.10")),
        ] {
            assert_eq!(version(image, role).as_deref(), wanted, "{image}");
        }
    }

    #[test]
    fn a_control_plane_looks_like_one_and_a_silent_one_is_unknown() {
        let node = kubelet().node("2026-01-01T00:00:00Z");
        assert_eq!(node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"], "");
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.3");
        assert_eq!(node["status"]["conditions"][3]["status"], "True");
        assert_eq!(unknown("now")["status"]["conditions"][3]["status"], "Unknown");
        let pod = kubelet().pod(COMPONENTS[0], "uid", BTreeMap::new(), "now");
        assert_eq!(pod["metadata"]["name"], "kube-apiserver-c-1");
    }
}
