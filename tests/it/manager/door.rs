//! Who may read diagnostics.

use capvco::sim::World;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::stage::Stage;
use crate::support::peers::port;

/// A token of a service account.
async fn token(stage: &Stage, name: &str) -> String {
    stage.plane.put(&[json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": stage.namespace},
    })]);
    let api = Api::<ServiceAccount>::namespaced(stage.plane.client(), &stage.namespace);
    let request =
        TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let made = api.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    made.status.and_then(|status| status.token).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn diagnostics_are_for_whom_the_api_server_lets_in() {
    let mut stage = Stage::idle("manager-door", World::small()).await;
    let port = port();
    stage.start_with(&format!("--diagnostics-address 127.0.0.1:{port} -vv"));
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    let reader = format!("metrics-{}", stage.namespace);
    stage.plane.put(&[
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": reader},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": reader},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reader,
            },
            "subjects": [{
                "kind": "ServiceAccount", "name": "reader", "namespace": stage.namespace,
            }],
        }),
    ]);
    let client = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().unwrap();
    let (reader, other) = (token(&stage, "reader").await, token(&stage, "other").await);
    for (path, token, status) in [
        ("metrics", None, 401),
        ("metrics", Some("no.such.token"), 401),
        ("metrics", Some(other.as_str()), 403),
        ("metrics", Some(reader.as_str()), 200),
        ("log-level", Some(reader.as_str()), 403),
    ] {
        let mut call = client.get(format!("https://127.0.0.1:{port}/{path}"));
        if let Some(token) = token {
            call = call.bearer_auth(token);
        }
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path} {token:?}");
        let text = answer.text().await.unwrap();
        assert_eq!(text.contains("capvco_vco_requests_total"), status == 200, "{text}");
    }
    let level = client.put(format!("https://127.0.0.1:{port}/log-level")).body("trace");
    let answer = level.bearer_auth(&reader).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 403, "not even from the machine itself");
    assert!(reqwest::get(format!("http://127.0.0.1:{port}/metrics")).await.is_err());
    stage.all_gone("c", &[]).await;
}
