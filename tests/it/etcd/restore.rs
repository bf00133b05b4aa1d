//! A native restore and etcdutl's of the same snapshot are the same cluster.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capvco::etcd::Version;
use capvco::etcd::db::Db;
use capvco::etcd::restore::{Plan, Restored, prepare, write};
use tempfile::TempDir;

use super::figures::snapshot;
use crate::support::bolt::{self, Layout, Rows};
use crate::support::peers::etcd::{Builder, Cluster, Etcd, LINES, etcdutl, initial_cluster};
use crate::support::peers::fill::Values;
use crate::support::peers::tls::Tls;

const BUMP: u64 = 1_000_000_000;

/// A snapshot of this line: some keys, some of them deleted, some history compacted.
fn taken(line: &str) -> (TempDir, PathBuf) {
    let etcd = Etcd::start_line(line);
    let revision = etcd.fill(1500, 700, Values::Random);
    etcd.etcdctl(&["del", "--prefix", "/registry/pods/default/pod-00003"]);
    etcd.etcdctl(&["compaction", "--physical", &(revision - 1).to_string()]);
    etcd.etcdctl(&["put", "/after", "compaction"]);
    etcd.etcdctl(&["lease", "grant", "3600"]);
    snapshot(&etcd)
}

/// The new cluster as our engine is told of it.
fn plan(members: &[Builder], at: usize, bump: bool, target: Option<&str>) -> Plan {
    let cluster = initial_cluster(members);
    let pairs = cluster.split(',').map(|pair| pair.split_once('=').unwrap());
    Plan {
        name: format!("m{at}"),
        initial_cluster: pairs.map(|(name, url)| (name.to_owned(), url.to_owned())).collect(),
        advertise_peer_urls: vec![members[at].peer_url()],
        token: "a-fresh-token".to_owned(),
        bump: bump.then_some(BUMP),
        mark_compacted: bump,
        target_version: target.map(|line| line.parse::<Version>().unwrap()),
        force: false,
    }
}

/// Our engine: a copy without the trailer, its figures, the plan, the data directory.
pub fn native(snapshot: &Path, plan: &Plan, data_dir: &Path) -> Restored {
    std::fs::DirBuilder::new().mode(0o700).create(data_dir).unwrap();
    let staged = data_dir.join("staged");
    std::fs::copy(snapshot, &staged).unwrap();
    let found = Db::open(&staged).unwrap().summary().unwrap();
    let prepared = prepare(plan, &found).unwrap();
    write(&prepared, &staged, &data_dir.join("member")).unwrap()
}

/// etcd's own engine.
fn theirs(line: &str, snapshot: &Path, plan: &Plan, data_dir: &Path) {
    let cluster: Vec<String> =
        plan.initial_cluster.iter().map(|(name, url)| format!("{name}={url}")).collect();
    let mut args = vec![
        "snapshot".to_owned(),
        "restore".to_owned(),
        snapshot.to_str().unwrap().to_owned(),
        format!("--name={}", plan.name),
        format!("--initial-cluster={}", cluster.join(",")),
        format!("--initial-cluster-token={}", plan.token),
        format!("--initial-advertise-peer-urls={}", plan.advertise_peer_urls[0]),
        format!("--data-dir={}", data_dir.display()),
    ];
    if let Some(bump) = plan.bump {
        args.extend([format!("--bump-revision={bump}"), "--mark-compacted".to_owned()]);
    }
    etcdutl(line, &args.iter().map(String::as_str).collect::<Vec<_>>());
}

fn members(line: &str, count: usize) -> Vec<Builder> {
    (0..count).map(|at| Etcd::builder().line(line).name(&format!("m{at}"))).collect()
}

/// What must be the same whoever restored.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// Of all key-values and their history.
    hash: u64,
    revision: i64,
    /// How many keys live.
    count: usize,
    /// Whether a key lives that was put after a compaction.
    after: bool,
    /// Whether one lives that was deleted.
    deleted: bool,
    /// All members' and the cluster's.
    ids: String,
}

fn looked_at(etcd: &Etcd) -> Look {
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&etcd.etcdctl(&[args, &["-w", "json"]].concat())).unwrap()
    };
    let hash = json(&["endpoint", "hashkv"])[0]["HashKV"].clone();
    let keys = etcd.etcdctl(&["get", "", "--prefix", "--keys-only"]);
    let list = json(&["member", "list"]);
    let mut ids: Vec<String> =
        list["members"].as_array().unwrap().iter().map(|m| m["ID"].to_string()).collect();
    ids.sort();
    ids.push(list["header"]["cluster_id"].to_string());
    let revision = json(&["endpoint", "status"])[0]["Status"]["header"]["revision"].clone();
    Look {
        hash: hash["hash"].as_u64().unwrap(),
        revision: revision.as_i64().unwrap(),
        count: keys.lines().filter(|line| !line.is_empty()).count(),
        after: keys.contains("/after"),
        deleted: keys.contains("pod-00003"),
        ids: ids.join(" "),
    }
}

