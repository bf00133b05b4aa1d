//! Encrypting to age recipients and decrypting with age identities: the only user of age.
//!
//! [`Sealer`] and [`Opener`] are blocking: the crate encrypts inline whoever polls it, so they
//! run in threads of their own. A chunk that does not authenticate, and an end that never came,
//! are [`Damage`] in the reader's error, told apart from a failing source below it.

mod chunks;
mod identities;
mod recipients;

use std::io::{self, BufRead, BufReader, Read, Write};

use age::armor::ArmoredReader;
use age::stream::StreamReader;
use age::{DecryptError, Decryptor};
use chunks::Chunks;

pub use identities::Identities;
pub use recipients::Recipients;

use super::error::{Damage, Error};
use super::kind::{ARMORED_AGE, Kind};
use super::source::{Marked, original, peek, unmark};

/// More first bytes than an age header of twenty recipients has; what [`try_header`] should get.
pub const HEADER: usize = 4096;

/// Encrypts what is written to it, to every one of the recipients.
///
/// [`Sealer::finish`] must be called: without its last chunk the file counts as cut.
pub struct Sealer<W: Write>(Chunks<W>);

impl<W: Write> Sealer<W> {
    /// Writes the header. Each file has a key of its own.
    ///
    /// # Errors
    /// [`Error::NoRecipient`]; [`Error::Write`] if `output` fails.
    pub fn new(output: W, to: &Recipients) -> Result<Self, Error> {
        Chunks::new(output, to).map(Self)
    }

    /// Writes the last chunk and gives the output back.
    ///
    /// # Errors
    /// The output's own.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Decrypts what is read through it.
///
/// No byte is given out before its chunk was authenticated; whether the file is whole is known
/// only when the reader returns its end without an error.
pub struct Opener(StreamReader<Box<dyn BufRead + Send>>);

impl Opener {
    /// Reads the header of `input`, binary or in text form, and tries the identities on it.
    /// `name` is for errors.
    ///
    /// # Errors
    /// [`Error::WrongKey`], [`Error::ByPassphrase`], [`Error::NewerAge`], [`Error::BadHeader`];
    /// [`Error::Read`] if `input` fails.
    pub fn new(
        input: impl Read + Send + 'static,
        with: &Identities,
        name: &str,
    ) -> Result<Self, Error> {
        let (first, input) = peek(input).map_err(|error| Error::of_reading(name, error))?;
        let armored = Kind::of(&first) == Kind::ArmoredAge;
        let marked = Marked(input);
        let decryptor = decryptor(buffered(marked, armored), name)?;
        let stream = decryptor
            .decrypt(with.keys())
            .map_err(|error| header_error(error, with.len(), name))?;
        Ok(Self(stream))
    }
}

/// The reader of the text form copies 48 bytes at a time: only where it is needed.
fn buffered(input: impl Read + Send + 'static, armored: bool) -> Box<dyn BufRead + Send> {
    if armored {
        Box::new(ArmoredReader::new(input))
    } else {
        Box::new(BufReader::with_capacity(128 << 10, input))
    }
}

impl Read for Opener {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            unmark(error, |error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Damage::SealCut,
                _ => Damage::SealChanged,
            })
        })
    }
}

fn decryptor<R: BufRead>(input: R, name: &str) -> Result<Decryptor<R>, Error> {
    let decryptor = Decryptor::new_buffered(input).map_err(|error| header_error(error, 0, name))?;
    if decryptor.is_scrypt() {
        return Err(Error::ByPassphrase { name: name.to_owned() });
    }
    Ok(decryptor)
}

/// What stands against opening.
fn header_error(error: DecryptError, identities: usize, name: &str) -> Error {
    let name = name.to_owned();
    match error {
        DecryptError::NoMatchingKeys => {
            Error::WrongKey { name, identities, recipients: Vec::new() }
        }
        DecryptError::UnknownFormat => Error::NewerAge { name },
        DecryptError::Io(error) => match original(error) {
            Ok(source) => Error::of_reading(&name, source),
            // age's own: the header ends too early, or the text form does not hold.
            Err(_) => Error::BadHeader { name },
        },
        _ => Error::BadHeader { name },
    }
}

/// Whether a header opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    /// One of the identities fits.
    Yes,
    /// None of them does.
    No,
    /// The header is longer than the bytes given.
    NeedMore,
}

