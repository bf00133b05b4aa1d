//! A server that answers what a script says, byte by byte, and remembers what it was asked:
//! for what a well-behaved simulator cannot do (cut replies, resets, odd headers).

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the server was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What it answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// These bytes; then the connection is kept.
    Raw(String),
    /// These bytes; then the connection is closed.
    Cut(String),
    /// Nothing: the connection is reset.
    Reset,
    /// Nothing, for ever.
    Hang,
}

pub fn json(status: u16, body: &str) -> Answer {
    with(status, &[("Content-Type", "application/json")], body)
}

pub fn html(status: u16) -> Answer {
    let page = format!("<html><head><title>{status} nginx says no</title></head></html>\n");
    with(status, &[("Content-Type", "text/html")], &page)
}

pub fn with(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut text = format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").expect("a string takes all");
    }
    Answer::Raw(format!("{text}\r\n{body}"))
}

type Script = dyn FnMut(&Asked, usize) -> Answer + Send;

/// A running server; it ends with the test's runtime.
pub struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers what `script` says of the request and its number, which starts at 0.
    pub async fn start(script: impl FnMut(&Asked, usize) -> Answer + Send + 'static) -> Self {
        Self::start_at(0, script).await
    }

    /// The same at this port of the machine.
    pub async fn start_at(
        port: u16,
        script: impl FnMut(&Asked, usize) -> Answer + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone(), script.clone()));
            }
        });
        Self { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }

    /// How often this path was asked for.
    pub fn count(&self, path: &str) -> usize {
        self.asked().iter().filter(|asked| asked.path == path).count()
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<Asked>>>,
    script: Arc<Mutex<Box<Script>>>,
) {
    while let Some(asked) = read(&mut stream).await {
        let number = {
            let mut seen = lock(&seen);
            seen.push(asked.clone());
            seen.len() - 1
        };
        let answer = lock(&script)(&asked, number);
        match answer {
            Answer::Raw(text) => stream.write_all(text.as_bytes()).await.unwrap_or_default(),
            Answer::Cut(text) => {
                stream.write_all(text.as_bytes()).await.unwrap_or_default();
                return;
            }
            Answer::Reset => {
                stream.set_zero_linger().expect("the socket is open");
                return;
            }
            Answer::Hang => tokio::time::sleep(Duration::from_hours(1)).await,
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let (line, headers) = text.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut asked = Asked {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers.to_owned(),
        body: bytes.split_off(head + 4),
    };
    let length: usize = asked.header("content-length").map_or(0, |n| n.parse().unwrap_or(0));
    while asked.body.len() < length {
        if stream.read_buf(&mut asked.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(asked)
}
