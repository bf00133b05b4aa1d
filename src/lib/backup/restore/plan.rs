//! What will be done, and why not: decided before anything is written.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::find::Found;
use super::member::Member;
use super::place::{Now, Place};
use super::request::{Engine, Output, Request};
use crate::backup::Error;
use crate::backup::wording::moment;
use crate::disk;
use crate::etcd::Version;
use crate::etcd::db::TRAILER;
use crate::report::size;
use crate::snapshot::manifest::Manifest;

/// The write-ahead log that etcd reserves as soon as it starts, and some pages.
const BESIDE_DB: u64 = 65 << 20;

/// What was seen where the restore goes.
#[derive(Debug)]
pub enum Seen {
    /// The place of a data directory, and the member that it will be of.
    DataDir(Place, Box<Member>),
    /// The place of a file, and the bytes that are free there.
    File {
        /// Whether something is there.
        taken: bool,
        /// Bytes.
        free: u64,
    },
    /// Nothing is written but keys.
    Nothing,
}

/// A decided restore.
#[derive(Debug)]
pub struct Plan {
    /// What is made.
    pub into: Into,
    /// What the user should know first.
    pub warnings: Vec<String>,
}

/// What is made.
#[derive(Debug)]
pub enum Into {
    /// Only the node's keys.
    Keys,
    /// A database file.
    Db(PathBuf),
    /// A data directory.
    DataDir(Box<DataDir>),
}

/// A data directory that will be made.
#[derive(Debug)]
pub struct DataDir {
    /// Where, and what is there.
    pub place: Place,
    /// Where that goes, if anything is there.
    pub aside: Option<PathBuf>,
    /// Which member.
    pub member: Box<Member>,
    /// Who makes it.
    pub engine: Engine,
}

/// Decides.
///
/// # Errors
/// Why it will not be done.
pub fn decide(request: &Request, found: &Found, seen: Seen, now: Timestamp) -> Result<Plan, Error> {
    let mut warnings = found.remarks.clone();
    if request.pki.is_some() && found.pki.is_none() && found.bucket.is_some() {
        return Err(no_keys(found));
    }
    let into = match (seen, &request.output) {
        (Seen::DataDir(place, member), Some(Output::DataDir { engine, .. })) => {
            warnings.extend(member.warnings.iter().cloned());
            if place.live && request.plan_only {
                warnings
                    .push(format!("a running etcd holds {}: stop it first", place.path.display()));
            }
            warnings.extend(moved_aside(&place));
            let place = Place { live: place.live && !request.plan_only, ..place };
            Into::DataDir(Box::new(data_dir(found, place, member, engine.clone(), now)?))
        }
        (Seen::File { taken, free }, Some(Output::Db(path))) => {
            db_file(found, path, taken, free)?;
            Into::Db(path.clone())
        }
        _ => Into::Keys,
    };
    if let (Into::DataDir(dir), true) = (&into, found.manifest.is_none()) {
        let name = &dir.member.plan.name;
        warnings.push(format!(
            "no manifest speaks of {}: whose data it is cannot be checked before {name} starts",
            found.name
        ));
    }
    Ok(Plan { into, warnings })
}

fn no_keys(found: &Found) -> Error {
    let hint = found.keys_in.as_ref().map_or_else(
        || "leave --pki out; a backup has them when it is made with --include-pki".to_owned(),
        |name| format!("{name} is the newest that has them: --object {name} --pki DIR"),
    );
    Error::declined(format!("{} has no keys of its node", found.name), &hint)
}

/// An earlier restore that was killed may have left the place without its data.
fn moved_aside(place: &Place) -> Option<String> {
    let all: Vec<String> = place.asides.iter().map(|path| path.display().to_string()).collect();
    (!all.is_empty()).then(|| {
        format!(
            "there is no data in {}; an earlier restore has moved some aside: {}",
            place.path.display(),
            all.join(", ")
        )
    })
}

