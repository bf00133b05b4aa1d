//! `snapshot`: a real etcd into real object storage, looked at from outside with the tools that
//! others use.

mod broken;
mod fit;
mod keys;
mod locks;
mod memory;
mod places;
mod secure;
mod slots;
mod whole;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::peers::etcd::Etcd;
use crate::support::peers::s3::{BUCKET, S3};
use crate::support::peers::{run, tool, until};
use crate::support::program::{Done, Program, backup_at};

/// Two keys by the real `age-keygen`, and a place for files.
pub struct Desk {
    folder: TempDir,
    pub recipients: Vec<String>,
}

impl Desk {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = |name: &str| {
            let path = folder.path().join(name);
            run(Command::new(tool("age-keygen")).arg("-o").arg(&path)).expect(0);
            run(Command::new(tool("age-keygen")).arg("-y").arg(&path))
                .expect(0)
                .out
                .trim()
                .to_owned()
        };
        let recipients = vec![key("one.txt"), key("two.txt")];
        Self { folder, recipients }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `snapshot` of this etcd into this bucket, to both keys, locked for a day.
    pub fn snapshot(&self, etcd: &Etcd, s3: &S3) -> Program {
        self.unlocked(etcd, s3).words("--lock governance --lock-for 1d")
    }

    /// The same with the lock that the bucket has.
    pub fn unlocked(&self, etcd: &Etcd, s3: &S3) -> Program {
        self.of(&etcd.endpoint(), s3)
    }

    fn of(&self, endpoints: &str, s3: &S3) -> Program {
        backup_at(s3)
            .env("CAPVCO_BACKUP_RECIPIENT", self.recipients.join(","))
            .env("CAPVCO_BACKUP_PKI_DIR", "/nowhere")
            .env("CAPVCO_BACKUP_NODE", "cp-1")
            .env("ETCDCTL_ENDPOINTS", endpoints)
            .words("snapshot -output json")
    }

    /// Decrypts with the real age and decompresses with the real zstd.
    pub fn open(&self, sealed: &Path, identity: &str, into: &str) -> PathBuf {
        let (packed, opened) = (self.path("packed"), self.path(into));
        let mut age = Command::new(tool("age"));
        run(age.arg("-d").arg("-i").arg(self.path(identity)).arg("-o").arg(&packed).arg(sealed))
            .expect(0);
        run(Command::new(tool("zstd")).args(["-d", "-q", "-f", "-o"]).arg(&opened).arg(&packed))
            .expect(0);
        opened
    }

    /// Fetches an object with the real aws.
    pub fn fetch(&self, s3: &S3, key: &str) -> PathBuf {
        let path = self.path("fetched");
        let to = path.to_str().unwrap();
        s3.aws(&["s3api", "get-object", "--bucket", BUCKET, "--key", key, to]).expect(0);
        path
    }
}

/// The only row of a report.
pub fn row(done: &Done) -> Value {
    let results = done.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 1, "{results:?}");
    results[0].clone()
}

/// All keys in the bucket, newest versions.
pub fn objects(s3: &S3) -> Vec<String> {
    let listed = s3.aws(&["s3api", "list-objects-v2", "--bucket", BUCKET]).expect(0);
    let listed: Value = serde_json::from_str(&listed.out).unwrap_or_default();
    let objects = listed["Contents"].as_array().cloned().unwrap_or_default();
    objects.iter().map(|object| object["Key"].as_str().unwrap().to_owned()).collect()
}

/// The objects whose names begin like this.
pub fn named(s3: &S3, name: &str) -> Vec<String> {
    let is = |key: &String| key.rsplit('/').next().unwrap().starts_with(name);
    objects(s3).into_iter().filter(is).collect()
}

/// Uploads that nobody has finished or aborted.
fn unfinished(s3: &S3) -> usize {
    let listed = s3.aws(&["s3api", "list-multipart-uploads", "--bucket", BUCKET]).expect(0);
    let listed: Value = serde_json::from_str(&listed.out).unwrap_or_default();
    listed["Uploads"].as_array().map_or(0, Vec::len)
}

fn json_of(s3: &S3, desk: &Desk, key: &str) -> Value {
    serde_json::from_slice(&std::fs::read(desk.fetch(s3, key)).unwrap()).unwrap()
}

fn signal(child: &std::process::Child, name: &str) {
    run(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()])).expect(0);
}

/// Waits until it is so, a minute at most, without holding up fronts on the same runtime.
async fn until_so(what: &str, so: impl FnMut() -> bool + Send + 'static) {
    let limit = std::time::Duration::from_mins(1);
    let so = tokio::task::spawn_blocking(move || until(limit, so)).await.unwrap();
    assert!(so, "{what}");
}
