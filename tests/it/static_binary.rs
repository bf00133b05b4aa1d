//! The static binary leans on nothing of the machine: in a root that holds only itself and a
//! resolv.conf it resolves a name and completes a TLS handshake.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::support::program::program;
use crate::support::rust_text::root;

const HOST: &str = "portal.capvco.test";

/// Builds one of the programs as a release does, but for how well it is optimized, which makes no
/// difference to what it leans on and takes minutes.
fn build() -> PathBuf {
    let dist = root().join("target/static/dist");
    let built = Command::new(root().join("scripts/release-binaries"))
        .args(["x86_64-unknown-linux-gnu", "capvco-imageresolve"])
        .env("CAPVCO_DIST", &dist)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .expect("the script can be started");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    dist.join("capvco-imageresolve_linux_amd64")
}

/// A root folder that holds the binary, a resolv.conf, and the test's own authority.
fn lay_out(binary: &Path, name_server: Ipv4Addr, authority: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder can be made");
    std::fs::create_dir(place.path().join("etc")).unwrap();
    let conf = format!("nameserver {name_server}\noptions timeout:2 attempts:2\n");
    std::fs::write(place.path().join("etc/resolv.conf"), conf).unwrap();
    std::fs::write(place.path().join("ca.pem"), authority).unwrap();
    std::fs::copy(binary, place.path().join("capvco-imageresolve")).unwrap();
    place
}

/// A loopback address of our own whose port 53 is free.
async fn name_server() -> (Ipv4Addr, UdpSocket) {
    let seed = std::process::id().to_be_bytes();
    for last in 2..250 {
        let address = Ipv4Addr::new(127, seed[2] | 1, seed[3], last);
        match UdpSocket::bind((address, 53)).await {
            Ok(socket) => return (address, socket),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => panic!("port 53 of {address} cannot be had (run tests as root): {error}"),
        }
    }
    panic!("no loopback address has a free port 53");
}

/// Says 127.0.0.1 for [`HOST`], "no such record" for its other types, "no such name" for others.
async fn answer_names(socket: UdpSocket) {
    let mut buffer = [0; 1500];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        if let Some(reply) = name_reply(&buffer[..length]) {
            let _ = socket.send_to(&reply, from).await;
        }
    }
}

fn name_reply(query: &[u8]) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = 12;
    while *query.get(at)? != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(query.get(at + 1..=at + length)?).to_lowercase());
        at += length + 1;
    }
    let question = query.get(12..at + 5)?;
    let known = labels.join(".") == HOST;
    let address = known && question.ends_with(&[0, 1, 0, 1]);
    // A reply, recursion available; one question; as many answers as there are; nothing else.
    let mut reply = query[..2].to_vec();
    reply.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(address), 0, 0, 0, 0]);
    reply.extend(question);
    if address {
        // The name of the question; A, IN, a minute, four bytes.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(reply)
}

/// A portal that knows one location and one image, behind TLS of the test's own authority.
async fn portal() -> (SocketAddr, String) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(params, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();

    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![leaf.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config))));
    (address, authority.pem())
}

async fn serve(listener: TcpListener, tls: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        tokio::spawn(async move {
            let mut stream = tls.accept(stream).await?;
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await?);
            }
            let body = reply_to(&String::from_utf8_lossy(&request));
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let length = body.len();
            let reply = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(reply.as_bytes()).await?;
            stream.shutdown().await
        });
    }
}

fn reply_to(request: &str) -> String {
    if request.contains("/vm-images") {
        r#"{"result": [{"image_id": 7, "status": "CREATED", "name": "k8s", "public": false}]}"#
    } else {
        r#"{"result": [{"location": "be-1"}]}"#
    }
    .to_owned()
}

#[tokio::test]
async fn a_bare_root_is_enough() {
    let binary = tokio::task::spawn_blocking(build).await.unwrap();
    let (server, socket) = name_server().await;
    tokio::spawn(answer_names(socket));
    let (address, authority) = portal().await;
    let place = lay_out(&binary, server, &authority);
    let port = address.port();
    let words = format!(
        "/capvco-imageresolve -portal-url https://{HOST}:{port} -ca-file /ca.pem \
         -customer acme_1 -locations be-1 -name k8s -output id -vv"
    );
    let chroot = program("chroot").arg(place.path()).words(&words).env("VCO_TOKEN", "t");
    let done = chroot.run().await.expect(0);
    assert_eq!(done.out, "7\n", "{}", done.err);
}

#[test]
fn names_are_answered() {
    let query = |kind: u8| {
        let mut query = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in HOST.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.bytes());
        }
        query.extend([0, 0, kind, 0, 1]);
        query
    };
    let reply = name_reply(&query(1)).unwrap();
    assert!(reply.starts_with(&[1, 2, 0x81, 0x80]) && reply.ends_with(&[127, 0, 0, 1]));
    assert_eq!(name_reply(&query(28)).unwrap()[7], 0);
    assert_eq!(name_reply(&[0; 5]), None);
}
