//! The frames of SPDY/3.1, as bytes: what a server reads of a client, and what it answers.
//!
//! Pure: no socket, no clock. It follows the published draft ("SPDY Protocol, draft 3.1"); what
//! is left out (settings, windows, priorities, streams of the server's own) is what Kubernetes'
//! clients neither use nor wait for. Every length that the other side names is bounded before
//! anything is kept for it, and no bytes make it panic.

mod headers;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

pub(super) use headers::Headers;
use headers::{Inflater, stored};

/// The longest control frame that is read. Those that open a stream have about 100 bytes.
const LONGEST_CONTROL: usize = 16 << 10;

/// What 24 bits can say: the longest data frame.
const LONGEST_DATA: usize = (1 << 24) - 1;

/// The bit that tells control frames from data, and the version.
const CONTROL: u32 = 0x8003_0000;
const VERSION: u16 = 3;

/// Of a stream's last frame.
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// Why a stream is reset, in the draft's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It breaks the protocol.
    ProtocolError = 1,
    /// It is not taken on.
    RefusedStream = 3,
}

/// A frame of the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// A stream begins, and ends for the client if `fin`.
    SynStream { stream: u32, fin: bool, headers: Headers },
    /// Some of a stream's bytes: a long frame comes in pieces, of which the last carries `fin`.
    Data { stream: u32, fin: bool, bytes: Bytes },
    /// A stream ends for both sides.
    Reset { stream: u32 },
    /// To be sent back as it is.
    Ping { id: u32 },
    /// No more streams will begin.
    GoAway,
    /// One that a server may pass over.
    Other,
}

/// What ends a connection, since nothing that follows could be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("a frame of SPDY version {0} where 3 is spoken")]
    Version(u16),
    #[error("a control frame of {0} bytes")]
    Long(usize),
    #[error("a control frame of type {0} that is too short")]
    Short(u16),
    #[error("headers that do not unpack")]
    Packing,
    #[error("headers that unpack to more than 64 KiB")]
    LongHeaders,
    #[error("headers that are cut off")]
    Headers,
}

/// Finds frames in what arrives, however it is cut.
#[derive(Default)]
pub(super) struct Decoder {
    buffer: BytesMut,
    /// The data frame whose bytes still come.
    within: Option<Within>,
    inflater: Inflater,
}

#[derive(Clone, Copy)]
struct Within {
    stream: u32,
    fin: bool,
    left: usize,
}

impl Decoder {
    /// Takes what has arrived.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, once it is there.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        if let Some(within) = self.within {
            return Ok(self.piece(within));
        }
        let Some((mut head, _)) = self.buffer.split_at_checked(8) else { return Ok(None) };
        let (word, flags) = (head.get_u32(), head.get_u8());
        let length = head.get_uint(3);
        let length = usize::try_from(length).unwrap_or(LONGEST_DATA);
        let fin = flags & FIN != 0;
        if word & 0x8000_0000 == 0 {
            self.buffer.advance(8);
            return Ok(self.piece(Within { stream: word, fin, left: length }));
        }
        let [version, kind] = [(word >> 16) & 0x7fff, word & 0xffff].map(low);
        if version != VERSION {
            return Err(Broken::Version(version));
        }
        if length > LONGEST_CONTROL {
            return Err(Broken::Long(length));
        }
        if self.buffer.len() < 8 + length {
            return Ok(None);
        }
        self.buffer.advance(8);
        let body = self.buffer.split_to(length);
        self.control(kind, fin, &body).map(Some)
    }

    /// What has come of a data frame, even if it is not all.
    fn piece(&mut self, of: Within) -> Option<Frame> {
        let length = of.left.min(self.buffer.len());
        let left = of.left - length;
        self.within = (left > 0).then_some(Within { left, ..of });
        let bytes = self.buffer.split_to(length).freeze();
        let nothing = bytes.is_empty() && left > 0;
        (!nothing).then_some(Frame::Data { stream: of.stream, fin: of.fin && left == 0, bytes })
    }

    fn control(&mut self, kind: u16, fin: bool, mut body: &[u8]) -> Result<Frame, Broken> {
        let short = Broken::Short(kind);
        if !matches!(kind, SYN_STREAM | SYN_REPLY | RST_STREAM | PING | GOAWAY | HEADERS) {
            return Ok(Frame::Other);
        }
        let id = body.try_get_u32().map_err(|_| short)?;
        let stream = id & 0x7fff_ffff;
        Ok(match kind {
            SYN_STREAM => {
                // Another stream, a priority and a slot come between.
                let block = body.get(6..).ok_or(short)?;
                Frame::SynStream { stream, fin, headers: self.headers(block)? }
            }
            SYN_REPLY => {
                self.headers(body)?;
                Frame::Other
            }
            HEADERS => {
                // They tell a server nothing, but may be the last of their stream.
                self.headers(body)?;
                Frame::Data { stream, fin, bytes: Bytes::new() }
            }
            RST_STREAM => Frame::Reset { stream },
            PING => Frame::Ping { id },
            _ => Frame::GoAway,
        })
    }

    fn headers(&mut self, block: &[u8]) -> Result<Headers, Broken> {
        Headers::read(&self.inflater.unpack(block)?).ok_or(Broken::Headers)
    }
}

