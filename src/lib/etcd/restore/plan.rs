//! What is to be restored, decided before anything is written.

use std::collections::BTreeMap;

use super::member::{NewMember, cluster_id, member_id, peer_url};
use super::{Error, Version};
use crate::etcd::db::Summary;

/// The new cluster, and this member's place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// This member's name.
    pub name: String,
    /// Every member's name and peer URL; a name may come more than once.
    pub initial_cluster: Vec<(String, String)>,
    /// What this member advertises; empty: what the cluster says of it.
    pub advertise_peer_urls: Vec<String>,
    /// Makes the ids of this cluster differ from those of any other with the same URLs.
    pub token: String,
    /// By how much the revision is raised, so that no client sees it go back.
    pub bump: Option<u64>,
    /// Mark what is before the raised revision as compacted, so that clients read anew.
    pub mark_compacted: bool,
    /// The etcd that will be started on it, where it is known.
    pub target_version: Option<Version>,
    /// Write it for an etcd that is too old as well.
    pub force: bool,
}

/// A restore that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// All members, their ids ascending.
    pub members: Vec<NewMember>,
    /// This member's id.
    pub member_id: u64,
    /// The new cluster's id.
    pub cluster_id: u64,
    /// The revision that is put and marked as compacted, if it is raised.
    pub bumped_to: Option<i64>,
    /// The revision that clients will see.
    pub revision: i64,
    /// The lowest line of etcd that may be started on it.
    pub lowest_etcd: Version,
    /// The target is older than that, and `force` was given.
    pub forced: bool,
    /// Whether the facts that etcd knows since 3.5 are written.
    pub(super) since_3_5: bool,
}

/// The new cluster, as far as its description alone says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// All members, their ids ascending.
    pub members: Vec<NewMember>,
    /// This member's id.
    pub member_id: u64,
    /// The cluster's id.
    pub id: u64,
}

impl Plan {
    /// The ids of the cluster that is described.
    ///
    /// # Errors
    /// The description contradicts itself.
    pub fn cluster(&self) -> Result<Cluster, Error> {
        let members = members(self)?;
        let this = members.iter().find(|member| member.name == self.name);
        let Some(this) = this else {
            let known = members.iter().map(|member| member.name.clone()).collect();
            return Err(Error::NotAMember { name: self.name.clone(), known });
        };
        advertised(self, this)?;
        Ok(Cluster { member_id: this.id, id: cluster_id(&members), members })
    }

    /// Refuses a target that is older than what the data asks for.
    ///
    /// # Errors
    /// [`Error::TooOld`], unless `force` is set.
    pub fn guard(&self, needs: Version) -> Result<(), Error> {
        match self.target_version {
            Some(target) if target < needs && !self.force => Err(Error::TooOld { target, needs }),
            _ => Ok(()),
        }
    }
}

/// Decides what to write for a database with these figures.
///
/// # Errors
/// The cluster's description contradicts itself, or the target is too old.
pub fn prepare(plan: &Plan, found: &Summary) -> Result<Prepared, Error> {
    let cluster = plan.cluster()?;
    let lowest_etcd = found.lowest_etcd();
    plan.guard(lowest_etcd)?;
    let forced = plan.target_version.is_some_and(|target| target < lowest_etcd);
    let bumped_to = bumped(plan, found)?;
    let since_3_5 = plan.target_version.is_none_or(|target| target >= Version::line(3, 5));
    Ok(Prepared {
        member_id: cluster.member_id,
        cluster_id: cluster.id,
        bumped_to,
        // An etcd that never held a key is at revision 1.
        revision: bumped_to.unwrap_or_else(|| found.current_revision().max(1)),
        lowest_etcd,
        forced,
        since_3_5: since_3_5 || found.term.is_some(),
        members: cluster.members,
    })
}

fn members(plan: &Plan) -> Result<Vec<NewMember>, Error> {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut all = Vec::new();
    for (name, url) in &plan.initial_cluster {
        let url = peer_url(url)?;
        if all.contains(&url) {
            return Err(Error::UrlTwice(url));
        }
        all.push(url.clone());
        by_name.entry(name).or_default().push(url);
    }
    let member = |(name, mut peer_urls): (&str, Vec<String>)| {
        peer_urls.sort();
        NewMember { id: member_id(&peer_urls, &plan.token), peer_urls, name: name.to_owned() }
    };
    let mut members: Vec<NewMember> = by_name.into_iter().map(member).collect();
    if members.is_empty() {
        return Err(Error::NoMembers);
    }
    members.sort_by_key(|member| member.id);
    Ok(members)
}

fn advertised(plan: &Plan, this: &NewMember) -> Result<(), Error> {
    let urls: Result<Vec<String>, Error> =
        plan.advertise_peer_urls.iter().map(|url| peer_url(url)).collect();
    let mut urls = urls?;
    urls.sort();
    if urls.is_empty() || urls == this.peer_urls {
        return Ok(());
    }
    let (name, cluster) = (plan.name.clone(), this.peer_urls.clone());
    Err(Error::UrlsDiffer { name, advertised: urls, cluster })
}

/// The highest revision that is raised to: half of all that there are stay for writes to come.
const HIGHEST: i64 = 1 << 62;