fn data_dir(
    found: &Found,
    place: Place,
    member: Box<Member>,
    engine: Engine,
    now: Timestamp,
) -> Result<DataDir, Error> {
    free_for_us(&place)?;
    let needed = match engine {
        Engine::Native => database(found).saturating_add(BESIDE_DB),
        // The tool makes a copy of its own.
        Engine::Etcdutl(_) => database(found).saturating_mul(2).saturating_add(BESIDE_DB),
    };
    room(needed, &place.path, place.free)?;
    if let Some(needs) = found.manifest.as_ref().and_then(needs) {
        member.plan.guard(needs).map_err(Error::doing(cannot(found)))?;
    }
    let aside = (place.now == Now::Etcd).then(|| aside(&place, now));
    Ok(DataDir { place, aside, member, engine })
}

/// `cannot restore backup X`, for errors.
#[must_use]
pub fn cannot(found: &Found) -> String {
    format!("cannot restore {}", found.name)
}

/// The lowest etcd that may be started, as far as the manifest tells.
fn needs(manifest: &Manifest) -> Option<Version> {
    manifest.storage_version.as_ref()?.parse().ok()
}

/// Nothing is in the way that must stay.
fn free_for_us(place: &Place) -> Result<(), Error> {
    let path = place.path.display();
    if place.live {
        return Err(Error::declined(
            format!("a running etcd holds {path}"),
            "stop it first: move etcd.yaml out of /etc/kubernetes/manifests and wait until \
             `crictl ps` shows no etcd, or stop its service",
        ));
    }
    match place.now {
        Now::Absent | Now::Empty | Now::Etcd => Ok(()),
        Now::Foreign => Err(Error::declined(
            format!("{path} is not empty, and it is no data directory of etcd"),
            "name etcd's data directory, such as /var/lib/etcd, or a folder that is empty",
        )),
        Now::NoFolder => Err(Error::declined(
            format!("{path} is no folder"),
            "name etcd's data directory, such as /var/lib/etcd",
        )),
    }
}

/// The bytes of the database, as far as they are known.
fn database(found: &Found) -> u64 {
    let db = found.manifest.as_ref().map(|manifest| manifest.db.size);
    // Without a manifest only its size as stored is known, which is the least it can be.
    db.or(found.data.size()).unwrap_or(0)
}

fn room(needed: u64, at: &Path, free: u64) -> Result<(), Error> {
    if free < needed {
        return Err(Error::declined(
            format!(
                "there is too little room at {}: {} are needed, {} are free",
                at.display(),
                size(needed),
                size(free)
            ),
            "make room there; an old .bak directory that nobody needs any more is a start",
        ));
    }
    Ok(())
}

/// Where what is there goes: beside it, or, where it cannot be renamed, inside of it.
fn aside(place: &Place, now: Timestamp) -> PathBuf {
    let time = now.strftime("%Y%m%dT%H%M%SZ");
    if place.mount_point {
        return place.path.join(format!("member.bak-{time}"));
    }
    let name = place.path.file_name().unwrap_or_default().to_string_lossy();
    place.path.with_file_name(format!("{name}.bak-{time}"))
}

fn db_file(found: &Found, path: &Path, taken: bool, free: u64) -> Result<(), Error> {
    if taken {
        return Err(Error::declined(
            format!("{} is there already", path.display()),
            "name a file that is not there yet: nothing is overwritten",
        ));
    }
    room(database(found).saturating_add(TRAILER), disk::folder_of(path), free)
}

/// Says what will be done, a line a step.
#[must_use]
pub fn steps(plan: &Plan, found: &Found, pki: Option<&Path>) -> Vec<String> {
    let mut all = vec![fetched(found)];
    if let Some(pki) = pki {
        all.push(format!("unpack the node's keys into {}", pki.display()));
    }
    match &plan.into {
        Into::Keys => {}
        Into::Db(path) => all.push(format!(
            "write the database to {}, with the SHA-256 behind it that etcdutl wants",
            path.display()
        )),
        Into::DataDir(dir) => all.extend(data_dir_steps(dir)),
    }
    all
}

