//! A front that sits before a real S3 server and does to chosen requests what the world does:
//! refuses, stalls, breaks off, forgets. Everything else passes, and signatures stay valid,
//! because requests are handed on as they came.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The S3 API's name of the operation.
    pub fn operation(&self) -> &'static str {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let has = |name: &str| {
            query.split('&').any(|pair| pair == name || pair.starts_with(&format!("{name}=")))
        };
        let in_bucket = path.trim_matches('/').contains('/');
        match (self.method.as_str(), in_bucket) {
            ("PUT", true) if has("partNumber") => "UploadPart",
            ("PUT", true) if has("retention") => "PutObjectRetention",
            ("PUT", true) if has("legal-hold") => "PutObjectLegalHold",
            ("PUT", true) => "PutObject",
            ("POST", true) if has("uploads") => "CreateMultipartUpload",
            ("POST", true) if has("uploadId") => "CompleteMultipartUpload",
            ("GET", true) if has("uploadId") => "ListParts",
            ("GET", true) if has("retention") => "GetObjectRetention",
            ("GET", true) if has("legal-hold") => "GetObjectLegalHold",
            ("GET", true) => "GetObject",
            ("HEAD", true) => "HeadObject",
            ("DELETE", true) if has("uploadId") => "AbortMultipartUpload",
            ("DELETE", true) => "DeleteObject",
            ("GET", false) if has("object-lock") => "GetObjectLockConfiguration",
            ("GET", false) if has("versions") => "ListObjectVersions",
            ("GET", false) if has("uploads") => "ListMultipartUploads",
            ("GET", false) if has("list-type") => "ListObjectsV2",
            ("HEAD", false) => "HeadBucket",
            _ => "other",
        }
    }
}

/// What is done to a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing.
    Pass,
    /// Refused with this status and code, without reaching the server.
    Refuse(u16, &'static str),
    /// The same, with a `Retry-After` in seconds.
    RefuseFor(u16, &'static str, u32),
    /// The connection is reset after so many bytes of the request's body.
    ResetAfter(usize),
    /// The body is taken at this pace: so many bytes, then a pause, and so on.
    Slowly(usize, Duration),
    /// The request is taken, and nothing ever comes back.
    Hang,
    /// The server does it, but the reply is lost.
    LoseReply,
    /// The reply ends after so many bytes of its body.
    CutAfter(usize),
    /// The reply comes without headers of this beginning (lower case).
    Without(&'static str),
    /// The reply's `Date` is replaced.
    Dated(String),
    /// The reply's body is replaced, with status 200.
    Instead(&'static str),
    /// A 200 whose body says that it has so many bytes, and goes on for as long as it is read.
    Endless(Option<u64>),
    /// The reply's body comes a byte at a time, with a pause after each.
    Trickle(Duration),
}

/// The front; it ends with the test's runtime.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Front {
    /// Starts one before `server` (`http://host:port`). `faults` hears each request and how many
    /// of the same operation came before.
    pub async fn start(
        server: &str,
        faults: impl Fn(&Asked, usize) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, faults) = (Arc::clone(&asked), Arc::new(faults));
        let server: SocketAddr = server.strip_prefix("http://").unwrap().parse().unwrap();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (log, faults) = (Arc::clone(&log), Arc::clone(&faults));
                tokio::spawn(async move {
                    // Either side may leave at any time.
                    let _ = serve(socket, server, &*faults, &log).await;
                });
            }
        });
        Self { address, asked }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests of an operation came.
    pub fn count(&self, operation: &str) -> usize {
        self.asked().iter().filter(|asked| asked.operation() == operation).count()
    }

    /// Every request so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(
    socket: TcpStream,
    server: SocketAddr,
    faults: &(impl Fn(&Asked, usize) -> Fault + Sync),
    log: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    let mut client = BufReader::new(socket);
    let Some((head, asked)) = read_head(&mut client).await? else { return Ok(()) };
    let before = {
        let mut log = log.lock().unwrap();
        let before = log.iter().filter(|a| a.operation() == asked.operation()).count();
        log.push(asked.clone());
        before
    };
    let length = asked.header("content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
    let fault = faults(&asked, before);
    let Some(body) = read_body(&mut client, length, &fault).await? else {
        return client.into_inner().set_zero_linger();
    };
    let mut client = client.into_inner();
    let reply = match fault {
        Fault::Hang => std::future::pending().await,
        Fault::Refuse(status, code) => refusal(status, code, ""),
        Fault::RefuseFor(status, code, seconds) => {
            refusal(status, code, &format!("Retry-After: {seconds}\r\n"))
        }
        Fault::Instead(body) => format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
        Fault::Endless(length) => return endless(&mut client, length).await,
        _ => forward(server, &head, &body).await?,
    };
    let reply = changed(reply, &fault);
    match fault {
        Fault::LoseReply => client.set_zero_linger()?,
        Fault::Trickle(pause) => trickle(&mut client, &reply, pause).await?,
        _ => client.write_all(&reply).await?,
    }
    client.shutdown().await
}

