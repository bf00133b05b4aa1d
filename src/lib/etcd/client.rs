//! One member's calls.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status as Refusal};
use tonic_prost::ProstCodec;

use super::access::Access;
use super::error::{Error, Kind};
use super::receive::Malformed;
use super::stream::SnapshotStream;
use super::{probe, trouble, wire};
use crate::clock::Clock;

/// How long a small call may take.
const CALL: Duration = Duration::from_secs(10);

/// How long a call may take that reads a whole database.
const LONG_CALL: Duration = Duration::from_mins(10);

/// What a member says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The cluster.
    pub cluster_id: u64,
    /// The member that answers.
    pub member_id: u64,
    /// Its version, such as `3.6.16`.
    pub version: String,
    /// What its file is written as, such as `3.6.0`; none before etcd 3.6.
    pub storage_version: Option<String>,
    /// Its file's size in bytes.
    pub db_size: u64,
    /// How much of that is in use, in bytes.
    pub db_size_in_use: u64,
    /// The member that leads; 0 where there is none.
    pub leader: u64,
    /// The election's number.
    pub raft_term: u64,
    /// The last entry of the log that it knows to be committed.
    pub raft_index: u64,
    /// The last one that is in its file.
    pub raft_applied_index: u64,
    /// The revision of its keys.
    pub revision: i64,
    /// Whether it only listens.
    pub is_learner: bool,
    /// What it finds wrong: alarms, no leader.
    pub errors: Vec<String>,
}

/// A member as its cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// Its name; empty until it has started once.
    pub name: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until it has started once.
    pub client_urls: Vec<String>,
    /// Whether it only listens.
    pub is_learner: bool,
}

/// What is wrong with a member so badly that it has to be confirmed by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmKind {
    /// Its quota is used up: no more writes.
    Nospace,
    /// Its data differs from that of the others.
    Corrupt,
    /// Something that this program does not know.
    Other(i32),
}

/// An alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// The member it is about.
    pub member_id: u64,
    /// What it is about.
    pub kind: AlarmKind,
}

/// The hash of all keys up to a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    /// CRC-32C over them.
    pub hash: u32,
    /// What was before this is gone.
    pub compact_revision: i64,
    /// The revision up to which was hashed; the member's own where it does not say (before 3.6).
    pub revision: i64,
}

