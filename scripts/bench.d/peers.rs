//! What `scripts/bench-backup` needs and nobody ships: something that fills an etcd, and an S3
//! server that keeps nothing, so that it is never the slowest.
//!
//! ```text
//! bench-peers fill ENDPOINT BYTES compressible|random   until the database has this size
//! bench-peers drain ENDPOINT                            one snapshot, and nothing done with it
//! bench-peers sink PORT                                 until it is killed
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use capvco::clock;
use capvco::etcd::{Access, Client};
use futures_util::{StreamExt as _, TryStreamExt as _};

type Failed = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["fill", endpoint, size, "compressible"] => fill(endpoint, size.parse()?, manifest).await,
        ["fill", endpoint, size, "random"] => fill(endpoint, size.parse()?, noise).await,
        ["drain", endpoint] => drain(endpoint).await,
        ["sink", port] => sink(port.parse()?).await,
        _ => {
            Err("usage: fill ENDPOINT BYTES compressible|random, drain ENDPOINT, or sink PORT"
                .into())
        }
    }
}

/// Two of them and their keys fill four pages of 4 KiB: nothing compresses but the values.
const VALUE: usize = 8000;

/// Puts keys until the database has `size` bytes.
async fn fill(endpoint: &str, size: u64, value: fn(u64) -> Vec<u8>) -> Result<(), Failed> {
    const BETWEEN_LOOKS: u64 = 1000;
    const AT_ONCE: usize = 64;
    let access = Access::to(&[endpoint]);
    let client = Client::connect(&access, endpoint, clock::System::shared()).await?;
    let mut next = 0;
    while client.status().await?.db_size < size {
        let keys = futures_util::stream::iter(next..next + BETWEEN_LOOKS);
        let puts = keys.map(|number| {
            let key = format!("/registry/pods/namespace-{:02}/pod-{number:07}", number % 50);
            client.put(key, value(number))
        });
        puts.buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        next += BETWEEN_LOOKS;
    }
    Ok(())
}

/// Reads a snapshot as fast as etcd gives it: no backup can be faster than this.
async fn drain(endpoint: &str) -> Result<(), Failed> {
    let access = Access::to(&[endpoint]);
    let client = Client::connect(&access, endpoint, clock::System::shared()).await?;
    let (mut messages, _) = client.snapshot(Duration::from_mins(1)).await?.split();
    while messages.next().await?.is_some() {}
    Ok(())
}

/// splitmix64: noise, the same in each run.
fn words(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    })
}

/// Nothing to compress.
fn noise(number: u64) -> Vec<u8> {
    words(number).flat_map(u64::to_le_bytes).take(VALUE).collect()
}

/// Much to compress, and yet something of its own every few hundred bytes, as pods have it.
fn manifest(number: u64) -> Vec<u8> {
    let mut words = words(number);
    let uid = words.next().unwrap_or_default();
    let mut text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number:07}","uid":"{uid:016x}"}},"spec":{{"containers":["#
    );
    while text.len() < VALUE {
        let containers = words.by_ref().take(8).map(container);
        text.extend(containers);
    }
    text.truncate(VALUE);
    text.into_bytes()
}

fn container(word: u64) -> String {
    let (team, app, version, token) = (word % 40, word % 397, word % 89, word >> 32);
    format!(
        r#"{{"name":"app-{app}","image":"registry.example.com/team-{team}/app-{app}:v1.{version}","imagePullPolicy":"IfNotPresent","resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}},"limits":{{"memory":"256Mi"}}}},"env":[{{"name":"POD_IP","valueFrom":{{"fieldRef":{{"fieldPath":"status.podIP"}}}}}},{{"name":"TOKEN","value":"{token:08x}"}}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}]}},"#
    )
}

/// The headers that a store keeps of an object and shows again.
const KEPT: [&str; 4] =
    ["x-amz-object-lock-", "x-amz-meta-", "x-amz-checksum-crc32c", "content-type"];

/// Bodies up to this length are kept: manifests and claims.
const SMALL: u64 = 64 << 10;

struct Object {
    size: u64,
    /// The whole of a small one.
    bytes: Vec<u8>,
    version: u64,
    headers: HeaderMap,
}

#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Object>,
    /// What is being uploaded in parts, by its id: the bytes so far, and the first headers.
    uploads: BTreeMap<String, (u64, HeaderMap)>,
    made: u64,
}

type Shared = Arc<Mutex<Store>>;

/// An S3 server with one locked bucket, of any name, that takes everything and counts it.
async fn sink(port: u16) -> Result<(), Failed> {
    let app = Router::new().fallback(answer).with_state(Shared::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, app).await?)
}

