//! Looks: at the members, at this machine, at the bucket; all at once, and nothing is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join};

use super::node_files::NodeFiles;
use super::pki;
use super::plan::Candidate;
use super::request::Request;
use crate::backup::kubeadm;
use crate::backup::lock::{self, Settled};
use crate::backup::node::Node;
use crate::backup::{Error, Target};
use crate::clock::Clock;
use crate::etcd::{self, Access, Client};
use crate::fault::{Class, Fault as _};
use crate::s3::Bucket;

/// How far clocks may be apart before it is worth a word, in seconds.
const SKEW: f64 = 60.0;

/// How long the leader may take to tell where the log is, where it is no candidate itself.
const LEADER: Duration = Duration::from_secs(2);

/// Everything that is known before the first write.
pub struct Observed {
    /// Members that answered, and their connections.
    pub members: Vec<(Candidate, Client)>,
    /// How many members vote, as far as one tells.
    pub voters: usize,
    /// The newest log entry that is known of from elsewhere.
    pub log: u64,
    /// What the machine has.
    pub files: NodeFiles,
    /// The node's name.
    pub node: String,
    /// The bucket.
    pub store: Option<Store>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// The bucket as it was found.
#[derive(Debug, Clone)]
pub struct Store {
    /// The bucket.
    pub bucket: Bucket,
    /// Where backups lie in it.
    pub target: Target,
    /// What objects are to be locked with.
    pub settled: Settled,
}

/// Looks at everything.
pub async fn observe(request: &Request, clock: &Arc<dyn Clock>) -> Result<Observed, Error> {
    let machine = request.etcd.look()?;
    let mut warnings = Vec::new();
    let files = files(&machine, request.etcd.manifests.folder(), request.pki_dir.as_deref());
    check_out(request)?;
    let access = request.etcd.access(&machine);
    let (seen, store) = try_join(members(&access, clock), store(request, clock)).await?;
    let (members, silent) = seen;
    warnings.extend(silent);
    if let Some((store, skew)) = &store {
        warnings.extend(store.settled.warning.clone());
        warnings.extend(skew.clone());
    }
    let (voters, log) = others(&members, &access, clock).await;
    let node = node(request, &machine, &members);
    let store = store.map(|(store, _)| store);
    Ok(Observed { members, voters, log, files, node, store, warnings })
}

/// Something in the place of the local copy is noticed before the snapshot is taken.
fn check_out(request: &Request) -> Result<(), Error> {
    let Some(path) = &request.out else { return Ok(()) };
    if path.is_dir() || path.file_name().is_none() {
        return Err(Error::asked(
            format!("--out {} is a folder", path.display()),
            "name a file in it, such as snapshot.db.zst.age",
        ));
    }
    // The keys lie in the bucket, where there is one.
    let keys = Some(pki::beside(path)).filter(|_| request.store.is_none());
    let taken = [Some(path.clone()), keys].into_iter().flatten();
    // A link that leads nowhere is something, too.
    match taken.into_iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(Error::declined(
            format!("{} is there already, and nothing is overwritten", path.display()),
            "name another file with --out, or move this one away",
        )),
        None => Ok(()),
    }
}

type Seen = (Vec<(Candidate, Client)>, Vec<String>);

/// Members that answer, and what is wrong with the others.
pub(in crate::backup) async fn members(
    access: &Access,
    clock: &Arc<dyn Clock>,
) -> Result<Seen, Error> {
    let asked = access.endpoints.iter().map(|endpoint| ask(access, endpoint, clock));
    let (mut members, mut errors) = (Vec::new(), Vec::new());
    for answer in join_all(asked).await {
        match answer {
            Ok(member) => members.push(member),
            Err(error) => errors.push(error),
        }
    }
    if members.is_empty() {
        // What can be mended by hand goes first: another time it would be the same.
        errors.sort_by_key(|error| error.class() == Class::Transient);
        let first = errors.into_iter().next();
        return Err(first.map_or_else(
            || Error::asked("no endpoint of etcd is given", "name members with --endpoints"),
            Error::doing("no member of etcd can be asked"),
        ));
    }
    let silent = errors.iter().map(|error| crate::fault::chain(error)).collect();
    Ok((members, silent))
}

