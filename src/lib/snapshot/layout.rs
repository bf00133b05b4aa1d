//! Where the objects of a backup lie in a bucket, and how a key is read back.
//!
//! ```text
//! {prefix}{cluster}/{slot}/manifest.json
//! {prefix}{cluster}/{slot}/claim.json
//! {prefix}{cluster}/{slot}/data-{unique}.db[.zst][.age]
//! {prefix}{cluster}/{slot}/pki-{unique}.tar[.zst].age
//! ```
//!
//! `cluster` is etcd's cluster id as 16 hexadecimal digits, `slot` a time (`20261130T060000Z`)
//! that all nodes of one schedule share, or a time with six hexadecimal digits of its own
//! (`20261130T061502Z-c0ffee`) where a run makes a backup for itself. Data has a name of its own
//! in every attempt, so that two attempts never meet in one object. The cluster comes before the
//! node: a renamed node's backups are still found (k3s-io/k3s#8099).

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

/// etcd's cluster id, as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ClusterId(pub u64);

/// A text that is no cluster id or no slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct Unreadable {
    what: &'static str,
    text: String,
}

fn unreadable(what: &'static str, text: &str) -> Unreadable {
    Unreadable { what, text: text.chars().take(80).collect() }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ClusterId {
    type Err = Unreadable;

    /// Takes what etcd prints, without leading zeros, as well.
    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let digits = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        let id = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        id.map(Self).ok_or_else(|| unreadable("cluster id (1 to 16 hexadecimal digits)", text))
    }
}

impl From<ClusterId> for String {
    fn from(id: ClusterId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ClusterId {
    type Error = Unreadable;

    fn try_from(text: String) -> Result<Self, Unreadable> {
        text.parse()
    }
}

/// When a backup is of, as the folder's name: shared by all nodes, or of one run alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Slot {
    time: Timestamp,
    run: Option<String>,
}

const SLOT: &str = "%Y%m%dT%H%M%SZ";

impl Slot {
    /// The slot of `length` seconds, counted from 1970 UTC, that `now` lies in.
    ///
    /// Slots of hours and of parts of a day begin with the UTC day.
    #[must_use]
    pub fn shared(now: Timestamp, length: u32) -> Self {
        let seconds = now.as_second();
        let start = seconds - seconds.rem_euclid(i64::from(length.max(1)));
        Self { time: Timestamp::from_second(start).unwrap_or(now), run: None }
    }

    /// A folder of one run's own; `unique` tells it from another run of the same second.
    #[must_use]
    pub fn run(now: Timestamp, unique: Unique) -> Self {
        let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self { time, run: Some(format!("{:06x}", unique.0 & 0xFF_FFFF)) }
    }

    /// The time it is called after: a slot's beginning, or a run's.
    #[must_use]
    pub const fn time(&self) -> Timestamp {
        self.time
    }

    /// Whether nodes share it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.run.is_none()
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.time.strftime(SLOT))?;
        self.run.as_ref().map_or(Ok(()), |run| write!(f, "-{run}"))
    }
}

impl FromStr for Slot {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let bad = || unreadable("slot (such as 20261130T060000Z)", text);
        let (time, run) = match text.split_once('-') {
            Some((time, run)) => (time, Some(run.to_owned())),
            None => (text, None),
        };
        let time = DateTime::strptime(SLOT, time).map_err(|_| bad())?;
        let time = Offset::UTC.to_timestamp(time).map_err(|_| bad())?;
        let slot = Self { time, run };
        // One slot has one name: what would be written otherwise is none.
        let good = slot.run.as_ref().is_none_or(|run| run.len() == 6 && is_hex(run));
        if good && slot.to_string() == text { Ok(slot) } else { Err(bad()) }
    }
}

impl From<Slot> for String {
    fn from(slot: Slot) -> Self {
        slot.to_string()
    }
}

impl TryFrom<String> for Slot {
    type Error = Unreadable;

    fn try_from(text: String) -> Result<Self, Unreadable> {
        text.parse()
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// 64 random bits that tell one attempt from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unique(pub u64);

impl Unique {
    /// Bits that no other attempt has.
    ///
    /// # Errors
    /// The machine has no source of randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        getrandom::u64().map(Self)
    }
}

impl fmt::Display for Unique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What an object of a backup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The description, written last.
    Manifest,
    /// A node's word that it is at work on the slot.
    Claim,
    /// The database.
    Data(Stored),
    /// Keys and manifests of the node.
    Pki(Stored),
}

