//! Settings as lines for a shell: on stdout, and in a file that only its owner can read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use capvco::cli::Session;
use capvco::fault::{Class, Fault};

/// The settings could not be handed over.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of `--env-file`.
    #[error("cannot write {}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Standard output.
    #[error("cannot write the settings to stdout")]
    Stdout(#[source] io::Error),
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Self::File { .. } => Class::Usage,
            Self::Stdout(_) => Class::Bug,
        }
    }
}

/// Hands the settings over: first to the file, so that it is there when stdout has been read.
pub fn hand_over(
    session: &Session,
    settings: &[(&str, &str)],
    file: Option<&Path>,
) -> Result<(), Error> {
    let text: String = settings.iter().map(|(name, value)| line(name, value)).collect();
    if let Some(path) = file {
        write(path, &text).map_err(|source| Error::File { path: path.to_owned(), source })?;
    }
    session.put(&text).map_err(Error::Stdout)
}

/// Puts a new file, readable by its owner only, in the place of what was there.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn line(name: &str, value: &str) -> String {
    format!("export {name}={}\n", quoted(value))
}

/// The value as a shell reads it back.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_a_shell() {
        for (value, want) in [
            ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
        ] {
            assert_eq!(quoted(value), want);
        }
    }

    #[test]
    fn the_file_is_its_owners_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        std::fs::write(&path, "old").unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(write(&dir.path().join("none/env"), "").is_err());
    }
}