/// The head as it came, and read.
async fn read_head(client: &mut BufReader<TcpStream>) -> std::io::Result<Option<(Vec<u8>, Asked)>> {
    let (mut head, mut lines) = (Vec::new(), Vec::new());
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        head.extend_from_slice(line.as_bytes());
        if line == "\r\n" {
            break;
        }
        lines.push(line);
    }
    let mut words = lines[0].split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let headers = lines[1..].iter().filter_map(|line| {
        let (name, value) = line.trim_end().split_once(':')?;
        Some((name.to_owned(), value.trim().to_owned()))
    });
    let headers = headers.collect();
    Ok(Some((head, Asked { method, path, headers })))
}

/// The body; `None` where the connection is to be reset in its middle.
async fn read_body(
    client: &mut BufReader<TcpStream>,
    length: usize,
    fault: &Fault,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut body = vec![0; length];
    match fault {
        Fault::ResetAfter(bytes) => {
            client.read_exact(&mut body[..length.min(*bytes)]).await?;
            Ok(None)
        }
        Fault::Slowly(bytes, pause) => {
            for chunk in body.chunks_mut(*bytes) {
                client.read_exact(chunk).await?;
                tokio::time::sleep(*pause).await;
            }
            Ok(Some(body))
        }
        _ => {
            client.read_exact(&mut body).await?;
            Ok(Some(body))
        }
    }
}

async fn endless(client: &mut TcpStream, length: Option<u64>) -> std::io::Result<()> {
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{length}\r\n");
    client.write_all(head.as_bytes()).await?;
    let more = vec![b' '; 1 << 20];
    loop {
        client.write_all(&more).await?;
    }
}

async fn trickle(client: &mut TcpStream, reply: &[u8], pause: Duration) -> std::io::Result<()> {
    let head = reply.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    client.write_all(&reply[..head]).await?;
    for byte in &reply[head..] {
        client.write_all(&[*byte]).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// What the server says, whole.
async fn forward(server: SocketAddr, head: &[u8], body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut upstream = TcpStream::connect(server).await?;
    // A header that no signature covers, so that the reply ends with the connection.
    upstream.write_all(&head[..head.len() - 2]).await?;
    upstream.write_all(b"Connection: close\r\n\r\n").await?;
    upstream.write_all(body).await?;
    let mut reply = Vec::new();
    upstream.read_to_end(&mut reply).await?;
    Ok(reply)
}

fn refusal(status: u16, code: &str, more: &str) -> Vec<u8> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code>\
         <Message>as the test wants it</Message></Error>"
    );
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Refused\r\nConnection: close\r\n{more}Content-Type: \
         application/xml\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn changed(reply: Vec<u8>, fault: &Fault) -> Vec<u8> {
    let Some(end) = reply.windows(4).position(|four| four == b"\r\n\r\n") else { return reply };
    let (head, body) = (String::from_utf8_lossy(&reply[..end]).into_owned(), &reply[end + 4..]);
    let keep = |line: &str| match fault {
        Fault::Without(start) => !line.to_ascii_lowercase().starts_with(start),
        Fault::Dated(_) => !line.to_ascii_lowercase().starts_with("date:"),
        _ => true,
    };
    let mut changed = head.lines().filter(|line| keep(line)).collect::<Vec<_>>().join("\r\n");
    if let Fault::Dated(date) = fault {
        changed.push_str("\r\nDate: ");
        changed.push_str(date);
    }
    changed.push_str("\r\n\r\n");
    let body = match fault {
        Fault::CutAfter(bytes) => &body[..body.len().min(*bytes)],
        _ => body,
    };
    [changed.as_bytes(), body].concat()
}
