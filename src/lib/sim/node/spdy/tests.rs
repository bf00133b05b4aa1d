//! Frames as Kubernetes' clients write them, and frames that nobody should.

use proptest::collection::vec;
use proptest::prelude::*;

use super::client::{Opener, control};
use super::headers::{DICTIONARY, dictionary};
use super::*;

fn all(decoder: &mut Decoder) -> Result<Vec<Frame>, Broken> {
    std::iter::from_fn(|| decoder.next().transpose()).collect()
}

fn read(bytes: &[u8]) -> Result<Vec<Frame>, Broken> {
    let mut decoder = Decoder::default();
    decoder.feed(bytes);
    all(&mut decoder)
}

fn headers(of: &[(&str, &str)]) -> Headers {
    Headers(of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// What a client in Go (moby/spdystream 0.5.1) writes on one connection, with what it means. Its
/// headers are packed with the dictionary, and each block refers to those before it.
fn of_go() -> Vec<(&'static str, Frame)> {
    let syn =
        |stream, fin, of: &[(&str, &str)]| Frame::SynStream { stream, fin, headers: headers(of) };
    let data = |fin, bytes: &'static [u8]| Frame::Data {
        stream: 3,
        fin,
        bytes: Bytes::from_static(bytes),
    };
    let pair = |kind| [("streamtype", kind), ("port", "2379"), ("requestid", "0")];
    vec![
        (
            "800300010000003e0000000100000000000078f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb\
             45e01c60646c6ec9c0c0c0590489c64c50f2663400000000ffff",
            syn(1, false, &pair("error")),
        ),
        (
            "800300010000001800000003000000000000c2aa19540e2512d60b000000ffff",
            syn(3, false, &pair("data")),
        ),
        (
            "800300010100001400000005000000000000a2c4624300000000ffff",
            syn(5, true, &[("streamtype", "error"), ("port", "2379"), ("requestid", "1")]),
        ),
        (
            "800300010000001b000000070000000000000211d8cb7d1e507030408303000000ffff",
            syn(7, false, &[("accept-encoding", "gzip\0deflate")]),
        ),
        ("800300080000001200000003822a63ac6060606000000000ffff", data(false, b"")),
        ("000000030000000568656c6c6f", data(false, b"hello")),
        ("0000000301000000", data(true, b"")),
        ("800300060000000400000005", Frame::Ping { id: 5 }),
        ("80030003000000080000000300000005", Frame::Reset { stream: 3 }),
        ("80030007000000080000000700000001", Frame::GoAway),
        ("80030009000000080000000300010000", Frame::Other),
        ("800300040000000c000000010000000700010000", Frame::Other),
    ]
}

#[test]
fn what_go_writes_is_understood() {
    let mut decoder = Decoder::default();
    for (hexadecimal, meant) in of_go() {
        decoder.feed(&hex::decode(hexadecimal).unwrap());
        assert_eq!(all(&mut decoder).unwrap(), [meant], "{hexadecimal}");
    }
}

#[test]
fn the_dictionary_is_the_one_of_the_draft() {
    let (mut one, mut two) = (1_u32, 0_u32);
    for byte in dictionary() {
        one = (one + u32::from(byte)) % 65521;
        two = (two + one) % 65521;
    }
    assert_eq!((dictionary().len(), (two << 16) | one), (1423, DICTIONARY));
}

#[test]
fn answers_are_bytes_of_the_draft() {
    let mut replies = Replies::default();
    let packed = "000400fbff00000000000000ffff";
    for (frame, bytes) in [
        (replies.reply(1), format!("800300020000001400000001{}{packed}", "7801")),
        (replies.reply(3), format!("800300020000001200000003{packed}")),
        (data(3, false, b"hello"), "000000030000000568656c6c6f".to_owned()),
        (data(3, true, b""), "0000000301000000".to_owned()),
        (ping(5), "800300060000000400000005".to_owned()),
        (reset(3, Status::RefusedStream), "80030003000000080000000300000003".to_owned()),
        (broken(7), "80030007000000080000000700000001".to_owned()),
    ] {
        assert_eq!(hex::encode(frame), bytes);
    }
}

#[test]
fn more_than_a_frame_can_hold_goes_in_several() {
    let whole = vec![7; LONGEST_DATA + 5];
    let sent = data(9, true, &whole);
    assert_eq!(sent.len(), whole.len() + 16);
    assert_eq!(sent[..8], [0, 0, 0, 9, 0, 0xff, 0xff, 0xff]);
    assert_eq!(sent[8 + LONGEST_DATA..][..8], [0, 0, 0, 9, 1, 0, 0, 5]);
}

/// A header block of 14 KiB that unpacks to 2 MiB: a run of one byte, at 13 bits for 258 of them.
fn bomb() -> Vec<u8> {
    // A fixed block: a literal zero, then (length 258, distance 1) again and again.
    let mut bits = vec![0, 1, 0];
    bits.extend([0, 0, 1, 1, 0, 0, 0, 0]);
    for _ in 0..9_000 {
        bits.extend([1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0]);
    }
    let packed = bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |sum, bit| (sum << 1) | bit));
    [0x78, 0x01].into_iter().chain(packed).collect()
}

