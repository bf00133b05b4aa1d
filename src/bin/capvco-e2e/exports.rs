//! Settings as lines for a shell: on stdout, and in a file that only its owner can read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use capvco::cli::Session;
use capvco::fault::{Class, Fault};
use capvco::report::shell_word;

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

/// The file of `--env-file`, which is there only while it leads to something.
#[derive(Debug)]
pub struct EnvFile {
    path: Option<PathBuf>,
    text: String,
}

impl EnvFile {
    /// Removes what an earlier run left there, so that nobody reads it for this run's.
    pub fn awaited(path: Option<&Path>) -> Self {
        if let Some(path) = path.filter(|path| is_file(path)) {
            // If it cannot be removed, it cannot be replaced either, which is said then.
            let _ = std::fs::remove_file(path);
        }
        Self { path: path.map(Path::to_owned), text: String::new() }
    }

    /// Hands the settings over: first to the file, so that it is there when stdout has been read.
    pub fn hand_over(&mut self, session: &Session, settings: &[(&str, &str)]) -> Result<(), Error> {
        self.text = settings.iter().map(|(name, value)| line(name, value)).collect();
        if let Some(path) = &self.path {
            let written = write(path, &self.text);
            written.map_err(|source| Error::File { path: path.clone(), source })?;
        }
        session.put(&self.text).map_err(Error::Stdout)
    }
}

impl Drop for EnvFile {
    fn drop(&mut self) {
        let Some(path) = self.path.as_deref().filter(|path| is_file(path)) else { return };
        // Another program may have put its own there since.
        if std::fs::read_to_string(path).is_ok_and(|text| text == self.text) {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
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
    format!("export {name}={}\n", shell_word(value))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_file_is_there_only_while_it_leads_somewhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        for (kept, after) in [("ours", None), ("another's", Some("another's"))] {
            std::fs::write(&path, "stale").unwrap();
            let mut file = EnvFile::awaited(Some(&path));
            assert!(!path.exists(), "what is stale goes first");
            file.text = "ours".into();
            std::fs::write(&path, kept).unwrap();
            drop(file);
            assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), after);
        }
        drop(EnvFile::awaited(Some(dir.path())));
        assert!(dir.path().is_dir(), "only files are removed");
    }
}
