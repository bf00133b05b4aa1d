//! What the cloud knows of objectspaces, without what lies in them: that is real S3's.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An objectspace: an S3 store of a customer in a location.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Objectspace {
    /// Opaque to clients; `<location>:<number>` in URL-safe base64, as cloudspaces have it
    /// (inference). Made up if it is empty.
    pub objectspace_id: String,
    /// Its owner.
    pub customer_id: String,
    /// Where it is.
    pub location: String,
    /// Need not be unique, see [`Rules`](super::super::Rules).
    pub name: String,
    /// Where it stands.
    pub state: State,
    /// The public name under which it is published; empty if it is not.
    pub domain: String,
    /// The root keys; made up if they are empty.
    pub root: Pair,
    /// When it was made, in seconds since 1970.
    pub created: f64,
    /// When it was put into the recycle bin, in seconds since 1970.
    pub deleted: f64,
    /// It is DEPLOYING until then, on the world's clock.
    #[serde(skip)]
    pub ready: Duration,
    /// The cloudspaces it can be reached from.
    pub links: Vec<Link>,
    /// The buckets that the API knows of; S3 may know of more.
    pub buckets: Vec<Bucket>,
    /// Its notes.
    pub notes: Vec<Note>,
}

/// The states of an objectspace or a bucket (vco-api.md 10.1: not listed; the back-end's pattern).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// It works.
    #[default]
    Deployed,
    /// It lies in the recycle bin: S3 does not answer.
    Deleted,
    /// It is gone for good.
    Destroyed,
}

/// A link to a cloudspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// The cloudspace.
    pub cloudspace_id: String,
    /// The address in its private network.
    pub ip_address: String,
}

/// A key id and its secret.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pair {
    /// The key id.
    pub access_key: String,
    /// The secret; not shown by `Debug`.
    pub secret: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl Pair {
    /// A new pair that nobody can guess.
    pub(super) fn random() -> Self {
        Self { access_key: random(20, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"), secret: random(40, LETTERS) }
    }
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// So many letters and digits that nobody can guess.
pub(in crate::sim) fn random_letters(count: usize) -> String {
    random(count, LETTERS)
}

/// So many letters of an alphabet. A machine without randomness has only As, which its cloud
/// can bear.
fn random(count: usize, letters: &[u8]) -> String {
    let letter = |_| {
        let pick = getrandom::u32().unwrap_or(0) as usize % letters.len();
        char::from(letters[pick])
    };
    (0..count).map(letter).collect()
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bucket {
    /// Its name, and its id.
    pub name: String,
    /// Operations a second (vco-api.md 10.2); recorded, not enforced.
    pub limit: u64,
    /// Whether it was made with locking.
    pub locking: bool,
    /// Where it stands.
    pub state: State,
    /// When it was put into the recycle bin, in seconds since 1970.
    pub deleted: f64,
    /// The keys to it.
    pub keys: Vec<Key>,
    /// Its lifecycle rules, as S3 writes them; recorded, not carried out.
    #[serde(skip)]
    pub rules: Vec<Value>,
}

/// What a bucket may do if nobody says (vco-api.md 10.2).
pub(super) const USUAL_LIMIT: u64 = 2000;

impl Default for Bucket {
    fn default() -> Self {
        Self {
            name: String::new(),
            limit: USUAL_LIMIT,
            locking: false,
            state: State::Deployed,
            deleted: 0.0,
            keys: Vec::new(),
            rules: Vec::new(),
        }
    }
}

/// A key to a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Key {
    /// Its name, unique within the bucket.
    pub name: String,
    /// What it may do.
    pub access: Access,
    /// The key itself.
    pub pair: Pair,
}

/// What a key may do (vco-api.md 10.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// `r`.
    #[default]
    R,
    /// `w`.
    W,
    /// `rw`.
    Rw,
}

impl Access {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "w" => Self::W,
            "rw" => Self::Rw,
            _ => Self::R,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::R => "r",
            Self::W => "w",
            Self::Rw => "rw",
        }
    }
}

/// A note.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Note {
    /// Its id.
    pub id: String,
    /// Its title; need not be unique (vco-api.md 4.8).
    pub title: String,
    /// Its text.
    pub content: String,
    /// When it was made, in seconds since 1970.
    pub created: f64,
    /// When it was changed, in seconds since 1970.
    pub updated: f64,
}

impl Objectspace {
    /// Fills in what a test or a file left out; `number` makes its id.
    pub(in crate::sim) fn complete(&mut self, number: usize) {
        if self.objectspace_id.is_empty() {
            self.objectspace_id = URL_SAFE_NO_PAD.encode(format!("{}:{number}", self.location));
        }
        let pairs = self.buckets.iter_mut().flat_map(|b| &mut b.keys).map(|k| &mut k.pair);
        for pair in pairs.chain([&mut self.root]).filter(|p| p.access_key.is_empty()) {
            *pair = Pair::random();
        }
    }

    /// In the vendor's words.
    pub(super) fn status(&self, now: Duration) -> &'static str {
        match self.state {
            State::Deployed if now < self.ready => "DEPLOYING",
            State::Deployed => "DEPLOYED",
            State::Deleted => "DELETED",
            State::Destroyed => "DESTROYED",
        }
    }

    /// The bucket of this name that is not gone for good.
    #[must_use]
    pub fn bucket(&self, name: &str) -> Option<&Bucket> {
        self.buckets.iter().find(|b| b.name == name && b.state != State::Destroyed)
    }

    pub(super) fn bucket_mut(&mut self, name: &str) -> Option<&mut Bucket> {
        self.buckets.iter_mut().find(|b| b.name == name && b.state != State::Destroyed)
    }
}

impl Bucket {
    /// The key of this name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|k| k.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_filled_in() {
        let key = Key { name: "k".into(), ..Key::default() };
        let bucket = Bucket { keys: vec![key], ..Bucket::default() };
        let location = "be-mac-dc01-001".into();
        let mut space = Objectspace { location, buckets: vec![bucket], ..Objectspace::default() };
        space.complete(501);
        assert_eq!(space.objectspace_id, "YmUtbWFjLWRjMDEtMDAxOjUwMQ");
        let pair = &space.buckets[0].keys[0].pair;
        assert_eq!((pair.access_key.len(), pair.secret.len()), (20, 40));
        assert_ne!(pair, &space.root);
        assert!(!format!("{space:?}").contains(&space.root.secret));
        let before = space.clone();
        space.complete(502);
        assert_eq!(space, before);
    }
}
