//! The header blocks of SPDY/3: one zlib stream each way, flushed after each block, and packed with
//! a dictionary if its writer likes.

use bytes::{Buf as _, BufMut as _};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::Broken;

/// The most that one block may unpack to.
const LONGEST: usize = 64 << 10;

/// The names and values of one frame, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::sim::node) struct Headers(pub(super) Vec<(String, String)>);

impl Headers {
    /// The first value of this name. The draft has names in lower case; not all clients do.
    pub(in crate::sim::node) fn get(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// Reads a block that is unpacked: a count, then lengths and texts in turn.
    pub(super) fn read(mut block: &[u8]) -> Option<Self> {
        let count = block.try_get_u32().ok()?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push((text(&mut block)?, text(&mut block)?));
        }
        Some(Self(all))
    }
}

fn text(block: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(block.try_get_u32().ok()?).ok()?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Unpacks the header blocks of one direction: a single zlib stream, flushed after each.
pub(super) struct Inflater {
    state: Box<DecompressorOxide>,
    /// The last 32 KiB of what was unpacked, as a ring; the dictionary is what was "unpacked" first.
    window: Vec<u8>,
    at: usize,
    begun: bool,
}

impl Default for Inflater {
    fn default() -> Self {
        let mut window = dictionary();
        let at = window.len();
        window.resize(32 << 10, 0);
        Self { state: Box::default(), window, at, begun: false }
    }
}

impl Inflater {
    /// The next block.
    pub(super) fn unpack(&mut self, mut block: &[u8]) -> Result<Vec<u8>, Broken> {
        if !self.begun {
            block = after_head(block).ok_or(Broken::Packing)?;
            self.begun = true;
        }
        let mut unpacked = Vec::new();
        loop {
            let (status, read, written) = decompress(
                &mut self.state,
                block,
                &mut self.window,
                self.at,
                TINFL_FLAG_HAS_MORE_INPUT,
            );
            let end = self.at + written;
            unpacked.extend_from_slice(&self.window[self.at..end]);
            if unpacked.len() > LONGEST {
                return Err(Broken::LongHeaders);
            }
            self.at = end % self.window.len();
            block = &block[read..];
            match status {
                TINFLStatus::NeedsMoreInput if block.is_empty() => return Ok(unpacked),
                TINFLStatus::HasMoreOutput => {}
                // It ends with the connection only.
                _ => return Err(Broken::Packing),
            }
        }
    }
}

/// What follows the head of a zlib stream (RFC 1950), with or without the dictionary of SPDY/3.
fn after_head(block: &[u8]) -> Option<&[u8]> {
    let ([method, flags], rest) = block.split_first_chunk()?;
    let sound = method & 0xf == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31);
    if !sound {
        return None;
    }
    if flags & 0x20 == 0 {
        return Some(rest);
    }
    let (of, rest) = rest.split_first_chunk()?;
    (u32::from_be_bytes(*of) == DICTIONARY).then_some(rest)
}

/// The Adler-32 of the dictionary, by which a stream names it.
pub(super) const DICTIONARY: u32 = 0xe3c6_a7c2;

/// The words of the dictionary, each of which stands behind its length.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding \
    accept-language accept-ranges age allow authorization cache-control connection content-base \
    content-encoding content-language content-length content-location content-md5 content-range \
    content-type date etag expect expires from host if-match if-modified-since if-none-match \
    if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url \
    public set-cookie keep-alive origin";

/// What follows them.
const TAIL: &str = "1001012012022052063003023033043053063074024054064074084094104114124134144154\
    16417502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad \
    Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not \
    Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,\
    deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

pub(super) fn dictionary() -> Vec<u8> {
    let mut all = Vec::with_capacity(32 << 10);
    for word in WORDS.split(' ') {
        all.put_u32(u32::try_from(word.len()).unwrap_or_default());
        all.put_slice(word.replace('_', " ").as_bytes());
    }
    all.put_slice(TAIL.as_bytes());
    all
}

/// A part of a zlib stream with these bytes as they are, flushed: no dictionary is needed to read
/// it, and nothing that matters is lost, since there is next to nothing to pack.
pub(super) fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for bytes in [bytes, &[]] {
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        out.put_u8(0);
        out.put_u16_le(length);
        out.put_u16_le(!length);
        out.put_slice(&bytes[..usize::from(length)]);
    }
    out
}