#[test]
fn what_cannot_be_understood_ends_the_connection() {
    let syn =
        |block: &[u8]| control(SYN_STREAM, 0, &[&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], block].concat());
    let plain = |bytes: &[u8]| syn(&[&[0x78, 0x01], &stored(bytes)[..]].concat());
    for (bytes, why) in [
        (b"\x80\x02\x00\x01\x00\x00\x00\x00".to_vec(), Broken::Version(2)),
        // As soon as the length is known: nothing of it is waited for.
        (b"\x80\x03\x00\x01\x00\x00\x40\x01".to_vec(), Broken::Long(16385)),
        (b"GET / HT".iter().map(|byte| byte | 0x80).collect(), Broken::Version(0x47c5)),
        (control(PING, 0, &[0; 3]), Broken::Short(PING)),
        (control(SYN_STREAM, 0, &[0; 9]), Broken::Short(SYN_STREAM)),
        (syn(&[]), Broken::Packing),
        (syn(&[0x78, 0x02]), Broken::Packing),
        (syn(&[0x78, 0xf9, 1, 2, 3, 4]), Broken::Packing),
        (syn(&[0x78, 0x01, 0x07]), Broken::Packing),
        (syn(&bomb()), Broken::LongHeaders),
        (plain(&[]), Broken::Headers),
        (plain(&[0, 0, 0, 1, 0, 0, 0, 9, b'x']), Broken::Headers),
        (plain(&[0xff; 4]), Broken::Headers),
        (plain(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), Broken::Headers),
    ] {
        assert_eq!(read(&bytes), Err(why), "{}", hex::encode(&bytes[..bytes.len().min(40)]));
    }
}

#[test]
fn the_window_of_the_headers_goes_round() {
    let (mut opener, mut decoder) = (Opener::default(), Decoder::default());
    for number in 0..200_u32 {
        let value = format!("{number:0>700}");
        decoder.feed(&opener.open(number, &[("x", &value)]));
        let [Frame::SynStream { headers, .. }] = &all(&mut decoder).unwrap()[..] else { panic!() };
        assert_eq!(headers.get("X"), Some(value.as_str()));
    }
}

#[derive(Debug, Clone)]
enum Sent {
    Open(u32, Vec<(String, String)>),
    Data(u32, bool, Vec<u8>),
    Ping(u32),
    Reset(u32),
}

fn sent() -> impl Strategy<Value = Sent> {
    let stream = 1..100_u32;
    prop_oneof![
        (stream.clone(), vec(("[a-z]{1,9}", "[ -~]{0,40}"), 0..5))
            .prop_map(|(stream, headers)| Sent::Open(stream, headers)),
        (stream.clone(), any::<bool>(), vec(any::<u8>(), 0..300))
            .prop_map(|(stream, fin, bytes)| Sent::Data(stream, fin, bytes)),
        any::<u32>().prop_map(Sent::Ping),
        stream.prop_map(Sent::Reset),
    ]
}

impl Sent {
    fn bytes(&self, opener: &mut Opener) -> Vec<u8> {
        match self {
            Self::Open(stream, of) => {
                let of: Vec<_> = of.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                opener.open(*stream, &of)
            }
            Self::Data(stream, fin, bytes) => data(*stream, *fin, bytes).to_vec(),
            Self::Ping(id) => ping(*id).to_vec(),
            Self::Reset(stream) => reset(*stream, Status::ProtocolError).to_vec(),
        }
    }

    fn meant(&self) -> Frame {
        match self.clone() {
            Self::Open(stream, of) => Frame::SynStream { stream, fin: false, headers: Headers(of) },
            Self::Data(stream, fin, bytes) => Frame::Data { stream, fin, bytes: bytes.into() },
            Self::Ping(id) => Frame::Ping { id },
            Self::Reset(stream) => Frame::Reset { stream },
        }
    }
}

/// Joins the pieces of a data frame: all but the last are without FIN, and none follows a whole.
fn joined(frames: Vec<Frame>, whole: &[Frame]) -> Vec<Frame> {
    let mut pieces = frames.into_iter().peekable();
    let join = |meant: &Frame| {
        let Frame::Data { bytes: all, .. } = meant else { return pieces.next() };
        let Some(Frame::Data { stream, mut fin, bytes }) = pieces.next() else { return None };
        let mut got = bytes.to_vec();
        while got.len() < all.len() {
            let Some(Frame::Data { fin: last, bytes, .. }) = pieces.next() else { return None };
            assert!(!fin, "what follows the end");
            (fin, got) = (last, [got, bytes.to_vec()].concat());
        }
        Some(Frame::Data { stream, fin, bytes: got.into() })
    };
    let mut frames: Vec<Frame> = whole.iter().map_while(join).collect();
    frames.extend(pieces);
    frames
}

proptest! {
    #[test]
    fn however_it_is_cut_the_same_frames_arrive(
        sent in vec(sent(), 1..12),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut opener = Opener::default();
        let bytes: Vec<u8> = sent.iter().flat_map(|one| one.bytes(&mut opener)).collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        for ends in at.windows(2) {
            decoder.feed(&bytes[ends[0]..ends[1]]);
            frames.extend(all(&mut decoder).unwrap());
        }
        let meant: Vec<Frame> = sent.iter().map(Sent::meant).collect();
        prop_assert_eq!(joined(frames, &meant), meant);
    }

    #[test]
    fn no_bytes_are_too_much(bytes in vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_control_frame_is_too_much(
        kind in 0..12_u16,
        flags in any::<u8>(),
        body in vec(any::<u8>(), 0..400),
    ) {
        let _ = read(&control(kind, flags, &body));
    }

    #[test]
    fn no_headers_are_too_much(packed in vec(any::<u8>(), 0..400)) {
        let body = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x78, 0x01], &packed[..]].concat();
        let bytes = control(SYN_STREAM, 0, &body);
        let _ = read(&[bytes.clone(), bytes].concat());
    }
}
