//! The declared operations on machines, their interfaces, notes and groups, in the vendor's words.

use super::super::operations::{Body, OS_NAMES, OS_TYPES, Operation, Type, may, must, rows};

/// An operation on machines, their interfaces, notes and groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::sim) enum Op {
    List,
    Create,
    Read,
    Delete,
    Restore,
    Start,
    Stop,
    Pause,
    Resume,
    Reboot,
    Reset,
    Resize,
    Rename,
    Describe,
    Notes,
    AddNote,
    ChangeNote,
    DeleteNote,
    Nics,
    AttachNic,
    Nic,
    DetachNic,
    Groups,
    AddGroup,
    Group,
    ChangeGroup,
    DeleteGroup,
    Members,
    Join,
    Leave,
}

const NOTE: Body = Body::Object(&[must("title", Type::Text), must("content", Type::Text)]);
const MODEL: Type = Type::OneOf(&[
    "ne2k_pci", "i82551", "i82557b", "i82559er", "rtl8139", "e1000", "pcnet", "virtio",
]);
const NIC_KIND: Type = Type::OneOf(&["external", "cloudspace"]);
const BOOT_TYPE: Type = Type::OneOf(&["bios", "uefi", "uefi-secure-boot"]);

/// All of them.
#[rustfmt::skip]
pub(in crate::sim) const OPERATIONS: &[Operation] = rows! { Machine;
    List "listCloudspaceVirtualMachines" "GET" cloudspace "/vms",
        &[may("include_deleted", Type::Boolean), may("only_deleted", Type::Boolean),
            may("include_connected", Type::Boolean), may("exclude_internal", Type::Boolean)],
            Body::Nothing;
    Create "createVirtualMachine" "POST" cloudspace "/vms",
        &[must("name", Type::Text), may("hostname", Type::Text),
            must("description", Type::Text), may("data_disks", Type::Csv),
            must("vcpus", Type::Integer), must("memory", Type::Integer),
            may("private_ip", Type::Text), may("user_data", Type::Text),
            may("start_vm", Type::Boolean), may("tpm_secret", Type::Text),
            may("image_id", Type::Integer), may("disk_size", Type::Integer),
            may("cdrom_id", Type::Integer), may("boot_disk_id", Type::Integer),
            may("os_type", Type::OneOf(OS_TYPES)), may("os_name", Type::OneOf(OS_NAMES)),
            may("enable_vm_agent", Type::Boolean), may("snapshot_id", Type::Text),
            may("all_vm_disks", Type::Boolean), may("acronis", Type::Boolean),
            may("veeam", Type::Boolean), may("boot_type", BOOT_TYPE)],
            Body::Maybe(&[may("userdata", Type::Map), may("UserDataParameters", Type::Map),
            may("gpu_id", Type::Text), may("vgpu_name", Type::Text)]);
    Read "getVirtualMachineInfo" "GET" vm "",
        &[], Body::Nothing;
    Delete "deleteVirtualMachine" "DELETE" vm "",
        &[may("permanently", Type::Boolean), may("detach_disks", Type::Boolean),
            may("detach_gpu", Type::Boolean)], Body::Nothing;
    Restore "restoreVirtualMachine" "PUT" vm "/restore",
        &[must("reason", Type::Text)], Body::Nothing;
    Start "startVirtualMachine" "POST" vm "/start",
        &[may("rescue_disk_id", Type::Integer), may("tpm_secret", Type::Text)], Body::Nothing;
    Stop "stopVirtualMachine" "POST" vm "/stop",
        &[may("force", Type::Boolean)], Body::Nothing;
    Pause "pauseVirtualMachine" "POST" vm "/pause",
        &[], Body::Nothing;
    Resume "resumeVirtualMachine" "POST" vm "/resume",
        &[], Body::Nothing;
    Reboot "rebootVirtualMachine" "POST" vm "/reboot",
        &[], Body::Nothing;
    Reset "resetVirtualMachine" "POST" vm "/reset",
        &[], Body::Nothing;
    Resize "resizeVirtualMachine" "PUT" vm "/size",
        &[may("vcpus", Type::Integer), may("memory", Type::Integer)], Body::Nothing;
    Rename "renameVirtualMachine" "PUT" vm "/name",
        &[may("name", Type::Text)], Body::Nothing;
    Describe "updateVirtualMachineDescription" "PUT" vm "/description",
        &[may("description", Type::Text)], Body::Nothing;
    Notes "getVirtualMachineNotes" "GET" vm "/notes",
        &[], Body::Nothing;
    AddNote "createVirtualMachineNote" "POST" vm "/notes",
        &[], NOTE;
    ChangeNote "updateVirtualMachineNote" "PUT" vm "/notes/{note_id}",
        &[], NOTE;
    DeleteNote "deleteVirtualMachineNote" "DELETE" vm "/notes/{note_id}",
        &[], Body::Nothing;
    Nics "listExternalNetworksVirtualMachine" "GET" vm "/external-nics",
        &[], Body::Nothing;
    AttachNic "attachExternalNetworksVirtualMachine" "POST" vm "/external-nics",
        &[must("external_network_id", Type::Integer), may("external_network_ip", Type::Text),
            may("model", MODEL), may("external_network_type", NIC_KIND),
            may("external_cloudspace_id", Type::Text)], Body::Nothing;
    Nic "getExternalNetworksVirtualMachine" "GET" vm "/external-nics/{external_ip_address}",
        &[], Body::Nothing;
    DetachNic "detachExternalNetworksVirtualMachine" "DELETE" vm
        "/external-nics/{external_ip_address}",
        &[must("external_network_id", Type::Integer), must("external_network_type", NIC_KIND),
            may("external_cloudspace_id", Type::Text)], Body::Nothing;
    Groups "listCloudspaceAntiAffinityGroups" "GET" cloudspace "/anti-affinity-groups",
        &[], Body::Nothing;
    AddGroup "addCloudspaceAntiAffinityGroup" "POST" cloudspace "/anti-affinity-groups",
        &[must("spread", Type::Integer), must("group_id", Type::Text)], Body::Nothing;
    Group "getCloudspaceAntiAffinityGroup" "GET" cloudspace "/anti-affinity-groups/{group_id}",
        &[], Body::Nothing;
    ChangeGroup "updateCloudspaceAntiAffinityGroup" "PUT" cloudspace
        "/anti-affinity-groups/{group_id}",
        &[must("spread", Type::Integer)], Body::Nothing;
    DeleteGroup "deleteCloudspaceAntiAffinityGroup" "DELETE" cloudspace
        "/anti-affinity-groups/{group_id}",
        &[], Body::Nothing;
    Members "getVirtualMachineAntiAffinityGroups" "GET" cloudspace
        "/anti-affinity-groups/{group_id}/vms",
        &[], Body::Nothing;
    Join "addVirtualMachineAntiAffinityGroups" "POST" cloudspace
        "/anti-affinity-groups/{group_id}/vms",
        &[must("vm_id", Type::Integer)], Body::Nothing;
    Leave "deleteAntiAffinityGroupVirtualMachine" "DELETE" cloudspace
        "/anti-affinity-groups/{group_id}/vms/{vm_id}",
        &[], Body::Nothing;
};
