//! Which member this node becomes: what was said, what kubeadm wrote, etcd's defaults.

use crate::backup::Error;
use crate::backup::kubeadm::EtcdNode;
use crate::backup::restore::request::MemberWish;
use crate::etcd::Version;
use crate::etcd::restore::Plan;

/// The plan for etcd's restore, and what the user should know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What the engine is told.
    pub plan: Plan,
    /// Said before anything is done.
    pub warnings: Vec<String>,
}

/// Fills in what was not said. `fresh` is a token that nobody else has.
///
/// Alone by default, whatever the old cluster was: a member that waits for others that were not
/// restored would never serve.
///
/// # Errors
/// The version in the node's manifest is none.
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
    let mut warnings = Vec::new();
    let others = node.map_or(0, |node| node.initial_cluster.len());
    if wish.initial_cluster.is_empty() && others > 1 {
        warnings.push(format!(
            "etcd.yaml names {others} members; this restores one of a new cluster, which the \
             others join afterwards (several at once: --initial-cluster)"
        ));
    }
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
    Ok(Member { plan, warnings })
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
