//! `VCOCluster`: the network of a cluster and the way to its API.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::rule;
use super::shared::{Endpoint, Initialization, LocalRef};

/// What a cluster needs of the cloud before its first machine.
#[derive(CustomResource, Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "VCOCluster",
    plural = "vcoclusters",
    shortname = "vcoc",
    category = "cluster-api",
    namespaced,
    status = "VCOClusterStatus",
    derive = "PartialEq",
    doc = "VCOCluster is the network of a cluster on whitesky.cloud and the way to its API: a cloudspace, a load balancer and the credentials to both.",
    label("cluster.x-k8s.io/v1beta2", "v1beta1"),
    label("cluster.x-k8s.io/provider", "infrastructure-vco"),
    label("clusterctl.cluster.x-k8s.io", ""),
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", "description": "The Cluster that it belongs to"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status", "description": "Whether all is as it should be"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "description": "Why, in a word"}"#,
    printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".spec.controlPlaneEndpoint.host", "description": "Where the Kubernetes API is reached"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Location", "type": "string", "jsonPath": ".spec.location", "description": "Where it is", "priority": 1}"#,
    printcolumn = r#"{"name": "Cloudspace", "type": "string", "jsonPath": ".spec.cloudspaceId", "description": "Its network", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "description": "Why, in a sentence", "priority": 1}"#,
    validation = rule::once("location", "a cluster stays where it is; make another VCOCluster."),
    validation = rule::once("customerId", "resources do not change hands; make another VCOCluster."),
    validation = rule::since("cloudspaceId", "customerId", "its things belong to the customer for whom they were made."),
    validation = rule::once("cloudspaceId", "all of the cluster's VMs are in it; restore the old value."),
    validation = rule::once("controlPlaneEndpoint", "certificates and kubeconfigs hold it; let the old address lead to the new place."),
    validation = rule::always("cloudspace.adopt", "it decides what may be deleted; make another VCOCluster."),
    validation = rule::since("cloudspaceId", "cloudspace.privateNetwork", "the cloud cannot change it; make another VCOCluster."),
    validation = rule::since("cloudspaceId", "cloudspace.localDomain", "machines know it already; make another VCOCluster."),
    validation = rule::since("cloudspaceId", "cloudspace.externalNetworkId", "the firewall has its address there; make another VCOCluster.")
)]
#[serde(rename_all = "camelCase")]
pub struct VCOClusterSpec {
    /// The Secret in this namespace that holds the credentials: `token`, a JWT of the portal, and
    /// optionally `portalUrl`, `iamRefreshUrl` and `customerId`. It cannot be deleted while a
    /// cluster uses it, and is never changed otherwise.
    pub credential_secret_ref: LocalRef,
    /// The customer whose resources these are, such as `acme_1`. May be left to the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = rule::id("customerId"))]
    pub customer_id: Option<String>,
    /// The location of the cluster, such as `be-mac-dc01-001`.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = rule::id("location"))]
    pub location: String,
    /// The cluster's network. One is made if this says nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloudspace: Option<CloudspaceSpec>,
    /// The cloudspace that is used, written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = rule::id("cloudspaceId"))]
    pub cloudspace_id: Option<String>,
    /// Where the Kubernetes API is reached; written by the controller when its load balancer is
    /// there. Certificates hold it: it never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
    /// The load balancer before the control plane's machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_load_balancer: Option<ApiLoadBalancer>,
    /// How machines are kept on different hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinity>,
    /// Where `capvco-backup` keeps this cluster's backups. Only read, to show the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupSpec>,
}

