//! What remains to be done by hand, filled in for this node.
//!
//! The order is that of the papers on kubeadm 1.36: the control plane stands still, one etcd
//! starts, then the API server, then everybody who remembers revisions (kubernetes/kubernetes
//! issues 107457, 118501, 131115). The API server is asked at this node's own address: the one
//! of the cluster may be carried by a static pod that waits for it, as kube-vip is.

use std::path::Path;

use serde::Serialize;

use crate::backup::kubeadm::{EtcdNode, MANIFESTS};
use crate::backup::node::Node;
use crate::etcd::Version;
use crate::etcd::restore::Plan;
use crate::report::shell_word;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What, and why.
    pub what: String,
    /// The commands for it, if there are any.
    pub commands: Vec<String>,
}

/// Shows what of a control plane runs. Not all that is called `kube-…`: kube-proxy goes on.
const RUNNING: &str =
    "crictl ps --name '^(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)$'";

fn step(what: impl Into<String>, commands: &[&str]) -> Step {
    Step { what: what.into(), commands: commands.iter().map(|text| (*text).to_owned()).collect() }
}

/// What the words depend on.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// This node as kubeadm made it, if it did.
    pub node: Option<&'a EtcdNode>,
    /// The URL of this node's own API server, where that is known.
    pub api: Option<String>,
    /// The folder in which its manifest was found.
    pub manifests: &'a Path,
    /// The data directory.
    pub data_dir: &'a Path,
    /// Where the old data is.
    pub aside: Option<&'a Path>,
    /// The member that was made.
    pub plan: &'a Plan,
    /// What another member of the same cluster is told to restore from.
    pub source: Vec<String>,
    /// And by which engine for which etcd, where that was said.
    pub engine: Vec<String>,
    /// The lowest etcd that may be started, once that is known.
    pub lowest: Option<Version>,
}

/// The URL of this node's own API server: where its etcd member is reached, on its own port.
#[must_use]
pub fn own_api(node: &Node) -> Option<String> {
    let beyond = |url: &&String| {
        !["127.", "localhost", "[::1]"].iter().any(|own| url.contains(&format!("//{own}")))
    };
    let url = node.etcd.as_ref()?.client_urls.iter().find(beyond)?;
    let (_, rest) = url.split_once("://")?;
    let (host, _) = rest.split('/').next()?.rsplit_once(':')?;
    let port = node.api_server.as_ref().and_then(|server| server.secure_port.as_deref());
    Some(format!("https://{host}:{}", port.unwrap_or("6443")))
}

/// What must be done before: only where nothing was done yet.
#[must_use]
pub fn before(facts: &Facts<'_>) -> Vec<Step> {
    let Some(_) = facts.node else {
        return vec![step(
            "stop etcd, and whatever uses it, on every member of the old cluster",
            &[],
        )];
    };
    if facts.manifests != Path::new(MANIFESTS) {
        return vec![step(
            "make sure that nothing of the old control plane runs, on any node: this must show \
             nothing",
            &[RUNNING],
        )];
    }
    vec![
        step(
            "on every control-plane node: stop the control plane, and wait until the last command \
             shows nothing (the kubelet looks every 20 s)",
            &[
                "mkdir -p /root/manifests",
                "mv /etc/kubernetes/manifests/*.yaml /root/manifests/",
                RUNNING,
            ],
        ),
        step("run this command again, without --plan, with --manifests /root/manifests", &[]),
    ]
}

/// What is to be done with a node's keys: they are never put where something uses them.
#[must_use]
pub fn keys(folder: &Path, files: &[&Path]) -> Step {
    let usual = Path::new("etc/kubernetes");
    let (usual, others): (Vec<&Path>, Vec<&Path>) =
        files.iter().partition(|file| file.starts_with(usual));
    let from = shell_word(&folder.display().to_string());
    let mut commands = Vec::new();
    if !usual.is_empty() {
        commands.push(format!("cp -a {from}/etc/kubernetes/* /etc/kubernetes/"));
    }
    let copy = |file: &&Path| {
        let path = file.display();
        format!(
            "install -D -m 0600 {} {}",
            shell_word(&format!("{}/{path}", folder.display())),
            shell_word(&format!("/{path}"))
        )
    };
    commands.extend(others.iter().map(copy));
    Step {
        what: format!(
            "on a new machine, before anything is started: copy what is below {} to its own place",
            folder.display()
        ),
        commands,
    }
}

/// What must be done after.
#[must_use]
pub fn after(facts: &Facts<'_>) -> Vec<Step> {
    let mut all = others(facts);
    match facts.node {
        Some(node) => all.extend(kubeadm(facts, node)),
        None => all.push(start(facts)),
    }
    all.push(last(facts));
    all
}

