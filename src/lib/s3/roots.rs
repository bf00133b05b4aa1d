//! Whom the S3 client believes: the bundled roots, the system's, and the user's own.
//!
//! A static binary may find no roots on its machine, hence the bundle. The SDK's HTTP client
//! takes roots as PEM text and stops the program at text it cannot read, so that everything is
//! looked at here first.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use aws_smithy_http_client::tls::{TlsContext, TrustStore};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::{Error, Kind};
use crate::disk;

/// The longest file of certificates that is read, in bytes; a system's own has 250 000.
const LONGEST: u64 = 16 << 20;

/// Trust in the usual roots and those of `ca_file`.
///
/// # Errors
/// [`Kind::Setting`] if `ca_file` cannot be read or holds no usable certificate.
pub fn context(ca_file: Option<&Path>) -> Result<TlsContext, Error> {
    let mut pem = usual().to_owned();
    if let Some(path) = ca_file {
        pem.push_str(&own(path)?);
    }
    let store = TrustStore::empty().with_pem_certificate(pem);
    TlsContext::builder()
        .with_trust_store(store)
        .build()
        .map_err(|error| Error::new("set up TLS", "", Kind::Bug).with_source(error))
}

/// The bundled and the system's roots, as PEM, read once a process.
fn usual() -> &'static str {
    static ROOTS: OnceLock<String> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let system = rustls_native_certs::load_native_certs().certs;
        let all = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().chain(&system);
        let mut pem = String::new();
        for certificate in all {
            // A system's odd root is no error of ours.
            if RootCertStore::empty().add(certificate.clone()).is_ok() {
                push_pem(&mut pem, certificate);
            }
        }
        pem
    })
}

fn own(path: &Path) -> Result<String, Error> {
    let refuse = |why: &str| {
        Error::new("use", format!("CA file {}", path.display()), Kind::Setting).with_message(why)
    };
    let bytes = disk::read(path, LONGEST);
    let bytes = bytes.map_err(|error| refuse("it cannot be read").with_source(error))?;
    let mut pem = String::new();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|_| refuse("it is no valid PEM"))?;
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| refuse("a certificate in it is not usable").with_source(error))?;
        push_pem(&mut pem, &certificate);
    }
    if pem.is_empty() {
        return Err(refuse("it holds no certificate (PEM, \"BEGIN CERTIFICATE\")"));
    }
    Ok(pem)
}

fn push_pem(pem: &mut String, certificate: &CertificateDer<'_>) {
    let _ = write!(
        pem,
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        STANDARD.encode(certificate)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_ca_file_must_hold_a_certificate() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, why) in [
            ("", "holds no certificate"),
            ("hello", "holds no certificate"),
            (broken, "not usable"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "no valid PEM"),
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let error = context(Some(file.path())).unwrap_err();
            assert!(error.to_string().contains(why), "{text:?}: {error}");
        }
        let error = context(Some(Path::new("/nowhere/ca.pem"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    }

    #[test]
    fn there_are_roots_without_a_file() {
        assert!(usual().matches("BEGIN").count() > 50);
        assert!(context(None).is_ok());
    }
}