/// How a data object is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stored {
    /// Which attempt it is of.
    pub unique: Unique,
    /// It is compressed with zstd.
    pub packed: bool,
    /// It is encrypted with age.
    pub sealed: bool,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, ending, stored) = match self {
            Self::Manifest => return f.write_str("manifest.json"),
            Self::Claim => return f.write_str("claim.json"),
            Self::Data(stored) => ("data", "db", stored),
            Self::Pki(stored) => ("pki", "tar", stored),
        };
        let packed = if stored.packed { ".zst" } else { "" };
        let sealed = if stored.sealed { ".age" } else { "" };
        write!(f, "{name}-{}.{ending}{packed}{sealed}", stored.unique)
    }
}

impl Part {
    fn read(name: &str) -> Option<Self> {
        match name {
            "manifest.json" => return Some(Self::Manifest),
            "claim.json" => return Some(Self::Claim),
            _ => {}
        }
        let (kind, rest) = name.split_once('-')?;
        let (unique, endings) = rest.split_once('.')?;
        if unique.len() != 16 || !is_hex(unique) {
            return None;
        }
        let unique = Unique(u64::from_str_radix(unique, 16).ok()?);
        let (bare, sealed) = endings.strip_suffix(".age").map_or((endings, false), |b| (b, true));
        let (bare, packed) = bare.strip_suffix(".zst").map_or((bare, false), |b| (b, true));
        let stored = Stored { unique, packed, sealed };
        match (kind, bare) {
            ("data", "db") => Some(Self::Data(stored)),
            ("pki", "tar") => Some(Self::Pki(stored)),
            _ => None,
        }
    }
}

/// One object's place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Whose backup it is of.
    pub cluster: ClusterId,
    /// Which.
    pub slot: Slot,
    /// What of it.
    pub part: Part,
}

/// The place of all backups in a bucket: a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
}

