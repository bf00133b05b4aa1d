//! What a backup is: a small plain JSON object, written last. No manifest, no backup.
//!
//! It is plain so that `list` works without a key; it holds no secret. Whoever may write to the
//! bucket may forge one: a restore checks sizes and SHA-256 of what it fetches against it, and
//! age authenticates the data itself. Described in docs/reference/manifest.md.

mod read;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::layout::{ClusterId, Slot};
use crate::s3::Mode;
pub use read::{Flaw, LARGEST, text_flaw};
#[cfg(test)]
pub(crate) use tests::full;

/// The value of `kind`.
pub const KIND: &str = "capvco-backup";
/// The version of the format that is written, and the newest that is read.
pub const VERSION: u64 = 1;

/// One backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// etcd's cluster id.
    pub cluster: ClusterId,
    /// The member that it was taken from: its id as hexadecimal digits.
    pub member: ClusterId,
    /// The node's name.
    pub node: String,
    /// The folder it was made for.
    pub slot: Slot,
    /// When the snapshot was asked for.
    pub started: Timestamp,
    /// When its last byte was stored.
    pub finished: Timestamp,
    /// The member's version, such as `3.6.8`.
    pub etcd_version: String,
    /// The database's own version; etcd before 3.6 writes none.
    pub storage_version: Option<String>,
    /// The newest revision in the database; 0 where there never was a key.
    pub revision: i64,
    /// Where the member stood.
    pub raft: Raft,
    /// The database itself, without etcd's trailer.
    pub db: Content,
    /// The object that holds it.
    pub data: Data,
    /// The object that holds the node's keys and manifests.
    pub pki: Option<Pki>,
    /// Whom both are encrypted to, as `age1…`; empty without encryption.
    pub recipients: Vec<String>,
    /// The lock that was asked for and read back.
    pub lock: Option<Lock>,
    /// The program that made it.
    pub tool: String,
    /// The backup that this one was made from by `rekey`.
    pub rekeyed: Option<Rekeyed>,
}

/// Where a member stood in the raft log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Raft {
    /// The index that the database has seen.
    pub index: u64,
    /// The term of that index, from etcd 3.5 on.
    pub term: Option<u64>,
}

/// Some bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Content {
    /// How many.
    pub size: u64,
    /// Their SHA-256, in lower-case hex.
    pub sha256: String,
}

/// The object of the database, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// Its key.
    pub key: String,
    /// Its version; none in a bucket without versions.
    pub version_id: Option<String>,
    /// Its bytes as stored.
    #[serde(flatten)]
    pub content: Content,
    /// How they are compressed.
    pub compression: Compression,
    /// How they are encrypted.
    pub encryption: Encryption,
}

/// The object of a node's keys and manifests: a tar archive, always compressed and encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pki {
    /// Its key.
    pub key: String,
    /// Its version; none in a bucket without versions.
    pub version_id: Option<String>,
    /// Its bytes as stored.
    #[serde(flatten)]
    pub content: Content,
    /// The files and folders that were asked for.
    pub paths: Vec<String>,
}

/// How data is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    None,
    /// By zstd.
    Zstd,
}

/// How data is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// Not at all.
    None,
    /// By age.
    Age,
}

/// A lock on the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lock {
    /// Who may lift it.
    #[serde(serialize_with = "mode")]
    pub mode: Mode,
    /// Until when it holds.
    pub until: Timestamp,
}

