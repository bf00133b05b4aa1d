//! Decides, and says why: which member, who makes the slot's backup.

use std::fmt;
use std::time::Duration;

use super::request::Allow;
use crate::backup::Error;
use crate::etcd::{Alarm, AlarmKind, Status};

/// A member that answered.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Where it is.
    pub endpoint: String,
    /// What it says.
    pub status: Status,
}

impl Candidate {
    fn leads(&self) -> bool {
        self.status.leader == self.status.member_id
    }
}

/// Why a member is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// The cluster has an alarm.
    Alarm {
        /// What it is about.
        kind: AlarmKind,
        /// Whom it is about.
        member: u64,
    },
    /// The cluster has no leader.
    NoLeader,
    /// It only listens.
    Learner,
    /// It is behind.
    Lag {
        /// By so many log entries.
        behind: u64,
        /// Where so many are allowed.
        most: u64,
    },
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alarm { kind, member } => {
                write!(f, "the alarm {} of member {member:x} is raised", alarm_name(*kind))
            }
            Self::NoLeader => f.write_str("the cluster has no leader"),
            Self::Learner => f.write_str("it is a learner"),
            Self::Lag { behind, most } => {
                write!(f, "it is {behind} log entries behind ({most} are allowed)")
            }
        }
    }
}

impl Objection {
    fn allowed(&self, allow: &Allow) -> bool {
        match self {
            Self::Alarm { .. } => allow.alarm,
            Self::NoLeader => allow.no_leader,
            Self::Learner => allow.learner,
            Self::Lag { behind, .. } => *behind <= allow.lag,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Alarm { kind: AlarmKind::Nospace, .. } => {
                "compact and defragment etcd, then disarm the alarm; or take it all the same with \
                 --allow-alarm"
            }
            Self::Alarm { .. } => {
                "a member's data may differ from the others': find out which one is right, or take \
                 it all the same with --allow-alarm"
            }
            Self::NoLeader => {
                "bring back a majority of the members; the data of this one may be old: take it all \
                 the same with --allow-no-leader"
            }
            Self::Learner => "name a voting member, or take it all the same with --allow-learner",
            Self::Lag { .. } => "name another member, or allow more with --allow-lag",
        }
        .to_owned()
    }
}

/// The alarms that members tell of in their status, as etcd's `AlarmMember` prints itself:
/// `memberID:10276657743932975437 alarm:NOSPACE`.
#[must_use]
pub fn alarms(candidates: &[Candidate]) -> Vec<Alarm> {
    let mut found: Vec<Alarm> = Vec::new();
    for said in candidates.iter().flat_map(|candidate| &candidate.status.errors) {
        if let Some(alarm) = read_alarm(said).filter(|alarm| !found.contains(alarm)) {
            found.push(alarm);
        }
    }
    found
}

fn read_alarm(said: &str) -> Option<Alarm> {
    let word = |name: &str| said.split_whitespace().find_map(|word| word.strip_prefix(name));
    let kind = match word("alarm:")? {
        "NOSPACE" => AlarmKind::Nospace,
        "CORRUPT" => AlarmKind::Corrupt,
        other => AlarmKind::Other(other.parse().unwrap_or(-1)),
    };
    // A field that is 0 is not printed.
    let member_id = word("memberID:").and_then(|id| id.parse().ok()).unwrap_or(0);
    Some(Alarm { member_id, kind })
}

/// etcd's own word for an alarm.
fn alarm_name(kind: AlarmKind) -> String {
    match kind {
        AlarmKind::Nospace => "NOSPACE".to_owned(),
        AlarmKind::Corrupt => "CORRUPT".to_owned(),
        AlarmKind::Other(number) => format!("number {number}"),
    }
}

/// The member to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its place among the candidates.
    pub index: usize,
    /// Whether it leads.
    pub leads: bool,
    /// What the user should know of it.
    pub warnings: Vec<String>,
}

