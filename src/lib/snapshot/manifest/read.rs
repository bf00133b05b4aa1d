//! Reading a manifest: every field by its name, so that damage names the field.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    Compression, Content, Data, Encryption, KIND, Lock, Manifest, Pki, Raft, Rekeyed, VERSION,
};
use crate::s3::Mode;

/// The most bytes of a manifest; ours have about 2000.
pub const LARGEST: usize = 64 << 10;

/// The most texts of a list.
const MOST_TEXTS: usize = 100;

/// The longest text of a field, in characters.
const LONGEST_TEXT: usize = 4096;

/// Why some bytes are no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Larger than any manifest.
    #[error("it is larger than 64 KiB, which no manifest is")]
    TooLarge,
    /// No JSON: cut, or something else.
    #[error("it is no JSON ({0})")]
    NotJson(String),
    /// JSON of something else.
    #[error("this is no manifest of capvco-backup")]
    NotOurs,
    /// Not what it was before it was written.
    #[error("it is read back as another one")]
    Changed,
    /// Of a version that came after this program.
    #[error("version {0} is newer than this program knows ({VERSION})")]
    Newer(u64),
    /// A field that is missing or cannot be.
    #[error("{field}: {why}")]
    Field {
        /// Which, such as `data.sha256`.
        field: String,
        /// What is wrong with it.
        why: String,
    },
}

pub(super) fn manifest(bytes: &[u8]) -> Result<Manifest, Flaw> {
    if bytes.len() > LARGEST {
        return Err(Flaw::TooLarge);
    }
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| Flaw::NotJson(error.to_string()))?;
    let all = value.as_object().ok_or(Flaw::NotOurs)?;
    if all.get("kind").and_then(Value::as_str) != Some(KIND) {
        return Err(Flaw::NotOurs);
    }
    let all = Fields { path: String::new(), all };
    match all.natural("version")? {
        0 => return Err(all.flaw("version", "there is no version 0")),
        VERSION => {}
        newer => return Err(Flaw::Newer(newer)),
    }
    fields(&all)
}

fn fields(all: &Fields<'_>) -> Result<Manifest, Flaw> {
    let started = all.time("started")?;
    let finished = all.time("finished")?;
    if finished < started {
        return Err(all.flaw("finished", "it is before started"));
    }
    let raft = all.inner("raft")?;
    Ok(Manifest {
        cluster: all.parsed("cluster")?,
        member: all.parsed("member")?,
        node: all.text("node")?,
        slot: all.parsed("slot")?,
        started,
        finished,
        etcd_version: all.text("etcdVersion")?,
        storage_version: all.optional("storageVersion", Fields::text)?,
        revision: all.revision("revision")?,
        raft: Raft { index: raft.natural("index")?, term: raft.optional("term", Fields::natural)? },
        db: content(&all.inner("db")?)?,
        data: data(&all.inner("data")?)?,
        pki: all.optional("pki", |all, name| pki(&all.inner(name)?))?,
        recipients: all.texts("recipients")?,
        lock: all.optional("lock", |all, name| lock(&all.inner(name)?))?,
        tool: all.text("tool")?,
        rekeyed: all.optional("rekeyed", |all, name| rekeyed(&all.inner(name)?))?,
    })
}

fn content(fields: &Fields<'_>) -> Result<Content, Flaw> {
    let size = fields.natural("size")?;
    if size == 0 {
        return Err(fields.flaw("size", "it is not positive"));
    }
    let sha256 = fields.text("sha256")?;
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if sha256.len() != 64 || !sha256.bytes().all(hex) {
        return Err(fields.flaw("sha256", "it is no SHA-256 in lower-case hex"));
    }
    Ok(Content { size, sha256 })
}

fn data(fields: &Fields<'_>) -> Result<Data, Flaw> {
    let compression = [("none", Compression::None), ("zstd", Compression::Zstd)];
    let encryption = [("none", Encryption::None), ("age", Encryption::Age)];
    Ok(Data {
        key: fields.text("key")?,
        version_id: fields.optional("versionId", Fields::text)?,
        content: content(fields)?,
        compression: fields.one_of("compression", &compression)?,
        encryption: fields.one_of("encryption", &encryption)?,
    })
}

