//! The SHA-256 that etcd sends behind a snapshot's pages.
//!
//! A size that leaves 32 when divided by 512 has one (etcd, `hasChecksum` in
//! `etcdutl/snapshot/v3_snapshot.go`); pages are multiples of 512.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes of the trailer.
pub const TRAILER: u64 = 32;

/// What was found behind the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trailer {
    /// None: a copied `member/snap/db`, a file of an old tool, or a trailer cut off.
    Absent,
    /// It fits the bytes before it.
    Fits([u8; 32]),
    /// All zeros: the file was still being written, or lies on space that was only reserved.
    Blank,
    /// It does not fit: these bytes are not what etcd sent.
    Wrong,
}

/// Whether a file of this length has a trailer.
#[must_use]
pub const fn has_trailer(len: u64) -> bool {
    len % 512 == TRAILER
}

/// Reads the file at `path` whole and holds it against its trailer.
///
/// # Errors
/// It cannot be read.
pub fn trailer(path: &Path) -> io::Result<Trailer> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    if !has_trailer(len) {
        return Ok(Trailer::Absent);
    }
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut left = len - TRAILER;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        file.read_exact(&mut buffer[..part])?;
        hasher.update(&buffer[..part]);
        left -= part as u64;
    }
    let mut said = [0; 32];
    file.read_exact(&mut said)?;
    Ok(judge(&said, &hasher.finalize().into()))
}

/// What a trailer means, against the digest of what precedes it.
#[must_use]
pub fn judge(said: &[u8; 32], found: &[u8; 32]) -> Trailer {
    match () {
        () if said == found => Trailer::Fits(*said),
        () if *said == [0; 32] => Trailer::Blank,
        () => Trailer::Wrong,
    }
}
