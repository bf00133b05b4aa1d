//! An HTTP server that does exactly what a test says, including what no honest server does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// First and last byte of a `Range` header.
    pub range: Option<(usize, Option<usize>)>,
    pub headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Close,
    Reset,
    /// Say nothing more, and keep the connection.
    Hang,
}

/// An answer, sent as it is; the body is left out for HEAD.
#[derive(Debug, Clone)]
pub struct Answer {
    status: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
}

impl Answer {
    pub fn status(status: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), end: End::Close }
    }

    /// 200 with a length.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let length = body.len();
        Self { body, ..Self::status("200 OK") }.with("Content-Length", length)
    }

    /// Nothing, for ever.
    pub fn silence() -> Self {
        Self::status("").ending(End::Hang)
    }

    pub fn redirect(to: &str) -> Self {
        Self::status("302 Found").with("Location", to).with("Content-Length", 0)
    }

    /// What an honest server says to `asked` about a file, ranges included.
    pub fn file(asked: &Asked, file: &[u8]) -> Self {
        let answer = match asked.range {
            Some((first, last)) if first < file.len() => {
                let last = last.unwrap_or(usize::MAX).min(file.len() - 1);
                let mut part = Self::ok(&file[first..=last]);
                part.status = "206 Partial Content";
                part.with("Content-Range", format!("bytes {first}-{last}/{}", file.len()))
            }
            _ => Self::ok(file),
        };
        answer.with("Accept-Ranges", "bytes")
    }

    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    /// Only this much of the body, and then the end.
    pub fn cut(mut self, bytes: usize, end: End) -> Self {
        self.body.truncate(bytes);
        self.ending(end)
    }

    fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

/// The server; it ends with the test's runtime.
#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scripted {
    /// Starts one whose answers are made by `script`, which also hears how many requests of the
    /// same method and path came before.
    pub async fn start(script: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (Arc::clone(&asked), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&script), Arc::clone(&log)));
            }
        });
        Self { address, asked }
    }

    pub fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    /// Every request so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(
    socket: TcpStream,
    script: Arc<impl Fn(&Asked, usize) -> Answer>,
    log: Arc<Mutex<Vec<Asked>>>,
) {
    let mut socket = BufReader::new(socket);
    let Some(asked) = read(&mut socket).await else { return };
    let before = {
        let mut log = log.lock().unwrap();
        let same = |a: &&Asked| a.method == asked.method && a.path == asked.path;
        let before = log.iter().filter(same).count();
        log.push(asked.clone());
        before
    };
    let answer = script(&asked, before);
    let mut socket = socket.into_inner();
    // A client that saw enough may leave at any time.
    let _ = write(&mut socket, &asked, &answer).await;
    match answer.end {
        End::Close => {}
        End::Reset => drop(socket.set_zero_linger()),
        End::Hang => std::future::pending().await,
    }
}

async fn read(socket: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut first = String::new();
    socket.read_line(&mut first).await.ok()?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut asked = Asked { method, path, range: None, headers };
    asked.range = asked.header("range").and_then(|text| {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()))
    });
    Some(asked)
}

async fn write(socket: &mut TcpStream, asked: &Asked, answer: &Answer) -> std::io::Result<()> {
    if answer.status.is_empty() {
        return Ok(());
    }
    let mut head = format!("HTTP/1.1 {}\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    socket.write_all(head.as_bytes()).await?;
    if asked.method != "HEAD" {
        socket.write_all(&answer.body).await?;
    }
    socket.flush().await
}
