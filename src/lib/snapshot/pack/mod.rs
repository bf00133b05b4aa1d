//! The layers of a backup's data: raw, then zstd, then age; streaming, both ways.
//!
//! Writing, the layers are chosen; reading, each is told by its first bytes. The only user of
//! zstd. What a reader gives out before its end is not yet known to be whole.

mod frames;

use std::io::{self, BufReader, Read, Write};

use zstd::stream::read::Decoder;

use frames::Frames;

use super::error::{Damage, Error};
use super::kind::Kind;
use super::seal::{Identities, Opener, Recipients, Sealer};
use super::source::{Marked, peek, unmark};

/// zstd's own default, and ours: 868 MB of a control plane's values become 41 MB.
pub const LEVEL: i32 = 3;

/// The largest window that is decoded, as a power of two: 128 MiB, the limit of the `zstd`
/// program (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`). Level 3 needs 2 MiB.
const LARGEST_WINDOW: u32 = 27;

/// Which layers to write.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// zstd's level; `None` leaves the data as it is.
    pub level: Option<i32>,
    /// Whom to encrypt to; `None` leaves the data readable for everybody.
    pub recipients: Option<Recipients>,
}

impl Layers {
    /// What the layers add to a file's name: `.zst`, `.age`, both or nothing.
    #[must_use]
    pub fn suffix(&self) -> String {
        let packed = self.level.map_or("", |_| ".zst");
        let sealed = self.recipients.as_ref().map_or("", |_| ".age");
        format!("{packed}{sealed}")
    }
}

/// Compresses and encrypts what is written to it.
///
/// [`Packer::finish`] must be called: a dropped packer leaves a file that counts as cut.
pub struct Packer<W: Write>(Outer<W>);

enum Outer<W: Write> {
    Packed(Box<Frames<Inner<W>>>),
    Plain(Inner<W>),
}

enum Inner<W: Write> {
    Sealed(Box<Sealer<W>>),
    Open(W),
}

impl<W: Write> Packer<W> {
    /// A packer with these layers, on top of `output`.
    ///
    /// # Errors
    /// [`Error::NoRecipient`] for an empty list; [`Error::Write`] if `output` fails.
    pub fn new(output: W, layers: &Layers) -> Result<Self, Error> {
        let inner = match &layers.recipients {
            Some(to) => Inner::Sealed(Box::new(Sealer::new(output, to)?)),
            None => Inner::Open(output),
        };
        let outer = match layers.level {
            Some(level) => {
                let failed = |source| Error::Write { name: "compressed data".to_owned(), source };
                Outer::Packed(Box::new(Frames::new(inner, level).map_err(failed)?))
            }
            None => Outer::Plain(inner),
        };
        Ok(Self(outer))
    }

    /// Writes what is left of every layer and gives the output back.
    ///
    /// # Errors
    /// The output's own.
    pub fn finish(self) -> io::Result<W> {
        let inner = match self.0 {
            Outer::Packed(frames) => frames.finish()?,
            Outer::Plain(inner) => inner,
        };
        match inner {
            Inner::Sealed(sealer) => sealer.finish(),
            Inner::Open(output) => Ok(output),
        }
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Outer::Packed(frames) => frames.write(bytes),
            Outer::Plain(inner) => inner.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Outer::Packed(frames) => frames.flush(),
            Outer::Plain(inner) => inner.flush(),
        }
    }
}

impl<W: Write> Write for Inner<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Sealed(sealer) => sealer.write(bytes),
            Self::Open(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Sealed(sealer) => sealer.flush(),
            Self::Open(output) => output.flush(),
        }
    }
}

/// Decrypts and decompresses what is read through it, layer by layer as the first bytes say.
pub struct Unpacker {
    inner: Box<dyn Read + Send>,
    found: Found,
}

/// What an [`Unpacker`] met on its way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// There was an age layer.
    pub sealed: bool,
    /// There was a zstd layer.
    pub packed: bool,
    /// What is inside.
    pub content: Kind,
}

impl Unpacker {
    /// Looks at the first bytes of `input`, opens its age layer with one of the identities, and
    /// looks again. `name` is for errors.
    ///
    /// # Errors
    /// [`Error::NoIdentity`] if it is encrypted and `with` is empty, or as
    /// [`Opener::new`]; damage in the first bytes of an inner layer.
    pub fn new(
        input: impl Read + Send + 'static,
        with: &Identities,
        name: &str,
    ) -> Result<Self, Error> {
        let failed = |error| Error::of_reading(name, error);
        let (sealed, opened) = unsealed(input, with, name)?;
        let (first, opened) = peek(opened).map_err(failed)?;
        let mut found = Found { sealed, packed: false, content: Kind::of(&first) };
        let mut inner: Box<dyn Read + Send> = Box::new(opened);
        if found.content == Kind::Zstd {
            let decoder = Unzstd::new(inner).map_err(failed)?;
            let (first, opened) = peek(decoder).map_err(failed)?;
            found = Found { packed: true, content: Kind::of(&first), ..found };
            inner = Box::new(opened);
        }
        Ok(Self { inner, found })
    }

