//! The grammar of age's files of keys: identities and recipients, one a line.
//!
//! Go's age and the Rust crate agree: UTF-8; empty lines and lines with `#` in column one are
//! skipped; LF or CRLF; at most 16 MiB (age's `cmd/age/parse.go`, the crate's `identity.rs`).
//! Both refuse a byte order mark and blanks at a line's end, which editors add unseen: here
//! these are trimmed, with a remark. No remark and no error holds any of a line.

use std::path::Path;

use secrecy::{ExposeSecret as _, SecretBox};

use super::error::{Error, KeyFault, Place};
use super::kind::Kind;

/// The most bytes of a file of keys, as in age.
pub const LARGEST: u64 = 16 << 20;

/// The longest line of a recipients file in age's own program (`cmd/age/parse.go`).
const LONGEST_LINE: usize = 8 << 10;

/// `AGE-SECRET-KEY-1`, 32 bytes in Bech32, and its checksum.
const IDENTITY_CHARACTERS: usize = 74;
/// `age1`, 32 bytes in Bech32, and its checksum.
const RECIPIENT_CHARACTERS: usize = 62;

/// What a file of keys holds, by which of the two it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Secret keys.
    Identities,
    /// Public keys.
    Recipients,
}

impl Sort {
    const fn one(self) -> &'static str {
        match self {
            Self::Identities => "identity",
            Self::Recipients => "recipient",
        }
    }
}

/// The lines of a file that hold something, and what was trimmed.
pub(super) struct Lines<'a> {
    /// Line number from 1, and text without blanks at its end.
    pub lines: Vec<(usize, &'a str)>,
    pub remarks: Vec<String>,
}

/// Reads a file of keys whole, and says who else may read it.
///
/// `name` is for sentences, such as `identity file k.txt`.
///
/// # Errors
/// [`Error::KeyFile`] if it cannot be read, [`KeyFault::TooLarge`] above [`LARGEST`].
pub fn load(
    path: &Path,
    name: &str,
    sort: Sort,
) -> Result<(SecretBox<Vec<u8>>, Vec<String>), Error> {
    let failed = |source| Error::KeyFile { name: name.to_owned(), source };
    let file = crate::disk::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    let bytes = read_bounded(file, name)?;
    let mut remarks = Vec::new();
    let clear = Kind::of(bytes.expose_secret()) == Kind::Unknown;
    if sort == Sort::Identities && clear && facts.is_file() && open_to_others(&facts) {
        remarks.push(format!("{name} can be read by others than its owner: chmod 600"));
    }
    Ok((bytes, remarks))
}

/// Reads keys from a pipe or a file until its end.
///
/// # Errors
/// As [`load`].
pub fn read_bounded(
    mut reader: impl std::io::Read,
    name: &str,
) -> Result<SecretBox<Vec<u8>>, Error> {
    let mut bytes = SecretBox::new(Box::new(Vec::new()));
    let into = secrecy::ExposeSecretMut::expose_secret_mut(&mut bytes);
    let mut bounded = std::io::Read::take(&mut reader, LARGEST + 1);
    std::io::Read::read_to_end(&mut bounded, into)
        .map_err(|source| Error::KeyFile { name: name.to_owned(), source })?;
    if into.len() as u64 > LARGEST {
        return Err(Error::key(Place::whole(name), KeyFault::TooLarge));
    }
    Ok(bytes)
}

fn open_to_others(facts: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    facts.permissions().mode() & 0o077 != 0
}

/// Splits a file into its lines that hold something.
///
/// # Errors
/// The file is of another kind, not UTF-8, or too large; a line is too long or begins with a
/// blank.
pub(super) fn lines<'a>(bytes: &'a [u8], name: &str, sort: Sort) -> Result<Lines<'a>, Error> {
    let (text, marked) = text(bytes, name, sort)?;
    let mut remarks = Vec::new();
    if marked {
        remarks.push(format!("{name}: the byte order mark at its beginning was ignored"));
    }
    let mut lines = Vec::new();
    let mut trimmed = Vec::new();
    for (index, raw) in text.split('\n').enumerate() {
        let number = index + 1;
        let line = raw.strip_suffix('\r').unwrap_or(raw);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bare = line.trim_end_matches([' ', '\t']);
        if bare.len() < line.len() {
            trimmed.push(number.to_string());
        }
        let fault = match bare {
            "" => continue,
            _ if bare.starts_with([' ', '\t']) => KeyFault::Indented,
            _ if bare.len() > LONGEST_LINE => KeyFault::LongLine,
            _ => {
                lines.push((number, bare));
                continue;
            }
        };
        return Err(Error::key(Place::line(name, number), fault));
    }
    if !trimmed.is_empty() {
        let some = trimmed.len().min(5);
        let more = if trimmed.len() > some { " and more" } else { "" };
        let numbers = trimmed[..some].join(", ");
        remarks.push(format!("{name}: blanks at the end of line {numbers}{more} were ignored"));
    }
    Ok(Lines { lines, remarks })
}

