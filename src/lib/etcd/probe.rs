//! A second look at a TLS connection that broke: the reason that the first one has swallowed.
//!
//! In TLS 1.3 a client believes the handshake to be over before the server has judged the
//! client's certificate. The verdict then arrives on a connection that is already in use, and
//! HTTP/2 often tells no more of it than "connection closed".

use std::io::Read as _;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// What the server holds against this client, if it says so within about `patience`.
pub async fn verdict(
    config: Arc<ClientConfig>,
    url: &str,
    patience: Duration,
) -> Option<rustls::Error> {
    look(config, url, patience).await?.err()
}

/// Whether the server speaks TLS at all.
pub async fn speaks_tls(config: Arc<ClientConfig>, url: &str, patience: Duration) -> bool {
    let seen = look(config, url, patience).await;
    seen.is_some_and(|seen| !matches!(seen, Err(rustls::Error::InvalidMessage(_))))
}

/// How a handshake ended, and what followed; none if TLS has nothing to do with it.
async fn look(
    config: Arc<ClientConfig>,
    url: &str,
    patience: Duration,
) -> Option<Result<(), rustls::Error>> {
    let (_, authority) = url.split_once("://")?;
    let authority = authority.to_owned();
    let look = move || shake_hands(config, &authority, patience);
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

fn shake_hands(
    config: Arc<ClientConfig>,
    authority: &str,
    patience: Duration,
) -> Option<Result<(), rustls::Error>> {
    let (host, _) = authority.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let address = authority.to_socket_addrs().ok()?.next()?;
    let socket = TcpStream::connect_timeout(&address, patience).ok()?;
    socket.set_read_timeout(Some(patience)).ok()?;
    socket.set_write_timeout(Some(patience)).ok()?;
    let name = ServerName::try_from(host).ok()?;
    let connection = ClientConnection::new(config, name).ok()?;
    // A server that is content sends its HTTP/2 settings; one that is not, an alert.
    match StreamOwned::new(connection, socket).read_exact(&mut [0; 1]) {
        Ok(()) => Some(Ok(())),
        Err(error) => error.into_inner()?.downcast::<rustls::Error>().ok().map(|error| Err(*error)),
    }
}