impl Lock {
    /// A lock as the store tells it: until so many seconds since 1970.
    #[must_use]
    pub fn until(mode: Mode, unix: u64) -> Self {
        let until = i64::try_from(unix).ok().and_then(|unix| Timestamp::from_second(unix).ok());
        Self { mode, until: until.unwrap_or(Timestamp::MAX) }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn mode<S: Serializer>(mode: &Mode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(mode.as_str())
}

/// That a backup is another one, encrypted anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rekeyed {
    /// The folder of the one that it was made from.
    pub from: Slot,
    /// When.
    pub at: Timestamp,
}

impl Manifest {
    /// Its bytes, as they are stored.
    ///
    /// # Panics
    /// Never: numbers and texts can be written as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Stored<'a> {
            kind: &'static str,
            version: u64,
            #[serde(flatten)]
            manifest: &'a Manifest,
        }
        let stored = Stored { kind: KIND, version: VERSION, manifest: self };
        let mut bytes =
            serde_json::to_vec_pretty(&stored).expect("numbers and texts can be written as JSON");
        bytes.push(b'\n');
        bytes
    }

    /// The manifest again, if it is read back from its bytes as what it is: what is written has to
    /// be readable.
    ///
    /// # Errors
    /// A [`Flaw`] that names the field.
    pub fn checked(self) -> Result<Self, Flaw> {
        match Self::parse(&self.to_json())? {
            read if read == self => Ok(self),
            _ => Err(Flaw::Changed),
        }
    }

    /// Reads one: strict in everything that version 1 writes, with unknown keys left alone.
    ///
    /// # Errors
    /// A [`Flaw`] that names the field.
    pub fn parse(bytes: &[u8]) -> Result<Self, Flaw> {
        read::manifest(bytes)
    }

    /// Whether one of these keys (`age1…`) opens it; without encryption it always opens.
    #[must_use]
    pub fn opens_with(&self, public: &[String]) -> bool {
        self.data.encryption == Encryption::None
            || self.recipients.iter().any(|recipient| public.contains(recipient))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A manifest with everything in it.
    pub fn full() -> Manifest {
        let time = |text: &str| text.parse().unwrap();
        let content = |size, digit: &str| Content { size, sha256: digit.repeat(64) };
        let folder = "etcd/cdf818194e3a8c32/20261130T060000Z";
        Manifest {
            cluster: ClusterId(0xCDF8_1819_4E3A_8C32),
            member: ClusterId(0x8E9E_05C5_2164_694D),
            node: "cp-1".to_owned(),
            slot: "20261130T060000Z".parse().unwrap(),
            started: time("2026-11-30T06:00:03Z"),
            finished: time("2026-11-30T06:00:09.5Z"),
            etcd_version: "3.6.8".to_owned(),
            storage_version: Some("3.6.0".to_owned()),
            revision: 84_123,
            raft: Raft { index: 90_001, term: Some(4) },
            db: content(868_651_008, "a"),
            data: Data {
                key: format!("{folder}/data-00000000000000f0.db.zst.age"),
                version_id: Some("v1".to_owned()),
                content: content(41_000_000, "b"),
                compression: Compression::Zstd,
                encryption: Encryption::Age,
            },
            pki: Some(Pki {
                key: format!("{folder}/pki-00000000000000f0.tar.zst.age"),
                version_id: Some("v2".to_owned()),
                content: content(20_000, "c"),
                paths: vec!["/etc/kubernetes/pki".to_owned()],
            }),
            recipients: vec![
                "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa".to_owned(),
            ],
            lock: Some(Lock { mode: Mode::Compliance, until: time("2026-12-30T06:00:09Z") }),
            tool: "capvco-backup 0.1.0".to_owned(),
            rekeyed: None,
        }
    }

    fn changed(change: impl FnOnce(&mut Value)) -> Result<Manifest, Flaw> {
        let mut value: Value = serde_json::from_slice(&full().to_json()).unwrap();
        change(&mut value);
        Manifest::parse(&serde_json::to_vec(&value).unwrap())
    }

    #[test]
    fn what_is_written_is_read() {
        let full = full();
        assert_eq!(Manifest::parse(&full.to_json()).unwrap(), full);
        let mut bare = full.clone();
        bare.storage_version = None;
        bare.raft.term = None;
        bare.pki = None;
        bare.lock = None;
        bare.recipients.clear();
        bare.data.version_id = None;
        bare.data.compression = Compression::None;
        bare.data.encryption = Encryption::None;
        let at = full.finished;
        bare.rekeyed = Some(Rekeyed { from: "20261130T000000Z-c0ffee".parse().unwrap(), at });
        assert_eq!(Manifest::parse(&bare.to_json()).unwrap(), bare);
    }

    #[test]
    fn it_looks_as_its_reference_says() {
        let text = String::from_utf8(full().to_json()).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["kind"], "capvco-backup");
        assert_eq!(value["version"], 1);
        assert_eq!(value["cluster"], "cdf818194e3a8c32");
        assert_eq!(value["slot"], "20261130T060000Z");
        assert_eq!(value["started"], "2026-11-30T06:00:03Z");
        assert_eq!(value["etcdVersion"], "3.6.8");
        assert_eq!(value["raft"], json!({"index": 90_001, "term": 4}));
        assert_eq!(value["data"]["compression"], "zstd");
        assert_eq!(value["data"]["versionId"], "v1");
        assert_eq!(value["data"]["size"], 41_000_000);
        assert_eq!(value["lock"], json!({"mode": "compliance", "until": "2026-12-30T06:00:09Z"}));
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn unknown_keys_are_left_alone() {
        let more = changed(|value| {
            value["colour"] = json!("blue");
            value["data"]["storageClass"] = json!({"x": [1]});
        });
        assert_eq!(more.unwrap(), full());
    }

    #[test]
    fn each_damage_names_its_field() {
        let long = "x".repeat(5000);
        for (pointer, bad, said) in [
            ("/kind", json!("other"), "this is no manifest of capvco-backup"),
            ("/kind", Value::Null, "this is no manifest of capvco-backup"),
            ("/version", json!(2), "version 2 is newer than this program knows (1)"),
            ("/version", json!("1"), "version: a whole number is needed"),
            ("/version", json!(0), "version: there is no version 0"),
            ("/cluster", json!("xyz"), "cluster: \"xyz\" is no cluster id"),
            ("/cluster", json!(7), "cluster: a text is needed"),
            ("/cluster", Value::Null, "cluster: it is missing"),
            ("/member", json!(""), "member: \"\" is no cluster id"),
            ("/node", json!(""), "node: it is empty"),
            ("/node", json!("a\u{1b}[2J"), "node: it holds a control character"),
            ("/node", json!(long), "node: it is longer than 4096 characters"),
            ("/slot", json!("today"), "slot: \"today\" is no slot"),
            ("/started", json!("2026-11-30"), "started: it is no time"),
            ("/finished", json!("2026-11-30T05:00:00Z"), "finished: it is before started"),
            ("/etcdVersion", json!(3.6), "etcdVersion: a text is needed"),
            ("/storageVersion", json!(3.6), "storageVersion: a text is needed"),
            ("/revision", json!(-4), "revision: it is negative"),
            ("/revision", json!(1.5), "revision: a whole number is needed"),
            ("/revision", json!(u64::MAX), "revision: a whole number is needed"),
            ("/raft", json!([]), "raft: an object is needed"),
            ("/raft/index", json!(-1), "raft.index: a whole number is needed"),
            ("/raft/term", json!("4"), "raft.term: a whole number is needed"),
            ("/db/size", json!(0), "db.size: it is not positive"),
            ("/db/sha256", json!("A".repeat(64)), "db.sha256: it is no SHA-256"),
            ("/db/sha256", json!("a".repeat(63)), "db.sha256: it is no SHA-256"),
            ("/data", Value::Null, "data: it is missing"),
            ("/data/key", Value::Null, "data.key: it is missing"),
            ("/data/versionId", json!(1), "data.versionId: a text is needed"),
            ("/data/compression", json!("lzw"), "data.compression: \"lzw\" is not known"),
            ("/data/encryption", json!("rot13"), "data.encryption: \"rot13\" is not known"),
            ("/pki", json!("x"), "pki: an object is needed"),
            ("/pki/size", json!("x"), "pki.size: a whole number is needed"),
            ("/pki/paths", json!("x"), "pki.paths: a list is needed"),
            ("/pki/paths/0", json!(1), "pki.paths: a list of texts is needed"),
            ("/recipients", Value::Null, "recipients: it is missing"),
            ("/recipients", json!(vec!["a"; 101]), "recipients: it has more than 100 texts"),
            ("/recipients/0", json!("a\nb"), "recipients: it holds a control character"),
            ("/lock/mode", json!("none"), "lock.mode: \"none\" is not known"),
            ("/lock/until", json!(5), "lock.until: a text is needed"),
        ] {
            let flaw = changed(|value| *value.pointer_mut(pointer).unwrap() = bad.clone());
            let flaw = flaw.unwrap_err().to_string();
            assert!(flaw.starts_with(said), "{pointer} as {bad}: {flaw}");
        }
    }

    #[test]
    fn a_manifest_cut_anywhere_is_no_manifest() {
        let whole = full().to_json();
        for end in 0..whole.len() - 2 {
            assert!(matches!(Manifest::parse(&whole[..end]), Err(Flaw::NotJson(_))), "{end}");
        }
        assert!(Manifest::parse(&[&whole[..], b"{}"].concat()).is_err());
        assert!(matches!(Manifest::parse(b"[]"), Err(Flaw::NotOurs)));
        assert!(matches!(Manifest::parse(&vec![b' '; LARGEST + 1]), Err(Flaw::TooLarge)));
        assert!(matches!(Manifest::parse("[".repeat(60_000).as_bytes()), Err(Flaw::NotJson(_))));
    }

    #[test]
    fn what_would_not_be_read_is_not_written() {
        assert_eq!(full().checked(), Ok(full()));
        for (change, field) in [
            ((|m| m.node = "a\u{1b}[2Jb".to_owned()) as fn(&mut Manifest), "node"),
            (|m| m.node = "x".repeat(5000), "node"),
            (|m| m.pki.as_mut().unwrap().paths = vec!["pk\nx".to_owned()], "pki.paths"),
            (|m| m.recipients = vec!["age1x".to_owned(); 101], "recipients"),
            (|m| m.finished = m.slot.time(), "finished"),
        ] {
            let mut manifest = full();
            change(&mut manifest);
            let flaw = manifest.checked().unwrap_err().to_string();
            assert!(flaw.starts_with(&format!("{field}: ")), "{flaw}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_change_is_read_or_refused_in_a_short_sentence(
            changes in proptest::collection::vec((0..2000_usize, proptest::num::u8::ANY), 1..4),
        ) {
            let mut bytes = full().to_json();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            match Manifest::parse(&bytes) {
                Ok(read) => assert_eq!(Manifest::parse(&read.to_json()).unwrap(), read),
                Err(flaw) => assert!(flaw.to_string().chars().count() < 300, "{flaw}"),
            }
        }
    }

    #[test]
    fn who_can_open_it_is_known() {
        let mut manifest = full();
        let mine = manifest.recipients.clone();
        assert!(manifest.opens_with(&mine) && !manifest.opens_with(&["age1x".to_owned()]));
        manifest.data.encryption = Encryption::None;
        assert!(manifest.opens_with(&[]));
    }
}