/// Chooses a member: none that is objected to, a follower rather than the leader, and otherwise
/// in the order given.
///
/// `log` is the newest log entry that is known of, from whomever.
///
/// # Errors
/// [`Error::Declined`] where every member is objected to, or they are of several clusters.
pub fn choose(
    candidates: &[Candidate],
    alarms: &[Alarm],
    log: u64,
    allow: &Allow,
) -> Result<Choice, Error> {
    of_one_cluster(candidates)?;
    let log = candidates.iter().map(|c| c.status.raft_index).fold(log, u64::max);
    let judged: Vec<Vec<Objection>> =
        candidates.iter().map(|candidate| object(&candidate.status, alarms, log, allow)).collect();
    let rank = |index: &usize| {
        let refused = judged[*index].iter().any(|objection| !objection.allowed(allow));
        // A member that an alarm names is the last of those that are taken in spite of it.
        let named = alarms.iter().any(|a| a.member_id == candidates[*index].status.member_id);
        (refused, named, judged[*index].len(), candidates[*index].leads())
    };
    let index = (0..candidates.len()).min_by_key(rank).ok_or_else(no_members)?;
    let refusal = judged[index].iter().find(|objection| !objection.allowed(allow));
    if let Some(objection) = refusal {
        return Err(refuse(candidates, &judged, objection));
    }
    let chosen = &candidates[index];
    let mut warnings: Vec<String> =
        judged[index].iter().map(|objection| format!("{}: {objection}", chosen.endpoint)).collect();
    warnings.extend(others(&chosen.status).map(|said| format!("{}: {said}", chosen.endpoint)));
    Ok(Choice { index, leads: chosen.leads(), warnings })
}

fn no_members() -> Error {
    Error::declined("there is no member to take a snapshot of", "name one with --endpoints")
}

pub(in crate::backup) fn of_one_cluster(candidates: &[Candidate]) -> Result<(), Error> {
    let Some(first) = candidates.first() else { return Ok(()) };
    let stranger = candidates.iter().find(|c| c.status.cluster_id != first.status.cluster_id);
    let Some(stranger) = stranger else { return Ok(()) };
    Err(Error::declined(
        format!(
            "the endpoints are of different clusters: {} of {:016x}, {} of {:016x}",
            first.endpoint, first.status.cluster_id, stranger.endpoint, stranger.status.cluster_id
        ),
        "name members of one cluster with --endpoints",
    ))
}

fn object(status: &Status, alarms: &[Alarm], log: u64, allow: &Allow) -> Vec<Objection> {
    let mut found: Vec<Objection> = alarms
        .iter()
        .map(|alarm| Objection::Alarm { kind: alarm.kind, member: alarm.member_id })
        .collect();
    if status.leader == 0 {
        found.push(Objection::NoLeader);
    }
    if status.is_learner {
        found.push(Objection::Learner);
    }
    let behind = log.saturating_sub(status.raft_applied_index);
    if behind > allow.lag {
        found.push(Objection::Lag { behind, most: allow.lag });
    }
    found
}

/// What a member says of itself beyond what is objected to anyway.
fn others(status: &Status) -> impl Iterator<Item = &String> {
    let known = |said: &&String| said.contains("alarm:") || said.contains("no leader");
    status.errors.iter().filter(move |said| !known(said))
}

/// Names every member with all that is held against it.
fn refuse(candidates: &[Candidate], judged: &[Vec<Objection>], first: &Objection) -> Error {
    let told = candidates.iter().zip(judged).map(|(candidate, objections)| {
        let all: Vec<String> = objections.iter().map(ToString::to_string).collect();
        format!("{}: {}", candidate.endpoint, all.join(", "))
    });
    let told: Vec<String> = told.collect();
    Error::Declined {
        what: format!("no member is fit to be backed up: {}", told.join("; ")),
        hints: vec![first.hint()],
    }
}

/// The slot's backup as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotSeen {
    /// There is none.
    Empty,
    /// There is one, and all of it is good.
    Good,
    /// There is one that is not good; why.
    Bad(String),
}

/// The claim on a slot as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimSeen {
    /// There is none, or it was given back, or it cannot be read.
    Free,
    /// It is of this run.
    Ours,
    /// Another node's, so old.
    Held {
        /// Its age by the server's clock.
        age: Duration,
    },
}

/// What to do about a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: the backup is there.
    Done,
    /// Make it.
    Make,
    /// Claim it, then look again.
    Claim,
    /// Look again after this time.
    Wait(Duration),
}

/// How often a waiting node looks.
const LOOK: Duration = Duration::from_secs(5);

