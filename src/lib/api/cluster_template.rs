//! `VCOClusterTemplate`: what the clusters of a `ClusterClass` are made like.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::cluster::VCOClusterSpec;
use super::rule;
use super::shared::TemplateMeta;

/// What the clusters of a `ClusterClass` are made like.
#[derive(CustomResource, Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "VCOClusterTemplate",
    plural = "vcoclustertemplates",
    shortname = "vcoct",
    category = "cluster-api",
    namespaced,
    derive = "PartialEq",
    doc = "VCOClusterTemplate is what the VCOClusters of a ClusterClass are made like.",
    label("cluster.x-k8s.io/v1beta2", "v1beta1"),
    label("cluster.x-k8s.io/provider", "infrastructure-vco"),
    label("clusterctl.cluster.x-k8s.io", ""),
    printcolumn = r#"{"name": "Location", "type": "string", "jsonPath": ".spec.template.spec.location", "description": "Where clusters of it are"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[x_kube(validation = rule::not_in_template("cloudspaceId"))]
pub struct VCOClusterTemplateSpec {
    /// The cluster that is made.
    pub template: VCOClusterTemplateResource,
}

/// The cluster that is made.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
pub struct VCOClusterTemplateResource {
    /// Labels and annotations that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Its spec.
    pub spec: VCOClusterSpec,
}
