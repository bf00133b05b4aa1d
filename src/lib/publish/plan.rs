//! What to do at one location, decided from what was asked and what was seen there.
//!
//! Pure, and the whole decision: `-dry-run` prints the [`Step`] that would be taken. Two rules
//! stand above all: an image without our mark is never removed, and the old image of a
//! replacement is removed last.

use std::collections::{BTreeMap, BTreeSet};

use super::error::Problem;
use super::mark::{Content, Likeness, Mark};
use super::request::Settings;
use super::state::State;
use crate::fault::Class;
use crate::id::ImageId;

/// What the plan wants to bring about.
#[derive(Debug, Clone, Copy)]
pub struct Goal<'a> {
    /// The image's name.
    pub name: &'a str,
    /// What it shall hold.
    pub content: &'a Content,
    /// Whether the user gave a checksum, which then may not be left uncompared.
    pub given: bool,
    /// How it shall be described.
    pub settings: &'a Settings,
    /// Other content of the name gives way.
    pub replace: bool,
}

/// An image of our own customer that has the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Had {
    /// Its id.
    pub id: ImageId,
    /// What its status means.
    pub state: State,
    /// The cloud's word for it.
    pub status: String,
    /// Our mark, where it carries one.
    pub mark: Option<Mark>,
    /// How it is described, as far as the cloud tells.
    pub settings: Settings,
}

impl Had {
    fn likeness(&self, content: &Content) -> Likeness {
        self.mark.as_ref().map_or(Likeness::Unknown, |mark| mark.content.compare(content))
    }
}

/// What was seen at one location.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Our own images of the name, in the recycle bin or out of it.
    pub had: Vec<Had>,
    /// The ids of all images there, whosever and whatever named: what appears later is new.
    pub ids: BTreeSet<ImageId>,
    /// Names of the VMs that were made from an image of the name.
    pub users: BTreeMap<ImageId, Vec<String>>,
}

/// The heart of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// This image is what was asked for.
    Keep(ImageId),
    /// This image is on its way and will be what was asked for.
    Join(ImageId),
    /// There is none yet.
    Create,
    /// Nothing can be done without the user.
    Refuse(Problem),
}

/// What to do at one location, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// First this,
    pub action: Action,
    /// and when the image is usable, remove these for good.
    pub retire: Vec<ImageId>,
    /// Whether what is removed is other content, not a twin of what is kept.
    pub replaces: bool,
    /// The reason, for people.
    pub why: String,
    /// What could not be verified or does not fit.
    pub warnings: Vec<String>,
    /// Whether knowing more digests of the source might lead to another step.
    pub undecided: bool,
}

impl Step {
    fn new(action: Action, why: impl Into<String>) -> Self {
        Self {
            action,
            retire: vec![],
            replaces: false,
            why: why.into(),
            warnings: vec![],
            undecided: false,
        }
    }

    /// What stands for a decision that nothing was seen for yet; it is never taken.
    #[must_use]
    pub fn undecided() -> Self {
        Self::new(Action::Create, "the location has not answered yet")
    }

    fn refuse(problem: Problem) -> Self {
        let why = problem.text.clone();
        Self::new(Action::Refuse(problem), why)
    }

    /// One line that says what would happen.
    #[must_use]
    pub fn describe(&self) -> String {
        let first = match &self.action {
            Action::Keep(id) => format!("keep image {id}"),
            Action::Join(id) => format!("wait for image {id}"),
            Action::Create => "create".to_owned(),
            Action::Refuse(_) => "refuse".to_owned(),
        };
        if self.retire.is_empty() {
            format!("{first}: {}", self.why)
        } else {
            format!("{first}, then remove {}: {}", ids(&self.retire), self.why)
        }
    }
}

/// Decides.
#[must_use]
pub fn plan(goal: &Goal, seen: &Seen) -> Step {
    let mut live: Vec<&Had> = seen.had.iter().filter(|had| had.state != State::Gone).collect();
    live.sort_by_key(|had| had.id);
    let mut step = if live.is_empty() {
        Step::new(Action::Create, "no image has this name")
    } else if goal.replace {
        replace(goal, seen, &live)
    } else {
        respect(goal, seen, &live)
    };
    step.undecided = live.iter().any(|had| {
        let digest = had.mark.as_ref().is_some_and(|mark| mark.content.has_digest());
        digest && had.likeness(goal.content) == Likeness::Unknown
    });
    step
}