/// Which network, or what one is made like.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(
    validation = Rule::new("!has(self.adopt) || !has(self.privateNetwork)")
        .message("privateNetwork describes a network that is made, adopt names one that is there: remove one of the two")
        .field_path(".privateNetwork"),
    validation = Rule::new("!has(self.adopt) || !has(self.localDomain)")
        .message("localDomain describes a network that is made, adopt names one that is there: remove one of the two")
        .field_path(".localDomain"),
    validation = Rule::new("!has(self.adopt) || !has(self.externalNetworkId)")
        .message("externalNetworkId describes a network that is made, adopt names one that is there: remove one of the two")
        .field_path(".externalNetworkId")
)]
#[serde(rename_all = "camelCase")]
pub struct CloudspaceSpec {
    /// A cloudspace that exists already. It and everything in it that this cluster did not make
    /// are never changed nor deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<AdoptCloudspace>,
    /// The private network in CIDR form, such as `192.168.103.0/24`; a free one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 9, max = 18))]
    #[x_kube(validation = rule::network("privateNetwork"))]
    pub private_network: Option<String>,
    /// The DNS domain within the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rule::dns_name("localDomain"))]
    pub local_domain: Option<String>,
    /// The external network that the firewall gets its address from; the location's first public
    /// one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub external_network_id: Option<i64>,
    /// What becomes of things in a cloudspace of ours that others made there (volumes and load
    /// balancers of the cluster's own controllers) when the cluster is deleted: `Report`, the
    /// default, names them and waits; `Remove` deletes them, disks excepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Leftovers>,
}

/// What becomes of things in a cloudspace of ours that others made there (volumes and load
/// balancers of the cluster's own controllers) when the cluster is deleted: `Report`, which is
/// what happens if nothing is said, names them and waits; `Remove` deletes them, disks excepted,
/// which are detached.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// A condition names them and the deletion waits.
    Report,
    /// They are deleted, disks excepted, which are detached.
    Remove,
}

/// A cloudspace that exists already: either its id or its name.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.name)")
    .message("adopt needs exactly one of id and name: remove one, or give one"))]
pub struct AdoptCloudspace {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = rule::id("id"))]
    pub id: Option<String>,
    /// Its name, which must be the only one of that name at the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub name: Option<String>,
}

/// The load balancer before the control plane's machines.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ApiLoadBalancer {
    /// Whether there is one; yes if not said. Without it `controlPlaneEndpoint` must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The external address of the cloudspace that it listens on; the first if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 45))]
    #[x_kube(validation = rule::ipv4("ipAddress"))]
    pub ip_address: Option<String>,
    /// The port that it listens on; 6443 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// How machines are kept on different hosts.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AntiAffinity {
    /// Whether the control plane's machines form a group of their own; yes if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Over how many hosts a group is spread; no limit if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub spread: Option<i32>,
}

/// Where this cluster's backups are.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// The bucket.
    pub s3: BackupBucket,
    /// The Secret in this namespace with a key that may read it: `accessKeyId`,
    /// `secretAccessKey`.
    pub secret_ref: LocalRef,
    /// How old the newest good backup may be, such as `8h`; 24h if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h|d))+$')")
        .message("maxAge must be a length of time such as 8h, 1h30m or 2d"))]
    pub max_age: Option<String>,
}

/// A bucket of an S3 server.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BackupBucket {
    /// The server's URL.
    #[schemars(length(min = 8, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''")
        .message("endpoint must be a URL such as https://s3.example.com"))]
    pub endpoint: String,
    /// Its region; `us-east-1` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub region: Option<String>,
    /// The bucket's name.
    #[schemars(length(min = 3, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')")
        .message("bucket must be lower-case letters, digits, - and ., beginning and ending with a letter or digit"))]
    pub bucket: String,
    /// What the keys begin with, such as `prod/`; `etcd/` if not given, as `capvco-backup` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub prefix: Option<String>,
    /// Whether the bucket is named in the path instead of the host; yes if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_style: Option<bool>,
}

/// What is known of a cluster's infrastructure.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VCOClusterStatus {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Where machines can be placed: the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub failure_domains: Option<Vec<FailureDomain>>,
    /// What the network is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatus>,
    /// The newest good backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupStatus>,
    /// What is so, and what is not, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

/// Where machines can be placed.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// The location.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether control plane machines may be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,
}

/// What the network is.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// The cloudspace's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloudspace_id: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloudspace_name: Option<String>,
    /// Its address on the outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_address: Option<String>,
    /// Its private network in CIDR form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_network: Option<String>,
    /// The pool of the control plane's addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_pool_id: Option<String>,
    /// The load balancer before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_id: Option<String>,
    /// The addresses that are in the pool, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub members: Option<Vec<String>>,
}

/// The newest good backup of a cluster.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
pub struct BackupStatus {
    /// The key of its manifest.
    pub key: String,
    /// When it was taken, in RFC 3339.
    pub time: String,
    /// The revision of etcd that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}
