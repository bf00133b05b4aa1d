//! A passphrase: from a file, from the environment, or typed without echo.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;

use super::env;
use crate::disk;
use crate::fault::{Class, Fault};

/// The longest passphrase that is read, in bytes.
const LONGEST: u64 = 1 << 16;

/// Why there is no passphrase.
#[derive(Debug, thiserror::Error)]
pub enum NoPassphrase {
    /// Nobody is there to type it.
    #[error("{0} needs a passphrase, and there is no terminal to ask on")]
    NobodyThere(String),
    /// It is there and empty.
    #[error("the passphrase for {0} is empty")]
    Empty(String),
    /// Its file cannot be read.
    #[error("cannot read the passphrase file {}", .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// The terminal failed.
    #[error("cannot ask for the passphrase of {0}")]
    Terminal(String, #[source] std::io::Error),
}

impl Fault for NoPassphrase {
    fn class(&self) -> Class {
        Class::Usage
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NobodyThere(_) => {
                vec![format!("say --passphrase-file FILE, or set {}", env::BACKUP_PASSPHRASE)]
            }
            _ => Vec::new(),
        }
    }
}

/// The passphrase for `what`: the file's first line if there is a file, else the variable
/// `CAPVCO_BACKUP_PASSPHRASE`, else what is typed. Blocks while it is typed.
pub fn passphrase(what: &str, file: Option<&Path>) -> Result<SecretString, NoPassphrase> {
    let found = match (file, env::text(env::BACKUP_PASSPHRASE)) {
        (Some(path), _) => from_file(path)?,
        (None, Some(text)) => Zeroizing::new(text),
        (None, None) if std::io::stderr().is_terminal() => typed(what)?,
        (None, None) => return Err(NoPassphrase::NobodyThere(what.to_owned())),
    };
    if found.is_empty() {
        return Err(NoPassphrase::Empty(what.to_owned()));
    }
    Ok(SecretString::from(found.as_str()))
}

/// The terminal that somebody types on without seeing it, and how it was before.
static HIDDEN: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Lets what is typed be seen again, where a program ends while somebody is asked: whoever waits
/// for the passphrase waits in a thread that nobody ends.
pub(super) fn unhide() {
    let hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((terminal, before)) = hidden {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
    }
}

fn remember() {
    let terminal = File::open("/dev/tty").and_then(|terminal| {
        let before = tcgetattr(&terminal)?;
        Ok((terminal, before))
    });
    // Without a terminal there is nothing to remember, and the asking itself says so.
    *HIDDEN.lock().unwrap_or_else(PoisonError::into_inner) = terminal.ok();
}

fn typed(what: &str) -> Result<Zeroizing<String>, NoPassphrase> {
    let ask = format!("passphrase for {what}: ");
    remember();
    let read = rpassword::prompt_password(ask);
    unhide();
    read.map(Zeroizing::new).map_err(|error| NoPassphrase::Terminal(what.to_owned(), error))
}

fn from_file(path: &Path) -> Result<Zeroizing<String>, NoPassphrase> {
    let unreadable = |error| NoPassphrase::Unreadable(path.to_owned(), error);
    let mut text = Zeroizing::new(String::new());
    let file = disk::open(path).map_err(unreadable)?;
    file.take(LONGEST).read_to_string(&mut text).map_err(unreadable)?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn the_first_line_of_a_file_is_the_passphrase() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        for (text, want) in [("a b\n", Some("a b")), ("a\r\nb", Some("a")), ("\n", None)] {
            std::fs::write(&path, text).unwrap();
            let found = passphrase("k.txt", Some(&path));
            let found = found.map(|secret| secret.expose_secret().to_owned());
            assert_eq!(found.ok().as_deref(), want, "{text:?}");
        }
        let error = passphrase("k.txt", Some(&folder.path().join("no"))).unwrap_err();
        assert!(error.to_string().contains("cannot read the passphrase file"), "{error}");
    }
}
