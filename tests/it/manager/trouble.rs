//! Things that are gone when they are needed: objects, credentials, the API server.

use std::time::Duration;

use capvco::sim::World;
use serde_json::{Value, json};

use super::kubewire::KubeWire;
use super::stage::{Manager, Stage, condition};

/// What an object says of itself.
fn conditions(object: &Value) -> Value {
    object["status"]["conditions"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_needs_nobody_who_may_be_gone_before() {
    let stage = Stage::new("manager-orphans", World::small()).await;
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    let disks = json!({"dataDisks": [{"name": "etcd", "sizeGiB": 5}]});
    stage.machine("c", "c-1", true, disks).await;
    stage.running("c-1").await;
    // As when a namespace is deleted: bootstrap data, Machine and Cluster go first.
    for (kind, name) in [("Secret", "c-1"), ("Machine", "c-1"), ("Cluster", "c")] {
        stage.delete(kind, name).await;
        stage.until_gone(kind, name).await;
    }
    for (kind, name) in [("VCOCluster", "c"), ("VCOMachine", "c-1")] {
        stage.delete(kind, name).await;
    }
    for (kind, name) in [("VCOMachine", "c-1"), ("VCOCluster", "c")] {
        stage.until_gone(kind, name).await;
    }
    stage.all_as_before();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_deleted_without_credentials_waits_for_them() {
    let stage = Stage::new("manager-no-secret", World::small()).await;
    stage.small(json!({})).await;
    stage.delete("Secret", "credentials").await;
    stage.patch("Secret", "credentials", json!({"metadata": {"finalizers": null}})).await;
    stage.until_gone("Secret", "credentials").await;
    stage.delete("VCOMachine", "c-1").await;
    let what = ("Deleting", "True", "DeletionBlocked");
    let said = stage.until_said("VCOMachine", "c-1", what).await;
    assert!(conditions(&said).to_string().contains("SecretNotFound"));
    stage.put_secret("credentials", &stage.sim.token());
    stage.until_gone("VCOMachine", "c-1").await;
    stage.delete("VCOCluster", "c").await;
    stage.until_gone("VCOCluster", "c").await;
    stage.all_as_before();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_is_told_of_days_ahead() {
    let stage = Stage::new("manager-ends", World::small()).await;
    let days = |days: f64| stage.sim.mint_token(stage.sim.unix() + days * 86_400.0, false);
    stage.put_secret("credentials", &days(30.0));
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    let ends = || async { stage.events("c").await.contains(&"CredentialsExpire".to_owned()) };
    assert!(!ends().await);
    stage.put_secret("credentials", &days(5.0));
    let begun = std::time::Instant::now();
    while !ends().await {
        assert!(begun.elapsed() < stage.patience, "nobody was told");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let cluster = stage.get("VCOCluster", "c").await;
    assert_eq!(condition(&cluster, "CredentialsValid").0, "True");
    stage.all_gone("c", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_renew_the_lease_stops_before_it_can_be_taken() {
    let stage = Stage::idle("manager-cut-off", World::small()).await;
    let wire = KubeWire::new(stage.plane).await;
    let flags = format!(
        "--diagnostics-address= --leader-elect --leader-elect-namespace {} \
         --leader-elect-lease-duration 9s --leader-elect-renew-deadline 5s \
         --leader-elect-retry-period 500ms",
        stage.namespace
    );
    let said = std::sync::Arc::default();
    let mut manager =
        Manager::start(&wire.kubeconfig(), &stage.namespace, &stage.sim, &flags, said);
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    wire.open(false);
    let begun = std::time::Instant::now();
    let ended = loop {
        if let Some(ended) = manager.0.try_wait().unwrap() {
            break ended;
        }
        assert!(begun.elapsed() < Duration::from_secs(9), "it works on without the lease");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(!ended.success(), "{ended}");
    wire.open(true);
    let _next = stage.another("--diagnostics-address=");
    stage.all_gone("c", &[]).await;
}
