//! What a member sends as its snapshot, message by message, held to the protocol's rules.
//!
//! The rules are those of etcd's `Maintenance.Snapshot` (server/etcdserver/api/v3rpc/
//! maintenance.go, 3.4 to 3.7): every message carries some bytes and how many remain after
//! it; after the last of them comes one more message with the 32-byte SHA-256 of all, and the
//! stream ends. etcd's own client only looks at the length; a member that fails half-way may go on
//! sending empty messages without end.

use sha2::{Digest as _, Sha256};

/// The length of the checksum that follows the data, in bytes.
pub const TRAILER: usize = 32;

/// What is wrong with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The first message said that there is nothing.
    #[error("it is empty")]
    Nothing,
    /// The first message announced more than can be.
    #[error("it announces an impossible size")]
    Size,
    /// A message without bytes while bytes remain: the member could not read on.
    #[error("the member stopped reading its own database with {left} bytes to go")]
    Blank {
        /// Bytes that were still announced.
        left: u64,
    },
    /// A message with more bytes than were announced.
    #[error("more data than announced: {got} bytes where {left} were left")]
    TooMuch {
        /// Bytes that were still announced.
        left: u64,
        /// Bytes that came.
        got: usize,
    },
    /// The count of what remains does not fall by what came.
    #[error("the count of what remains is wrong: {said} instead of {wanted}")]
    Remainder {
        /// What should remain.
        wanted: u64,
        /// What the message says.
        said: u64,
    },
    /// The checksum does not have 32 bytes.
    #[error("its checksum has {0} bytes instead of {TRAILER}")]
    TrailerLength(usize),
    /// The checksum is that of other data.
    #[error("its SHA-256 does not fit the data: it was damaged on the way or at the member")]
    Digest,
    /// Something follows the checksum.
    #[error("something follows its checksum")]
    Extra,
    /// The stream ended before its data did.
    #[error("it ended early, with {left} bytes to go")]
    Early {
        /// Bytes that were still announced.
        left: u64,
    },
    /// The stream ended without any message.
    #[error("it ended before it began")]
    NeverBegan,
    /// All data came and no checksum.
    #[error("its checksum is missing")]
    NoTrailer,
}

/// What a message meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Its bytes are the snapshot's next.
    Data,
    /// It was the checksum, and that fits; only the end of the stream may follow.
    Complete,
}

/// Follows one stream and computes its SHA-256.
///
/// What is wrong once stays wrong: after an error every call gives the same one.
#[derive(Debug, Default)]
pub struct Receiver {
    sha256: Sha256,
    total: Option<u64>,
    state: State,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Start,
    Data {
        left: u64,
    },
    Trailer,
    Done([u8; TRAILER]),
    Failed(Malformed),
}

impl Receiver {
    /// Before the first message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The snapshot's size in bytes, without the checksum; known after the first message.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// The SHA-256 of the data, once the member's own was found to be the same.
    #[must_use]
    pub fn digest(&self) -> Option<[u8; TRAILER]> {
        match self.state {
            State::Done(digest) => Some(digest),
            _ => None,
        }
    }

    /// Takes one message: its bytes and how many it says remain after them.
    ///
    /// # Errors
    /// The message breaks a rule of the protocol.
    pub fn feed(&mut self, remaining: u64, blob: &[u8]) -> Result<Event, Malformed> {
        let next = match self.state {
            State::Start => self.first(remaining, blob),
            State::Data { left } => self.more(left, remaining, blob),
            State::Trailer => self.trailer(remaining, blob),
            State::Done(_) => Err(Malformed::Extra),
            State::Failed(malformed) => Err(malformed),
        };
        self.state = next.unwrap_or_else(State::Failed);
        next.map(|state| match state {
            State::Done(_) => Event::Complete,
            _ => Event::Data,
        })
    }

    /// Takes the orderly end of the stream and gives the SHA-256.
    ///
    /// # Errors
    /// The stream may not end here.
    pub fn end(&mut self) -> Result<[u8; TRAILER], Malformed> {
        let malformed = match self.state {
            State::Done(digest) => return Ok(digest),
            State::Start => Malformed::NeverBegan,
            State::Data { left } => Malformed::Early { left },
            State::Trailer => Malformed::NoTrailer,
            State::Failed(malformed) => malformed,
        };
        self.state = State::Failed(malformed);
        Err(malformed)
    }

    fn first(&mut self, remaining: u64, blob: &[u8]) -> Result<State, Malformed> {
        let total = remaining.checked_add(blob.len() as u64).ok_or(Malformed::Size)?;
        if total == 0 {
            return Err(Malformed::Nothing);
        }
        let state = self.more(total, remaining, blob)?;
        self.total = Some(total);
        Ok(state)
    }

    fn more(&mut self, left: u64, remaining: u64, blob: &[u8]) -> Result<State, Malformed> {
        if blob.is_empty() {
            return Err(Malformed::Blank { left });
        }
        let wanted = left
            .checked_sub(blob.len() as u64)
            .ok_or(Malformed::TooMuch { left, got: blob.len() })?;
        if remaining != wanted {
            return Err(Malformed::Remainder { wanted, said: remaining });
        }
        self.sha256.update(blob);
        Ok(if wanted == 0 { State::Trailer } else { State::Data { left: wanted } })
    }

