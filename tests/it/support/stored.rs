//! Backups put into a bucket piece by piece, so that a test can leave out or spoil any of them.

use std::io::Write as _;

use bytes::Bytes;
use capvco::clock;
use capvco::s3::{Bucket, Config, Mode, Put, PutOutcome};
use capvco::snapshot::archive;
use capvco::snapshot::layout::{ClusterId, Layout, Part, Slot, Stored, Unique};
use capvco::snapshot::manifest::{
    Compression, Content, Data, Encryption, Lock, Manifest, Pki, Raft,
};
use capvco::snapshot::pack::{LEVEL, Layers, Packer};
use capvco::snapshot::passphrase::Nobody;
use capvco::snapshot::seal::{Identities, Recipients};
use sha2::{Digest as _, Sha256};

use super::bolt;
use super::peers::s3::{BUCKET, S3};

/// The cluster of most tests.
pub const CLUSTER: ClusterId = ClusterId(0xCDF8_1819_4E3A_8C32);

/// The key of most tests, and its public half.
pub const KEY: &str = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
/// Its public half.
pub const PUBLIC: &str = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";

/// A bucket that backups are put into.
pub struct Shelf {
    /// The bucket.
    pub bucket: Bucket,
    /// How keys are made in it.
    pub layout: Layout,
}

/// A backup to be put there.
#[derive(Debug, Clone)]
pub struct Backup {
    /// Whose.
    pub cluster: ClusterId,
    /// Which.
    pub slot: Slot,
    /// How it is stored.
    pub layers: Layers,
    /// The lock of all its objects.
    pub lock: Option<(Mode, u64)>,
    /// The database.
    pub db: Vec<u8>,
    /// The revision that its manifest says.
    pub revision: i64,
    /// Whether keys of a node go along.
    pub pki: bool,
}

/// A database of etcd 3.6 with `keys` keys.
pub fn database(keys: i64) -> Vec<u8> {
    let names: Vec<String> = (0..keys).map(|n| format!("/registry/pods/{n:06}")).collect();
    let changes = names.iter().map(|name| (name.as_str(), Some(vec![b'v'; 200])));
    bolt::Layout::of(4096).write(&bolt::etcd(bolt::history(changes), "3.6.0"))
}

/// The identity of most tests, as a file in `folder`.
pub fn identity_file(folder: &std::path::Path) -> std::path::PathBuf {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = folder.join("identity.txt");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&path).unwrap();
    writeln!(file, "# public key: {PUBLIC}\n{KEY}").unwrap();
    path
}

/// The identity of most tests.
pub fn identities() -> Identities {
    Identities::read(KEY.as_bytes(), "k", &Nobody).unwrap().0
}

impl Backup {
    /// A good one of [`CLUSTER`], compressed and encrypted to [`PUBLIC`], not locked.
    pub fn of(slot: &str) -> Self {
        let recipients = Recipients::parse([PUBLIC], "r").unwrap();
        let keys = 100;
        Self {
            cluster: CLUSTER,
            slot: slot.parse().unwrap(),
            layers: Layers { level: Some(LEVEL), recipients: Some(recipients) },
            lock: None,
            db: database(keys),
            revision: keys + 1,
            pki: false,
        }
    }

    /// The form in which the database is stored.
    pub fn packed(&self) -> Vec<u8> {
        let mut packer = Packer::new(Vec::new(), &self.layers).unwrap();
        packer.write_all(&self.db).unwrap();
        packer.finish().unwrap()
    }

    fn stored(&self, unique: u64) -> Stored {
        let Layers { level, recipients } = &self.layers;
        Stored { unique: Unique(unique), packed: level.is_some(), sealed: recipients.is_some() }
    }

    fn packed_keys(&self) -> Vec<u8> {
        let node = tempfile::tempdir().unwrap();
        std::fs::write(node.path().join("ca.key"), "planted-ca-key").unwrap();
        let packer = Packer::new(Vec::new(), &self.layers).unwrap();
        let (_, packer) = archive::pack(&[node.path().to_owned()], packer).unwrap();
        packer.finish().unwrap()
    }
}

