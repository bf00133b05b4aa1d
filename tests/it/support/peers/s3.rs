//! Three S3 servers with Object Lock, each unlike AWS in its own way.
//!
//! versitygw is the main one: quick, strict, with restricted users. `SeaweedFS` shows default
//! retention and pages well, but needs seconds to start. moto silently drops the lock of a
//! multipart upload and does not look at secrets.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::super::program::Done;
use super::tls::Tls;
use super::{Peer, clean, get, port, run, tool};

/// A bucket with Object Lock that each server has when it is started.
pub const BUCKET: &str = "backups";

/// A server as one user sees it.
#[derive(Debug, Clone)]
pub struct S3 {
    endpoint: String,
    access_key: String,
    secret_key: String,
    tls: Option<Arc<Tls>>,
    home: PathBuf,
}

impl S3 {
    /// A server that somebody else started, on plain HTTP.
    pub fn at(endpoint: &str, access_key: &str, secret_key: &str, home: &Path) -> Self {
        let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
        Self { endpoint: endpoint.to_owned(), access_key, secret_key, tls: None, home: home.into() }
    }

    /// Runs `s5cmd` against it: once, without retries, and much quicker than `aws`.
    #[track_caller]
    pub fn s5cmd(&self, args: &[&str]) -> Done {
        let mut command = clean(tool("s5cmd"));
        command.env("HOME", &self.home).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", &self.access_key);
        command.env("AWS_SECRET_ACCESS_KEY", &self.secret_key);
        run(command.args(["--endpoint-url", &self.endpoint, "--retry-count", "0"]).args(args))
    }

    /// Where it is, with scheme; buckets are in the path.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The key's id.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// The key.
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// The same server behind a front.
    #[must_use]
    pub fn behind(&self, front: &crate::support::front::Front) -> Self {
        Self { endpoint: front.endpoint(), ..self.clone() }
    }

    /// The same server with another key.
    #[must_use]
    pub fn with_key(&self, access_key: &str, secret_key: &str) -> Self {
        let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
        Self { access_key, secret_key, ..self.clone() }
    }

    /// Runs the `aws` command line against it: once, without retries.
    #[track_caller]
    pub fn aws(&self, args: &[&str]) -> Done {
        let mut command = clean(tool("aws"));
        command.env("HOME", &self.home).env("AWS_MAX_ATTEMPTS", "1").env("AWS_PAGER", "");
        command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_DEFAULT_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", &self.access_key);
        command.env("AWS_SECRET_ACCESS_KEY", &self.secret_key);
        if let Some(tls) = &self.tls {
            command.env("AWS_CA_BUNDLE", tls.path("ca.crt"));
        }
        run(command.args(["--endpoint-url", &self.endpoint, "--output", "json"]).args(args))
    }

    /// Makes a bucket with Object Lock.
    #[track_caller]
    pub fn create_locked_bucket(&self, bucket: &str) {
        let lock = "--object-lock-enabled-for-bucket";
        self.aws(&["s3api", "create-bucket", "--bucket", bucket, lock]).expect(0);
    }

    fn root(port: u16, home: &Path) -> Self {
        Self {
            endpoint: format!("http://127.0.0.1:{port}"),
            access_key: "root".to_owned(),
            secret_key: "root-secret".to_owned(),
            tls: None,
            home: home.to_owned(),
        }
    }
}

/// A server that stores objects as files.
#[derive(Debug)]
pub struct Versitygw {
    /// Its process, to pause or to kill.
    pub peer: Peer,
    root: S3,
    port: u16,
    folder: TempDir,
}

impl Versitygw {
    /// Starts it with [`BUCKET`].
    #[track_caller]
    pub fn start() -> Self {
        Self::serve(None)
    }

    /// The same over TLS.
    #[track_caller]
    pub fn start_tls(tls: &Arc<Tls>) -> Self {
        Self::serve(Some(Arc::clone(tls)))
    }

    /// The folder that has a folder a bucket.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts it again, on the same port and data.
    #[track_caller]
    pub fn restart(&mut self) {
        self.peer.kill();
        self.peer.spawn();
        self.wait();
    }

    /// Runs `versitygw admin` against it and gives its stdout; fails the test if it fails.
    #[track_caller]
    pub fn admin(&self, args: &[&str]) -> String {
        let mut command = clean(tool("versitygw"));
        command.args(["admin", "--access", self.access_key(), "--secret", self.secret_key()]);
        command.args(["--endpoint-url", self.endpoint(), "--allow-insecure"]);
        run(command.args(args)).expect(0).out
    }

    /// A user who may nothing until a policy of a bucket lets him.
    #[track_caller]
    pub fn create_user(&self, access_key: &str) -> S3 {
        let secret = format!("{access_key}-secret");
        let key = ["--access", access_key, "--secret", &secret];
        self.admin(&[&["create-user"], &key[..], &["--role", "user"]].concat());
        self.with_key(access_key, &secret)
    }

