//! Multipart uploads: parts are spooled to files as they come, in any order and several at once.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use md5::{Digest, Md5};
use serde_json::Value;
use tokio::sync::mpsc;

use super::format::{self, Content};
use super::reply::Reply;

/// All uploads that were begun and not finished.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    open: HashMap<String, Upload>,
    begun: u64,
    received: u64,
}

/// One upload.
#[derive(Debug)]
pub(super) struct Upload {
    location: String,
    object_name: String,
    part_size: u64,
    parts: BTreeMap<u32, Part>,
    dir: PathBuf,
}

/// A part that has arrived completely.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) etag: String,
    pub(super) bytes: u64,
    pub(super) file: PathBuf,
}

/// The parts of a finished upload, in order.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) files: Vec<PathBuf>,
    dir: PathBuf,
}

impl Uploads {
    /// Begins one; returns its id and object name.
    pub(super) fn start(
        &mut self,
        spool: &Path,
        location: &str,
        file_name: &str,
        part_size: u64,
    ) -> io::Result<(String, String)> {
        self.begun += 1;
        let id = format!("upload-{:04}", self.begun);
        let object_name = format!("{id}-{}", file_name.replace('/', "_"));
        let dir = spool.join(&id);
        fs::create_dir(&dir)?;
        let upload = Upload {
            location: location.into(),
            object_name: object_name.clone(),
            part_size,
            parts: BTreeMap::new(),
            dir,
        };
        self.open.insert(id.clone(), upload);
        Ok((id, object_name))
    }

    fn get(&mut self, id: &str, location: &str, object: &str) -> Result<&mut Upload, Reply> {
        match self.open.get_mut(id).filter(|u| u.location == location) {
            None => Err(Reply::error(404, "NoSuchUpload: the upload does not exist")),
            Some(upload) if upload.object_name != object => {
                Err(Reply::error(400, "object_name is not the upload's"))
            }
            Some(upload) => Ok(upload),
        }
    }

    /// The file that a part goes to, which is never that of another transfer.
    pub(super) fn place(
        &mut self,
        id: &str,
        location: &str,
        object: &str,
        number: &str,
    ) -> Result<(u32, PathBuf), Reply> {
        self.received += 1;
        let received = self.received;
        let upload = self.get(id, location, object)?;
        match number.parse() {
            Ok(number @ 1..=10_000) => {
                Ok((number, upload.dir.join(format!("part-{number}-{received}"))))
            }
            _ => Err(Reply::error(400, "part numbers are 1 to 10000")),
        }
    }

    /// Notes a part that has arrived. A part that is sent again replaces the first.
    pub(super) fn arrived(&mut self, id: &str, number: u32, part: Part) -> Result<(), Reply> {
        let upload = self.open.get_mut(id);
        let upload = upload.ok_or_else(|| Reply::error(404, "NoSuchUpload"))?;
        if let Some(old) = upload.parts.insert(number, part) {
            // Only space is at stake.
            let _ = fs::remove_file(old.file);
        }
        Ok(())
    }

    /// Checks the list of parts, as S3 does: known, in order, with their tags, and every part
    /// but the last of the size that was asked for.
    pub(super) fn check(
        &mut self,
        id: &str,
        location: &str,
        body: &Value,
        sizes: bool,
    ) -> Result<Vec<PathBuf>, Reply> {
        let object = body["object_name"].as_str().unwrap_or_default();
        let upload = self.get(id, location, object)?;
        let listed = body["uploaded_parts"].as_array().map_or(&[][..], Vec::as_slice);
        let mut files = Vec::new();
        let mut last = 0;
        for (index, item) in listed.iter().enumerate() {
            let number = item["part_number"].as_u64().and_then(|n| u32::try_from(n).ok());
            let number = number.unwrap_or_default();
            if number <= last {
                return Err(Reply::error(400, "InvalidPartOrder: part numbers must ascend"));
            }
            last = number;
            let etag = item["etag"].as_str().unwrap_or_default().trim_matches('"');
            let part = upload.parts.get(&number).filter(|p| p.etag == etag);
            let part = part.ok_or_else(|| {
                Reply::error(400, format!("InvalidPart: part {number} is unknown or differs"))
            })?;
            if sizes && index + 1 < listed.len() && part.bytes != upload.part_size {
                return Err(Reply::error(400, format!("part {number} is not of part_size")));
            }
            files.push(part.file.clone());
        }
        if files.is_empty() {
            return Err(Reply::error(400, "MalformedXML: no parts"));
        }
        Ok(files)
    }

    /// Takes an upload out: its parts are an image's now.
    pub(super) fn finish(&mut self, id: &str, files: Vec<PathBuf>) -> Option<Finished> {
        self.open.remove(id).map(|upload| Finished { files, dir: upload.dir })
    }
}

/// Streams a part into its file; the checksum is reckoned on the way.
pub(super) async fn receive(body: Body, file: PathBuf) -> io::Result<Part> {
    let (chunks, received) = mpsc::channel(32);
    let writer = tokio::task::spawn_blocking(move || write(received, file));
    let mut stream = body.into_data_stream();
    let mut whole = Ok(());
    while let Some(chunk) = stream.next().await {
        match chunk {
            // The writer ends early only with an error, which it returns.
            Ok(chunk) => match chunks.send(chunk).await {
                Ok(()) => {}
                Err(_) => break,
            },
            Err(error) => {
                whole = Err(io::Error::new(io::ErrorKind::UnexpectedEof, error));
                break;
            }
        }
    }
    drop(chunks);
    let part = writer.await.map_err(io::Error::other)??;
    if whole.is_err() {
        let _ = fs::remove_file(&part.file);
    }
    whole.map(|()| part)
}

