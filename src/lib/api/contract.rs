//! The few fields of Cluster API's own kinds that we read. Never written back whole.
//!
//! Every field is optional and unknown ones are ignored: one object that cannot be decoded would
//! stop the whole watch (contract, 11).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};

use super::names::{ABANDON_ANNOTATION, CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, CORE_GROUP};

/// Declares a kind of Cluster API's core that is read at [`CORE_VERSION`](super::names::CORE_VERSION).
macro_rules! core_kind {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $plural:literal, $spec:ident, $status:ident) => {
        $(#[$doc])*
        #[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
        #[serde(default)]
        pub struct $name {
            /// Name, labels, owners.
            pub metadata: ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
            /// What is so.
            pub status: $status,
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                CORE_GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                super::names::CORE_VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

core_kind!(
    /// A Cluster, as far as we read it.
    Cluster, "Cluster", "clusters", ClusterSpec, ClusterStatus
);
core_kind!(
    /// A Machine, as far as we read it.
    Machine, "Machine", "machines", MachineSpec, MachineStatus
);

/// What is wanted of a Cluster.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether nobody may work on it.
    pub paused: Option<bool>,
    /// Where its API is reached.
    pub control_plane_endpoint: Option<ClusterEndpoint>,
    /// Our part of it.
    pub infrastructure_ref: Option<Reference>,
}

/// Where a Cluster's API is reached, which may be half known.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterEndpoint {
    /// An address or a name.
    pub host: Option<String>,
    /// A port.
    pub port: Option<i32>,
}

/// A reference without version and namespace (contract, 1.1).
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Reference {
    /// The API group.
    pub api_group: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// The name.
    pub name: Option<String>,
}

impl Reference {
    /// The name of what it refers to, if that is of this kind or of none that is said.
    fn to(&self, kind: &str) -> Option<&str> {
        let fits = self.kind.as_deref().is_none_or(|named| named == kind);
        self.name.as_deref().filter(|_| fits)
    }
}

/// What is so of a Cluster.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterStatus {
    /// How far it has come.
    pub initialization: Option<ClusterInitialization>,
}

/// How far a Cluster has come.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// Whether our part is there.
    pub infrastructure_provisioned: Option<bool>,
    /// Whether its API has answered once.
    pub control_plane_initialized: Option<bool>,
}

/// What is wanted of a Machine.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineSpec {
    /// The Cluster's name.
    pub cluster_name: Option<String>,
    /// What its VM does first.
    pub bootstrap: Option<Bootstrap>,
    /// Our part of it.
    pub infrastructure_ref: Option<Reference>,
    /// Where it is to be.
    pub failure_domain: Option<String>,
    /// The version of Kubernetes.
    pub version: Option<String>,
}

/// What a VM does first.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Bootstrap {
    /// The Secret that holds it, once there is one.
    pub data_secret_name: Option<String>,
}

/// What is so of a Machine.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineStatus {
    /// The Node that it became.
    pub node_ref: Option<NodeRef>,
    /// What is so, and what is not.
    pub conditions: Option<Vec<SeenCondition>>,
}

/// The Node that a Machine became.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct NodeRef {
    /// The Node's name.
    pub name: Option<String>,
}

/// A condition of somebody else's, as far as we read it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct SeenCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `True`, `False` or `Unknown`.
    pub status: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

impl Cluster {
    /// Whether nobody may work on it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// The name of our part of it, if it is of ours.
    #[must_use]
    pub fn vco_cluster(&self) -> Option<&str> {
        self.spec.infrastructure_ref.as_ref()?.to("VCOCluster")
    }

    /// Whether our part is there, as Cluster API has seen it.
    #[must_use]
    pub fn infrastructure_provisioned(&self) -> bool {
        self.initialization(|i| i.infrastructure_provisioned)
    }

    /// Whether its API has answered once.
    #[must_use]
    pub fn control_plane_initialized(&self) -> bool {
        self.initialization(|i| i.control_plane_initialized)
    }

    fn initialization(&self, of: impl Fn(&ClusterInitialization) -> Option<bool>) -> bool {
        self.status.initialization.as_ref().and_then(of) == Some(true)
    }
}

impl Machine {
    /// The name of our part of it, if it is of ours.
    #[must_use]
    pub fn vco_machine(&self) -> Option<&str> {
        self.spec.infrastructure_ref.as_ref()?.to("VCOMachine")
    }

    /// The name of the Cluster that it belongs to.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        let label = || label(&self.metadata, CLUSTER_NAME_LABEL);
        self.spec.cluster_name.as_deref().filter(|name| !name.is_empty()).or_else(label)
    }

    /// Whether it belongs to the control plane.
    #[must_use]
    pub fn is_control_plane(&self) -> bool {
        label(&self.metadata, CONTROL_PLANE_LABEL).is_some()
    }

    /// The Secret that holds its bootstrap data, once there is one.
    #[must_use]
    pub fn data_secret_name(&self) -> Option<&str> {
        let name = self.spec.bootstrap.as_ref()?.data_secret_name.as_deref()?;
        Some(name).filter(|name| !name.is_empty())
    }
}

/// A label's value.
#[must_use]
pub fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    entry(meta.labels.as_ref(), key)
}

/// An annotation's value.
#[must_use]
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    entry(meta.annotations.as_ref(), key)
}

/// Whether somebody has given up that the cloud will ever answer for an object that is to go.
#[must_use]
pub fn is_abandoned(meta: &ObjectMeta) -> bool {
    annotation(meta, ABANDON_ANNOTATION) == Some("true")
}

fn entry<'a>(map: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    map?.get(key).map(String::as_str)
}

/// The owner of this kind of Cluster API's core, whatever its version and whether it is marked as
/// the controller or not (contract, 1.7).
#[must_use]
pub fn core_owner<'a>(meta: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|owner| {
        owner.kind == kind && owner.api_version.split_once('/').is_some_and(|v| v.0 == CORE_GROUP)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_is_missing_or_unknown_is_read() {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"topology": {"version": "v1"}, "controlPlaneEndpoint": {"host": "h"}},
        }))
        .unwrap();
        assert!(!cluster.is_paused() && !cluster.infrastructure_provisioned());
        assert_eq!(cluster.spec.control_plane_endpoint.unwrap().port, None);
        let machine: Machine = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!((machine.cluster_name(), machine.data_secret_name()), (None, None));
    }

    #[test]
    fn an_owner_is_known_by_group_and_kind_alone() {
        let meta = |api: &str, kind: &str| ObjectMeta {
            owner_references: Some(vec![OwnerReference {
                api_version: api.to_owned(),
                kind: kind.to_owned(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        };
        let is = |api, kind| core_owner(&meta(api, kind), "Machine").is_some();
        assert!(is("cluster.x-k8s.io/v1beta2", "Machine"));
        assert!(is("cluster.x-k8s.io/v1beta1", "Machine"));
        assert!(!is("controlplane.cluster.x-k8s.io/v1beta2", "Machine"));
        assert!(!is("cluster.x-k8s.io/v1beta2", "MachineSet"));
        assert!(!is("v1", "Machine"));
    }
}
