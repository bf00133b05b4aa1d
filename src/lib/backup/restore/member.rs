//! Which member this node becomes: what was said, what kubeadm wrote, etcd's defaults.

use std::collections::BTreeSet;
use std::path::Path;

use crate::backup::kubeadm::EtcdNode;
use crate::backup::restore::request::MemberWish;
use crate::backup::{Error, Manifests};
use crate::etcd::Version;
use crate::etcd::restore::{Cluster, Plan};

/// The plan for etcd's restore, and what the user should know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What the engine is told.
    pub plan: Plan,
    /// The ids of the new cluster.
    pub cluster: Cluster,
    /// Said before anything is done.
    pub warnings: Vec<String>,
}

/// Fills in what was not said. `fresh` is a token that nobody else has.
///
/// Alone by default, whatever the old cluster was: a member that waits for others that were not
/// restored would never serve.
///
/// # Errors
/// The version in the node's manifest is none, or the words contradict each other.
pub fn decide(wish: &MemberWish, node: Option<&EtcdNode>, fresh: &str) -> Result<Member, Error> {
    let name = named(wish, node);
    let advertised = if wish.peer_urls.is_empty() {
        let of_node = || node.map(|node| node.peer_urls.clone()).unwrap_or_default();
        let of_cluster: Vec<String> = urls_of(&name, &wish.initial_cluster);
        if of_cluster.is_empty() { of_node() } else { of_cluster }
    } else {
        wish.peer_urls.clone()
    };
    let peer_urls = match &advertised[..] {
        [] => vec!["http://localhost:2380".to_owned()],
        _ => advertised,
    };
    let initial_cluster = if wish.initial_cluster.is_empty() {
        peer_urls.iter().map(|url| (name.clone(), url.clone())).collect()
    } else {
        wish.initial_cluster.clone()
    };
    let target_version = match wish.etcd_version {
        Some(version) => Some(version),
        None => of_image(node)?,
    };
    let plan = Plan {
        name,
        initial_cluster,
        advertise_peer_urls: peer_urls,
        token: wish.token.clone().unwrap_or_else(|| fresh.to_owned()),
        bump: wish.bump,
        mark_compacted: wish.mark_compacted,
        target_version,
        force: wish.force,
    };
    let cluster = plan.cluster().map_err(Error::doing("the member cannot be made"))?;
    let warnings = node.map(|node| unlike(&plan, wish, node)).unwrap_or_default();
    Ok(Member { plan, cluster, warnings })
}

/// What the user should know where no etcd.yaml says who this node is.
#[must_use]
pub fn unknown(wish: &MemberWish, plan: &Plan, manifests: &Manifests) -> Option<String> {
    let told = |said: bool, what: String| (!said).then_some(what);
    let in_cluster = !wish.initial_cluster.is_empty();
    let name = told(wish.name.is_some() || in_cluster, format!("is called {:?}", plan.name));
    let urls = plan.advertise_peer_urls.join(", ");
    let urls = told(
        !wish.peer_urls.is_empty() || in_cluster,
        format!("has the peer URL {urls}, by which no other machine reaches it"),
    );
    let guesses: Vec<String> = [name, urls].into_iter().flatten().collect();
    if guesses.is_empty() {
        return None;
    }
    let unchecked = "; whether your etcd is too old for the data is not checked (--etcd-version)";
    Some(format!(
        "there is no etcd.yaml in {}, so the member {}{}; if its manifests were moved away, say \
         --manifests DIR, else --name and --initial-advertise-peer-urls",
        manifests.folder().display(),
        guesses.join(" and "),
        if wish.etcd_version.is_none() { unchecked } else { "" },
    ))
}

/// Each difference between etcd.yaml, with which etcd will be started, and what was asked.
fn unlike(plan: &Plan, wish: &MemberWish, node: &EtcdNode) -> Vec<String> {
    let mut all = Vec::new();
    let mut differs = |what: &str, theirs: &str, ours: &str| {
        all.push(format!("etcd.yaml says {what} {theirs}, and this restore makes it {ours}"));
    };
    if node.name != plan.name {
        differs("--name", &node.name, &plan.name);
    }
    if !node.peer_urls.is_empty() && !same(&node.peer_urls, &plan.advertise_peer_urls) {
        let ours = plan.advertise_peer_urls.join(",");
        differs("--initial-advertise-peer-urls", &node.peer_urls.join(","), &ours);
    }
    for name in names(&node.initial_cluster).into_iter().filter(|name| **name != plan.name) {
        let (theirs, ours) =
            (urls_of(name, &node.initial_cluster), urls_of(name, &wish.initial_cluster));
        if !ours.is_empty() && !same(&theirs, &ours) {
            differs(&format!("the peer URL of {name} is"), &theirs.join(","), &ours.join(","));
        }
    }
    all.extend(left_out(wish, node));
    if node.version.is_none() && wish.etcd_version.is_none() {
        all.push(format!(
            "the image in etcd.yaml ({}) does not tell its version: whether it is too old for the \
             data is not checked (--etcd-version)",
            node.image
        ));
    }
    all
}

