//! Plans for every kind of folder.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::plan::{Action, Locks, Plan, Rules, What, plan};
use crate::backup::held::{Kept, Locked};
use crate::s3::{Mode, Unfinished, Version};
use crate::snapshot::catalog::{Catalog, NoManifest, assemble};
use crate::snapshot::layout::{ClusterId, Layout, Slot};
use crate::snapshot::manifest::{Flaw, Lock, Manifest, Rekeyed, full};
use crate::snapshot::retention::Keep;

const NOW: &str = "2026-12-10T00:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A bucket as it is told in a test, folder by folder.
#[derive(Default)]
struct Told {
    versions: Vec<Version>,
    manifests: BTreeMap<(String, Option<String>), Result<Manifest, NoManifest>>,
    cluster: u64,
}

impl Told {
    fn key(&self, slot: &str, name: &str) -> String {
        format!("etcd/{}/{slot}/{name}", ClusterId(self.cluster))
    }

    fn version(&mut self, slot: &str, name: &str, id: &str, size: u64) -> &mut Version {
        let modified = slot.parse::<Slot>().unwrap().time().as_second();
        self.versions.push(Version {
            key: self.key(slot, name),
            version_id: Some(id.to_owned()),
            latest: true,
            size,
            modified: u64::try_from(modified).unwrap() + 10,
            marker: false,
        });
        self.versions.last_mut().unwrap()
    }

    fn manifest(&self, slot: &str) -> Manifest {
        let mut manifest = full();
        manifest.cluster = ClusterId(self.cluster);
        manifest.slot = slot.parse().unwrap();
        manifest.started = manifest.slot.time();
        manifest.finished = manifest.started;
        manifest.data.key = self.key(slot, "data-00000000000000f0.db.zst.age");
        manifest.pki = None;
        manifest
    }

    fn said(&mut self, slot: &str, id: &str, said: Result<Manifest, NoManifest>) {
        let key = self.key(slot, "manifest.json");
        self.version(slot, "manifest.json", id, 2000);
        self.manifests.insert((key, Some(id.to_owned())), said);
    }

    fn data(&mut self, slot: &str) {
        let size = full().data.content.size;
        self.version(slot, "data-00000000000000f0.db.zst.age", "v1", size);
    }

    fn good(&mut self, slot: &str) {
        self.data(slot);
        self.said(slot, "m1", Ok(self.manifest(slot)));
    }

    fn flawed(&mut self, slot: &str, flaw: Flaw) {
        self.data(slot);
        self.said(slot, "m1", Err(NoManifest::Flawed(flaw)));
    }

    fn catalog(self) -> Catalog {
        assemble(&Layout::new("etcd"), self.versions, self.manifests)
    }

    fn planned(self, rules: Rules<'_>) -> Plan {
        plan(&self.catalog(), &[], &Layout::new("etcd"), rules, at(NOW))
    }

    fn plan(self, keep: &Keep) -> Plan {
        self.planned(Rules::Keep { keep, remove_rekeyed: false })
    }

    fn plan_removing(self, keep: &Keep) -> Plan {
        self.planned(Rules::Keep { keep, remove_rekeyed: true })
    }

    fn plan_as_gone(self) -> Plan {
        self.planned(Rules::Gone)
    }
}

fn last(last: u32) -> Keep {
    Keep { last, ..Keep::default() }
}

/// `slot: action (why)` a line, of backups.
fn lines(plan: &Plan) -> Vec<String> {
    let backups = plan.items.iter().filter(|item| item.what == What::Backup);
    let line = |item: &super::plan::Item| {
        let action = match &item.action {
            Action::Keep => "keep",
            Action::Remove => "remove",
            Action::Locked { .. } => "locked",
        };
        format!("{}: {action} ({})", item.slot, item.why)
    };
    backups.map(line).collect()
}