/// Without `-replace`, whatever has the name stays.
fn respect(goal: &Goal, seen: &Seen, live: &[&Had]) -> Step {
    let usable = in_state(live, State::Usable);
    let coming = in_state(live, State::Coming);
    match (usable.as_slice(), coming.as_slice()) {
        ([only], _) => keep(goal, only),
        ([], [first, ..]) => join(goal, first),
        ([], []) => explain(live[0]),
        (several, _) => heal(goal, seen, several),
    }
}

fn in_state<'a>(live: &[&'a Had], state: State) -> Vec<&'a Had> {
    live.iter().copied().filter(|had| had.state == state).collect()
}

/// Refuses what is known to differ, and what was to be compared and cannot be.
fn comparable(goal: &Goal, had: &Had) -> Result<Likeness, Problem> {
    let id = had.id;
    let likeness = had.likeness(goal.content);
    let why = match (likeness, &had.mark) {
        (Likeness::Different, Some(mark)) => format!(
            "image {id} has the name {} and other content: {}",
            goal.name,
            mark.content.apart(goal.content).unwrap_or_default()
        ),
        (Likeness::Unknown, _) if goal.given => format!(
            "image {id} has the name {} and does not say which content it holds, so the given checksum cannot be enforced",
            goal.name
        ),
        _ => return Ok(likeness),
    };
    let hint = if had.state == State::Coming {
        "choose another name, or wait until it is usable or failed: only then can it be replaced"
    } else if had.mark.is_some() {
        "choose another name, or -replace to put this image in its place"
    } else {
        "choose another name, or remove that image by hand: this program did not make it"
    };
    Err(Problem::new(Class::Conflict, why).hint(hint))
}

fn keep(goal: &Goal, had: &Had) -> Step {
    let likeness = match comparable(goal, had) {
        Ok(likeness) => likeness,
        Err(problem) => return Step::refuse(problem),
    };
    let id = had.id;
    let mut step = Step::new(Action::Keep(id), holds(goal, had));
    step.warnings.extend(uncompared(goal, had, likeness));
    let other = differences(goal.settings, &had.settings);
    if !other.is_empty() {
        step.warnings.push(format!(
            "image {id} stays as it is: {}; -replace makes a new one",
            other.join(", ")
        ));
    }
    step
}

/// Without any digest of the source there is nothing to compare with, which the whole run says
/// once; but an image that others made is worth a word in any case.
fn uncompared(goal: &Goal, had: &Had, likeness: Likeness) -> Option<String> {
    let worth = goal.content.has_digest() || had.mark.is_none();
    (likeness == Likeness::Unknown && worth).then(|| {
        format!(
            "image {} has the name and is {}, but its content could not be compared",
            had.id, had.status
        )
    })
}

fn join(goal: &Goal, had: &Had) -> Step {
    match comparable(goal, had) {
        Ok(likeness) => {
            let mut step = Step::new(Action::Join(had.id), holds(goal, had));
            step.warnings.extend(uncompared(goal, had, likeness));
            step
        }
        Err(problem) => Step::refuse(problem),
    }
}

/// Only what failed or lies in the bin has the name.
fn explain(had: &Had) -> Step {
    let (id, status) = (had.id, &had.status);
    let problem = if had.state == State::Binned {
        Problem::new(
            Class::Conflict,
            format!("image {id} of this name lies in the recycle bin, which keeps the name taken"),
        )
        .hint("restore it in the portal, or -replace to make a new one and remove it for good")
    } else {
        Problem::new(Class::Conflict, format!("image {id} of this name is {status} and not usable"))
            .hint("-replace makes a new one and removes it")
    };
    Step::refuse(problem)
}

/// Several usable images have the name: twins of ours are folded, anything else is ambiguous.
fn heal(goal: &Goal, seen: &Seen, several: &[&Had]) -> Step {
    let all: Vec<ImageId> = several.iter().map(|had| had.id).collect();
    let twins = several.iter().all(|had| had.likeness(goal.content) == Likeness::Same);
    let extra: Vec<ImageId> = all[1..].to_vec();
    if twins && extra.iter().all(|id| !seen.users.contains_key(id)) {
        let why = format!("images {} hold the same content", ids(&all));
        let mut step = Step::new(Action::Keep(all[0]), why);
        step.retire = extra;
        return step;
    }
    let text = format!("images {} all have the name {}", ids(&all), goal.name);
    Step::refuse(
        Problem::new(Class::Conflict, text)
            .hint("nobody can tell which one is meant: remove all but one, or choose another name"),
    )
}

