//! The reference pages of backups say what the program does.

use std::collections::BTreeSet;

use capvco::snapshot::layout::{Layout, Part};
use capvco::snapshot::manifest::Manifest;
use serde_json::Value;

use crate::support::peers::s3::Versitygw;
use crate::support::program::backup_at;
use crate::support::rust_text::root;
use crate::support::stored::{Backup, Shelf};

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// All words that begin as our metrics do.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("capvco_backup_")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_described_and_no_other() {
    let store = Versitygw::start();
    Shelf::of(&store).await.store(&Backup::of("20261130T060000Z")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prom");
    backup_at(&store).words("status --textfile").arg(&path).run().await.expect(0);
    let nobodys = backup_at(&store).words("status --textfile").arg(folder.path().join("x.txt"));
    nobodys.run().await.expect(2).says("end with .prom only");
    let written = metrics(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(metrics(&page("docs/reference/backup-metrics.md")), written);
    let alerts = page("templates/backup/alerts.yaml");
    assert!(metrics(&alerts).is_subset(&written), "{:?}", metrics(&alerts));
    let rules: Value = capvco::yaml::from_str(&alerts, "alerts.yaml").unwrap();
    let described = page("docs/reference/backup-metrics.md");
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        assert!(described.contains(&format!("`{name}`")), "{name} is not described");
        assert!(rule["expr"].is_string() && rule["annotations"]["summary"].is_string(), "{name}");
    }
}

#[test]
fn the_manifest_that_is_shown_is_one() {
    let page = page("docs/reference/manifest.md");
    let sample = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let manifest = Manifest::parse(sample.as_bytes()).unwrap();
    let address = Layout::new("etcd").parse(&manifest.data.key).unwrap();
    assert_eq!((address.cluster, &address.slot), (manifest.cluster, &manifest.slot));
    assert!(matches!(address.part, Part::Data(stored) if stored.packed && stored.sealed));
    let shown: Value = serde_json::from_str(sample).unwrap();
    let written: Value = serde_json::from_slice(&manifest.to_json()).unwrap();
    assert_eq!(shown, written, "the page shows every field that is written");
    for field in shown.as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{field}")), "{field} is not described");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_as_the_page_of_the_layout_has_them() {
    let page = page("docs/reference/backup-layout.md");
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup { pki: true, ..Backup::of("20261130T060000Z") }).await;
    for version in shelf.bucket.versions("etcd/").await.unwrap() {
        let name = version.key.rsplit('/').next().unwrap();
        let (kind, ending) = name.split_once(['-', '.']).unwrap();
        let ending = ending.split_once('.').map_or(ending, |(_, ending)| ending);
        let shown = page.lines().any(|line| {
            line.starts_with("{prefix}{cluster}/{slot}/") && line.contains(&format!("/{kind}"))
        });
        assert!(shown, "{name} is not shown ({ending})");
    }
    for state in ["good", "hidden", "covered", "damaged", "unfinished"] {
        assert!(page.contains(&format!("| `{state}` |")), "{state} is not described");
    }
}
