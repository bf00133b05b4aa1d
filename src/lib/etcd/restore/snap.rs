//! The snapshot file that etcd up to 3.6 wants beside the log.
//!
//! It makes raft's log begin behind the restored data. Without it these versions start all the
//! same, replay the members from the log, and seem well; but a member that joins later is then
//! sent the log from its first entry, in place of the data, and is left with an empty store.
//! 3.7 takes what it needs from the log's last snapshot record and does not load the file.
//!
//! Format as in etcd's `server/etcdserver/api/snap/{snapshotter.go,snappb/snap.proto}`: a checksum
//! around raft's snapshot, whose data is the v2 store as JSON (`server/etcdserver/api/v2store`,
//! `Store.Recovery`), of which only the members are left (`api/membership/storev2.go`).

use prost::Message;
use serde_json::{Value, json};

use super::plan::Prepared;
use super::wal::ConfState;

#[derive(Clone, PartialEq, Message)]
struct Checked {
    #[prost(uint32, required, tag = "1")]
    crc: u32,
    #[prost(bytes = "vec", optional, tag = "2")]
    data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    conf_state: Option<ConfState>,
    #[prost(uint64, required, tag = "2")]
    index: u64,
    #[prost(uint64, required, tag = "3")]
    term: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Snapshot {
    #[prost(bytes = "vec", optional, tag = "1")]
    data: Option<Vec<u8>>,
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
}

/// The file's name: term 1, and an entry a member.
pub(super) fn name(prepared: &Prepared) -> String {
    format!("{:016x}-{:016x}.snap", 1, prepared.members.len())
}

/// The file's content.
pub(super) fn file(prepared: &Prepared) -> Vec<u8> {
    let index = prepared.members.len() as u64;
    let voters = prepared.members.iter().map(|member| member.id).collect();
    let conf_state = Some(ConfState { voters, auto_leave: false });
    let metadata = Some(Metadata { conf_state, index, term: 1 });
    let data = Some(store(prepared).to_string().into_bytes());
    let snapshot = Snapshot { data, metadata }.encode_to_vec();
    Checked { crc: crc32c::crc32c(&snapshot), data: Some(snapshot) }.encode_to_vec()
}

/// The v2 store with the members in it. What is left out keeps its defaults when it is read.
fn store(prepared: &Prepared) -> Value {
    let members = (1..).zip(&prepared.members).map(|(index, member)| {
        let id = format!("{:x}", member.id);
        let path = format!("/0/members/{id}");
        let urls = json!({ "peerURLs": member.peer_urls }).to_string();
        let urls_path = format!("{path}/raftAttributes");
        let urls = json!({ "raftAttributes": node(&urls_path, index, &urls, &Value::Null) });
        (id, node(&path, index, "", &urls))
    });
    let members: Value = members.collect::<serde_json::Map<_, _>>().into();
    let members = json!({ "members": node("/0/members", 1, "", &members) });
    let children = json!({ "0": node("/0", 0, "", &members), "1": node("/1", 0, "", &json!({})) });
    json!({
        "Root": node("/", 0, "", &children),
        "CurrentIndex": prepared.members.len(),
        "CurrentVersion": 2,
    })
}

/// A node of the store: a folder if it has children, be it none.
fn node(path: &str, index: u64, value: &str, children: &Value) -> Value {
    json!({
        "Path": path,
        "CreatedIndex": index,
        "ModifiedIndex": index,
        "ExpireTime": "0001-01-01T00:00:00Z",
        "Value": value,
        "Children": children,
    })
}
