//! `VCOMachineTemplate`: what machines of a group are made like.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::machine::VCOMachineSpec;
use super::rule;
use super::shared::TemplateMeta;

/// What machines of a group are made like.
#[derive(CustomResource, Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "VCOMachineTemplate",
    plural = "vcomachinetemplates",
    shortname = "vcomt",
    category = "cluster-api",
    namespaced,
    status = "VCOMachineTemplateStatus",
    derive = "PartialEq",
    doc = "VCOMachineTemplate is what the machines of a group are made like. Its spec never changes: make another one and refer to that.",
    label("cluster.x-k8s.io/v1beta2", "v1beta1"),
    label("cluster.x-k8s.io/provider", "infrastructure-vco"),
    label("clusterctl.cluster.x-k8s.io", ""),
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.template.spec.imageName", "description": "The image by its name"}"#,
    printcolumn = r#"{"name": "VCPUs", "type": "integer", "jsonPath": ".spec.template.spec.vcpus", "description": "Virtual processors"}"#,
    printcolumn = r#"{"name": "MemoryMiB", "type": "integer", "jsonPath": ".spec.template.spec.memoryMiB", "description": "Memory in MiB"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "ImageId", "type": "integer", "jsonPath": ".spec.template.spec.imageId", "description": "The image by its number", "priority": 1}"#
)]
#[x_kube(validation = rule::not_in_template("providerID"))]
pub struct VCOMachineTemplateSpec {
    /// The machine that is made.
    pub template: VCOMachineTemplateResource,
}

/// The machine that is made.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
pub struct VCOMachineTemplateResource {
    /// Labels and annotations that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Its spec.
    pub spec: VCOMachineSpec,
}

/// What a machine of this template has, for an autoscaler that starts from none.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VCOMachineTemplateStatus {
    /// Resources by their names in Kubernetes: `cpu`, `memory`, `ephemeral-storage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<String, String>>,
    /// What runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}

/// What runs on a machine.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Such as `amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Such as `linux`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
}