    /// Lets a user do `actions` (`s3:PutObject`) on the bucket and on what is in it, and takes
    /// from all others what they were let.
    #[track_caller]
    pub fn allow(&self, user: &S3, bucket: &str, actions: &[&str]) {
        let (on, all) = (format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{bucket}/*"));
        let of = |inside: bool| {
            let about = |action: &&&str| action.contains("Bucket") != inside;
            actions.iter().filter(about).collect::<Vec<_>>()
        };
        let statement = |inside: bool, resource: &str| {
            serde_json::json!({
                "Effect": "Allow",
                "Principal": {"AWS": [user.access_key()]},
                "Action": of(inside),
                "Resource": [resource],
            })
        };
        let mut statements = vec![statement(true, &all), statement(false, &on)];
        statements.retain(|statement| statement["Action"] != serde_json::json!([]));
        let policy = serde_json::json!({"Version": "2012-10-17", "Statement": statements});
        let policy = policy.to_string();
        let put = ["s3api", "put-bucket-policy", "--bucket", bucket, "--policy", &policy];
        self.aws(&put).expect(0);
    }

    /// A user who may only add locked objects to [`BUCKET`].
    #[track_caller]
    pub fn append_only_user(&self) -> S3 {
        let user = self.create_user("append-only");
        self.allow(&user, BUCKET, &["s3:PutObject", "s3:PutObjectRetention"]);
        user
    }

    #[track_caller]
    fn serve(tls: Option<Arc<Tls>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = port();
        let mut root = S3::root(port, folder.path());
        let at = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path.to_str().expect("temporary folders have plain names").to_owned()
        };
        let mut args = vec![format!("--port=127.0.0.1:{port}"), format!("--iam-dir={}", at("iam"))];
        args.push(format!("--access={}", root.access_key));
        args.push(format!("--secret={}", root.secret_key));
        args.extend(["--iam-cache-disable", "--health=/health"].map(str::to_owned));
        if let Some(tls) = tls {
            args.push(format!("--cert={}", tls.arg("server.crt")));
            args.push(format!("--key={}", tls.arg("server.key")));
            root.endpoint = root.endpoint.replace("http:", "https:");
            root.tls = Some(tls);
        }
        let versions = format!("--versioning-dir={}", at("versions"));
        args.extend(["posix".to_owned(), versions, at("data")]);
        let mut peer = Peer::new("versitygw", folder.path(), args);
        peer.spawn();
        let mut server = Self { peer, root, port, folder };
        server.wait();
        let lock = "--object-lock-enabled-for-bucket";
        server.admin(&["create-bucket", "--owner", "root", "--bucket", BUCKET, lock]);
        server
    }

    #[track_caller]
    fn wait(&mut self) {
        let (port, tls) = (self.port, self.root.tls.is_some());
        let listens = move || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        self.peer.wait(|| if tls { listens() } else { get(port, "/health").is_some() });
    }
}

/// Each has a port for HTTP and one for gRPC, in this order.
const SEAWEED_PARTS: [&str; 4] = ["master", "volume", "filer", "s3"];

/// A server with master, volumes and filer in one process; ready after some seconds.
#[derive(Debug)]
pub struct Seaweed {
    /// Its process, to pause or to kill.
    pub peer: Peer,
    root: S3,
    // It leaves sockets in /tmp, named after its ports.
    ports: Vec<u16>,
    _folder: TempDir,
}

impl Seaweed {
    /// Starts it with [`BUCKET`].
    #[track_caller]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().display();
        let ports: Vec<u16> = (0..2 * SEAWEED_PARTS.len()).map(|_| port()).collect();
        let root = S3::root(ports[6], folder.path());
        let config = serde_json::json!({"identities": [{
            "name": "root",
            "credentials": [{"accessKey": root.access_key, "secretKey": root.secret_key}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }]});
        std::fs::write(folder.path().join("s3.json"), config.to_string()).unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();

        let mut args = vec!["server".to_owned(), format!("-dir={home}/data"), "-s3".to_owned()];
        for (part, ports) in SEAWEED_PARTS.iter().zip(ports.chunks(2)) {
            args.push(format!("-{part}.port={}", ports[0]));
            args.push(format!("-{part}.port.grpc={}", ports[1]));
        }
        args.push(format!("-s3.config={home}/s3.json"));
        args.push(format!("-s3.localSocket={home}/s3.sock"));
        args.push(format!("-filer.localSocket={home}/filer.sock"));
        let rest = "-ip=127.0.0.1 -ip.bind=127.0.0.1 -debug.port=0 -s3.iam=false \
                    -s3.port.iceberg=0 -s3.port.lance=0 -master.telemetry=false \
                    -master.volumeSizeLimitMB=1024 -volume.max=0";
        args.extend(rest.split_whitespace().map(str::to_owned));
        let mut peer = Peer::new("weed", folder.path(), args);
        peer.spawn();
        peer.wait(|| {
            // It answers long before it has a place to put anything.
            let place = get(ports[0], "/dir/assign").is_some_and(|said| said.contains("fid"));
            place && get(ports[6], "/healthz").is_some()
        });
        let server = Self { peer, root, ports, _folder: folder };
        server.create_locked_bucket(BUCKET);
        server
    }
}

impl Drop for Seaweed {
    fn drop(&mut self) {
        self.peer.kill();
        for (part, ports) in SEAWEED_PARTS.iter().zip(self.ports.chunks(2)) {
            let socket = format!("/tmp/seaweedfs-{part}-grpc-{}.sock", ports[1]);
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// A server in memory.
#[derive(Debug)]
pub struct Moto {
    /// Its process, to pause or to kill.
    pub peer: Peer,
    root: S3,
    _folder: TempDir,
}

impl Moto {
    /// Starts it with [`BUCKET`].
    #[track_caller]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = port();
        let args = ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec();
        let mut peer = Peer::new("moto_server", folder.path(), args);
        peer.spawn();
        peer.wait(|| get(port, "/moto-api/data.json").is_some());
        let server = Self { peer, root: S3::root(port, folder.path()), _folder: folder };
        server.create_locked_bucket(BUCKET);
        server
    }
}

macro_rules! as_its_root_sees_it {
    ($($server:ty),+) => {$(
        impl Deref for $server {
            type Target = S3;

            fn deref(&self) -> &S3 {
                &self.root
            }
        }
    )+};
}

as_its_root_sees_it!(Versitygw, Seaweed, Moto);