/// The revision after raising it. Raised from where etcd itself would go on, which may be above
/// the last row: rows that a compaction took away have been seen by clients too.
fn bumped(plan: &Plan, found: &Summary) -> Result<Option<i64>, Error> {
    let bump = match (plan.bump, plan.mark_compacted) {
        (Some(bump), true) if bump > 0 => bump,
        (None, false) => return Ok(None),
        _ => return Err(Error::HalfABump),
    };
    let revision = found.current_revision();
    let raised = i64::try_from(bump).ok().and_then(|bump| revision.checked_add(bump));
    raised
        .filter(|raised| *raised <= HIGHEST)
        .map(Some)
        .ok_or(Error::BumpTooLarge { revision, bump })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::bolt::{Layout, etcd, history};
    use crate::etcd::db::Db;
    use crate::fault::{Class, Fault};

    fn found(version: &str) -> Summary {
        let rows = history([("a", Some(b"1".to_vec())), ("b", Some(b"2".to_vec()))]);
        let file = Layout::of(4096).write(&etcd(rows, version));
        Db::from_bytes(file).unwrap().summary().unwrap()
    }

    fn alone() -> Plan {
        Plan {
            name: "cp-1".to_owned(),
            initial_cluster: vec![("cp-1".to_owned(), "https://10.0.0.1:2380".to_owned())],
            advertise_peer_urls: Vec::new(),
            token: "restored-1".to_owned(),
            bump: None,
            mark_compacted: false,
            target_version: None,
            force: false,
        }
    }

    fn three() -> Plan {
        let member = |n| (format!("cp-{n}"), format!("https://10.0.0.{n}:2380"));
        Plan { initial_cluster: (1..=3).map(member).collect(), ..alone() }
    }

    #[test]
    fn members_agree_on_all_ids_whoever_prepares() {
        let found = found("3.6.0");
        let one = prepare(&three(), &found).unwrap();
        let other = prepare(&Plan { name: "cp-3".to_owned(), ..three() }, &found).unwrap();
        assert_eq!((&one.members, one.cluster_id), (&other.members, other.cluster_id));
        assert_ne!(one.member_id, other.member_id);
        assert!(one.members.is_sorted_by_key(|member| member.id));
        let again = Plan { token: "restored-2".to_owned(), ..three() };
        let again = prepare(&again, &found).unwrap();
        assert!(again.cluster_id != one.cluster_id && again.member_id != one.member_id);
        assert_eq!(one.revision, 3);
    }

    #[test]
    fn a_description_that_contradicts_itself_is_refused() {
        let same = ("cp-2".to_owned(), "https://10.0.0.1:2380".to_owned());
        let urls = |text: &str| vec![text.to_owned()];
        for (plan, says) in [
            (Plan { initial_cluster: Vec::new(), ..alone() }, "no members"),
            (Plan { name: "cp-9".to_owned(), ..three() }, "it has cp-"),
            (
                Plan { initial_cluster: vec![three().initial_cluster[0].clone(), same], ..alone() },
                "twice",
            ),
            (Plan { advertise_peer_urls: urls("https://10.0.0.9:2380"), ..alone() }, "advertises"),
            (Plan { advertise_peer_urls: urls("10.0.0.1:2380"), ..alone() }, "scheme"),
            (Plan { bump: Some(5), ..alone() }, "go together"),
            (Plan { bump: Some(0), mark_compacted: true, ..alone() }, "go together"),
            (Plan { mark_compacted: true, ..alone() }, "go together"),
            (Plan { bump: Some(u64::MAX), mark_compacted: true, ..alone() }, "cannot be raised"),
            (Plan { bump: Some(1 << 62), mark_compacted: true, ..alone() }, "cannot be raised"),
        ] {
            let error = prepare(&plan, &found("3.6.0")).unwrap_err();
            assert!(error.to_string().contains(says), "{says}: {error}");
            assert_eq!(error.class(), Class::Usage);
        }
        let fits = Plan { advertise_peer_urls: urls(" HTTPS://10.0.0.1:2380"), ..alone() };
        assert!(prepare(&fits, &found("3.6.0")).is_ok());
    }

    #[test]
    fn an_etcd_older_than_the_data_is_refused_unless_it_is_forced() {
        for (data, target, fits) in [
            ("3.6.0", None, true),
            ("3.6.0", Some("3.5.24"), false),
            ("3.6.0", Some("3.6.0"), true),
            ("3.7.0", Some("3.6.16"), false),
            ("3.7.0", Some("3.7.0-alpha.1"), true),
            ("3.5.0", Some("3.4.23"), false),
            ("3.5.0", Some("3.7.3"), true),
        ] {
            let target_version = target.map(|text| text.parse().unwrap());
            let wanted = Plan { target_version, ..alone() };
            let found = found(data);
            let taken = prepare(&wanted, &found).is_ok();
            assert_eq!(taken, fits, "{data} for {target:?}");
            let forced = prepare(&Plan { force: true, ..wanted }, &found).unwrap();
            assert_eq!(forced.forced, !fits);
            assert_eq!(forced.lowest_etcd.to_string(), data);
        }
    }

    #[test]
    fn the_revision_is_raised_from_where_etcd_would_go_on() {
        let plan = Plan { bump: Some(1_000_000_000), mark_compacted: true, ..alone() };
        let mut found = found("3.6.0");
        assert_eq!(prepare(&plan, &found).unwrap().bumped_to, Some(1_000_000_003));
        found.compacted = 50;
        assert_eq!(prepare(&plan, &found).unwrap().bumped_to, Some(1_000_000_050));
        let untouched = prepare(&alone(), &found).unwrap();
        assert_eq!((untouched.bumped_to, untouched.revision), (None, 50));
    }
}
