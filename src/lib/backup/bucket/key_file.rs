//! A key in a file that a timer, a pod and a shell can read as their environment.

use std::fmt::Write as _;
use std::io::{Error as Io, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};

use crate::backup::Error;
use crate::vco::BucketKey;

/// What stands for an address of S3 that nothing tells yet.
const MISSING: &str = "\
# S3's address is missing here: `bucket create` adds it when it is run again with --s3-endpoint.
#CAPVCO_BACKUP_S3_ENDPOINT";

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is new.
    New,
    /// It said the same already.
    Same,
    /// The same key, and other words around it.
    Renewed,
}

/// The file's text.
///
/// # Errors
/// A key with characters that such a file cannot hold.
pub fn text(
    key: &BucketKey,
    bucket: &str,
    prefix: &str,
    endpoint: Option<&str>,
) -> Result<SecretString, Error> {
    let secret = key.secret.expose_secret();
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() && !"'\"\\$`#".contains(c));
    if !plain(secret) || !plain(&key.access_key) {
        return Err(Error::failed(
            format!("the key {} has characters that no env file can hold", key.name),
            "delete it on the portal and run this again: a new one is made",
        ));
    }
    let mut text = format!("# Key {} of the bucket {bucket}.\n", key.name);
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}={value}");
    };
    line("AWS_ACCESS_KEY_ID", &key.access_key);
    line("AWS_SECRET_ACCESS_KEY", secret);
    match endpoint {
        Some(endpoint) => line("CAPVCO_BACKUP_S3_ENDPOINT", endpoint),
        None => line(MISSING, ""),
    }
    line("CAPVCO_BACKUP_S3_BUCKET", bucket);
    line("CAPVCO_BACKUP_S3_PREFIX", prefix);
    Ok(text.into())
}

/// Writes it, readable for its owner only. A file of another key is left alone.
pub fn write(path: &Path, text: &SecretString) -> Result<Written, Error> {
    let failed = |error| Error::file("write", path, error);
    match std::fs::read_to_string(path) {
        Ok(there) if there == text.expose_secret() => return Ok(Written::Same),
        Ok(there) if id(&there) == id(text.expose_secret()) => {
            let aside = path.with_extension("new");
            let _ = std::fs::remove_file(&aside);
            create(&aside, text).map_err(failed)?;
            std::fs::rename(&aside, path).map_err(failed)?;
            return Ok(Written::Renewed);
        }
        Ok(_) => {
            return Err(Error::declined(
                format!("{} holds another key", path.display()),
                "move it away and run this again",
            ));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    create(path, text).map_err(failed)?;
    Ok(Written::New)
}

fn create(path: &Path, text: &SecretString) -> Result<(), Io> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.expose_secret().as_bytes())?;
    file.sync_all()
}

fn id(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("AWS_ACCESS_KEY_ID="))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::vco::Access;

    fn key(id: &str, secret: &str) -> BucketKey {
        BucketKey {
            name: "etcd-rw".to_owned(),
            access: Some(Access::ReadWrite),
            access_key: id.to_owned(),
            secret: secret.to_owned().into(),
        }
    }

    #[test]
    fn a_key_file_is_an_environment_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rw.env");
        let first = text(&key("AK", "s/+="), "b", "etcd/", Some("http://a:1")).unwrap();
        assert_eq!(write(&path, &first).unwrap(), Written::New);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let there = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            there,
            "# Key etcd-rw of the bucket b.\nAWS_ACCESS_KEY_ID=AK\nAWS_SECRET_ACCESS_KEY=s/+=\n\
             CAPVCO_BACKUP_S3_ENDPOINT=http://a:1\nCAPVCO_BACKUP_S3_BUCKET=b\n\
             CAPVCO_BACKUP_S3_PREFIX=etcd/\n"
        );
        assert_eq!(write(&path, &first).unwrap(), Written::Same);
        let moved = text(&key("AK", "s/+="), "b", "etcd/", None).unwrap();
        let lines: Vec<&str> = moved.expose_secret().lines().collect();
        assert!(lines[3].starts_with('#') && lines[3].contains("--s3-endpoint"), "{lines:?}");
        assert_eq!(lines[4], "#CAPVCO_BACKUP_S3_ENDPOINT=");
        assert_eq!(write(&path, &moved).unwrap(), Written::Renewed);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = text(&key("OTHER", "x"), "b", "etcd/", None).unwrap();
        let error = write(&path, &other).unwrap_err().to_string();
        assert!(error.contains("another key"), "{error}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("=AK\n"));
    }

    #[test]
    fn a_key_that_a_shell_would_misread_is_refused_and_not_shown() {
        for secret in ["a b", "a$HOME", "a\nb", "a'b", ""] {
            let made = text(&key("AK", secret), "b", "", None);
            assert_eq!(made.is_err(), !secret.is_empty(), "{secret:?}");
            if let Err(error) = made {
                assert!(!error.to_string().contains(secret), "{error}");
            }
        }
    }
}
