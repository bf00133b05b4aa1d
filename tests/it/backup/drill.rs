//! `drill`: a backup proven by a real etcd, on real stores and files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::snapshot::Desk;
use crate::support::peers::etcd::{Etcd, tool_name};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;
use crate::support::peers::{tool, until};
use crate::support::program::{Done, Program, backup, backup_at, finish};

fn drill(program: Program, desk: &Desk, line: &str) -> Program {
    std::fs::create_dir_all(desk.path("staging")).unwrap();
    program
        .env("CAPVCO_BACKUP_IDENTITY", desk.path("one.txt"))
        .env("CAPVCO_BACKUP_STAGING", desk.path("staging"))
        .env("CAPVCO_BACKUP_ETCD", tool(&tool_name("etcd", line)))
        .words("drill -output json")
}

/// The rows by their steps; each must be good.
fn good(done: &Done) -> Vec<(String, Value)> {
    let rows = done.json()["results"].as_array().unwrap().clone();
    let rows = rows.into_iter().map(|row| (row["step"].as_str().unwrap().to_owned(), row));
    let rows: Vec<(String, Value)> = rows.collect();
    for (step, row) in &rows {
        assert_eq!(row["outcome"], "good", "{step}: {row}");
    }
    rows
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_served_compared_written_to_and_thrown_away() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    for (line, starts) in [("3.6", "3.6"), ("3.6", "3.7"), ("3.4", "3.5")] {
        let etcd = Etcd::start_line(line);
        let revision = etcd.fill(300, 2000, Values::Random);
        etcd.etcdctl(&["del", "--prefix", "/registry/pods/default/pod-00000"]);
        etcd.etcdctl(&["compaction", "--physical", &revision.to_string()]);
        // Gone soon after the start, as the masters' leases of a control plane are.
        let lease = etcd.etcdctl(&["lease", "grant", "1"]);
        let lease = lease.split_whitespace().nth(1).unwrap();
        etcd.etcdctl(&["put", "--lease", lease, "/masterlease", "x"]);
        let taken = desk.snapshot(&etcd, &s3).run().await.expect(0);
        let name = taken.json()["results"][0]["backup"].as_str().unwrap().to_owned();
        let run = drill(backup_at(&s3), &desk, starts).arg("--object").arg(name);
        let done = run.run().await.expect(0);
        let rows = good(&done);
        let steps: Vec<&str> = rows.iter().map(|(step, _)| step.as_str()).collect();
        let all = "find fetch restore start revision keys history write total";
        assert_eq!(steps, all.split(' ').collect::<Vec<_>>(), "{line} on {starts}");
        let keys = &rows[5].1["detail"];
        assert_eq!(keys, "201", "{line}");
        assert!(rows[8].1["seconds"].as_f64().unwrap() > 0.0);
        assert!(is_empty(&desk.path("staging")), "nothing is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_others_is_proven_too() {
    let (desk, etcd) = (Desk::new(), Etcd::start_line("3.5"));
    etcd.fill(100, 500, Values::Compressible);
    let path = desk.path("snapshot.db");
    etcd.etcdctl(&["snapshot", "save", path.to_str().unwrap()]);
    let done = drill(backup(), &desk, "3.5").arg("--from").arg(&path).run().await.expect(0);
    good(&done);
    let none = desk.path("empty.db");
    Etcd::start_line("3.6").etcdctl(&["snapshot", "save", none.to_str().unwrap()]);
    let done = drill(backup(), &desk, "3.6").arg("--from").arg(&none).run().await.expect(0);
    good(&done);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_with_passwords_are_not_drilled_and_the_other_proof_is_named() {
    let (desk, etcd) = (Desk::new(), Etcd::start_line("3.6"));
    etcd.etcdctl(&["put", "a", "b"]);
    for words in [&["user", "add", "root:secret"][..], &["role", "add", "root"]] {
        etcd.etcdctl(words);
    }
    etcd.etcdctl(&["user", "grant-role", "root", "root"]);
    etcd.etcdctl(&["auth", "enable"]);
    let path = desk.path("snapshot.db");
    etcd.etcdctl(&["--user", "root:secret", "snapshot", "save", path.to_str().unwrap()]);
    let done = drill(backup(), &desk, "3.6").arg("--from").arg(&path).run().await.expect(3);
    done.says("an etcd with users and passwords").says("capvco-backup verify");
    assert!(is_empty(&desk.path("staging")), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_start_is_said_with_the_end_of_its_log() {
    let (desk, etcd) = (Desk::new(), Etcd::start_line("3.6"));
    etcd.etcdctl(&["put", "a", "b"]);
    let path = desk.path("snapshot.db");
    etcd.etcdctl(&["snapshot", "save", path.to_str().unwrap()]);
    let from = |etcd: &Path| {
        let run = drill(backup(), &desk, "3.6").env("CAPVCO_BACKUP_ETCD", etcd);
        run.arg("--from").arg(&path)
    };
    let old = from(&tool("etcd-3.5")).run().await.expect(3);
    old.says("etcd 3.5.35 may not be started on data of etcd 3.6.0");
    from(Path::new("/no/etcd")).run().await.expect(2).says("there is no etcd at /no/etcd");
    from(Path::new("/bin/true")).run().await.expect(3).says("does not say which version");
    // It says that it is etcd, and ends.
    let liar = desk.path("liar");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'etcd Version: 3.6.16' && exit 0\n\
                  echo the disk is haunted >&2\nexit 7\n";
    std::fs::write(&liar, script).unwrap();
    assert!(Command::new("chmod").arg("755").arg(&liar).status().unwrap().success());
    let done = from(&liar).run().await.expect(1);
    done.says("does not start: it ended (exit status: 7)").says("the disk is haunted");
    // Or hangs.
    let script = script.replace("exit 7", "exec sleep 1000");
    std::fs::write(&liar, script).unwrap();
    let done = from(&liar).words("--start-timeout 1s").run().await.expect(1);
    done.says("it does not serve after 1 s");
    assert!(is_empty(&desk.path("staging")), "nothing is left");
}

/// An etcd that never serves and writes down who it is; all its words are seen from outside.
fn stuck(desk: &Desk, name: &str) -> PathBuf {
    let path = desk.path(name);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec {etcd} --version\n\
         echo $$ > {pid}.new && mv {pid}.new {pid}\nwhile :; do sleep 1; done\n",
        etcd = tool("etcd-3.6").display(),
        pid = path.with_extension("pid").display(),
    );
    std::fs::write(&path, script).unwrap();
    assert!(Command::new("chmod").arg("755").arg(&path).status().unwrap().success());
    path
}

/// Starts a drill that gets stuck; the id of its etcd.
fn started(desk: &Desk, name: &str, from: &Path) -> (std::process::Child, String) {
    let run = drill(backup(), desk, "3.6").env("CAPVCO_BACKUP_ETCD", stuck(desk, name));
    let child = run.arg("--from").arg(from).spawn();
    let pid = desk.path(name).with_extension("pid");
    assert!(until(Duration::from_mins(1), || pid.exists()), "it begins");
    (child, std::fs::read_to_string(pid).unwrap().trim().to_owned())
}

/// Whether a process lives; of one that only waits for its parent there is no command line.
fn lives(id: &str) -> bool {
    std::fs::read(Path::new("/proc").join(id).join("cmdline")).is_ok_and(|text| !text.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_drill_left_is_ended_by_the_next_one_and_a_living_drill_is_not() {
    let (desk, etcd) = (Desk::new(), Etcd::start_line("3.6"));
    etcd.etcdctl(&["put", "a", "b"]);
    let path = desk.path("snapshot.db");
    etcd.etcdctl(&["snapshot", "save", path.to_str().unwrap()]);
    let (mut dead, orphan) = started(&desk, "first", &path);
    dead.kill().unwrap();
    dead.wait().unwrap();
    let (alive, others) = started(&desk, "second", &path);
    let folders = || std::fs::read_dir(desk.path("staging")).unwrap().count();
    // The second one has found the first one's.
    assert_eq!((folders(), lives(&orphan), lives(&others)), (1, false, true));
    let third = drill(backup(), &desk, "3.6").arg("--from").arg(&path).run().await.expect(0);
    assert!(!third.err.contains("was killed"), "{}", third.err);
    assert_eq!((folders(), lives(&others)), (1, true));
    let id = alive.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    let ended = finish(alive).await.expect(1);
    ended.says("a drill was killed and has left ").says(": it is removed");
    assert!(is_empty(&desk.path("staging")), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_etcd_too_and_nobody_else_can_ask_it() {
    let (desk, etcd) = (Desk::new(), Etcd::start_line("3.6"));
    etcd.etcdctl(&["put", "a", "b"]);
    let path = desk.path("snapshot.db");
    etcd.etcdctl(&["snapshot", "save", path.to_str().unwrap()]);
    // It serves for others, but never finds a leader that our drill would wait for.
    let stuck = desk.path("stuck");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec {etcd} --version\necho $$ > {pid}\n\
         echo \"$@\" > {args}\nexec sleep 1000\n",
        etcd = tool("etcd-3.6").display(),
        pid = desk.path("pid").display(),
        args = desk.path("args").display(),
    );
    std::fs::write(&stuck, script).unwrap();
    assert!(Command::new("chmod").arg("755").arg(&stuck).status().unwrap().success());
    let run = drill(backup(), &desk, "3.6").env("CAPVCO_BACKUP_ETCD", &stuck);
    let child = run.arg("--from").arg(&path).spawn();
    let args = desk.path("args");
    let started = || std::fs::read_to_string(&args).is_ok_and(|text| text.ends_with('\n'));
    assert!(until(Duration::from_mins(1), started), "it begins");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    finish(child).await.expect(1).says("interrupted during the drill");
    let pid = std::fs::read_to_string(desk.path("pid")).unwrap();
    let gone = || !Path::new("/proc").join(pid.trim()).exists();
    assert!(until(Duration::from_secs(20), gone), "etcd goes with it");
    assert!(is_empty(&desk.path("staging")), "nothing is left");
    let said = std::fs::read_to_string(&args).unwrap();
    for flag in ["--client-cert-auth=true", "--peer-client-cert-auth=true", "https://127.0.0.1:"] {
        assert!(said.contains(flag), "{flag}: {said}");
    }
    assert!(!said.contains("http://"), "{said}");
}