/// Sixteen bits of a word that has no more.
fn low(word: u32) -> u16 {
    u16::try_from(word).unwrap_or(u16::MAX)
}

/// Makes the replies of one connection, which have to be sent in the order they are made.
#[derive(Default)]
pub(super) struct Replies {
    begun: bool,
}

impl Replies {
    /// The stream is taken on; there are no headers to tell.
    pub(super) fn reply(&mut self, stream: u32) -> Bytes {
        let mut block = Vec::new();
        if !self.begun {
            block.put_u16(0x7801);
            self.begun = true;
        }
        block.put_slice(&stored(&0_u32.to_be_bytes()));
        let mut out = BytesMut::new();
        head(&mut out, CONTROL | u32::from(SYN_REPLY), 0, 4 + block.len());
        out.put_u32(stream);
        out.put_slice(&block);
        out.freeze()
    }
}

/// Some bytes of a stream: one frame, or several where one cannot hold them.
pub(super) fn data(stream: u32, fin: bool, bytes: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(8 + bytes.len());
    let (mut piece, mut rest) = bytes.split_at(bytes.len().min(LONGEST_DATA));
    loop {
        head(&mut out, stream, u8::from(fin && rest.is_empty()), piece.len());
        out.put_slice(piece);
        if rest.is_empty() {
            return out.freeze();
        }
        (piece, rest) = rest.split_at(rest.len().min(LONGEST_DATA));
    }
}

/// The stream ends for both sides.
pub(super) fn reset(stream: u32, why: Status) -> Bytes {
    numbers(RST_STREAM, &[stream, why as u32])
}

/// A ping, sent back.
pub(super) fn ping(id: u32) -> Bytes {
    numbers(PING, &[id])
}

/// The connection ends for an error of the other side's, after the stream `last`.
pub(super) fn broken(last: u32) -> Bytes {
    numbers(GOAWAY, &[last, 1])
}

fn numbers(kind: u16, words: &[u32]) -> Bytes {
    let mut out = BytesMut::new();
    head(&mut out, CONTROL | u32::from(kind), 0, 4 * words.len());
    for word in words {
        out.put_u32(*word);
    }
    out.freeze()
}

/// `length` has 24 bits at most.
fn head(out: &mut BytesMut, word: u32, flags: u8, length: usize) {
    out.put_u32(word);
    out.put_u8(flags);
    out.put_uint(length as u64, 3);
}

/// The other side's frames, for tests.
#[cfg(test)]
pub(super) mod client {
    use super::*;

    /// Opens the streams of one connection.
    #[derive(Default)]
    pub(in crate::sim::node) struct Opener {
        begun: bool,
    }

    impl Opener {
        pub(in crate::sim::node) fn open(&mut self, stream: u32, of: &[(&str, &str)]) -> Vec<u8> {
            let mut headers = Vec::new();
            headers.put_u32(u32::try_from(of.len()).unwrap());
            for text in of.iter().flat_map(|(name, value)| [name, value]) {
                headers.put_u32(u32::try_from(text.len()).unwrap());
                headers.put_slice(text.as_bytes());
            }
            let mut body = [&stream.to_be_bytes()[..], &[0; 6]].concat();
            if !std::mem::replace(&mut self.begun, true) {
                body.put_u16(0x7801);
            }
            body.put_slice(&stored(&headers));
            control(SYN_STREAM, 0, &body)
        }
    }

    pub(in crate::sim::node) fn control(kind: u16, flags: u8, body: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        head(&mut out, CONTROL | u32::from(kind), flags, body.len());
        out.put_slice(body);
        out.to_vec()
    }

    pub(in crate::sim::node) fn goes_away() -> Vec<u8> {
        control(GOAWAY, 0, &[0; 8])
    }
}

#[cfg(test)]
mod tests;
