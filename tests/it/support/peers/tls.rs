//! An authority of a test's own, with one certificate for servers and one for clients.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// PEM files: `ca.crt`, `server.crt`, `server.key`, `client.crt`, `client.key`.
#[derive(Debug)]
pub struct Tls {
    folder: TempDir,
}

impl Tls {
    /// Makes them for `127.0.0.1` and `localhost`.
    pub fn new() -> Self {
        Self::with_client(named("client"))
    }

    /// The same, with a client that Kubernetes takes for a user of a group.
    pub fn with_user(name: &str, group: &str) -> Self {
        let mut user = named(name);
        user.distinguished_name.push(DnType::OrganizationName, group);
        Self::with_client(user)
    }

    fn with_client(client: CertificateParams) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut authority = named("test-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        write(folder.path(), "ca.crt", &authority.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(authority, key);

        // etcd's own gateway shows the server's certificate as a client.
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let server = named("server");
        for (name, mut leaf, usages) in
            [("server", server, &both[..]), ("client", client, &both[1..])]
        {
            let key = KeyPair::generate().unwrap();
            leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            leaf.extended_key_usages = usages.to_vec();
            leaf.use_authority_key_identifier_extension = true;
            let leaf = leaf.signed_by(&key, &issuer).unwrap();
            write(folder.path(), &format!("{name}.crt"), &leaf.pem());
            write(folder.path(), &format!("{name}.key"), &key.serialize_pem());
        }
        Self { folder }
    }

    /// Where all of them are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a file of these is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().expect("temporary folders have plain names").to_owned()
    }

    /// A file's text.
    pub fn pem(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

fn named(name: &str) -> CertificateParams {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}