fn pki(fields: &Fields<'_>) -> Result<Pki, Flaw> {
    Ok(Pki {
        key: fields.text("key")?,
        version_id: fields.optional("versionId", Fields::text)?,
        content: content(fields)?,
        paths: fields.texts("paths")?,
    })
}

fn lock(fields: &Fields<'_>) -> Result<Lock, Flaw> {
    let modes = [("governance", Mode::Governance), ("compliance", Mode::Compliance)];
    Ok(Lock { mode: fields.one_of("mode", &modes)?, until: fields.time("until")? })
}

fn rekeyed(fields: &Fields<'_>) -> Result<Rekeyed, Flaw> {
    Ok(Rekeyed { from: fields.parsed("from")?, at: fields.time("at")? })
}

/// What is wrong with a text of a manifest: it is to be shown on a terminal.
#[must_use]
pub fn text_flaw(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.chars().count() > LONGEST_TEXT {
        Some("it is longer than 4096 characters")
    } else if text.chars().any(char::is_control) {
        Some("it holds a control character")
    } else {
        None
    }
}

/// An object of the manifest, and where it is.
struct Fields<'a> {
    path: String,
    all: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn flaw(&self, name: &str, why: impl Into<String>) -> Flaw {
        Flaw::Field { field: format!("{}{name}", self.path), why: why.into() }
    }

    /// The value, which must be there; null is as good as missing.
    fn value(&self, name: &str) -> Result<&'a Value, Flaw> {
        let value = self.all.get(name).filter(|value| !value.is_null());
        value.ok_or_else(|| self.flaw(name, "it is missing"))
    }

    fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, Flaw>,
    ) -> Result<Option<T>, Flaw> {
        let there = self.all.get(name).is_some_and(|value| !value.is_null());
        there.then(|| read(self, name)).transpose()
    }

    fn inner(&self, name: &str) -> Result<Self, Flaw> {
        let all = self.value(name)?.as_object();
        let all = all.ok_or_else(|| self.flaw(name, "an object is needed"))?;
        Ok(Self { path: format!("{}{name}.", self.path), all })
    }

    fn text(&self, name: &str) -> Result<String, Flaw> {
        let text = self.value(name)?.as_str();
        self.good_text(name, text.ok_or_else(|| self.flaw(name, "a text is needed"))?)
    }

    fn good_text(&self, name: &str, text: &str) -> Result<String, Flaw> {
        text_flaw(text).map_or_else(|| Ok(text.to_owned()), |why| Err(self.flaw(name, why)))
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, Flaw> {
        let list = self.value(name)?.as_array();
        let list = list.ok_or_else(|| self.flaw(name, "a list is needed"))?;
        if list.len() > MOST_TEXTS {
            return Err(self.flaw(name, format!("it has more than {MOST_TEXTS} texts")));
        }
        let text = |value: &Value| match value.as_str() {
            Some(text) => self.good_text(name, text),
            None => Err(self.flaw(name, "a list of texts is needed")),
        };
        list.iter().map(text).collect()
    }

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<T, Flaw> {
        let value = self.value(name)?.as_str();
        let text = value.ok_or_else(|| self.flaw(name, "a text is needed"))?;
        text.parse().map_err(|error: T::Err| self.flaw(name, error.to_string()))
    }

    fn time(&self, name: &str) -> Result<Timestamp, Flaw> {
        let text = self.text(name)?;
        text.parse().map_err(|_| self.flaw(name, "it is no time (RFC 3339)"))
    }

    fn natural(&self, name: &str) -> Result<u64, Flaw> {
        let number = self.value(name)?.as_u64();
        number.ok_or_else(|| self.flaw(name, "a whole number is needed, not negative"))
    }

    fn revision(&self, name: &str) -> Result<i64, Flaw> {
        match self.value(name)?.as_i64() {
            // A database without any key has none.
            Some(number) if number >= 0 => Ok(number),
            Some(_) => Err(self.flaw(name, "it is negative")),
            None => Err(self.flaw(name, "a whole number is needed")),
        }
    }

    fn one_of<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<T, Flaw> {
        let text = self.text(name)?;
        let found = known.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let short: String = text.chars().take(40).collect();
            self.flaw(name, format!("{short:?} is not known to this program"))
        })
    }
}
