//! Static pods as processes: what lies in a machine's manifests runs, and is started again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::super::kubelet::StaticPods;
use super::super::process::Process;
use super::super::quarters::Tools;
use super::network::Wired;
use crate::clock::{Clock as _, System};
use crate::yaml;

/// Where kubeadm writes them.
const MANIFESTS: &str = "etc/kubernetes/manifests";

/// How often one looks: for new manifests, and for servers that have ended.
const LOOK: Duration = Duration::from_millis(300);

/// How long one that has ended rests.
const REST: Duration = Duration::from_secs(1);

/// A machine's static pods, as those see them who do not run them.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    root: PathBuf,
    running: Arc<Mutex<BTreeSet<String>>>,
}

impl Seen {
    pub(super) fn on(root: &Path) -> Self {
        Self { root: root.to_owned(), running: Arc::default() }
    }

    fn are(&self, names: BTreeSet<String>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

impl StaticPods for Seen {
    /// The scheduler is taken to run: there is nothing to schedule onto.
    fn runs(&self, component: &str) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        component == "kube-scheduler" || running.contains(component)
    }

    fn annotations(&self, component: &str) -> BTreeMap<String, String> {
        let path = self.root.join(MANIFESTS).join(format!("{component}.yaml"));
        let manifest = manifest(&path).unwrap_or_default();
        let all = manifest["metadata"]["annotations"].as_object();
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        all.into_iter().flatten().filter_map(text).collect()
    }
}

/// A pod, and its server unless that rests.
struct Pod {
    command: Vec<String>,
    process: Option<Process>,
    /// When it may start again, by `clock`.
    rests_until: Duration,
}

/// Runs what lies in the manifests of a disk, until this is dropped.
pub(super) async fn run(host: Arc<Wired>, tools: Tools, seen: Seen) {
    let (clock, root) = (System::new(), seen.root.clone());
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    loop {
        let wanted = wanted(&root);
        pods.retain(|name, pod| wanted.get(name) == Some(&pod.command));
        for (name, command) in wanted {
            let rests_until = Duration::ZERO;
            let pod = pods.entry(name).or_insert(Pod { command, process: None, rests_until });
            if pod.process.as_mut().is_some_and(Process::ended) {
                (pod.process, pod.rests_until) = (None, clock.elapsed() + REST);
            }
        }
        for (name, pod) in &mut pods {
            if pod.process.is_none() && clock.elapsed() >= pod.rests_until {
                pod.process = start(&host, &tools, &root, name, &pod.command);
            }
        }
        let up = pods.iter().filter(|(_, pod)| pod.process.is_some());
        seen.are(up.map(|(name, _)| name.clone()).collect());
        clock.sleep(LOOK).await;
    }
}

fn start(
    host: &Wired,
    tools: &Tools,
    root: &Path,
    name: &str,
    command: &[String],
) -> Option<Process> {
    let program = tools.of_pod(name)?;
    let (nsenter, mut args) = host.inside(&program.display().to_string());
    args.extend(command.iter().cloned());
    let log = root.join(format!("{name}.log"));
    let started = Process::start(&nsenter, &args, &log);
    started
        .inspect_err(|error| tracing::warn!(target: "capvco::sim", %error, "{name} does not start"))
        .ok()
}

/// The pods of the manifests that are whole, with what their servers are told.
fn wanted(root: &Path) -> BTreeMap<String, Vec<String>> {
    let folder = std::fs::read_dir(root.join(MANIFESTS));
    let entries = folder.into_iter().flatten().flatten().map(|entry| entry.path());
    let manifests = entries.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let read = |path: PathBuf| {
        let manifest = manifest(&path)?;
        let name = path.file_stem()?.to_str()?.to_owned();
        (name != "kube-scheduler").then_some(())?;
        Some((name, arguments(root, &manifest)?))
    };
    manifests.filter_map(read).collect()
}

fn manifest(path: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(path).ok()?;
    yaml::from_str(&text, &path.display().to_string()).ok()
}

/// What a kubelet would run, with its files below `root`.
fn arguments(root: &Path, manifest: &Value) -> Option<Vec<String>> {
    let container = &manifest["spec"]["containers"][0];
    let command = container["command"].as_array()?;
    let words: Option<Vec<&str>> = command.iter().map(Value::as_str).collect();
    let words = words?;
    let mut args: Vec<String> = words.iter().skip(1).map(|word| below(root, word)).collect();
    match words.first().copied() {
        // The address of the load balancer is one of this machine, and its port is taken there.
        Some("kube-apiserver") => {
            let advertised =
                words.iter().find_map(|word| word.strip_prefix("--advertise-address="));
            args.retain(|word| !word.starts_with("--bind-address="));
            args.push(format!("--bind-address={}", advertised?));
        }
        // What is in it is gone with the embedded cloud anyway.
        Some("etcd") => args.push("--unsafe-no-fsync".to_owned()),
        _ => {}
    }
    Some(args)
}

/// A word of a command line; a file in it is one of the machine's disk.
fn below(root: &Path, word: &str) -> String {
    let ours = ["/etc/kubernetes", "/var/lib/etcd"];
    match word.split_once('=') {
        Some((flag, value)) if ours.iter().any(|folder| value.starts_with(folder)) => {
            format!("{flag}={}{value}", root.display())
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_finds_its_files_on_the_disk_of_its_machine() {
        let of = |command: Value| {
            let manifest = json!({"spec": {"containers": [{"command": command}]}});
            arguments(Path::new("/disk"), &manifest)
        };
        let etcd = json!(["etcd", "--data-dir=/var/lib/etcd", "--name=a", "--snapshot-count=10"]);
        assert_eq!(of(etcd).unwrap()[..2], ["--data-dir=/disk/var/lib/etcd", "--name=a"]);
        let server = json!([
            "kube-apiserver",
            "--advertise-address=10.0.0.2",
            "--bind-address=::",
            "--client-ca-file=/etc/kubernetes/pki/ca.crt"
        ]);
        assert_eq!(
            of(server).unwrap()[1..],
            ["--client-ca-file=/disk/etc/kubernetes/pki/ca.crt", "--bind-address=10.0.0.2",]
        );
        assert_eq!(of(json!(["kube-apiserver"])), None);
        assert_eq!(of(json!(null)), None);
    }

    #[test]
    fn manifests_that_are_not_whole_wait() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(wanted(root.path()), BTreeMap::new());
        let folder = root.path().join(MANIFESTS);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("etcd.yaml"), "spec: {containers: [{command: [etcd, --x]}]}")
            .unwrap();
        std::fs::write(folder.join("kube-apiserver.yaml"), "spec: {conta").unwrap();
        std::fs::write(folder.join("kube-scheduler.yaml"), "spec: {}").unwrap();
        let all = wanted(root.path());
        assert_eq!(all.keys().collect::<Vec<_>>(), ["etcd"]);
    }
}
