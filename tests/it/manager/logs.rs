//! What a manager logs, and how much.

use std::time::Duration;

use capvco::sim::World;
use serde_json::{Value, json};

use super::stage::{CLOUD_CONFIG, Stage, is_provisioned};
use crate::support::peers::port;

/// The lines since `from` as objects: each is one, with time, level and message.
fn lines(stage: &Stage, from: usize) -> Vec<Value> {
    let said = stage.said();
    // The last line may be on its way.
    let whole = said[..=said.rfind('\n').unwrap_or(0)].trim_end();
    let lines = whole.get(from..).unwrap_or_default().lines().filter(|line| !line.is_empty());
    let read = |line: &str| -> Value {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        object["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(object["level"].is_string() && object["message"].is_string(), "{line}");
        object
    };
    lines.map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_json_without_secrets_and_as_much_as_is_asked_for_while_it_runs() {
    let mut stage = Stage::new("manager-logs", World::small()).await;
    stage.kill();
    let from = stage.said().len();
    let port = port();
    stage.start_with(&format!(
        "--logging-format json --v=5 --insecure-diagnostics --diagnostics-address=127.0.0.1:{port}"
    ));
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    stage.machine("c", "c-1", true, json!({})).await;
    stage.until("VCOMachine", "c-1", is_provisioned).await;

    let all = lines(&stage, from);
    let of = |level: &str| all.iter().filter(|line| line["level"] == level).count();
    assert!(of("trace") > 0 && of("debug") > 0, "{all:#?}");
    let made = all.iter().find(|line| line["reason"] == "VMCreated").unwrap();
    let object = format!("{}/c-1", stage.namespace);
    assert_eq!((&made["level"], &made["object"]), (&json!("info"), &json!(object)), "{made}");
    let said = stage.said();
    let token = stage.sim.token();
    let signature = token.rsplit('.').next().unwrap();
    for secret in [signature, "kubeadm init", CLOUD_CONFIG.lines().last().unwrap()] {
        assert!(!said[from..].contains(secret), "{secret} was logged");
    }

    let client = reqwest::Client::new();
    let url = format!("http://127.0.0.1:{port}/log-level");
    let now = client.get(&url).send().await.unwrap().text().await.unwrap();
    assert_eq!(now.trim(), "trace");
    let put = |level: &'static str| client.put(&url).body(level).send();
    assert_eq!(put("loud").await.unwrap().status(), 400);
    assert_eq!(put("warn").await.unwrap().status(), 200);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let quiet_from = stage.said().len();
    // Longer than the time after which every object is looked at again.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(lines(&stage, quiet_from), Vec::<Value>::new());
    assert_eq!(put("debug").await.unwrap().status(), 200);
    tokio::time::sleep(Duration::from_secs(8)).await;
    let loud = lines(&stage, quiet_from);
    assert!(loud.iter().any(|line| line["level"] == "debug"), "{loud:#?}");
    assert!(loud.iter().all(|line| line["level"] != "trace"), "{loud:#?}");
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_being_asked_a_manager_says_in_words_what_it_has_done() {
    let mut stage = Stage::new("manager-words", World::small()).await;
    stage.kill();
    let from = stage.said().len();
    stage.start_with("--diagnostics-address=");
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    stage.all_gone("c", &[]).await;
    let said = stage.said();
    let line = said[from..].lines().find(|line| line.contains("CloudspaceCreated")).unwrap();
    let object = format!("object={}/c", stage.namespace);
    assert!(line.contains("kind=vcocluster") && line.contains(&object), "{line}");
    assert!(!said[from..].contains("GET /api"), "calls are for those who ask: {said}");
}