/// The file as text, and whether it began with a byte order mark.
fn text<'a>(bytes: &'a [u8], name: &str, sort: Sort) -> Result<(&'a str, bool), Error> {
    let refuse = |fault| Err(Error::key(Place::whole(name), fault));
    if bytes.len() as u64 > LARGEST {
        return refuse(KeyFault::TooLarge);
    }
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return refuse(KeyFault::Utf16);
    }
    match Kind::of(bytes) {
        Kind::Empty => return refuse(KeyFault::Empty(sort.one())),
        Kind::Unknown => {}
        kind => return refuse(KeyFault::Is(kind)),
    }
    let bare = bytes.strip_prefix("\u{FEFF}".as_bytes());
    match std::str::from_utf8(bare.unwrap_or(bytes)) {
        Ok(text) => Ok((text, bare.is_some())),
        Err(error) => {
            let before = &bare.unwrap_or(bytes)[..error.valid_up_to()];
            let line = before.split(|byte| *byte == b'\n').count();
            Err(Error::key(Place::line(name, line), KeyFault::NotText))
        }
    }
}

/// Why a line is no X25519 identity, as age's parser has found.
pub(super) fn no_identity(line: &str) -> KeyFault {
    let upper = line.to_ascii_uppercase();
    if upper.starts_with("AGE-SECRET-KEY-PQ-1") {
        return KeyFault::PostQuantum("identity");
    }
    if let Some(plugin) = upper.strip_prefix("AGE-PLUGIN-") {
        return KeyFault::Plugin(plugin_name(plugin));
    }
    if upper.starts_with("AGE1") {
        return KeyFault::Recipient;
    }
    if upper.starts_with("AGE-SECRET-KEY-1") {
        return length_or_checksum(line, IDENTITY_CHARACTERS);
    }
    if is_ssh(line) {
        return KeyFault::Ssh;
    }
    KeyFault::Other("identity")
}

/// Why a line is no X25519 recipient, as age's parser has found.
pub(super) fn no_recipient(line: &str) -> KeyFault {
    let lower = line.to_ascii_lowercase();
    if lower.starts_with("age-secret-key-") || lower.starts_with("age-plugin-") {
        return KeyFault::Identity;
    }
    if is_ssh(line) {
        // A private key in its own file is a leak as well.
        let secret = line.starts_with("-----BEGIN");
        return if secret { KeyFault::Identity } else { KeyFault::Ssh };
    }
    let Some(data) = lower.strip_prefix("age1") else { return KeyFault::Other("recipient") };
    // The last `1` parts name and data (Bech32), and the data itself has no `1`.
    match data.rsplit_once('1').map(|(name, _)| name) {
        Some("pq" | "tagpq") => KeyFault::PostQuantum("recipient"),
        Some(name) => KeyFault::Plugin(plugin_name(name)),
        None => length_or_checksum(line, RECIPIENT_CHARACTERS),
    }
}

fn length_or_checksum(line: &str, want: usize) -> KeyFault {
    match line.chars().count() {
        have if have == want => KeyFault::Checksum,
        have => KeyFault::Length { have, want },
    }
}

/// A plugin's name, which is no secret, out of what follows its prefix; shortened to what a
/// name may be.
fn plugin_name(text: &str) -> String {
    let name = text.rsplit_once('1').map_or(text, |(name, _)| name);
    let name = name.trim_end_matches('-').to_ascii_lowercase();
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    let fine = (1..=32).contains(&name.len()) && name.chars().all(good);
    if fine { name } else { "of an unreadable name".to_owned() }
}

