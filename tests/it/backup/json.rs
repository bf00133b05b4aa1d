//! The reference page of JSON says what every verb prints: each field, and no other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::snapshot::{Desk, row};
use crate::support::peers::etcd::{Etcd, tool_name};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;
use crate::support::peers::tool;
use crate::support::program::backup_at;
use crate::support::rust_text::root;

/// The fields that the page tells of a verb.
fn told(verb: &str) -> BTreeSet<String> {
    let page = std::fs::read_to_string(root().join("docs/reference/backup-json.md")).unwrap();
    let of_verb = page.split("\n## ").find(|part| part.lines().next() == Some(verb));
    let rows = of_verb.unwrap_or_else(|| panic!("{verb} is not on the page")).lines();
    let names = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    names.map(str::to_owned).collect()
}

/// The fields of a row, those of objects in it after their own name and a dot.
fn fields(value: &Value, above: &str, found: &mut BTreeSet<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = format!("{above}{name}");
        let inner = value.as_array().map_or_else(|| vec![value], |all| all.iter().collect());
        for value in inner {
            fields(value, &format!("{name}."), found);
        }
        found.insert(name);
    }
}

/// What has one form wherever it stands.
fn well_formed(name: &str, value: &Value) -> bool {
    let Some(text) = value.as_str() else { return true };
    match name {
        "cluster" => text.len() == 16 && text.chars().all(|c| c.is_ascii_hexdigit()),
        "taken" | "lockedUntil" => text.len() == 20 && text.parse::<jiff::Timestamp>().is_ok(),
        _ => true,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_every_verb_is_described_and_no_other() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start_line("3.6"));
    etcd.fill(20, 200, Values::Compressible);
    let made = row(&desk.snapshot(&etcd, &s3).run().await.expect(0));
    let name = made["backup"].as_str().unwrap();
    let etcd_binary = tool(&tool_name("etcd", "3.6"));
    let run = |words: String| {
        let program = backup_at(&s3).env("CAPVCO_BACKUP_IDENTITY", desk.path("one.txt"));
        let program = program.env("CAPVCO_BACKUP_ETCD", &etcd_binary);
        program.env("CAPVCO_BACKUP_RECIPIENT", desk.recipients.join(",")).words(&words)
    };
    let data_dir = desk.path("etcd");
    for (verb, words) in [
        ("bucket create", "--dry-run --default-lock none".to_owned()),
        ("check", format!("--endpoints {}", etcd.endpoint())),
        ("snapshot", format!("--endpoints {}", etcd.endpoint())),
        ("list", String::new()),
        ("status", String::new()),
        ("verify", "--quick".to_owned()),
        ("hold", format!("add {name}")),
        ("prune", "--keep-last 1".to_owned()),
        ("rekey", format!("--dry-run {name}")),
        ("restore", format!("--data-dir {}", data_dir.display())),
        ("drill", String::new()),
    ] {
        let done = run(format!("{verb} {words} --output json")).run().await.expect(0);
        let mut found = BTreeSet::new();
        for row in done.json()["results"].as_array().unwrap() {
            fields(row, "", &mut found);
            for (name, value) in row.as_object().unwrap() {
                assert!(well_formed(name, value), "{verb}: {name}: {value}");
            }
        }
        assert_eq!(told(verb), found, "{verb}: what the page tells, and what is printed");
    }
}