/// With `-replace`, other content gives way, last of all.
fn replace(goal: &Goal, seen: &Seen, live: &[&Had]) -> Step {
    let fits = |had: &&&Had| {
        had.likeness(goal.content) == Likeness::Same
            && differences(goal.settings, &had.settings).is_empty()
    };
    let find = |state: State| live.iter().filter(|had| had.state == state).find(fits).copied();
    let mut step = if let Some(had) = find(State::Usable) {
        Step::new(Action::Keep(had.id), holds(goal, had))
    } else if let Some(had) = find(State::Coming) {
        Step::new(Action::Join(had.id), holds(goal, had))
    } else if let Some(had) = in_state(live, State::Coming).first() {
        let text = format!("image {} of this name is still {}", had.id, had.status);
        return Step::refuse(
            Problem::new(Class::Conflict, text)
                .hint("wait until it is usable or failed, then run the same command again"),
        );
    } else {
        let old = live.iter().map(|had| format!("{} ({})", had.id, unlike(goal, had)));
        let old = old.collect::<Vec<_>>().join(", ");
        Step::new(Action::Create, format!("takes the place of {old}"))
    };
    let kept = match step.action {
        Action::Keep(id) | Action::Join(id) => Some(id),
        Action::Create | Action::Refuse(_) => None,
    };
    let old: Vec<&Had> = live
        .iter()
        .copied()
        .filter(|had| Some(had.id) != kept && had.state != State::Coming)
        .collect();
    if let Some(problem) = old.iter().find_map(|had| irremovable(had, seen)) {
        return Step::refuse(problem);
    }
    let other = |had: &&Had| had.state != State::Usable || !fits(&had);
    step.replaces = old.iter().any(other);
    step.retire = old.iter().map(|had| had.id).collect();
    step
}

/// Why an image is, or will be, what was asked for.
fn holds(goal: &Goal, had: &Had) -> String {
    let digest = had.mark.as_ref().and_then(|mark| mark.content.shared(goal.content));
    let content = digest.map_or_else(
        || "what it holds could not be compared".to_owned(),
        |digest| format!("has the same {digest}"),
    );
    format!("it is {} and {content}", had.status)
}

/// Why an image is not what was asked for.
fn unlike(goal: &Goal, had: &Had) -> String {
    let other = differences(goal.settings, &had.settings);
    match (had.state, had.likeness(goal.content), &had.mark) {
        (State::Binned, ..) => "it lies in the recycle bin".to_owned(),
        (State::Broken, ..) => format!("it is {}", had.status),
        (_, Likeness::Different, Some(mark)) => {
            mark.content.apart(goal.content).unwrap_or_default()
        }
        (_, Likeness::Same, _) if !other.is_empty() => other.join(", "),
        _ => "what it holds could not be compared".to_owned(),
    }
}

/// Why an old image may not be removed.
fn irremovable(had: &Had, seen: &Seen) -> Option<Problem> {
    let id = had.id;
    if had.mark.is_none() {
        let text = format!(
            "image {id} of this name carries no mark of this program, so it is not replaced"
        );
        let hint = "remove it by hand if it may go, or choose another name";
        return Some(Problem::new(Class::Conflict, text).hint(hint));
    }
    let users = seen.users.get(&id).filter(|users| !users.is_empty())?;
    let shown = users.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more =
        if users.len() > 5 { format!(" and {} more", users.len() - 5) } else { String::new() };
    let text = format!("image {id} cannot be replaced while VMs need it: {shown}{more}");
    Some(
        Problem::new(Class::Conflict, text)
            .hint("publish under another name and move the VMs to it first"),
    )
}

