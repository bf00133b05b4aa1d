//! What all guests share: programs, disks, the clusters and their running servers.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use super::super::cloud::Cloud;
use super::super::error::Error;
use super::super::events::VmAt;
use super::dark::Dark;
use super::plane::{Plane, Turn};
use super::process::{Process, find};

/// Where the programs are.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    pub(super) kubeadm: PathBuf,
    pub(super) api_server: PathBuf,
    pub(super) etcd: PathBuf,
}

impl Tools {
    /// Looks into `folder`, then for names on PATH and where `scripts/test-tools` puts them.
    pub(super) fn find(folder: Option<&Path>) -> Result<Self, Error> {
        let one = |name: &'static str| {
            let given = folder.map(|folder| folder.join(name));
            let usual = [PathBuf::from(".tools/bin").join(name), PathBuf::from(name)];
            let all: Vec<PathBuf> = given.into_iter().chain(usual).collect();
            let found = find(&all).and_then(|path| std::path::absolute(path).ok());
            found.ok_or_else(|| Error::Nodes(format!("there is no {name} here")))
        };
        let [kubeadm, api_server, etcd] = [one("kubeadm"), one("kube-apiserver"), one("etcd")];
        Ok(Self { kubeadm: kubeadm?, api_server: api_server?, etcd: etcd? })
    }
}

/// What all guests share.
pub(super) struct Quarters {
    pub(super) cloud: Arc<Cloud>,
    pub(super) tools: Tools,
    clusters: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<Plane>>>>>,
    servers: Mutex<Servers>,
    folder: TempDir,
}

#[derive(Default)]
struct Servers {
    closed: bool,
    running: BTreeMap<String, Process>,
}

impl Quarters {
    pub(super) fn new(cloud: Arc<Cloud>, tools: Tools) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("capvco-nodes-").tempdir();
        let (what, path) = ("make a directory below", tempfile::env::temp_dir());
        let folder = folder.map_err(|source| Error::File { what, path, source })?;
        let (clusters, servers) = (Mutex::default(), Mutex::default());
        Ok(Self { cloud, tools, clusters, servers, folder })
    }

    /// A place that is only for us, and goes with us.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A machine's disk, made anew: kubeadm takes none that another has used.
    pub(super) fn disk(&self, at: &VmAt) -> Result<PathBuf, Dark> {
        let path = self.path_of(at);
        let made = match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => std::fs::create_dir_all(&path),
        };
        made.map(|()| path.clone()).map_err(|source| Dark::Disk { path, source })
    }

    fn path_of(&self, at: &VmAt) -> PathBuf {
        self.folder.path().join(format!("{}-{}", at.location, at.vm_id))
    }

    /// The name of a machine's image; empty if there is none.
    pub(super) fn image_name(&self, location: &str, image_id: u64) -> String {
        let mut state = self.cloud.lock();
        let site = state.world.find_site(location);
        let image = site.and_then(|site| site.images.iter().find(|i| i.image_id == image_id));
        image.map(|image| image.name.clone()).unwrap_or_default()
    }

    /// Waits for one's turn at a cluster.
    pub(super) async fn turn(&self, endpoint: &str) -> Turn {
        let cluster = Arc::clone(lock(&self.clusters).entry(endpoint.to_owned()).or_default());
        cluster.lock_owned().await
    }

    /// Whether a server of this name runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        lock(&self.servers).running.get_mut(name).is_some_and(|process| !process.ended())
    }

    /// Keeps a server for as long as we are there; one of the same name ends.
    pub(super) fn keep(&self, name: &str, process: Process) {
        let mut servers = lock(&self.servers);
        if !servers.closed {
            servers.running.insert(name.to_owned(), process);
        }
    }

    /// Ends a server.
    pub(super) fn end(&self, name: &str) {
        let process = lock(&self.servers).running.remove(name);
        drop(process);
    }

    /// Ends all servers, for ever.
    pub(super) fn close(&self) {
        let running = {
            let mut servers = lock(&self.servers);
            servers.closed = true;
            std::mem::take(&mut servers.running)
        };
        drop(running);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