/// A connection to one member.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    access: Arc<Access>,
    channel: Channel,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// Connects to exactly this endpoint.
    ///
    /// # Errors
    /// The endpoint or a file cannot be used, or there is no connection. A missing or expired
    /// client certificate often shows only with the first call, because TLS 1.3 ends the
    /// handshake before the server has seen it.
    pub async fn connect(
        access: &Access,
        endpoint: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let url = access.url(endpoint)?;
        let endpoint = access.endpoint(&url)?;
        let channel = tokio::select! {
            channel = endpoint.connect() => {
                channel.map_err(|error| {
                    access.seen_by(trouble::of_transport("connect to etcd", &url, &error))
                })?
            }
            () = clock.sleep(access.dial_timeout) => {
                let kind = Kind::Slow(access.dial_timeout);
                return Err(Error::new("connect to etcd", url, kind));
            }
        };
        Ok(Self { url, access: Arc::new(access.clone()), channel, clock })
    }

    /// Where the member is, as a URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the member says about itself.
    ///
    /// # Errors
    /// As all calls: no connection, no answer, or an answer that is an error.
    pub async fn status(&self) -> Result<Status, Error> {
        let path = "/etcdserverpb.Maintenance/Status";
        let reply: wire::StatusResponse =
            self.call("read the status of etcd", path, wire::Empty {}, CALL).await?;
        let header = reply.header.unwrap_or_default();
        Ok(Status {
            cluster_id: header.cluster_id,
            member_id: header.member_id,
            version: reply.version,
            storage_version: Some(reply.storage_version).filter(|text| !text.is_empty()),
            db_size: unsigned(reply.db_size),
            db_size_in_use: unsigned(reply.db_size_in_use),
            leader: reply.leader,
            raft_term: reply.raft_term,
            raft_index: reply.raft_index,
            raft_applied_index: reply.raft_applied_index,
            revision: header.revision,
            is_learner: reply.is_learner,
            errors: reply.errors,
        })
    }

    /// The members that this one knows, without asking the others: a backup is taken of a
    /// cluster without a leader, too.
    ///
    /// # Errors
    /// As all calls.
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        let path = "/etcdserverpb.Cluster/MemberList";
        let request = wire::MemberListRequest { linearizable: false };
        let reply: wire::MemberListResponse =
            self.call("list the members of etcd", path, request, CALL).await?;
        let member = |member: wire::Member| Member {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_urls,
            client_urls: member.client_urls,
            is_learner: member.is_learner,
        };
        Ok(reply.members.into_iter().map(member).collect())
    }

    /// The cluster's alarms.
    ///
    /// # Errors
    /// As all calls; without a leader there is no answer.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, Error> {
        let path = "/etcdserverpb.Maintenance/Alarm";
        let request = wire::AlarmRequest::default();
        let reply: wire::AlarmResponse =
            self.call("list the alarms of etcd", path, request, CALL).await?;
        let kind = |alarm| match alarm {
            1 => AlarmKind::Nospace,
            2 => AlarmKind::Corrupt,
            other => AlarmKind::Other(other),
        };
        let alarm = |alarm: wire::AlarmMember| Alarm {
            member_id: alarm.member_id,
            kind: kind(alarm.alarm),
        };
        Ok(reply.alarms.into_iter().map(alarm).collect())
    }

    /// The hash of all keys up to `revision`; 0 is the latest.
    ///
    /// # Errors
    /// As all calls; [`Kind::Answer`] where the revision is compacted or in the future.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKv, Error> {
        let path = "/etcdserverpb.Maintenance/HashKV";
        let request = wire::HashKvRequest { revision };
        let reply: wire::HashKvResponse =
            self.call("hash the keys of etcd", path, request, LONG_CALL).await?;
        let latest = reply.header.unwrap_or_default().revision;
        let known = [reply.hash_revision, revision].into_iter().find(|revision| *revision > 0);
        Ok(HashKv {
            hash: reply.hash,
            compact_revision: reply.compact_revision,
            revision: known.unwrap_or(latest),
        })
    }

    /// How many keys there were at `revision`; 0 is the latest.
    ///
    /// # Errors
    /// As all calls; [`Kind::Answer`] where the revision is compacted or in the future.
    pub async fn count_keys(&self, revision: i64) -> Result<u64, Error> {
        // A key and an end of one zero byte each mean all keys (api/etcdserverpb/rpc.proto).
        let (key, range_end) = (vec![0], vec![0]);
        let request = wire::RangeRequest { key, range_end, limit: 0, revision, count_only: true };
        let reply: wire::RangeResponse = self
            .call("count the keys of etcd", "/etcdserverpb.KV/Range", request, LONG_CALL)
            .await?;
        Ok(unsigned(reply.count))
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// As all calls.
    pub async fn get(&self, key: impl Into<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
        let request = wire::RangeRequest { key: key.into(), limit: 1, ..Default::default() };
        let reply: wire::RangeResponse =
            self.call("read a key of etcd", "/etcdserverpb.KV/Range", request, CALL).await?;
        Ok(reply.kvs.into_iter().next().map(|kv| kv.value))
    }

    /// Writes a key and gives the new revision.
    ///
    /// # Errors
    /// As all calls.
    pub async fn put(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> Result<i64, Error> {
        let request = wire::PutRequest { key: key.into(), value: value.into() };
        let reply: wire::PutResponse =
            self.call("write a key of etcd", "/etcdserverpb.KV/Put", request, CALL).await?;
        Ok(reply.header.unwrap_or_default().revision)
    }

    /// Begins a snapshot of this member, which fails when no byte comes for `idle`.
    ///
    /// # Errors
    /// As all calls.
    pub async fn snapshot(&self, idle: Duration) -> Result<SnapshotStream, Error> {
        let operation = SnapshotStream::OPERATION;
        let path = PathAndQuery::from_static("/etcdserverpb.Maintenance/Snapshot");
        let begin = async {
            let mut grpc = self.ready(operation).await?;
            let request = Request::new(wire::Empty {});
            let reply = grpc.server_streaming(request, path, ProstCodec::default()).await;
            match reply {
                Ok(reply) => Ok(reply),
                Err(status) => Err(self.refused(operation, &status).await),
            }
        };
        let stream = tokio::select! {
            stream = begin => stream?,
            () = self.clock.sleep(idle) => {
                return Err(Error::new(operation, &self.url, Kind::Stalled(idle)));
            }
        };
        Ok(SnapshotStream::new(stream.into_inner(), self.url.clone(), idle, self.clock.clone()))
    }

    /// What a broken rule of the protocol is, as an error of this member.
    #[must_use]
    pub fn malformed(&self, malformed: Malformed) -> Error {
        Error::new(SnapshotStream::OPERATION, &self.url, Kind::Malformed(malformed))
    }

    async fn call<Q, R>(
        &self,
        operation: &'static str,
        path: &'static str,
        request: Q,
        limit: Duration,
    ) -> Result<R, Error>
    where
        Q: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let path = PathAndQuery::from_static(path);
        let call = async {
            let mut grpc = self.ready(operation).await?;
            let codec: ProstCodec<Q, R> = ProstCodec::default();
            let reply = grpc.unary(Request::new(request), path, codec).await;
            match reply {
                Ok(reply) => Ok(reply),
                Err(status) => Err(self.refused(operation, &status).await),
            }
        };
        tokio::select! {
            reply = call => Ok(reply?.into_inner()),
            () = self.clock.sleep(limit) => {
                Err(Error::new(operation, &self.url, Kind::NoAnswer(limit)))
            }
        }
    }

    async fn ready(&self, operation: &'static str) -> Result<Grpc<Channel>, Error> {
        let mut grpc = Grpc::new(self.channel.clone());
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(error) => {
                let error = trouble::of_transport(operation, &self.url, &error);
                Err(self.explained(operation, error).await)
            }
        }
    }

    async fn refused(&self, operation: &'static str, status: &Refusal) -> Error {
        self.explained(operation, trouble::of_status(operation, &self.url, status)).await
    }

    /// The reason of a broken connection, where TLS has one.
    async fn explained(&self, operation: &'static str, error: Error) -> Error {
        if error.kind() != Kind::Lost {
            return self.access.seen_by(error);
        }
        let Some(config) = self.access.second_look() else { return error };
        let patience = self.access.dial_timeout;
        if !self.url.starts_with("https://") {
            let tls = probe::speaks_tls(config, &self.url, patience).await;
            return if tls { Error::new(operation, &self.url, Kind::NotGrpc) } else { error };
        }
        match probe::verdict(config, &self.url, patience).await {
            Some(verdict) => {
                self.access.seen_by(trouble::of_verdict(operation, &self.url, &verdict))
            }
            None => error,
        }
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
