//! The API server alone, and with its controllers.

use std::os::unix::fs::PermissionsExt as _;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::eventually;
use crate::support::peers::kube::KubePlane;
use crate::support::peers::{clean, run, tool};

fn map(name: &str) -> ConfigMap {
    let text = json!({"metadata": {"name": name}, "data": {"a": "b"}});
    serde_json::from_value(text).unwrap()
}

#[tokio::test]
async fn an_api_server_is_what_it_says_it_is() {
    let plane = KubePlane::shared();
    let says = run(clean(tool("kube-apiserver")).arg("--version")).expect(0).out;
    let version = plane.client().apiserver_version().await.unwrap();
    assert_eq!(says.trim(), format!("Kubernetes {}", version.git_version));
    let seen = plane.kubectl(&["version", "--output=json"]).expect(0).json();
    assert_eq!(seen["serverVersion"]["gitVersion"], version.git_version);
    let mode = plane.kubeconfig().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn whoever_shows_no_certificate_may_nothing() {
    let plane = KubePlane::shared();
    let mut config = plane.config();
    config.auth_info = kube::config::AuthInfo::default();
    let stranger: Api<Secret> = Api::all(Client::try_from(config).unwrap());
    let refused = stranger.list(&kube::api::ListParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("forbidden"), "{refused}");
}

#[tokio::test]
async fn those_who_share_one_do_not_meet() {
    let plane = KubePlane::shared();
    let client = plane.client();
    let names = [plane.namespace(), plane.namespace()];
    for name in &names {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), name);
        maps.create(&PostParams::default(), &map("same")).await.unwrap();
    }
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn the_kinds_of_cluster_api_and_ours_are_served() {
    let plane = KubePlane::shared();
    for (kind, version) in [
        ("clusters.cluster.x-k8s.io", "v1beta2"),
        ("kubeadmconfigs.bootstrap.cluster.x-k8s.io", "v1beta2"),
        ("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "v1beta2"),
        ("vcoclusters.infrastructure.cluster.x-k8s.io", "v1beta1"),
    ] {
        let shown = plane.kubectl(&["get", kind, "--all-namespaces", "-o", "json"]).expect(0);
        assert_eq!(shown.json()["kind"], "List", "{kind}");
        let label = plane.kubectl(&["get", "crd", kind, "-o", "json"]).expect(0).json();
        let versions = label["spec"]["versions"].as_array().unwrap();
        assert!(versions.iter().any(|one| one["name"] == version && one["storage"] == true));
    }
}

#[tokio::test]
async fn with_controllers_a_namespace_ends_with_all_that_is_in_it() {
    let plane = KubePlane::start().with_controller_manager();
    let (client, name) = (plane.client(), plane.namespace());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &name);
    let owner = maps.create(&PostParams::default(), &map("owner")).await.unwrap();
    let mut dependent = map("owned");
    dependent.metadata.owner_references = Some(vec![
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
        }))
        .unwrap(),
    ]);
    maps.create(&PostParams::default(), &dependent).await.unwrap();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    let gone = async || maps.get_opt("owned").await.unwrap().is_none();
    assert!(eventually(gone).await, "what was owned stays");

    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = async || namespaces.get_opt(&name).await.unwrap().is_none();
    assert!(eventually(gone).await, "the namespace stays");
}
