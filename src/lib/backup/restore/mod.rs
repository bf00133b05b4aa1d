//! `restore`: a backup becomes a data directory, a database file, or the files of a node.
//!
//! What can be known beforehand is looked at first: the place, the room, the key on the header,
//! the versions. Then everything is made beside its place, verified there, and swapped in by a
//! rename. Until that rename nothing has changed; after it, the old data is kept aside.

mod apply;
mod etcdutl;
mod fetch;
pub mod find;
mod member;
mod place;
mod plan;
mod procedure;
mod report;
mod request;
mod staging;
mod twin;

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use crate::etcd::Version;
pub use procedure::Step;
pub use report::{NewMember, RestoreReport, Row};
pub use request::{BUMP, Engine, MemberWish, Output, Request, Source, Which, initial_cluster};

pub(super) use apply::{Verified, verified};
pub(super) use place::free;

use self::find::Found;
use self::place::Place;
use self::plan::{DataDir, Into, Plan, Seen};
use self::procedure::Facts;
use super::Error;
use super::kubeadm::EtcdNode;
use super::node::Node;
use super::wording::{at, moment};
use crate::clock::Clock;
use crate::progress::Progress;
use crate::report::shell_word;
use crate::snapshot::archive::Archive;

/// Restores, or says what a restore would do.
///
/// # Errors
/// Nothing has changed then.
pub async fn run(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Result<RestoreReport, Error> {
    request.hold()?;
    // Boxed: the futures of the S3 client are large.
    let work = Box::pin(restore(request, clock, progress));
    let stopped = || Err(Error::Interrupted("before anything was changed"));
    cancel.run_until_cancelled(work).await.unwrap_or_else(stopped)
}

async fn restore(
    request: &Request,
    clock: Arc<dyn Clock>,
    progress: Arc<dyn Progress>,
) -> Result<RestoreReport, Error> {
    let begun = clock.elapsed();
    let now = at(clock.unix());
    let node = node(request)?;
    let seen = look(request, node.etcd.as_ref(), now)?;
    let with = request.identities.clone().unwrap_or_default();
    let found = find::find(&request.source, Arc::clone(&clock)).await?;
    // A file for --pki alone is an archive, which is tried where it is read.
    let keys_alone = request.output.is_none() && found.manifest.is_none();
    let found = if keys_alone { found } else { find::opened(found, &with).await? };
    let plan = plan::decide(request, &found, seen, now)?;
    for warning in &plan.warnings {
        progress.warn(warning);
    }
    let context = Context { request, found: &found, plan: &plan, node: &node };
    if request.plan_only {
        return Ok(context.planned());
    }
    let archive = match &request.pki {
        Some(_) => Some(apply::keys(&found, &with).await?),
        None => None,
    };
    let mut report = context.carry_out(archive, &progress).await?;
    let took = clock.elapsed().saturating_sub(begun);
    report.rows.iter_mut().for_each(|row| row.seconds = Some(took.as_secs_f64()));
    progress.finish(fetch::ITEM, "restored");
    Ok(report)
}

/// This machine's manifests; only a data directory depends on them.
fn node(request: &Request) -> Result<Node, Error> {
    let Some(Output::DataDir { .. }) = request.output else { return Ok(Node::default()) };
    // Of the API server only the port is wanted, and most have the usual one.
    let api_server = request.manifests.api_server().unwrap_or_default();
    Ok(Node { etcd: request.manifests.etcd()?, api_server })
}

/// Looks at where the restore goes.
fn look(request: &Request, node: Option<&EtcdNode>, now: Timestamp) -> Result<Seen, Error> {
    match &request.output {
        None => Ok(Seen::Nothing),
        Some(Output::Db(path)) => {
            let taken = std::fs::symlink_metadata(path).is_ok();
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let free = place::free(parent.unwrap_or(Path::new(".")))?;
            Ok(Seen::File { taken, free })
        }
        Some(Output::DataDir { path, member: wish, engine }) => {
            if let Engine::Etcdutl(tool) = engine {
                etcdutl::look(tool)?;
            }
            let mut member = member::decide(wish, node, &fresh_token(now)?)?;
            let place = Place::look(path)?;
            member.warnings.extend(match node {
                Some(node) => member::elsewhere(node, &place.path),
                None => member::unknown(wish, &member.plan, &request.manifests),
            });
            Ok(Seen::DataDir(place, Box::new(member)))
        }
    }
}

/// A token that no other cluster has.
fn fresh_token(now: Timestamp) -> Result<String, Error> {
    let mut random = [0; 6];
    getrandom::fill(&mut random).map_err(|error| {
        Error::failed(
            format!("there is no randomness: {error}"),
            "say --initial-cluster-token WORD",
        )
    })?;
    Ok(format!("restored-{}-{}", now.strftime("%Y%m%dT%H%M%SZ"), hex::encode(random)))
}

/// What a restore and its words are made of.
struct Context<'a> {
    request: &'a Request,
    found: &'a Found,
    plan: &'a Plan,
    node: &'a Node,
}

