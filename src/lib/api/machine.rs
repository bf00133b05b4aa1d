//! `VCOMachine`: one VM, for ever.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::shared::Initialization;

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
    label("clusterctl.cluster.x-k8s.io", "")
)]
#[serde(rename_all = "camelCase")]
pub struct VCOMachineSpec {
    /// `vco://<location>/<vm id>`, written by the controller; the Node says the same.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
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
    pub private_ip: Option<String>,
    /// Interfaces on external networks.
    #[serde(default, rename = "externalNICs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8))]
    pub external_nics: Option<Vec<ExternalNic>>,
    /// The group of VMs that are kept on different hosts. Control plane machines have one of their
    /// own if nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub anti_affinity_group: Option<String>,
}

/// A disk beside the boot disk.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DataDisk {
    /// Its name within the machine, such as `etcd`.
    #[schemars(length(min = 1, max = 63))]
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

/// What a disk is made of.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum DiskType {
    /// A virtual disk.
    Data,
    /// A disk of the host.
    Physical,
}

/// How a physical disk is protected, in the cloud's words.
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

/// The kinds of addresses that Cluster API knows and we have.
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
