//! `kubectl port-forward` to a node that is no machine, through the real API server.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use capvco::sim::node::Kubelet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};

use crate::support::peers::kube::KubePlane;
use crate::support::peers::{clean, leash, tool};
use crate::support::program::{Done, finish};
use crate::support::raw::install_tls;

/// More than all that lies between can hold.
const MUCH: usize = 8 << 20;

/// A Node whose kubelet is ours, and a Pod that runs there.
struct Stage {
    plane: &'static KubePlane,
    space: String,
    kubelet: Option<Kubelet>,
}

impl Stage {
    async fn new() -> Self {
        let plane = KubePlane::shared();
        let space = plane.namespace();
        let kubelet = Kubelet::start_at(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (client, node) = (
            plane.client(),
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": space},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.addr().port()}},
                },
            }),
        );
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "etcd-one"},
            "spec": {"nodeName": space, "containers": [{"name": "etcd", "image": "etcd"}]},
            "status": {"phase": "Running"},
        });
        made(Api::<Node>::all(client.clone()), &space, node).await;
        made(Api::<Pod>::namespaced(client, &space), "etcd-one", pod).await;
        Self { plane, space, kubelet: Some(kubelet) }
    }

    /// Runs `kubectl port-forward` to a port of the pod, until the result is dropped.
    async fn forward(&self, port: u16) -> Forward {
        let (mut command, access) = (clean(tool("kubectl")), self.plane.kubeconfig());
        command.env("HOME", access.parent().unwrap()).env("KUBECONFIG", access);
        command.arg(format!("--namespace={}", self.space)).arg("port-forward");
        command.args(["--address=127.0.0.1", "pod/etcd-one"]).arg(format!(":{port}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        leash::hold(child.id());
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut forward = Forward { child: Some(child), at: None };
        // `Forwarding from 127.0.0.1:40001 -> 2379`
        let first = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            // It tells of each connection, and would end if nobody heard.
            std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
            line
        });
        let line = first.await.unwrap();
        match line.split(' ').nth(2).and_then(|at| at.parse().ok()) {
            Some(at) => {
                forward.at = Some(at);
                forward
            }
            None => panic!("{line}{:?}", forward.ended().await),
        }
    }

    /// A request to the kubelet itself.
    async fn ask(&self, method: reqwest::Method, path: &str, of: &[(&str, &str)]) -> (u16, String) {
        install_tls();
        let http = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
        let url = format!("https://{}{path}", self.kubelet.as_ref().unwrap().addr());
        let mut request = http.build().unwrap().request(method, url);
        for (name, value) in of {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

/// Makes an object, with its status.
async fn made<K>(of: Api<K>, name: &str, object: serde_json::Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let (params, patch) = (PatchParams::apply("test").force(), Patch::Apply(&object));
    of.patch(name, &params, &patch).await.unwrap();
    of.patch_status(name, &params, &patch).await.unwrap();
}

struct Forward {
    child: Option<Child>,
    /// Where kubectl listens.
    at: Option<SocketAddr>,
}

impl Forward {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at.expect("it listens")).await.unwrap()
    }

    /// What it has said, once it ends by itself.
    async fn ended(mut self) -> Done {
        let child = self.child.take().unwrap();
        let id = child.id();
        let done = tokio::time::timeout(Duration::from_secs(30), finish(child)).await;
        leash::free(id);
        done.expect("it ends")
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            leash::free(child.id());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// A port at which each connection is dealt with by `serve`.
async fn target<S: Future<Output = ()> + Send + 'static>(serve: fn(TcpStream) -> S) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

async fn echo(mut stream: TcpStream) {
    let (mut read, mut write) = stream.split();
    tokio::io::copy(&mut read, &mut write).await.unwrap();
}

/// Answers only when it has heard all, and backwards.
async fn listen(mut stream: TcpStream) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    all.reverse();
    stream.write_all(&all).await.unwrap();
}

/// Says what it has to say, and leaves.
async fn speak(mut stream: TcpStream) {
    stream.write_all(&bytes(7, 1 << 20)).await.unwrap();
}

/// Bytes that are not the same twice, nor for two seeds.
fn bytes(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(length).collect()
}

async fn exactly(read: &mut OwnedReadHalf, length: usize) -> Vec<u8> {
    let mut got = vec![0; length];
    read.read_exact(&mut got).await.unwrap();
    got
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_connections_at_once_carry_much_each_way() {
    let stage = Stage::new().await;
    let forward = stage.forward(target(echo).await).await;
    let mut all = tokio::task::JoinSet::new();
    for seed in 1..=4 {
        let stream = forward.connect().await;
        all.spawn(async move {
            let sent = bytes(seed, MUCH);
            let (mut read, mut write) = stream.into_split();
            let (got, ()) = tokio::join!(exactly(&mut read, MUCH), async {
                write.write_all(&sent).await.unwrap();
                write.shutdown().await.unwrap();
            });
            assert!(got == sent, "connection {seed} brings back other bytes");
            assert_eq!(read.read(&mut [0; 8]).await.unwrap(), 0);
        });
    }
    while let Some(one) = all.join_next().await {
        one.unwrap();
    }
    // It still serves after all of that.
    let mut late = forward.connect().await;
    late.write_all(b"late").await.unwrap();
    let mut got = [0; 4];
    late.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"late");
}

#[tokio::test]
async fn an_end_of_one_way_is_not_the_end_of_the_other() {
    let stage = Stage::new().await;
    let listens = stage.forward(target(listen).await).await;
    let speaks = stage.forward(target(speak).await).await;
    let mut stream = listens.connect().await;
    let mut sent = bytes(9, 1 << 20);
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.unwrap();
    sent.reverse();
    assert!(got == sent, "{} bytes of {} come back", got.len(), sent.len());

    let mut got = Vec::new();
    speaks.connect().await.read_to_end(&mut got).await.unwrap();
    assert!(got == bytes(7, 1 << 20), "{} bytes arrive", got.len());
}

#[tokio::test]
async fn kubectl_says_that_nobody_listens() {
    let stage = Stage::new().await;
    let gone = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let forward = stage.forward(port).await;
    let mut stream = forward.connect().await;
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let done = forward.ended().await.expect(1);
    let why = format!(
        "error forwarding port {port} to pod {}/etcd-one: failed to connect to localhost:{port}: ",
        stage.space
    );
    done.says(&why).says("refused");
}

#[tokio::test]
async fn with_the_kubelet_its_connections_end() {
    let mut stage = Stage::new().await;
    let forward = stage.forward(target(echo).await).await;
    let mut stream = forward.connect().await;
    stream.write_all(b"here").await.unwrap();
    stream.read_exact(&mut [0; 4]).await.unwrap();
    drop(stage.kubelet.take());
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
    forward.ended().await.expect(1).says("lost connection to pod");
}

#[tokio::test]
async fn what_is_no_port_forwarding_is_refused() {
    let stage = Stage::new().await;
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let path = format!("/portForward/{}/etcd-one", stage.space);
    let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let other = [spdy[0], spdy[1], ("x-stream-protocol-version", "v4.channel.k8s.io")];
    for (method, path, headers, code, said) in [
        (&get, "/healthz", &[][..], 200, "ok"),
        (&get, "/pods", &[], 404, "not found"),
        (&get, &path, &spdy, 405, "Method Not Allowed"),
        (&post, &path, &[], 400, "SPDY/3.1"),
        (&post, &path, &spdy, 400, "x-stream-protocol-version is required"),
        (&post, &path, &other, 403, "portforward.k8s.io"),
    ] {
        let (status, body) = stage.ask(method.clone(), path, headers).await;
        assert!(status == code && body.contains(said), "{method} {path}: {status} {body}");
    }
}