#[test]
fn rules_decide_about_good_backups_and_the_newest_stays() {
    let mut told = Told::default();
    for slot in ["20261201T000000Z", "20261202T000000Z", "20261203T000000Z"] {
        told.good(slot);
    }
    let plan = told.plan(&last(2));
    assert_eq!(
        lines(&plan),
        [
            "20261203T000000Z: keep (newest good, last)",
            "20261202T000000Z: keep (last)",
            "20261201T000000Z: remove (no rule keeps it)",
        ]
    );
    let names: Vec<_> =
        plan.items[2].targets.iter().map(|t| t.key.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["manifest.json", "data-00000000000000f0.db.zst.age"], "manifest first");
}

#[test]
fn each_cluster_has_its_own_newest() {
    let mut told = Told { cluster: 1, ..Told::default() };
    told.good("20261203T000000Z");
    told.cluster = 2;
    told.good("20261101T000000Z");
    told.good("20261102T000000Z");
    let plan = told.plan(&last(1));
    assert_eq!(
        lines(&plan),
        [
            "20261203T000000Z: keep (newest good, last)",
            "20261102T000000Z: keep (newest good, last)",
            "20261101T000000Z: remove (no rule keeps it)",
        ]
    );
}

#[test]
fn of_a_cluster_that_is_gone_nothing_stays_but_what_is_of_today_or_not_understood() {
    let mut told = Told::default();
    told.good("20261209T120000Z");
    told.good("20261203T000000Z");
    told.flawed("20261202T000000Z", Flaw::NotOurs);
    told.flawed("20261201T000000Z", Flaw::Newer(2));
    assert_eq!(
        lines(&told.plan_as_gone()),
        [
            "20261209T120000Z: keep (younger than a day: its cluster is not gone)",
            "20261203T000000Z: remove (its cluster is gone)",
            "20261202T000000Z: remove (not good: manifest: this is no manifest of capvco-backup)",
            "20261201T000000Z: keep (not understood: manifest: version 2 is newer than this \
             program knows (1))",
        ]
    );
}

#[test]
fn what_is_not_good_goes_when_it_is_old_understood_and_replaced() {
    let mut told = Told::default();
    told.data("20261209T120000Z");
    told.good("20261208T000000Z");
    told.flawed("20261207T000000Z", Flaw::NotOurs);
    told.flawed("20261206T000000Z", Flaw::Newer(2));
    told.said("20261205T120000Z", "m1", Err(NoManifest::Flawed(Flaw::NotOurs)));
    told.data("20261205T000000Z");
    told.said("20261204T000000Z", "m1", Ok(told.manifest("20261204T000000Z")));
    told.data("20261203T000000Z");
    told.said("20261203T000000Z", "m1", Err(NoManifest::Unread("403".to_owned())));
    assert_eq!(
        lines(&told.plan(&last(1))),
        [
            "20261209T120000Z: keep (nothing newer is good)",
            "20261208T000000Z: keep (newest good, last)",
            "20261207T000000Z: keep (not understood: manifest: this is no manifest of \
             capvco-backup)",
            "20261206T000000Z: keep (not understood: manifest: version 2 is newer than this \
             program knows (1))",
            "20261205T120000Z: remove (not good: manifest: this is no manifest of capvco-backup)",
            "20261205T000000Z: remove (not good: no manifest)",
            "20261204T000000Z: remove (not good: its data is not there)",
            "20261203T000000Z: keep (not understood: manifest: it cannot be read: 403)",
        ]
    );
}

#[test]
fn nothing_goes_where_nothing_is_good() {
    let mut told = Told::default();
    told.flawed("20261101T000000Z", Flaw::NotOurs);
    told.data("20261102T000000Z");
    assert!(lines(&told.plan(&last(1))).iter().all(|line| line.contains("keep")));
}

#[test]
fn what_is_younger_than_a_day_is_somebodys_work() {
    let mut told = Told::default();
    told.good("20261209T180000Z");
    told.data("20261209T120000Z");
    told.version("20261209T060000Z", "claim.json", "c1", 80);
    told.version("20261208T060000Z", "claim.json", "c1", 80);
    let plan = told.plan(&last(1));
    assert_eq!(
        lines(&plan),
        [
            "20261209T180000Z: keep (newest good, last)",
            "20261209T120000Z: keep (younger than a day: no manifest)",
        ]
    );
    let claims: Vec<_> = plan.items.iter().filter(|item| item.what == What::Leftover).collect();
    assert_eq!(claims[0].action, Action::Keep);
    assert_eq!((&claims[1].action, claims[1].why.as_str()), (&Action::Remove, "only a claim"));
}

