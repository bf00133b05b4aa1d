//! What etcd keeps in its buckets: revisions as keys, key-values as values, and small facts.
//!
//! Revisions as in etcd's `server/storage/mvcc/revision.go` (v3.6.16): 8 bytes of main revision,
//! `_`, 8 bytes of sub revision, big endian, and a `t` behind them for a deletion. Values are
//! `mvccpb.KeyValue` (`api/mvccpb/kv.proto`), whose field 1 is the user's key.

use super::page::be64;

/// A revision, as a key of the bucket `key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Revision {
    /// The store's revision.
    pub main: i64,
    /// The change within one transaction.
    pub sub: i64,
}

impl Revision {
    /// Reads a key of the bucket `key`, and whether it is a deletion.
    pub fn read(key: &[u8]) -> Option<(Self, bool)> {
        let deleted = match key.len() {
            17 => false,
            18 => key[17] == b't',
            _ => return None,
        };
        let main = i64::try_from(be64(key, 0)?).ok()?;
        let sub = i64::try_from(be64(key, 9)?).ok()?;
        (key[8] == b'_').then_some((Self { main, sub }, deleted))
    }

    /// The key that etcd writes for a revision that is no deletion.
    pub fn key(self) -> [u8; 17] {
        let mut key = [b'_'; 17];
        key[..8].copy_from_slice(&self.main.to_be_bytes());
        key[9..].copy_from_slice(&self.sub.to_be_bytes());
        key
    }
}

/// A base-128 number at the beginning of `bytes`, and what follows it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

/// The user's key in a `mvccpb.KeyValue`, of which `head` is the beginning and `len` the length.
/// `None`: this is no such message.
pub(crate) fn user_key(head: &[u8], len: u64) -> Option<&[u8]> {
    let whole = head.len() as u64 == len;
    let (mut rest, mut key) = (head, &head[..0]);
    while !rest.is_empty() {
        let Some((tag, after)) = varint(rest) else { return (!whole).then_some(key) };
        let (size, after) = match tag & 7 {
            0 => (0, varint(after)?.1),
            1 => (8, after),
            5 => (4, after),
            2 => varint(after)?,
            _ => return None,
        };
        let inside = after.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        let gone = (head.len() - after.len()) as u64;
        if tag >> 3 == 0 || gone.checked_add(size)? > len {
            return None;
        }
        if tag == 10 {
            key = &after[..inside];
        }
        rest = &after[inside..];
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_read_as_they_are_written() {
        for (main, sub) in [(0, 0), (1, 0), (84_001, 7), (i64::MAX, i64::MAX)] {
            let revision = Revision { main, sub };
            let mut key = revision.key().to_vec();
            assert_eq!(Revision::read(&key), Some((revision, false)));
            key.push(b't');
            assert_eq!(Revision::read(&key), Some((revision, true)));
        }
        let good = Revision { main: 1, sub: 0 }.key();
        assert_eq!(Revision::read(&good[..16]), None);
        assert_eq!(Revision::read(&[0xff; 17]), None, "no revision is negative");
        let mut odd = good;
        odd[8] = b'-';
        assert_eq!(Revision::read(&odd), None);
    }

    #[test]
    fn the_users_key_is_found_in_its_message() {
        let whole = |bytes: &'static [u8]| user_key(bytes, bytes.len() as u64);
        assert_eq!(whole(b"\x0a\x03foo\x10\x02\x18\x02\x20\x01\x2a\x03bar"), Some(&b"foo"[..]));
        assert_eq!(whole(b"\x2a\x03bar\x0a\x03foo"), Some(&b"foo"[..]), "in any order");
        assert_eq!(whole(b""), Some(&b""[..]), "what a revision bump writes");
        for bad in [&b"\x0a\x04foo"[..], b"\x0a", b"\x0b\x00", b"\x02\x00", b"\x10", b"\x10\xff"] {
            assert_eq!(user_key(bad, bad.len() as u64), None, "{bad:x?}");
        }
        assert_eq!(user_key(b"\x0a\x01k\x2a\x80\x01xx", 134), Some(&b"k"[..]), "the rest follows");
        assert_eq!(user_key(b"\x0a\x01k\x2a\x80\x01xx", 133), None);
    }
}
