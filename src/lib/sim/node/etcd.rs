//! The etcd outside of the clusters that all of them share, each below a prefix of its own.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio::net::TcpStream;

use super::process::Process;
use crate::clock::{Clock as _, System};

/// How long it may take to answer for the first time.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a start is tried: another program may have taken a port in between.
const STARTS: usize = 5;

/// An etcd, and what a cluster needs to use it.
#[derive(Clone)]
pub struct Etcd {
    /// `https://127.0.0.1:PORT`: what `etcd.external.endpoints` lists.
    pub endpoint: String,
    /// Its authority, PEM: `tls.crt` of the Secret `CLUSTER-etcd`.
    pub authority: String,
    /// A client's certificate, PEM: `tls.crt` of the Secret `CLUSTER-apiserver-etcd-client`.
    pub certificate: String,
    /// The client's key, PEM: `tls.key` of that Secret.
    pub key: String,
    /// A folder, its owner's alone, with these three as `ca.crt`, `client.crt`, `client.key`.
    pub folder: PathBuf,
}

impl Etcd {
    /// Starts one with all it keeps in `folder`. The text of an error says why it does not run.
    pub(super) async fn start(program: &Path, folder: &Path) -> Result<(Self, Process), String> {
        std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
        let files = make(folder).map_err(|e| e.to_string())?;
        for _ in 0..STARTS {
            let [client, peer] = [free_port(), free_port()];
            let client = client.map_err(|e| e.to_string())?;
            let peer = peer.map_err(|e| e.to_string())?;
            let args = flags(folder, client, peer);
            let started = Process::start(program, &args, &folder.join("log"));
            let mut process = started.map_err(|e| e.to_string())?;
            if answers(client, &mut process).await {
                let endpoint = format!("https://127.0.0.1:{client}");
                return Ok((Self { endpoint, ..files }, process));
            }
        }
        Err(last_words(&folder.join("log")))
    }
}

/// Whether it listens before it ends: it does so once it is ready.
async fn answers(port: u16, process: &mut Process) -> bool {
    let clock = System::new();
    while clock.elapsed() < PATIENCE && !process.ended() {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
            return true;
        }
        clock.sleep(Duration::from_millis(20)).await;
    }
    false
}

fn flags(folder: &Path, client: u16, peer: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        "--name=outside".to_owned(),
        format!("--data-dir={}", file("data")),
        format!("--listen-client-urls=https://127.0.0.1:{client}"),
        format!("--advertise-client-urls=https://127.0.0.1:{client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster=outside=http://127.0.0.1:{peer}"),
        format!("--cert-file={}", file("server.crt")),
        format!("--key-file={}", file("server.key")),
        format!("--trusted-ca-file={}", file("ca.crt")),
        "--client-cert-auth=true".to_owned(),
        // What is in it is gone with the simulator anyway.
        "--unsafe-no-fsync".to_owned(),
        "--logger=zap".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// Makes an authority, the server's certificate and a client's.
fn make(folder: &Path) -> Result<Etcd, Box<dyn std::error::Error>> {
    let authority_key = KeyPair::generate()?;
    let mut authority = named("etcd-ca", &[])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let leaf = |name: &str, hosts: &[&str]| -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut leaf = named(name, hosts)?;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // etcd's own gateway shows the server's certificate as a client.
        leaf.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Ok((leaf.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
    };
    let (server, server_key) = leaf("etcd", &["127.0.0.1", "localhost"])?;
    let (certificate, key) = leaf("kube-apiserver-etcd-client", &[])?;
    for (name, text) in [
        ("ca.crt", &ca),
        ("server.crt", &server),
        ("server.key", &server_key),
        ("client.crt", &certificate),
        ("client.key", &key),
    ] {
        std::fs::write(folder.join(name), text)?;
    }
    let (endpoint, folder) = (String::new(), folder.to_owned());
    Ok(Etcd { endpoint, authority: ca, certificate, key, folder })
}

fn named(name: &str, hosts: &[&str]) -> Result<CertificateParams, rcgen::Error> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// What a server said last.
pub(super) fn last_words(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it ended without a word").to_owned()
}
