//! The manager as a process: who leads, what it answers, what it leaves alone, how it ends.

use std::process::Command;
use std::time::{Duration, Instant};

use capvco::sim::World;
use serde_json::{Value, json};

use super::stage::{Manager, Stage, is_provisioned};
use crate::support::peers::port;
use crate::support::program::capvco;

const LEASE: &str = "capvco-manager";

struct Running {
    manager: Manager,
    health: u16,
    metrics: u16,
}

/// A manager that takes turns with others.
fn candidate(stage: &Stage) -> Running {
    let (health, metrics) = (port(), port());
    let flags = format!(
        "-vv --leader-elect --leader-elect-namespace {} --leader-elect-lease-duration 6s \
         --leader-elect-renew-deadline 4s --leader-elect-retry-period 500ms \
         --health-addr 127.0.0.1:{health} --diagnostics-address 127.0.0.1:{metrics} \
         --insecure-diagnostics",
        stage.namespace
    );
    Running { manager: stage.another(&flags), health, metrics }
}

async fn answer(port: u16, path: &str) -> Option<(u16, String)> {
    let answer = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.unwrap()))
}

async fn until_ready(manager: &Running) {
    let begun = Instant::now();
    while answer(manager.health, "/readyz").await.is_none_or(|(status, _)| status != 200) {
        assert!(begun.elapsed() < Duration::from_mins(1), "never ready");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn metrics(manager: &Running) -> String {
    answer(manager.metrics, "/metrics").await.unwrap().1
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn wrong_settings_are_told_before_anything_is_asked() {
    for (flag, value, text) in [
        ("--concurrency", "0", "1..=1000"),
        ("--portal-url", "portal.example.com", "has no scheme"),
        ("--portal-url", "http://portal.example.com", "a token travels over https only"),
        ("--iam-refresh-url", "https://iam.example.com/?x", "holds a query"),
        ("--ca-file", "/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("--namespace", "a_b", "small letters"),
        ("--leader-elect-namespace", "Capvco", "small letters"),
        ("--watch-filter", "a=b", "a label's value"),
        ("--health-addr", "localhost:1", "ADDRESS:PORT"),
        ("--kubeconfig", "/nowhere/kubeconfig", "/nowhere/kubeconfig"),
    ] {
        let manager = capvco().words("manager --kubeconfig /nowhere").arg(flag).arg(value);
        let manager = if flag == "--kubeconfig" {
            capvco().words("manager").arg(flag).arg(value)
        } else {
            manager
        };
        let done = manager.run().await.expect(2).says(text);
        assert_eq!((done.out.as_str(), done.err.matches("error:").count()), ("", 1), "{flag}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_manager_works_and_another_takes_over() {
    let stage = Stage::idle("manager-leads", World::small()).await;
    let first = candidate(&stage);
    let lease = stage.until("Lease", LEASE, |lease| !holder(lease).is_empty()).await;
    let second = candidate(&stage);
    for manager in [&first, &second] {
        until_ready(manager).await;
        assert_eq!(answer(manager.health, "/healthz").await.unwrap().0, 200);
    }
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    let (leads, waits) = (metrics(&first).await, metrics(&second).await);
    for (text, leads) in [(&leads, 1), (&waits, 0)] {
        assert!(text.contains(&format!("leader_election_master_status {leads}")), "{text}");
    }
    for name in [
        r#"controller_runtime_reconcile_total{controller="vcocluster",result="success"}"#,
        "controller_runtime_reconcile_time_seconds_bucket",
        "controller_runtime_active_workers",
        r#"workqueue_depth{name="vcocluster"}"#,
        "capvco_vco_requests_total",
        "capvco_vco_request_duration_seconds_bucket",
        "capvco_vco_limiter_wait_seconds_bucket",
        "capvco_machines_created_total",
        "capvco_credential_expiry_timestamp_seconds",
    ] {
        assert!(leads.contains(name), "{name}\n{leads}");
    }
    assert!(!waits.contains("capvco_vco_requests_total{"), "who waits calls nobody");

    drop(first);
    let next = |now: &Value| !holder(now).is_empty() && holder(now) != holder(&lease);
    stage.until("Lease", LEASE, next).await;
    stage.cluster("d", json!({})).await;
    stage.provisioned("d").await;

    let begun = Instant::now();
    let pid = second.manager.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut second = second;
    let ended =
        tokio::task::spawn_blocking(move || second.manager.0.wait().unwrap()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(ended.success(), "{ended}");
    assert_eq!(holder(&stage.get("Lease", LEASE).await), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_it_was_told_to_look_after_is_touched() {
    let mut stage = Stage::idle("manager-filter", World::small()).await;
    let other = stage.beside();
    stage.start_with("--diagnostics-address= -vv --watch-filter blue");
    let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
    stage.cluster("green", json!({})).await;
    other.cluster("c", json!({})).await;
    other.patch("VCOCluster", "c", label.clone()).await;
    stage.cluster("c", json!({})).await;
    stage.patch("VCOCluster", "c", label).await;
    stage.provisioned("c").await;
    for (stage, name) in [(&stage, "green"), (&other, "c")] {
        let object = stage.get("VCOCluster", name).await;
        assert!(object["status"].is_null() && object["metadata"]["finalizers"].is_null());
    }
    // The Cluster has no such label, and its pause counts all the same.
    stage.patch("Cluster", "c", json!({"spec": {"paused": true}})).await;
    stage.until_said("VCOCluster", "c", ("Paused", "True", "Paused")).await;
    stage.patch("Cluster", "c", json!({"spec": {"paused": false}})).await;
    stage.all_gone("c", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_rests() {
    let stage = Stage::idle("manager-rests", World::small()).await;
    let _manager = stage.another("--diagnostics-address= -vv");
    stage.small(json!({})).await;
    let member = |cluster: &Value| cluster["status"]["network"]["members"][0].is_string();
    stage.until("VCOCluster", "c", member).await;
    stage.until_said("VCOMachine", "c-1", ("LoadBalancerMember", "True", "Member")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut versions = Vec::new();
    for _ in 0..2 {
        let mut now = Vec::new();
        for (kind, name) in [("VCOCluster", "c"), ("VCOMachine", "c-1"), ("Secret", "credentials")]
        {
            let object = stage.get(kind, name).await;
            now.push(object["metadata"]["resourceVersion"].clone());
        }
        let exchanges = stage.sim.journal().len();
        versions.push((now, exchanges));
        if versions.len() == 1 {
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
    }
    assert_eq!(versions[0].0, versions[1].0);
    let calls = versions[1].1 - versions[0].1;
    assert!(
        calls <= 1,
        "{calls} calls in 20 s: {:#?}",
        stage.sim.journal().iter().rev().take(calls).map(|one| &one.operation).collect::<Vec<_>>()
    );
    assert!(is_provisioned(&stage.get("VCOCluster", "c").await));
    stage.all_gone("c", &["c-1"]).await;
}
