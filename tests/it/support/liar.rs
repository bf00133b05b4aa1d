//! A member of etcd that is none: it speaks gRPC over plain HTTP/2 and sends what it is told to.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};

/// What it does next in a snapshot.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends a message with this remainder and these bytes.
    Send(u64, Vec<u8>),
    /// Sends these bytes, which need not be a message.
    Raw(Vec<u8>),
    /// Sends nothing any more, and does not end.
    Hang,
    /// Sends blank messages with this remainder, without end.
    Blanks(u64),
    /// Resets the stream.
    Reset,
    /// Drops the connection.
    Drop,
    /// Ends the stream with this gRPC status.
    Status(u32, &'static str),
}

/// A whole snapshot of `data`, in messages of `size` bytes.
pub fn whole(data: &[u8], size: usize) -> Vec<Act> {
    let mut left = data.len() as u64;
    let mut acts = Vec::new();
    for part in data.chunks(size) {
        left -= part.len() as u64;
        acts.push(Act::Send(left, part.to_vec()));
    }
    acts.push(Act::Send(0, Sha256::digest(data).to_vec()));
    acts
}

/// The server; it stops when dropped.
pub struct Liar {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Liar {
    /// Serves `acts` to everybody who asks for a snapshot; without a last [`Act::Status`] the
    /// stream ends well.
    pub async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acts = Arc::new(acts);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(connection(socket, Arc::clone(&acts)));
            }
        });
        Self { address, task }
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn connection(socket: TcpStream, acts: Arc<Vec<Act>>) {
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    let (drop_it, mut dropped) = tokio::sync::mpsc::channel::<()>(1);
    loop {
        let request = tokio::select! {
            request = connection.accept() => request,
            _ = dropped.recv() => return,
        };
        let Some(Ok((request, respond))) = request else { return };
        let (acts, drop_it) = (Arc::clone(&acts), drop_it.clone());
        let path = request.uri().path().to_owned();
        tokio::spawn(async move {
            if answer(&path, request.into_body(), respond, &acts).await.is_none() {
                let _ = drop_it.send(()).await;
            }
        });
    }
}

/// `None` asks for the connection to be dropped.
async fn answer(
    path: &str,
    mut request: h2::RecvStream,
    mut respond: SendResponse<Bytes>,
    acts: &[Act],
) -> Option<()> {
    while let Some(Ok(data)) = request.data().await {
        let _ = request.flow_control().release_capacity(data.len());
    }
    let head = axum::http::Response::builder().header("content-type", "application/grpc");
    let mut stream = respond.send_response(head.body(()).unwrap(), false).ok()?;
    if path != "/etcdserverpb.Maintenance/Snapshot" {
        send(&mut stream, frame(&canned(path))).await;
        end(&mut stream, 0, "");
        return Some(());
    }
    for act in acts {
        match act {
            Act::Send(remaining, blob) => send(&mut stream, snapshot(*remaining, blob)).await,
            Act::Raw(bytes) => send(&mut stream, bytes.clone()).await,
            Act::Hang => std::future::pending().await,
            Act::Blanks(remaining) => loop {
                send(&mut stream, snapshot(*remaining, b"")).await;
                tokio::task::yield_now().await;
            },
            Act::Reset => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Some(());
            }
            Act::Drop => return None,
            Act::Status(code, message) => {
                end(&mut stream, *code, message);
                return Some(());
            }
        }
    }
    end(&mut stream, 0, "");
    Some(())
}

/// Sends all of it, as fast as it is read; a reader that is gone is no matter.
async fn send(stream: &mut SendStream<Bytes>, bytes: Vec<u8>) {
    let mut bytes = Bytes::from(bytes);
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
            Some(Ok(room)) => {
                let now = bytes.split_to(room.min(bytes.len()));
                let _ = stream.send_data(now, false);
            }
            // Nobody listens: nothing more is to be done on this stream.
            _ => std::future::pending().await,
        }
    }
}

fn end(stream: &mut SendStream<Bytes>, code: u32, message: &str) {
    let mut trailers = axum::http::HeaderMap::new();
    trailers.insert("grpc-status", code.to_string().parse().unwrap());
    trailers.insert("grpc-message", message.parse().unwrap());
    let _ = stream.send_trailers(trailers);
}

/// A gRPC frame around a message.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

fn snapshot(remaining: u64, blob: &[u8]) -> Vec<u8> {
    frame(&[number(2, remaining), bytes(3, blob)].concat())
}

/// Members and status of a healthy cluster of one, 3.6.
fn canned(path: &str) -> Vec<u8> {
    let header = [number(1, 0xc1), number(2, 0xa1), number(3, 7), number(4, 2)].concat();
    let header = bytes(1, &header);
    match path {
        "/etcdserverpb.Maintenance/Status" => [
            header,
            bytes(2, b"3.6.16"),
            number(3, 8192),
            number(4, 0xa1),
            number(5, 9),
            number(6, 2),
            number(7, 9),
            number(9, 8192),
        ]
        .concat(),
        "/etcdserverpb.Cluster/MemberList" => {
            let member = [number(1, 0xa1), bytes(2, b"liar"), bytes(4, b"http://127.0.0.1:1")];
            [header, bytes(2, &member.concat())].concat()
        }
        _ => header,
    }
}

fn number(field: u8, value: u64) -> Vec<u8> {
    [vec![field << 3], varint(value)].concat()
}

fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    [vec![field << 3 | 2], varint(value.len() as u64), value.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}