#[test]
fn leftovers_beside_a_kept_backup_go() {
    for (loose, flawed, want) in [
        (true, false, &["data that no manifest speaks of", "a claim of an earlier day"][..]),
        (
            false,
            true,
            &["a manifest that is not good, beside one that is", "a claim of an earlier day"],
        ),
        // What is not understood may speak of the data.
        (true, true, &["a claim of an earlier day"]),
    ] {
        let mut told = Told::default();
        told.good("20261201T000000Z");
        told.version("20261201T000000Z", "claim.json", "c1", 80);
        if loose {
            told.version("20261201T000000Z", "data-00000000000000f1.db.zst.age", "v7", 5);
            told.version("20261201T000000Z", "data-00000000000000f2.db.zst.age", "v8", 5)
                .modified = u64::try_from(at(NOW).as_second()).unwrap();
        }
        if flawed {
            told.said("20261201T000000Z", "m0", Err(NoManifest::Flawed(Flaw::NotOurs)));
        }
        let plan = told.plan(&last(1));
        let leftovers = plan.items.iter().filter(|item| item.what == What::Leftover);
        let leftovers: Vec<_> = leftovers.map(|item| item.why.as_str()).collect();
        assert_eq!(leftovers, want);
        assert_eq!(plan.items[0].action, Action::Keep);
    }
}

type Change = fn(&mut Manifest);

/// Two backups and copies of them, each as `(slot, of, change)`.
fn with_copies(copies: &[(&str, &str, Change)]) -> Told {
    let mut told = Told::default();
    told.good("20261203T000000Z");
    told.good("20261201T000000Z");
    for (slot, of, change) in copies {
        let mut copy = told.manifest(slot);
        copy.rekeyed = Some(Rekeyed { from: of.parse().unwrap(), at: copy.started });
        change(&mut copy);
        let size = copy.data.content.size;
        told.version(slot, "data-00000000000000f0.db.zst.age", "v1", size);
        told.said(slot, "m1", Ok(copy));
    }
    told
}

const ORIGINAL: &str = "20261201T000000Z";
const COPY: &str = "20261201T000000Z-c0ffee";

#[test]
fn an_original_goes_for_its_copy_only_if_that_is_asked_for() {
    let told = || with_copies(&[(COPY, ORIGINAL, |_| {})]);
    for (plan, want) in [
        (
            told().plan(&last(2)),
            [
                "20261203T000000Z: keep (newest good, last)",
                "20261201T000000Z-c0ffee: keep (copy of 20261201T000000Z: last)",
                "20261201T000000Z: keep (last)",
            ],
        ),
        (
            told().plan_removing(&last(2)),
            [
                "20261203T000000Z: keep (newest good, last)",
                "20261201T000000Z-c0ffee: keep (copy of 20261201T000000Z: last)",
                "20261201T000000Z: remove (rekeyed as 20261201T000000Z-c0ffee)",
            ],
        ),
        (
            told().plan(&last(1)),
            [
                "20261203T000000Z: keep (newest good, last)",
                "20261201T000000Z-c0ffee: remove (copy of 20261201T000000Z: no rule keeps it)",
                "20261201T000000Z: remove (no rule keeps it)",
            ],
        ),
    ] {
        assert_eq!(lines(&plan), want);
    }
}