/// Tries the identities on a file's first bytes ([`HEADER`] of them are enough as a rule), so
/// that a wrong key is known before the file is fetched.
///
/// # Errors
/// [`Error::ByPassphrase`], [`Error::NewerAge`], [`Error::BadHeader`], and [`Error::WrongKind`]
/// if it is no age file at all.
pub fn try_header(first: &[u8], with: &Identities, name: &str) -> Result<Opens, Error> {
    let kind = Kind::of(first);
    if !matches!(kind, Kind::Age | Kind::ArmoredAge) {
        let short = first.len() < ARMORED_AGE.len();
        if short && (ARMORED_AGE.starts_with(first) || super::kind::AGE.starts_with(first)) {
            return Ok(Opens::NeedMore);
        }
        return Err(Error::WrongKind { name: name.to_owned(), found: kind, wanted: Kind::Age });
    }
    let end = Marked(Ends { bytes: first.to_vec(), at: 0 });
    let opened = decryptor(buffered(end, kind == Kind::ArmoredAge), name)
        .and_then(|found| {
            found.decrypt(with.keys()).map_err(|error| header_error(error, with.len(), name))
        })
        .map(|_| Opens::Yes);
    match opened {
        Err(Error::WrongKey { .. }) => Ok(Opens::No),
        // Only the made-up end of the bytes given is an error of reading.
        Err(Error::Read { .. }) => Ok(Opens::NeedMore),
        other => other,
    }
}

/// Some bytes, and then an error instead of an end.
struct Ends {
    bytes: Vec<u8>,
    at: usize,
}

