//! Asking for a passphrase, which only the door can do.

use secrecy::{ExposeSecret as _, SecretString};

/// Knows how to ask a person, or a file, for a passphrase.
pub trait AskPassphrase {
    /// The passphrase of `what` (`identity file k.txt`), asked for once.
    ///
    /// # Errors
    /// Why there is none, as a sentence, such as `a passphrase is needed, and there is no terminal
    /// to ask on`.
    fn ask(&self, what: &str) -> Result<SecretString, String>;
}

/// Has a passphrase already, from a file or a variable.
#[derive(Debug)]
pub struct Given(pub SecretString);

impl AskPassphrase for Given {
    fn ask(&self, _what: &str) -> Result<SecretString, String> {
        match self.0.expose_secret() {
            "" => Err("the passphrase given is empty".to_owned()),
            text => Ok(text.into()),
        }
    }
}

/// Never has one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl AskPassphrase for Nobody {
    fn ask(&self, _what: &str) -> Result<SecretString, String> {
        Err("a passphrase is needed, and none was given".to_owned())
    }
}