#[test]
fn nobody_removes_a_backup_by_saying_that_he_has_a_copy_of_it() {
    for (what, change) in [
        ("another database", (|m| m.db.sha256 = "e".repeat(64)) as fn(&mut Manifest)),
        ("no data to speak of", |m| m.data.content.size = 16),
        ("half of the data", |m| m.data.content.size /= 2),
        ("no lock", |m| m.lock = None),
        ("another revision", |m| m.revision += 1),
    ] {
        let plan = with_copies(&[(COPY, ORIGINAL, change)]).plan_removing(&last(9));
        let original = lines(&plan).into_iter().find(|line| line.starts_with("20261201T000000Z:"));
        assert_eq!(original.as_deref(), Some("20261201T000000Z: keep (last)"), "{what}");
    }
    // Copies take no other backup's place, and of two that name each other none is one.
    let many = with_copies(&[
        ("20261203T000000Z-0000aa", "20261203T000000Z", |_| {}),
        ("20261203T000000Z-0000bb", "20261203T000000Z-0000aa", |_| {}),
        ("20261203T000000Z-0000cc", "20261203T000000Z-0000bb", |_| {}),
    ]);
    let lines = lines(&many.plan(&last(2)));
    assert!(lines.iter().all(|line| line.contains("keep")), "{lines:?}");
    let circle = with_copies(&[
        ("20261205T000000Z-0000aa", "20261205T000000Z-0000bb", |_| {}),
        ("20261205T000000Z-0000bb", "20261205T000000Z-0000aa", |_| {}),
    ]);
    assert!(self::lines(&circle.plan(&last(4))).iter().all(|line| line.contains("keep (")));
}

#[test]
fn a_backup_of_the_past_that_was_stored_today_takes_no_others_place() {
    let day = |last: u32| Keep { daily: 9, last, ..Keep::default() };
    let forged = ["20261202T233000Z", "20261203T233000Z", "20261203T233100Z"];
    let bucket = |late: bool| {
        let mut told = Told::default();
        told.good("20261203T120000Z");
        told.good("20261202T120000Z");
        for slot in forged {
            told.good(slot);
            if late {
                let from = told.versions.len() - 2;
                let today = u64::try_from(at(NOW).as_second()).unwrap();
                told.versions[from..].iter_mut().for_each(|version| version.modified = today);
            }
        }
        told
    };
    let kept = |plan: Plan| {
        let kept = plan.items.iter().filter(|item| item.action == Action::Keep);
        kept.map(|item| item.slot.to_string()).collect::<Vec<_>>()
    };
    let real = ["20261203T120000Z".to_owned(), "20261202T120000Z".to_owned()];
    let with = kept(bucket(true).plan(&day(0)));
    assert!(real.iter().all(|slot| with.contains(slot)), "{with:?}");
    let with = kept(bucket(true).plan(&last(2)));
    assert!(real.iter().all(|slot| with.contains(slot)), "{with:?}");
    // The same ones, stored in their time, are backups as any other.
    assert!(!kept(bucket(false).plan(&last(2))).contains(&real[0]));
}

#[test]
fn a_folder_with_several_good_manifests_is_not_touched() {
    let mut told = Told::default();
    told.good("20261203T000000Z");
    told.good("20261201T000000Z");
    let mut other = told.manifest("20261201T000000Z");
    other.revision += 1;
    told.said("20261201T000000Z", "m2", Ok(other));
    let plan = told.plan(&last(1));
    let want = "20261201T000000Z: keep (1 later manifests say otherwise: find out who writes them)";
    assert_eq!(lines(&plan)[1], want);
    assert!(!plan.removes_objects());
}

#[test]
fn one_look_at_the_bucket_is_not_enough_to_remove_anything() {
    let bucket = |flipped: bool| {
        let mut told = Told::default();
        told.good("20261203T000000Z");
        let mut manifest = told.manifest("20261201T000000Z");
        if flipped {
            manifest.data.content.size += 1;
        }
        told.data("20261201T000000Z");
        told.said("20261201T000000Z", "m1", Ok(manifest));
        told.good("20261130T000000Z");
        told.plan(&last(2))
    };
    let plan = bucket(true).confirmed_by(&bucket(false));
    let held = "looked at again, the bucket tells otherwise (not good: its data is not there)";
    assert_eq!((&plan.items[1].action, plan.items[1].why.as_str()), (&Action::Keep, held));
    let plan = bucket(false).confirmed_by(&bucket(false));
    assert_eq!(plan.items[2].action, Action::Remove);
}

