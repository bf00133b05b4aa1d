//! Checksums as headers, and what `auto` has learnt.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha2::{Digest as _, Sha256};

use super::config::Checksum;

/// How one body is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// `x-amz-checksum-crc32c`.
    Crc32c,
    /// `x-amz-checksum-sha256`.
    Sha256,
    /// `Content-MD5`.
    Md5,
    /// Not at all.
    None,
}

impl Sum {
    /// The header's value: base64 of the big-endian digest.
    pub fn of(self, bytes: &[u8]) -> Option<String> {
        Some(match self {
            Self::Crc32c => STANDARD.encode(crc32c::crc32c(bytes).to_be_bytes()),
            Self::Sha256 => STANDARD.encode(Sha256::digest(bytes)),
            Self::Md5 => STANDARD.encode(Md5::digest(bytes)),
            Self::None => return None,
        })
    }
}

/// Which sum is used now: `auto` starts with CRC32C and stays with MD5 once a store refused it.
#[derive(Debug)]
pub struct Choice {
    asked: Checksum,
    fell_back: AtomicBool,
    settled: AtomicBool,
}

impl Choice {
    pub fn new(asked: Checksum) -> Self {
        Self { asked, fell_back: AtomicBool::new(false), settled: AtomicBool::new(false) }
    }

    /// The same choice, with nothing learnt yet.
    pub fn again(&self) -> Self {
        Self::new(self.asked)
    }

    /// The sum to use.
    pub fn now(&self) -> Sum {
        match self.asked {
            Checksum::Auto if self.fell_back.load(Ordering::Relaxed) => Sum::Md5,
            Checksum::Auto | Checksum::Crc32c => Sum::Crc32c,
            Checksum::Sha256 => Sum::Sha256,
            Checksum::Md5 => Sum::Md5,
            Checksum::None => Sum::None,
        }
    }

    /// After a refusal of `used`: the sum to try next, if there is one.
    pub fn after_refusal(&self, used: Sum) -> Option<Sum> {
        let may = self.asked == Checksum::Auto && used == Sum::Crc32c;
        if may {
            self.fell_back.store(true, Ordering::Relaxed);
        }
        may.then_some(Sum::Md5)
    }

    /// The store took the sum in use.
    pub fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Whether it is still to be seen if the store takes the sum.
    pub fn is_open(&self) -> bool {
        self.asked == Checksum::Auto && !self.settled.load(Ordering::Relaxed)
    }

    /// The other sum did no better: it was not the sum that the store minded.
    pub fn was_not_it(&self) {
        self.fell_back.store(false, Ordering::Relaxed);
    }
}

/// Whether a refusal may be about a checksum header that a store does not know. A store that
/// found the *bytes* wrong (`BadDigest`) knows it very well.
pub fn may_be_about_it(status: Option<u16>, code: Option<&str>) -> bool {
    const CODES: [&str; 7] = [
        "InvalidArgument",
        "InvalidDigest",
        "InvalidRequest",
        "MissingContentMD5",
        "MissingUploadObjectWithObjectLockHeaders",
        "NotImplemented",
        "UnsupportedHeader",
    ];
    match code {
        Some(code) => CODES.contains(&code),
        None => matches!(status, Some(400 | 501)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_books() {
        // The check values of CRC-32C (iSCSI), SHA-256 and MD5 over "123456789".
        for (sum, value) in [
            (Sum::Crc32c, Some("4waSgw==")),
            (Sum::Sha256, Some("FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=")),
            (Sum::Md5, Some("JfnnlDI7RTiF9RgfG2JNCw==")),
            (Sum::None, None),
        ] {
            assert_eq!(sum.of(b"123456789").as_deref(), value, "{sum:?}");
        }
    }

    #[test]
    fn only_auto_falls_back_and_it_remembers() {
        for (asked, first, next) in [
            (Checksum::Auto, Sum::Crc32c, Some(Sum::Md5)),
            (Checksum::Crc32c, Sum::Crc32c, None),
            (Checksum::Sha256, Sum::Sha256, None),
            (Checksum::Md5, Sum::Md5, None),
            (Checksum::None, Sum::None, None),
        ] {
            let choice = Choice::new(asked);
            assert_eq!(choice.now(), first);
            assert_eq!(choice.after_refusal(first), next, "{asked:?}");
            assert_eq!(choice.now(), next.unwrap_or(first), "{asked:?}");
            assert_eq!(choice.after_refusal(choice.now()), None, "MD5 is the last");
        }
    }

    #[test]
    fn a_wrong_digest_is_no_reason_to_use_another() {
        for (status, code, may) in [
            (400, Some("InvalidRequest"), true),
            (400, Some("InvalidDigest"), true),
            (501, Some("NotImplemented"), true),
            (400, None, true),
            (400, Some("BadDigest"), false),
            (403, Some("AccessDenied"), false),
            (404, Some("NoSuchBucket"), false),
            (503, Some("SlowDown"), false),
        ] {
            assert_eq!(may_be_about_it(Some(status), code), may, "{status} {code:?}");
        }
    }
}