fn fetched(found: &Found) -> String {
    let about = found.manifest.as_ref().map(|manifest| {
        let (time, node) = (moment(manifest.started), &manifest.node);
        format!(" of {time}, node {node}, revision {}", manifest.revision)
    });
    let much = found.data.size().map(|bytes| format!(" ({})", size(bytes))).unwrap_or_default();
    format!("fetch and verify {}{}{much}", found.name, about.unwrap_or_default())
}

fn data_dir_steps(dir: &DataDir) -> Vec<String> {
    let mut all = Vec::new();
    let plan = &dir.member.plan;
    let who = match &dir.engine {
        Engine::Native => String::new(),
        Engine::Etcdutl(path) => format!(", by {}", path.display()),
    };
    all.push(format!(
        "make member {} ({:x}) of the new cluster {:x} in {}{who}",
        plan.name,
        dir.member.cluster.member_id,
        dir.member.cluster.id,
        dir.place.staging().display()
    ));
    if let Some(bump) = plan.bump.filter(|_| plan.mark_compacted) {
        all.push(format!("raise the revision by {bump} and mark what is before it as compacted"));
    }
    if let Some(aside) = &dir.aside {
        all.push(format!("move what is there to {}", aside.display()));
    }
    all.push(format!("put it in its place: {}", dir.place.path.display()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::restore::find::Data;
    use crate::backup::restore::member;
    use crate::backup::restore::request::{MemberWish, Source};
    use crate::fault::{Class, Fault as _};

    /// With the name of an object that no manifest speaks of.
    async fn object() -> Found {
        let mut bucket = crate::s3::Config::new("b");
        // Nothing of the machine's own settings is asked for.
        bucket.endpoint = Some("http://127.0.0.1:1".to_owned());
        bucket.region = Some("us-east-1".to_owned());
        let clock = crate::clock::System::shared();
        let bucket = crate::s3::Bucket::open(bucket, clock).await.unwrap();
        Found { bucket: Some(bucket), ..found(5) }
    }

    fn found(size: u64) -> Found {
        Found {
            name: "file x".to_owned(),
            data: Data::File { path: "/x".into(), size },
            manifest: None,
            pki: None,
            keys_in: None,
            bucket: None,
            remarks: Vec::new(),
            twins: Vec::new(),
        }
    }

    fn place(now: Now) -> Place {
        let path = PathBuf::from("/var/lib/etcd");
        let asides = Vec::new();
        Place { path, now, mount_point: false, live: false, free: 1 << 30, asides }
    }

    fn request() -> Request {
        let member = Box::new(MemberWish::default());
        let path = PathBuf::from("/var/lib/etcd");
        Request {
            source: Source::Stdin,
            identities: None,
            identity_files: Vec::new(),
            output: Some(Output::DataDir { path, member, engine: Engine::Native }),
            pki: None,
            manifests: crate::backup::Manifests::default(),
            plan_only: false,
            skip_hash_check: false,
        }
    }

    fn decided(place: Place, bytes: u64) -> Result<Plan, Error> {
        let member = Box::new(member::decide(&MemberWish::default(), None, "t").unwrap());
        let now = "2026-11-30T07:15:00Z".parse().unwrap();
        decide(&request(), &found(bytes), Seen::DataDir(place, member), now)
    }

    #[test]
    fn what_is_there_is_moved_aside_and_never_removed() {
        for (place, aside) in [
            (place(Now::Absent), None),
            (place(Now::Empty), None),
            (place(Now::Etcd), Some("/var/lib/etcd.bak-20261130T071500Z")),
            (
                Place { mount_point: true, ..place(Now::Etcd) },
                Some("/var/lib/etcd/member.bak-20261130T071500Z"),
            ),
        ] {
            let plan = decided(place.clone(), 5).unwrap();
            let said = steps(&plan, &found(5), None).join("\n");
            let Into::DataDir(dir) = plan.into else { panic!("a data directory") };
            assert_eq!(dir.aside.as_deref(), aside.map(Path::new), "{place:?}");
            assert_eq!(said.contains("move what is there"), aside.is_some(), "{said}");
            assert!(said.contains("make member default ("), "{said}");
        }
    }

    #[test]
    fn what_must_not_be_touched_is_left_alone() {
        for (place, bytes, says) in [
            (Place { live: true, ..place(Now::Etcd) }, 5, "a running etcd holds /var/lib/etcd"),
            (place(Now::Foreign), 5, "no data directory of etcd"),
            (place(Now::NoFolder), 5, "is no folder"),
            (place(Now::Absent), 1 << 30, "too little room at /var/lib/etcd: 1.0 GiB are needed"),
        ] {
            let error = decided(place, bytes).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!((error.class(), error.hints().len()), (Class::Refused, 1), "{error}");
        }
    }

    #[test]
    fn a_file_is_never_overwritten() {
        let path = PathBuf::from("/tmp/x.db");
        let db = Request { output: Some(Output::Db(path)), ..request() };
        let seen = |taken| Seen::File { taken, free: 1 << 30 };
        let now = Timestamp::UNIX_EPOCH;
        assert!(decide(&db, &found(5), seen(false), now).is_ok());
        let taken = decide(&db, &found(5), seen(true), now).unwrap_err();
        assert!(taken.to_string().contains("is there already"), "{taken}");
    }

    #[test]
    fn the_room_that_is_needed_is_that_of_what_is_made() {
        let now = Timestamp::UNIX_EPOCH;
        let etcdutl = Engine::Etcdutl("/usr/bin/etcdutl".into());
        let mib = 1_u64 << 20;
        for (engine, free, fits) in [
            (None, 10 * mib + 32, true),
            (None, 10 * mib + 31, false),
            (Some(Engine::Native), 75 * mib, true),
            (Some(Engine::Native), 75 * mib - 1, false),
            (Some(etcdutl.clone()), 85 * mib, true),
            (Some(etcdutl), 85 * mib - 1, false),
        ] {
            let (output, seen) = match engine.clone() {
                None => (Output::Db("/tmp/x.db".into()), Seen::File { taken: false, free }),
                Some(engine) => {
                    let member = Box::new(MemberWish::default());
                    let path = PathBuf::from("/var/lib/etcd");
                    let place = Place { free, ..place(Now::Absent) };
                    let seen = member::decide(&MemberWish::default(), None, "t").unwrap();
                    (Output::DataDir { path, member, engine }, Seen::DataDir(place, Box::new(seen)))
                }
            };
            let request = Request { output: Some(output), ..request() };
            let plan = decide(&request, &found(10 * mib), seen, now);
            assert_eq!(plan.is_ok(), fits, "{engine:?} {free}");
        }
    }

    #[test]
    fn data_that_a_killed_restore_moved_aside_is_spoken_of() {
        let aside = PathBuf::from("/var/lib/etcd.bak-20261130T071500Z");
        let plan = decided(Place { asides: vec![aside], ..place(Now::Absent) }, 5).unwrap();
        let said = "there is no data in /var/lib/etcd; an earlier restore has moved some aside: \
                    /var/lib/etcd.bak-20261130T071500Z";
        assert!(plan.warnings.iter().any(|warning| warning == said), "{:?}", plan.warnings);
        assert_eq!(decided(place(Now::Absent), 5).unwrap().warnings.len() + 1, plan.warnings.len());
    }

    #[tokio::test]
    async fn keys_that_a_backup_does_not_have_are_missed() {
        let keys = Request { output: None, pki: Some("/p".into()), ..request() };
        let now = Timestamp::UNIX_EPOCH;
        let none = decide(&keys, &object().await, Seen::Nothing, now).unwrap_err();
        assert!(none.to_string().contains("has no keys"), "{none}");
        assert!(decide(&keys, &found(5), Seen::Nothing, now).is_ok(), "the file may be the keys");
    }
}