async fn answer(State(store): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok((size, bytes)) = swallow(body).await else { return plain(StatusCode::BAD_REQUEST) };
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    let query = head.uri.query().unwrap_or_default();
    let key = head.uri.path().trim_start_matches('/').split_once('/').map_or("", |(_, key)| key);
    let asked = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    let upload = asked("uploadId=");
    match (&head.method, key, upload) {
        (&Method::GET | &Method::HEAD, "", _) => bucket(&store, query),
        (&Method::POST, _, None) => store.begin(&head.headers),
        (&Method::PUT, _, Some(upload)) => store.part(upload, size),
        (&Method::POST, _, Some(upload)) => store.complete(key, upload),
        (&Method::GET, _, Some(_)) => refusal(StatusCode::NOT_FOUND, "NoSuchUpload"),
        (&Method::DELETE, _, Some(upload)) => {
            store.uploads.remove(upload);
            plain(StatusCode::NO_CONTENT)
        }
        (&Method::DELETE, ..) => {
            store.objects.remove(key);
            plain(StatusCode::NO_CONTENT)
        }
        (&Method::PUT, ..) => {
            let taken = store.objects.contains_key(key);
            if taken && head.headers.contains_key("if-none-match") {
                return refusal(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
            }
            store.keep(key, size, bytes, kept(&head.headers))
        }
        _ => store.show(key, head.method == Method::GET),
    }
}

/// Reads a body to its end: how long it was, and what of it is worth keeping.
async fn swallow(body: Body) -> Result<(u64, Vec<u8>), axum::Error> {
    let (mut size, mut kept) = (0, Vec::new());
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.try_next().await? {
        size += chunk.len() as u64;
        if size <= SMALL {
            kept.extend_from_slice(&chunk);
        }
    }
    Ok((size, kept))
}

fn kept(headers: &HeaderMap) -> HeaderMap {
    let worth = |name: &str| KEPT.iter().any(|start| name.starts_with(start));
    let some = headers.iter().filter(|(name, _)| worth(name.as_str()));
    some.map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl Store {
    fn begin(&mut self, headers: &HeaderMap) -> Response {
        self.made += 1;
        let id = format!("upload-{}", self.made);
        let said = format!(
            "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
        );
        self.uploads.insert(id, (0, kept(headers)));
        xml(StatusCode::OK, &said)
    }

    fn part(&mut self, upload: &str, size: u64) -> Response {
        let Some((sum, _)) = self.uploads.get_mut(upload) else {
            return refusal(StatusCode::NOT_FOUND, "NoSuchUpload");
        };
        *sum += size;
        let mut reply = plain(StatusCode::OK);
        reply.headers_mut().insert("etag", axum::http::HeaderValue::from_static("\"part\""));
        reply
    }

    fn complete(&mut self, key: &str, upload: &str) -> Response {
        let Some((size, headers)) = self.uploads.remove(upload) else {
            return refusal(StatusCode::NOT_FOUND, "NoSuchUpload");
        };
        let stored = self.keep(key, size, Vec::new(), headers);
        let said =
            "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>";
        let mut reply = xml(StatusCode::OK, said);
        reply.headers_mut().extend(stored.headers().clone());
        reply
    }

    fn keep(&mut self, key: &str, size: u64, bytes: Vec<u8>, headers: HeaderMap) -> Response {
        self.made += 1;
        let object = Object { size, bytes, version: self.made, headers };
        let reply = shown(&object, Body::empty());
        self.objects.insert(key.to_owned(), object);
        reply
    }

    fn show(&self, key: &str, with_body: bool) -> Response {
        let Some(object) = self.objects.get(key) else {
            return refusal(StatusCode::NOT_FOUND, "NoSuchKey");
        };
        let body = if with_body { Body::from(object.bytes.clone()) } else { Body::empty() };
        let mut reply = shown(object, body);
        reply.headers_mut().extend(object.headers.clone());
        reply.headers_mut().insert("content-length", object.size.into());
        reply
    }
}

fn shown(object: &Object, body: Body) -> Response {
    let mut reply = Response::new(body);
    reply.headers_mut().insert("x-amz-version-id", object.version.into());
    reply.headers_mut().insert("etag", axum::http::HeaderValue::from_static("\"whole\""));
    reply
}

/// What is asked about the bucket itself.
fn bucket(store: &Store, query: &str) -> Response {
    let name = query.split(['=', '&']).next().unwrap_or_default();
    let said = match name {
        "object-lock" => "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
            <Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>\
            </ObjectLockConfiguration>"
            .to_owned(),
        "versioning" => {
            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>".to_owned()
        }
        "uploads" => "<ListMultipartUploadsResult/>".to_owned(),
        _ => {
            let row = |(key, object): (&String, &Object)| {
                format!(
                    "<Version><Key>{key}</Key><VersionId>{}</VersionId><IsLatest>true</IsLatest>\
                     <Size>{}</Size></Version>",
                    object.version, object.size
                )
            };
            let rows: String = store.objects.iter().map(row).collect();
            format!(
                "<ListVersionsResult><IsTruncated>false</IsTruncated>{rows}</ListVersionsResult>"
            )
        }
    };
    xml(StatusCode::OK, &said)
}

fn refusal(status: StatusCode, code: &str) -> Response {
    xml(status, &format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"))
}

fn xml(status: StatusCode, said: &str) -> Response {
    let mut reply = Response::new(Body::from(format!("<?xml version=\"1.0\"?>{said}")));
    *reply.status_mut() = status;
    reply
}

fn plain(status: StatusCode) -> Response {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}