/// Members that etcd.yaml names and the new cluster does not have.
fn left_out(wish: &MemberWish, node: &EtcdNode) -> Option<String> {
    let theirs = names(&node.initial_cluster);
    if wish.initial_cluster.is_empty() {
        return (theirs.len() > 1).then(|| {
            format!(
                "etcd.yaml names {} members; this restores one of a new cluster, which the others \
                 join afterwards (several at once: --initial-cluster)",
                theirs.len()
            )
        });
    }
    let ours = names(&wish.initial_cluster);
    let lost: Vec<&str> = theirs.difference(&ours).copied().collect();
    (!lost.is_empty()).then(|| {
        format!("etcd.yaml names {}, which --initial-cluster does not have", lost.join(", "))
    })
}

fn names(cluster: &[(String, String)]) -> BTreeSet<&str> {
    cluster.iter().map(|(name, _)| name.as_str()).collect()
}

fn same(one: &[String], other: &[String]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect()
}

/// A warning where etcd.yaml has another data directory than the one that is restored.
#[must_use]
pub fn elsewhere(node: &EtcdNode, data_dir: &Path) -> Option<String> {
    let theirs = std::fs::canonicalize(&node.data_dir).unwrap_or_else(|_| node.data_dir.clone());
    (theirs != data_dir).then(|| {
        format!(
            "etcd.yaml says --data-dir {}, and this restore makes {}: etcd starts on what is in \
             the former",
            node.data_dir.display(),
            data_dir.display()
        )
    })
}

fn named(wish: &MemberWish, node: Option<&EtcdNode>) -> String {
    let only = match &wish.initial_cluster[..] {
        [(name, _)] => Some(name.clone()),
        _ => None,
    };
    let of_node = || node.map(|node| node.name.clone());
    wish.name.clone().or_else(of_node).or(only).unwrap_or_else(|| "default".to_owned())
}

fn urls_of(name: &str, cluster: &[(String, String)]) -> Vec<String> {
    let own = cluster.iter().filter(|(member, _)| member == name);
    own.map(|(_, url)| url.clone()).collect()
}

fn of_image(node: Option<&EtcdNode>) -> Result<Option<Version>, Error> {
    let Some(text) = node.and_then(|node| node.version.as_ref()) else { return Ok(None) };
    let odd = |_| {
        Error::declined(
            format!("the image in etcd.yaml has no version of etcd: {text}"),
            "say which etcd will be started with --etcd-version",
        )
    };
    text.parse().map(Some).map_err(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(members: usize) -> EtcdNode {
        let member = |n| (format!("cp-{n}"), format!("https://10.0.0.{n}:2380"));
        EtcdNode {
            name: "cp-1".to_owned(),
            peer_urls: vec!["https://10.0.0.1:2380".to_owned()],
            initial_cluster: (1..=members).map(member).collect(),
            version: Some("3.6.8".to_owned()),
            ..EtcdNode::default()
        }
    }

    fn pairs(text: &str) -> Vec<(String, String)> {
        let pair = |pair: &str| {
            let (name, url) = pair.split_once('=').unwrap();
            (name.to_owned(), url.to_owned())
        };
        text.split(' ').filter(|text| !text.is_empty()).map(pair).collect()
    }

    #[test]
    fn what_is_not_said_comes_from_the_node_or_is_etcds_default() {
        let local = "http://localhost:2380";
        let ours = "https://10.0.0.1:2380";
        let three = "cp-1=https://10.0.0.1:2380 cp-2=https://10.0.0.2:2380";
        for (name, cluster, urls, node, want_name, want_cluster, want_urls) in [
            ("", "", "", None, "default", format!("default={local}"), local),
            ("", "", "", Some(node(1)), "cp-1", format!("cp-1={ours}"), ours),
            ("", "", "", Some(node(3)), "cp-1", format!("cp-1={ours}"), ours),
            ("x", "", "", Some(node(1)), "x", format!("x={ours}"), ours),
            ("", "", "http://a:1", None, "default", "default=http://a:1".into(), "http://a:1"),
            ("", "m=http://m:1", "", None, "m", "m=http://m:1".into(), "http://m:1"),
            ("cp-2", three, "", Some(node(3)), "cp-2", three.into(), "https://10.0.0.2:2380"),
            ("cp-1", three, "", None, "cp-1", three.into(), ours),
        ] {
            let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let wish = MemberWish {
                name: text(name),
                initial_cluster: pairs(cluster),
                peer_urls: text(urls).into_iter().collect(),
                ..MemberWish::default()
            };
            let plan = decide(&wish, node.as_ref(), "fresh").unwrap().plan;
            assert_eq!(plan.name, want_name, "{wish:?}");
            assert_eq!(plan.initial_cluster, pairs(&want_cluster), "{wish:?}");
            assert_eq!(plan.advertise_peer_urls, [want_urls], "{wish:?}");
            assert_eq!(plan.token, "fresh");
        }
    }

    #[test]
    fn the_nodes_image_says_which_etcd_will_read_it_unless_the_user_does() {
        let member = decide(&MemberWish::default(), Some(&node(3)), "t").unwrap();
        assert_eq!(member.plan.target_version, Some(Version::line(3, 6)));
        assert!(member.warnings[0].contains("names 3 members"));
        let said = MemberWish { etcd_version: Some(Version::line(3, 7)), ..MemberWish::default() };
        let member = decide(&said, Some(&node(1)), "t").unwrap();
        assert_eq!(member.plan.target_version, Some(Version::line(3, 7)));
        assert!(member.warnings.is_empty());
        assert_eq!(decide(&said, None, "t").unwrap().plan.bump, None);
    }
}
