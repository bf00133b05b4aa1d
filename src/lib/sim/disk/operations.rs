//! The declared operations on disks and their notes, in locations and in machines, in the vendor's words.

use super::super::operations::{Body, Operation, Type, may, must, rows};

/// An operation on disks and their notes, in locations and in machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::sim) enum Op {
    List,
    Create,
    Read,
    Delete,
    Restore,
    Resize,
    LimitIo,
    Notes,
    AddNote,
    ChangeNote,
    DeleteNote,
    OfMachine,
    Attach,
    Detach,
}

const NOTE: Body = Body::Object(&[must("title", Type::Text), must("content", Type::Text)]);

/// All of them.
#[rustfmt::skip]
pub(in crate::sim) const OPERATIONS: &[Operation] = rows! { Disk;
    List "listDisks" "GET" location "/disks",
        &[may("include_deleted", Type::Boolean), may("only_deleted", Type::Boolean)],
            Body::Nothing;
    Create "createDisk" "POST" location "/disks",
        &[must("disk_name", Type::Text), must("description", Type::Text),
            must("disk_size", Type::Integer), may("iops", Type::Integer),
            may("disk_type", Type::OneOf(&["DATA", "BOOT", "PHYSICAL"])),
            may("vm_id", Type::Text), may("raid_level", Type::OneOf(&["no raid", "raid1",
            "raid5"])), may("backup_size_limit", Type::Number)], Body::Nothing;
    Read "getDiskInfo" "GET" location "/disks/{disk_id}",
        &[], Body::Nothing;
    Delete "deleteDisk" "DELETE" location "/disks/{disk_id}",
        &[may("detach", Type::Boolean), may("permanently", Type::Boolean)], Body::Nothing;
    Restore "restoreDisk" "PUT" location "/disks/{disk_id}/restore",
        &[may("reason", Type::Text)], Body::Nothing;
    Resize "resizeDisk" "PUT" location "/disks/{disk_id}/size",
        &[must("disk_size", Type::Integer)], Body::Nothing;
    LimitIo "setDiskLimitIO" "PUT" location "/disks/{disk_id}/limitio",
        &[may("iops", Type::Integer)], Body::Nothing;
    Notes "getDiskNotes" "GET" location "/disks/{disk_id}/notes",
        &[], Body::Nothing;
    AddNote "createDiskNote" "POST" location "/disks/{disk_id}/notes",
        &[], NOTE;
    ChangeNote "updateDiskNote" "PUT" location "/disks/{disk_id}/notes/{note_id}",
        &[], NOTE;
    DeleteNote "deleteDiskNote" "DELETE" location "/disks/{disk_id}/notes/{note_id}",
        &[], Body::Nothing;
    OfMachine "listDisksVirtualMachine" "GET" vm "/disks",
        &[], Body::Nothing;
    Attach "attachDiskVirtualMachine" "POST" vm "/disks",
        &[must("disk_id", Type::Integer)], Body::Nothing;
    Detach "detachDiskVirtualMachine" "DELETE" vm "/disks/{disk_id}",
        &[], Body::Nothing;
};