impl Read for Ends {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Err(io::Error::other("the bytes given end here"));
        }
        let taken = rest.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&rest[..taken]);
        self.at += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use age::Encryptor;

    use super::*;
    use crate::fault::Fault as _;
    use crate::snapshot::passphrase::{Given, Nobody};

    const KEY: &str = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
    const PUBLIC: &str = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";

    fn key() -> Identities {
        Identities::read(KEY.as_bytes(), "k", &Nobody).unwrap().0
    }

    fn sealed(clear: &[u8], to: &[&str]) -> Vec<u8> {
        let to = Recipients::parse(to, "--recipient").unwrap();
        let mut sealer = Sealer::new(Vec::new(), &to).unwrap();
        sealer.write_all(clear).unwrap();
        sealer.finish().unwrap()
    }

    fn opened(bytes: &[u8], with: &Identities) -> Result<Vec<u8>, Error> {
        let mut clear = Vec::new();
        let mut opener = Opener::new(io::Cursor::new(bytes.to_vec()), with, "backup b")?;
        let read = opener.read_to_end(&mut clear);
        read.map(|_| clear).map_err(|error| Error::of_reading("backup b", error))
    }

    fn armored(bytes: &[u8]) -> Vec<u8> {
        let mut writer =
            age::armor::ArmoredWriter::wrap_output(Vec::new(), age::armor::Format::AsciiArmor)
                .unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn with_passphrase(clear: &[u8], passphrase: &str, work: u8) -> Vec<u8> {
        let mut to = age::scrypt::Recipient::new(passphrase.to_owned().into());
        to.set_work_factor(work);
        let encryptor =
            Encryptor::with_recipients(std::iter::once(&to as &dyn age::Recipient)).unwrap();
        let mut writer = encryptor.wrap_output(Vec::new()).unwrap();
        writer.write_all(clear).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_sealed_opens_for_each_recipient() {
        let other = Identities::generate();
        for length in [0, 1, 65_535, 65_536, 65_537, 200_000] {
            let clear: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let file = sealed(&clear, &[PUBLIC, &other.public()[0]]);
            assert_eq!(opened(&file, &key()).unwrap(), clear, "{length}");
            assert_eq!(opened(&file, &other).unwrap(), clear, "{length}");
            assert_eq!(opened(&armored(&file), &other).unwrap(), clear, "{length} in text form");
        }
    }

    #[test]
    fn any_byte_changed_or_cut_off_or_added_is_found() {
        let file = sealed(&[7; 300], &[PUBLIC]);
        for at in 0..file.len() {
            assert!(opened(&file[..at], &key()).is_err(), "cut at {at} of {}", file.len());
            for bit in [1, 0x80] {
                let mut bad = file.clone();
                bad[at] ^= bit;
                assert!(opened(&bad, &key()).is_err(), "bit {bit} at {at} of {}", file.len());
            }
        }
        for more in [1, 16, 17, 65_552, 70_000] {
            let mut longer = file.clone();
            longer.resize(file.len() + more, 0);
            assert!(opened(&longer, &key()).is_err(), "{more} more");
        }
    }

    #[test]
    fn a_long_file_is_damaged_by_name() {
        let size = 3 * 65_536;
        let file = sealed(&vec![7; size], &[PUBLIC]);
        let payload = file.len() - size - 3 * 16;
        let chunk = 65_536 + 16;
        let damage = |bytes: &[u8]| match opened(bytes, &key()) {
            Err(Error::Damaged { damage, name }) if name == "backup b" => damage,
            other => panic!("{:?}", other.map(|clear| clear.len())),
        };
        for (cut, want) in [
            (payload, Damage::SealCut),
            (payload + chunk, Damage::SealCut),
            (payload + 2 * chunk, Damage::SealCut),
            (payload + chunk - 1, Damage::SealChanged),
            (payload + 5, Damage::SealChanged),
            (file.len() - 1, Damage::SealChanged),
        ] {
            assert_eq!(damage(&file[..cut]), want, "cut at {cut}");
        }
        for at in [payload, payload + chunk - 1, payload + chunk, file.len() - 1] {
            let mut bad = file.clone();
            bad[at] ^= 4;
            assert_eq!(damage(&bad), Damage::SealChanged, "bit at {at}");
        }
        for more in [&b"x"[..], &[0; 16], &file[payload..payload + chunk], &file] {
            let longer = [&file[..], more].concat();
            assert_eq!(damage(&longer), Damage::SealChanged, "{} more", more.len());
        }
        // Two chunks change places.
        let (first, second) = (payload..payload + chunk, payload + chunk..payload + 2 * chunk);
        let swapped = [&file[..payload], &file[second], &file[first], &file[payload + 2 * chunk..]];
        assert_eq!(damage(&swapped.concat()), Damage::SealChanged);
    }

    #[test]
    fn a_failing_source_is_not_taken_for_damage() {
        let file = sealed(&vec![7; 200_000], &[PUBLIC]);
        for at in [100, 70_000, file.len()] {
            let source =
                io::Cursor::new(file[..at].to_vec()).chain(Ends { bytes: Vec::new(), at: 0 });
            let result = Opener::new(source, &key(), "b").and_then(|mut opener| {
                let read = opener.read_to_end(&mut Vec::new());
                read.map_err(|error| Error::of_reading("b", error))
            });
            assert!(matches!(result, Err(Error::Read { .. })), "{at}: {result:?}");
        }
    }

    #[test]
    fn what_does_not_open_says_why() {
        let other = Identities::generate();
        let said = |bytes: &[u8]| opened(bytes, &other).unwrap_err().to_string();
        let file = sealed(b"x", &[PUBLIC]);
        assert_eq!(said(&file), "none of the identities given (1) opens backup b");
        assert_eq!(said(&armored(&file)), "none of the identities given (1) opens backup b");
        assert_eq!(
            said(&with_passphrase(b"x", "p", 2)),
            "backup b is encrypted with a passphrase, not to recipients"
        );
        assert_eq!(
            said(b"age-encryption.org/v2\nnew new new new new new new new\n"),
            "backup b is of a newer age format than this program knows"
        );
        for bad in [&b"age-encryption.org/v1\n"[..], b"age-encryption.org/v1\n-> X\n\n---", b""] {
            assert_eq!(said(bad), "the age header of backup b is damaged", "{bad:?}");
        }
    }

    #[test]
    fn a_header_tells_before_the_rest_is_there() {
        let file = sealed(&vec![7; 100_000], &[PUBLIC]);
        let text = armored(&file);
        let other = Identities::generate();
        for file in [&file, &text] {
            let mut now = 0;
            while try_header(&file[..now], &key(), "b").unwrap() == Opens::NeedMore {
                assert_eq!(try_header(&file[..now], &other, "b").unwrap(), Opens::NeedMore);
                now += 1;
            }
            assert!(now < 1000, "{now}");
            assert_eq!(try_header(&file[..now], &key(), "b").unwrap(), Opens::Yes);
            assert_eq!(try_header(&file[..now], &other, "b").unwrap(), Opens::No);
            assert_eq!(try_header(&file[..HEADER], &key(), "b").unwrap(), Opens::Yes);
        }
        let zip = try_header(b"PK\x03\x04 and so on, and on, and on", &key(), "b").unwrap_err();
        assert_eq!(zip.to_string(), "b is a zip archive, not an age-encrypted file");
        let mut bad = file[..HEADER].to_vec();
        bad[30] ^= 1;
        assert!(matches!(try_header(&bad, &key(), "b"), Ok(Opens::No) | Err(_)));
        let passphrase = with_passphrase(b"x", "p", 2);
        let refused = try_header(&passphrase, &key(), "b").unwrap_err();
        assert!(matches!(refused, Error::ByPassphrase { .. }));
    }

    #[test]
    fn identity_files_are_read_as_age_reads_them_and_kinder() {
        for (text, keys, remarks) in [
            (format!("# created: x\n# public key: y\n{KEY}\n"), 1, 0),
            (format!("\n{KEY}\r\n\r\n# c\r\n"), 1, 0),
            (format!("\u{FEFF}{KEY} "), 1, 2),
            (format!("{KEY}\n{KEY}"), 1, 0),
        ] {
            let (found, told) = Identities::read(text.as_bytes(), "k", &Nobody).unwrap();
            assert_eq!((found.len(), told.len()), (keys, remarks), "{told:?}");
            assert_eq!(found.public(), [PUBLIC]);
            assert!(!format!("{found:?}").contains("SECRET"));
        }
        let said = |text: &str| {
            let error = Identities::read(text.as_bytes(), "file k", &Nobody).unwrap_err();
            assert!(!error.to_string().contains("QMMJ"), "{error}");
            assert_eq!(crate::fault::Class::Usage, error.class());
            error.to_string()
        };
        assert_eq!(said("# nothing\n"), "file k: there is no identity in it");
        assert!(said(PUBLIC).starts_with("file k, line 1: this is a recipient"));
        assert!(
            said(&format!("{KEY}\n{}", &KEY[..70])).starts_with("file k, line 2: the key has 70")
        );
        assert!(
            said(&format!("{KEY}\nAGE-SECRET-KEY-PQ-1AB"))
                .contains("line 2: post-quantum identity")
        );
    }

    #[test]
    fn an_identity_file_may_be_encrypted_with_a_passphrase() {
        let ask = Given("correct horse".to_owned().into());
        let text = format!("# mine\n{KEY} \n");
        let file = with_passphrase(text.as_bytes(), "correct horse", 4);
        for file in [&file, &armored(&file)] {
            let (keys, remarks) = Identities::read(file, "file k", &ask).unwrap();
            assert_eq!(keys.public(), [PUBLIC]);
            assert_eq!(remarks, ["file k, decrypted: blanks at the end of line 2 were ignored"]);
        }
        let said = |bytes: &[u8], ask: &dyn crate::snapshot::passphrase::AskPassphrase| {
            Identities::read(bytes, "file k", ask).unwrap_err().to_string()
        };
        let wrong = Given("wrong".to_owned().into());
        assert_eq!(said(&file, &wrong), "file k: the passphrase is wrong");
        assert!(said(&file, &Nobody).contains("a passphrase is needed, and none was given"));
        let cut = &file[..file.len() - 1];
        assert_eq!(said(cut, &ask), "file k: the encrypted identity file is damaged");
        let inner = with_passphrase(b"nonsense", "correct horse", 4);
        assert_eq!(said(&inner, &ask), "file k, decrypted, line 1: this is no identity");
        let backup = sealed(b"x", &[PUBLIC]);
        assert!(said(&backup, &ask).contains("encrypted to recipients"));
        let mut heavy = file.clone();
        let at = heavy.windows(3).position(|three| three == b" 4\n").unwrap();
        heavy.splice(at + 1..=at + 1, *b"23");
        assert!(said(&heavy, &ask).contains("more work (2^23) than age does (2^22 at most)"));
    }

    #[test]
    fn recipients_are_counted_once_and_told_apart() {
        let other = Identities::generate();
        let text = format!("# ops\n{PUBLIC}\n\n# vault\n{}\r\n{PUBLIC} \n", other.public()[0]);
        let (mut two, remarks) = Recipients::from_file(text.as_bytes(), "file r").unwrap();
        assert_eq!(two.texts(), [PUBLIC, &other.public()[0]]);
        assert_eq!(remarks, ["file r: blanks at the end of line 6 were ignored"]);
        two.extend(Recipients::parse([PUBLIC], "--recipient").unwrap());
        assert_eq!(two.len(), 2);
        let said = |bytes: &str| {
            Recipients::from_file(bytes.as_bytes(), "file r").unwrap_err().to_string()
        };
        assert_eq!(said("#\n"), "file r: there is no recipient in it");
        let leaked = said(&format!("{PUBLIC}\n{KEY}"));
        assert_eq!(
            leaked,
            "file r, line 2: this is an identity: a secret key, in a place for public ones"
        );
        let pq = Recipients::parse(["age1pq1qqqq"], "--recipient").unwrap_err().to_string();
        assert_eq!(pq, "--recipient: post-quantum recipient, not supported by this build");
        assert!(matches!(Sealer::new(Vec::new(), &Recipients::default()), Err(Error::NoRecipient)));
    }
}
