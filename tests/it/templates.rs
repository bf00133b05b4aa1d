//! What we hand out as files, and the commands in the how-tos: they fit the programs as they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::program::{Program, backup};
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

/// The commands of our program in a page's blocks of code, comments left out.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for block in page.split("```sh\n").skip(1) {
        let code = block.split("```").next().unwrap_or_default().replace("\\\n", " ");
        for line in code.lines() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.starts_with("capvco-backup ") {
                found.push(line.to_owned());
            }
        }
    }
    found
}

/// Verb (with its second word, if it has one) and the long flags of a command.
fn parts(command: &str) -> (Vec<&str>, Vec<&str>) {
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let two = ["hold", "bucket"].contains(&words[0]);
    let verb = words[..if two { 2 } else { 1 }].to_vec();
    let flags = words.into_iter().filter(|word| word.starts_with("--"));
    (verb, flags.map(|flag| flag.split('=').next().unwrap_or(flag)).collect())
}

/// The verbs that the program has.
async fn verbs() -> BTreeSet<String> {
    let help = backup().arg("--help").run().await.expect(0).out;
    let rows = help.lines().filter(|row| row.starts_with("  ") && !row.starts_with("   "));
    let words = rows.filter_map(|row| row.split_whitespace().next());
    words.filter(|word| !word.starts_with('-')).map(str::to_owned).collect()
}

/// The long flags that a verb's help names.
async fn flags_of(verb: &[&str]) -> BTreeSet<String> {
    let program = verb.iter().fold(backup(), Program::arg).arg("--help");
    let help = program.run().await.expect(0).out;
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_commands_of_the_how_tos_have_the_flags_that_they_use() {
    let (there, mut shown, mut wrong) = (verbs().await, BTreeSet::new(), Vec::new());
    for entry in fs::read_dir(root().join("docs/how-to")).unwrap() {
        let path = entry.unwrap().path();
        for command in commands(&fs::read_to_string(&path).unwrap()) {
            let (verb, flags) = parts(&command);
            if !there.contains(verb[0]) {
                continue;
            }
            shown.insert(verb[0].to_owned());
            let known = flags_of(&verb).await;
            let missing: Vec<&str> = flags.into_iter().filter(|f| !known.contains(*f)).collect();
            if !missing.is_empty() {
                wrong.push(format!("{}: {command}: {missing:?}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let silent: Vec<_> = there.difference(&shown).filter(|v| *v != "help").collect();
    assert!(silent.is_empty(), "no how-to shows {silent:?}");
}

#[tokio::test]
async fn every_variable_of_the_settings_is_one_of_ours() {
    if !verbs().await.contains("snapshot") {
        return;
    }
    let known = flags_of(&["snapshot"]).await;
    let letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    for file in ["env", "backup-rw.env", "cronjob.yaml"] {
        let text = template(file);
        let names = text.split(|c: char| !letter(c));
        for name in names.filter_map(|name| name.strip_prefix("CAPVCO_BACKUP_")) {
            let flag = format!("--{}", name.to_lowercase().replace('_', "-"));
            assert!(known.contains(&flag), "{file}: {name}");
        }
    }
}
