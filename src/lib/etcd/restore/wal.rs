//! The first segment of a write-ahead log: a cluster whose members have just been agreed on.
//!
//! Records and framing as in etcd's `server/storage/wal/{wal,encoder}.go` and
//! `wal/walpb/record.proto`, entries as in raft's `raftpb/raft.proto` (v3.5.35 to v3.7.3). Every
//! number is written, zeros too, as etcd's own encoder does.

use prost::Message;

use super::plan::Prepared;

/// The segment's name: sequence 0, first index 0.
pub(super) const NAME: &str = "0000000000000000-0000000000000000.wal";
/// etcd reserves this much for a segment (`SegmentSizeBytes`).
pub(super) const SEGMENT: u64 = 64_000_000;

/// The kinds of record.
mod kind {
    pub const METADATA: i64 = 1;
    pub const ENTRY: i64 = 2;
    pub const STATE: i64 = 3;
    pub const CRC: i64 = 4;
    pub const SNAPSHOT: i64 = 5;
}

const TERM: u64 = 1;
/// `raftpb.EntryConfChange`.
const CONF_CHANGE: i32 = 1;
/// `raftpb.ConfChangeAddNode`.
const ADD_NODE: i32 = 0;

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, required, tag = "1")]
    kind: i64,
    #[prost(uint32, required, tag = "2")]
    crc: u32,
    #[prost(bytes = "vec", optional, tag = "3")]
    data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(uint64, required, tag = "1")]
    node_id: u64,
    #[prost(uint64, required, tag = "2")]
    cluster_id: u64,
}

/// Who votes: `raftpb.ConfState`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ConfState {
    /// Their ids, ascending.
    #[prost(uint64, repeated, packed = "false", tag = "1")]
    pub voters: Vec<u64>,
    /// No change of two steps is under way.
    #[prost(bool, required, tag = "5")]
    pub auto_leave: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Snapshot {
    #[prost(uint64, required, tag = "1")]
    index: u64,
    #[prost(uint64, required, tag = "2")]
    term: u64,
    #[prost(message, optional, tag = "3")]
    conf_state: Option<ConfState>,
}

#[derive(Clone, PartialEq, Message)]
struct ConfChange {
    #[prost(uint64, required, tag = "1")]
    id: u64,
    #[prost(int32, required, tag = "2")]
    kind: i32,
    #[prost(uint64, required, tag = "3")]
    node_id: u64,
    #[prost(bytes = "vec", optional, tag = "4")]
    context: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(uint64, required, tag = "2")]
    term: u64,
    #[prost(uint64, required, tag = "3")]
    index: u64,
    #[prost(bytes = "vec", optional, tag = "4")]
    data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct HardState {
    #[prost(uint64, required, tag = "1")]
    term: u64,
    #[prost(uint64, required, tag = "2")]
    vote: u64,
    #[prost(uint64, required, tag = "3")]
    commit: u64,
}

/// Writes records, each with the running checksum of all data before it.
#[derive(Debug, Default)]
struct Encoder {
    crc: u32,
    out: Vec<u8>,
}

impl Encoder {
    fn record(&mut self, kind: i64, data: Option<Vec<u8>>) {
        self.crc = crc32c::crc32c_append(self.crc, data.as_deref().unwrap_or_default());
        let record = Record { kind, crc: self.crc, data }.encode_to_vec();
        let pad = (8 - record.len() % 8) % 8;
        // The length in the lower 56 bits; above it, if the frame is filled up, by how much.
        let mark = if pad == 0 { 0 } else { (0x80 | pad as u64) << 56 };
        self.out.extend((record.len() as u64 | mark).to_le_bytes());
        self.out.extend(&record);
        self.out.resize(self.out.len() + pad, 0);
    }

    fn message(&mut self, kind: i64, message: &impl Message) {
        self.record(kind, Some(message.encode_to_vec()));
    }
}

