//! What several kinds have in common.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::rule;

/// The name of an object in the same namespace.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
pub struct LocalRef {
    /// The object's name.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rule::dns_name("name"))]
    pub name: String,
}

/// How far an object has come; what Cluster API waits for.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[schemars(extend("minProperties" = 1))]
pub struct Initialization {
    /// True once the infrastructure is there. It stays true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// Where the Kubernetes API of a cluster is reached.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address or a name.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = rule::host("host"))]
    pub host: String,
    /// A TCP port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// Labels and annotations that objects made from a template get.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateMeta {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<std::collections::BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<std::collections::BTreeMap<String, String>>,
}
