//! Public keys that backups are encrypted to.

use age::x25519::Recipient;

use crate::snapshot::error::{Error, KeyFault, Place};
use crate::snapshot::identity_file::{Sort, lines, no_recipient};

/// Whom a backup is encrypted to: X25519 keys, each once, in the order given.
#[derive(Debug, Clone, Default)]
pub struct Recipients {
    keys: Vec<Recipient>,
    texts: Vec<String>,
}

impl Recipients {
    /// Keys given one by one; `name` (`--recipient`) is for errors.
    ///
    /// # Errors
    /// [`Error::Key`]: not a key that this build can encrypt to and decrypt again, each kind
    /// with its own message.
    pub fn parse<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
        name: &str,
    ) -> Result<Self, Error> {
        let mut all = Self::default();
        for text in texts {
            all.add(text.as_ref().trim(), Place::whole(name))?;
        }
        Ok(all)
    }

    /// The keys of a recipients file, and remarks for the user; `name` is for sentences
    /// (`recipients file r.txt`).
    ///
    /// # Errors
    /// [`Error::Key`] with the line's number; a file without a key is one.
    pub fn from_file(bytes: &[u8], name: &str) -> Result<(Self, Vec<String>), Error> {
        let found = lines(bytes, name, Sort::Recipients)?;
        let mut all = Self::default();
        for (number, line) in found.lines {
            all.add(line, Place::line(name, number))?;
        }
        if all.is_empty() {
            return Err(Error::key(Place::whole(name), KeyFault::Empty("recipient")));
        }
        Ok((all, found.remarks))
    }

    fn add(&mut self, text: &str, place: Place) -> Result<(), Error> {
        let key: Recipient = text.parse().map_err(|_| Error::key(place, no_recipient(text)))?;
        self.push(key);
        Ok(())
    }

    fn push(&mut self, key: Recipient) {
        if !self.keys.contains(&key) {
            self.texts.push(key.to_string());
            self.keys.push(key);
        }
    }

    /// Adds others that are not among these yet.
    pub fn extend(&mut self, more: Self) {
        for key in more.keys {
            self.push(key);
        }
    }

    /// How many different ones there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Each as `age1…`.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &dyn age::Recipient> {
        self.keys.iter().map(|key| key as &dyn age::Recipient)
    }
}
