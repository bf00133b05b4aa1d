//! When certificates expire: kubeadm's last one year, and a backup that fails on that day is
//! noticed on the day after.

use std::path::Path;

use x509_cert::Certificate;

use super::Error;
use crate::disk;

/// The largest file of certificates that is read.
const LARGEST: u64 = 1 << 20;

/// A certificate of a PEM file, as far as its time goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    /// Whom it is for: the common name, or the whole subject.
    pub subject: String,
    /// From when, in seconds since 1970.
    pub not_before: u64,
    /// Until when, in seconds since 1970.
    pub not_after: u64,
}

impl Validity {
    /// Whole days left at `now` (seconds since 1970); negative once it has expired.
    #[must_use]
    pub fn days_left(&self, now: u64) -> i64 {
        let left = i128::from(self.not_after) - i128::from(now);
        i64::try_from(left.div_euclid(86_400)).unwrap_or(i64::MAX)
    }
}

/// The certificates in a PEM file, in its order; at least one.
pub fn read(path: &Path) -> Result<Vec<Validity>, Error> {
    let text = disk::read(path, LARGEST).map_err(|error| Error::file("read", path, error))?;
    let bad = |what: &str| {
        Error::declined(
            format!("{} {what}", path.display()),
            "this is to be a file of certificates in PEM form",
        )
    };
    let chain = Certificate::load_pem_chain(&text)
        .map_err(|error| bad(&format!("holds no readable certificate ({error})")))?;
    if chain.is_empty() {
        return Err(bad("holds no certificate"));
    }
    Ok(chain.iter().map(validity).collect())
}

fn validity(certificate: &Certificate) -> Validity {
    let body = certificate.tbs_certificate();
    let name = body.subject().common_name().ok().flatten();
    Validity {
        subject: name.map_or_else(|| body.subject().to_string(), |name| name.value().to_string()),
        not_before: body.validity().not_before.to_unix_duration().as_secs(),
        not_after: body.validity().not_after.to_unix_duration().as_secs(),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn certificate() -> String {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["cp-1".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "healthcheck-client");
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn a_certificate_says_how_long_it_is_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.crt");
        std::fs::write(&path, certificate().repeat(2)).unwrap();
        let found = read(&path).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].subject, "healthcheck-client");
        assert_eq!(found[0].not_after, 1_798_761_600);
        for (now, days) in [
            (found[0].not_after - 86_400 * 30, 30),
            (found[0].not_after - 1, 0),
            (found[0].not_after + 1, -1),
            (found[0].not_after + 86_401, -2),
        ] {
            assert_eq!(found[0].days_left(now), days);
        }
    }

    #[test]
    fn what_is_no_certificate_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.crt");
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("b.crt"), "{text:?}: {error}");
        }
        assert!(matches!(read(&folder.path().join("no")), Err(Error::File { .. })));
    }
}
