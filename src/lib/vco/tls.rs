//! TLS for every client of ours: ring, the bundled roots joined with the system's and the
//! user's own.
//!
//! A static binary may find no roots on its machine, and a company's machine may hold an
//! authority that the bundle does not know: hence both (ADR 3: ring is the only provider).

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::error::{Error, Kind};

/// The longest file of certificates that is read, in bytes; a system's own has 250 000.
const LONGEST: u64 = 16 << 20;

/// How a client trusts and speaks TLS: HTTP/2 and HTTP/1.1, TLS 1.2 and 1.3.
///
/// # Errors
/// [`Kind::Setting`] if `ca_file` cannot be read or holds no certificate.
pub fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, Error> {
    let roots = match ca_file {
        None => shared_roots(),
        Some(path) => Arc::new(with_file((*shared_roots()).clone(), path, &pem(path)?)?),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new("set up TLS", "", Kind::Bug).with_source(error))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The bundled and the system's roots, read once a process.
fn shared_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS
        .get_or_init(|| {
            let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            // A machine without roots of its own, or with odd ones, is no error: see above.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        })
        .clone()
}

/// The file's bytes. A pipe, such as `<(cat a.pem b.pem)`, gives them only once, and several
/// clients want them: they are kept.
fn pem(path: &Path) -> Result<Arc<Vec<u8>>, Error> {
    static PIPES: Mutex<BTreeMap<PathBuf, Arc<Vec<u8>>>> = Mutex::new(BTreeMap::new());
    let failed = |error| refuse(path, "it cannot be read").with_source(error);
    let read = || -> Result<_, std::io::Error> {
        let mut pem = Vec::new();
        std::fs::File::open(path)?.take(LONGEST).read_to_end(&mut pem)?;
        Ok(Arc::new(pem))
    };
    if std::fs::metadata(path).map_err(failed)?.is_file() {
        return read().map_err(failed);
    }
    let mut pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pem) = pipes.get(path) {
        return Ok(pem.clone());
    }
    let pem = read().map_err(failed)?;
    pipes.insert(path.to_owned(), pem.clone());
    Ok(pem)
}

fn refuse(path: &Path, why: &str) -> Error {
    Error::new("use", format!("CA file {}", path.display()), Kind::Setting).with_message(why)
}

fn with_file(mut roots: RootCertStore, path: &Path, pem: &[u8]) -> Result<RootCertStore, Error> {
    let refuse = |why: &str| refuse(path, why);
    let mut count = 0_usize;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| refuse("it is no valid PEM"))?;
        roots
            .add(certificate)
            .map_err(|error| refuse("a certificate in it is not usable").with_source(error))?;
        count += 1;
    }
    if count == 0 {
        return Err(refuse("it holds no certificate (PEM, \"BEGIN CERTIFICATE\")"));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_ca_file_must_hold_a_certificate() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, why) in [
            ("", "holds no certificate"),
            ("hello", "holds no certificate"),
            (broken, "not usable"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "no valid PEM"),
        ] {
            let error = client_config(Some(file(text).path())).unwrap_err();
            assert!(error.to_string().contains(why), "{text:?}: {error}");
        }
        let error = client_config(Some(Path::new("/nowhere/ca.pem"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    }

    #[test]
    fn a_certificate_of_ones_own_joins_the_others() {
        let own = rcgen::generate_simple_self_signed(vec!["portal.test".to_owned()]).unwrap();
        let (path, pem) = (Path::new("own.pem"), own.cert.pem());
        let roots = with_file(RootCertStore::empty(), path, pem.as_bytes()).unwrap();
        assert_eq!(roots.len(), 1);
        assert!(client_config(None).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_of_certificates_serves_every_client() {
        use std::os::fd::AsRawFd as _;
        let own = rcgen::generate_simple_self_signed(vec!["portal.test".to_owned()]).unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(own.cert.pem().as_bytes()).unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        assert!(client_config(Some(&path)).is_ok());
        assert!(client_config(Some(&path)).is_ok(), "read a second time, the pipe is empty");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        let error = client_config(Some(Path::new("/dev/zero"))).unwrap_err();
        assert!(error.to_string().contains("holds no certificate"), "{error}");
    }
}
