//! One client's session of port forwarding: its streams, and the connections they are joined to.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::spdy::{self, Broken, Decoder, Frame, Headers, Replies, Status};
use super::Dial;

/// How much is read at once.
const PIECE: usize = 16 << 10;

/// How many pieces wait for a connection, and how many frames for the client.
const WAITING: usize = 4;

/// How many streams may be open at once; what they hold is bounded by it.
const STREAMS: usize = 1024;

/// Serves a client until it leaves or breaks the protocol.
pub(super) async fn run(io: impl AsyncRead + AsyncWrite, pod: String, dial: Dial) {
    let (read, write) = tokio::io::split(io);
    let (out, frames) = channel(WAITING);
    let session = Session {
        pod: pod.into(),
        dial,
        out,
        replies: Replies::default(),
        newest: 0,
        leaving: false,
        open: HashMap::new(),
        halves: HashMap::new(),
        joined: JoinSet::new(),
    };
    let mut writing = std::pin::pin!(send(frames, write));
    tokio::select! {
        // With the session all go who could still send: what was sent before goes out.
        () = session.listen(read) => writing.await,
        () = &mut writing => {}
    }
}

/// Sends frames until nobody is left who makes them, or the client takes none.
async fn send(mut frames: Receiver<Bytes>, mut to: impl AsyncWrite + Unpin) {
    while let Some(frame) = frames.recv().await {
        let sent = to.write_all(&frame).await.is_ok();
        if !sent || (frames.is_empty() && to.flush().await.is_err()) {
            return;
        }
    }
    let _ = to.shutdown().await;
}

struct Session {
    pod: Arc<str>,
    dial: Dial,
    out: Sender<Bytes>,
    replies: Replies,
    /// The highest stream so far.
    newest: u32,
    /// The client will open no more.
    leaving: bool,
    open: HashMap<u32, Stream>,
    /// By `requestid`: one of a pair whose other has not come yet.
    halves: HashMap<String, Half>,
    /// Give the two streams of a pair back when its connection is over.
    joined: JoinSet<[u32; 2]>,
}

/// A stream that is open.
enum Stream {
    /// The client sends nothing in it that counts.
    Error,
    Data {
        /// Until the client's end.
        to: Option<Sender<Bytes>>,
        /// Ends both ways.
        cut: CancellationToken,
    },
}

enum Half {
    Error(u32),
    Data(Data),
}

impl Half {
    fn is(&self, stream: u32) -> bool {
        match self {
            Self::Error(one) => *one == stream,
            Self::Data(data) => data.stream == stream,
        }
    }
}

struct Data {
    stream: u32,
    port: u16,
    from: Receiver<Bytes>,
    cut: CancellationToken,
}

/// What a stream's headers ask for.
#[derive(Clone, Copy)]
enum Kind {
    Error,
    Data(u16),
}

