//! What we hand out as files fits the programs as they are.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::rust_text::root;

fn folder() -> PathBuf {
    root().join("templates/backup")
}

fn template(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

fn cronjob() -> Value {
    capvco::yaml::from_str(&template("cronjob.yaml"), "cronjob.yaml").unwrap()
}

/// The values of a key in a unit.
fn setting(unit: &str, key: &str) -> Vec<String> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_units_are_what_systemd_understands() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return; // Not every machine that builds this has it.
    }
    let dir = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify").env("SYSTEMD_LOG_LEVEL", "warning");
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "service" || end == "timer") {
            let text = fs::read_to_string(&path).unwrap();
            let here = dir.path().join(path.file_name().unwrap());
            fs::write(&here, text.replace("/usr/local/bin/capvco-backup", "/bin/true")).unwrap();
            verify.arg(here);
        }
    }
    let done = verify.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("capvco")).collect();
    assert!(done.status.success() && ours.is_empty(), "{said}");
}

#[test]
fn timer_and_cronjob_tick_as_the_slots_do() {
    let service = template("capvco-backup.service");
    assert!(setting(&service, "ExecStart")[0].ends_with("snapshot --slot 6h"));
    assert_eq!(setting(&template("capvco-backup.timer"), "OnCalendar"), ["*-*-* 00/6:05:00 UTC"]);
    let spec = &cronjob()["spec"];
    assert_eq!((&spec["schedule"], &spec["timeZone"]), (&json!("5 */6 * * *"), &json!("Etc/UTC")));
    let container = &spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["capvco-backup", "snapshot", "--slot", "6h"]));
}

#[test]
fn only_the_other_sides_failure_is_tried_again() {
    let service = template("capvco-backup.service");
    assert_eq!(setting(&service, "RestartPreventExitStatus"), ["1 2 3 5"]);
    let rules = &cronjob()["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"];
    assert_eq!(rules[0]["action"], "FailJob");
    assert_eq!(rules[0]["onExitCodes"]["values"], json!([1, 2, 3, 5]));
}