#[test]
fn a_backup_is_held_back_whole_while_any_of_it_is_locked() {
    let mut told = Told::default();
    told.good("20261203T000000Z");
    told.good("20261202T000000Z");
    told.good("20261201T000000Z");
    let plan = told.plan(&last(1));
    let objects = plan.objects();
    assert_eq!(objects.len(), 6);
    let going = &objects[2..];
    let mut locks = Locks::new();
    let lock = |unix| Lock::until(Mode::Governance, unix);
    let of = |unix, held| Kept { lock: Locked::Until(lock(unix)), held };
    locks.insert(going[0].clone(), Kept::default());
    locks.insert(going[1].clone(), of(1_900_000_000, Some(false)));
    locks.insert(going[2].clone(), of(1_900_000_001, Some(true)));
    locks.insert(going[3].clone(), of(1_900_000_000, Some(false)));
    locks.insert(objects[0].clone(), of(1_900_000_002, Some(false)));
    let plan = plan.with_locks(&locks);
    let actions: Vec<_> = plan.items.iter().map(|item| item.action.clone()).collect();
    let until = Some(lock(1_900_000_000).until);
    assert_eq!(actions, [Action::Keep, Action::Locked { until }, Action::Locked { until: None }]);
    let told: Vec<_> = plan.items.iter().map(|item| item.kept).collect();
    assert_eq!(
        told,
        [of(1_900_000_002, Some(false)), of(1_900_000_000, None), of(1_900_000_001, Some(true))]
    );
}

#[test]
fn a_lock_that_cannot_be_read_is_tried_on_the_data_first() {
    let mut told = Told::default();
    told.good("20261203T000000Z");
    told.good("20261202T000000Z");
    let plan = told.plan(&last(1));
    let locks = Locks::from([(plan.objects()[2].clone(), Kept::default())]);
    let plan = plan.with_locks(&locks);
    let gone = &plan.items[1].targets;
    assert!(gone[0].key.contains("/data-") && gone[1].key.ends_with("/manifest.json"));
}

#[test]
fn own_uploads_that_were_never_finished_are_swept_after_a_day() {
    let upload = |key: &str, since: &str| Unfinished {
        key: key.to_owned(),
        upload_id: "u".to_owned(),
        since: u64::try_from(at(since).as_second()).unwrap(),
    };
    let ours = "etcd/0000000000000001/20261201T000000Z/data-00000000000000f0.db.zst.age";
    let uploads = [
        upload(ours, "2026-12-08T23:59:00Z"),
        upload(ours, "2026-12-09T00:01:00Z"),
        upload(ours, "1970-01-01T00:00:00Z"),
        upload("etcd/0000000000000001/notes.txt", "2026-01-01T00:00:00Z"),
    ];
    let plan = plan(
        &Catalog::default(),
        &uploads,
        &Layout::new("etcd"),
        Rules::Keep { keep: &last(1), remove_rekeyed: false },
        at(NOW),
    );
    assert_eq!((plan.items.len(), plan.strange), (1, 1));
    assert_eq!(plan.items[0].what, What::Upload);
    assert_eq!(plan.items[0].targets[0].version_id.as_deref(), Some("u"));
}

#[test]
fn delete_markers_go_last_and_alone_only_when_old() {
    let mut told = Told::default();
    told.good("20261203T000000Z");
    told.good("20261202T000000Z");
    let marker = told.version("20261202T000000Z", "manifest.json", "d1", 0);
    marker.marker = true;
    let marker = told.version("20261201T000000Z", "manifest.json", "d2", 0);
    marker.marker = true;
    let plan = told.plan(&last(1));
    let gone = &plan.items[1].targets;
    assert!(gone.last().unwrap().marker && !gone[0].marker);
    assert_eq!(plan.items[2].why, "only delete markers");
    assert!(plan.objects().iter().all(|object| !object.marker), "no lock is asked of a marker");
}
