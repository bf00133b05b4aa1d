//! Every version below a prefix, delete markers included.

use super::call::{self, Call};
use super::client::Bucket;
use super::error::{Error, Kind};
use super::lock;
use super::paging::{Marker, Next, Paging};
use super::whole::{Whole, goes_on};

/// The largest page there is.
const LARGEST_PAGE: i32 = 1000;

/// One version of an object, or a marker that hides older ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The object's key.
    pub key: String,
    /// The version, where the bucket has versions.
    pub version_id: Option<String>,
    /// Whether this is what a read without version finds.
    pub latest: bool,
    /// In bytes; 0 for a marker.
    pub size: u64,
    /// When it was stored, in seconds since 1970.
    pub modified: u64,
    /// A delete marker: it holds nothing, and hides what is older.
    pub marker: bool,
}

/// One page, and where the next begins.
struct Page {
    entries: Vec<Version>,
    truncated: bool,
    next: Marker,
}

impl Page {
    fn last(&self) -> Option<Marker> {
        self.entries.last().map(|last| (Some(last.key.clone()), last.version_id.clone()))
    }
}

impl Bucket {
    /// All versions of all objects whose keys begin with `prefix`, each once, whatever the
    /// store's pages look like.
    ///
    /// # Errors
    /// [`Kind::Incomplete`] where the store's list does not come to its end.
    pub async fn versions(&self, prefix: &str) -> Result<Vec<Version>, Error> {
        let mut size = self.page();
        loop {
            match self.all_pages(prefix, size).await? {
                Some(all) => return Ok(all),
                None if size < LARGEST_PAGE => size = LARGEST_PAGE,
                None => {
                    return Err(Call::new("list versions", self.at(prefix)).error(Kind::Incomplete));
                }
            }
        }
    }

    /// `None` where the list got stuck.
    async fn all_pages(&self, prefix: &str, size: i32) -> Result<Option<Vec<Version>>, Error> {
        let (mut paging, mut all) = (Paging::new(), Vec::new());
        let mut at = (None, None);
        loop {
            let page = match self.versions_page(prefix, size, at).await {
                Err(error) if error.is_unsupported() && all.is_empty() => {
                    return self.objects(prefix).await.map(Some);
                }
                page => page?,
            };
            let last = page.last();
            all.extend(page.entries.into_iter().filter(|entry| {
                paging.is_new((entry.key.clone(), entry.version_id.clone(), entry.marker))
            }));
            match paging.next(page.truncated, page.next, last) {
                Next::Page(marker) => at = marker,
                Next::Done => return Ok(Some(all)),
                Next::Stuck => return Ok(None),
            }
        }
    }

    async fn versions_page(&self, prefix: &str, size: i32, at: Marker) -> Result<Page, Error> {
        let call = Call::new("list versions", self.at(prefix)).list();
        let request = self.client().list_object_versions().bucket(self.name()).prefix(prefix);
        let request = request.max_keys(size).set_key_marker(at.0).set_version_id_marker(at.1);
        let sent = self.run(&call, |try_| {
            call::of(request.clone().customize().interceptor(Whole), try_).send()
        });
        let reply = sent.await?;
        let versions = reply.versions().iter().filter_map(|one| {
            Some(Version {
                key: one.key()?.to_owned(),
                version_id: one.version_id().map(str::to_owned),
                latest: one.is_latest().unwrap_or(false),
                size: one.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
                modified: one.last_modified().and_then(lock::unix).unwrap_or(0),
                marker: false,
            })
        });
        let markers = reply.delete_markers().iter().filter_map(|one| {
            Some(Version {
                key: one.key()?.to_owned(),
                version_id: one.version_id().map(str::to_owned),
                latest: one.is_latest().unwrap_or(false),
                size: 0,
                modified: one.last_modified().and_then(lock::unix).unwrap_or(0),
                marker: true,
            })
        });
        let mut entries: Vec<_> = versions.chain(markers).collect();
        // The page's last entry by key is where the next one begins.
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Page {
            entries,
            truncated: goes_on(reply.is_truncated(), &call)?,
            next: (
                reply.next_key_marker().map(str::to_owned),
                reply.next_version_id_marker().map(str::to_owned),
            ),
        })
    }

    /// The objects of a store that knows no versions.
    async fn objects(&self, prefix: &str) -> Result<Vec<Version>, Error> {
        let call = Call::new("list objects", self.at(prefix)).list();
        let (mut paging, mut all, mut after) = (Paging::new(), Vec::new(), None);
        loop {
            let request = self.client().list_objects_v2().bucket(self.name()).prefix(prefix);
            let request = request.set_continuation_token(after.take());
            let sent = self.run(&call, |try_| {
                call::of(request.clone().customize().interceptor(Whole), try_).send()
            });
            let reply = sent.await?;
            for one in reply.contents() {
                let Some(key) = one.key().filter(|key| paging.is_new((*key).to_owned())) else {
                    continue;
                };
                all.push(Version {
                    key: key.to_owned(),
                    version_id: None,
                    latest: true,
                    size: one.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
                    modified: one.last_modified().and_then(lock::unix).unwrap_or(0),
                    marker: false,
                });
            }
            let token = reply.next_continuation_token().map(str::to_owned);
            match paging.next(goes_on(reply.is_truncated(), &call)?, (token, None), None) {
                Next::Page((token, _)) => after = token,
                Next::Done => return Ok(all),
                Next::Stuck => return Err(call.error(Kind::Incomplete)),
            }
        }
    }
}
