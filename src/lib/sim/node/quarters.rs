//! What all guests share: programs, disks, the clusters and their running servers.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::task::TaskTracker;

use super::super::cloud::Cloud;
use super::super::error::Error;
use super::super::events::VmAt;
use super::super::network::range::Range;
use super::super::scratch::Scratch;
use super::dark::Dark;
use super::full::Outside;
use super::full::network::Networks;
use super::plane::{Plane, Turn};
use super::process::{Process, find};

/// Where the programs are.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    pub(super) kubeadm: PathBuf,
    pub(super) api_server: PathBuf,
    pub(super) etcd: PathBuf,
    /// What only the full flavour runs.
    pub(super) controller_manager: Option<PathBuf>,
}

impl Tools {
    /// Looks into `folder`, then for names on PATH and where `scripts/test-tools` puts them: what
    /// the quick flavour needs, or what the full one does.
    pub(super) fn find(folder: Option<&Path>, full: bool) -> Result<Self, Error> {
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Error::Nodes(format!("there is no folder {}", folder.display())));
        }
        let one = |name: &'static str| {
            let given = folder.map(|folder| folder.join(name));
            let usual = [PathBuf::from(".tools/bin").join(name), PathBuf::from(name)];
            let all: Vec<PathBuf> = given.into_iter().chain(usual).collect();
            let found = find(&all).and_then(|path| std::path::absolute(path).ok());
            found.ok_or_else(|| Error::Nodes(format!("there is no {name} here")))
        };
        Ok(Self {
            kubeadm: one("kubeadm")?,
            api_server: one("kube-apiserver")?,
            etcd: one("etcd")?,
            controller_manager: full.then(|| one("kube-controller-manager")).transpose()?,
        })
    }

    /// What runs in a static pod.
    pub(super) fn of_pod(&self, component: &str) -> Option<&Path> {
        match component {
            "etcd" => Some(&self.etcd),
            "kube-apiserver" => Some(&self.api_server),
            "kube-controller-manager" => self.controller_manager.as_deref(),
            _ => None,
        }
    }
}

/// What all guests share.
pub(super) struct Quarters {
    pub(super) cloud: Arc<Cloud>,
    pub(super) tools: Tools,
    /// Networks of machines of their own: the full flavour.
    pub(super) networks: Option<Networks>,
    /// By a cluster's endpoint: the kubeconfig of its administrator.
    admins: Mutex<HashMap<String, String>>,
    up: Mutex<BTreeMap<VmAt, Outside>>,
    /// Everything that may still write into the folder.
    pub(super) tasks: TaskTracker,
    clusters: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<Plane>>>>>,
    servers: Mutex<Servers>,
    folder: Scratch,
}

#[derive(Default)]
struct Servers {
    closed: bool,
    running: BTreeMap<String, Process>,
}

impl Quarters {
    pub(super) fn new(
        cloud: Arc<Cloud>,
        tools: Tools,
        networks: Option<Networks>,
    ) -> Result<Self, Error> {
        let folder = Scratch::new("capvco-nodes-")?;
        let (clusters, servers) = (Mutex::default(), Mutex::default());
        let (admins, up) = (Mutex::default(), Mutex::default());
        Ok(Self {
            cloud,
            tools,
            networks,
            admins,
            up,
            tasks: TaskTracker::new(),
            clusters,
            servers,
            folder,
        })
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

    /// Writes what a machine's console would say.
    pub(super) fn console(&self, at: &VmAt, said: &str) {
        let path = self.path_of(at);
        // A disk that is full or not there keeps no log.
        let _ = std::fs::create_dir_all(&path)
            .and_then(|()| std::fs::write(path.join("console.log"), format!("{said}\n")));
    }

    /// Removes a machine's disk.
    pub(super) fn wipe(&self, at: &VmAt) {
        lock(&self.up).remove(at);
        // What is left goes with all the others.
        let _ = std::fs::remove_dir_all(self.path_of(at));
    }

    /// A machine's disk as it is.
    pub(super) fn path_of(&self, at: &VmAt) -> PathBuf {
        self.folder.path().join(format!("{}-{}", at.location, at.vm_id))
    }

    /// The name of a machine's image; empty if there is none.
    pub(super) fn image_name(&self, location: &str, image_id: u64) -> String {
        let mut state = self.cloud.lock();
        let site = state.world.find_site(location);
        let image = site.and_then(|site| site.images.iter().find(|i| i.image_id == image_id));
        image.map(|image| image.name.clone()).unwrap_or_default()
    }

    /// The network of a machine's cloudspace.
    pub(super) fn range(&self, at: &VmAt) -> Option<Range> {
        let state = self.cloud.lock();
        let mut spaces = state.world.cloudspaces.iter();
        let space = spaces.find(|space| space.cloudspace_id == at.cloudspace_id)?;
        Range::parse(&space.private_network)
    }

    /// What leads to a cluster as its administrator, once its first machine has made that.
    pub(super) fn admin(&self, endpoint: &str) -> Option<String> {
        lock(&self.admins).get(endpoint).cloned()
    }

    /// From now on this is what leads to a cluster.
    pub(super) fn administer(&self, endpoint: &str, kubeconfig: String) {
        lock(&self.admins).insert(endpoint.to_owned(), kubeconfig);
    }

    /// A machine has come up, in the full flavour.
    pub(super) fn came_up(&self, at: &VmAt, outside: Outside) {
        lock(&self.up).insert(at.clone(), outside);
    }

    /// A machine that came up last, in the full flavour.
    pub(super) fn outside(&self, at: &VmAt) -> Option<Outside> {
        lock(&self.up).get(at).cloned()
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