    fn trailer(&mut self, remaining: u64, blob: &[u8]) -> Result<State, Malformed> {
        if blob.len() != TRAILER {
            return Err(Malformed::TrailerLength(blob.len()));
        }
        if remaining != 0 {
            return Err(Malformed::Remainder { wanted: 0, said: remaining });
        }
        let digest: [u8; TRAILER] = self.sha256.finalize_reset().into();
        if blob == digest { Ok(State::Done(digest)) } else { Err(Malformed::Digest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256(data: &[u8]) -> Vec<u8> {
        Sha256::digest(data).to_vec()
    }

    /// Feeds messages until one is refused, then ends the stream.
    fn run(messages: &[(u64, Vec<u8>)]) -> Result<[u8; TRAILER], (usize, Malformed)> {
        let mut receiver = Receiver::new();
        for (index, (remaining, blob)) in messages.iter().enumerate() {
            if let Err(malformed) = receiver.feed(*remaining, blob) {
                assert_eq!(receiver.feed(0, b"x"), Err(malformed), "an error is for good");
                assert_eq!(receiver.end(), Err(malformed), "an error is for good");
                assert_eq!(receiver.digest(), None);
                return Err((index, malformed));
            }
        }
        let ended = receiver.end();
        assert_eq!(receiver.end(), ended, "the end is for good");
        assert_eq!(receiver.digest(), ended.ok());
        ended.map_err(|malformed| (messages.len(), malformed))
    }

    fn good(parts: &[&[u8]]) -> Vec<(u64, Vec<u8>)> {
        let all = parts.concat();
        let mut left = all.len() as u64;
        let mut messages = Vec::new();
        for part in parts {
            left -= part.len() as u64;
            messages.push((left, part.to_vec()));
        }
        messages.push((0, sha256(&all)));
        messages
    }

    #[test]
    fn whole_streams_end_well_however_they_are_cut() {
        for parts in [
            &[b"a".as_slice()][..],
            &[b"ab", b"c"],
            &[b"a", b"b", b"c", b"d"],
            // As long as a checksum, and yet data.
            &[&[7; 32]],
            &[&[7; 32], &[8; 32]],
            &[&[0; 4096], &[1; 4096], &[2; 1]],
        ] {
            let digest = run(&good(parts)).unwrap();
            assert_eq!(digest.to_vec(), sha256(&parts.concat()));
        }
    }

    #[test]
    fn the_size_is_known_from_the_first_message_on() {
        let mut receiver = Receiver::new();
        assert_eq!(receiver.total(), None);
        assert_eq!(receiver.feed(5, b"abc"), Ok(Event::Data));
        assert_eq!(receiver.total(), Some(8));
        assert_eq!(receiver.feed(0, b"defgh"), Ok(Event::Data));
        assert_eq!(receiver.feed(0, &sha256(b"abcdefgh")), Ok(Event::Complete));
        assert_eq!(receiver.total(), Some(8));
    }

    /// What it is, the messages, which of them is refused, and why.
    type Row = (&'static str, Vec<(u64, Vec<u8>)>, usize, Malformed);

    fn hold(rows: Vec<Row>) {
        for (name, messages, at, malformed) in rows {
            assert_eq!(run(&messages), Err((at, malformed)), "{name}");
        }
    }

    fn blob(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn every_break_of_the_rules_before_the_checksum_is_told_apart() {
        let sum = sha256;
        hold(vec![
            ("no message", vec![], 0, Malformed::NeverBegan),
            ("nothing", vec![(0, vec![])], 0, Malformed::Nothing),
            ("blank at once", vec![(9, vec![])], 0, Malformed::Blank { left: 9 }),
            ("too large to be", vec![(u64::MAX, blob("a"))], 0, Malformed::Size),
            ("only a checksum", vec![(0, sum(b""))], 1, Malformed::NoTrailer),
            ("blank later", vec![(2, blob("a")), (2, vec![])], 1, Malformed::Blank { left: 2 }),
            (
                "blank, saying that all is done",
                vec![(2, blob("a")), (0, vec![])],
                1,
                Malformed::Blank { left: 2 },
            ),
            (
                "remainder does not fall",
                vec![(2, blob("a")), (2, blob("b"))],
                1,
                Malformed::Remainder { wanted: 1, said: 2 },
            ),
            (
                "remainder falls too fast",
                vec![(3, blob("a")), (0, blob("b"))],
                1,
                Malformed::Remainder { wanted: 2, said: 0 },
            ),
            (
                "remainder grows",
                vec![(3, blob("a")), (u64::MAX, blob("b"))],
                1,
                Malformed::Remainder { wanted: 2, said: u64::MAX },
            ),
            (
                "more than announced",
                vec![(2, blob("a")), (0, blob("bcd"))],
                1,
                Malformed::TooMuch { left: 2, got: 3 },
            ),
            (
                "the checksum comes early",
                vec![(40, blob("a")), (40, sum(b"a"))],
                1,
                Malformed::Remainder { wanted: 8, said: 40 },
            ),
            (
                "the checksum comes early and is longer than what is left",
                vec![(2, blob("a")), (0, sum(b"a"))],
                1,
                Malformed::TooMuch { left: 2, got: 32 },
            ),
            ("ends early", vec![(2, blob("a"))], 1, Malformed::Early { left: 2 }),
            ("no checksum", vec![(1, blob("a")), (0, blob("b"))], 2, Malformed::NoTrailer),
        ]);
    }

    #[test]
    fn every_break_of_the_rules_from_the_checksum_on_is_told_apart() {
        let sum = sha256;
        let wrong = |mut sum: Vec<u8>, at: usize| {
            sum[at] ^= 1;
            sum
        };
        hold(vec![
            ("blank checksum", vec![(0, blob("a")), (0, vec![])], 1, Malformed::TrailerLength(0)),
            (
                "short checksum",
                vec![(0, blob("a")), (0, sum(b"a")[..31].to_vec())],
                1,
                Malformed::TrailerLength(31),
            ),
            (
                "long checksum",
                vec![(0, blob("a")), (0, [sum(b"a"), blob("x")].concat())],
                1,
                Malformed::TrailerLength(33),
            ),
            (
                "extra data in place of the checksum",
                vec![(0, blob("a")), (0, vec![0; 32_768])],
                1,
                Malformed::TrailerLength(32_768),
            ),
            ("data and no checksum", vec![(0, blob("a")), (0, vec![0; 32])], 1, Malformed::Digest),
            ("first bit", vec![(0, blob("a")), (0, wrong(sum(b"a"), 0))], 1, Malformed::Digest),
            ("last bit", vec![(0, blob("a")), (0, wrong(sum(b"a"), 31))], 1, Malformed::Digest),
            (
                "a checksum with a remainder",
                vec![(0, blob("a")), (1, sum(b"a"))],
                1,
                Malformed::Remainder { wanted: 0, said: 1 },
            ),
            (
                "parts swapped",
                vec![(1, blob("b")), (0, blob("a")), (0, sum(b"ab"))],
                2,
                Malformed::Digest,
            ),
            (
                "a part twice",
                vec![(1, blob("a")), (0, blob("a")), (0, sum(b"ab"))],
                2,
                Malformed::Digest,
            ),
            (
                "data after the checksum",
                vec![(0, blob("a")), (0, sum(b"a")), (0, blob("b"))],
                2,
                Malformed::Extra,
            ),
            (
                "the checksum twice",
                vec![(0, blob("a")), (0, sum(b"a")), (0, sum(b"a"))],
                2,
                Malformed::Extra,
            ),
            (
                "blank after the checksum",
                vec![(0, blob("a")), (0, sum(b"a")), (0, vec![])],
                2,
                Malformed::Extra,
            ),
        ]);
    }

    #[test]
    fn a_whole_stream_cut_anywhere_or_with_any_bit_flipped_is_refused() {
        let whole = good(&[b"abcd", b"efgh", b"ij"]);
        for length in 0..whole.len() {
            assert!(run(&whole[..length]).is_err(), "cut after {length} messages");
        }
        for at in 0..whole.len() {
            for byte in 0..whole[at].1.len() {
                for bit in 0..8 {
                    let mut messages = whole.clone();
                    messages[at].1[byte] ^= 1 << bit;
                    assert!(run(&messages).is_err(), "message {at}, byte {byte}, bit {bit}");
                }
                let mut messages = whole.clone();
                messages[at].1.remove(byte);
                assert!(run(&messages).is_err(), "message {at} without byte {byte}");
            }
            for bit in 0..64 {
                let mut messages = whole.clone();
                messages[at].0 ^= 1 << bit;
                assert!(run(&messages).is_err(), "message {at}, remainder's bit {bit}");
            }
            let mut messages = whole.clone();
            messages.remove(at);
            assert!(run(&messages).is_err(), "without message {at}");
            let mut messages = whole.clone();
            messages.insert(at, whole[at].clone());
            assert!(run(&messages).is_err(), "message {at} twice");
        }
    }

    #[test]
    fn only_the_right_order_is_taken() {
        let whole = good(&[b"abc", b"def", b"gh"]);
        let mut taken = Vec::new();
        for order in permutations(whole.len()) {
            let messages: Vec<_> = order.iter().map(|at| whole[*at].clone()).collect();
            if run(&messages).is_ok() {
                taken.push(order);
            }
        }
        assert_eq!(taken, [[0, 1, 2, 3]]);
    }

    fn permutations(length: usize) -> Vec<Vec<usize>> {
        if length == 0 {
            return vec![vec![]];
        }
        let shorter = permutations(length - 1);
        let insert = |order: &Vec<usize>| {
            (0..length).map(|at| [&order[..at], &[length - 1], &order[at..]].concat()).collect()
        };
        shorter.iter().flat_map(|order| -> Vec<Vec<usize>> { insert(order) }).collect()
    }
}
