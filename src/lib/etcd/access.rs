//! Where members are and how they are spoken to: endpoints, and TLS from files.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tonic::transport::{ClientTlsConfig, Endpoint, Identity};

use super::error::{Error, Kind};
use crate::disk;

/// The longest file of certificates that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// How long a connection may take where nobody says otherwise, as etcdctl's.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// A member is asked whether it lives after this time without a byte …
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// … and is given up when it does not answer for this time.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How much a member may send before we have read it, in bytes, a stream; little, because memory
/// is bounded and a member is near.
const WINDOW: u32 = 2 << 20;

/// The same as etcdctl's flags of these names; read when a connection is made.
#[derive(Debug, Clone)]
pub struct Access {
    /// `https://host:port`, `http://host:port`, or bare `host:port`, which is https as soon as
    /// any of the files is given, as etcdctl has it.
    pub endpoints: Vec<String>,
    /// PEM file with the authorities of the members' certificates; without it the system's.
    pub ca: Option<PathBuf>,
    /// PEM file with the client's certificate.
    pub cert: Option<PathBuf>,
    /// PEM file with its key.
    pub key: Option<PathBuf>,
    /// How long a connection may take.
    pub dial_timeout: Duration,
}

impl Access {
    /// Members without TLS, or with the system's authorities.
    #[must_use]
    pub fn to(endpoints: &[&str]) -> Self {
        let endpoints = endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect();
        Self { endpoints, ca: None, cert: None, key: None, dial_timeout: DIAL_TIMEOUT }
    }

    /// The URL of `endpoint`: what it is, with the scheme that it leaves out.
    ///
    /// # Errors
    /// [`Kind::Setting`] if it cannot be an endpoint.
    pub fn url(&self, endpoint: &str) -> Result<String, Error> {
        let endpoint = endpoint.trim();
        let refuse =
            |why: &str| Error::new("use", shown(endpoint), Kind::Setting).with_message(why);
        let tls = self.ca.is_some() || self.cert.is_some() || self.key.is_some();
        let (scheme, rest) = match endpoint.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some(("unix" | "unixs", _)) => {
                return Err(refuse(
                    "sockets of a file system cannot be used; give the member's host:port, as its \
                 --listen-client-urls has it",
                ));
            }
            Some(_) => return Err(refuse("an endpoint starts with https:// or http://")),
            None => (if tls { "https" } else { "http" }, endpoint),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() {
            return Err(refuse("the endpoint is empty"));
        }
        if authority.contains(['/', '?', '#', '@', ',', ' ', '\t']) {
            return Err(refuse("an endpoint is host:port and nothing more"));
        }
        if !has_port(authority) {
            return Err(refuse("the port is missing; etcd's clients use 2379"));
        }
        Ok(format!("{scheme}://{authority}"))
    }

    /// What connects to `url`, with TLS if that says so.
    pub(super) fn endpoint(&self, url: &str) -> Result<Endpoint, Error> {
        let refuse = |why: &str| Error::new("use", url, Kind::Setting).with_message(why);
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|_| refuse("it is not a valid endpoint"))?
            .connect_timeout(self.dial_timeout)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
        if !url.starts_with("https://") {
            return Ok(endpoint);
        }
        let tls = self.tls()?;
        endpoint.tls_config(tls).map_err(|error| {
            let what =
                self.cert.as_deref().map_or_else(String::new, |path| at("certificate", path));
            let why = "certificate and key do not belong together, or cannot be used";
            Error::new("use", what, Kind::Setting).with_message(why).with_source(error)
        })
    }

    /// The error as it is for somebody with these files: older servers say of a certificate that
    /// is missing that it is bad (Go before 1.19, crypto/tls).
    pub(super) fn seen_by(&self, error: Error) -> Error {
        match error.kind() {
            Kind::CertificateRejected if self.cert.is_none() => {
                error.with_kind(Kind::CertificateMissing)
            }
            _ => error,
        }
    }

    fn tls(&self) -> Result<ClientTlsConfig, Error> {
        let tls = ClientTlsConfig::new().trust_anchors(self.roots()?.roots);
        Ok(match self.pair()? {
            Some(pair) => tls.identity(Identity::from_pem(pair.cert, pair.key)),
            None => tls,
        })
    }

    /// The same for a second look at a connection; none where it cannot be had.
    pub(super) fn second_look(&self) -> Option<Arc<ClientConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().ok()?;
        let builder = builder.with_root_certificates(self.roots().ok()?);
        let mut config = match self.pair().ok()? {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = CertificateDer::pem_slice_iter(&pair.cert).collect::<Result<_, _>>();
                let key = PrivateKeyDer::from_pem_slice(&pair.key).ok()?;
                builder.with_client_auth_cert(chain.ok()?, key).ok()?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Some(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        self.ca.as_deref().map_or_else(|| Ok(system_roots()), authorities)
    }

    fn pair(&self) -> Result<Option<Pair>, Error> {
        match (&self.cert, &self.key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => pair(cert, key).map(Some),
            (Some(path), None) => Err(refuse("certificate", path, "it needs its key, --key")),
            (None, Some(path)) => Err(refuse("key", path, "it needs its certificate, --cert")),
        }
    }
}

/// An endpoint for a message; what could be a password stays out.
fn shown(endpoint: &str) -> String {
    match endpoint.rsplit_once('@') {
        Some((_, host)) => format!("endpoint …@{host}"),
        None => format!("endpoint {endpoint:?}"),
    }
}

