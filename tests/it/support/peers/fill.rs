//! Fills an etcd as fast as it takes it: transactions as large as it allows, several at once.

use futures_util::{StreamExt as _, TryStreamExt as _};
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic_prost::ProstCodec;

use super::etcd::Etcd;

/// What values are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Text that repeats itself, as manifests do.
    Compressible,
    /// Noise, the same in each run.
    Random,
}

// The few words of etcd's protocol that are needed here, by their numbers.
#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, Message)]
struct Transaction {
    #[prost(message, repeated, tag = "2")]
    success: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Reply {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
}

impl Etcd {
    /// Puts `keys` keys, `/registry/pods/default/pod-0000000` and on, with values of `size`
    /// bytes each; the revision after that. Values are 1 MiB at most.
    #[track_caller]
    pub fn fill(&self, keys: usize, size: usize, values: Values) -> i64 {
        // A runtime of its own, on a thread of its own: the test may be within one.
        std::thread::scope(|scope| {
            let filled = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(fill(self, keys, size, values))
            });
            filled.join().expect("etcd takes what it is filled with")
        })
    }
}

async fn fill(etcd: &Etcd, keys: usize, size: usize, values: Values) -> i64 {
    const MOST_OPERATIONS: usize = 128;
    const MOST_BYTES: usize = 1 << 20;
    const AT_ONCE: usize = 8;
    let channel = connect(etcd).await;
    let batch = (MOST_BYTES / size.max(1)).clamp(1, MOST_OPERATIONS);
    let starts = futures_util::stream::iter((0..keys).step_by(batch));
    let revisions = starts
        .map(|start| {
            let numbers = start..keys.min(start + batch);
            let success = numbers.map(|number| put(number, size, values)).collect();
            commit(channel.clone(), Transaction { success })
        })
        .buffer_unordered(AT_ONCE)
        .try_fold(0, |highest, revision| async move { Ok(revision.max(highest)) });
    revisions.await.unwrap_or_else(|e| panic!("{e}\n{}", etcd.log()))
}

async fn connect(etcd: &Etcd) -> Channel {
    let mut endpoint = Endpoint::from_shared(etcd.endpoint()).unwrap();
    if let Some(tls) = etcd.tls() {
        let identity = Identity::from_pem(tls.pem("client.crt"), tls.pem("client.key"));
        let authority = Certificate::from_pem(tls.pem("ca.crt"));
        let config = ClientTlsConfig::new().ca_certificate(authority).identity(identity);
        endpoint = endpoint.tls_config(config).unwrap();
    }
    endpoint.connect().await.unwrap_or_else(|e| panic!("{e:?}\n{}", etcd.log()))
}

async fn commit(channel: Channel, transaction: Transaction) -> Result<i64, tonic::Status> {
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|e| tonic::Status::unavailable(format!("{e:?}")))?;
    let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
    let codec = ProstCodec::<Transaction, Reply>::default();
    let reply = client.unary(tonic::Request::new(transaction), path, codec).await?;
    Ok(reply.into_inner().header.map_or(0, |header| header.revision))
}

fn put(number: usize, size: usize, values: Values) -> Operation {
    let key = format!("/registry/pods/default/pod-{number:07}").into_bytes();
    let value = match values {
        Values::Compressible => text(number, size),
        Values::Random => noise(number as u64, size),
    };
    Operation { put: Some(Put { key, value }) }
}

fn text(number: usize, size: usize) -> Vec<u8> {
    let pod = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"pod-{number:07}","labels":{{"app":"web"}}}}}}"#
    );
    pod.bytes().cycle().take(size).collect()
}

/// splitmix64.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend((word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}
