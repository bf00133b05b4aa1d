//! etcd's members, each asked by itself.

use std::sync::Arc;

use super::super::node::{Given, Node};
use super::report::{Outcome, Row};
use crate::clock::Clock;
use crate::etcd::{Access, Client, Error, Status};
use crate::report::size;

/// One row an endpoint.
pub async fn ask(given: &Given, node: &Node, clock: &Arc<dyn Clock>) -> Vec<Row> {
    if given.endpoints.is_empty() && node.etcd.is_none() {
        let what = "no --endpoints, and no etcd.yaml here: this is no control-plane node";
        return vec![Row::new("etcd", "members", Outcome::Skipped, what)];
    }
    let access = given.access(node);
    let asked = access.endpoints.iter().map(|endpoint| member(&access, endpoint, clock));
    futures_util::future::join_all(asked).await
}

async fn member(access: &Access, endpoint: &str, clock: &Arc<dyn Clock>) -> Row {
    match status(access, endpoint, clock).await {
        Ok(status) => judge(endpoint, &status),
        Err(error) => Row::of_error("etcd", endpoint, Outcome::Failed, &error),
    }
}

async fn status(access: &Access, endpoint: &str, clock: &Arc<dyn Clock>) -> Result<Status, Error> {
    Client::connect(access, endpoint, clock.clone()).await?.status().await
}

fn judge(endpoint: &str, status: &Status) -> Row {
    let role = match status {
        Status { is_learner: true, .. } => "learner",
        Status { leader: 0, .. } => "no leader",
        Status { leader, member_id, .. } if leader == member_id => "leader",
        _ => "follower",
    };
    let mut found = format!("etcd {}, {role}, {}", status.version, size(status.db_size));
    if !status.errors.is_empty() {
        found = format!("{found}; {}", status.errors.join(", "));
    }
    let row = |outcome| Row::new("etcd", endpoint, outcome, &*found);
    if status.leader == 0 {
        row(Outcome::Failed).hinted("more than half of the members have to run")
    } else if !status.errors.is_empty() {
        row(Outcome::Failed).hinted("`etcdctl alarm list`, and `etcdctl endpoint health`")
    } else if status.is_learner {
        row(Outcome::Warning).hinted("name a voting member as well: a learner is not taken")
    } else {
        row(Outcome::Good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_judged_by_what_it_says() {
        let status = |leader, is_learner, errors: &[&str]| Status {
            cluster_id: 1,
            member_id: 7,
            version: "3.6.5".to_owned(),
            storage_version: None,
            db_size: 2 << 20,
            db_size_in_use: 1,
            leader,
            raft_term: 1,
            raft_index: 1,
            raft_applied_index: 1,
            revision: 1,
            is_learner,
            errors: errors.iter().map(|&e| e.to_owned()).collect(),
        };
        for (status, outcome, words) in [
            (status(7, false, &[]), Outcome::Good, "etcd 3.6.5, leader, 2.0 MiB"),
            (status(8, false, &[]), Outcome::Good, "follower"),
            (status(8, true, &[]), Outcome::Warning, "learner"),
            (status(0, false, &["etcdserver: no leader"]), Outcome::Failed, "no leader"),
            (status(7, false, &["memberID:7 alarm:NOSPACE "]), Outcome::Failed, "NOSPACE"),
        ] {
            let row = judge("https://a:2379", &status);
            assert!(row.outcome == outcome && row.detail.contains(words), "{row:?}");
        }
    }
}
