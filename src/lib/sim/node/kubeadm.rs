//! The real kubeadm, phase by phase, on the disk of a machine: a folder that it takes for `/`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use super::bootstrap::File;
use super::dark::Dark;
use crate::yaml;

/// What an API server and its kubeconfigs need; an etcd outside needs no phase.
const PHASES: [&str; 3] = ["certs", "kubeconfig", "control-plane"];

/// Where a phase reads what we made of kubeadm's documents.
const CONFIG: &str = "/run/kubeadm/phases.yaml";

/// Writes what cloud-init would write, and makes a control plane of it at `address`.
pub(super) async fn init(
    program: &Path,
    root: &Path,
    files: &[File],
    cluster: &Value,
    init: &Value,
    address: &str,
) -> Result<(), Dark> {
    unpack(root, files)?;
    let mut init = init.clone();
    let endpoint = &mut init["localAPIEndpoint"];
    if endpoint["advertiseAddress"].as_str().is_none_or(str::is_empty) {
        // It would look for an address of this machine.
        endpoint["advertiseAddress"] = json!(address);
    }
    let mut text = String::new();
    for document in [cluster, &init] {
        let one = yaml::to_string(document, "kubeadm's configuration");
        text += &one.map_err(|_| Dark::Unreadable("kubeadm's configuration"))?;
        text += "---\n";
    }
    write(root, CONFIG, 0o600, text.as_bytes())?;
    for phase in PHASES {
        run(outside(program), root, &["init", "phase", phase, "all"], CONFIG).await?;
    }
    Ok(())
}

/// How kubeadm is called where there is no network for it alone. To change the root takes a right
/// that everybody has in a name space of users of their own.
fn outside(program: &Path) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").arg("--").arg(program);
    command
}

/// Runs a phase on the disk `root`, with the documents at the path `config` on it. `command` is
/// kubeadm, or ends with it.
pub(super) async fn run(
    mut command: Command,
    root: &Path,
    phase: &[&str],
    config: &str,
) -> Result<(), Dark> {
    command.args(phase).arg("--config").arg(config).arg("--rootfs").arg(root);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let failed = |said: String| Dark::Kubeadm { phase: phase.join(" "), said };
    let done = command.output().await.map_err(|e| failed(e.to_string()))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    Err(failed(lines[lines.len().saturating_sub(3)..].join(" | ")))
}

/// Writes what cloud-init would write.
pub(super) fn unpack(root: &Path, files: &[File]) -> Result<(), Dark> {
    files.iter().try_for_each(|file| write(root, &file.path, file.mode, &file.content))
}

pub(super) fn write(root: &Path, name: &str, mode: u32, content: &[u8]) -> Result<(), Dark> {
    let path = root.join(name.trim_start_matches('/'));
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        let mut options = fs::File::options();
        let mut file = options.create(true).write(true).truncate(true).mode(mode).open(&path)?;
        file.write_all(content)
    });
    written.map_err(|source| Dark::Disk { path, source })
}

/// A file that kubeadm has written, as a value.
pub(super) fn read(root: &Path, name: &str, what: &'static str) -> Result<Value, Dark> {
    let path: PathBuf = root.join(name.trim_start_matches('/'));
    let text = fs::read_to_string(&path).map_err(|source| Dark::Disk { path, source })?;
    yaml::from_str(&text, name).map_err(|_| Dark::Strange(what))
}
