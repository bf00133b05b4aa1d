//! etcd's messages, declared by hand as far as a backup needs them.
//!
//! Field numbers are those of `api/etcdserverpb/rpc.proto` and `api/mvccpb/kv.proto` (etcd,
//! Apache-2.0), the same in all lines from 3.4 to 3.7; a field that a line does not know stays at
//! its zero value. Fields that nobody here reads are left out: protobuf skips them.

use bytes::Bytes;
use prost::Message;

/// A request without fields: `StatusRequest`, `SnapshotRequest`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Empty {}

/// `ResponseHeader`; a `SnapshotResponse` never has one.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(int64, tag = "3")]
    pub revision: i64,
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}

/// `StatusResponse`; `storage_version` since 3.6.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    #[prost(uint64, tag = "5")]
    pub raft_index: u64,
    #[prost(uint64, tag = "6")]
    pub raft_term: u64,
    #[prost(uint64, tag = "7")]
    pub raft_applied_index: u64,
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub is_learner: bool,
    #[prost(string, tag = "11")]
    pub storage_version: String,
}

/// `SnapshotResponse`; `version` since 3.6.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SnapshotResponse {
    #[prost(uint64, tag = "2")]
    pub remaining_bytes: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub blob: Bytes,
    #[prost(string, tag = "4")]
    pub version: String,
}

/// `MemberListRequest`; `linearizable` since 3.5.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub linearizable: bool,
}

/// `Member`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, repeated, tag = "3")]
    pub peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}

/// `MemberListResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// `AlarmRequest`; action 0 lists.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlarmRequest {
    #[prost(int32, tag = "1")]
    pub action: i32,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(int32, tag = "3")]
    pub alarm: i32,
}

/// `AlarmMember`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    #[prost(int32, tag = "2")]
    pub alarm: i32,
}

/// `AlarmResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

/// `HashKVRequest`; revision 0 is the latest.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HashKvRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// `HashKVResponse`; `hash_revision` since 3.6.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HashKvResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(uint32, tag = "2")]
    pub hash: u32,
    #[prost(int64, tag = "3")]
    pub compact_revision: i64,
    #[prost(int64, tag = "4")]
    pub hash_revision: i64,
}

/// `RangeRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    #[prost(int64, tag = "4")]
    pub revision: i64,
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

/// `mvccpb.KeyValue`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

/// `RangeResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// `PutRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `PutResponse`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as a member sends them, so that a field number mistyped above is noticed.
    #[test]
    fn messages_are_read_from_the_bytes_of_a_member() {
        // header {1: 1, 2: 2, 3: 3, 4: 4}, then the fields of a 3.6 member's status.
        let status: &[u8] = &[
            0x0a, 8, 8, 1, 16, 2, 24, 3, 32, 4, 0x12, 6, b'3', b'.', b'6', b'.', b'1', b'6', 0x18,
            20, 0x20, 2, 0x28, 9, 0x30, 4, 0x38, 8, 0x42, 1, b'e', 0x48, 16, 0x50, 1, 0x5a, 5,
            b'3', b'.', b'6', b'.', b'0', 0x60, 7,
        ];
        let status = StatusResponse::decode(status).unwrap();
        let header = status.header.unwrap();
        assert_eq!(
            (header.cluster_id, header.member_id, header.revision, header.raft_term),
            (1, 2, 3, 4)
        );
        assert_eq!((status.version.as_str(), status.storage_version.as_str()), ("3.6.16", "3.6.0"));
        assert_eq!((status.db_size, status.db_size_in_use, status.leader), (20, 16, 2));
        assert_eq!((status.raft_index, status.raft_term, status.raft_applied_index), (9, 4, 8));
        assert!(status.is_learner && status.errors == ["e"]);

        let snapshot = SnapshotResponse::decode(&[16, 5, 26, 2, 1, 2][..]).unwrap();
        assert_eq!((snapshot.remaining_bytes, &snapshot.blob[..]), (5, &[1, 2][..]));

        let hash = HashKvResponse::decode(&[16, 5, 24, 6, 32, 7][..]).unwrap();
        assert_eq!((hash.hash, hash.compact_revision, hash.hash_revision), (5, 6, 7));

        let alarms = AlarmResponse::decode(&[18, 4, 8, 9, 16, 1][..]).unwrap();
        assert_eq!(alarms.alarms, [AlarmMember { member_id: 9, alarm: 1 }]);
    }
}
