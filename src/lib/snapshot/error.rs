//! One error type: keys that are none, backups that do not open or are damaged.

use std::fmt;
use std::io;

use super::kind::Kind;
use crate::fault::{Class, Fault};

/// Where a key stands: a file (or an option) and, where it has lines, which one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Such as `identity file k.txt` or `--recipient`.
    pub name: String,
    /// The line, from 1.
    pub line: Option<usize>,
}

impl Place {
    /// A file as a whole, or an option.
    #[must_use]
    pub fn whole(name: impl Into<String>) -> Self {
        Self { name: name.into(), line: None }
    }

    /// A line of a file, from 1.
    #[must_use]
    pub fn line(name: impl Into<String>, line: usize) -> Self {
        Self { name: name.into(), line: Some(line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What is wrong with a key or a file of keys. None of these holds any of the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Nothing in it but comments.
    #[error("there is no {0} in it")]
    Empty(&'static str),
    /// Larger than age reads.
    #[error("larger than 16 MiB, which no file of keys is")]
    TooLarge,
    /// A line that is longer than any key.
    #[error("longer than 8 KiB, which no key is")]
    LongLine,
    /// Bytes that are no UTF-8.
    #[error("this is no UTF-8 text")]
    NotText,
    /// What an editor of Windows or `PowerShell` makes.
    #[error("this is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// Another kind of file.
    #[error("this is {}, no list of keys", .0.name())]
    Is(Kind),
    /// An age file to recipients where one with a passphrase is meant.
    #[error("encrypted to recipients; an identity file may be encrypted with a passphrase only")]
    NotByPassphrase,
    /// Its age header or data do not hold.
    #[error("the encrypted identity file is damaged")]
    Damaged,
    /// There is no passphrase to be had.
    #[error("{0}")]
    NoPassphrase(String),
    /// The passphrase does not fit.
    #[error("the passphrase is wrong")]
    WrongPassphrase,
    /// scrypt would take too long, or too much memory.
    #[error("its passphrase takes more work (2^{required}) than age does (2^{most} at most)")]
    TooMuchWork {
        /// What the file asks for.
        required: u8,
        /// What is done at most.
        most: u8,
    },
    /// A public key where a secret one is meant.
    #[error("this is a recipient (a public key); an identity begins with AGE-SECRET-KEY-1")]
    Recipient,
    /// A secret key where a public one is meant.
    #[error("this is an identity: a secret key, in a place for public ones")]
    Identity,
    /// A post-quantum key of age 1.3.
    #[error("post-quantum {0}, not supported by this build")]
    PostQuantum(&'static str),
    /// A key of an age plugin.
    #[error("a key of the age plugin {0}; plugins are not supported by this build")]
    Plugin(String),
    /// An SSH key.
    #[error("this is an SSH key; backups are encrypted to age keys only")]
    Ssh,
    /// A key of another length than it must have.
    #[error("the key has {have} characters instead of {want}: it was cut, or something was added")]
    Length {
        /// How many there are.
        have: usize,
        /// How many there must be.
        want: usize,
    },
    /// A key of the right length that does not hold.
    #[error("the key's own checksum does not fit: it was mistyped or changed")]
    Checksum,
    /// A blank in column one.
    #[error("a blank at the beginning; keys and comments begin in column one")]
    Indented,
    /// Anything else.
    #[error("this is no {0}")]
    Other(&'static str),
}

/// What is wrong with a stream of a backup that did open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The age file ends too early.
    #[error("the encrypted data is cut: its last chunk is missing")]
    SealCut,
    /// A chunk of the age file does not authenticate, or something follows its end.
    #[error("the encrypted data was changed: a chunk does not authenticate")]
    SealChanged,
    /// The zstd frame ends too early.
    #[error("the compressed data is cut: its last frame is not complete")]
    PackCut,
    /// The zstd frame does not decode, or something else follows it.
    #[error("the compressed data is damaged: {0}")]
    PackChanged(String),
    /// The zstd frame wants a larger window than any of ours.
    #[error("the compressed data wants a window of more than 128 MiB")]
    PackWindow,
}

/// What can go wrong with a backup at rest and the keys to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key or a file of keys that is none.
    #[error("{place}: {fault}")]
    Key {
        /// Where it stands.
        place: Place,
        /// What is wrong with it.
        fault: KeyFault,
    },
    /// A file of keys that cannot be read.
    #[error("cannot read {name}")]
    KeyFile {
        /// Which.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody to encrypt to.
    #[error("there is no recipient to encrypt to")]
    NoRecipient,
    /// An age file that is needed to be open, and no identity at hand.
    #[error("{name} is encrypted, and no identity is given")]
    NoIdentity {
        /// What should be opened.
        name: String,
    },
    /// None of the identities fits.
    #[error("none of the {} opens {name}{}", count(*.identities), to(.recipients))]
    WrongKey {
        /// What should be opened.
        name: String,
        /// How many identities were tried.
        identities: usize,
        /// Whom it is encrypted to, where that is known.
        recipients: Vec<String>,
    },
    /// An age file for a passphrase, not for keys.
    #[error("{name} is encrypted with a passphrase, not to recipients")]
    ByPassphrase {
        /// Which.
        name: String,
    },
    /// A version of age's format that came after this program.
    #[error("{name} is of a newer age format than this program knows")]
    NewerAge {
        /// Which.
        name: String,
    },
    /// An age header that does not hold.
    #[error("the age header of {name} is damaged")]
    BadHeader {
        /// Whose.
        name: String,
    },
    /// Another kind of file than the one meant.
    #[error("{name} is {}, not {}", .found.name(), .wanted.name())]
    WrongKind {
        /// Which.
        name: String,
        /// What it is.
        found: Kind,
        /// What it should be.
        wanted: Kind,
    },
    /// A tar archive that is none of ours.
    #[error("{name}: {what}")]
    Archive {
        /// Which.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A file or folder of this machine that cannot be read or made.
    #[error("cannot {doing} {path}")]
    Local {
        /// Such as `read`.
        doing: &'static str,
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file that is in the way, with another content.
    #[error("{path} is there already, and it is another one")]
    InTheWay {
        /// Which.
        path: String,
    },
    /// Writing files has failed, and what was written could not all be removed again.
    #[error("this is left behind: {paths}")]
    Left {
        /// What.
        paths: String,
        /// Why writing has failed.
        source: Box<Error>,
    },
    /// The stream's bytes do not hold.
    #[error("{name}: {damage}")]
    Damaged {
        /// Which.
        name: String,
        /// How.
        damage: Damage,
    },
    /// The stream cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// Which.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The stream cannot be written.
    #[error("cannot write {name}")]
    Write {
        /// Which.
        name: String,
        /// Why.
        source: io::Error,
    },
}

fn count(identities: usize) -> String {
    match identities {
        1 => "identities given (1)".to_owned(),
        many => format!("{many} identities given"),
    }
}

fn to(recipients: &[String]) -> String {
    match recipients {
        [] => String::new(),
        some => format!(", which is encrypted to {}", some.join(", ")),
    }
}

impl Error {
    pub(super) fn key(place: Place, fault: KeyFault) -> Self {
        Self::Key { place, fault }
    }

    /// What a reader of this room (`seal::Opener`, `pack::Unpacker`) said of `name`: damage by
    /// its kind, anything else as what it is.
    #[must_use]
    pub fn of_reading(name: &str, error: io::Error) -> Self {
        let name = name.to_owned();
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Damage>()) {
            Some(damage) => Self::Damaged { name, damage: damage.clone() },
            None => Self::Read { name, source: error },
        }
    }

    /// Adds whom it is encrypted to, for a reader who looks for the right key.
    #[must_use]
    pub fn encrypted_to(mut self, texts: &[String]) -> Self {
        if let Self::WrongKey { recipients, .. } = &mut self {
            *recipients = texts.to_vec();
        }
        self
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Self::Key { fault: KeyFault::WrongPassphrase, .. } | Self::WrongKey { .. } => {
                Class::Auth
            }
            Self::Key { .. }
            | Self::KeyFile { .. }
            | Self::NoRecipient
            | Self::NoIdentity { .. }
            | Self::WrongKind { .. } => Class::Usage,
            Self::ByPassphrase { .. }
            | Self::NewerAge { .. }
            | Self::Write { .. }
            | Self::Local { .. } => Class::Refused,
            Self::InTheWay { .. } => Class::Conflict,
            Self::Left { .. } => Class::LeftBehind,
            Self::BadHeader { .. } | Self::Damaged { .. } | Self::Archive { .. } => Class::Invalid,
            Self::Read { .. } => Class::Transient,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Key { fault, .. } => key_hint(fault),
            Self::NoRecipient => {
                Some("give --recipient or --recipients-file, two keys at least: one may be lost")
            }
            Self::NoIdentity { .. } => Some("give the identity file with --identity"),
            Self::WrongKey { .. } => {
                Some("look for the identity whose `# public key:` is one of the recipients")
            }
            Self::ByPassphrase { .. } => {
                Some("open it with `age -d` and hand the result over with --from")
            }
            Self::NewerAge { .. } => Some("use a newer version of this program, or `age -d`"),
            Self::BadHeader { .. } | Self::Damaged { .. } => Some(
                "take another backup, or another version of this object: `list --all-versions`",
            ),
            _ => None,
        };
        hint.map(str::to_owned).into_iter().collect()
    }
}

fn key_hint(fault: &KeyFault) -> Option<&'static str> {
    Some(match fault {
        KeyFault::Empty("identity") => "`age-keygen -o FILE` makes an identity file",
        KeyFault::Empty(_) => "`age-keygen -y IDENTITY_FILE` prints the recipient of an identity",
        KeyFault::Recipient => "give the file that age-keygen wrote, not its public key",
        KeyFault::Identity => {
            "take it out of this place at once; `age-keygen -y` prints the recipient to put here"
        }
        KeyFault::PostQuantum(_) => "`age-keygen` without -pq makes a key that works",
        KeyFault::Plugin(_) => {
            "use an ordinary age key; one that only a plugin opens could not be restored with"
        }
        KeyFault::Ssh => "`age-keygen` makes an age key",
        KeyFault::NoPassphrase(_) => "give --passphrase-file, or run it on a terminal",
        KeyFault::Length { .. } | KeyFault::Checksum => "copy the key anew, whole",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences() {
        let place = Place::line("identity file k.txt", 3);
        assert_eq!(
            Error::key(place, KeyFault::Recipient).to_string(),
            "identity file k.txt, line 3: this is a recipient (a public key); an identity begins \
             with AGE-SECRET-KEY-1"
        );
        let wrong =
            Error::WrongKey { name: "backup b".to_owned(), identities: 1, recipients: Vec::new() };
        assert_eq!(wrong.to_string(), "none of the identities given (1) opens backup b");
        let wrong = wrong.encrypted_to(&["age1a".to_owned(), "age1b".to_owned()]);
        assert!(wrong.to_string().ends_with(", which is encrypted to age1a, age1b"), "{wrong}");
        let kind =
            Error::WrongKind { name: "x.db".to_owned(), found: Kind::Zip, wanted: Kind::EtcdDb };
        assert_eq!(kind.to_string(), "x.db is a zip archive, not a database of etcd");
    }

    #[test]
    fn damage_is_found_inside_a_readers_error() {
        let inside = io::Error::new(io::ErrorKind::InvalidData, Damage::SealCut);
        let error = Error::of_reading("b", inside);
        assert!(matches!(error, Error::Damaged { damage: Damage::SealCut, .. }));
        assert_eq!(error.class(), Class::Invalid);
        let other = Error::of_reading("b", io::Error::other("the line is dead"));
        assert!(matches!(other, Error::Read { .. }));
    }
}
