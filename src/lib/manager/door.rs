//! The door before diagnostics: TLS, and whom the API server knows and lets in.
//!
//! As in Cluster API's managers (contract, 9.4): the certificate is made anew at each start and
//! signed by itself, since what reads metrics in a cluster is told not to verify it; who asks shows
//! a token of the cluster, which the API server reviews, and then whether its owner may.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::serve::{IncomingStream, Listener};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

use crate::clock::Clock;
use crate::fault::chain;

/// How long somebody may take to open a secure connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connections may wait to be served.
const WAITING: usize = 16;

/// Where somebody comes from.
#[derive(Debug, Clone, Copy)]
pub struct From(pub SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for From {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, Secure>> for From {
    fn connect_info(stream: IncomingStream<'_, Secure>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Accepts secure connections.
#[derive(Debug)]
pub struct Secure {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Secure {
    /// The same listener behind TLS, with a certificate of its own making.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn new(
        listener: TcpListener,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let names = vec!["localhost".to_owned()];
        let key = rcgen::KeyPair::generate()?;
        let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
        let secret = PrivateKeyDer::try_from(key.serialize_der())?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)?;
        let address = listener.local_addr()?;
        let (send, accepted) = mpsc::channel(WAITING);
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), send, clock));
        Ok(Self { accepted, address })
    }
}

/// Accepts until nobody serves any more. Whoever is slow to shake hands holds up nobody else.
async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    send: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
    clock: Arc<dyn Clock>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = send.closed() => return,
        };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, usually: give connections time to end.
            clock.sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (acceptor, send, clock) = (acceptor.clone(), send.clone(), Arc::clone(&clock));
        tokio::spawn(async move {
            let shaken = tokio::select! {
                shaken = acceptor.accept(stream) => shaken,
                () = clock.sleep(PATIENCE) => return,
            };
            if let Ok(stream) = shaken {
                let _ = send.send((stream, from)).await;
            }
        });
    }
}

impl Listener for Secure {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // Whoever accepts ends only after us.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// Lets through whom the API server knows by his token, and who may do this to the path.
pub async fn guard(State(client): State<Client>, request: Request, next: Next) -> Response {
    let Some(token) = bearer(request.headers()) else {
        return refuse(StatusCode::UNAUTHORIZED, "show a token of this cluster: Bearer TOKEN\n");
    };
    let (path, verb) = (request.uri().path().to_owned(), request.method().as_str().to_lowercase());
    match may(&client, token, path, verb).await {
        Ok(Answer::Yes) => next.run(request).await,
        Ok(Answer::No) => refuse(StatusCode::FORBIDDEN, "you have no role that allows this\n"),
        Ok(Answer::Nobody) => refuse(StatusCode::UNAUTHORIZED, "the token is no good here\n"),
        Err(error) => {
            tracing::warn!(error = chain(&error), "nobody can tell who may read diagnostics");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "the API server could not be asked\n")
        }
    }
}

fn refuse(status: StatusCode, why: &'static str) -> Response {
    (status, why).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty())
        .then(|| token.trim().to_owned())
}

/// What the API server says of somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Nobody,
}

async fn may(
    client: &Client,
    token: String,
    path: String,
    verb: String,
) -> Result<Answer, kube::Error> {
    let review = TokenReview {
        spec: TokenReviewSpec { token, ..TokenReviewSpec::default() },
        ..TokenReview::default()
    };
    let params = PostParams::default();
    let review = Api::<TokenReview>::all(client.clone()).create(&params, &review).await?;
    let status = review.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
        return Ok(Answer::Nobody);
    };
    let UserInfo { username, groups, uid, extra } = user;
    let what = NonResourceAttributes { path: Some(path), verb: Some(verb) };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: username,
            groups,
            uid,
            extra,
            non_resource_attributes: Some(what),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let review = Api::<SubjectAccessReview>::all(client.clone()).create(&params, &review).await?;
    let allowed = review.status.is_some_and(|status| status.allowed);
    Ok(if allowed { Answer::Yes } else { Answer::No })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_as_http_writes_it() {
        for (text, token) in [
            (Some("Bearer a.b.c"), Some("a.b.c")),
            (Some("bearer  a "), Some("a")),
            (Some("Bearer "), None),
            (Some("Basic a"), None),
            (Some("a"), None),
            (None, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(text) = text {
                headers.insert(header::AUTHORIZATION, text.parse().unwrap());
            }
            assert_eq!(bearer(&headers).as_deref(), token, "{text:?}");
        }
    }
}