async fn ask(
    access: &Access,
    endpoint: &str,
    clock: &Arc<dyn Clock>,
) -> Result<(Candidate, Client), etcd::Error> {
    let client = Client::connect(access, endpoint, Arc::clone(clock)).await?;
    let status = client.status().await?;
    Ok((Candidate { endpoint: client.url().to_owned(), status }, client))
}

/// How many members vote, and where the log is, asked of the leader where that is none of the
/// candidates. A leader that cannot be reached from here is no reason to have no backup.
async fn others(
    members: &[(Candidate, Client)],
    access: &Access,
    clock: &Arc<dyn Clock>,
) -> (usize, u64) {
    let Some((seen, client)) = members.first() else { return (0, 0) };
    let Ok(all) = client.members().await else { return (0, 0) };
    let voters = all.iter().filter(|member| !member.is_learner).count();
    let leader = seen.status.leader;
    let known = members.iter().any(|(member, _)| member.status.member_id == leader);
    let leader = all.into_iter().find(|member| member.id == leader && !known);
    let url = leader.and_then(|leader| leader.client_urls.into_iter().next());
    let asking = async {
        let (candidate, _) = ask(access, &url?, clock).await.ok()?;
        Some(candidate.status.raft_index)
    };
    tokio::select! {
        log = asking => (voters, log.unwrap_or(0)),
        () = clock.sleep(LEADER) => (voters, 0),
    }
}

async fn store(
    request: &Request,
    clock: &Arc<dyn Clock>,
) -> Result<Option<(Store, Option<String>)>, Error> {
    let Some(target) = &request.store else { return Ok(None) };
    let bucket = target.open(Arc::clone(clock)).await?;
    let settled = lock::settle(request.lock, &bucket).await?;
    let skew = bucket.skew().await.map_err(Error::doing("cannot learn the server's time"))?;
    let warning = (skew.abs() > SKEW).then(|| {
        let (by, way) = (skew.abs().round(), if skew > 0.0 { "behind" } else { "ahead of" });
        format!("this machine's clock is {by} s {way} the S3 server's, whose time counts")
    });
    Ok(Some((Store { bucket, target: target.clone(), settled }, warning)))
}

fn node(request: &Request, machine: &Node, members: &[(Candidate, Client)]) -> String {
    let given = request.node.clone();
    let kubeadms = || machine.etcd.as_ref().map(|member| member.name.clone());
    let kernels = || {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned())
    };
    let etcds = || members.first().map(|(member, _)| format!("{:x}", member.status.member_id));
    let name = given.or_else(kubeadms).or_else(kernels).filter(|name| !name.is_empty());
    name.or_else(etcds).unwrap_or_else(|| "unknown".to_owned())
}

/// What of this machine belongs to a backup: its manifests lie in `folder`, its keys where
/// `pki_dir` or else they say.
pub(in crate::backup) fn files(machine: &Node, folder: &Path, pki_dir: Option<&Path>) -> NodeFiles {
    let pki = key_folders(machine, pki_dir);
    let server = machine.api_server.clone().unwrap_or_default();
    let named = server.encryption_config.iter().chain(&server.configs);
    NodeFiles {
        control_plane: machine.etcd.is_some() || machine.api_server.is_some(),
        no_keys: pki.iter().filter(|folder| is_empty(folder)).cloned().collect(),
        pki,
        manifests: manifests(folder),
        missing: named.filter(|path| !path.exists()).cloned().collect(),
        encryption_config: server.encryption_config,
        configs: server.configs,
    }
}

/// Where the keys of this machine are, or have to be.
pub(in crate::backup) fn key_folders(machine: &Node, pki_dir: Option<&Path>) -> Vec<PathBuf> {
    let named = || kubeadm::key_folders(machine.etcd.as_ref(), machine.api_server.as_ref());
    pki_dir.map_or_else(named, |folder| vec![folder.to_owned()])
}

/// Whether a folder is not there, or nothing is in it. One that may not be read is told when it
/// is packed.
fn is_empty(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() != std::io::ErrorKind::PermissionDenied,
    }
}

/// The manifests in a folder, in the order of their names; what cannot be listed has none.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_yaml = |path: &PathBuf| {
        path.is_file() && path.extension().is_some_and(|end| end == "yaml" || end == "yml")
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_yaml).collect();
    found.sort();
    found
}