fn is_ssh(line: &str) -> bool {
    let private = line.starts_with("-----BEGIN ") && line.contains("PRIVATE KEY");
    private || ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"].iter().any(|p| line.starts_with(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Split = (Vec<(usize, String)>, Vec<String>);

    fn split(bytes: &[u8]) -> Result<Split, String> {
        let found = lines(bytes, "file k", Sort::Identities).map_err(|error| error.to_string())?;
        let lines = found.lines.into_iter().map(|(n, line)| (n, line.to_owned())).collect();
        Ok((lines, found.remarks))
    }

    #[test]
    fn lines_are_counted_and_comments_skipped() {
        for text in ["# c\n\nA\nB\n", "# c\r\n\r\nA\r\nB", "# c\n\r\nA\nB"] {
            let (lines, remarks) = split(text.as_bytes()).unwrap();
            assert_eq!(lines, [(3, "A".to_owned()), (4, "B".to_owned())], "{text:?}");
            assert!(remarks.is_empty());
        }
        assert!(split(b"# only a comment").unwrap().0.is_empty());
        assert!(split(b"\n\n").unwrap().0.is_empty());
    }

    #[test]
    fn what_editors_add_unseen_is_trimmed_and_told() {
        let (lines, remarks) = split("\u{FEFF}A \nB\t\r\n  \nC\n".as_bytes()).unwrap();
        let texts: Vec<_> = lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(texts, ["A", "B", "C"]);
        assert_eq!(
            remarks,
            [
                "file k: the byte order mark at its beginning was ignored",
                "file k: blanks at the end of line 1, 2, 3 were ignored"
            ]
        );
        let many = "A \n".repeat(9);
        let (_, remarks) = split(many.as_bytes()).unwrap();
        assert_eq!(
            remarks,
            ["file k: blanks at the end of line 1, 2, 3, 4, 5 and more were ignored"]
        );
    }

    #[test]
    fn what_is_no_list_of_keys_is_told_by_its_name() {
        for (bytes, said) in [
            (&b""[..], "file k: there is no identity in it"),
            (b"\x1F\x8B\x08", "file k: this is a gzip file, no list of keys"),
            (b"PK\x03\x04", "file k: this is a zip archive, no list of keys"),
            (b"\xFF\xFEA\0", "file k: this is UTF-16 text; save it as UTF-8"),
            (b"A\nB\n\xC3\x28", "file k, line 3: this is no UTF-8 text"),
            (b"\xEF\xBB\xBFA\n\xFF", "file k, line 2: this is no UTF-8 text"),
            (
                b"A\n  B\n",
                "file k, line 2: a blank at the beginning; keys and comments begin in column one",
            ),
            (
                b" # c",
                "file k, line 1: a blank at the beginning; keys and comments begin in column one",
            ),
        ] {
            assert_eq!(split(bytes).unwrap_err(), said);
        }
        let long = "x".repeat(LONGEST_LINE + 1);
        assert!(split(long.as_bytes()).unwrap_err().contains("line 1: longer than 8 KiB"));
        let large = vec![b'#'; usize::try_from(LARGEST).unwrap() + 1];
        assert!(split(&large).unwrap_err().contains("larger than 16 MiB"));
        let large = read_bounded(&large[..], "file k").unwrap_err();
        assert!(large.to_string().contains("larger than 16 MiB"));
    }

    #[test]
    fn each_wrong_identity_has_its_own_reason() {
        use KeyFault as F;
        let key = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
        assert_eq!(key.len(), IDENTITY_CHARACTERS);
        let longer = format!("{key}Q");
        for (line, fault) in [
            ("AGE-SECRET-KEY-PQ-1QQQ", F::PostQuantum("identity")),
            ("AGE-PLUGIN-YUBIKEY-1QQQ", F::Plugin("yubikey".to_owned())),
            ("AGE-PLUGIN-SE-EX-1Q9", F::Plugin("se-ex".to_owned())),
            ("AGE-PLUGIN-", F::Plugin("of an unreadable name".to_owned())),
            ("age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa", F::Recipient),
            (&key[..73], F::Length { have: 73, want: 74 }),
            (&longer, F::Length { have: 75, want: 74 }),
            (&key.replace("Q2Y", "Q2Z"), F::Checksum),
            ("-----BEGIN OPENSSH PRIVATE KEY-----", F::Ssh),
            ("ssh-ed25519 AAAA me", F::Ssh),
            ("hello", F::Other("identity")),
            ("AGE-SECRET-KEY", F::Other("identity")),
        ] {
            assert_eq!(no_identity(line), fault, "{line}");
        }
    }

    #[test]
    fn each_wrong_recipient_has_its_own_reason() {
        use KeyFault as F;
        let key = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";
        assert_eq!(key.len(), RECIPIENT_CHARACTERS);
        for (line, fault) in [
            ("AGE-SECRET-KEY-1GQ", F::Identity),
            ("AGE-SECRET-KEY-PQ-1GQ", F::Identity),
            ("AGE-PLUGIN-YUBIKEY-1QQQ", F::Identity),
            ("-----BEGIN OPENSSH PRIVATE KEY-----", F::Identity),
            ("age1pq1qqqqq", F::PostQuantum("recipient")),
            ("age1tagpq1qqqqq", F::PostQuantum("recipient")),
            ("age1tag1qqqqq", F::Plugin("tag".to_owned())),
            ("age1yubikey1qqqq", F::Plugin("yubikey".to_owned())),
            ("ssh-rsa AAAA", F::Ssh),
            ("sk-ssh-ed25519@openssh.com AAAA", F::Ssh),
            (&key[..61], F::Length { have: 61, want: 62 }),
            (&key.replace("sdy", "sdz"), F::Checksum),
            ("me@example.org", F::Other("recipient")),
        ] {
            assert_eq!(no_recipient(line), fault, "{line}");
        }
    }
}
