//! What a run shares ends with it, however it ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::peers::kube::KubePlane;
use crate::support::peers::{leash, until};

/// Set for the run that the test below starts; a file to write into.
const SAYS: &str = "CAPVCO_LEASH_TEST";

#[test]
fn what_a_run_shares_ends_when_the_run_is_killed() {
    let said = tempfile::NamedTempFile::new().unwrap();
    if let Some(path) = std::env::var_os(SAYS) {
        let plane = KubePlane::start();
        let folder = tempfile::tempdir().unwrap().keep();
        leash::clear(&folder);
        let ids = plane.processes().into_iter().map(|(_, id)| id.to_string());
        let lines: Vec<String> = ids.chain([folder.display().to_string()]).collect();
        std::fs::write(path, lines.join("\n") + "\nready\n").unwrap();
        std::thread::sleep(Duration::from_mins(1));
        return;
    }
    let itself = "kube::leash::what_a_run_shares_ends_when_the_run_is_killed";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", itself]).env(SAYS, said.path());
    let mut inner = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let text = || std::fs::read_to_string(said.path()).unwrap();
    let mut ended_early = || inner.try_wait().unwrap().is_some();
    until(Duration::from_mins(1), || text().ends_with("ready\n") || ended_early());
    let ready = text().ends_with("ready\n");
    inner.kill().unwrap();
    inner.wait().unwrap();
    assert!(ready, "the inner run started nothing");
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    let [api, etcd, folder, "ready"] = lines[..] else { panic!("{text}") };
    let gone = || ended(api) && ended(etcd) && !Path::new(folder).exists();
    assert!(until(Duration::from_secs(10), gone), "something outlived the run:\n{text}");
}

/// Gone, or dead and not yet collected by whoever inherited it.
fn ended(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}
