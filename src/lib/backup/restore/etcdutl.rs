//! The second engine: etcd's own tool makes the data directory.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::backup::Error;
use crate::etcd::restore::Plan;

/// The most of what the tool says that is shown.
const SHOWN: usize = 2000;

/// Whether the tool is there, before anything is fetched for it.
///
/// # Errors
/// It is not.
pub fn look(tool: &Path) -> Result<(), Error> {
    if tool.is_file() {
        return Ok(());
    }
    Err(Error::asked(
        format!("there is no etcdutl at {}", tool.display()),
        "say where it is with --etcdutl FILE, or leave --engine etcdutl out",
    ))
}

/// Runs `etcdutl snapshot restore` on a database without a trailer, which was verified already.
///
/// # Errors
/// The tool is not there, or fails.
pub async fn restore(tool: &Path, plan: &Plan, db: &Path, data_dir: &Path) -> Result<(), Error> {
    let mut command = Command::new(tool);
    command.args(["snapshot", "restore"]).arg(db).args(arguments(plan));
    command.arg("--data-dir").arg(data_dir);
    // A run that is cancelled must not leave a tool behind that goes on writing.
    command.env_clear().kill_on_drop(true).stdin(Stdio::null());
    let output = command.output().await.map_err(|error| Error::file("run", tool, error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stderr[..], &output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let start = said.len().saturating_sub(SHOWN);
    let start = (start..said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(0);
    Err(Error::failed(
        format!("{} failed ({}): {}", tool.display(), output.status, said[start..].trim()),
        "restore without --engine etcdutl, or with the tool of another version of etcd",
    ))
}

fn arguments(plan: &Plan) -> Vec<String> {
    let pairs: Vec<String> =
        plan.initial_cluster.iter().map(|(name, url)| format!("{name}={url}")).collect();
    let mut all = vec![
        format!("--name={}", plan.name),
        format!("--initial-cluster={}", pairs.join(",")),
        format!("--initial-advertise-peer-urls={}", plan.advertise_peer_urls.join(",")),
        format!("--initial-cluster-token={}", plan.token),
        // Its hash was compared and taken off.
        "--skip-hash-check=true".to_owned(),
    ];
    if let Some(bump) = plan.bump.filter(|_| plan.mark_compacted) {
        all.push(format!("--bump-revision={bump}"));
        all.push("--mark-compacted=true".to_owned());
    }
    all
}
