//! Secret keys, read from files by the whole of age's grammar.

use std::fmt;
use std::io::Read as _;

use age::secrecy::SecretString;
use age::x25519::Identity;
use age::{DecryptError, Decryptor};
use secrecy::{ExposeSecret as _, ExposeSecretMut as _, SecretBox};

use super::buffered;
use crate::snapshot::error::{Error, KeyFault, Place};
use crate::snapshot::identity_file::{LARGEST, Sort, lines, no_identity};
use crate::snapshot::kind::Kind;
use crate::snapshot::passphrase::AskPassphrase;

/// The most scrypt work that is done for an identity file, as a power of two; Go's age allows
/// as much (`scrypt.go`, `maxWorkFactor`), and writes 18.
const MOST_WORK: u8 = 22;

/// Secret keys that open backups. Never printed: `Debug` shows the public halves.
#[derive(Clone, Default)]
pub struct Identities {
    keys: Vec<Identity>,
    public: Vec<String>,
}

impl Identities {
    /// Reads an identity file's bytes: age's text form, or the same encrypted with a passphrase,
    /// which is asked for at once. `name` is for sentences (`identity file k.txt`). Also gives
    /// remarks for the user: what was trimmed.
    ///
    /// # Errors
    /// [`Error::Key`], with the line's number and never the line.
    pub fn read(
        bytes: &[u8],
        name: &str,
        ask: &dyn AskPassphrase,
    ) -> Result<(Self, Vec<String>), Error> {
        match Kind::of(bytes) {
            Kind::Age | Kind::ArmoredAge => {
                let clear = decrypt(bytes, name, ask)?;
                Self::read_clear(clear.expose_secret(), &format!("{name}, decrypted"))
            }
            _ => Self::read_clear(bytes, name),
        }
    }

    fn read_clear(bytes: &[u8], name: &str) -> Result<(Self, Vec<String>), Error> {
        let found = lines(bytes, name, Sort::Identities)?;
        let mut all = Self::default();
        for (number, line) in found.lines {
            let key: Identity = line
                .parse()
                .map_err(|_| Error::key(Place::line(name, number), no_identity(line)))?;
            all.push(key);
        }
        if all.is_empty() {
            return Err(Error::key(Place::whole(name), KeyFault::Empty("identity")));
        }
        Ok((all, found.remarks))
    }

    /// A fresh key, for a proof of what a backup to it would be.
    #[must_use]
    pub fn generate() -> Self {
        let mut one = Self::default();
        one.push(Identity::generate());
        one
    }

    fn push(&mut self, key: Identity) {
        let public = key.to_public().to_string();
        // The same key in two files is one key.
        if !self.public.contains(&public) {
            self.keys.push(key);
            self.public.push(public);
        }
    }

    /// Adds another file's keys, to be tried after these.
    pub fn extend(&mut self, more: Self) {
        for key in more.keys {
            self.push(key);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The recipients that these keys are the secret halves of.
    #[must_use]
    pub fn public(&self) -> &[String] {
        &self.public
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &dyn age::Identity> {
        self.keys.iter().map(|key| key as &dyn age::Identity)
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identities").field(&self.public).finish()
    }
}

/// Decrypts an identity file that is encrypted with a passphrase.
fn decrypt(bytes: &[u8], name: &str, ask: &dyn AskPassphrase) -> Result<SecretBox<Vec<u8>>, Error> {
    let refuse = |fault| Error::key(Place::whole(name), fault);
    let damaged = || refuse(KeyFault::Damaged);
    let armored = Kind::of(bytes) == Kind::ArmoredAge;
    let input = buffered(std::io::Cursor::new(bytes.to_vec()), armored);
    let decryptor = Decryptor::new_buffered(input).map_err(|_| damaged())?;
    if !decryptor.is_scrypt() {
        return Err(refuse(KeyFault::NotByPassphrase));
    }
    let passphrase = ask.ask(name).map_err(|why| refuse(KeyFault::NoPassphrase(why)))?;
    let mut key = age::scrypt::Identity::new(SecretString::from(passphrase.expose_secret()));
    key.set_max_work_factor(MOST_WORK);
    let opened = decryptor.decrypt(std::iter::once(&key as &dyn age::Identity));
    let stream = opened.map_err(|error| refuse(passphrase_fault(&error)))?;
    let mut clear = SecretBox::new(Box::new(Vec::new()));
    let into = clear.expose_secret_mut();
    stream.take(LARGEST + 1).read_to_end(into).map_err(|_| damaged())?;
    Ok(clear)
}

fn passphrase_fault(error: &DecryptError) -> KeyFault {
    match error {
        DecryptError::ExcessiveWork { required, .. } => {
            KeyFault::TooMuchWork { required: *required, most: MOST_WORK }
        }
        DecryptError::DecryptionFailed
        | DecryptError::KeyDecryptionFailed
        | DecryptError::NoMatchingKeys => KeyFault::WrongPassphrase,
        _ => KeyFault::Damaged,
    }
}
