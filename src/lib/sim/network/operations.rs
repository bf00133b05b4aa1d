//! The declared operations on cloudspaces, their addresses, notes and quotas, in the vendor's words.

use super::super::operations::{Body, OS_TYPES, Operation, Param, Type, may, must, rows};

/// An operation on cloudspaces, their addresses, notes and quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::sim) enum Op {
    List,
    Create,
    Read,
    Delete,
    Restore,
    Rename,
    SetQuota,
    FreeSubnets,
    FreeAddresses,
    Networks,
    Network,
    PublicAddresses,
    Uplinks,
    AddUplink,
    ChangeUplink,
    RemoveUplink,
    Notes,
    AddNote,
    ChangeNote,
    DeleteNote,
    CustomerQuota,
    SetCustomerQuota,
    Consumption,
}

const NOTE: Body = Body::Object(&[must("title", Type::Text), must("content", Type::Text)]);

const FIREWALL: &[Param] = &[
    must("private", Type::Boolean),
    may("external_network_id", Type::Integer),
    may("parent_cloudspace_id", Type::Text),
    may("custom", Type::Object(CUSTOM)),
];
const CUSTOM: &[Param] = &[
    may("image_id", Type::Integer),
    may("cdrom_id", Type::Integer),
    may("type", Type::OneOf(OS_TYPES)),
    may("disk_size", Type::Integer),
    may("vcpus", Type::Integer),
    may("memory", Type::Integer),
];
const CLOUDSPACE: Body = Body::Object(&[
    must("name", Type::Text),
    may("host", Type::Text),
    may("local_domain", Type::Text),
    must("location", Type::Text),
    may("private_network", Type::Text),
    may("vcpu_quota", Type::Integer),
    may("vdisk_space_quota", Type::Integer),
    may("memory_quota", Type::Integer),
    may("public_ip_quota", Type::Integer),
    must("firewall", Type::Object(FIREWALL)),
]);
const LOCATION_QUOTA: &[Param] =
    &[must("name", Type::Text), must("resources", Type::Object(RESOURCES))];
const RESOURCES: &[Param] = &[
    must("max_cpu_capacity", Type::Integer),
    must("max_vdisk_capacity", Type::Integer),
    must("max_memory_capacity", Type::Number),
    must("max_public_ips", Type::Integer),
    must("max_iops", Type::Integer),
];
const QUOTA: Body = Body::Object(&[
    must("locations", Type::ListOf(LOCATION_QUOTA)),
    may("resource_limit_message", Type::Text),
]);

/// All of them.
#[rustfmt::skip]
pub(in crate::sim) const OPERATIONS: &[Operation] = rows! { Network;
    List "listCloudspaces" "GET" customer "/cloudspaces",
        &[may("include_deleted", Type::Boolean), may("only_deleted", Type::Boolean),
            may("include_disabled", Type::Boolean), may("locations", Type::Csv),
            may("filter_storage_only", Type::Boolean)], Body::Nothing;
    Create "createCloudspace" "POST" customer "/cloudspaces",
        &[], CLOUDSPACE;
    Read "getCloudspaceInfo" "GET" cloudspace "",
        &[], Body::Nothing;
    Delete "deleteCloudspace" "DELETE" cloudspace "",
        &[may("permanently", Type::Boolean), may("reason", Type::Text)], Body::Nothing;
    Restore "restoreCloudspace" "PUT" cloudspace "/restore",
        &[may("reason", Type::Text)], Body::Nothing;
    Rename "renameCloudspace" "PUT" cloudspace "/name",
        &[must("name", Type::Text)], Body::Nothing;
    SetQuota "updateCloudspaceQuota" "PUT" cloudspace "/quota",
        &[may("vcpu_quota", Type::Integer), may("vdisk_space_quota", Type::Integer),
            may("memory_quota", Type::Number), may("public_ip_quota", Type::Integer),
            may("external_network_quota", Type::Integer)], Body::Nothing;
    FreeSubnets "listFreeSubnets" "GET" customer "/cloudspaces/available-subnets",
        &[may("number_of_networks", Type::Integer)], Body::Nothing;
    FreeAddresses "getPrivateNetworkIPAddresses" "GET" cloudspace "/available-ip-addresses",
        &[], Body::Nothing;
    Networks "listExternalNetworks" "GET" location "/external-networks",
        &[], Body::Nothing;
    Network "getExternalNetwork" "GET" location "/external-networks/{external_network_id}",
        &[], Body::Nothing;
    PublicAddresses "getExternalNetworkAddresses" "GET" location
        "/external-networks/{external_network_id}/ip-addresses",
        &[], Body::Nothing;
    Uplinks "listCloudspaceExternalNetworks" "GET" cloudspace "/external-networks",
        &[], Body::Nothing;
    AddUplink "addCloudspaceExternalNetwork" "POST" cloudspace "/external-networks",
        &[may("metric", Type::Integer), may("external_network_ip", Type::Text),
            must("external_network_id", Type::Text), must("external_network_type", Type::Text)],
            Body::Nothing;
    ChangeUplink "updateCloudspaceExternalNetworkMetric" "PUT" cloudspace "/external-networks",
        &[must("metric", Type::Integer), must("external_network_ip", Type::Text),
            must("external_network_id", Type::Text)], Body::Nothing;
    RemoveUplink "removeCloudspaceExternalNetwork" "DELETE" cloudspace "/external-networks",
        &[must("external_network_ip", Type::Text), must("external_network_id", Type::Text)],
            Body::Nothing;
    Notes "getCloudspaceNotes" "GET" cloudspace "/notes",
        &[], Body::Nothing;
    AddNote "createCloudspaceNote" "POST" cloudspace "/notes",
        &[], NOTE;
    ChangeNote "updateCloudspaceNote" "PUT" cloudspace "/notes/{note_id}",
        &[], NOTE;
    DeleteNote "deleteCloudspaceNote" "DELETE" cloudspace "/notes/{note_id}",
        &[], Body::Nothing;
    CustomerQuota "getCustomerQuota" "GET" customer "/quota",
        &[], Body::Nothing;
    SetCustomerQuota "updateCustomerQuota" "PUT" customer "/quota",
        &[], QUOTA;
    Consumption "listCustomerLocationsConsumption" "GET" customer "/locations/consumption",
        &[], Body::Nothing;
};