    /// The layers met, and what is inside.
    #[must_use]
    pub const fn found(&self) -> Found {
        self.found
    }

    /// Refuses another content than the one meant, by its name.
    ///
    /// # Errors
    /// [`Error::WrongKind`].
    pub fn must_hold(self, wanted: Kind, name: &str) -> Result<Self, Error> {
        let found = self.found.content;
        if found == wanted {
            return Ok(self);
        }
        Err(Error::WrongKind { name: name.to_owned(), found, wanted })
    }
}

/// Takes off the age layer alone, where there is one, and says whether there was.
///
/// # Errors
/// As [`Unpacker::new`].
pub fn unsealed(
    input: impl Read + Send + 'static,
    with: &Identities,
    name: &str,
) -> Result<(bool, Box<dyn Read + Send>), Error> {
    let (first, input) = peek(input).map_err(|error| Error::of_reading(name, error))?;
    if !matches!(Kind::of(&first), Kind::Age | Kind::ArmoredAge) {
        return Ok((false, Box::new(input)));
    }
    if with.is_empty() {
        return Err(Error::NoIdentity { name: name.to_owned() });
    }
    Ok((true, Box::new(Opener::new(input, with, name)?)))
}

impl Read for Unpacker {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

/// zstd's frames until the end of the input, which must be the end of a frame.
struct Unzstd(Decoder<'static, BufReader<Marked<Box<dyn Read + Send>>>>);

impl Unzstd {
    fn new(input: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut decoder = Decoder::new(Marked(input))?;
        decoder.window_log_max(LARGEST_WINDOW)?;
        Ok(Self(decoder))
    }
}

impl Read for Unzstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            unmark(error, |error| match (error.kind(), error.to_string()) {
                (io::ErrorKind::UnexpectedEof, _) => Damage::PackCut,
                (_, text) if text.contains("too much memory") => Damage::PackWindow,
                (_, text) => Damage::PackChanged(text),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layers(level: Option<i32>, to: Option<&Identities>) -> Layers {
        let recipients = to.map(|keys| Recipients::parse(keys.public(), "r").unwrap());
        Layers { level, recipients }
    }

    fn packed(clear: &[u8], layers: &Layers) -> Vec<u8> {
        let mut packer = Packer::new(Vec::new(), layers).unwrap();
        for piece in clear.chunks(32 << 10) {
            packer.write_all(piece).unwrap();
        }
        packer.finish().unwrap()
    }

    fn unpacked(bytes: &[u8], with: &Identities) -> Result<(Vec<u8>, Found), Error> {
        let mut unpacker = Unpacker::new(io::Cursor::new(bytes.to_vec()), with, "b")?;
        let mut clear = Vec::new();
        let read = unpacker.read_to_end(&mut clear);
        read.map_err(|error| Error::of_reading("b", error))?;
        Ok((clear, unpacker.found()))
    }

    fn db(pages: usize) -> Vec<u8> {
        let mut db: Vec<u8> = (0..pages * 4096).map(|n| (n / 3).to_le_bytes()[0]).collect();
        db[..20].fill(0);
        db[8] = 4;
        db[16..20].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
        db
    }

    #[test]
    fn what_is_packed_is_unpacked_whatever_the_layers() {
        let key = Identities::generate();
        let clear = db(100);
        for (level, sealed, suffix) in [
            (None, false, ""),
            (Some(3), false, ".zst"),
            (None, true, ".age"),
            (Some(3), true, ".zst.age"),
            (Some(-1), true, ".zst.age"),
        ] {
            let layers = layers(level, sealed.then_some(&key));
            assert_eq!(layers.suffix(), suffix);
            let file = packed(&clear, &layers);
            let (found, met) = unpacked(&file, &key).unwrap();
            assert!(found == clear, "{level:?} {sealed}");
            let want = Found { sealed, packed: level.is_some(), content: Kind::EtcdDb };
            assert_eq!(met, want);
            assert_eq!(level.is_some(), file.len() < clear.len() / 2, "{}", file.len());
        }
    }

    #[test]
    fn nothing_at_all_survives_every_layer() {
        let key = Identities::generate();
        for (level, sealed) in [(None, false), (Some(3), false), (None, true), (Some(3), true)] {
            let file = packed(b"", &layers(level, sealed.then_some(&key)));
            let (clear, found) = unpacked(&file, &key).unwrap();
            assert_eq!((clear.len(), found.content), (0, Kind::Empty));
        }
    }

    #[test]
    fn a_plain_zstd_file_cut_changed_or_added_to_is_found() {
        let nobody = Identities::default();
        let clear = db(2);
        let file = packed(&clear, &layers(Some(3), None));
        for at in 4..file.len() {
            assert!(unpacked(&file[..at], &nobody).is_err(), "cut at {at} of {}", file.len());
            let mut bad = file.clone();
            bad[at] ^= 1;
            // A changed window size may decode to the same bytes; no other change may.
            let same = unpacked(&bad, &nobody).is_ok_and(|(found, _)| at == 5 && found == clear);
            assert!(same || unpacked(&bad, &nobody).is_err(), "bit at {at} of {}", file.len());
        }
        let cut = unpacked(&file[..file.len() - 1], &nobody).unwrap_err();
        assert!(matches!(cut, Error::Damaged { damage: Damage::PackCut, .. }), "{cut}");
        for more in [&b"x"[..], b"garbage at the end", &[0; 4], &[0; 100]] {
            let longer = [&file[..], more].concat();
            assert!(unpacked(&longer, &nobody).is_err(), "{more:?}");
        }
        let twice = [&file[..], &file[..]].concat();
        assert_eq!(unpacked(&twice, &nobody).unwrap().0.len(), 2 * 2 * 4096, "two frames are fine");
    }

    #[test]
    fn damage_inside_the_seal_is_told_by_its_layer() {
        let key = Identities::generate();
        let inner = packed(&db(2), &layers(Some(3), None));
        let file = packed(&inner[..inner.len() - 3], &layers(None, Some(&key)));
        let error = unpacked(&file, &key).unwrap_err();
        assert!(matches!(error, Error::Damaged { damage: Damage::PackCut, .. }), "{error}");
        let file = packed(&db(2), &layers(Some(3), Some(&key)));
        let error = unpacked(&file[..file.len() - 3], &key).unwrap_err();
        assert!(matches!(error, Error::Damaged { damage: Damage::SealChanged, .. }), "{error}");
    }

    #[test]
    fn a_window_beyond_the_limit_is_refused() {
        // A frame header (RFC 8878, 3.1.1.1) with a window descriptor of 2^28 bytes.
        let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, (28 - 10) << 3, 0x01, 0x00, 0x00];
        let error = unpacked(&frame, &Identities::default()).unwrap_err();
        assert!(matches!(error, Error::Damaged { damage: Damage::PackWindow, .. }), "{error}");
    }

    #[test]
    fn another_content_is_told_by_its_name() {
        let key = Identities::generate();
        for (content, said) in [
            (&b"PK\x03\x04...."[..], "b is a zip archive, not a database of etcd"),
            (b"\x1F\x8B\x08...", "b is a gzip file, not a database of etcd"),
            (b"", "b is an empty file, not a database of etcd"),
            (b"hello", "b is a file of unknown kind, not a database of etcd"),
        ] {
            let file = packed(content, &layers(None, Some(&key)));
            for bytes in [content, &file] {
                let unpacker = Unpacker::new(io::Cursor::new(bytes.to_vec()), &key, "b").unwrap();
                let refused = unpacker.must_hold(Kind::EtcdDb, "b").err().unwrap();
                assert_eq!(refused.to_string(), said);
            }
        }
        let twice = packed(&packed(&db(1), &layers(None, Some(&key))), &layers(None, Some(&key)));
        let unpacker = Unpacker::new(io::Cursor::new(twice), &key, "b").unwrap();
        let refused = unpacker.must_hold(Kind::EtcdDb, "b").err().unwrap().to_string();
        assert_eq!(refused, "b is an age-encrypted file, not a database of etcd");
        let file = packed(b"x", &layers(None, Some(&key)));
        let refused = unpacked(&file, &Identities::default()).unwrap_err().to_string();
        assert_eq!(refused, "b is encrypted, and no identity is given");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_come_back_whole(
            clear in proptest::collection::vec(any::<u8>(), 0..5000),
            level in proptest::option::of(1..6),
            sealed: bool,
        ) {
            // Raw bytes that look like a layer are one to the reader, rightly.
            prop_assume!(level.is_some() || Kind::of(&clear) == Kind::Unknown);
            let key = Identities::generate();
            let file = packed(&clear, &layers(level, sealed.then_some(&key)));
            prop_assert_eq!(unpacked(&file, &key).unwrap().0, clear);
        }
    }
}
