//! Certificates for one drill: an authority that nobody else knows, made and thrown away with it.
//!
//! The throw-away etcd serves every Secret of the cluster on a port of this machine. Only who has
//! the key below may ask it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::backup::Error;
use crate::disk;

/// The files, in a folder that is its owner's alone.
#[derive(Debug, Clone)]
pub struct Files {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// A certificate for the server and for its client.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Makes them in `folder`.
///
/// # Errors
/// There is no randomness, or the disk fails.
pub fn make(folder: &Path) -> Result<Files, Error> {
    let (ca, cert, key) = pems().map_err(|error| {
        Error::failed(format!("certificates for the drill cannot be made: {error}"), "")
    })?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let written = disk::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map(|()| path.clone()).map_err(|error| Error::file("write", &path, error))
    };
    Ok(Files {
        ca: write("ca.crt", &ca)?,
        cert: write("etcd.crt", &cert)?,
        key: write("etcd.key", &key)?,
    })
}

fn pems() -> Result<(String, String, String), rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = named("capvco-backup drill", &[])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let ca = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let mut leaf = named("drill", &["localhost", "127.0.0.1"])?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let cert = leaf.signed_by(&key, &issuer)?.pem();
    Ok((ca, cert, key.serialize_pem()))
}

fn named(name: &str, hosts: &[&str]) -> Result<CertificateParams, rcgen::Error> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
