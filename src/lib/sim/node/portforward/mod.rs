//! The kubelet's end of `kubectl port-forward`: HTTPS that turns into SPDY/3.1, in which pairs of
//! streams are joined to TCP connections of the machine.
//!
//! Facts: `capi-contract.md` 13.3; Kubernetes 1.36.3 as a client of it (kubectl, the API server,
//! the proxy of the kubeadm control-plane manager). A pair is an `error` and a `data` stream of
//! one `requestid`. A connection that fails is told as text in the first; the second carries
//! bytes, each way until its own end. Neither side counts windows: a connection that takes nothing
//! in holds up its neighbours in the same session, as it does with a real kubelet.

mod session;

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::error::Error;
use crate::clock::{Clock as _, System};

/// What a client has to ask for, and is given.
const SPDY: &str = "SPDY/3.1";
const VERSION_HEADER: &str = "x-stream-protocol-version";
const ACCEPTED_HEADER: &str = "x-accepted-stream-protocol-versions";
const PROTOCOL: &str = "portforward.k8s.io";

/// Connects to a port of the machine, from within it.
pub(super) type Dial = Arc<dyn Fn(u16) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync>;

/// A kubelet's port for a node that is no machine: `/healthz`, and port forwarding to the loopback
/// of this host, whichever pod is asked for. Dropping it breaks all its connections.
///
/// A Node whose `InternalIP` and `kubeletEndpoint` say where it is makes `kubectl port-forward`
/// work for the pods that are bound to it.
#[must_use = "it ends when this is dropped"]
pub struct Kubelet {
    addr: SocketAddr,
    stop: CancellationToken,
}

impl Kubelet {
    /// Serves on this address; port 0 lets the system choose one.
    ///
    /// # Errors
    /// [`Error::Listen`]: the address is taken or not ours.
    pub async fn start_at(addr: SocketAddr) -> Result<Self, Error> {
        let listen = |source| Error::Listen { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(listen)?;
        let addr = listener.local_addr().map_err(listen)?;
        let tls = certificate().map_err(Error::Certificate)?;
        let stop = CancellationToken::new();
        let dial = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).boxed();
        tokio::spawn(serve(listener, dial, tls, stop.clone()));
        Ok(Self { addr, stop })
    }

    /// Where it is.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What a server shows: any certificate will do, since the API server does not ask whose it is
/// unless it is told to.
pub(super) fn certificate() -> Result<Arc<ServerConfig>, Box<dyn std::error::Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(["kubelet".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())?;
    Ok(Arc::new(config))
}

/// Serves until `stop`, which breaks what is open; returns when nothing is left. `dial` decides
/// whose ports are reached.
pub(super) async fn serve(
    listener: TcpListener,
    dial: impl Fn(u16) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync + 'static,
    tls: Arc<ServerConfig>,
    stop: CancellationToken,
) {
    let desk = Desk { dial: Arc::new(dial), stop: stop.clone(), tasks: TaskTracker::new() };
    let acceptor = TlsAcceptor::from(tls);
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((tcp, _)) = accepted else {
            // Out of file descriptors, usually: give connections time to end.
            System::new().sleep(Duration::from_millis(50)).await;
            continue;
        };
        desk.keep(connection(tcp, acceptor.clone(), desk.clone()));
    }
    desk.tasks.close();
    desk.tasks.wait().await;
}

async fn connection(tcp: TcpStream, acceptor: TlsAcceptor, desk: Desk) {
    // Where that fails, small answers are only slower.
    let _ = tcp.set_nodelay(true);
    let Ok(tls) = acceptor.accept(tcp).await else { return };
    let answer = service_fn(|request| ready(Ok::<_, Infallible>(desk.answer(request))));
    let served = http1::Builder::new().serve_connection(TokioIo::new(tls), answer);
    if let Err(error) = served.with_upgrades().await {
        tracing::debug!(%error, "a connection to a kubelet ends early");
    }
}

/// Who answers requests.
#[derive(Clone)]
struct Desk {
    dial: Dial,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Desk {
    /// Lets something run until it ends or all has to.
    fn keep(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(task));
    }

    fn answer(&self, mut request: Request<Incoming>) -> Response<String> {
        match judge(request.method(), request.uri().path(), request.headers()) {
            Ok(Asked::Health) => Response::new("ok".to_owned()),
            Ok(Asked::Forward(pod)) => {
                self.keep(upgraded(hyper::upgrade::on(&mut request), pod, Arc::clone(&self.dial)));
                switching()
            }
            Err(refusal) => refusal.response(),
        }
    }
}