/// Decides what to do about a slot.
#[must_use]
pub fn next(slot: &SlotSeen, claim: &ClaimSeen, claim_age: Duration) -> Next {
    match (slot, claim) {
        (SlotSeen::Good, _) => Next::Done,
        (_, ClaimSeen::Ours) => Next::Make,
        (_, ClaimSeen::Free) => Next::Claim,
        (_, ClaimSeen::Held { age }) => match claim_age.checked_sub(*age) {
            Some(left) if !left.is_zero() => Next::Wait(left.min(LOOK)),
            _ => Next::Claim,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Class, Fault as _};

    fn member(id: u64, change: impl Fn(&mut Status)) -> Candidate {
        let mut status = Status {
            cluster_id: 0xC,
            member_id: id,
            version: "3.6.8".into(),
            storage_version: None,
            db_size: 1,
            db_size_in_use: 1,
            leader: 1,
            raft_term: 2,
            raft_index: 5000,
            raft_applied_index: 5000,
            revision: 9,
            is_learner: false,
            errors: Vec::new(),
        };
        change(&mut status);
        Candidate { endpoint: format!("https://m{id}:2379"), status }
    }

    fn good(id: u64) -> Candidate {
        member(id, |_| {})
    }

    fn chosen(candidates: &[Candidate], alarms: &[Alarm], allow: &Allow) -> Result<usize, String> {
        let choice = choose(candidates, alarms, 0, allow);
        choice.map(|choice| choice.index).map_err(|error| {
            assert_eq!(error.class(), Class::Refused, "{error}");
            format!("{error} ({})", error.hints().join(" "))
        })
    }

    #[test]
    fn a_follower_is_preferred_and_then_the_order_given() {
        let strict = Allow::default();
        let lagging = |by| move |s: &mut Status| s.raft_applied_index -= by;
        for (candidates, index) in [
            (vec![good(1)], 0),
            (vec![good(1), good(2), good(3)], 1),
            (vec![good(3), good(2), good(1)], 0),
            (vec![member(2, lagging(1001)), good(1)], 1),
            (vec![member(2, lagging(1000)), good(1)], 0),
            (vec![member(2, |s| s.is_learner = true), good(1)], 1),
            (vec![member(2, |s| s.leader = 0), good(1)], 1),
        ] {
            assert_eq!(chosen(&candidates, &[], &strict), Ok(index), "{candidates:?}");
        }
    }

    #[test]
    fn what_is_not_fit_is_refused_with_the_figure_unless_it_is_allowed() {
        let strict = Allow::default();
        let alarm = |kind| vec![Alarm { member_id: 0xAB, kind }];
        let table = [
            (
                good(2),
                alarm(AlarmKind::Nospace),
                Allow { alarm: true, ..strict },
                &["alarm NOSPACE of member ab", "--allow-alarm"][..],
            ),
            (
                good(2),
                alarm(AlarmKind::Corrupt),
                Allow { alarm: true, ..strict },
                &["alarm CORRUPT of member ab", "--allow-alarm"],
            ),
            (
                member(2, |s| s.leader = 0),
                vec![],
                Allow { no_leader: true, ..strict },
                &["no leader", "--allow-no-leader"],
            ),
            (
                member(2, |s| s.is_learner = true),
                vec![],
                Allow { learner: true, ..strict },
                &["a learner", "--allow-learner"],
            ),
            (
                member(2, |s| s.raft_applied_index = 0),
                vec![],
                Allow { lag: 5000, ..strict },
                &["5000 log entries behind (1000 are allowed)", "--allow-lag"],
            ),
        ];
        for (candidate, alarms, allow, texts) in table {
            let all = [candidate];
            let refused = chosen(&all, &alarms, &strict).unwrap_err();
            for text in texts {
                assert!(refused.contains(text), "{refused}");
            }
            assert_eq!(chosen(&all, &alarms, &allow), Ok(0), "{refused}");
            let warned = choose(&all, &alarms, 0, &allow).unwrap().warnings;
            let told = all[0].status.raft_applied_index > 0;
            assert_eq!(warned.len(), usize::from(told), "{warned:?}");
        }
    }

    #[test]
    fn the_log_may_be_known_from_a_member_that_is_no_candidate() {
        let refused = choose(&[good(2)], &[], 9000, &Allow::default()).unwrap_err().to_string();
        assert!(refused.contains("4000 log entries behind"), "{refused}");
    }

    #[test]
    fn a_member_that_an_alarm_names_is_the_last_to_be_taken() {
        let alarms = [Alarm { member_id: 2, kind: AlarmKind::Corrupt }];
        let allow = Allow { alarm: true, ..Allow::default() };
        assert_eq!(chosen(&[good(2), good(1)], &alarms, &allow), Ok(1));
    }

    #[test]
    fn members_of_two_clusters_are_refused() {
        let stranger = member(3, |s| s.cluster_id = 0xD);
        let refused = chosen(&[good(2), stranger], &[], &Allow::default()).unwrap_err();
        assert!(refused.contains("m2:2379 of 000000000000000c"), "{refused}");
        assert!(refused.contains("m3:2379 of 000000000000000d"), "{refused}");
    }

    #[test]
    fn every_member_that_is_refused_is_named_with_everything_against_it() {
        let worst = member(2, |s| {
            s.leader = 0;
            s.is_learner = true;
        });
        let refused = chosen(&[worst, member(3, |s| s.leader = 0)], &[], &Allow::default());
        let refused = refused.unwrap_err();
        assert!(
            refused.contains("m2:2379: the cluster has no leader, it is a learner"),
            "{refused}"
        );
        assert!(refused.contains("m3:2379: the cluster has no leader"), "{refused}");
    }

    #[test]
    fn what_a_member_says_beyond_that_is_a_warning() {
        let talkative = member(2, |s| s.errors = vec!["disk is slow".into()]);
        let choice = choose(&[talkative], &[], 0, &Allow::default()).unwrap();
        assert_eq!(choice.warnings, ["https://m2:2379: disk is slow"]);
    }

    #[test]
    fn alarms_are_read_from_what_members_say_of_themselves() {
        let nospace = "memberID:10276657743932975437 alarm:NOSPACE ";
        let said = |errors: &[&str]| {
            let errors: Vec<String> = errors.iter().map(|error| (*error).to_owned()).collect();
            alarms(&[member(1, |s| s.errors.clone_from(&errors)), good(2)])
        };
        let alarm = |member_id, kind| Alarm { member_id, kind };
        let id = 10_276_657_743_932_975_437;
        assert_eq!(said(&[nospace]), [alarm(id, AlarmKind::Nospace)]);
        assert_eq!(said(&[nospace, nospace]), [alarm(id, AlarmKind::Nospace)]);
        assert_eq!(said(&["memberID:7  alarm:CORRUPT"]), [alarm(7, AlarmKind::Corrupt)]);
        assert_eq!(said(&["alarm:7"]), [alarm(0, AlarmKind::Other(7))]);
        assert_eq!(said(&["etcdserver: no leader", ""]), []);
    }

    #[test]
    fn one_node_makes_a_slots_backup_and_the_others_wait_for_it() {
        let minutes = Duration::from_mins;
        let held = |age| ClaimSeen::Held { age };
        let bad = || SlotSeen::Bad("its data is gone".into());
        for (slot, claim, next_) in [
            (SlotSeen::Good, ClaimSeen::Free, Next::Done),
            (SlotSeen::Good, ClaimSeen::Ours, Next::Done),
            (SlotSeen::Good, held(minutes(1)), Next::Done),
            (SlotSeen::Empty, ClaimSeen::Free, Next::Claim),
            (SlotSeen::Empty, ClaimSeen::Ours, Next::Make),
            (SlotSeen::Empty, held(Duration::ZERO), Next::Wait(LOOK)),
            (SlotSeen::Empty, held(minutes(14)), Next::Wait(LOOK)),
            (SlotSeen::Empty, held(Duration::from_secs(898)), Next::Wait(Duration::from_secs(2))),
            (SlotSeen::Empty, held(minutes(15)), Next::Claim),
            (SlotSeen::Empty, held(minutes(900)), Next::Claim),
            (bad(), ClaimSeen::Free, Next::Claim),
            (bad(), ClaimSeen::Ours, Next::Make),
            (bad(), held(minutes(1)), Next::Wait(LOOK)),
        ] {
            assert_eq!(next(&slot, &claim, minutes(15)), next_, "{slot:?} {claim:?}");
        }
    }
}
