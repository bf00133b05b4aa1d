//! Credentials in the life of a cluster: wrong at first, rotated, and gone when it is to go.

use serde_json::{Value, json};

use super::stage::{CREDENTIALS, Stage, Wish, condition, reason};
use crate::support::together;

/// A token of the cloud that is good for a day.
fn token(stage: &Stage) -> String {
    stage.sim.mint_token(stage.sim.unix() + 86_400.0, false)
}

/// Removes the Secret, though it is held, as who does not know what he does.
async fn remove_secret(stage: &Stage) {
    stage.api("Secret").delete(CREDENTIALS, &kube::api::DeleteParams::default()).await.unwrap();
    let held = stage.get("Secret", CREDENTIALS).await;
    assert!(!held.is_null(), "it is held while the cluster needs it");
    stage.patch("Secret", CREDENTIALS, json!({"metadata": {"finalizers": null}})).await;
    assert!(stage.get("Secret", CREDENTIALS).await.is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_wrong_at_first_then_rotated_and_gone_when_the_cluster_is_to_go() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-credentials").await;
    let wrong = token(&stage);
    stage.sim.revoke(&wrong);
    stage.put_token(&wrong);
    stage.apply("s", Wish::default());
    stage
        .until("the Cluster says that they are refused", async |stage| {
            let cluster = stage.get("Cluster", "s").await;
            let kind = "InfrastructureReady";
            condition(&cluster, kind) == "False" && reason(&cluster, kind) == "CredentialsRefused"
        })
        .await;
    assert!(stage.sim.world(|world| world.cloudspaces.is_empty()));
    let first = token(&stage);
    stage.put_token(&first);
    stage.is_available("s", 2).await;

    stage.put_token(&token(&stage));
    stage.sim.revoke(&first);
    stage.patch("MachineDeployment", "s-workers", json!({"spec": {"replicas": 2}})).await;
    stage.is_available("s", 3).await;
    stage.runs_as_nodes("s").await;

    remove_secret(&stage).await;
    stage.begin_to_delete("s").await;
    let blocked = |one: &Value| reason(one, "Deleting") == "DeletionBlocked";
    stage
        .until("a machine says that it waits for them", async |stage| {
            stage.all("VCOMachine").await.iter().any(blocked)
        })
        .await;
    assert_eq!(stage.sim.world(|world| world.cloudspaces[0].vms.len()), 3, "none is given up");
    stage.put_token(&token(&stage));
    stage.is_gone("s").await;
    stage.nothing_left().await;
    let secret = stage.get("Secret", CREDENTIALS).await;
    assert!(secret["metadata"]["finalizers"].is_null(), "nobody holds it any more: {secret}");
}
