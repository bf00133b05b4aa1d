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

/// A length of time of a unit, in seconds.
fn seconds(unit: &str, key: &str) -> u64 {
    let text = setting(unit, key).remove(0);
    capvco::cli::args::duration(&text.replace("min", "m")).unwrap().as_secs()
}

#[test]
fn wrong_settings_are_not_tried_again_and_an_outage_of_an_hour_is_waited_out() {
    for (name, never) in [("capvco-backup.service", "2"), ("capvco-backup-prune.service", "1 2 3")]
    {
        let service = template(name);
        assert_eq!(setting(&service, "RestartPreventExitStatus"), [never]);
        let tries: u64 = setting(&service, "StartLimitBurst")[0].parse().unwrap();
        let pause = seconds(&service, "RestartSec");
        assert!(
            (tries - 1) * pause > 3600
                && tries * pause < seconds(&service, "StartLimitIntervalSec")
        );
    }
    // The limit is over when the timer starts the next slot's.
    assert!(seconds(&template("capvco-backup.service"), "StartLimitIntervalSec") < 6 * 3600);

    let job = &cronjob()["spec"]["jobTemplate"]["spec"];
    let rules = job["podFailurePolicy"]["rules"].as_array().unwrap();
    let fails: Vec<_> = rules.iter().filter(|rule| rule["action"] == "FailJob").collect();
    assert_eq!((fails.len(), &fails[0]["onExitCodes"]["values"]), (1, &json!([2])));
    assert_eq!(rules[0]["onPodConditions"][0]["type"], "DisruptionTarget");
    // The job controller's pauses: from 10 s, doubled, to 6 min in older clusters, 10 in newer ones.
    let tries = u32::try_from(job["backoffLimit"].as_u64().unwrap()).unwrap();
    let pauses = |most: u64| (0..tries).map(|n| (10 << n.min(10)).min(most)).sum::<u64>();
    let deadline = job["activeDeadlineSeconds"].as_u64().unwrap();
    assert!(pauses(360) > 3600 && pauses(600) < deadline && deadline < 6 * 3600);
}

#[test]
fn the_cronjob_leans_on_nothing_in_the_cluster_and_cannot_run_as_it_stands() {
    let cron = &cronjob()["spec"];
    assert_eq!(cron["concurrencyPolicy"], "Forbid");
    let pod = &cron["jobTemplate"]["spec"]["template"]["spec"];
    let wanted = json!([true, "Default", false, false, "Never"]);
    let words = [
        "hostNetwork",
        "dnsPolicy",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "restartPolicy",
    ];
    assert_eq!(Value::from(words.map(|word| pod[word].clone()).to_vec()), wanted);
    let container = &pod["containers"][0];
    assert!(container["image"].as_str().unwrap().ends_with("@sha256:FILL-IN"), "{container}");
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let mounts = container["volumeMounts"].as_array().unwrap();
    let volumes = pod["volumes"].as_array().unwrap();
    let names = |list: &[Value]| list.iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(mounts), names(volumes));
    assert!(mounts.iter().all(|mount| mount["readOnly"] == true), "{mounts:?}");
}

#[test]
fn the_image_is_of_the_program_that_a_release_makes() {
    let file = template("Containerfile");
    let line = |word: &str| file.lines().find_map(|l| l.strip_prefix(word)).unwrap().trim();
    assert_eq!(line("FROM"), "scratch");
    let copy: Vec<&str> = line("COPY --chmod=0755").split_whitespace().collect();
    assert_eq!(copy, ["capvco-backup_linux_amd64", "/usr/local/bin/capvco-backup"]);
    assert_eq!(line("ENV"), "PATH=/usr/local/bin");
    let makes = fs::read_to_string(root().join("scripts/release-binaries")).unwrap();
    assert!(makes.contains("platform=linux_amd64") && makes.contains("${program}_$platform"));
}

#[test]
fn a_unit_may_write_where_the_settings_say_and_the_pruner_has_a_key_of_its_own() {
    let age = template("capvco-backup-age.service");
    let folder = setting(&age, "ReadWritePaths").remove(0);
    let folder = folder.trim_start_matches('-');
    let env = template("env");
    let file = env.lines().find_map(|l| l.strip_prefix("#CAPVCO_BACKUP_TEXTFILE=")).unwrap();
    assert!(file.strip_prefix(folder) == Some("/capvco-backup.prom"), "{file}");
    let prune = template("capvco-backup-prune.service");
    assert_eq!(setting(&prune, "EnvironmentFile"), ["/etc/capvco-backup/prune.env"]);
    let page = fs::read_to_string(root().join("docs/how-to/back-up-a-control-plane.md")).unwrap();
    let command = setting(&prune, "ExecStart").remove(0).replace("/usr/local/bin/", "");
    assert!(page.contains(&command), "the how-to shows {command}");
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
    let mut known = flags_of(&["snapshot"]).await;
    known.extend(flags_of(&["status"]).await);
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
