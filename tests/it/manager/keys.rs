//! Credentials: missing, wrong, rotated, refreshed, taken away too early.

use capvco::sim::World;
use capvco::sim::world::Customer;
use serde_json::{Value, json};

use super::stage::{AT, Stage, condition};

fn held(secret: &Value) -> bool {
    secret["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

fn with(secret: &str) -> Value {
    json!({"credentialSecretRef": {"name": secret}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_comes_late_is_waited_for() {
    let stage = Stage::new("manager-late-secret", World::small()).await;
    stage.cluster("c", with("late")).await;
    let what = ("CredentialsValid", "False", "SecretNotFound");
    let said = stage.until_said("VCOCluster", "c", what).await;
    assert_eq!(condition(&said, "Ready"), ("False", "SecretNotFound"));
    assert!(said["metadata"]["finalizers"].is_null());
    stage.put_secret("late", &stage.sim.token());
    let cluster = stage.provisioned("c").await;
    assert_eq!(condition(&cluster, "CredentialsValid").0, "True");
    let secret = stage.until("Secret", "late", held).await;
    assert_eq!(secret["metadata"]["labels"]["clusterctl.cluster.x-k8s.io/move"], "");
    stage.all_gone("c", &[]).await;
    assert!(!held(&stage.get("Secret", "late").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_held_for_a_token_that_is_refused() {
    let stage = Stage::new("manager-wrong-token", World::small()).await;
    let bad = stage.sim.mint_token(stage.sim.unix() + 3600.0, false);
    stage.sim.revoke(&bad);
    stage.put_secret("bad", &bad);
    for name in ["c", "d"] {
        stage.cluster(name, with("bad")).await;
        let what = ("CredentialsValid", "False", "CredentialsRefused");
        stage.until_said("VCOCluster", name, what).await;
    }
    stage.delete("VCOCluster", "d").await;
    stage.until_gone("VCOCluster", "d").await;
    stage.put_secret("bad", &stage.sim.token());
    stage.provisioned("c").await;
    stage.all_gone("c", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_deleted_first_is_kept_until_all_is_gone() {
    let stage = Stage::new("manager-secret-first", World::small()).await;
    stage.small(json!({})).await;
    stage.delete("Secret", "credentials").await;
    let going = |secret: &Value| !secret["metadata"]["deletionTimestamp"].is_null();
    assert!(going(&stage.get("Secret", "credentials").await));
    stage.all_gone("c", &["c-1"]).await;
    stage.until_gone("Secret", "credentials").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_used_at_once() {
    let stage = Stage::new("manager-rotated", World::small()).await;
    let first = stage.sim.mint_token(stage.sim.unix() + 86_400.0, false);
    stage.put_secret("credentials", &first);
    stage.small(json!({})).await;
    let next = stage.sim.mint_token(stage.sim.unix() + 86_400.0, false);
    stage.put_secret("credentials", &next);
    stage.sim.revoke(&first);
    stage.machine("c", "c-2", true, json!({})).await;
    stage.running("c-2").await;
    stage.all_gone("c", &["c-1", "c-2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refreshed_token_outlives_the_manager() {
    let mut stage = Stage::idle("manager-refreshed", World::small()).await;
    // Good for a moment: it is renewed before it is used.
    let given = stage.sim.mint_token(stage.sim.unix() + 20.0, true);
    stage.put_secret("credentials", &given);
    stage.start();
    stage.small(json!({})).await;
    let kept = stage.until("Secret", "credentials-capvco-token", |kept| !kept.is_null()).await;
    assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "credentials");
    let user = stage.get("Secret", "credentials").await;
    assert_ne!(kept["data"]["token"], user["data"]["token"]);

    stage.kill();
    stage.sim.revoke(&given);
    stage.start();
    stage.machine("c", "c-2", true, json!({})).await;
    stage.running("c-2").await;
    assert_eq!(stage.get("Secret", "credentials").await["data"], user["data"]);
    stage.all_gone("c", &["c-1", "c-2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_deleted_waits_says_so_and_can_be_abandoned() {
    let stage = Stage::new("manager-abandon", World::small()).await;
    let vm = stage.small(json!({})).await;
    let space = stage.space("c").await;
    stage.sim.revoke(&stage.sim.token());
    for (kind, name) in [("VCOMachine", "c-1"), ("VCOCluster", "c")] {
        stage.delete(kind, name).await;
        let what = ("Deleting", "True", "DeletionBlocked");
        let said = stage.until_said(kind, name, what).await;
        assert_eq!(condition(&said, "Ready"), ("False", "DeletionBlocked"));
        assert!(said["status"]["conditions"].to_string().contains("CredentialsRefused"));
        let abandon = "vco.infrastructure.cluster.x-k8s.io/abandon";
        stage.annotate(kind, name, abandon, json!("true")).await;
        stage.until_gone(kind, name).await;
        assert!(stage.events(name).await.contains(&"Abandoned".to_owned()));
    }
    let left = stage.sim.world(|world| world.cloudspace(&space).unwrap().vm(vm).cloned());
    assert_eq!(left.unwrap().status, "RUNNING");
    assert!(!held(&stage.get("Secret", "credentials").await), "{AT}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_shows_at_once_on_a_cluster_that_is_ready() {
    let mut stage = Stage::idle("manager-refused-later", World::small()).await;
    // Long after this test the cluster would be looked at again.
    let _manager = stage.another("--diagnostics-address= -vv");
    stage.small(json!({})).await;
    stage.sim.revoke(&stage.sim.token());
    stage.machine("c", "c-2", true, json!({})).await;
    let what = ("CredentialsValid", "False", "CredentialsRefused");
    let said = stage.until_said("VCOCluster", "c", what).await;
    assert_eq!(condition(&said, "Ready"), ("True", "Ready"));
    let fresh = stage.sim.mint_token(stage.sim.unix() + 86_400.0, false);
    stage.put_secret("credentials", &fresh);
    stage.until_said("VCOCluster", "c", ("CredentialsValid", "True", "CredentialsAccepted")).await;
    stage.running("c-2").await;
    stage.patience = std::time::Duration::from_mins(2);
    stage.all_gone("c", &["c-1", "c-2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_denied_shows_until_it_is_allowed() {
    let stage = Stage::idle("manager-denied", World::small()).await;
    let _manager = stage.another("--diagnostics-address= -vv");
    stage.small(json!({})).await;
    stage.sim.fault("createVirtualMachine=403*inf".parse().unwrap());
    stage.machine("c", "c-2", true, json!({})).await;
    let what = ("CredentialsValid", "False", "AccessDenied");
    let said = stage.until_said("VCOCluster", "c", what).await;
    assert_eq!(condition(&said, "Ready"), ("True", "Ready"));
    assert!(said["status"]["conditions"].to_string().contains("create the VM"));
    stage.until_said("VCOMachine", "c-2", ("Ready", "False", "AccessDenied")).await;
    stage.sim.no_faults();
    stage.running("c-2").await;
    stage.until_said("VCOCluster", "c", ("CredentialsValid", "True", "CredentialsAccepted")).await;
    stage.all_gone("c", &["c-1", "c-2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_names_another_secret_lets_the_first_one_go() {
    let mut stage = Stage::new("manager-other-secret", World::small()).await;
    stage.small(json!({})).await;
    stage.until("Secret", "credentials", held).await;
    stage.put_secret("second", &stage.sim.token());
    let change = |name: &str| json!({"spec": {"credentialSecretRef": {"name": name}}});
    stage.patch("VCOCluster", "c", change("second")).await;
    stage.until("Secret", "second", held).await;
    stage.until("Secret", "credentials", |secret| !held(secret)).await;
    // Whoever takes over does not know which one was held before.
    stage.kill();
    stage.patch("VCOCluster", "c", change("credentials")).await;
    stage.start();
    stage.until("Secret", "credentials", held).await;
    stage.until("Secret", "second", |secret| !held(secret)).await;
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_given_up_goes_while_the_cloud_is_out_of_reach() {
    let stage = Stage::new("manager-given-up", World::small()).await;
    stage.small(json!({})).await;
    stage.sim.fault("*=503*inf".parse().unwrap());
    for (kind, name) in [("VCOMachine", "c-1"), ("VCOCluster", "c")] {
        stage.delete(kind, name).await;
        let said = stage.until_said(kind, name, ("Deleting", "True", "CloudUnreachable")).await;
        assert!(said["status"]["conditions"].to_string().contains("/abandon"), "the way out");
        let abandon = "vco.infrastructure.cluster.x-k8s.io/abandon";
        stage.annotate(kind, name, abandon, json!("true")).await;
        stage.until_gone(kind, name).await;
        assert!(stage.events(name).await.contains(&"Abandoned".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_that_cannot_be_is_not_another_one() {
    let stage = Stage::new("manager-no-customer", World::small()).await;
    let secret = json!({"stringData": {"customerId": "x/../y"}});
    stage.patch("Secret", "credentials", secret).await;
    stage.cluster("c", json!({})).await;
    let what = ("CredentialsValid", "False", "SecretIncomplete");
    let said = stage.until_said("VCOCluster", "c", what).await;
    assert!(said["status"]["conditions"].to_string().contains("customerId"));
    assert!(stage.sim.world(|world| world.cloudspaces.is_empty()), "nothing is made elsewhere");
    stage.patch("Secret", "credentials", json!({"data": {"customerId": null}})).await;
    stage.provisioned("c").await;
    stage.all_gone("c", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_another_customers_credentials_nothing_is_lost() {
    let mut world = World::small();
    world.customers.push(Customer { customer_id: "beta_1".into(), name: "Beta".into() });
    let mut stage = Stage::new("manager-other-customer", world).await;
    let customer = |id: Value| json!({"stringData": {"customerId": id}});
    stage.patch("Secret", "credentials", customer(json!("acme_1"))).await;
    stage.small(json!({})).await;
    stage.patch("Secret", "credentials", customer(json!("beta_1"))).await;
    let what = ("CredentialsValid", "False", "CustomerChanged");
    let said = stage.until_said("VCOCluster", "c", what).await;
    assert!(said["status"]["conditions"].to_string().contains("was made for customer acme_1"));
    for (kind, name) in [("VCOMachine", "c-1"), ("VCOCluster", "c")] {
        stage.delete(kind, name).await;
    }
    // Nothing is let go because nothing of it is seen.
    let what = ("Deleting", "True", "DeletionBlocked");
    let said = stage.until_said("VCOMachine", "c-1", what).await;
    assert!(said["status"]["conditions"].to_string().contains("CustomerChanged"));
    stage.patch("Secret", "credentials", customer(json!("acme_1"))).await;
    stage.patience = std::time::Duration::from_mins(2);
    stage.until_gone("VCOMachine", "c-1").await;
    stage.until_gone("VCOCluster", "c").await;
    stage.all_as_before();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_token_is_one_question_to_the_cloud_whoever_comes_with_it() {
    let mut stage = Stage::new("manager-one-question", World::small()).await;
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    stage.sim.revoke(&stage.sim.token());
    stage.kill();
    let before = stage.calls("getCurrentUserInfo");
    let names: Vec<_> = (1..=12).map(|number| format!("c-{number}")).collect();
    for name in &names {
        stage.machine("c", name, false, json!({})).await;
    }
    stage.start();
    for name in &names {
        stage.until_said("VCOMachine", name, ("Ready", "False", "CredentialsRefused")).await;
    }
    let asked = stage.calls("getCurrentUserInfo") - before;
    // The token itself, and where tokens are renewed.
    assert!(asked <= 2, "{asked} times for 13 objects");
    stage.put_secret("credentials", &stage.sim.mint_token(stage.sim.unix() + 86_400.0, false));
    stage.patience = std::time::Duration::from_mins(2);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    stage.all_gone("c", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_asks_to_be_left_alone_for_an_hour_stops_nobody_who_gives_up() {
    let stage = Stage::new("manager-left-alone", World::small()).await;
    stage.small(json!({})).await;
    stage.sim.fault("listCloudspaceVirtualMachines=429:3600".parse().unwrap());
    for (kind, name) in [("VCOMachine", "c-1"), ("VCOCluster", "c")] {
        stage.delete(kind, name).await;
        stage.until_said(kind, name, ("Deleting", "True", "RateLimited")).await;
        let abandon = "vco.infrastructure.cluster.x-k8s.io/abandon";
        stage.annotate(kind, name, abandon, json!("true")).await;
        stage.until_gone(kind, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_location_that_is_none_is_named_and_concerns_nobody_else() {
    let stage = Stage::new("manager-no-location", World::small()).await;
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    stage.cluster("d", json!({"location": "be-nowhere-1"})).await;
    let what = ("CloudspaceReady", "False", "LocationNotFound");
    let said = stage.until_said("VCOCluster", "d", what).await;
    let text = said["status"]["conditions"].to_string();
    assert!(text.contains("has no location be-nowhere-1") && text.contains(AT), "{text}");
    stage.annotate("VCOCluster", "c", "look", json!("again")).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let other = stage.get("VCOCluster", "c").await;
    assert_eq!(condition(&other, "CredentialsValid"), ("True", "CredentialsAccepted"));
    stage.delete("VCOCluster", "d").await;
    stage.until_gone("VCOCluster", "d").await;
    stage.all_gone("c", &[]).await;
}
