//! A key in a file that a timer, a pod and a shell can read as their environment.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};

use crate::backup::Error;
use crate::disk::{Draft, may_be_replaced, read_file};
use crate::vco::BucketKey;

/// What stands for an address of S3 that nothing tells yet.
const MISSING: &str = "\
# S3's address is missing here: `bucket create` adds it when it is run again with --s3-endpoint.
#CAPVCO_BACKUP_S3_ENDPOINT";

/// More than any such file has.
const LONGEST: u64 = 64 << 10;

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
    may_be_replaced(path).map_err(failed)?;
    match there(path) {
        Ok(there) if there == text.expose_secret() => return Ok(Written::Same),
        Ok(there) if id(&there) == id(text.expose_secret()) => {
            draft(path, text).and_then(Draft::replace).map_err(failed)?;
            return Ok(Written::Renewed);
        }
        Ok(_) => {
            return Err(Error::declined(
                format!("{} holds another key", path.display()),
                "move it away and run this again",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    draft(path, text).and_then(Draft::place).map_err(failed)?;
    Ok(Written::New)
}

fn there(path: &Path) -> io::Result<String> {
    String::from_utf8(read_file(path, LONGEST)?).map_err(io::Error::other)
}

fn draft(path: &Path, text: &SecretString) -> io::Result<Draft> {
    let mut draft = Draft::create(path)?;
    draft.write_all(text.expose_secret().as_bytes())?;
    Ok(draft)
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
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside");
    }

    #[test]
    fn what_is_no_regular_file_is_neither_read_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let text = text(&key("AK", "s"), "b", "", None).unwrap();
        for to in ["/dev/zero", "/no/such"] {
            let path = folder.path().join("rw.env");
            std::os::unix::fs::symlink(to, &path).unwrap();
            let error = crate::fault::chain(&write(&path, &text).unwrap_err());
            assert!(error.contains("a symbolic link is there"), "{error}");
            assert_eq!(std::fs::read_link(&path).unwrap(), Path::new(to));
            std::fs::remove_file(&path).unwrap();
        }
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