/// The records of a member's first segment.
pub(super) fn segment(prepared: &Prepared) -> Vec<u8> {
    let mut log = Encoder::default();
    let (node_id, cluster_id) = (prepared.member_id, prepared.cluster_id);
    log.record(kind::CRC, None);
    log.message(kind::METADATA, &Metadata { node_id, cluster_id });
    log.message(kind::SNAPSHOT, &Snapshot { index: 0, term: 0, conf_state: None });
    for (index, member) in (1..).zip(&prepared.members) {
        let (node_id, context) = (member.id, Some(member.json()));
        let change = ConfChange { id: 0, kind: ADD_NODE, node_id, context };
        let data = Some(change.encode_to_vec());
        log.message(kind::ENTRY, &Entry { kind: CONF_CHANGE, term: TERM, index, data });
    }
    let commit = prepared.members.len() as u64;
    let voters: Vec<u64> = prepared.members.iter().map(|member| member.id).collect();
    let vote = voters.first().copied().unwrap_or_default();
    log.message(kind::STATE, &HardState { term: TERM, vote, commit });
    let conf_state = Some(ConfState { voters, auto_leave: false });
    log.message(kind::SNAPSHOT, &Snapshot { index: commit, term: TERM, conf_state });
    log.out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::etcd::restore::{NewMember, Version};

    /// Reads frames as etcd's decoder does: until one has no length.
    fn read(mut bytes: &[u8]) -> Vec<Record> {
        let (mut records, mut crc) = (Vec::new(), 0);
        while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
            let field = u64::from_le_bytes(*head);
            if field == 0 {
                break;
            }
            let pad = if field >> 63 == 1 { (field >> 56) & 0x7 } else { 0 };
            let len = usize::try_from(field & ((1 << 56) - 1)).unwrap();
            let end = len + usize::try_from(pad).unwrap();
            assert_eq!(end % 8, 0, "a frame is whole words");
            let record = Record::decode(&rest[..len]).unwrap();
            crc = crc32c::crc32c_append(crc, record.data.as_deref().unwrap_or_default());
            assert_eq!(record.crc, crc, "the checksum runs over all data before it");
            records.push(record);
            bytes = &rest[end..];
        }
        records
    }

    fn prepared(names: &[String], me: usize) -> Prepared {
        let member = |(id, name): (u64, &String)| NewMember {
            id: id.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            peer_urls: vec![format!("https://{name}:2380")],
            name: name.clone(),
        };
        let mut members: Vec<NewMember> = (1..).zip(names).map(member).collect();
        members.sort_by_key(|member| member.id);
        Prepared {
            member_id: members[me % members.len()].id,
            cluster_id: u64::MAX,
            bumped_to: None,
            revision: 1,
            lowest_etcd: Version::line(3, 5),
            forced: false,
            since_3_5: true,
            members,
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_again(
            names in prop::collection::vec("[a-z&<\\PC]{0,40}", 1..40),
            me in any::<usize>(),
        ) {
            let prepared = prepared(&names, me);
            let mut file = segment(&prepared);
            file.resize(file.len() + 4096, 0);
            let records = read(&file);
            let kinds: Vec<i64> = records.iter().map(|record| record.kind).collect();
            let count = names.len();
            let expected = [&[4, 1, 5][..], &vec![2; count], &[3, 5]].concat();
            prop_assert_eq!(kinds, expected);
            let data = |at: usize| records[at].data.clone().unwrap();
            let metadata = Metadata::decode(&data(1)[..]).unwrap();
            prop_assert_eq!(metadata.node_id, prepared.member_id);
            for (index, member) in prepared.members.iter().enumerate() {
                let entry = Entry::decode(&data(3 + index)[..]).unwrap();
                prop_assert_eq!((entry.kind, entry.term, entry.index), (1, 1, index as u64 + 1));
                let change = ConfChange::decode(&entry.data.unwrap()[..]).unwrap();
                prop_assert_eq!(change.node_id, member.id);
                prop_assert_eq!(change.context.unwrap(), member.json());
            }
            let state = HardState::decode(&data(3 + count)[..]).unwrap();
            prop_assert_eq!((state.term, state.commit), (1, count as u64));
            prop_assert_eq!(state.vote, prepared.members[0].id);
            let last = Snapshot::decode(&data(4 + count)[..]).unwrap();
            prop_assert_eq!((last.index, last.term), (count as u64, 1));
            prop_assert_eq!(last.conf_state.unwrap().voters.len(), count);
        }
    }

    #[test]
    fn the_first_records_are_those_of_etcd_to_the_byte() {
        let file = segment(&prepared(&["a".to_owned()], 0));
        // CRC of nothing; 4 bytes and 4 of padding.
        assert_eq!(file[..16], [4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 16, 0, 0, 0, 0, 0]);
    }
}