async fn upgraded(upgrade: OnUpgrade, pod: String, dial: Dial) {
    match upgrade.await {
        Ok(io) => session::run(TokioIo::new(io), pod, dial).await,
        Err(error) => tracing::debug!(%error, "a connection to a kubelet ends before SPDY begins"),
    }
}

fn switching() -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, UPGRADE.into());
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    headers.insert(VERSION_HEADER, HeaderValue::from_static(PROTOCOL));
    response
}

/// A request that can be served.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Health,
    /// To this pod, as `NAMESPACE/NAME`.
    Forward(String),
}

/// Why a request is not served, in a kubelet's codes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("404 page not found")]
    Path,
    #[error("405: Method Not Allowed")]
    Method,
    #[error("unable to upgrade: the request does not ask for {SPDY}")]
    Upgrade,
    #[error("unable to upgrade: {VERSION_HEADER} is required")]
    NoProtocol,
    #[error("unable to upgrade: the client speaks {0}, not {PROTOCOL}")]
    Protocol(String),
}

impl Refusal {
    fn response(&self) -> Response<String> {
        let mut response = Response::new(self.to_string());
        *response.status_mut() = match self {
            Self::Path => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Upgrade | Self::NoProtocol => StatusCode::BAD_REQUEST,
            Self::Protocol(_) => StatusCode::FORBIDDEN,
        };
        if matches!(self, Self::Protocol(_)) {
            let ours = HeaderValue::from_static(PROTOCOL);
            response.headers_mut().insert(ACCEPTED_HEADER, ours);
        }
        response
    }
}

fn judge(method: &Method, path: &str, headers: &HeaderMap) -> Result<Asked, Refusal> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let pod = match parts[..] {
        ["healthz"] => return Ok(Asked::Health),
        ["portForward", namespace, pod] if !namespace.is_empty() && !pod.is_empty() => {
            format!("{namespace}/{pod}")
        }
        _ => return Err(Refusal::Path),
    };
    if method != Method::POST {
        return Err(Refusal::Method);
    }
    let asked = |name: &str, for_it: &str| {
        words(headers, name).any(|word| word.eq_ignore_ascii_case(for_it))
    };
    if !asked("connection", "upgrade") || !asked("upgrade", SPDY) {
        return Err(Refusal::Upgrade);
    }
    let spoken: Vec<&str> = words(headers, VERSION_HEADER).collect();
    match spoken[..] {
        [] => Err(Refusal::NoProtocol),
        _ if spoken.contains(&PROTOCOL) => Ok(Asked::Forward(pod)),
        _ => Err(Refusal::Protocol(spoken.join(", "))),
    }
}

/// The words of a header that may come several times, each with several of them.
fn words<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_all_of_it_is_served() {
        let pod = "/portForward/kube-system/etcd-one";
        let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        let whole = [&spdy[..], &[(VERSION_HEADER, PROTOCOL)]].concat();
        let several = [&spdy[..], &[(VERSION_HEADER, "a, b"), (VERSION_HEADER, PROTOCOL)]].concat();
        let other = [&spdy[..], &[(VERSION_HEADER, "v5.channel.k8s.io")]].concat();
        let socket = [("connection", "Upgrade"), ("upgrade", "websocket")];
        let forward = || Ok(Asked::Forward("kube-system/etcd-one".to_owned()));
        for (method, path, headers, meant) in [
            ("GET", "/healthz", &[][..], Ok(Asked::Health)),
            ("POST", pod, &whole, forward()),
            ("POST", pod, &several, forward()),
            ("POST", pod, &other, Err(Refusal::Protocol("v5.channel.k8s.io".to_owned()))),
            ("POST", pod, &spdy, Err(Refusal::NoProtocol)),
            ("POST", pod, &socket, Err(Refusal::Upgrade)),
            ("POST", pod, &[], Err(Refusal::Upgrade)),
            ("GET", pod, &whole, Err(Refusal::Method)),
            ("POST", "/portForward/kube-system", &whole, Err(Refusal::Path)),
            ("POST", "/portForward//etcd-one", &whole, Err(Refusal::Path)),
            ("POST", "/portForward/kube-system/etcd-one/uid/x", &whole, Err(Refusal::Path)),
            ("POST", "/exec/kube-system/etcd-one/etcd", &whole, Err(Refusal::Path)),
        ] {
            let mut of = HeaderMap::new();
            for (name, value) in headers {
                of.append(*name, value.parse().unwrap());
            }
            assert_eq!(judge(&method.parse().unwrap(), path, &of), meant, "{method} {path}");
        }
    }
}