/// The other members of a cluster that is restored at once.
fn others(facts: &Facts<'_>) -> Vec<Step> {
    let plan = facts.plan;
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in &plan.initial_cluster {
        if *name != plan.name && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    let commands: Vec<String> = names.iter().map(|name| for_member(facts, name)).collect();
    let what = "on the other nodes: restore the same backup with the same token, each with its own \
                name; then start all of them within a minute";
    vec![Step { what: what.to_owned(), commands }]
}

fn for_member(facts: &Facts<'_>, name: &str) -> String {
    let plan = facts.plan;
    let pairs: Vec<String> =
        plan.initial_cluster.iter().map(|(name, url)| format!("{name}={url}")).collect();
    let own = plan.initial_cluster.iter().filter(|(member, _)| member == name);
    let urls: Vec<&str> = own.map(|(_, url)| url.as_str()).collect();
    let mut words = vec!["capvco-backup restore".to_owned()];
    words.extend(facts.source.iter().cloned());
    words.extend(facts.engine.iter().cloned());
    let mut say = |flag: &str, value: &str| words.push(format!("--{flag} {}", shell_word(value)));
    say("data-dir", &facts.data_dir.display().to_string());
    // Its image says which etcd will be started there.
    if facts.node.is_some() {
        say("manifests", &moved_to(facts).display().to_string());
    }
    say("name", name);
    say("initial-advertise-peer-urls", &urls.join(","));
    say("initial-cluster", &pairs.join(","));
    say("initial-cluster-token", &plan.token);
    say("bump-revision", &plan.bump.unwrap_or(0).to_string());
    words.join(" ")
}

/// The folder in which the manifests are while the control plane stands still.
fn moved_to<'a>(facts: &Facts<'a>) -> &'a Path {
    if facts.manifests == Path::new(MANIFESTS) {
        Path::new("/root/manifests")
    } else {
        facts.manifests
    }
}

fn kubeadm(facts: &Facts<'_>, node: &EtcdNode) -> Vec<Step> {
    // Quoted but for the `*`, which the shell is to read.
    let from = shell_word(&moved_to(facts).display().to_string());
    let moved = |name: &str| format!("mv {from}/{name} {MANIFESTS}/");
    let health = node.metrics_urls.first().map_or("http://127.0.0.1:2381", String::as_str);
    let etcd = node.image.rsplit('/').next().filter(|image| !image.is_empty());
    let etcd = etcd.map(|image| format!(" ({image})")).unwrap_or_default();
    vec![
        step(
            format!("start etcd{etcd} on this node, and wait for it"),
            &[
                &moved("etcd.yaml"),
                &format!(
                    "until curl -fs {}/health; do sleep 2; done",
                    health.trim_end_matches('/')
                ),
            ],
        ),
        step(
            "then the rest at once: what carries the API's address, such as kube-vip, waits for \
             the API server and it for nothing but etcd",
            &[
                &moved("*.yaml"),
                &format!("until {} get --raw /readyz; do sleep 2; done", kubectl(facts)),
            ],
        ),
        step(
            "let everybody forget the revisions that are no more: on every node, workers too, \
             restart the kubelet; then whatever keeps a cache",
            &[
                "systemctl restart kubelet",
                &format!("{} -n kube-system rollout restart daemonset,deployment", kubectl(facts)),
            ],
        ),
    ]
}

/// `kubectl`, as it works on this node before the cluster's address does.
fn kubectl(facts: &Facts<'_>) -> String {
    let server = facts.api.as_ref().map(|url| format!(" --server {url}")).unwrap_or_default();
    format!("kubectl --kubeconfig /etc/kubernetes/admin.conf{server}")
}

fn start(facts: &Facts<'_>) -> Step {
    let plan = facts.plan;
    let lowest = facts.lowest.map(|lowest| format!(" {}.{} or newer", lowest.major, lowest.minor));
    let urls = plan.advertise_peer_urls.join(",");
    let command = format!(
        "etcd --name {} --data-dir {} --listen-peer-urls {urls} --initial-advertise-peer-urls {urls}",
        shell_word(&plan.name),
        shell_word(&facts.data_dir.display().to_string()),
    );
    step(
        format!(
            "start etcd{} on it, with the client URLs and certificates that it had before",
            lowest.unwrap_or_default()
        ),
        &[&command],
    )
}

