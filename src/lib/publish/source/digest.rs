//! MD5 and SHA-256 of one stream in one pass, each on a thread of its own.
//!
//! Two hashes side by side take as long as the slower one, and the reader waits for neither:
//! the pieces are shared, not copied, and at most [`AHEAD`] of them wait.

use std::fmt::Write as _;

use bytes::Bytes;
use md5::{Digest, Md5};
use sha2::Sha256;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::SourceError;

/// What a stream's bytes add up to, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Digests {
    /// 32 digits.
    pub md5: Option<String>,
    /// 64 digits.
    pub sha256: Option<String>,
}

/// Pieces that may wait for a hash.
const AHEAD: usize = 4;

/// Two hashes at work.
pub(super) struct Hashers {
    lanes: [(mpsc::Sender<Bytes>, JoinHandle<String>); 2],
}

impl Hashers {
    /// Starts both; needs a runtime.
    pub fn start() -> Self {
        Self { lanes: [lane::<Md5>(), lane::<Sha256>()] }
    }

    /// Hands both the next piece, waiting while they are behind.
    pub async fn feed(&self, piece: Bytes) -> Result<(), SourceError> {
        for (lane, _) in &self.lanes {
            lane.send(piece.clone()).await.map_err(|_| SourceError::Lost("hashes"))?;
        }
        Ok(())
    }

    /// The same from a thread that may block.
    pub fn feed_blocking(&self, piece: &Bytes) -> Result<(), SourceError> {
        for (lane, _) in &self.lanes {
            lane.blocking_send(piece.clone()).map_err(|_| SourceError::Lost("hashes"))?;
        }
        Ok(())
    }

    /// Waits for both results.
    pub async fn finish(self) -> Result<Digests, SourceError> {
        let [md5, sha256] = self.lanes.map(|(lane, task)| {
            drop(lane);
            task
        });
        let lost = |_| SourceError::Lost("hashes");
        Ok(Digests {
            md5: Some(md5.await.map_err(lost)?),
            sha256: Some(sha256.await.map_err(lost)?),
        })
    }
}

fn lane<D: Digest>() -> (mpsc::Sender<Bytes>, JoinHandle<String>) {
    let (lane, mut pieces) = mpsc::channel::<Bytes>(AHEAD);
    let task = tokio::task::spawn_blocking(move || {
        let mut hash = D::new();
        while let Some(piece) = pieces.blocking_recv() {
            hash.update(&piece);
        }
        hex(&hash.finalize())
    });
    (lane, task)
}

/// Bytes as lower-case hex.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_digests_are_the_known_ones() {
        let hashers = Hashers::start();
        for piece in ["a", "", "bc"] {
            hashers.feed(Bytes::from(piece)).await.unwrap();
        }
        let got = hashers.finish().await.unwrap();
        assert_eq!(got.md5.unwrap(), "900150983cd24fb0d6963f7d28e17f72");
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(got.sha256.unwrap(), sha);
    }
}