impl Session {
    async fn listen(mut self, mut from: impl AsyncRead + Unpin) {
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; PIECE];
        loop {
            if let Err(error) = self.heed(&mut decoder).await {
                tracing::debug!(%error, "a client of port forwarding breaks the protocol");
                return self.answer(spdy::broken(self.newest)).await;
            }
            if self.leaving && self.joined.is_empty() {
                return;
            }
            tokio::select! {
                Some(over) = self.joined.join_next() => self.forget(over.unwrap_or_default()),
                read = from.read(&mut buffer) => match read {
                    Ok(read @ 1..) => decoder.feed(&buffer[..read]),
                    _ => return,
                },
            }
        }
    }

    /// Does what the frames say that have come.
    async fn heed(&mut self, decoder: &mut Decoder) -> Result<(), Broken> {
        while let Some(frame) = decoder.next()? {
            match frame {
                Frame::SynStream { stream, fin, headers } => {
                    self.open(stream, fin, &headers).await;
                }
                Frame::Data { stream, fin, bytes } => self.pass(stream, fin, bytes).await,
                Frame::Reset { stream } => self.cut(stream),
                // An even one would be a reply to ours, and we ask nothing.
                Frame::Ping { id } if id % 2 == 1 => self.answer(spdy::ping(id)).await,
                Frame::GoAway => self.leaving = true,
                Frame::Ping { .. } | Frame::Other => {}
            }
        }
        Ok(())
    }

    /// The writer ends before us only if the client takes nothing, which reading tells too.
    async fn answer(&self, frame: Bytes) {
        let _ = self.out.send(frame).await;
    }

    async fn open(&mut self, stream: u32, fin: bool, headers: &Headers) {
        // A client's streams are odd, and their numbers rise.
        if stream.is_multiple_of(2) || stream <= self.newest {
            return self.answer(spdy::reset(stream, Status::ProtocolError)).await;
        }
        self.newest = stream;
        let Some((request, kind)) = self.asked(headers) else {
            return self.answer(spdy::reset(stream, Status::RefusedStream)).await;
        };
        let reply = self.replies.reply(stream);
        self.answer(reply).await;
        let half = self.begin(stream, fin, kind);
        match (self.halves.remove(&request), half) {
            (Some(Half::Error(error)), Half::Data(data))
            | (Some(Half::Data(data)), Half::Error(error)) => self.join(error, data),
            (_, half) => drop(self.halves.insert(request, half)),
        }
    }

    /// The request and the part in it of a new stream, unless it has to be refused.
    fn asked(&self, headers: &Headers) -> Option<(String, Kind)> {
        let request = headers.get("requestid")?;
        let port = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
        let kind = match headers.get("streamtype")? {
            "error" => Kind::Error,
            "data" => Kind::Data(port),
            _ => return None,
        };
        let twice = match self.halves.get(request) {
            Some(Half::Error(_)) => matches!(kind, Kind::Error),
            Some(Half::Data(_)) => matches!(kind, Kind::Data(_)),
            None => false,
        };
        let taken_on = !twice && !self.leaving && self.open.len() < STREAMS;
        taken_on.then(|| (request.to_owned(), kind))
    }

    fn begin(&mut self, stream: u32, fin: bool, kind: Kind) -> Half {
        let (opened, half) = match kind {
            Kind::Error => (Stream::Error, Half::Error(stream)),
            Kind::Data(port) => {
                let (to, from) = channel(WAITING);
                let (to, cut) = ((!fin).then_some(to), CancellationToken::new());
                let data = Data { stream, port, from, cut: cut.clone() };
                (Stream::Data { to, cut }, Half::Data(data))
            }
        };
        self.open.insert(stream, opened);
        half
    }

    /// The pair is whole: its connection is made.
    fn join(&mut self, error: u32, data: Data) {
        let (dial, pod, out) = (Arc::clone(&self.dial), Arc::clone(&self.pod), self.out.clone());
        self.joined.spawn(async move {
            let streams = [error, data.stream];
            forward(error, data, &pod, &dial, &out).await;
            streams
        });
    }

    /// What the client sends in a stream that is over is of no use to anybody.
    async fn pass(&mut self, stream: u32, fin: bool, bytes: Bytes) {
        let waits = self.halves.values().any(|half| half.is(stream));
        let Some(Stream::Data { to, .. }) = self.open.get_mut(&stream) else { return };
        if let Some(sender) = to.as_ref().filter(|_| !bytes.is_empty()) {
            if waits && sender.capacity() == 0 {
                // To wait for room would be to wait for what comes behind these bytes.
                self.cut(stream);
                return self.answer(spdy::reset(stream, Status::RefusedStream)).await;
            }
            let _ = sender.send(bytes).await;
        }
        if fin {
            *to = None;
        }
    }

    fn cut(&mut self, stream: u32) {
        if let Some(Stream::Data { cut, .. }) = self.open.get(&stream) {
            cut.cancel();
        }
        self.halves.retain(|_, half| !half.is(stream));
        self.open.remove(&stream);
    }

    fn forget(&mut self, streams: [u32; 2]) {
        for stream in streams {
            self.open.remove(&stream);
        }
    }
}

/// Carries a pair's connection to its end, and tells the client how it ended.
async fn forward(error: u32, data: Data, pod: &str, dial: &Dial, out: &Sender<Bytes>) {
    let Data { stream, port, from, cut } = data;
    let carried = cut.run_until_cancelled(carry(stream, port, from, dial, out)).await;
    let why = match &carried {
        Some(Err(why)) => format!("error forwarding port {port} to pod {pod}: {why}"),
        _ => String::new(),
    };
    // The client reads the reason before it looks at the end of its data.
    let _ = out.send(spdy::data(error, true, why.as_bytes())).await;
    if let Some(Err(_)) = carried {
        let _ = out.send(spdy::data(stream, true, &[])).await;
    }
}

/// Joins a stream to a connection. Each direction has its own end.
async fn carry(
    stream: u32,
    port: u16,
    from: Receiver<Bytes>,
    dial: &Dial,
    out: &Sender<Bytes>,
) -> io::Result<()> {
    let target = dial(port).await.map_err(|why| {
        io::Error::new(why.kind(), format!("failed to connect to localhost:{port}: {why}"))
    })?;
    // Where that fails, small pieces are only slower.
    let _ = target.set_nodelay(true);
    let (read, write) = target.into_split();
    let towards = async {
        towards(from, write).await;
        Ok(())
    };
    tokio::try_join!(towards, back(stream, read, out)).map(drop)
}