fn write(mut received: mpsc::Receiver<Bytes>, path: PathBuf) -> io::Result<Part> {
    let mut file = File::create(&path)?;
    let (mut md5, mut bytes) = (Md5::new(), 0);
    while let Some(chunk) = received.blocking_recv() {
        md5.update(&chunk);
        file.write_all(&chunk)?;
        bytes += chunk.len() as u64;
    }
    Ok(Part { etag: hex(&md5.finalize()), bytes, file: path })
}

/// Lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Finished {
    /// Reads the parts in order: what they are, and whether their MD5 is the one promised
    /// (empty: none was). Blocking; removes the parts.
    pub(super) fn import(self, md5_sum: &str, boot_sector: bool) -> Result<Content, String> {
        let read = self.read(!md5_sum.is_empty());
        // Only space is at stake.
        let _ = fs::remove_dir_all(&self.dir);
        let (head, bytes, md5) = read.map_err(|e| format!("reading the parts: {e}"))?;
        if !md5_sum.is_empty() && !md5.eq_ignore_ascii_case(md5_sum) {
            return Err(format!("md5_sum is {md5_sum}, the upload has {md5}"));
        }
        format::recognise(&head, bytes, boot_sector)
    }

    fn read(&self, hash: bool) -> io::Result<(Vec<u8>, u64, String)> {
        let (mut head, mut bytes, mut md5) = (Vec::new(), 0, Md5::new());
        let mut buffer = vec![0; 1 << 20];
        for path in &self.files {
            let mut file = File::open(path)?;
            loop {
                let wanted = if hash || head.len() < format::HEAD { buffer.len() } else { 0 };
                let n = file.read(&mut buffer[..wanted])?;
                if n == 0 {
                    break;
                }
                if head.len() < format::HEAD {
                    head.extend_from_slice(&buffer[..n.min(format::HEAD - head.len())]);
                }
                md5.update(&buffer[..n]);
            }
            bytes += file.metadata()?.len();
        }
        Ok((head, bytes, hex(&md5.finalize())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixture {
        dir: tempfile::TempDir,
        uploads: Uploads,
        id: String,
        object: String,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let mut uploads = Uploads::default();
        let (id, object) = uploads.start(dir.path(), "l", "a/b.qcow2", 4).unwrap();
        Fixture { dir, uploads, id, object }
    }

    impl Fixture {
        async fn put(&mut self, number: u32, content: &'static [u8]) -> String {
            let number = number.to_string();
            let (number, file) = self.uploads.place(&self.id, "l", &self.object, &number).unwrap();
            let part = receive(Body::from(content), file).await.unwrap();
            let etag = part.etag.clone();
            self.uploads.arrived(&self.id, number, part).unwrap();
            etag
        }

        fn check(&mut self, parts: &Value) -> Result<Vec<PathBuf>, u16> {
            let body = json!({"object_name": self.object, "uploaded_parts": parts});
            self.uploads.check(&self.id, "l", &body, true).map_err(|r| r.status)
        }
    }

    fn part(number: u32, etag: &str) -> Value {
        json!({"part_number": number, "etag": etag})
    }

    #[tokio::test]
    async fn parts_are_joined_in_the_order_of_their_numbers() {
        let mut f = fixture();
        let b = f.put(2, b"c").await;
        f.put(1, b"zzzz").await;
        let a = f.put(1, b"<ab>").await;
        let files = f.check(&json!([part(1, &a), part(2, &format!("\"{b}\""))])).unwrap();
        let finished = f.uploads.finish(&f.id, files).unwrap();
        let md5 = hex(&Md5::digest(b"<ab>c"));
        assert_eq!(finished.import(&md5, false).unwrap().bytes, 5);
        assert_eq!(fs::read_dir(f.dir.path()).unwrap().count(), 0, "no spool is left");
        assert!(f.uploads.place(&f.id, "l", &f.object, "1").is_err(), "it is finished");
    }

    #[tokio::test]
    async fn a_wrong_list_is_refused() {
        let mut f = fixture();
        let (a, b) = (f.put(1, b"aaaa").await, f.put(2, b"bbb").await);
        for parts in [
            json!([]),
            json!([part(2, &b), part(1, &a)]),
            json!([part(1, &a), part(1, &a)]),
            json!([part(1, &b)]),
            json!([part(3, &a)]),
            json!([part(2, &b), part(3, &a)]),
        ] {
            assert_eq!(f.check(&parts).unwrap_err(), 400, "{parts}");
        }
        assert!(f.check(&json!([part(1, &a), part(2, &b)])).is_ok());
        let mut place = |id: &str, location: &str, object: &str, number: &str| {
            f.uploads.place(id, location, object, number).map_err(|r| r.status)
        };
        assert_eq!(place("upload-0009", "l", &f.object, "1").unwrap_err(), 404);
        assert_eq!(place(&f.id, "m", &f.object, "1").unwrap_err(), 404);
        assert_eq!(place(&f.id, "l", "x", "1").unwrap_err(), 400);
        assert_eq!(place(&f.id, "l", &f.object, "0").unwrap_err(), 400);
    }

    #[tokio::test]
    async fn a_wrong_checksum_fails_the_import() {
        let mut f = fixture();
        let a = f.put(1, b"aaaa").await;
        let files = f.check(&json!([part(1, &a)])).unwrap();
        let error = f.uploads.finish(&f.id, files).unwrap().import("00", false).unwrap_err();
        assert!(error.contains("md5_sum"), "{error}");
    }
}
