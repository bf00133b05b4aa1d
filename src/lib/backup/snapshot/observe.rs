//! Looks: at the members, at this machine, at the bucket; all at once, and nothing is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join};

use super::plan::{Candidate, NodeFiles};
use super::request::Request;
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
    let files = files(request, &machine);
    check_out(request.out.as_deref())?;
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

/// A folder in the place of the local copy is noticed before the snapshot is taken.
fn check_out(out: Option<&Path>) -> Result<(), Error> {
    match out {
        Some(path) if path.is_dir() || path.file_name().is_none() => Err(Error::asked(
            format!("--out {} is a folder", path.display()),
            "name a file in it, such as snapshot.db.zst.age",
        )),
        _ => Ok(()),
    }
}

type Seen = (Vec<(Candidate, Client)>, Vec<String>);

/// Members that answer, and what is wrong with the others.
async fn members(access: &Access, clock: &Arc<dyn Clock>) -> Result<Seen, Error> {
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

/// What of this machine belongs to a backup.
fn files(request: &Request, machine: &Node) -> NodeFiles {
    let server = machine.api_server.clone().unwrap_or_default();
    let named = server.encryption_config.iter().chain(&server.configs);
    NodeFiles {
        control_plane: machine.etcd.is_some() || machine.api_server.is_some(),
        pki: Some(request.pki_dir.clone()).filter(|folder| folder.is_dir()),
        manifests: manifests(&request.etcd.manifests),
        missing: named.filter(|path| !path.exists()).cloned().collect(),
        encryption_config: server.encryption_config,
        configs: server.configs,
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
