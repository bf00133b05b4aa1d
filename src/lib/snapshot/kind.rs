//! What a file is, by its first bytes.
//!
//! Users hand over zips, raw databases and encrypted files where a snapshot is meant, and learn
//! of it as "missing hash" (rancher-archives/rke#1501, coreos/etcd-operator#1804): so each is
//! told by its name.

/// So many first bytes tell everything that [`Kind::of`] can know.
pub const ENOUGH: usize = 512;

/// How an age file begins (the age specification, c2sp.org/age).
pub const AGE: &[u8] = b"age-encryption.org/";
/// How the text form of an age file begins.
pub const ARMORED_AGE: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
/// How a file of bbolt begins: page number 0, with the flag of a meta page.
const META_PAGE: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
/// bbolt's magic number, which stands after the 16 bytes of the first page's header.
const BBOLT: &[u8] = &0xED0C_DAED_u32.to_le_bytes();

/// What some bytes are the beginning of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An age file.
    Age,
    /// An age file in its text form.
    ArmoredAge,
    /// A Zstandard frame.
    Zstd,
    /// A gzip member.
    Gzip,
    /// A zip archive.
    Zip,
    /// A bzip2 stream.
    Bzip2,
    /// An xz stream.
    Xz,
    /// A tar archive.
    Tar,
    /// A database of bbolt, such as etcd's.
    EtcdDb,
    /// Nothing at all.
    Empty,
    /// Something else.
    Unknown,
}

impl Kind {
    /// What `first`, the first bytes of a file ([`ENOUGH`] of them, or all), are.
    #[must_use]
    pub fn of(first: &[u8]) -> Self {
        // What begins with a magic number goes first: the bytes further in may be those of what was
        // compressed.
        let begins: [(&[u8], Self); 8] = [
            (AGE, Self::Age),
            (ARMORED_AGE, Self::ArmoredAge),
            (&[0x28, 0xB5, 0x2F, 0xFD], Self::Zstd),
            (&[0x1F, 0x8B], Self::Gzip),
            (b"PK\x03\x04", Self::Zip),
            (b"PK\x05\x06", Self::Zip),
            (b"BZh", Self::Bzip2),
            (&[0xFD, b'7', b'z', b'X', b'Z', 0], Self::Xz),
        ];
        if let Some((_, kind)) = begins.into_iter().find(|(magic, _)| first.starts_with(magic)) {
            kind
        } else if first.is_empty() {
            Self::Empty
        } else if first.starts_with(META_PAGE) && first.get(16..20) == Some(BBOLT) {
            Self::EtcdDb
        } else if first.get(257..262) == Some(b"ustar") {
            Self::Tar
        } else {
            Self::Unknown
        }
    }

    /// Its name for a sentence, with an article.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Age => "an age-encrypted file",
            Self::ArmoredAge => "an age-encrypted file in text form",
            Self::Zstd => "a zstd file",
            Self::Gzip => "a gzip file",
            Self::Zip => "a zip archive",
            Self::Bzip2 => "a bzip2 file",
            Self::Xz => "an xz file",
            Self::Tar => "a tar archive",
            Self::EtcdDb => "a database of etcd",
            Self::Empty => "an empty file",
            Self::Unknown => "a file of unknown kind",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_kind() {
        let mut db = vec![0; 64];
        db[8] = 4;
        db[16..20].copy_from_slice(BBOLT);
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for (first, kind) in [
            (&b"age-encryption.org/v1\n-> X25519 x"[..], Kind::Age),
            (b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl", Kind::ArmoredAge),
            (b"\x28\xB5\x2F\xFD\x04", Kind::Zstd),
            (b"\x1F\x8B\x08", Kind::Gzip),
            (b"PK\x03\x04", Kind::Zip),
            (b"PK\x05\x06", Kind::Zip),
            (b"BZh9", Kind::Bzip2),
            (b"\xFD7zXZ\0", Kind::Xz),
            (&tar, Kind::Tar),
            (&db, Kind::EtcdDb),
            (b"", Kind::Empty),
            (b"age-encryption", Kind::Unknown),
            (b"-----BEGIN CERTIFICATE-----", Kind::Unknown),
            (b"\x28\xB5\x2F", Kind::Unknown),
            (b"{}", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(first), kind, "{first:?}");
            assert!(kind.name().contains(' '), "{kind:?}");
        }
    }

    #[test]
    fn what_was_compressed_does_not_show_through() {
        let mut db = vec![0; 64];
        db[8] = 4;
        db[16..20].copy_from_slice(BBOLT);
        for magic in [&b"\x28\xB5\x2F\xFD"[..], b"\x1F\x8B", b"age-encryption.org/"] {
            let mut first = db.clone();
            first[..magic.len()].copy_from_slice(magic);
            first[16..20].copy_from_slice(BBOLT);
            let kind = Kind::of(&first);
            assert!(!matches!(kind, Kind::EtcdDb), "{magic:?}");
        }
        db[8] = 2;
        assert_eq!(Kind::of(&db), Kind::Unknown, "another page is no beginning");
    }

    #[test]
    fn a_longer_beginning_is_never_told_otherwise() {
        for first in [&b"age-encryption.org/v1"[..], b"\x1F\x8B\x08\0", b"PK\x03\x04", b"BZh9"] {
            let mut long = first.to_vec();
            long.resize(ENOUGH, 0);
            assert_eq!(Kind::of(&long), Kind::of(first));
        }
    }
}
