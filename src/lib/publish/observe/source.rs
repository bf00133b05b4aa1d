//! Looks at the image: where it lies, whether it is one, and what it holds.

use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use crate::clock::Clock;
use crate::progress::{Progress, Step};
use crate::publish::content::{Claim, Claims};
use crate::publish::error::Problem;
use crate::publish::image::{Firmware, Format};
use crate::publish::mark::Content;
use crate::publish::request::{BOOT_DISK_GIB, Request, Settings, Source};
use crate::publish::source::{
    self, Digests, FileFacts, Found, Probe, Sidecars, SourceError, Spooled, UrlFacts,
};
use crate::report::size;

/// What looking needs.
pub struct Eyes {
    /// The client for images' servers.
    pub probe: Probe,
    /// Where progress is told.
    pub progress: Arc<dyn Progress>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// Where the image's bytes come from.
#[derive(Debug)]
pub enum Origin {
    /// The cloud fetches them; the facts are missing where only the cloud can.
    Url(Url, Option<UrlFacts>),
    /// We upload them; what was spooled lives as long as this.
    File(FileFacts, Option<Spooled>),
}

/// The image to publish and what is known of it.
#[derive(Debug)]
pub struct Parcel {
    /// Where it comes from.
    pub origin: Origin,
    /// What others say of its content.
    pub claims: Claims,
    /// What its content is: of a file what we read, of a URL what is claimed until
    /// [`Parcel::confirm`] has read it.
    pub content: Content,
    warnings: Vec<String>,
}

/// A file that is this short is read at once, so that a wrong checksum is told together with
/// everything else.
const SHORT_FILE: u64 = 64 << 20;

/// Whether a source takes long to read, or can be read only once.
#[must_use]
pub fn costly(from: &Source) -> bool {
    match from {
        Source::Url { .. } => false,
        Source::Stdin => true,
        Source::File(path) => std::fs::metadata(path).is_ok_and(|meta| meta.len() > SHORT_FILE),
    }
}

/// What is wrong with a source as far as that shows without reading all of it.
pub async fn glance(from: &Source, settings: Option<&Settings>) -> Vec<Problem> {
    let Source::File(path) = from else { return vec![] };
    match source::check_file(path).await {
        Ok(facts) => settings
            .and_then(|set| misfit(set, needed_gib(facts.virtual_bytes)))
            .into_iter()
            .collect(),
        Err(error) => one(error),
    }
}

/// Looks at the source.
///
/// # Errors
/// Everything that is wrong with it.
pub async fn parcel(from: &Source, given: &Content, eyes: &Eyes) -> Result<Parcel, Vec<Problem>> {
    match from {
        Source::Url { url, check: true } => checked(url, given, eyes).await,
        Source::Url { url, check: false } => {
            Ok(Parcel::of_url(url, None, Claims::join(given, Claims::default()).0))
        }
        Source::File(path) => file(path.clone(), None, given, eyes).await,
        Source::Stdin => {
            eyes.progress.say("reading the image from stdin");
            let kept = source::spool(tokio::io::stdin(), None).await.map_err(one)?;
            if kept.bytes() == 0 {
                return Err(one(SourceError::NoInput));
            }
            let path = kept.path().to_owned();
            file(path, Some(kept), given, eyes).await
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of an error's way")]
fn one(error: SourceError) -> Vec<Problem> {
    vec![Problem::of(&error)]
}

async fn checked(url: &Url, given: &Content, eyes: &Eyes) -> Result<Parcel, Vec<Problem>> {
    let (facts, beside) = tokio::join!(eyes.probe.check_url(url), eyes.probe.sidecars(url));
    match (facts, believed(beside, given)) {
        (Ok(facts), Ok(beside)) => {
            let Sidecars { md5, sha256, warnings } = beside;
            let claim = |found: Found| Claim { hex: found.hex, beside: Some(found.from) };
            let claims = Claims { md5: md5.map(claim), sha256: sha256.map(claim) };
            let (claims, doubts) = Claims::join(given, claims);
            // Said before anything is sent: whoever sees it may still stop the run.
            for doubt in &doubts {
                eyes.progress.warn(doubt);
            }
            let mut parcel = Parcel::of_url(url, Some(facts), claims);
            parcel.warnings.extend(warnings);
            Ok(parcel)
        }
        (facts, beside) => {
            Err([facts.err(), beside.err()].iter().flatten().map(Problem::of).collect())
        }
    }
}

/// Files beside the image that contradict each other are believed in nothing; that stops only a
/// run that has no checksum of its own.
fn believed(
    beside: Result<Sidecars, SourceError>,
    given: &Content,
) -> Result<Sidecars, SourceError> {
    match beside {
        Err(conflict @ SourceError::SidecarConflict { .. }) if given.has_digest() => {
            let said = format!("{conflict}: they are ignored, and the given one is enforced");
            Ok(Sidecars { warnings: vec![said], ..Sidecars::default() })
        }
        beside => beside,
    }
}

async fn file(
    path: PathBuf,
    kept: Option<Spooled>,
    given: &Content,
    eyes: &Eyes,
) -> Result<Parcel, Vec<Problem>> {
    let facts = source::check_file(&path).await.map_err(|error| match kept {
        Some(_) => one(error.about("stdin")),
        None => one(error),
    })?;
    let total = Some(facts.bytes);
    let seen = |done| eyes.progress.update("checksum", Step::bytes("reading", done, total));
    let digests = source::digest_file(&facts, &seen).await.map_err(one)?;
    eyes.progress.finish("checksum", "read");
    let content = content(digests, facts.bytes);
    let (claims, _) = Claims::join(given, Claims::default());
    let what = kept.as_ref().map_or_else(|| path.display().to_string(), |_| "stdin".to_owned());
    let wrong = claims.contradictions(&what, &content);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut warnings = facts.warnings.clone();
    warnings.extend(kept.as_ref().and_then(|_| open_end(facts.format, &claims)));
    Ok(Parcel { origin: Origin::File(facts, kept), claims, content, warnings })
}

/// A pipe ends in the same way whether its writer was done or broke; only a qcow2 tells itself
/// how long it is.
fn open_end(format: Format, claims: &Claims) -> Option<String> {
    (format != Format::Qcow2 && !claims.given()).then(|| {
        format!(
            "nothing tells whether the {format} image from stdin was complete: give -sha256 or -md5"
        )
    })
}

fn content(digests: Digests, bytes: u64) -> Content {
    Content { bytes: Some(bytes), md5: digests.md5, sha256: digests.sha256 }
}

impl Parcel {
    fn of_url(url: &Url, facts: Option<UrlFacts>, claims: Claims) -> Self {
        let warnings = facts.iter().flat_map(|facts| facts.warnings.clone()).collect();
        let content = claims.content(facts.as_ref().map(|facts| facts.bytes));
        Self { origin: Origin::Url(url.clone(), facts), claims, content, warnings }
    }

    /// Whether a SHA-256 is claimed that only a download of ours can enforce.
    #[must_use]
    pub fn unconfirmed(&self) -> bool {
        matches!(self.origin, Origin::Url(_, Some(_))) && self.claims.sha256.is_some()
    }

    /// Downloads the URL once if that is what it takes to enforce the SHA-256; afterwards the
    /// content is what was seen, so that the cloud can be told its MD5.
    pub async fn confirm(&mut self, eyes: &Eyes) -> Vec<Problem> {
        let Origin::Url(url, Some(facts)) = &self.origin else { return vec![] };
        if self.claims.sha256.is_none() {
            return vec![];
        }
        let total = Some(facts.bytes);
        let seen = |done| eyes.progress.update("checksum", Step::bytes("downloading", done, total));
        let digests = match eyes.probe.digest_url(url, facts.bytes, &seen).await {
            Ok(digests) => digests,
            Err(error) => return one(error),
        };
        eyes.progress.finish("checksum", "read");
        let actual = content(digests, facts.bytes);
        let wrong = self.claims.contradictions(&source::shown(url), &actual);
        self.content = actual;
        wrong
    }

    fn virtual_bytes(&self) -> Option<u64> {
        match &self.origin {
            Origin::Url(_, facts) => facts.as_ref()?.virtual_bytes,
            Origin::File(facts, _) => facts.virtual_bytes,
        }
    }

    /// The image's format, where it was looked at.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        match &self.origin {
            Origin::Url(_, facts) => facts.as_ref().map(|facts| facts.format),
            Origin::File(facts, _) => Some(facts.format),
        }
    }

    /// The minimum boot disk in GiB: what was asked for, else what the image needs.
    #[must_use]
    pub fn boot_disk_gib(&self, settings: &Settings) -> u64 {
        settings.boot_disk_gib.or_else(|| self.needed_gib()).unwrap_or(BOOT_DISK_GIB)
    }

    fn needed_gib(&self) -> Option<u64> {
        needed_gib(self.virtual_bytes())
    }

    /// A boot disk that the image does not fit on is refused: no VM would come up.
    #[must_use]
    pub fn misfit(&self, settings: &Settings) -> Option<Problem> {
        misfit(settings, self.needed_gib())
    }

    /// What should be said about the image and about what nobody verifies.
    #[must_use]
    pub fn remarks(&self, request: &Request) -> Vec<String> {
        let mut remarks = self.warnings.clone();
        match &self.origin {
            Origin::Url(..) => remarks.extend(self.claims.unverified(request.trust_checksum)),
            Origin::File(facts, _) => {
                remarks.extend(firmware(facts.firmware, request.settings.boot_type()));
            }
        }
        remarks
    }

    /// The image in a few words: format, size, and the size of the disk inside.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        let (format, bytes) = (self.format()?, self.content.bytes?);
        let inside = self.virtual_bytes().map(|n| format!(", a disk of {}", size(n)));
        Some(format!("{format}, {}{}", size(bytes), inside.unwrap_or_default()))
    }
}

fn needed_gib(virtual_bytes: Option<u64>) -> Option<u64> {
    virtual_bytes.map(|bytes| bytes.div_ceil(1 << 30).max(1))
}

fn misfit(settings: &Settings, needed: Option<u64>) -> Option<Problem> {
    let (asked, needed) = (settings.boot_disk_gib?, needed?);
    (asked < needed).then(|| {
        Problem::refused(format!(
            "-boot-disk-size is {asked} GiB, and the disk in the image has {needed} GiB"
        ))
        .hint("leave -boot-disk-size out to take the image's own size")
    })
}

/// What the partition table says against the boot type.
fn firmware(found: Option<Firmware>, boot_type: &str) -> Option<String> {
    let found = found?;
    let against = match found {
        Firmware::Bios => boot_type != "bios",
        Firmware::Uefi => boot_type == "bios",
        Firmware::Both | Firmware::Unknown => false,
    };
    against.then(|| {
        format!("the image's partition table is made for {found}, and -boot-type is {boot_type}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(virtual_bytes: Option<u64>) -> Parcel {
        let url: Url = "https://images.example/k8s.qcow2".parse().unwrap();
        let facts = UrlFacts {
            bytes: 10,
            final_url: url.clone(),
            redirects: 0,
            format: Format::Qcow2,
            virtual_bytes,
            etag: None,
            warnings: vec!["odd".to_owned()],
        };
        Parcel::of_url(&url, Some(facts), Claims::default())
    }

    #[test]
    fn the_boot_disk_is_what_was_asked_for_or_what_the_image_needs() {
        let gib = 1 << 30;
        for (asked, inside, disk, refused) in [
            (None, None, BOOT_DISK_GIB, false),
            (None, Some(1), 1, false),
            (None, Some(10 * gib), 10, false),
            (None, Some(10 * gib + 1), 11, false),
            (Some(30), Some(10 * gib), 30, false),
            (Some(5), Some(10 * gib), 5, true),
            (Some(5), None, 5, false),
        ] {
            let settings = Settings { boot_disk_gib: asked, ..Settings::default() };
            let parcel = parcel(inside);
            assert_eq!(parcel.boot_disk_gib(&settings), disk, "{asked:?} {inside:?}");
            assert_eq!(parcel.misfit(&settings).is_some(), refused, "{asked:?} {inside:?}");
        }
    }

    #[test]
    fn a_partition_table_may_speak_against_the_boot_type() {
        use Firmware::{Bios, Both, Uefi, Unknown};
        for (found, boot_type, said) in [
            (Some(Bios), "uefi", true),
            (Some(Bios), "uefi-secure-boot", true),
            (Some(Bios), "bios", false),
            (Some(Uefi), "bios", true),
            (Some(Uefi), "uefi", false),
            (Some(Both), "bios", false),
            (Some(Unknown), "uefi", false),
            (None, "uefi", false),
        ] {
            assert_eq!(firmware(found, boot_type).is_some(), said, "{found:?} {boot_type}");
        }
    }

    #[test]
    fn only_a_checksum_tells_that_a_pipe_was_complete() {
        let given = Claim { hex: "a".repeat(32), beside: None };
        let given = Claims { md5: Some(given), sha256: None };
        for (format, claims, said) in [
            (Format::Raw, Claims::default(), true),
            (Format::Vmdk, Claims::default(), true),
            (Format::Raw, given, false),
            (Format::Qcow2, Claims::default(), false),
        ] {
            assert_eq!(open_end(format, &claims).is_some(), said, "{format} {claims:?}");
        }
    }

    #[test]
    fn a_parcel_says_what_it_is_and_what_is_not_verified() {
        let parcel = parcel(Some(2 << 30));
        assert_eq!(parcel.summary().unwrap(), "qcow2, 10 B, a disk of 2.0 GiB");
        assert!(!parcel.unconfirmed());
    }
}