fn last(facts: &Facts<'_>) -> Step {
    let kept = facts.aside.map(|aside| {
        format!("; keep {} until somebody has confirmed that everything is there", aside.display())
    });
    let command = match facts.node {
        Some(_) => "systemctl start capvco-backup.service",
        None => "capvco-backup snapshot",
    };
    step(
        format!(
            "take a new backup at once, with the schedule's settings (a key that may only read \
             cannot){}",
            kept.unwrap_or_default()
        ),
        &[command],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(members: usize) -> Plan {
        let member = |n| (format!("cp-{n}"), format!("https://10.0.0.{n}:2380"));
        Plan {
            name: "cp-1".to_owned(),
            initial_cluster: (1..=members).map(member).collect(),
            advertise_peer_urls: vec!["https://10.0.0.1:2380".to_owned()],
            token: "again".to_owned(),
            bump: Some(5),
            mark_compacted: true,
            target_version: None,
            force: false,
        }
    }

    fn text(steps: &[Step]) -> String {
        let line = |step: &Step| format!("{}\n{}", step.what, step.commands.join("\n"));
        steps.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn facts<'a>(node: Option<&'a EtcdNode>, plan: &'a Plan, manifests: &'a str) -> Facts<'a> {
        Facts {
            node,
            api: Some("https://10.0.0.1:6443".to_owned()),
            manifests: Path::new(manifests),
            data_dir: Path::new("/var/lib/etcd"),
            aside: Some(Path::new("/var/lib/etcd.bak-1")),
            plan,
            source: vec!["--object K".to_owned()],
            engine: Vec::new(),
            lowest: Some(Version::line(3, 6)),
        }
    }

    #[test]
    fn the_words_are_this_nodes_own() {
        let node = EtcdNode {
            image: "registry.k8s.io/etcd:3.6.8-0".to_owned(),
            metrics_urls: vec!["http://127.0.0.1:2381".to_owned()],
            ..EtcdNode::default()
        };
        let plan = plan(1);
        let facts = facts(Some(&node), &plan, MANIFESTS);
        let stop = text(&before(&facts));
        assert!(stop.contains("mv /etc/kubernetes/manifests/*.yaml /root/manifests/"), "{stop}");
        let running = "\ncrictl ps --name '^(etcd|kube-apiserver|kube-controller-manager|";
        assert!(stop.contains(running), "{stop}");
        let rest = text(&after(&facts));
        for part in [
            "start etcd (etcd:3.6.8-0)",
            "mv /root/manifests/etcd.yaml /etc/kubernetes/manifests/",
            "curl -fs http://127.0.0.1:2381/health",
            "systemctl restart kubelet",
            "keep /var/lib/etcd.bak-1",
            "mv /root/manifests/*.yaml /etc/kubernetes/manifests/",
            "until kubectl --kubeconfig /etc/kubernetes/admin.conf --server https://10.0.0.1:6443 get",
            "--server https://10.0.0.1:6443 -n kube-system rollout",
            "systemctl start capvco-backup.service",
        ] {
            assert!(rest.contains(part), "{part}: {rest}");
        }
        assert!(!rest.contains("on the other nodes"));
    }

    #[test]
    fn keys_are_copied_to_where_they_were() {
        for (files, commands) in [
            (
                &["etc/kubernetes/pki/ca.key"][..],
                &["cp -a '/a b'/etc/kubernetes/* /etc/kubernetes/"][..],
            ),
            (&["etc/enc.yaml"], &["install -D -m 0600 '/a b/etc/enc.yaml' /etc/enc.yaml"]),
            (&[], &[]),
        ] {
            let files: Vec<&Path> = files.iter().map(Path::new).collect();
            assert_eq!(keys(Path::new("/a b"), &files).commands, commands, "{files:?}");
        }
    }

    #[test]
    fn the_api_server_is_asked_at_this_nodes_own_address() {
        use crate::backup::kubeadm::ApiServer;
        for (urls, port, want) in [
            (&["https://10.0.0.11:2379"][..], None, Some("https://10.0.0.11:6443")),
            (
                &["https://127.0.0.1:2379", "https://[fd00::1]:2379/"],
                None,
                Some("https://[fd00::1]:6443"),
            ),
            (&["https://10.0.0.11:2379"], Some("7443"), Some("https://10.0.0.11:7443")),
            (&["https://localhost:2379", "https://[::1]:2379"], None, None),
            (&[], None, None),
        ] {
            let client_urls = urls.iter().map(|url| (*url).to_owned()).collect();
            let secure_port = port.map(str::to_owned);
            let node = Node {
                etcd: Some(EtcdNode { client_urls, ..EtcdNode::default() }),
                api_server: Some(ApiServer { secure_port, ..ApiServer::default() }),
            };
            assert_eq!(own_api(&node).as_deref(), want, "{urls:?}");
        }
        assert_eq!(own_api(&Node::default()), None);
    }

    #[test]
    fn other_members_are_told_the_same_words() {
        let plan = plan(3);
        let rest = text(&after(&facts(None, &plan, "/root/manifests")));
        for n in [2, 3] {
            let command = format!(
                "capvco-backup restore --object K --data-dir /var/lib/etcd --name cp-{n} \
                 --initial-advertise-peer-urls https://10.0.0.{n}:2380 --initial-cluster \
                 cp-1=https://10.0.0.1:2380,cp-2=https://10.0.0.2:2380,cp-3=https://10.0.0.3:2380 \
                 --initial-cluster-token again --bump-revision 5"
            );
            assert!(rest.contains(&command), "{rest}");
        }
        assert!(rest.contains("start etcd 3.6 or newer"), "{rest}");
    }

    #[test]
    fn other_members_raise_the_revision_alike_and_read_their_own_image() {
        let node = EtcdNode::default();
        for (bump, manifests, want) in [
            (Some(5), "/m", "--manifests /m "),
            (Some(5), MANIFESTS, "--manifests /root/manifests "),
            (Some(5), "/a b", "--manifests '/a b' "),
            (Some(5), "/m", "--bump-revision 5\n"),
            (None, "/m", "--bump-revision 0\n"),
        ] {
            let plan = Plan { bump, mark_compacted: bump.is_some(), ..plan(2) };
            let rest = text(&after(&facts(Some(&node), &plan, manifests)));
            assert!(rest.contains(want), "{want}: {rest}");
        }
    }
}