impl Context<'_> {
    fn row(&self, outcome: &'static str) -> Row {
        let (object, version_id) = apply::object(self.found);
        let manifest = self.found.manifest.as_ref();
        Row {
            outcome,
            source: self.found.name.clone(),
            object,
            version_id,
            cluster: find::cluster(self.found).map(|id| id.to_string()),
            taken: manifest.map(|manifest| moment(manifest.started)),
            revision: manifest.map(|manifest| manifest.revision),
            db_size: manifest.map(|manifest| manifest.db.size),
            sha256: manifest.map(|manifest| manifest.db.sha256.clone()),
            steps: plan::steps(self.plan, self.found, self.request.pki.as_deref()),
            pki: self.request.pki.clone(),
            ..Row::default()
        }
    }

    fn report(row: Row) -> RestoreReport {
        RestoreReport { rows: vec![row], warnings: Vec::new(), left_behind: None }
    }

    fn planned(&self) -> RestoreReport {
        let mut row = self.row("planned");
        match &self.plan.into {
            Into::Keys => {}
            Into::Db(path) => row.db_file = Some(path.clone()),
            Into::DataDir(dir) => {
                row.data_dir = Some(dir.place.path.clone());
                row.moved_to.clone_from(&dir.aside);
                row.member = Some(new_member(dir, None));
                row.remains = procedure::before(&self.facts(dir, None, dir.aside.as_deref()));
                row.remains.extend(procedure::after(&self.facts(dir, None, dir.aside.as_deref())));
            }
        }
        Self::report(row)
    }

    async fn carry_out(
        &self,
        archive: Option<Archive>,
        progress: &Arc<dyn Progress>,
    ) -> Result<RestoreReport, Error> {
        let keys = || match (&archive, &self.request.pki) {
            (Some(archive), Some(folder)) => {
                let doing = format!("cannot unpack the keys into {}", folder.display());
                archive.unpack(folder).map(Some).map_err(Error::doing(doing))
            }
            _ => Ok(None),
        };
        let mut row = self.row("restored");
        if let (Some(archive), Some(folder)) = (&archive, &self.request.pki) {
            let files: Vec<&Path> = archive.files().collect();
            row.pki_files = Some(files.len());
            row.remains.push(procedure::keys(folder, &files));
        }
        match &self.plan.into {
            Into::Keys => {
                keys()?;
                Ok(Self::report(row))
            }
            Into::Db(path) => {
                let done = apply::db_file(self.found, self.request, path, progress, keys).await;
                let verified = done?;
                row.db_file = Some(path.clone());
                let warnings = tell(&mut row, &verified);
                Ok(RestoreReport { warnings, ..Self::report(row) })
            }
            Into::DataDir(dir) => {
                let placed = apply::data_dir(self.found, self.request, dir, progress, keys).await?;
                row.data_dir = Some(dir.place.path.clone());
                row.moved_to.clone_from(&placed.aside);
                row.member = Some(new_member(dir, Some(placed.prepared.revision)));
                let lowest = Some(placed.prepared.lowest_etcd);
                let facts = self.facts(dir, lowest, placed.aside.as_deref());
                row.remains.extend(procedure::after(&facts));
                let warnings = tell(&mut row, &placed.verified);
                Ok(RestoreReport { warnings, left_behind: placed.left, ..Self::report(row) })
            }
        }
    }

    fn facts<'b>(
        &'b self,
        dir: &'b DataDir,
        lowest: Option<crate::etcd::Version>,
        aside: Option<&'b Path>,
    ) -> Facts<'b> {
        Facts {
            node: self.node.etcd.as_ref(),
            manifests: self.request.manifests.folder(),
            api: procedure::own_api(self.node),
            data_dir: &dir.place.path,
            aside,
            plan: &dir.member.plan,
            source: self.same_source(),
            engine: self.same_engine(),
            lowest,
        }
    }

    /// How another node names the very same data.
    fn same_source(&self) -> Vec<String> {
        let identities = self.request.identity_files.iter().map(|path| match path.to_str() {
            // What came through a pipe comes from somewhere else there.
            None | Some("-") => "--identity FILE".to_owned(),
            Some(path) => format!("--identity {}", shell_word(path)),
        });
        let mut words: Vec<String> = identities.collect();
        if let Source::Bucket { target, .. } = &self.request.source {
            words.extend(target.flags());
        }
        match &self.found.data {
            find::Data::Object { key, version, .. } => {
                words.push(format!("--object {}", shell_word(key)));
                words.extend(version.as_ref().map(|id| format!("--version-id {}", shell_word(id))));
            }
            find::Data::File { path, .. } => {
                words.push(format!("--from {}", shell_word(&path.display().to_string())));
            }
            find::Data::Stdin => words.push("--from FILE".to_owned()),
        }
        if self.request.skip_hash_check {
            words.push("--skip-hash-check".to_owned());
        }
        words
    }

    /// What else another node is told in the same way.
    fn same_engine(&self) -> Vec<String> {
        let Some(Output::DataDir { member, engine, .. }) = &self.request.output else {
            return Vec::new();
        };
        let version = member.etcd_version.map(|version| format!("--etcd-version {version}"));
        let etcdutl = match engine {
            Engine::Native => None,
            Engine::Etcdutl(_) => Some("--engine etcdutl".to_owned()),
        };
        let force = member.force.then(|| "--force".to_owned());
        [etcdutl, version, force].into_iter().flatten().collect()
    }
}

fn new_member(dir: &DataDir, revision: Option<i64>) -> NewMember {
    let plan = &dir.member.plan;
    NewMember {
        name: plan.name.clone(),
        id: format!("{:016x}", dir.member.cluster.member_id),
        cluster_id: format!("{:016x}", dir.member.cluster.id),
        token: plan.token.clone(),
        revision,
    }
}

/// Fills in what was found, and gives what the user should know of it.
fn tell(row: &mut Row, verified: &Verified) -> Vec<String> {
    let Verified { fetched, summary, proven, unproven } = verified;
    row.revision = Some(summary.revision);
    row.db_size = Some(fetched.size);
    row.sha256 = Some(hex::encode(fetched.sha256));
    row.live_keys = Some(summary.live_keys);
    row.hash = Some(format!("{:08x}", summary.hash));
    let lowest = summary.lowest_etcd();
    row.lowest_etcd = Some(format!("{}.{}", lowest.major, lowest.minor));
    row.proven.clone_from(proven);
    let mut warnings = unproven.clone();
    if summary.alarms > 0 {
        warnings.push(
            "an alarm was raised when the backup was made, and the new cluster has it too: \
             look with `etcdctl alarm list` once it runs"
                .to_owned(),
        );
    }
    warnings
}