fn content(bytes: &[u8]) -> Content {
    Content { size: bytes.len() as u64, sha256: hex::encode(Sha256::digest(bytes)) }
}

impl Shelf {
    /// The bucket of `store`, below `etcd/`.
    pub async fn of(store: &S3) -> Self {
        let mut config = Config::new(BUCKET);
        config.endpoint = Some(store.endpoint().to_owned());
        config.region = Some("us-east-1".to_owned());
        config.keys = Some((store.access_key().to_owned(), store.secret_key().into()));
        let bucket = Bucket::open(config, clock::System::shared()).await.unwrap();
        Self { bucket, layout: Layout::new("etcd") }
    }

    /// Stores bytes at a key, and gives their version.
    pub async fn put(
        &self,
        key: &str,
        bytes: Vec<u8>,
        lock: Option<(Mode, u64)>,
    ) -> Option<String> {
        let put = Put { lock, ..Put::default() };
        match self.bucket.put(key, Bytes::from(bytes), &put).await.unwrap() {
            PutOutcome::Stored(stored) => stored.version_id,
            PutOutcome::AlreadyThere => unreachable!("no condition was made"),
        }
    }

    /// Stores the data alone, as a run that dies before its manifest does.
    pub async fn put_data(
        &self,
        backup: &Backup,
        unique: u64,
    ) -> (String, Option<String>, Content) {
        let part = Part::Data(backup.stored(unique));
        let key = self.layout.key(backup.cluster, &backup.slot, part);
        let packed = backup.packed();
        let content = content(&packed);
        let version = self.put(&key, packed, backup.lock).await;
        (key, version, content)
    }

    /// Stores a backup's data, and gives the manifest that describes it, unstored.
    pub async fn begin(&self, backup: &Backup) -> Manifest {
        let (key, version_id, stored) = self.put_data(backup, 0xF0).await;
        let pki = if backup.pki { Some(self.put_keys(backup).await) } else { None };
        let sealed = backup.layers.recipients.as_ref();
        Manifest {
            cluster: backup.cluster,
            member: ClusterId(0x8E9E_05C5_2164_694D),
            node: "cp-1".to_owned(),
            slot: backup.slot.clone(),
            started: backup.slot.time(),
            finished: backup.slot.time(),
            etcd_version: "3.6.8".to_owned(),
            storage_version: Some("3.6.0".to_owned()),
            revision: backup.revision,
            raft: Raft { index: 77, term: Some(3) },
            db: content(&backup.db),
            data: Data {
                key,
                version_id,
                content: stored,
                compression: backup.layers.level.map_or(Compression::None, |_| Compression::Zstd),
                encryption: sealed.map_or(Encryption::None, |_| Encryption::Age),
            },
            pki,
            recipients: sealed.map(|to| to.texts().to_vec()).unwrap_or_default(),
            lock: backup.lock.map(|(mode, until)| Lock::until(mode, until)),
            tool: "a test".to_owned(),
            rekeyed: None,
        }
    }

    async fn put_keys(&self, backup: &Backup) -> Pki {
        let part = Part::Pki(backup.stored(0xF0));
        let key = self.layout.key(backup.cluster, &backup.slot, part);
        let packed = backup.packed_keys();
        let content = content(&packed);
        let version_id = self.put(&key, packed, backup.lock).await;
        Pki { key, version_id, content, paths: vec!["/etc/kubernetes/pki".to_owned()] }
    }

    /// The key of a backup's manifest.
    pub fn manifest_key(&self, backup: &Backup) -> String {
        self.layout.key(backup.cluster, &backup.slot, Part::Manifest)
    }

    /// Stores bytes at a key, and takes away what was there before.
    pub async fn replace(&self, key: &str, bytes: Vec<u8>) -> Option<String> {
        for version in self.bucket.versions(key).await.unwrap() {
            self.bucket.delete(key, version.version_id.as_deref()).await.unwrap();
        }
        self.put(key, bytes, None).await
    }

    /// Stores a whole backup.
    pub async fn store(&self, backup: &Backup) -> Manifest {
        let manifest = self.begin(backup).await;
        self.put(&self.manifest_key(backup), manifest.to_json(), backup.lock).await;
        manifest
    }
}
