//! Uploads a file in parts: several at once, each streamed from its place in the file.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Failure, Here};
use crate::fault::Class;
use crate::progress::Step;
use crate::publish::error::Problem;
use crate::publish::source::{FileFacts, SourceError};
use crate::vco::{FilePart, Upload};

/// Parts of one location that are under way at once; the cloud takes five calls (vco-api.md
/// 12.7, SDK), and one is left for everything else.
const PARTS_AT_ONCE: usize = 4;

/// More parts than this no object store takes (vco-api.md 3.2: the store is S3-like).
const MOST_PARTS: u64 = 10_000;

/// A file that lies in the cloud's store and is no image yet.
#[derive(Debug)]
pub(super) struct Uploaded {
    pub upload: Upload,
    /// Number and `ETag` of each part, in order.
    pub parts: Vec<(u32, String)>,
}

/// One part: its number, its place in the file, and its length in bytes.
type Piece = (u32, u64, u64);

/// Cuts `bytes` into parts of `part_size`, numbered from 1 as in S3 (inference).
fn cut(bytes: u64, part_size: u64) -> Result<Vec<Piece>, String> {
    if part_size == 0 {
        return Err("the cloud names a part size of 0 bytes".to_owned());
    }
    let count = bytes.div_ceil(part_size);
    if count > MOST_PARTS {
        return Err(format!(
            "the cloud names a part size of {part_size} bytes, with which {bytes} bytes make {count} parts; {MOST_PARTS} are possible"
        ));
    }
    let piece = |number: u32| {
        let offset = u64::from(number) * part_size;
        (number + 1, offset, part_size.min(bytes - offset))
    };
    // Within MOST_PARTS, so the count fits.
    Ok((0..u32::try_from(count).unwrap_or(u32::MAX)).map(piece).collect())
}

impl Here<'_> {
    /// Uploads the file; it must still be the one that was looked at when the last part is sent.
    pub(super) async fn upload(&self, facts: &FileFacts) -> Result<Uploaded, Failure> {
        let job = self.job;
        self.show("starting the upload");
        let extension = job.parcel.format().map_or_else(String::new, |format| format!(".{format}"));
        let file_name = format!("{}{extension}", job.request.name);
        let upload = job.customer.start_upload(self.at, &file_name).await?;
        self.fly(|flight| flight.uploading = true);
        let pieces = cut(facts.bytes, upload.part_size)
            .map_err(|text| Failure::clean(Problem::new(Class::Transient, text)))?;
        let sent: Mutex<BTreeMap<u32, u64>> = Mutex::default();
        let begun = job.clock.elapsed();
        let parts = stream::iter(pieces)
            .map(|piece| self.part(facts, &upload, piece, &sent))
            .buffer_unordered(PARTS_AT_ONCE)
            .try_collect::<Vec<_>>()
            .await;
        if !facts.stamp.still(&facts.path).await {
            let changed = SourceError::FileChanged(facts.path.clone());
            return Err(Failure::clean(Problem::of(&changed)));
        }
        let mut parts = parts?;
        parts.sort_unstable();
        let took = job.clock.elapsed().saturating_sub(begun).as_secs_f64();
        job.progress.say(&format!("{}: uploaded {} bytes in {took:.3} s", self.at, facts.bytes));
        Ok(Uploaded { upload, parts })
    }

    async fn part(
        &self,
        facts: &FileFacts,
        upload: &Upload,
        (number, offset, len): Piece,
        sent: &Mutex<BTreeMap<u32, u64>>,
    ) -> Result<(u32, String), Failure> {
        // The semaphore is never closed.
        let _turn = self.job.parts.acquire().await.ok();
        let part = FilePart { path: facts.path.clone(), offset, len };
        let seen = |bytes: u64| {
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.insert(number, bytes);
            let done = sent.values().sum();
            let step = Step::bytes("uploading", done, Some(facts.bytes));
            self.job.progress.update(self.at.as_str(), step);
        };
        let etag = self.job.customer.upload_part(self.at, upload, number, &part, &seen).await?;
        Ok((number, etag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_without_gaps() {
        assert_eq!(cut(10, 4), Ok(vec![(1, 0, 4), (2, 4, 4), (3, 8, 2)]));
        assert_eq!(cut(8, 4).unwrap().len(), 2);
        assert_eq!(cut(3, 4), Ok(vec![(1, 0, 3)]));
        assert!(cut(3, 0).is_err());
        assert!(cut(1 << 40, 5 << 10).is_err());
        assert_eq!(cut(MOST_PARTS * 7, 7).unwrap().len(), 10_000);
    }
}