impl Layout {
    /// The backups below `prefix`, which may be empty; slashes around it do not matter, as it is
    /// always a folder.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let bare = prefix.trim_matches('/');
        let prefix = if bare.is_empty() { String::new() } else { format!("{bare}/") };
        Self { prefix }
    }

    /// What all keys begin with: empty, or ending with a slash.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What all keys of a cluster begin with.
    #[must_use]
    pub fn cluster(&self, cluster: ClusterId) -> String {
        format!("{}{cluster}/", self.prefix)
    }

    /// What all keys of one backup begin with.
    #[must_use]
    pub fn folder(&self, cluster: ClusterId, slot: &Slot) -> String {
        format!("{}{slot}/", self.cluster(cluster))
    }

    /// An object's key.
    #[must_use]
    pub fn key(&self, cluster: ClusterId, slot: &Slot, part: Part) -> String {
        format!("{}{part}", self.folder(cluster, slot))
    }

    /// The key of an object in a backup's folder that a manifest names: a copied bucket has another
    /// prefix, but the same folders and names below it.
    #[must_use]
    pub fn beside(&self, cluster: ClusterId, slot: &Slot, named: &str) -> String {
        let name = named.rsplit('/').next().unwrap_or_default();
        format!("{}{name}", self.folder(cluster, slot))
    }

    /// Reads a key back; `None` if it is not one of ours.
    #[must_use]
    pub fn parse(&self, key: &str) -> Option<Address> {
        let rest = key.strip_prefix(&self.prefix)?;
        let mut steps = rest.split('/');
        let (cluster, slot, part) = (steps.next()?, steps.next()?, steps.next()?);
        if steps.next().is_some() || cluster.len() != 16 || !is_hex(cluster) {
            return None;
        }
        let cluster = cluster.parse().ok()?;
        Some(Address { cluster, slot: slot.parse().ok()?, part: Part::read(part)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn slots_are_aligned_to_utc() {
        for (now, hours, want) in [
            ("2026-11-30T05:59:59Z", 6, "20261130T000000Z"),
            ("2026-11-30T06:00:00Z", 6, "20261130T060000Z"),
            ("2026-11-30T06:00:00+02:00", 6, "20261130T000000Z"),
            ("2026-11-30T23:59:59.9Z", 24, "20261130T000000Z"),
            ("2026-11-30T23:59:59.9Z", 1, "20261130T230000Z"),
            ("1969-12-31T23:00:00Z", 6, "19691231T180000Z"),
        ] {
            let slot = Slot::shared(time(now), hours * 3600);
            assert_eq!(slot.to_string(), want, "{now} by {hours} h");
            assert!(slot.is_shared());
            assert_eq!(want.parse::<Slot>().unwrap(), slot);
        }
        let run = Slot::run(time("2026-11-30T06:15:02.7Z"), Unique(0xAB00_0000_00C0_FFEE));
        assert_eq!(run.to_string(), "20261130T061502Z-c0ffee");
        assert_eq!(run.time(), time("2026-11-30T06:15:02Z"));
        assert!(!run.is_shared());
    }

    #[test]
    fn keys_are_written_and_read() {
        let layout = Layout::new("/etcd/prod/");
        let cluster = ClusterId(0x0CDF_8181_94E3_A8C3);
        let slot: Slot = "20261130T060000Z".parse().unwrap();
        let stored = |packed, sealed| Stored { unique: Unique(0xF0), packed, sealed };
        for (part, name) in [
            (Part::Manifest, "manifest.json"),
            (Part::Claim, "claim.json"),
            (Part::Data(stored(true, true)), "data-00000000000000f0.db.zst.age"),
            (Part::Data(stored(false, true)), "data-00000000000000f0.db.age"),
            (Part::Data(stored(true, false)), "data-00000000000000f0.db.zst"),
            (Part::Data(stored(false, false)), "data-00000000000000f0.db"),
            (Part::Pki(stored(true, true)), "pki-00000000000000f0.tar.zst.age"),
        ] {
            let key = layout.key(cluster, &slot, part);
            assert_eq!(key, format!("etcd/prod/0cdf818194e3a8c3/20261130T060000Z/{name}"));
            let address = layout.parse(&key).unwrap();
            assert_eq!(address, Address { cluster, slot: slot.clone(), part });
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let layout = Layout::new("p");
        let good = "p/00000000000000ab/20261130T060000Z/data-00000000000000f0.db.zst.age";
        assert!(layout.parse(good).is_some());
        for (from, to) in [
            ("p/", "q/"),
            ("p/", ""),
            ("00000000000000ab", "ab"),
            ("00000000000000ab", "00000000000000AB"),
            ("00000000000000ab", "00000000000000a+"),
            ("20261130T060000Z", "20261330T060000Z"),
            ("20261130T060000Z", "20261130T060000Z-"),
            ("20261130T060000Z", "20261130T060000Z-C0FFEE"),
            ("20261130T060000Z", "20261130T060000Z-c0ffee0"),
            ("20261130T060000Z", "+20261130T060000Z"),
            ("20261130T060000Z", "2026-11-30"),
            ("data-00000000000000f0", "data-0f0"),
            ("data-00000000000000f0", "data-00000000000000F0"),
            ("data-", "date-"),
            (".db.zst.age", ".db.age.zst"),
            (".db.zst.age", ".tar"),
            (".db.zst.age", ".db.zst.age/x"),
            (".db.zst.age", ".db.zst.age.zst.age"),
            (".db.zst.age", ""),
        ] {
            let bad = good.replace(from, to);
            assert_eq!(layout.parse(&bad), None, "{bad}");
        }
        assert_eq!(Layout::new("").prefix(), "");
        assert_eq!(Layout::new("//").prefix(), "");
        assert_eq!(Layout::new("a").prefix(), "a/");
    }

    #[test]
    fn cluster_ids_are_read_as_etcd_prints_them() {
        assert_eq!("cdf818194e3a8c32".parse::<ClusterId>().unwrap().0, 0xCDF8_1819_4E3A_8C32);
        assert_eq!("ab".parse::<ClusterId>().unwrap().to_string(), "00000000000000ab");
        for bad in ["", "x", "+1", "-1", "12345678123456781", "0x12"] {
            assert!(bad.parse::<ClusterId>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_key_is_read_back(
            cluster: u64,
            seconds in 0..253_402_300_799_i64,
            unique: u64,
            shared: bool,
            packed: bool,
            sealed: bool,
        ) {
            let layout = Layout::new("some/where");
            let now = Timestamp::from_second(seconds).unwrap();
            let slot =
                if shared { Slot::shared(now, 3600) } else { Slot::run(now, Unique(unique)) };
            let stored = Stored { unique: Unique(unique), packed, sealed };
            for part in [Part::Manifest, Part::Claim, Part::Data(stored), Part::Pki(stored)] {
                let address = Address { cluster: ClusterId(cluster), slot: slot.clone(), part };
                let key = layout.key(address.cluster, &address.slot, part);
                prop_assert_eq!(layout.parse(&key), Some(address));
            }
        }

        #[test]
        fn no_text_surprises_the_reader(key in "\\PC{0,80}") {
            let _ = Layout::new("").parse(&key);
            let _ = (key.parse::<Slot>(), key.parse::<ClusterId>());
        }
    }
}
