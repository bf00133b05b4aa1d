//! TLS: what can be wrong with certificates, each told apart, at members of every line.

use std::path::PathBuf;
use std::sync::Arc;

use capvco::clock::System;
use capvco::etcd::{Access, Client, Error, Kind, Status};
use capvco::fault::Fault as _;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};

use super::told;
use crate::support::peers::etcd::{Etcd, LINES};
use crate::support::peers::tls::Tls;

/// Connects and asks: a missing client certificate shows only then.
async fn ask(access: &Access) -> Result<Status, Error> {
    let endpoint = access.endpoints[0].clone();
    Client::connect(access, &endpoint, System::shared()).await?.status().await
}

fn access(etcd: &Etcd, tls: &Tls) -> Access {
    Access {
        ca: Some(tls.path("ca.crt")),
        cert: Some(tls.path("client.crt")),
        key: Some(tls.path("client.key")),
        ..Access::to(&[&etcd.endpoint()])
    }
}

#[tokio::test]
async fn whoever_shows_the_right_certificate_is_let_in_by_every_line() {
    let tls = Arc::new(Tls::new());
    for line in LINES {
        let etcd = Etcd::builder().line(line).client_auth(&tls).start();
        let good = access(&etcd, &tls);
        assert!(ask(&good).await.unwrap().version.starts_with(line));
        let bare = etcd.endpoint().replace("https://", "");
        assert!(ask(&Access { endpoints: vec![bare], ..good.clone() }).await.is_ok(), "{line}");
        let name = etcd.endpoint().replace("127.0.0.1", "localhost");
        assert!(ask(&Access { endpoints: vec![name], ..good.clone() }).await.is_ok(), "{line}");

        let none = Access { cert: None, key: None, ..good.clone() };
        let error = ask(&none).await.unwrap_err();
        assert_eq!(error.kind(), Kind::CertificateMissing, "{line}: {}", told(&error));

        let plain = etcd.endpoint().replace("https://", "http://");
        let error = ask(&Access { endpoints: vec![plain], ..good.clone() }).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NotGrpc, "{line}: {}", told(&error));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_told_with_what_to_do() {
    let tls = Arc::new(Tls::new());
    let etcd = Etcd::builder().client_auth(&tls).start();
    let good = access(&etcd, &tls);
    let other = Tls::new();
    let made = Made::new();
    let own = |(cert, key): (PathBuf, PathBuf), access: &Access| Access {
        cert: Some(cert),
        key: Some(key),
        ..access.clone()
    };
    let foreign = (other.path("client.crt"), other.path("client.key"));
    for (access, kind, hint) in [
        (Access { ca: Some(other.path("ca.crt")), ..good.clone() }, Kind::Untrusted, "--cacert"),
        (Access { ca: None, ..good.clone() }, Kind::Untrusted, "--cacert"),
        (own(foreign, &good), Kind::CertificateRejected, "--trusted-ca-file"),
    ] {
        let error = ask(&access).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{}", told(&error));
        assert!(error.hints()[0].contains(hint), "{:?}", error.hints());
    }

    // An authority of our own, because certificates of the past are needed.
    let etcd = made.etcd("good", |_| {});
    let good = made.access(&etcd);
    assert!(ask(&good).await.is_ok());
    let expired = made.pair("expired", expire);
    let error = ask(&own(expired, &good)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::CertificateExpired, "{}", told(&error));
    let server = made.pair("for-servers", |leaf| {
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let error = ask(&own(server, &good)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::CertificateRejected, "{}", told(&error));
}

#[tokio::test]
async fn what_is_wrong_with_the_members_own_certificate_is_told() {
    let made = Made::new();
    let etcd = made.etcd("old", expire);
    let error = ask(&made.access(&etcd)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::ServerExpired, "{}", told(&error));
    let etcd = made.etcd("elsewhere", |leaf| {
        leaf.subject_alt_names =
            CertificateParams::new(vec!["etcd.example".to_owned()]).unwrap().subject_alt_names;
    });
    let error = ask(&made.access(&etcd)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::ServerName, "{}", told(&error));
}

#[tokio::test]
async fn who_is_not_there_or_speaks_no_tls_is_told_apart() {
    let etcd = Etcd::start();
    let tls = Tls::new();
    let https = etcd.endpoint().replace("http://", "https://");
    let secure = Access { endpoints: vec![https], ..access(&etcd, &tls) };
    let error = ask(&secure).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotTls, "{}", told(&error));

    let port = crate::support::peers::port();
    let error = ask(&Access::to(&[&format!("http://127.0.0.1:{port}")])).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused, "{}", told(&error));
    let error = ask(&Access::to(&["http://no-such-host.invalid:2379"])).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Name, "{}", told(&error));

    // Somebody who takes the connection and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", silent.local_addr().unwrap());
    let patience = std::time::Duration::from_millis(300);
    let mute = Access { endpoints: vec![endpoint], dial_timeout: patience, ..access(&etcd, &tls) };
    let error = ask(&mute).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Slow(patience), "{}", told(&error));

    // A web server: what it says in its own protocol may come too late to be read.
    let web = crate::support::peers::s3::Versitygw::start();
    let error = ask(&Access::to(&[web.endpoint()])).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::NotGrpc | Kind::Lost), "{}", told(&error));
}

fn expire(leaf: &mut CertificateParams) {
    leaf.not_before = rcgen::date_time_ymd(2020, 1, 1);
    leaf.not_after = rcgen::date_time_ymd(2021, 1, 1);
}

/// An authority that signs whatever is asked.
struct Made {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(vec![]).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = authority.self_signed(&key).unwrap().pem();
        std::fs::write(folder.path().join("ca.crt"), pem).unwrap();
        Self { folder, issuer: Issuer::new(authority, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pair(&self, name: &str, change: impl Fn(&mut CertificateParams)) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut leaf = CertificateParams::new(names).unwrap();
        leaf.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut leaf);
        let pem = leaf.signed_by(&key, &self.issuer).unwrap().pem();
        let (cert, private) =
            (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        std::fs::write(&cert, pem).unwrap();
        std::fs::write(&private, key.serialize_pem()).unwrap();
        (cert, private)
    }

    /// A member whose certificate is changed like this.
    fn etcd(&self, name: &str, change: impl Fn(&mut CertificateParams)) -> Etcd {
        let tls = Tls::new();
        let (cert, key) = self.pair(name, change);
        std::fs::copy(cert, tls.path("server.crt")).unwrap();
        std::fs::copy(key, tls.path("server.key")).unwrap();
        std::fs::copy(self.path("ca.crt"), tls.path("ca.crt")).unwrap();
        Etcd::builder().client_auth(&Arc::new(tls)).start()
    }

    fn access(&self, etcd: &Etcd) -> Access {
        let (cert, key) = self.pair("client", |_| {});
        Access {
            ca: Some(self.path("ca.crt")),
            cert: Some(cert),
            key: Some(key),
            ..Access::to(&[&etcd.endpoint()])
        }
    }
}
