//! `VCOMachine`: one VM, for ever.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::rule;
use super::shared::Initialization;

/// What to do instead of changing what a VM was made of.
const REPLACE: &str = "the VM was made so; make another VCOMachineTemplate and refer to that, and the Machine is replaced.";

/// What a VM is made like.
#[derive(CustomResource, Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "VCOMachine",
    plural = "vcomachines",
    shortname = "vcom",
    category = "cluster-api",
    namespaced,
    status = "VCOMachineStatus",
    derive = "PartialEq",
    doc = "VCOMachine is one VM on whitesky.cloud. A VM that is lost is not made again: the Machine is replaced.",
    label("cluster.x-k8s.io/v1beta2", "v1beta1"),
    label("cluster.x-k8s.io/provider", "infrastructure-vco"),
    label("clusterctl.cluster.x-k8s.io", ""),
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", "description": "The Cluster that it belongs to"}"#,
    printcolumn = r#"{"name": "State", "type": "string", "jsonPath": ".status.vmState", "description": "The VM's state in the cloud's word"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "description": "Why it is ready or is not, in a word"}"#,
    printcolumn = r#"{"name": "ProviderID", "type": "string", "jsonPath": ".spec.providerID", "description": "What the Node says, too"}"#,
    printcolumn = r#"{"name": "VM", "type": "integer", "jsonPath": ".status.vmId", "description": "The VM's number at its location"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "description": "Why, in a sentence", "priority": 1}"#,
    validation = rule::once("providerID", "it is the VM and the Node for ever; delete the Machine to have another."),
    validation = rule::always("imageId", REPLACE),
    validation = rule::always("imageName", REPLACE),
    validation = rule::always("vcpus", REPLACE),
    validation = rule::always("memoryMiB", REPLACE),
    validation = rule::always("bootDiskGiB", REPLACE),
    validation = rule::always("dataDisks", REPLACE),
    validation = rule::always("privateIP", REPLACE),
    validation = rule::always("externalNICs", REPLACE),
    validation = rule::always("antiAffinityGroup", REPLACE)
)]
#[x_kube(validation = Rule::new("has(self.imageId) != has(self.imageName)")
    .message("exactly one of imageId and imageName is needed: remove one, or give one"))]
#[serde(rename_all = "camelCase")]
pub struct VCOMachineSpec {
    /// `vco://<location>/<vm id>`, written by the controller; the Node says the same.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^vco://[^/?#,[:space:]]+/[0-9]+$')")
        .message("providerID must be vco://LOCATION/VM as the controller writes it: leave it out"))]
    pub provider_id: Option<String>,
    /// The image by its number at the cluster's location. Either this or `imageName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub image_id: Option<i64>,
    /// The image by its name, of which there must be exactly one usable at the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub image_name: Option<String>,
    /// Virtual processors.
    #[schemars(range(min = 1, max = 64))]
    pub vcpus: i32,
    /// Memory in MiB, a multiple of 128.
    #[serde(rename = "memoryMiB")]
    #[schemars(range(min = 512, max = 131_072))]
    #[x_kube(validation = Rule::new("self % 128 == 0")
        .message("memoryMiB must be a multiple of 128, such as 4096"))]
    pub memory_mib: i32,
    /// The boot disk in GiB.
    #[serde(rename = "bootDiskGiB")]
    #[schemars(range(min = 1, max = 2000))]
    pub boot_disk_gib: i32,
    /// Disks beside the boot disk; made with the VM and deleted with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 23))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub data_disks: Option<Vec<DataDisk>>,
    /// A fixed address in the private network; one is given by the cloud otherwise.
    #[serde(default, rename = "privateIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 7, max = 15))]
    #[x_kube(validation = rule::ipv4("privateIP"))]
    pub private_ip: Option<String>,
    /// Interfaces on external networks.
    #[serde(default, rename = "externalNICs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8))]
    pub external_nics: Option<Vec<ExternalNic>>,
    /// The group of VMs that are kept on different hosts. Control plane machines have one of their
    /// own if nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = rule::label("antiAffinityGroup"))]
    pub anti_affinity_group: Option<String>,
}

/// A disk beside the boot disk.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!has(self.raidLevel) || (has(self.type) && self.type == 'PHYSICAL')")
    .message("raidLevel is for disks of type PHYSICAL: remove it, or set type to PHYSICAL")
    .field_path(".raidLevel"))]
#[serde(rename_all = "camelCase")]
pub struct DataDisk {
    /// Its name within the machine, such as `etcd`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = rule::label("name"))]
    pub name: String,
    /// Its size in GiB.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 1, max = 2000))]
    pub size_gib: i32,
    /// What it is made of; `DATA` if not given.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<DiskType>,
    /// Operations per second; 2000 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1_000_000))]
    pub iops: Option<i32>,
    /// How a physical disk is protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid_level: Option<RaidLevel>,
}

/// What a disk is made of: `DATA`, a virtual disk, which it is if nothing is said, or `PHYSICAL`,
/// a disk of the host.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum DiskType {
    /// A virtual disk.
    Data,
    /// A disk of the host.
    Physical,
}

/// How a disk of type `PHYSICAL` is protected, in the cloud's words: `no raid`, not at all;
/// `raid1`, mirrored; `raid5`, with parity.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaidLevel {
    /// Not at all.
    #[serde(rename = "no raid")]
    None,
    /// Mirrored.
    #[serde(rename = "raid1")]
    Raid1,
    /// With parity.
    #[serde(rename = "raid5")]
    Raid5,
}

/// An interface on an external network.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalNic {
    /// The network.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub external_network_id: i64,
    /// The address; a free one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 7, max = 15))]
    #[x_kube(validation = rule::ipv4("ipAddress"))]
    pub ip_address: Option<String>,
}

/// What is known of a machine's VM.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VCOMachineStatus {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Its addresses, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub addresses: Option<Vec<MachineAddress>>,
    /// Where it is: the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// The VM's number at its location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_id: Option<i64>,
    /// The VM's state in the cloud's word, such as `RUNNING`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_state: Option<String>,
    /// What is so, and what is not, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

/// One address of a machine.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineAddress {
    /// What kind of address it is.
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// The kind of address: `Hostname`, the VM's own name; `ExternalIP`, in an external network;
/// `InternalIP`, in the private network.
#[derive(
    Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum AddressType {
    /// The name that the VM has for itself.
    Hostname,
    /// In an external network.
    ExternalIP,
    /// In the private network.
    InternalIP,
}