/// From the client to the target. That a target takes no more is no failure: it may have said all
/// that it had to, and if not, its own direction tells.
async fn towards(mut from: Receiver<Bytes>, mut to: OwnedWriteHalf) {
    while let Some(bytes) = from.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

async fn back(stream: u32, mut from: OwnedReadHalf, out: &Sender<Bytes>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer).await?;
        let sent = out.send(spdy::data(stream, read == 0, &buffer[..read])).await;
        if read == 0 || sent.is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use futures_util::FutureExt as _;
    use tokio::io::DuplexStream;
    use tokio::net::{TcpListener, TcpStream};

    use super::super::super::spdy::client::{Opener, control, goes_away};
    use super::*;

    /// A client, and the one target that it can reach.
    struct Client {
        io: DuplexStream,
        opener: Opener,
        decoder: Decoder,
        target: TcpListener,
    }

    impl Client {
        async fn new() -> Self {
            let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let (io, server) = tokio::io::duplex(1 << 10);
            let dial = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).boxed();
            tokio::spawn(run(server, "space/pod".to_owned(), Arc::new(dial)));
            Self { io, opener: Opener::default(), decoder: Decoder::default(), target }
        }

        async fn open(&mut self, stream: u32, of: &[(&str, &str)]) {
            let frame = self.opener.open(stream, of);
            self.io.write_all(&frame).await.unwrap();
        }

        /// Opens one of a pair to a port.
        async fn half(&mut self, stream: u32, kind: &str, request: &str, port: u16) {
            let port = port.to_string();
            let of = [("streamtype", kind), ("requestid", request), ("port", port.as_str())];
            self.open(stream, &of).await;
        }

        /// Opens a whole pair to the target: an error stream 1 and a data stream 3.
        async fn pair(&mut self) -> TcpStream {
            let port = self.port();
            self.half(1, "error", "0", port).await;
            self.half(3, "data", "0", port).await;
            for _ in 0..2 {
                assert_eq!(self.next().await, Some(Frame::Other));
            }
            self.target.accept().await.unwrap().0
        }

        fn port(&self) -> u16 {
            self.target.local_addr().as_ref().map(SocketAddr::port).unwrap()
        }

        async fn data(&mut self, stream: u32, fin: bool, bytes: &[u8]) {
            self.io.write_all(&spdy::data(stream, fin, bytes)).await.unwrap();
        }

        /// What the server sends next; `Other` is a reply.
        async fn next(&mut self) -> Option<Frame> {
            loop {
                if let Some(frame) = self.decoder.next().unwrap() {
                    return Some(frame);
                }
                let mut buffer = [0; 512];
                match self.io.read(&mut buffer).await.unwrap() {
                    0 => return None,
                    read => self.decoder.feed(&buffer[..read]),
                }
            }
        }

        /// All of a stream up to its end; nothing else may come in between.
        async fn rest(&mut self, of: u32) -> String {
            let mut all = Vec::new();
            loop {
                match self.next().await {
                    Some(Frame::Data { stream, fin, bytes }) if stream == of => {
                        all.extend_from_slice(&bytes);
                        if fin {
                            return String::from_utf8(all).unwrap();
                        }
                    }
                    other => panic!("{other:?} in the middle of {of}"),
                }
            }
        }
    }

    #[tokio::test]
    async fn pings_come_back() {
        let mut client = Client::new().await;
        for id in [1, 2, 3] {
            client.io.write_all(&spdy::ping(id)).await.unwrap();
        }
        assert_eq!(client.next().await, Some(Frame::Ping { id: 1 }));
        assert_eq!(client.next().await, Some(Frame::Ping { id: 3 }));
    }

    #[tokio::test]
    async fn each_way_has_its_own_end() {
        let mut client = Client::new().await;
        let mut target = client.pair().await;
        client.data(1, true, b"").await;
        client.data(3, false, b"que").await;
        client.data(3, true, b"stion").await;
        let mut asked = String::new();
        target.read_to_string(&mut asked).await.unwrap();
        assert_eq!(asked, "question");
        target.write_all(b"answer").await.unwrap();
        drop(target);
        assert_eq!(client.rest(3).await, "answer");
        assert_eq!(client.rest(1).await, "");

        let mut client = Client::new().await;
        let mut target = client.pair().await;
        target.write_all(b"answer").await.unwrap();
        target.shutdown().await.unwrap();
        assert_eq!(client.rest(3).await, "answer");
        client.data(3, true, b"late question").await;
        let mut asked = String::new();
        target.read_to_string(&mut asked).await.unwrap();
        assert_eq!(asked, "late question");
        assert_eq!(client.rest(1).await, "");
    }

    #[tokio::test]
    async fn data_may_be_opened_first_and_sent_early() {
        let mut client = Client::new().await;
        let port = client.port();
        client.half(1, "data", "7", port).await;
        client.data(1, true, b"early").await;
        client.half(3, "error", "7", port).await;
        let mut asked = String::new();
        client.target.accept().await.unwrap().0.read_to_string(&mut asked).await.unwrap();
        assert_eq!(asked, "early");
    }

    #[tokio::test]
    async fn data_without_an_error_stream_holds_nobody_up() {
        let mut client = Client::new().await;
        let port = client.port();
        client.half(1, "data", "7", port).await;
        assert_eq!(client.next().await, Some(Frame::Other));
        for _ in 0..=WAITING {
            client.data(1, false, &[7; 700]).await;
        }
        assert_eq!(client.next().await, Some(Frame::Reset { stream: 1 }));
        client.io.write_all(&spdy::ping(1)).await.unwrap();
        assert_eq!(client.next().await, Some(Frame::Ping { id: 1 }));
    }

    #[tokio::test]
    async fn who_listens_nowhere_is_told_of() {
        let mut client = Client::new().await;
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = nobody.local_addr().unwrap().port();
        drop(nobody);
        client.half(1, "error", "0", port).await;
        client.half(3, "data", "0", port).await;
        client.next().await;
        client.next().await;
        let told = client.rest(1).await;
        let start = format!(
            "error forwarding port {port} to pod space/pod: failed to connect to localhost:{port}: "
        );
        assert!(told.starts_with(&start) && told.contains("refused"), "{told}");
        assert_eq!(client.rest(3).await, "");
    }

    #[tokio::test]
    async fn a_target_that_breaks_off_is_told_of() {
        let mut client = Client::new().await;
        let target = client.pair().await;
        target.set_zero_linger().unwrap();
        drop(target);
        assert!(client.rest(1).await.contains("reset"), "the reason is missing");
        assert_eq!(client.rest(3).await, "");
    }

    #[tokio::test]
    async fn a_reset_stream_ends_its_connection_and_no_other() {
        let mut client = Client::new().await;
        let mut target = client.pair().await;
        let port = client.port();
        client.half(5, "error", "1", port).await;
        client.half(7, "data", "1", port).await;
        let mut other = client.target.accept().await.unwrap().0;
        client.io.write_all(&spdy::reset(3, Status::ProtocolError)).await.unwrap();
        let ended = target.read(&mut [0; 8]).await;
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
        for _ in 0..2 {
            assert_eq!(client.next().await, Some(Frame::Other));
        }
        assert_eq!(client.rest(1).await, "");
        client.data(7, true, b"still here").await;
        let mut asked = String::new();
        other.read_to_string(&mut asked).await.unwrap();
        assert_eq!(asked, "still here");
    }

    #[tokio::test]
    async fn what_cannot_be_served_is_refused() {
        let pair = |kind, request, port| {
            vec![("streamtype", kind), ("requestid", request), ("port", port)]
        };
        for (stream, headers) in [
            (3, vec![]),
            (3, vec![("streamtype", "data"), ("port", "1")]),
            (3, vec![("requestid", "1"), ("port", "1")]),
            (3, pair("stdin", "1", "1")),
            (3, pair("data", "1", "0")),
            (3, pair("data", "1", "65536")),
            // The first of these is open already.
            (3, pair("error", "0", "1")),
            // A stream of the server's, and one of the past.
            (4, pair("data", "1", "1")),
            (1, pair("data", "1", "1")),
        ] {
            let mut client = Client::new().await;
            client.half(1, "error", "0", 1).await;
            client.open(stream, &headers).await;
            assert_eq!(client.next().await, Some(Frame::Other));
            assert_eq!(client.next().await, Some(Frame::Reset { stream }), "{headers:?}");
        }
    }

    #[tokio::test]
    async fn a_client_that_goes_away_is_served_to_the_end() {
        let mut client = Client::new().await;
        let target = client.pair().await;
        client.io.write_all(&goes_away()).await.unwrap();
        let port = client.port();
        client.half(5, "error", "1", port).await;
        assert_eq!(client.next().await, Some(Frame::Reset { stream: 5 }));
        drop(target);
        assert_eq!(client.rest(3).await, "");
        client.data(3, true, b"").await;
        assert_eq!(client.rest(1).await, "");
        assert_eq!(client.next().await, None);
    }

    #[tokio::test]
    async fn a_client_that_leaves_takes_its_connections_along() {
        let mut client = Client::new().await;
        let mut target = client.pair().await;
        drop(client.io);
        assert_eq!(target.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn who_breaks_the_protocol_is_told_so() {
        let mut client = Client::new().await;
        client.io.write_all(&control(6, 0, b"no")).await.unwrap();
        assert_eq!(client.next().await, Some(Frame::GoAway));
        assert_eq!(client.next().await, None);
    }
}