fn has_port(authority: &str) -> bool {
    let port = match authority.rsplit_once(']') {
        Some((_, rest)) => rest.strip_prefix(':'),
        None => authority.rsplit_once(':').map(|(_, port)| port),
    };
    port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn at(what: &str, path: &Path) -> String {
    format!("{what} {}", path.display())
}

fn refuse(what: &str, path: &Path, why: impl Display) -> Error {
    Error::new("use", at(what, path), Kind::Setting).with_message(why.to_string())
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let read = disk::read(path, LONGEST);
    read.map_err(|error| refuse(what, path, "it cannot be read").with_source(error))
}

fn certificates(
    what: &str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|_| refuse(what, path, "it is no valid PEM"))?;
    if all.is_empty() {
        return Err(refuse(what, path, "it holds no certificate (PEM, \"BEGIN CERTIFICATE\")"));
    }
    Ok(all)
}

fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    let pem = read("CA file", path)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates("CA file", path, &pem)? {
        roots.add(certificate).map_err(|error| {
            refuse("CA file", path, "a certificate in it is not usable").with_source(error)
        })?;
    }
    Ok(roots)
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A machine without roots trusts nobody, and the handshake says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// A client certificate and its key, PEM.
struct Pair {
    cert: Vec<u8>,
    key: Vec<u8>,
}

fn pair(cert_path: &Path, key_path: &Path) -> Result<Pair, Error> {
    let (cert, key) = (read("certificate", cert_path)?, read("key", key_path)?);
    certificates("certificate", cert_path, &cert)?;
    // What a parser says of a key is not shown.
    PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
        refuse("key", key_path, "it holds no private key (PEM, without passphrase)")
    })?;
    Ok(Pair { cert, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_ca() -> Access {
        Access { ca: Some("ca.crt".into()), ..Access::to(&[]) }
    }

    #[test]
    fn a_bare_endpoint_gets_the_scheme_that_the_files_ask_for() {
        for (endpoint, plain, tls) in [
            ("127.0.0.1:2379", "http://127.0.0.1:2379", "https://127.0.0.1:2379"),
            ("etcd-0.local:2379", "http://etcd-0.local:2379", "https://etcd-0.local:2379"),
            ("[::1]:2379", "http://[::1]:2379", "https://[::1]:2379"),
            (" https://a:1/ ", "https://a:1", "https://a:1"),
            ("http://a:1", "http://a:1", "http://a:1"),
        ] {
            assert_eq!(Access::to(&[]).url(endpoint).unwrap(), plain);
            assert_eq!(with_ca().url(endpoint).unwrap(), tls);
        }
    }

    #[test]
    fn what_is_no_endpoint_is_said() {
        for (endpoint, why) in [
            ("", "empty"),
            ("https://", "empty"),
            ("ftp://a:1", "starts with https://"),
            ("unix:///run/etcd.sock", "--listen-client-urls"),
            ("https://a", "port is missing"),
            ("https://[::1]", "port is missing"),
            ("a:0", "port is missing"),
            ("a:99999", "port is missing"),
            ("https://a:1/v3", "nothing more"),
            ("a:1,b:1", "nothing more"),
        ] {
            let error = Access::to(&[]).url(endpoint).unwrap_err().to_string();
            assert!(error.contains(why), "{endpoint:?}: {error}");
        }
    }

    #[test]
    fn a_password_in_an_endpoint_is_not_shown() {
        let error = Access::to(&[]).url("https://root:hunter2@a:1").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("a:1"), "{error}");
    }

    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn with(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    #[test]
    fn files_that_cannot_serve_are_named_and_keys_are_not_shown() {
        let files = Files::new();
        let own = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let good = files.with("good.crt", &own.cert.pem());
        let key = files.with("good.key", &own.signing_key.serialize_pem());
        let other = files.with("other.key", &other);
        let text = files.with("text", "hunter2");
        let cut = files.with("cut", "-----BEGIN CERTIFICATE-----\nAAAA\n");
        let cut_key = files.with("cut.key", "-----BEGIN PRIVATE KEY-----\nhunter2!\n");
        let gone = files.0.path().join("gone");
        let some = |path: &PathBuf| Some(path.clone());
        for (ca, cert, key, why) in [
            (some(&gone), None, None, "gone): it cannot be read"),
            (some(&text), None, None, "text): it holds no certificate"),
            (some(&cut), None, None, "cut): it"),
            (None, some(&good), None, "it needs its key"),
            (None, None, some(&key), "it needs its certificate"),
            (None, some(&gone), some(&key), "gone): it cannot be read"),
            (None, some(&good), some(&text), "text): it holds no private key"),
            (None, some(&good), some(&good), "good.crt): it holds no private key"),
            (None, some(&good), some(&cut_key), "cut.key): it holds no private key"),
            (None, some(&good), some(&other), "do not belong together"),
        ] {
            let access = Access { ca, cert, key, ..Access::to(&[]) };
            let error = access.endpoint("https://a:1").unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(error.to_string().contains(why), "{why}: {error}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        let access = Access { ca: some(&good), cert: some(&good), key: some(&key), ..with_ca() };
        assert!(access.endpoint("https://a:1").is_ok());
        let plain = Access { ca: some(&gone), ..with_ca() };
        assert!(plain.endpoint("http://a:1").is_ok(), "files are not read where TLS is not spoken");
    }
}