/// Starts the members on their data, and looks.
fn start(built: &[Builder], folders: &[PathBuf]) -> Cluster {
    let on = |(member, path): (&Builder, &PathBuf)| member.clone().data_dir(path);
    Cluster::of(built.iter().zip(folders).map(on).collect())
}

/// All members say the same, take a write, and say the same again after a restart.
fn lives(mut cluster: Cluster) -> Look {
    let first = looked_at(&cluster.members[0]);
    for member in &cluster.members {
        assert_eq!(looked_at(member), first, "{}", member.log());
    }
    cluster.members[0].etcdctl(&["put", "/written", "after"]);
    for member in &mut cluster.members {
        member.restart();
        assert_eq!(member.etcdctl(&["get", "/written", "--print-value-only"]).trim(), "after");
        let written: i64 = looked_at(member).revision;
        assert_eq!(written, first.revision + 1);
    }
    first
}

/// Restores `count` members with both engines, starts both, and holds them to each other.
fn same(snapshot: &Path, line: &str, count: usize, bump: bool) {
    let folder = tempfile::tempdir().unwrap();
    let built = members(line, count);
    let case = format!("{count} members of {line}, bump {bump}");
    let dirs = |engine: &str| -> Vec<PathBuf> {
        (0..count).map(|at| folder.path().join(format!("{engine}-{at}"))).collect()
    };
    let ours = dirs("ours");
    for (at, path) in ours.iter().enumerate() {
        let restored = native(snapshot, &plan(&built, at, bump, Some(line)), path);
        assert!(!bump || restored.revision > 1_000_000_000);
    }
    let found = lives(start(&built, &ours));
    assert!(!found.deleted && found.after, "{case}");
    if line == "3.4" {
        return;
    }
    let others = dirs("theirs");
    for (at, path) in others.iter().enumerate() {
        theirs(line, snapshot, &plan(&built, at, bump, None), path);
    }
    assert_eq!(lives(start(&built, &others)), found, "{case}");
}

#[test]
fn of_3_4_on_every_line() {
    let (_folder, path) = taken("3.4");
    for line in ["3.4", "3.5", "3.6", "3.7"] {
        same(&path, line, 1, true);
    }
    same(&path, "3.4", 3, true);
    same(&path, "3.4", 1, false);
}

#[test]
fn of_3_5_on_every_line_from_it_on() {
    let (_folder, path) = taken("3.5");
    for line in ["3.5", "3.6", "3.7"] {
        same(&path, line, 1, true);
    }
    same(&path, "3.5", 1, false);
    same(&path, "3.5", 3, true);
    same(&path, "3.6", 3, false);
}

#[test]
fn of_3_6_on_every_line_from_it_on() {
    let (_folder, path) = taken("3.6");
    for line in ["3.6", "3.7"] {
        same(&path, line, 1, false);
        same(&path, line, 3, true);
    }
    same(&path, "3.6", 3, false);
}

#[test]
fn of_3_7_with_one_member_and_three() {
    let (_folder, path) = taken("3.7");
    for (count, bump) in [(1, true), (1, false), (3, true), (3, false)] {
        same(&path, "3.7", count, bump);
    }
}

#[test]
fn over_tls_among_peers_and_to_clients() {
    let (_folder, path) = taken("3.6");
    let (folder, tls) = (tempfile::tempdir().unwrap(), Arc::new(Tls::new()));
    let built = members("3.6", 3);
    let secure = |text: String| text.replace("http:", "https:");
    let cluster = secure(initial_cluster(&built));
    let mut peers = Vec::new();
    for (at, member) in built.iter().enumerate() {
        let path_of = folder.path().join(format!("m{at}"));
        let mut told = plan(&built, at, true, Some("3.6"));
        told.initial_cluster.iter_mut().for_each(|(_, url)| *url = secure(url.clone()));
        told.advertise_peer_urls = vec![secure(member.peer_url())];
        native(&path, &told, &path_of);
        let url = secure(member.peer_url());
        let mut member = member.clone().data_dir(path_of).client_auth(&tls);
        for (flag, value) in [
            ("listen-peer-urls", url.clone()),
            ("initial-advertise-peer-urls", url),
            ("initial-cluster", cluster.clone()),
            ("peer-cert-file", tls.arg("server.crt")),
            ("peer-key-file", tls.arg("server.key")),
            ("peer-trusted-ca-file", tls.arg("ca.crt")),
            ("peer-client-cert-auth", "true".to_owned()),
            ("experimental-initial-corrupt-check", "true".to_owned()),
        ] {
            member = member.arg(&format!("--{flag}={value}"));
        }
        peers.push(member);
    }
    lives(Cluster::of(peers));
}