/// What was asked for and is described otherwise; what was not asked for does not count.
fn differences(asked: &Settings, had: &Settings) -> Vec<String> {
    fn row<T: PartialEq + std::fmt::Display>(
        what: &str,
        asked: Option<&T>,
        had: Option<&T>,
    ) -> Option<String> {
        let (asked, had) = (asked?, had?);
        (asked != had).then(|| format!("{what} is {had}, not {asked}"))
    }
    [
        row("memory in MiB", asked.memory_mib.as_ref(), had.memory_mib.as_ref()),
        row("boot disk in GiB", asked.boot_disk_gib.as_ref(), had.boot_disk_gib.as_ref()),
        row("OS type", asked.os_type.as_ref(), had.os_type.as_ref()),
        row("OS name", asked.os_name.as_ref(), had.os_name.as_ref()),
        row("boot type", asked.boot_type.as_ref(), had.boot_type.as_ref()),
        row("tags", asked.tags.as_ref(), had.tags.as_ref()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Ids in a sentence.
#[must_use]
pub fn ids(ids: &[ImageId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::mark::RunId;

    fn content(digest: char) -> Content {
        Content { sha256: Some(digest.to_string().repeat(64)), ..Content::default() }
    }

    /// `digest`: `-` for an image without a mark, `?` for a mark without a digest.
    fn had(id: u64, status: &str, digest: char) -> Had {
        let known = if digest == '?' { Content::default() } else { content(digest) };
        Had {
            id: ImageId(id),
            state: State::of(Some(status)),
            status: status.to_owned(),
            mark: (digest != '-').then_some(Mark { run: RunId(id), content: known }),
            settings: Settings { memory_mib: Some(2048), ..Settings::default() },
        }
    }

    fn decide(replace: bool, given: bool, had: &[Had], users: &[u64]) -> Step {
        let (content, settings) = (content('a'), Settings::default());
        let goal = Goal { name: "k8s", content: &content, given, settings: &settings, replace };
        let users = users.iter().map(|id| (ImageId(*id), vec!["node-1".to_owned()])).collect();
        plan(&goal, &Seen { had: had.to_vec(), ids: BTreeSet::new(), users })
    }

    /// `keep 1 -2` keeps image 1 and removes image 2; `!` stands for a warning.
    fn brief(step: &Step) -> String {
        let mut text = match &step.action {
            Action::Keep(id) => format!("keep {id}"),
            Action::Join(id) => format!("join {id}"),
            Action::Create => "create".to_owned(),
            Action::Refuse(problem) => {
                assert!(!problem.hints.is_empty(), "a refusal says what to do: {problem:?}");
                return "refuse".to_owned();
            }
        };
        for id in &step.retire {
            text = format!("{text} -{id}");
        }
        text + if step.replaces { " replaces" } else { "" }
            + if step.warnings.is_empty() { "" } else { " !" }
    }

    #[test]
    fn without_replace_what_has_the_name_stays() {
        let rows: &[(&[Had], &str)] = &[
            (&[], "create"),
            (&[had(1, "DESTROYED", 'a')], "create"),
            (&[had(1, "CREATED", 'a')], "keep 1"),
            (&[had(1, "CREATED", 'b')], "refuse"),
            (&[had(1, "CREATED", '?')], "keep 1 !"),
            (&[had(1, "CREATED", '-')], "keep 1 !"),
            (&[had(1, "CREATING", 'a')], "join 1"),
            (&[had(1, "VIRTUAL", '-')], "join 1 !"),
            (&[had(1, "CREATING", 'b')], "refuse"),
            (&[had(1, "ERROR", 'a')], "refuse"),
            (&[had(1, "DELETED", 'a')], "refuse"),
            (&[had(2, "CREATING", 'a'), had(1, "CREATING", 'a')], "join 1"),
            (&[had(1, "ERROR", 'a'), had(2, "CREATED", 'a')], "keep 2"),
            (&[had(1, "CREATING", 'a'), had(2, "CREATED", 'a')], "keep 2"),
            (&[had(2, "CREATED", 'a'), had(1, "CREATED", 'a')], "keep 1 -2"),
            (&[had(1, "CREATED", 'a'), had(2, "CREATED", 'b')], "refuse"),
            (&[had(1, "CREATED", 'a'), had(2, "CREATED", '-')], "refuse"),
        ];
        for (had, expected) in rows {
            assert_eq!(brief(&decide(false, false, had, &[])), *expected, "{had:?}");
        }
    }

    #[test]
    fn a_given_checksum_is_compared_or_refused() {
        for (status, digest, expected) in [
            ("CREATED", 'a', "keep 1"),
            ("CREATED", '?', "refuse"),
            ("CREATED", '-', "refuse"),
            ("CREATING", '-', "refuse"),
        ] {
            let step = decide(false, true, &[had(1, status, digest)], &[]);
            assert_eq!(brief(&step), expected, "{status} {digest}");
        }
    }

    #[test]
    fn with_replace_other_content_gives_way_last() {
        let rows: &[(&[Had], &[u64], &str)] = &[
            (&[], &[], "create"),
            (&[had(1, "CREATED", 'a')], &[1], "keep 1"),
            (&[had(1, "CREATED", 'b')], &[], "create -1 replaces"),
            (&[had(1, "CREATED", '?')], &[], "create -1 replaces"),
            (&[had(1, "CREATED", 'b')], &[1], "refuse"),
            (&[had(1, "CREATED", '-')], &[], "refuse"),
            (&[had(1, "ERROR", 'a')], &[], "create -1 replaces"),
            (&[had(1, "DELETED", 'a')], &[], "create -1 replaces"),
            (&[had(1, "CREATING", 'b')], &[], "refuse"),
            (&[had(1, "CREATING", 'a')], &[], "join 1"),
            (&[had(1, "CREATED", 'b'), had(2, "CREATING", 'a')], &[], "join 2 -1 replaces"),
            (&[had(1, "CREATED", 'b'), had(2, "CREATED", 'a')], &[], "keep 2 -1 replaces"),
            (&[had(1, "CREATED", 'a'), had(2, "CREATED", 'a')], &[], "keep 1 -2"),
            (&[had(1, "CREATED", 'a'), had(2, "CREATED", 'a')], &[2], "refuse"),
        ];
        for (had, users, expected) in rows {
            assert_eq!(brief(&decide(true, false, had, users)), *expected, "{had:?}");
        }
    }

    #[test]
    fn settings_that_were_asked_for_count() {
        let content = content('a');
        let settings = Settings { memory_mib: Some(4096), ..Settings::default() };
        let goal = |replace| Goal {
            name: "k",
            content: &content,
            given: false,
            settings: &settings,
            replace,
        };
        let seen = Seen { had: vec![had(1, "CREATED", 'a')], ..Seen::default() };
        let stays = plan(&goal(false), &seen);
        assert_eq!(brief(&stays), "keep 1 !");
        assert!(stays.warnings[0].contains("memory in MiB is 2048, not 4096"), "{stays:?}");
        let replaced = plan(&goal(true), &seen);
        assert_eq!(brief(&replaced), "create -1 replaces");
        assert!(replaced.why.ends_with("1 (memory in MiB is 2048, not 4096)"), "{replaced:?}");
    }

    #[test]
    fn twins_that_vms_use_are_not_folded() {
        let twins = [had(1, "CREATED", 'a'), had(2, "CREATED", 'a')];
        assert_eq!(brief(&decide(false, false, &twins, &[2])), "refuse");
        assert_eq!(brief(&decide(false, false, &twins, &[1])), "keep 1 -2");
    }

    #[test]
    fn reading_the_source_may_decide_what_its_claims_leave_open() {
        for (digest, undecided) in [('a', false), ('b', false), ('?', false), ('-', false)] {
            let step = decide(false, false, &[had(1, "CREATED", digest)], &[]);
            assert_eq!(step.undecided, undecided, "{digest}");
        }
        let mut by_md5 = had(1, "CREATED", '?');
        let known = Content { md5: Some("c".repeat(32)), ..Content::default() };
        by_md5.mark = Some(Mark { run: RunId(1), content: known });
        assert!(decide(false, true, &[by_md5], &[]).undecided);
    }

    #[test]
    fn without_a_digest_only_what_others_made_is_worth_a_word() {
        let (content, settings) = (Content::default(), Settings::default());
        let goal = Goal {
            name: "k",
            content: &content,
            given: false,
            settings: &settings,
            replace: false,
        };
        for (digest, warned) in [('a', 0), ('?', 0), ('-', 1)] {
            let seen = Seen { had: vec![had(1, "CREATED", digest)], ..Seen::default() };
            assert_eq!(plan(&goal, &seen).warnings.len(), warned, "{digest}");
        }
    }

    #[test]
    fn a_step_says_what_it_does_and_why() {
        let step = decide(true, false, &[had(1, "CREATED", 'b')], &[]);
        let text = "create, then remove 1: takes the place of 1 (SHA-256 bbbbbbbbbbbb…, not SHA-256 aaaaaaaaaaaa…)";
        assert_eq!(step.describe(), text);
        for (status, digest, text) in [
            ("CREATED", 'a', "keep image 1: it is CREATED and has the same SHA-256 aaaaaaaaaaaa…"),
            ("CREATED", '?', "keep image 1: it is CREATED and what it holds could not be compared"),
            (
                "CREATING",
                'a',
                "wait for image 1: it is CREATING and has the same SHA-256 aaaaaaaaaaaa…",
            ),
        ] {
            assert_eq!(decide(false, false, &[had(1, status, digest)], &[]).describe(), text);
        }
    }

    #[test]
    fn the_first_refusal_of_a_running_import_says_to_wait() {
        for (status, waits) in [("CREATING", true), ("CREATED", false)] {
            let step = decide(false, false, &[had(1, status, 'b')], &[]);
            let Action::Refuse(problem) = step.action else { panic!("{step:?}") };
            assert_eq!(problem.hints[0].contains("wait until"), waits, "{problem:?}");
            assert_eq!(problem.hints[0].contains("-replace"), !waits, "{problem:?}");
        }
    }
}