#[test]
fn a_member_can_join_what_was_restored() {
    for line in LINES {
        let (_folder, path) = taken(line);
        let folder = tempfile::tempdir().unwrap();
        let built = members(line, 2);
        let alone = plan(&built[..1], 0, true, Some(line));
        native(&path, &alone, &folder.path().join("m0"));
        let first = built[0].clone().data_dir(folder.path().join("m0")).start();
        let peer = format!("--peer-urls={}", built[1].peer_url());
        first.etcdctl(&["member", "add", "m1", &peer]);
        let second = built[1].clone().arg("--initial-cluster-state=existing");
        let second = second.arg(&format!("--initial-cluster={}", initial_cluster(&built))).start();
        assert_eq!(looked_at(&second), looked_at(&first), "{line}");
    }
}

#[test]
fn of_files_that_no_etcd_here_would_make() {
    let value = |at: usize| (at % 7 != 6).then(|| vec![b'x'; at * 61 % 3000]);
    let keys: Vec<String> = (0..3000).map(|at| format!("/k/{}", at % 900)).collect();
    let rows = bolt::history(keys.iter().enumerate().map(|(at, key)| (key.as_str(), value(at))));
    let large = bolt::history([("a", Some(vec![7; 5 << 20])), ("b", Some(vec![8; 3 << 20]))]);
    let plain = Layout::of(4096);
    for (what, layout, rows) in [
        ("64 KiB pages", Layout::of(65536), &rows),
        ("16 KiB pages", Layout::of(16384), &rows),
        (
            "listed free pages, deep trees",
            Layout { fanout: 5, free: 2, freelist: true, ..plain.clone() },
            &rows,
        ),
        (
            "a root of two storeys, no inline bucket",
            Layout { fanout: 3, inline: 0, ..plain.clone() },
            &rows,
        ),
        ("values of megabytes", plain.clone(), &large),
        ("no key at all", plain, &Rows::new()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut buckets = bolt::etcd(rows.clone(), "3.6.0");
        let lease =
            |id: u64| (id.to_be_bytes().to_vec(), vec![8, u8::try_from(id).unwrap(), 16, 100]);
        buckets[6].1 = (1..100).map(lease).collect();
        std::fs::write(&path, layout.write(&buckets)).unwrap();
        let built = members("3.6", 1);
        native(&path, &plan(&built, 0, true, Some("3.6")), &folder.path().join("m0"));
        let found = lives(start(&built, &[folder.path().join("m0")]));
        let expected = Db::open(&path).unwrap().summary().unwrap();
        assert_eq!(found.revision, (expected.revision.max(0)) + 1_000_000_000, "{what}");
        assert_eq!(found.count as u64, expected.live_keys, "{what}");
    }
}

#[test]
fn a_log_and_a_database_of_any_plan_are_read_by_etcdutl() {
    let (_folder, path) = taken("3.6");
    let names = ["m", "cp-1.example", "Küche", "a&b<c>", "0"];
    for round in 0..24_usize {
        let folder = tempfile::tempdir().unwrap();
        let count = 1 + round * 7 % 13;
        let url = |at: usize| match (at + round) % 4 {
            0 => format!("http://10.0.{round}.{at}:2380"),
            1 => format!("https://[fd00::{round}:{at}]:12380"),
            2 => format!("unix://socket-{at}"),
            _ => format!("https://{}.example:{}", "x".repeat(1 + at * 5), 1 + at),
        };
        let name = |at: usize| format!("{}{at}", names[(at + round) % names.len()]);
        let mut cluster: Vec<(String, String)> = (0..count).map(|at| (name(at), url(at))).collect();
        if round % 3 == 0 {
            cluster.push((name(0), "http://second.example:1".to_owned()));
        }
        let plan = Plan {
            name: name(round % count),
            initial_cluster: cluster,
            advertise_peer_urls: Vec::new(),
            token: "t".repeat(round * 3),
            bump: (round % 2 == 0).then_some(1 << (round * 2)),
            mark_compacted: round % 2 == 0,
            target_version: None,
            force: false,
        };
        let data_dir = folder.path().join("data");
        let restored = native(&path, &plan, &data_dir);
        let data_dir = data_dir.to_str().unwrap();
        // It reads the whole log, checksums included, and compares it with the database.
        for line in ["3.6", "3.7"] {
            etcdutl(line, &["migrate", "--data-dir", data_dir, "--target-version", "3.6"]);
        }
        let db = restored.files[0].to_str().unwrap();
        let hash = etcdutl("3.6", &["hashkv", "-w", "json", db]);
        let hash: serde_json::Value = serde_json::from_str(&hash).unwrap();
        assert_eq!(hash["hashRevision"], restored.revision, "{hash}");
    }
}
